// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

ConvolveMode mode_of(const Params& p, const std::string& otherwise) {
  const std::string mode = p.text("mode", otherwise);
  return mode == "full" ? ConvolveMode::Full : mode == "same" ? ConvolveMode::Same : ConvolveMode::Valid;
}
std::optional<Array> second(const Arrays& a) { return a.size() > 1 ? std::optional(a[1]) : std::nullopt; }

void add_polynomials(Table& t) {
  t["jnp.polyval"] = binary(polyval);
  t["jnp.polyadd"] = binary(polyadd);
  t["jnp.polysub"] = binary(polysub);
  t["jnp.polymul"] = binary(polymul);
  t["jnp.polydiv"] = binary2(polydiv);
  t["jnp.polyder"] = one([](const Arrays& a, const Params& p) { return polyder(a[0], p.integer("m", 1)); });
  t["jnp.polyint"] = one([](const Arrays& a, const Params& p) { return polyint(a[0], p.integer("m", 1)); });
  t["jnp.poly"] = unary(poly);
  t["jnp.polyfit"] = one([](const Arrays& a, const Params& p) { return polyfit(a[0], a[1], p.integer("deg")); });
}

void add_products_of(Table& t) {
  t["jnp.dot"] = one([](const Arrays& a, const Params&) { return dot(a[0], a[1]); });
  t["jnp.vdot"] = one([](const Arrays& a, const Params&) { return vdot(a[0], a[1]); });
  t["jnp.inner"] = one([](const Arrays& a, const Params&) { return inner(a[0], a[1]); });
  t["jnp.outer"] = binary(outer);
  t["jnp.kron"] = binary(kron);
  t["jnp.cross"] = one([](const Arrays& a, const Params& p) {
    return cross(a[0], a[1], {p.integer("axisa", -1), p.integer("axisb", -1), p.integer("axisc", -1)});
  });
  t["jnp.vecdot"] = one([](const Arrays& a, const Params& p) { return vecdot(a[0], a[1], p.integer("axis", -1)); });
  t["jnp.matvec"] = binary(matvec);
  t["jnp.vecmat"] = binary(vecmat);
  t["jnp.tensordot"] = one([](const Arrays& a, const Params& p) {
    if (p.is_integer("axes")) return tensordot(a[0], a[1], p.integer("axes"));
    const auto axes = p.lists("axes");
    return tensordot(a[0], a[1], axes.at(0), axes.at(1));
  });
}

}  // namespace

void add_calculus(Table& t) {
  add_polynomials(t);
  add_products_of(t);
  t["jnp.diff"] = one([](const Arrays& a, const Params& p) {
    DiffOptions o{.n = p.integer("n", 1), .axis = p.integer("axis", -1)};
    return diff(a[0], o);
  });
  t["program.diff_ends"] =
      one([](const Arrays& a, const Params&) { return diff(a[0], {.prepend = a[1], .append = a[2]}); });
  t["jnp.ediff1d"] = one([](const Arrays& a, const Params&) { return ediff1d(a[0]); });
  t["jnp.gradient"] = [](const Arrays& a, const Params& p) {
    return gradient(a[0], Arrays(a.begin() + 1, a.end()), p.maybe_dims("axis"));
  };
  t["jnp.trapezoid"] = one([](const Arrays& a, const Params& p) {
    return trapezoid(a[0], second(a), p.real("dx", 1), p.integer("axis", -1));
  });
  t["jnp.interp"] = one([](const Arrays& a, const Params& p) {
    InterpOptions o{.extrapolate = p.has("left") && p.is_text("left"), .period = p.maybe_real("period")};
    if (p.has("left") && !p.is_text("left")) o.left = Array(p.real("left"));
    if (p.has("right") && !p.is_text("right")) o.right = Array(p.real("right"));
    return interp(a[0], a[1], a[2], o);
  });
  t["jnp.unwrap"] = one([](const Arrays& a, const Params& p) {
    return unwrap(a[0], p.maybe_real("discont"), p.integer("axis", -1), p.real("period", 6.283185307179586));
  });
  t["jnp.convolve"] = one([](const Arrays& a, const Params& p) { return convolve(a[0], a[1], mode_of(p, "full")); });
  t["jnp.correlate"] = one([](const Arrays& a, const Params& p) { return correlate(a[0], a[1], mode_of(p, "valid")); });
}

}  // namespace tessera::oracle
