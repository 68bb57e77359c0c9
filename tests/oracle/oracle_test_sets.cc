// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"

namespace tessera::oracle {

namespace {

SizeOptions size_options(const Params& p) {
  return {.size = p.maybe_integer("size"), .fill_value = p.maybe_real("fill_value")};
}
using SetFunction = Array (*)(const Operand&, const Operand&, const SizeOptions&);

}  // namespace

void add_sets(Table& t) {
  t["jnp.nonzero"] = [](const Arrays& a, const Params& p) { return nonzero(a[0], size_options(p)); };
  t["jnp.flatnonzero"] = one([](const Arrays& a, const Params& p) { return flatnonzero(a[0], size_options(p)); });
  t["jnp.argwhere"] = one([](const Arrays& a, const Params& p) { return argwhere(a[0], size_options(p)); });
  t["jnp.compress"] = one(
      [](const Arrays& a, const Params& p) { return compress(a[0], a[1], p.maybe_integer("axis"), size_options(p)); });
  t["jnp.extract"] = one([](const Arrays& a, const Params& p) { return extract(a[0], a[1], size_options(p)); });
  t["jnp.unique"] = [](const Arrays& a, const Params& p) {
    if (!p.flag("return_index")) return Arrays{unique(a[0], size_options(p))};
    const auto u = unique_all(a[0], size_options(p));
    return Arrays{u.values, u.indices, u.inverse, u.counts};
  };
  t["jnp.isin"] = one([](const Arrays& a, const Params& p) { return isin(a[0], a[1], p.flag("invert")); });
  const std::map<std::string, SetFunction> sets = {
      {"intersect1d", intersect1d}, {"union1d", union1d}, {"setdiff1d", setdiff1d}, {"setxor1d", setxor1d}};
  for (const auto& [name, f] : sets) {
    t["jnp." + name] = one([f = f](const Arrays& a, const Params& p) { return f(a[0], a[1], size_options(p)); });
  }
  t["program.lexsort"] = one([](const Arrays& a, const Params&) { return lexsort(a); });
  // What a partition promises: its element kth, and which stand in front of it.
  t["program.partition_forms"] = [](const Arrays& a, const Params& p) {
    const Array y = partition(a[0], p.integer("kth"));
    return Arrays{sort(lax::slice_in_dim(y, 0, p.integer("kth"))), take(y, p.integer("kth"), 0)};
  };
  t["jnp.unravel_index"] = [](const Arrays& a, const Params& p) { return unravel_index(a[0], p.dims("shape")); };
  t["program.ravel_multi_index"] = one([](const Arrays& a, const Params& p) {
    return ravel_multi_index(a, p.dims("dims"), p.text("mode") == "wrap" ? RavelMode::Wrap : RavelMode::Clip);
  });
  t["program.ix"] = [](const Arrays& a, const Params&) { return ix_(a); };
}

}  // namespace tessera::oracle
