// SPDX-License-Identifier: Apache-2.0
// optimization_barrier: the identity, through which no optimisation may look.
#include <cstring>

#include "ops/define_op.h"

namespace tessera::ops {

namespace {
// The barrier on those of `values` that are there.
Values pass_present(ValueSpan values) {
  Values present;
  for (const auto& v : values) {
    if (v) present.push_back(v);
  }
  Values passed = optimization_barrier(present);
  Values out(values.size());
  for (std::size_t i = 0, k = 0; i < values.size(); ++i) {
    if (values[i]) out[i] = passed[k++];
  }
  return out;
}

// Every dimension on its own, the same in operand and result.
FactorRule each_dimension(TypeSpan in) {
  FactorRule r;
  for (const auto& t : in) {
    FactorRule::Tensor dims;
    for (auto extent : t.shape) dims.push_back({r.add(extent)});
    r.operands.push_back(dims);
  }
  r.results = r.operands;
  return r;
}

void copy_all(ViewSpan in, ViewSpan out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    auto bytes = out[i].size() * dtype_size(out[i].dtype);
    if (bytes > 0) std::memcpy(out[i].data, in[i].data, at(bytes));
  }
}

std::vector<Sample<NoAttrs>> barrier_samples() {
  return {{{Type{DType::F32, {4, 6}}}}, {{Type{DType::F32, {4, 6}}, Type{DType::I32, {5}}, Type{DType::F32, {}}}}};
}
}  // namespace

TESSERA_DEFINE_OP(optimization_barrier, NoAttrs,
                  {
                      .name = "optimization_barrier",
                      .traits = {.linearity = Linearity::Joint, .own_dtypes = true, .exact = true},
                      .infer = [](TypeSpan in, const NoAttrs&) { return Types(in.begin(), in.end()); },
                      .factors = [](TypeSpan in, TypeSpan, const NoAttrs&) { return each_dimension(in); },
                      .remap = by_default,
                      .batch =
                          [](Builder&, const BatchArgs& a, const NoAttrs&) {
                            return Batched{optimization_barrier(a.in), a.batched};
                          },
                      .jvp = [](Builder&, const JvpArgs& a, const NoAttrs&) { return pass_present(a.tangents); },
                      .transpose = [](Builder&, const TransposeArgs& t, const NoAttrs&) { return pass_present(t.ct); },
                      .reference = [](ViewSpan in, ViewSpan out, const NoAttrs&) { copy_all(in, out); },
                      .samples = barrier_samples,
                  });

// Forward nothing happens, so a differentiated program holds no equation of it, only the barriers.
TESSERA_DEFINE_OP(backward_barrier, NoAttrs,
                  {
                      .name = "backward_barrier",
                      .traits = {.own_dtypes = true},
                      .infer = [](TypeSpan in, const NoAttrs&) { return Types(in.begin(), in.end()); },
                      .factors = [](TypeSpan in, TypeSpan, const NoAttrs&) { return each_dimension(in); },
                      .remap = by_default,
                      .batch =
                          [](Builder&, const BatchArgs& a, const NoAttrs&) {
                            return Batched{backward_barrier(a.in), a.batched};
                          },
                      .jvp = [](Builder&, const JvpArgs& a, const NoAttrs&) { return pass_present(a.tangents); },
                      .transpose = Never{"differentiation takes it away"},
                      .dual =
                          [](Builder&, const ir::DualArgs& a, const NoAttrs&) {
                            return ir::Duals{Values(a.in.begin(), a.in.end()), pass_present(a.tangents)};
                          },
                      .reference = [](ViewSpan in, ViewSpan out, const NoAttrs&) { copy_all(in, out); },
                      .samples = barrier_samples,
                  });

Values optimization_barrier(ValueSpan values) {
  return values.empty() ? Values{} : values[0].builder->add(def::optimization_barrier, values);
}

Values backward_barrier(ValueSpan values) {
  return values.empty() ? Values{} : values[0].builder->add(def::backward_barrier, values);
}

}  // namespace tessera::ops
