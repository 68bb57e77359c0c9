// SPDX-License-Identifier: Apache-2.0
// Named reductions over sliding windows.
#include <algorithm>
#include <utility>

#include "ops/reduce/reduction.h"
#include "ops/reduce/windows.h"

namespace tessera::ops {

namespace {

// Every element counts in the windows that held it: windows over the results, spread by their strides and padded so
// that each element meets all of its windows.
Values sum_transpose(Builder& b, const TransposeArgs& t, const Window& w) {
  Window v = w;
  const Shape& in = t.types[0].shape;
  const Shape& out = t.ct[0].shape();
  for (std::size_t d = 0; d < in.size(); ++d) {
    auto reach = dilated("reduce_window", w.dimensions[d], w.window_dilation[d]) - 1;
    v.base_dilation[d] = w.strides[d];
    v.strides[d] = w.base_dilation[d];
    v.low[d] = reach - w.low[d];
    v.high[d] = dilated("reduce_window", in[d], w.base_dilation[d]) + reach -
                dilated("reduce_window", out[d], w.strides[d]) - v.low[d];
  }
  if (size_of(in) == 0 || size_of(out) == 0) return {zeros(b, t.types[0])};
  return {reduce_window_sum(t.ct[0], v)};
}

ir::Must<Values(Builder&, const JvpArgs&, const Window&)> extreme_jvp(bool maximum) {
  return [maximum](Builder&, const JvpArgs& a, const Window& w) {
    return Values{select_and_gather_add(a.tangents[0], a.in[0], w, maximum)};
  };
}

ir::OpSpec<Window> spec(const ir::OpDef* self, const char* name, Reduction r,
                        ir::Must<Values(Builder&, const JvpArgs&, const Window&)> jvp,
                        ir::Must<Values(Builder&, const TransposeArgs&, const Window&)> transpose) {
  return {
      .name = name,
      .traits = {.linearity = r == Reduction::Sum ? Linearity::Joint : Linearity::None,
                 .exact = picks(r),
                 .reduction = r,
                 .whole_entry = ir::WholeEntry::Kept},
      .infer =
          [name, r](TypeSpan in, const Window& w) {
            check_count(name, in, 1);
            check_kind(name, in, 0, reducible(r, in[0].dtype), "a number dtype");
            return Types{Type{in[0].dtype, windowed_shape(name, in[0].shape, w), in[0].weak}};
          },
      .factors = [](TypeSpan in, TypeSpan out,
                    const Window& w) { return window_factors(1, 0, 1, in[0].shape, out[0].shape, w); },
      .remap = by_default,
      .batch =
          [self](Builder& b, const BatchArgs& a, const Window& w) {
            return Batched{{b.add1(*self, {a.in[0]}, attrs(with_batch_window(w)))}, {true}};
          },
      .jvp = std::move(jvp),
      .transpose = std::move(transpose),
      .reference =
          [r](ViewSpan in, ViewSpan out, const Window& w) {
            WideResult wide(out[0]);
            for_each_window(
                in[0].shape, out[0].shape, w, [&](std::int64_t k) { identity(r, wide.view, k); },
                [&](std::int64_t k, std::int64_t i) { accumulate(r, wide.view, k, in[0], i); });
            wide.store(out[0]);
          },
      .samples =
          [] {
            std::vector<Sample<Window>> out;
            for (const auto& w : sample_windows()) out.push_back({{Type{DType::F32, {4, 6}}}, w});
            out.push_back({{Type{DType::I32, {5}}}, {{2}, {1}, {1}, {0}, {1}, {1}}});
            out.push_back({{Type{DType::BF16, {3, 7}}}, {{1, 2}, {1, 2}, {0, 0}, {0, 0}, {1, 1}, {1, 1}}});
            return out;
          },
  };
}
}  // namespace

#define TESSERA_REDUCE_WINDOW(op, kind, jvp, transpose)                                    \
  extern const ir::Op<Window> op##_definition;                                             \
  const ir::Op<Window> op##_definition{spec(&op##_definition, #op, kind, jvp, transpose)}; \
  const ir::OpDef& def::op = op##_definition;                                              \
  Value op(Value x, const Window& w) { return x.builder->add1(def::op, {x}, attrs(w)); }

TESSERA_REDUCE_WINDOW(reduce_window_sum, Reduction::Sum, linear, sum_transpose)
TESSERA_REDUCE_WINDOW(reduce_window_max, Reduction::Max, extreme_jvp(true), Never{"the op is not linear"})
TESSERA_REDUCE_WINDOW(reduce_window_min, Reduction::Min, extreme_jvp(false), Never{"the op is not linear"})

}  // namespace tessera::ops
