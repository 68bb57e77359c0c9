// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/find_windows.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/shape/halo.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

using ir::Never;
using ir::Types;
using ir::TypeSpan;
using ir::ViewSpan;

constexpr const char* kShiftOnly = "an op of the engine, made after all transformations";

Types infer_shift(TypeSpan in, const HaloShift&) { return {in[0]}; }

void shift_reference(ViewSpan in, ViewSpan out, const HaloShift& p) {
  const auto d = at(p.dimension);
  std::int64_t inner = 1;
  for (std::size_t k = d + 1; k < in[0].shape.size(); ++k) inner *= in[0].shape[k];
  const std::int64_t parts = in[1].shape[0];
  const std::int64_t edge = in[1].shape[d + 1];
  const std::int64_t extent = in[0].shape[d];
  const std::int64_t each = extent / parts;
  for (std::int64_t i = 0; i < out[0].size(); ++i) {
    const std::int64_t line = i / inner / extent;
    const std::int64_t o = i / inner % extent;
    const std::int64_t part = o / each;
    const std::int64_t within = o % each + p.by;
    if (within >= 0 && within < each) {
      ops::copy_element(out[0], i, in[0], i + p.by * inner);
    } else {
      const std::int64_t beyond = p.by > 0 ? within - each : within + edge;
      const std::int64_t lines = in[0].size() / extent / inner;
      ops::copy_element(out[0], i, in[1], ((part * lines + line) * edge + beyond) * inner + i % inner);
    }
  }
}

}  // namespace

const ir::OpDef& halo_shift() {
  static const auto& op = *new ir::Op<HaloShift>{ir::OpSpec<HaloShift>{
      .name = "halo_shift",
      .infer = infer_shift,
      .factors = Never{kShiftOnly},
      .remap = ir::by_default,
      .batch = Never{kShiftOnly},
      .jvp = Never{kShiftOnly},
      .transpose = Never{kShiftOnly},
      .reference = shift_reference,
      .samples = Never{kShiftOnly},
  }};
  return op;
}

namespace {

class WindowFinder {
 public:
  explicit WindowFinder(const ir::Graph& g)
      : g_(g), maker_(g.num_values()), elementwise_(g.num_values(), true), read_(g.num_values()) {
    for (const auto& e : g.eqns) {
      for (auto v : e.out) maker_[at(v)] = &e;
      for (auto v : e.in) {
        read_[at(v)] = true;
        elementwise_[at(v)] = elementwise_[at(v)] && e.op->traits().elementwise;
      }
    }
    for (auto v : g.outputs) elementwise_[at(v)] = false;
  }

  bool finds() const {
    return std::ranges::any_of(g_.eqns, [&](const ir::Eqn& e) {
      return halo_shifts(e).has_value() || roll(e).has_value() || is_part_of_padded(e);
    });
  }

  ir::GraphPtr run() {
    ir::Builder b;
    ir::Rewriter r(b, g_);
    r.add_inputs();
    r.walk([&](const ir::Eqn& e, const ir::Values& in) {
      if (auto shifts = halo_shifts(e)) return written(e, in, *shifts);
      if (auto shift = roll(e))
        return ir::Values{written(e, r[maker_[at(e.in[0])]->in[0]], in[shift->by > 0 ? 1 : 0], *shift)};
      if (is_part_of_padded(e)) return ir::Values{padded(e, r)};
      return r.copy(e, in);
    });
    return r.finish("find_windows");
  }

 private:
  bool for_elementwise(ir::ValueId v) const { return read_[at(v)] && elementwise_[at(v)]; }

