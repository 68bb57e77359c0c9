// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

Array range(const Arrays& a, const Params& p) {
  const auto dtype = p.maybe_dtype("dtype");
  const bool whole = std::all_of(a.begin(), a.end(), [](const Array& x) { return is_integer(x.dtype()); });
  auto at = [&](std::size_t i) { return a[i].item<double>(); };
  auto n = [&](std::size_t i) { return a[i].item<std::int64_t>(); };
  if (!whole) {
    const DType t = dtype.value_or(float32);
    return a.size() == 1 ? arange(at(0), t) : a.size() == 2 ? arange(at(0), at(1), t) : arange(at(0), at(1), at(2), t);
  }
  const std::int64_t start = a.size() > 1 ? n(0) : 0, stop = n(a.size() > 1 ? 1 : 0), step = a.size() > 2 ? n(2) : 1;
  return dtype ? arange(start, stop, step, *dtype) : arange(start, stop, step);
}
SpaceOptions space(const Params& p) {
  return {.endpoint = p.flag("endpoint", true), .dtype = p.maybe_dtype("dtype"), .axis = p.integer("axis", 0)};
}
Arrays pair_of(const std::pair<Array, Array>& p) { return {p.first, p.second}; }

}  // namespace

void add_creation(Table& t) {
  t["jnp.arange"] = one(range);
  t["jnp.linspace"] =
      one([](const Arrays& a, const Params& p) { return linspace(a[0], a[1], p.integer("num", 50), space(p)); });
  t["jnp.logspace"] = one([](const Arrays& a, const Params& p) {
    return logspace(a[0], a[1], p.integer("num", 50), p.real("base", 10), space(p));
  });
  t["jnp.geomspace"] =
      one([](const Arrays& a, const Params& p) { return geomspace(a[0], a[1], p.integer("num", 50), space(p)); });
  t["jnp.asarray"] = one([](const Arrays& a, const Params& p) { return asarray(a[0], p.maybe_dtype("dtype")); });
  t["jnp.diag"] = one([](const Arrays& a, const Params& p) { return diag(a[0], p.integer("k", 0)); });
  t["jnp.diagflat"] = one([](const Arrays& a, const Params& p) { return diagflat(a[0], p.integer("k", 0)); });
  t["jnp.vander"] =
      one([](const Arrays& a, const Params& p) { return vander(a[0], p.maybe_integer("N"), p.flag("increasing")); });
  t["jnp.meshgrid"] = [](const Arrays& a, const Params& p) {
    return meshgrid(a, {.matrix_indexing = p.text("indexing", "xy") == "ij", .sparse = p.flag("sparse")});
  };
  t["jnp.indices"] = one([](const Arrays&, const Params& p) { return indices(p.dims("dimensions")); });
  t["jnp.tril_indices"] = [](const Arrays&, const Params& p) {
    return pair_of(tril_indices(p.integer("n"), p.integer("k", 0), p.maybe_integer("m")));
  };
  t["jnp.triu_indices"] = [](const Arrays&, const Params& p) {
    return pair_of(triu_indices(p.integer("n"), p.integer("k", 0), p.maybe_integer("m")));
  };
  t["jnp.diag_indices"] = [](const Arrays&, const Params& p) {
    return diag_indices(p.integer("n"), p.integer("ndim", 2));
  };
  const std::map<std::string, Array (*)(std::int64_t, const Loc&)> windows = {
      {"bartlett", bartlett}, {"blackman", blackman}, {"hamming", hamming}, {"hanning", hanning}};
  for (const auto& [name, f] : windows) {
    t["jnp." + name] = one([f = f](const Arrays&, const Params& p) { return f(p.integer("M"), Loc::current()); });
  }
  t["jnp.kaiser"] = one([](const Arrays&, const Params& p) { return kaiser(p.integer("M"), p.real("beta")); });
}

}  // namespace tessera::oracle
