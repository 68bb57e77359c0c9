// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"

namespace tessera::oracle {

namespace {

ReduceOptions reduce_options(const Params& p) {
  return {.axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims"), .dtype = p.maybe_dtype("dtype")};
}
VarOptions var_options(const Params& p) {
  return {.axis = p.maybe_dims("axis"), .ddof = p.real("ddof", 0), .keepdims = p.flag("keepdims")};
}

lax::WindowOptions window_options(const Params& p) {
  lax::WindowOptions o{.strides = p.dims("window_strides")};
  o.base_dilation = p.maybe_dims("base_dilation").value_or(Dims{});
  o.window_dilation = p.maybe_dims("window_dilation").value_or(Dims{});
  if (p.is_text("padding")) {
    o.same = p.text("padding") == "SAME";
  } else {
    for (const Dims& d : p.lists("padding")) o.padding.push_back({d[0], d[1], 0});
  }
  return o;
}
Array reduce_window(const Arrays& a, const Params& p) {
  const Dims window = p.dims("window_dimensions");
  const std::string computation = p.text("computation");
  return computation == "add"   ? lax::reduce_window_sum(a[0], window, window_options(p))
         : computation == "max" ? lax::reduce_window_max(a[0], window, window_options(p))
                                : lax::reduce_window_min(a[0], window, window_options(p));
}

void add_along(Table& t) {
  t["lax.argmax"] = one(
      [](const Arrays& a, const Params& p) { return lax::argmax(a[0], p.integer("axis"), p.dtype("index_dtype")); });
  t["lax.argmin"] = one(
      [](const Arrays& a, const Params& p) { return lax::argmin(a[0], p.integer("axis"), p.dtype("index_dtype")); });
  t["jnp.argmax"] =
      one([](const Arrays& a, const Params& p) { return argmax(a[0], p.maybe_integer("axis"), p.flag("keepdims")); });
  t["jnp.argmin"] =
      one([](const Arrays& a, const Params& p) { return argmin(a[0], p.maybe_integer("axis"), p.flag("keepdims")); });
  const std::map<std::string, Array (*)(const Operand&, std::int64_t, bool)> running = {
      {"cumsum", lax::cumsum}, {"cumprod", lax::cumprod},           {"cummax", lax::cummax},
      {"cummin", lax::cummin}, {"cumlogsumexp", lax::cumlogsumexp},
  };
  for (const auto& [name, f] : running) {
    t["lax." + name] =
        one([f = f](const Arrays& a, const Params& p) { return f(a[0], p.integer("axis"), p.flag("reverse")); });
  }
  t["jnp.cumsum"] = one([](const Arrays& a, const Params& p) { return cumsum(a[0], p.maybe_integer("axis")); });
  t["jnp.cumprod"] = one([](const Arrays& a, const Params& p) { return cumprod(a[0], p.maybe_integer("axis")); });
}

void add_windows(Table& t) {
  t["lax.reduce_window"] = one(reduce_window);
  t["program.max_pool"] = one([](const Arrays& a, const Params&) {
    return lax::reduce_window_max(a[0], {1, 2, 2, 1}, {.strides = {1, 2, 2, 1}});
  });
  t["program.max_pool_overlap"] = one([](const Arrays& a, const Params&) {
    return lax::reduce_window_max(a[0], {1, 3, 3, 1}, {.strides = {1, 2, 2, 1}, .same = true});
  });
  t["program.avg_pool"] = one([](const Arrays& a, const Params&) {
    const lax::WindowOptions o{.strides = {1, 2, 2, 1}, .same = true};
    return lax::reduce_window_sum(a[0], {1, 2, 2, 1}, o) / lax::reduce_window_sum(ones_like(a[0]), {1, 2, 2, 1}, o);
  });
}

void add_order(Table& t) {
  t["lax.sort"] = [](const Arrays& a, const Params& p) {
    return lax::sort(a, p.integer("dimension"), p.integer("num_keys", 1), p.flag("is_stable", true));
  };
  t["lax.sort_key_val"] = [](const Arrays& a, const Params& p) { return lax::sort(a, p.integer("dimension"), 1); };
  t["lax.top_k"] = [](const Arrays& a, const Params& p) {
    const auto [values, positions] = lax::top_k(a[0], p.integer("k"));
    return Arrays{values, positions};
  };
  t["jnp.sort"] =
      one([](const Arrays& a, const Params& p) { return sort(a[0], p.integer("axis", -1), p.flag("descending")); });
  t["jnp.argsort"] =
      one([](const Arrays& a, const Params& p) { return argsort(a[0], p.integer("axis", -1), p.flag("descending")); });
  t["jnp.searchsorted"] =
      one([](const Arrays& a, const Params& p) { return searchsorted(a[0], a[1], p.text("side", "left") == "right"); });
}

}  // namespace

void add_reductions(Table& t) {
  add_along(t);
  add_windows(t);
  add_order(t);
  const std::map<std::string, Array (*)(const Operand&, const ReduceOptions&)> reduces = {
      {"jnp.sum", sum},
      {"jnp.prod", prod},
      {"jnp.mean", mean},
      {"jnp.max", max},
      {"jnp.min", min},
      {"jnp.any", any},
      {"jnp.all", all},
      {"nn.logsumexp", logsumexp},
      {"special.logsumexp", logsumexp},
  };
  for (const auto& [name, f] : reduces) {
    t[name] = one([f](const Arrays& a, const Params& p) { return f(a[0], reduce_options(p)); });
  }
  t["jnp.var"] = one([](const Arrays& a, const Params& p) { return var(a[0], var_options(p)); });
  t["jnp.std"] = one([](const Arrays& a, const Params& p) { return std_(a[0], var_options(p)); });
}

}  // namespace tessera::oracle