  /// One a result of a halo; nothing where one is something else, or more than element-wise operations read it.
  std::optional<std::vector<HaloShift>> halo_shifts(const ir::Eqn& e) const {
    if (e.op != &ops::def::halo || g_.layout(e.in[0]).partial != 0) return std::nullopt;
    const auto& h = ir::get<ops::Halo>(e.attrs);
    // What lies beyond the array is a value or, where it is a ring, the other end.
    const bool line = h.operands() == 1 && e.in.size() == 2;
    const bool ring = h.operands() == 2 && e.in.size() == 2 && e.in[0] == e.in[1];
    if (!ops::shifts(h) || !(line || ring)) return std::nullopt;
    std::vector<HaloShift> out;
    for (std::size_t r = 0; r < e.out.size(); ++r) {
      auto shift = shift_of(e.in[0], e.out[r], h.starts[r * h.operands() + nearest(h, r)]);
      if (!shift || (ring && !is_ring(e, r, *shift))) return std::nullopt;
      out.push_back(*shift);
    }
    return out;
  }
  // Of the starts of a result the one that is moved least.
  static std::size_t nearest(const ops::Halo& h, std::size_t r) {
    auto moved = [&](std::size_t k) {
      std::int64_t sum = 0;
      for (auto n : h.starts[r * h.operands() + k]) sum += std::abs(n);
      return sum;
    };
    return h.operands() == 2 && moved(1) < moved(0) ? 1 : 0;
  }
  bool is_ring(const ir::Eqn& e, std::size_t r, const HaloShift& shift) const {
    const auto& h = ir::get<ops::Halo>(e.attrs);
    const Dims& other = h.starts[2 * r + 1 - nearest(h, r)];
    const std::int64_t extent = g_.type(e.in[0]).shape[at(shift.dimension)];
    Dims expected(other.size(), 0);
    expected[at(shift.dimension)] = shift.by > 0 ? shift.by - extent : shift.by + extent;
    return other == expected;
  }

  std::optional<HaloShift> shift_of(ir::ValueId x, ir::ValueId y, const Dims& starts) const {
    if (!for_elementwise(y) || g_.type(y).shape != g_.type(x).shape || g_.layout(y) != g_.layout(x))
      return std::nullopt;
    std::optional<HaloShift> out;
    for (std::size_t d = 0; d < starts.size(); ++d) {
      if (starts[d] == 0) continue;
      if (out) return std::nullopt;
      out = HaloShift{static_cast<std::int64_t>(d), starts[d]};
    }
    return out && fits(x, *out) ? out : std::nullopt;
  }

  // What a shard lacks is its neighbour's, and lines are worth a copy each.
  bool fits(ir::ValueId x, const HaloShift& shift) const {
    constexpr std::int64_t kShortestLine = 16;
    const auto d = at(shift.dimension);
    const Shape shard = ir::tile_shape(g_.type(x).shape, g_.layout(x), *g_.mesh);
    std::int64_t line = 1;
    for (std::size_t k = d; k < shard.size(); ++k) line *= shard[k];
    const bool even = g_.type(x).shape[d] == shard[d] * ir::parts(g_.layout(x).dims[d], *g_.mesh);
    return even && std::abs(shift.by) <= shard[d] && line >= kShortestLine;
  }

  ir::Values written(const ir::Eqn& e, const ir::Values& in, const std::vector<HaloShift>& shifts) const {
    const auto& all = ir::get<ops::Halo>(e.attrs);
    ir::Values out;
    for (std::size_t r = 0; r < shifts.size(); ++r) {
      const HaloShift& s = shifts[r];
      ir::Builder& b = *in[0].builder;
      const auto d = at(s.dimension);
      ir::Layout layout = g_.layout(e.in[0]);
      const ir::AxisList axes = layout.dims[d];
      const std::int64_t parts = ir::parts(axes, *g_.mesh);
      const std::int64_t each = in[0].shape()[d] / parts;
      ops::Halo h = all;
      h.results = 1;
      h.shape[d] = std::abs(s.by);
      h.starts.assign(all.starts.begin() + static_cast<std::ptrdiff_t>(r * all.operands()),
                      all.starts.begin() + static_cast<std::ptrdiff_t>((r + 1) * all.operands()));
      for (Dims& start : h.starts) start[d] += (s.by > 0 ? each : s.by) - s.by;
      h.windows = parts;
      h.dimension = s.dimension;
      h.step = each;
      const ir::Value edges = b.add1(ops::def::halo, in, ir::make_attrs(std::move(h)));
      layout.dims.insert(layout.dims.begin(), axes);
      layout.dims[d + 1].clear();
      b.set_layout(edges, layout);
      out.push_back(shifted(in[0], edges, s, g_.layout(e.in[0])));
    }
    return out;
  }
  static ir::Value shifted(ir::Value x, ir::Value edges, const HaloShift& s, const ir::Layout& layout) {
    const ir::Value out = x.builder->add1(halo_shift(), {x, edges}, ir::make_attrs(s));
    x.builder->set_layout(out, layout);
    return out;
  }

