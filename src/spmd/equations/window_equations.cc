// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/window_equations.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/define_op.h"
#include "ops/linalg/conv.h"
#include "ops/reduce/reduction.h"
#include "ops/reduce/windows.h"
#include "ops/shape/dimension_parts.h"
#include "ops/shape/halo.h"
#include "ops/shared_attrs.h"

namespace tessera::spmd {

namespace {

using ir::Value;
using ir::Values;

bool reduces(const ir::Eqn& e) { return e.op->traits().reduction && ir::get_if<ops::Window>(e.attrs); }

// What positions outside the operand hold.
Value outside(ir::Builder& b, const ir::Eqn& e, DType dtype) {
  ir::Reduction r = e.op->traits().reduction.value_or(ir::Reduction::Sum);
  HostArray number(dtype, {});
  ops::identity(r, ir::View{dtype, {}, number.data()}, 0);
  return ops::constant(b, number);
}

// The windows that each of `parts` shards of the result reads, stacked along a new dimension 0.
ops::PaddedWindows stacked(ir::Builder& b, const ir::Eqn& e, Value x, const WindowDim& w, std::int64_t parts,
                           std::int64_t chunk) {
  ops::WindowStack stack{
      w.in, parts, (chunk - 1) * w.stride + (w.size - 1) * w.dilation + 1, -w.low, chunk * w.stride, w.spread};
  // Windows that reach beyond the array are those that are cut off.
  const auto read = w.low <= 0 && w.high <= 0 ? ops::Outside::Unread : ops::Outside::Read;
  return ops::window_stack_of_padded(x, outside(b, e, x.dtype()), stack, read, e.op->name());
}

// The equation on stacked operands, without padding along the dimension.
Value apply(ir::Builder& b, const ir::Eqn& e, Value windows, const Values& in, const WindowDim& w) {
  if (reduces(e)) {
    auto p = ops::with_batch_window(ir::get<ops::Window>(e.attrs));
    p.low[w.in + 1] = p.high[w.in + 1] = 0;
    p.base_dilation[w.in + 1] = 1;
    return b.add1(*e.op, {windows}, ir::make_attrs(p));
  }
  ops::Conv p = ir::get<ops::Conv>(e.attrs);
  p.pad_low[w.number] = p.pad_high[w.number] = 0;
  p.lhs_dilation[w.number] = 1;
  Values operands{windows, in[1]};
  std::vector<bool> batched{true, false};
  return e.op->batch(b, {operands, batched, windows.shape()[0]}, ir::make_attrs(p)).out[0];
}

// [parts, …, chunk, …] as […, extent, …].
Value unstacked(Value y, std::size_t dimension, std::int64_t extent) {
  Dims order(y.shape().size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + 1, order.begin() + static_cast<std::ptrdiff_t>(dimension) + 1);
  return ops::join_parts(ops::transpose(y, order), {static_cast<std::int64_t>(dimension), extent, y.shape()[0]});
}

std::int64_t chunk_of(const ir::DivideArgs& a, const WindowDim& w) {
  std::int64_t parts = a.parts_of(0, static_cast<std::int64_t>(w.in));
  return (a.out[0].shape[w.out] + parts - 1) / parts;
}

// The first dimension that is split alike on both sides and whose shards are not much smaller than their edges.
std::optional<WindowDim> split_dim(const ir::Eqn& e, const ir::DivideArgs& a) {
  ir::Types in;
  for (const auto& v : a.in) in.push_back(v.type());
  for (const auto& w : window_dims(e, in)) {
    const ir::AxisList& axes = a.operands[0].dims[w.in];
    if (axes.empty() || a.results[0].dims[w.out] != axes || a.out[0].size() == 0) continue;
    std::int64_t reach = (w.size - 1) * w.dilation + 1;
    if (reach <= 4 * chunk_of(a, w) * w.stride) return w;
  }
  return std::nullopt;
}

}  // namespace

std::vector<WindowDim> window_dims(const ir::Eqn& e, ir::TypeSpan in) {
  std::vector<WindowDim> out;
  if (reduces(e)) {
    const auto& p = ir::get<ops::Window>(e.attrs);
    for (std::size_t d = 0; d < in[0].shape.size(); ++d) {
      bool still =
          p.dimensions[d] == 1 && p.strides[d] == 1 && p.low[d] == 0 && p.high[d] == 0 && p.base_dilation[d] == 1;
      if (!still) {
        out.push_back(
            {d, d, d, p.dimensions[d], p.strides[d], p.window_dilation[d], p.low[d], p.high[d], p.base_dilation[d]});
      }
    }
  } else if (e.op == &ops::def::conv_general_dilated) {
    const auto& p = ir::get<ops::Conv>(e.attrs);
    if (p.batch_groups > 1) return out;
    for (std::size_t i = 0; i < p.strides.size(); ++i) {
      out.push_back({i, at(p.lhs_spec[i + 2]), at(p.out_spec[i + 2]), in[1].shape[at(p.rhs_spec[i + 2])], p.strides[i],
                     p.rhs_dilation[i], p.pad_low[i], p.pad_high[i], p.lhs_dilation[i]});
    }
  }
  return out;
}

bool slides_windows(const ir::Eqn& e) { return reduces(e) || e.op == &ops::def::conv_general_dilated; }

bool can_be_cut(const ir::Eqn& e) { return e.op == &ops::def::select_and_scatter_add; }
bool meets_padding(const ir::Eqn& e) { return slides_windows(e) || can_be_cut(e); }

std::optional<ir::Division> divide_windows(ir::Builder& b, const ir::Eqn& e, const ir::DivideArgs& a) {
  auto w = split_dim(e, a);
  if (!w) return std::nullopt;
  Values in(a.in.begin(), a.in.end());
  const auto [windows, taken] =
      stacked(b, e, in[0], *w, a.parts_of(0, static_cast<std::int64_t>(w->in)), chunk_of(a, *w));
  Value y = unstacked(apply(b, e, windows, in, *w), w->out, a.out[0].shape[w->out]);
  // Nothing else tells how the other dimensions of the windows are split.
  ir::Layout l{a.operands[0].dims};
  l.dims[w->in].clear();
  l.dims.insert(l.dims.begin(), a.operands[0].dims[w->in]);
  ir::Division out{{y}, {{windows, l}}};
  if (taken) out.layouts.emplace_back(taken, l);
  return out;
}

std::optional<ir::Division> divide_padded_windows(ir::Builder& b, const ir::Eqn& e, const ir::DivideArgs& a,
                                                  const ops::StaticSlice* cut) {
  if (slides_windows(e)) return divide_windows(b, e, a);
  std::optional<ops::Block> kept;
  if (cut != nullptr) {
    kept = {cut->starts, {}};
    for (std::size_t d = 0; d < cut->starts.size(); ++d) kept->shape.push_back(cut->limits[d] - cut->starts[d]);
  }
  return ops::scatter_by_shards_of(kept, b, a, ir::get<ops::SelectWindow>(e.attrs));
}

}  // namespace tessera::spmd
