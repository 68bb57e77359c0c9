// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/define_op.h"
#include "ops/reduce/reduction.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

TESSERA_DEFINE_OP(reduce_xor, Axes,
                  {
                      .name = "reduce_xor",
                      .traits = {.whole_entry = ir::WholeEntry::Dropped},
                      .infer =
                          [](TypeSpan in, const Axes& p) {
                            check_count("reduce_xor", in, 1);
                            bool legal = is_bool(in[0].dtype) || is_integer(in[0].dtype);
                            check_kind("reduce_xor", in, 0, legal, "bool or integer");
                            check_axes("reduce_xor", "axes", p.axes, in[0].rank());
                            return Types{Type{in[0].dtype, reduced_shape(in[0].shape, p.axes), in[0].weak}};
                          },
                      // No collective combines partial results by exclusive or, so reduced axes stay whole.
                      .factors =
                          [](TypeSpan in, TypeSpan out, const Axes& p) {
                            Dims kept;
                            for (std::int64_t d = 0; d < in[0].rank(); ++d) {
                              if (std::find(p.axes.begin(), p.axes.end(), d) == p.axes.end()) kept.push_back(d);
                            }
                            return FactorRule::mapped(in[0], out[0], kept);
                          },
                      .remap = by_default,
                      .batch =
                          [](Builder&, const BatchArgs& a, const Axes& p) {
                            return Batched{{reduce_xor(a.in[0], shifted(p.axes))}, {true}};
                          },
                      .jvp = Never{"bool and integers have no tangent"},
                      .transpose = Never{"the op is not linear"},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const Axes& p) {
                            for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) store_bits(out[0], k, 0);
                            Dims strides = row_strides(out[0].shape);
                            std::int64_t i = 0;
                            for_each_position(in[0].shape, [&](const Dims& position) {
                              auto k = flat(reduced_shape(position, p.axes), strides);
                              store_bits(out[0], k, load_bits(out[0], k) ^ load_bits(in[0], i++));
                            });
                          },
                      .samples =
                          [] {
                            return std::vector<Sample<Axes>>{{{Type{DType::I32, {4, 6}}}, {{1}}},
                                                             {{Type{DType::Bool, {4, 6}}}, {{0}}},
                                                             {{Type{DType::U8, {2, 4, 3}}}, {{0, 2}}}};
                          },
                  });

Value reduce_xor(Value x, const Dims& axes) {
  return axes.empty() ? x : x.builder->add1(def::reduce_xor, {x}, attrs(Axes{axes}));
}

}  // namespace tessera::ops