  // An array's end, then its beginning, along a dimension that is not split.
  std::optional<HaloShift> roll(const ir::Eqn& e) const {
    if (e.op != &ops::def::concatenate || e.in.size() != 2) return std::nullopt;
    const ir::Eqn* end = maker_[at(e.in[0])];
    const ir::Eqn* begin = maker_[at(e.in[1])];
    if (end == nullptr || begin == nullptr || end->op != &ops::def::slice || begin->op != &ops::def::slice) {
      return std::nullopt;
    }
    const ir::ValueId x = end->in[0];
    const Shape& shape = g_.type(x).shape;
    if (begin->in[0] != x || !ops::is_window(*end) || !ops::is_window(*begin) || g_.layout(x).partial != 0)
      return std::nullopt;
    const std::int64_t dimension = ir::get<ops::Concatenate>(e.attrs).dimension;
    const auto d = at(dimension);
    const std::int64_t cut = g_.type(e.in[1]).shape[d];
    Shape first = shape;
    first[d] -= cut;
    Dims start(shape.size(), 0);
    const bool at_zero = ir::get<ops::StaticSlice>(begin->attrs).starts == start;
    start[d] = cut;
    const bool at_cut = ir::get<ops::StaticSlice>(end->attrs).starts == start;
    if (!at_zero || !at_cut || g_.type(e.in[0]).shape != first || g_.type(e.out[0]).shape != shape) return std::nullopt;
    Dims by(shape.size(), 0);
    by[d] = 2 * cut <= shape[d] ? cut : cut - shape[d];
    if (!g_.layout(x).dims[d].empty() || g_.layout(e.in[0]) != g_.layout(x) || g_.layout(e.in[1]) != g_.layout(x)) {
      return std::nullopt;
    }
    return shift_of(x, e.out[0], by);
  }
  ir::Value written(const ir::Eqn& e, ir::Value x, ir::Value part, const HaloShift& s) const {
    ir::Layout layout = g_.layout(e.out[0]);
    Shape shape = part.shape();
    shape.insert(shape.begin(), 1);
    const ir::Value edges = ops::reshape(part, shape);
    layout.dims.insert(layout.dims.begin(), ir::AxisList());
    x.builder->set_layout(edges, layout);
    return shifted(x, edges, s, g_.layout(e.out[0]));
  }

  // A slice of what padding made, along dimensions that are not split.
  bool is_part_of_padded(const ir::Eqn& e) const {
    if (e.op != &ops::def::slice || !ops::is_window(e) || !for_elementwise(e.out[0])) return false;
    const ir::Eqn* pad = maker_[at(e.in[0])];
    if (pad == nullptr || pad->op != &ops::def::pad || !ops::is_window(*pad)) return false;
    const ir::Layout& layout = g_.layout(pad->in[0]);
    const Shape& from = g_.type(pad->in[0]).shape;
    const Shape& to = g_.type(e.out[0]).shape;
    for (std::size_t d = 0; d < from.size(); ++d) {
      const bool moves = from[d] != to[d] || ir::get<ops::Pad>(pad->attrs).low[d] != 0 ||
                         ir::get<ops::StaticSlice>(e.attrs).starts[d] != 0;
      if (moves && !layout.dims[d].empty()) return false;
    }
    return g_.layout(e.in[0]) == layout && g_.layout(e.out[0]) == layout;
  }
  ir::Value padded(const ir::Eqn& e, const ir::Rewriter& r) const {
    const ir::Eqn& pad = *maker_[at(e.in[0])];
    const auto& slice = ir::get<ops::StaticSlice>(e.attrs);
    const ir::Value x = r[pad.in[0]];
    Dims low = ir::get<ops::Pad>(pad.attrs).low;
    Dims high(low.size());
    for (std::size_t d = 0; d < low.size(); ++d) {
      low[d] -= slice.starts[d];
      high[d] = slice.limits[d] - slice.starts[d] - low[d] - x.shape()[d];
    }
    const ir::Value out = ops::pad(x, r[pad.in[1]], low, high);
    x.builder->set_layout(out, g_.layout(e.out[0]));
    return out;
  }

  const ir::Graph& g_;
  std::vector<const ir::Eqn*> maker_;     // by value
  std::vector<bool> elementwise_, read_;  // by value: its readers, and whether there are any
};

}  // namespace

ir::GraphPtr find_windows(const ir::GraphPtr& graph) {
  WindowFinder finder(*graph);
  return finder.finds() ? finder.run() : graph;
}

}  // namespace tessera::cpu
