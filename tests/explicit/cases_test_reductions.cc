// SPDX-License-Identifier: Apache-2.0
// Reductions, cumulative operations, sorting and linear algebra.
#include "explicit/ops.h"

namespace tessera::test {

namespace {

Function reduced(Array (*f)(const Operand&, const Dims&)) {
  return one([f](const Call& c) { return f(c.x(), c.dims("axes")); });
}
Function numpy_reduced(Array (*f)(const Operand&, const ReduceOptions&)) {
  return one([f](const Call& c) {
    return f(c.x(), {.axis = c.maybe_dims("axis"), .keepdims = c.flag("keepdims"), .out_sharding = c.out});
  });
}
Function spread(Array (*f)(const Operand&, const VarOptions&)) {
  return one([f](const Call& c) { return f(c.x(), {.axis = c.maybe_dims("axis"), .keepdims = c.flag("keepdims")}); });
}
Function cumulative(Array (*f)(const Operand&, std::int64_t, bool)) {
  return one([f](const Call& c) { return f(c.x(), c.integer("axis", 0), c.flag("reverse")); });
}

lax::Reducer reducer_of(const std::string& name) {
  using Step = Array (*)(const Operand&, const Operand&);
  const Step step = name == "add"   ? static_cast<Step>(add)
                    : name == "mul" ? static_cast<Step>(multiply)
                    : name == "max" ? static_cast<Step>(maximum)
                                    : static_cast<Step>(minimum);
  return [step](const Arrays& a, const Arrays& b) { return Arrays{step(a[0], b[0])}; };
}

Array windowed(const Call& c) {
  lax::WindowOptions o;
  const Dims window = c.dims("window_dimensions");
  o.strides = c.has("window_strides") ? c.dims("window_strides") : Dims{};
  const json& padding = c.params.at("padding");
  if (padding.is_string()) {
    o.same = padding == "SAME";
  } else {
    for (const auto& p : padding) o.padding.push_back({p[0], p[1], 0});
  }
  const std::string how = c.params.at("computation");
  if (how == "add") return lax::reduce_window_sum(c.x(), window, o);
  if (how == "max") return lax::reduce_window_max(c.x(), window, o);
  return lax::reduce_window_min(c.x(), window, o);
}

Arrays pair_of(const std::pair<Array, Array>& p) { return {p.first, p.second}; }

}  // namespace

void add_reductions(Table& t) {
  t["lax.reduce_sum"] = one([](const Call& c) { return lax::reduce_sum(c.x(), c.dims("axes"), c.place()); });
  t["lax.reduce_prod"] = reduced(lax::reduce_prod);
  t["lax.reduce_max"] = reduced(lax::reduce_max);
  t["lax.reduce_min"] = reduced(lax::reduce_min);
  t["lax.reduce_and"] = reduced(lax::reduce_and);
  t["lax.reduce_or"] = reduced(lax::reduce_or);
  t["lax.reduce_xor"] = reduced(lax::reduce_xor);
  t["jnp.sum"] = numpy_reduced(sum);
  t["jnp.prod"] = numpy_reduced(prod);
  t["jnp.mean"] = numpy_reduced(mean);
  t["jnp.max"] = numpy_reduced(max);
  t["jnp.min"] = numpy_reduced(min);
  t["jnp.all"] = numpy_reduced(all);
  t["jnp.any"] = numpy_reduced(any);
  t["jnp.count_nonzero"] = numpy_reduced(count_nonzero);
  t["jax.nn.logsumexp"] = numpy_reduced(logsumexp);
  t["jnp.var"] = spread(var);
  t["jnp.std"] = spread(std_);
  t["jnp.median"] = one([](const Call& c) { return median(c.x(), {.axis = c.maybe_dims("axis")}); });
  t["jnp.linalg.norm"] = one([](const Call& c) { return linalg::norm(c.x(), {.axis = c.maybe_dims("axis")}); });
  t["jax.nn.softmax"] = one([](const Call& c) { return softmax(c.x(), c.integer("axis", -1)); });
  t["lax.argmax"] = one([](const Call& c) { return lax::argmax(c.x(), c.integer("axis")); });
  t["lax.argmin"] = one([](const Call& c) { return lax::argmin(c.x(), c.integer("axis")); });
  t["jnp.argmax"] = one([](const Call& c) { return argmax(c.x(), c.maybe_integer("axis"), c.flag("keepdims")); });
  t["jnp.argmin"] = one([](const Call& c) { return argmin(c.x(), c.maybe_integer("axis"), c.flag("keepdims")); });
  t["lax.reduce"] = [](const Call& c) {
    return lax::reduce({c.x()}, {c.x(1)}, reducer_of(c.params.at("computation")), c.dims("dimensions"), c.place());
  };
  t["lax.reduce_window"] = one(windowed);

  t["lax.cumsum"] = cumulative(lax::cumsum);
  t["lax.cumprod"] = cumulative(lax::cumprod);
  t["lax.cummax"] = cumulative(lax::cummax);
  t["lax.cummin"] = cumulative(lax::cummin);
  t["lax.cumlogsumexp"] = cumulative(lax::cumlogsumexp);
  t["jnp.cumsum"] = one([](const Call& c) { return cumsum(c.x(), c.maybe_integer("axis")); });
  t["lax.associative_scan"] = one([](const Call& c) {
    return associative_scan([](const Array& a, const Array& b) { return a + b; }, c.x(), false, c.integer("axis", 0));
  });

  t["lax.sort"] = [](const Call& c) { return lax::sort(c.in, c.integer("dimension", -1), c.integer("num_keys", 1)); };
  t["jnp.sort"] = one([](const Call& c) { return sort(c.x(), c.integer("axis", -1)); });
  t["jnp.argsort"] = one([](const Call& c) { return argsort(c.x(), c.integer("axis", -1)); });
  t["lax.top_k"] = [](const Call& c) { return pair_of(lax::top_k(c.x(), c.integer("k"), c.integer("axis", -1))); };
  t["lax.approx_max_k"] = [](const Call& c) {
    return pair_of(lax::approx_max_k(c.x(), c.integer("k"), c.integer("reduction_dimension", -1)));
  };
  t["jnp.searchsorted"] = one([](const Call& c) { return searchsorted(c.x(), c.x(1)); });

  t["lax.linalg.cholesky"] = unary(linalg::cholesky);
  t["lax.linalg.qr"] = [](const Call& c) {
    const auto f = linalg::qr(c.x());
    return Arrays{f.q, f.r};
  };
  t["lax.linalg.eigh"] = [](const Call& c) {
    const auto f = linalg::eigh(c.x());
    return Arrays{f.eigenvectors, f.eigenvalues};
  };
  t["lax.linalg.svd"] = [](const Call& c) {
    const auto f = linalg::svd(c.x());
    return Arrays{f.u, f.s, f.vh};
  };
  t["lax.linalg.lu"] = [](const Call& c) {
    const auto f = linalg::lu(c.x());
    return Arrays{f.lu, f.pivots, f.permutation};
  };
  t["lax.linalg.triangular_solve"] =
      one([](const Call& c) { return linalg::triangular_solve(c.x(), c.x(1), {.left_side = c.flag("left_side")}); });
  t["jnp.fft.fft"] = one([](const Call& c) { return fft::fft(c.x(), {.axis = c.integer("axis", -1)}); });
}

}  // namespace tessera::test
