// SPDX-License-Identifier: Apache-2.0
// optimization_barrier: the identity, through which no optimisation may look.
#include <cstring>

#include "ops/define.h"

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
}  // namespace

TESSERA_DEFINE_OP(optimization_barrier, NoAttrs,
                  {
                      .name = "optimization_barrier",
                      .traits = {.linearity = Linearity::Joint},
                      .infer = [](TypeSpan in, const NoAttrs&) { return Types(in.begin(), in.end()); },
                      .factors =
                          [](TypeSpan in, TypeSpan, const NoAttrs&) {
                            FactorRule r;
                            for (const auto& t : in) {
                              FactorRule::Tensor dims;
                              for (auto extent : t.shape) dims.push_back({r.add(extent)});
                              r.operands.push_back(dims);
                            }
                            r.results = r.operands;
                            return r;
                          },
                      .remap = by_default,
                      .batch =
                          [](Builder&, const BatchArgs& a, const NoAttrs&) {
                            return Batched{optimization_barrier(a.in), a.batched};
                          },
                      .jvp = [](Builder&, const JvpArgs& a, const NoAttrs&) { return pass_present(a.tangents); },
                      .transpose = [](Builder&, const TransposeArgs& t, const NoAttrs&) { return pass_present(t.ct); },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (std::size_t i = 0; i < in.size(); ++i) {
                              auto bytes = out[i].size() * dtype_size(out[i].dtype);
                              if (bytes > 0) std::memcpy(out[i].data, in[i].data, at(bytes));
                            }
                          },
                      .samples =
                          [] {
                            return std::vector<Sample<NoAttrs>>{
                                {{Type{DType::F32, {4, 6}}}},
                                {{Type{DType::F32, {4, 6}}, Type{DType::I32, {5}}, Type{DType::F32, {}}}}};
                          },
                  });

Values optimization_barrier(ValueSpan values) {
  return values.empty() ? Values{} : values[0].builder->add(def::optimization_barrier, values);
}

}  // namespace tessera::ops
