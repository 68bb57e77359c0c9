// SPDX-License-Identifier: Apache-2.0
// Calls of sub-graphs with a say in their derivatives, and calls of functions of the host.
#pragma once

#include <functional>
#include <string>

#include "ops/shared_attrs.h"
#include "ops/transform/graph_rules.h"

namespace tessera::ops {

/// Results of `body`. Its derivative keeps the inputs alone and computes the rest again (jax.checkpoint).
Values checkpoint(Builder& b, const GraphPtr& body, ValueSpan in, const std::string& name = "checkpoint");

/// Results and tangents from inputs and tangents: a tangent for each inexact input (zeros where it has none), empty for
/// the others; to return: the same for the results, empty for zero. Results must not be computed from tangents.
struct CustomJvp {
  std::function<ir::Duals(Builder&, ValueSpan in, ValueSpan tangents)> jvp;
};
Values custom_jvp_call(Builder& b, const GraphPtr& body, CustomJvp rule, ValueSpan in, const std::string& name);

/// `fwd`: the results, then whatever `bwd` wants to keep. `bwd`: a cotangent an input, empty for zero, from what was
/// kept and a cotangent for each inexact result (zeros where it has none), empty for the others.
struct CustomVjp {
  std::function<Values(Builder&, ValueSpan in)> fwd;
  std::function<Values(Builder&, ValueSpan kept, ValueSpan ct)> bwd;
};
Values custom_vjp_call(Builder& b, const GraphPtr& body, CustomVjp rule, ValueSpan in, const std::string& name);

/// A function of the host: arrays to arrays. It may be called from any thread.
using HostFunction = std::function<std::vector<HostArray>(const std::vector<HostArray>&)>;

/// Attributes of the three callbacks. `vmap_method` of a pure one: "sequential" (once an element of the batch),
/// "expand_dims" (once; operands that are not batched get a dimension of 1 in front) or "broadcast_all" (once; they are
/// repeated). The others run once an element.
struct Callback {
  ir::Opaque function;  ///< a HostFunction
  ir::Types results;
  std::string vmap_method;
  bool ordered = false;  ///< io_callback, debug_callback: in program order; cannot be batched
  bool once = false;     ///< io_callback: by one device for all, and not by each
  /// pure_callback: so many leading dimensions of all operands and results are batches, which may be split; such a
  /// function takes any batch, from any thread.
  std::int64_t batch_dims = 0;
  bool partitioned = false;  ///< io_callback without results: each device calls with its own shards, as they are split
  static constexpr auto fields = std::tuple{field("function", &Callback::function),
                                            field("results", &Callback::results),
                                            field("vmap_method", &Callback::vmap_method),
                                            field("ordered", &Callback::ordered),
                                            field("once", &Callback::once),
                                            field("batch_dims", &Callback::batch_dims),
                                            field("partitioned", &Callback::partitioned)};
};
ir::Opaque host_function(HostFunction f, std::string label);

}  // namespace tessera::ops
