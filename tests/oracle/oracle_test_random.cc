// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/numpy.h"
#include "tessera/random.h"

namespace tessera::oracle {

namespace {

Shape shape_of(const Params& p) { return p.has("shape") ? p.dims("shape") : Shape{}; }
DType dtype_of(const Params& p) { return p.dtype("dtype", float32); }

using Draw = Array (*)(const Operand&, const Shape&, DType);
Function draw(Draw f) {
  return one([f](const Arrays& a, const Params& p) { return f(a[0], shape_of(p), dtype_of(p)); });
}

Array split_keys(const Array& key, const Params& p) {
  if (!p.is_list("num")) return random::split(key, p.integer("num", 2));
  Shape shape = p.dims("num");
  Array flat = random::split(key, size_of(shape));
  shape.push_back(2);
  return reshape(flat, shape);
}

using Parameter = Array (*)(const Operand&, const Operand&, const MaybeDims&, DType);
Function with_parameter(Parameter f, DType otherwise = float32) {
  return one([f, otherwise](const Arrays& a, const Params& p) {
    return f(a[0], a[1], p.maybe_dims("shape"), p.dtype("dtype", otherwise));
  });
}
using Parameters = Array (*)(const Operand&, const Operand&, const Operand&, const MaybeDims&, DType);
Function with_parameters(Parameters f) {
  return one([f](const Arrays& a, const Params& p) { return f(a[0], a[1], a[2], p.maybe_dims("shape"), dtype_of(p)); });
}

void add_distributions(Table& t) {
  const std::map<std::string, Parameter> one_parameter = {{"gamma", random::gamma},
                                                          {"loggamma", random::loggamma},
                                                          {"dirichlet", random::dirichlet},
                                                          {"chisquare", random::chisquare},
                                                          {"t", random::t},
                                                          {"pareto", random::pareto},
                                                          {"rayleigh", random::rayleigh},
                                                          {"lognormal", random::lognormal},
                                                          {"wald", random::wald}};
  for (const auto& [name, f] : one_parameter) t["random." + name] = with_parameter(f);
  t["random.poisson"] = with_parameter(random::poisson, int32);
  t["random.geometric"] = with_parameter(random::geometric, int32);
  const std::map<std::string, Parameters> two_parameters = {
      {"beta", random::beta}, {"f", random::f}, {"binomial", random::binomial}, {"multinomial", random::multinomial}};
  for (const auto& [name, f] : two_parameters) t["random." + name] = with_parameters(f);
  t["random.weibull_min"] = one(
      [](const Arrays& a, const Params& p) { return random::weibull_min(a[0], a[1], a[2], shape_of(p), dtype_of(p)); });
  t["random.triangular"] = one([](const Arrays& a, const Params& p) {
    return random::triangular(a[0], a[1], a[2], a[3], p.maybe_dims("shape"), dtype_of(p));
  });
  t["random.maxwell"] = draw(random::maxwell);
  t["random.double_sided_maxwell"] = one([](const Arrays& a, const Params& p) {
    return random::double_sided_maxwell(a[0], a[1], a[2], shape_of(p), dtype_of(p));
  });
  t["random.generalized_normal"] = one([](const Arrays& a, const Params& p) {
    return random::generalized_normal(a[0], a[1], shape_of(p), dtype_of(p));
  });
  t["random.ball"] = one([](const Arrays& a, const Params& p) {
    return random::ball(a[0], p.integer("d"), p.real("p", 2), shape_of(p), dtype_of(p));
  });
  t["random.orthogonal"] = one([](const Arrays& a, const Params& p) {
    return random::orthogonal(a[0], p.integer("n"), shape_of(p), dtype_of(p), p.maybe_integer("m"));
  });
  t["random.multivariate_normal"] = one([](const Arrays& a, const Params& p) {
    return random::multivariate_normal(a[0], a[1], a[2], p.maybe_dims("shape"));
  });
}

}  // namespace

void add_random(Table& t) {
  t["random.key"] = one([](const Arrays& a, const Params&) { return random::key(a[0].item<std::int64_t>()); });
  t["random.split"] = one([](const Arrays& a, const Params& p) { return split_keys(a[0], p); });
  t["random.fold_in"] = one([](const Arrays& a, const Params&) { return random::fold_in(a[0], a[1]); });
  t["random.bits"] =
      one([](const Arrays& a, const Params& p) { return random::bits(a[0], shape_of(p), p.dtype("dtype", uint32)); });
  t["random.uniform"] = one([](const Arrays& a, const Params& p) {
    return random::uniform(a[0], shape_of(p), dtype_of(p), p.real("minval", 0), p.real("maxval", 1));
  });
  t["random.randint"] = one([](const Arrays& a, const Params& p) {
    return random::randint(a[0], shape_of(p), p.integer("minval"), p.integer("maxval"), p.dtype("dtype", int32));
  });
  t["random.normal"] = draw(random::normal);
  t["random.gumbel"] = draw(random::gumbel);
  t["random.exponential"] = draw(random::exponential);
  t["random.laplace"] = draw(random::laplace);
  t["random.logistic"] = draw(random::logistic);
  t["random.cauchy"] = draw(random::cauchy);
  t["random.rademacher"] = draw(random::rademacher);
  t["random.truncated_normal"] = one([](const Arrays& a, const Params& p) {
    return random::truncated_normal(a[0], p.real("lower"), p.real("upper"), shape_of(p), dtype_of(p));
  });
  t["random.bernoulli"] = one([](const Arrays& a, const Params& p) {
    const Operand probability = a.size() > 1 ? Operand(a[1]) : Operand(p.real("p", 0.5));
    return random::bernoulli(a[0], probability, p.maybe_dims("shape"));
  });
  t["random.categorical"] = one([](const Arrays& a, const Params& p) {
    return random::categorical(a[0], a[1], p.integer("axis", -1), p.maybe_dims("shape"));
  });
  t["random.permutation"] = one([](const Arrays& a, const Params& p) {
    return a[1].ndim() == 0 ? random::permutation(a[0], a[1].item<std::int64_t>())
                            : random::permutation(a[0], a[1], p.integer("axis", 0));
  });
  add_distributions(t);
  t["random.choice"] = one([](const Arrays& a, const Params& p) {
    if (a[1].ndim() > 0) {
      random::ChoiceOptions o{.replace = p.flag("replace", true), .axis = p.integer("axis", 0)};
      if (a.size() > 2) o.p = a[2];
      return random::choice(a[0], a[1], shape_of(p), o);
    }
    return random::choice(a[0], a[1].item<std::int64_t>(), shape_of(p), p.flag("replace", true));
  });
  t["program.split_chain"] = [](const Arrays& a, const Params&) {
    const auto keys = random::split_keys(a[0]);
    const Array c = random::fold_in(keys[1], 7);
    return Arrays{random::bits(keys[0], {3}), random::bits(c, {3}), random::split(c, 3)};
  };
}

}  // namespace tessera::oracle
