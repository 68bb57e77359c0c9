// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

void add_elementary(Table& t) {
  const std::map<std::string, Array (*)(const Operand&)> one_operand = {{"positive", positive},
                                                                        {"fabs", fabs},
                                                                        {"deg2rad", deg2rad},
                                                                        {"rad2deg", rad2deg},
                                                                        {"radians", radians},
                                                                        {"degrees", degrees},
                                                                        {"sinc", sinc},
                                                                        {"i0", i0},
                                                                        {"signbit", signbit},
                                                                        {"spacing", spacing},
                                                                        {"isposinf", isposinf},
                                                                        {"isneginf", isneginf},
                                                                        {"isreal", isreal},
                                                                        {"iscomplex", iscomplex},
                                                                        {"bitwise_count", bitwise_count},
                                                                        {"sort_complex", sort_complex},
                                                                        {"arcsin", arcsin},
                                                                        {"arccos", arccos},
                                                                        {"arccosh", arccosh},
                                                                        {"arctanh", arctanh}};
  for (const auto& [name, f] : one_operand) t["jnp." + name] = unary(f);
  const std::map<std::string, Array (*)(const Operand&, const Operand&)> two_operands = {{"float_power", float_power},
                                                                                         {"fmax", fmax},
                                                                                         {"fmin", fmin},
                                                                                         {"hypot", hypot},
                                                                                         {"logaddexp", logaddexp},
                                                                                         {"logaddexp2", logaddexp2},
                                                                                         {"heaviside", heaviside},
                                                                                         {"copysign", copysign},
                                                                                         {"ldexp", ldexp},
                                                                                         {"gcd", gcd},
                                                                                         {"lcm", lcm},
                                                                                         {"array_equiv", array_equiv},
                                                                                         {"left_shift", left_shift},
                                                                                         {"right_shift", right_shift}};
  for (const auto& [name, f] : two_operands) t["jnp." + name] = binary(f);
  t["jnp.frexp"] = unary2(frexp);
  t["jnp.modf"] = unary2(modf);
  t["jnp.divmod"] = binary2(divmod);
  t["jnp.angle"] = one([](const Arrays& a, const Params& p) { return angle(a[0], p.flag("deg")); });
  auto close = [](const Params& p) {
    return CloseOptions{.rtol = p.real("rtol", 1e-5), .atol = p.real("atol", 1e-8), .equal_nan = p.flag("equal_nan")};
  };
  t["jnp.isclose"] = one([close](const Arrays& a, const Params& p) { return isclose(a[0], a[1], close(p)); });
  t["jnp.allclose"] = one([close](const Arrays& a, const Params& p) { return allclose(a[0], a[1], close(p)); });
  t["jnp.array_equal"] =
      one([](const Arrays& a, const Params& p) { return array_equal(a[0], a[1], p.flag("equal_nan")); });
  t["jnp.nan_to_num"] = one([](const Arrays& a, const Params& p) {
    return nan_to_num(a[0],
                      {.nan = p.real("nan", 0), .posinf = p.maybe_real("posinf"), .neginf = p.maybe_real("neginf")});
  });
  t["program.select"] = one([](const Arrays& a, const Params&) { return select({a[0], a[1]}, {a[2], a[3]}, a[4]); });
  t["program.choose"] = one([](const Arrays& a, const Params& p) {
    return choose(a[0], Arrays(a.begin() + 1, a.end()), p.text("mode") == "wrap");
  });
}

}  // namespace

void add_special(Table& t) {
  add_elementary(t);
  const std::map<std::string, Array (*)(const Operand&)> one_operand = {{"entr", special::entr},
                                                                        {"logit", special::logit},
                                                                        {"expit", special::expit},
                                                                        {"ndtr", special::ndtr},
                                                                        {"log_ndtr", special::log_ndtr},
                                                                        {"ndtri", special::ndtri},
                                                                        {"gamma", special::gamma},
                                                                        {"gammasgn", special::gammasgn},
                                                                        {"gammaln", special::gammaln},
                                                                        {"factorial", special::factorial},
                                                                        {"erfcx", special::erfcx},
                                                                        {"i0", special::i0},
                                                                        {"i0e", special::i0e},
                                                                        {"i1", special::i1},
                                                                        {"i1e", special::i1e},
                                                                        {"spence", special::spence},
                                                                        {"digamma", digamma},
                                                                        {"erf", erf},
                                                                        {"erfc", erfc},
                                                                        {"erfinv", erf_inv}};
  for (const auto& [name, f] : one_operand) t["special." + name] = unary(f);
  const std::map<std::string, Array (*)(const Operand&, const Operand&)> two_operands = {
      {"xlogy", special::xlogy},
      {"xlog1py", special::xlog1py},
      {"rel_entr", special::rel_entr},
      {"kl_div", special::kl_div},
      {"gammainc", special::gammainc},
      {"gammaincc", special::gammaincc},
      {"beta", special::beta},
      {"betaln", special::betaln},
      {"poch", special::poch},
      {"boxcox", special::boxcox},
      {"boxcox1p", special::boxcox1p},
      {"polygamma", polygamma},
      {"zeta", zeta}};
  for (const auto& [name, f] : two_operands) t["special." + name] = binary(f);
  t["special.betainc"] = ternary(betainc);
  t["special.multigammaln"] =
      one([](const Arrays& a, const Params& p) { return special::multigammaln(a[0], p.integer("d")); });
  t["special.comb"] =
      one([](const Arrays& a, const Params& p) { return special::comb(a[0], a[1], p.flag("repetition")); });
}

}  // namespace tessera::oracle
