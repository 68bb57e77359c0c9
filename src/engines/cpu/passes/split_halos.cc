// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/split_halos.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/shape/halo.h"

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

class Splitter {
 public:
  explicit Splitter(const ir::Graph& g) : g_(g), elementwise_(g.num_values(), true), read_(g.num_values()) {
    for (const auto& e : g.eqns) {
      for (auto v : e.in) {
        read_[at(v)] = true;
        elementwise_[at(v)] = elementwise_[at(v)] && e.op->traits().elementwise;
      }
    }
    for (auto v : g.outputs) elementwise_[at(v)] = false;
  }

  ir::GraphPtr run() {
    ir::Builder b;
    ir::Rewriter r(b, g_);
    r.add_inputs();
    r.walk([&](const ir::Eqn& e, const ir::Values& in) {
      auto shifts = shifts_of(e);
      return shifts ? written(e, in, *shifts) : r.copy(e, in);
    });
    return r.finish("split_halos");
  }

  /// One a result; nothing where one is something else, or more than element-wise operations read it.
  std::optional<std::vector<HaloShift>> shifts_of(const ir::Eqn& e) const {
    if (e.op != &ops::def::halo) return std::nullopt;
    const auto& h = ir::get<ops::Halo>(e.attrs);
    if (!ops::shifts_one_array(h) || e.in.size() != 2 || g_.layout(e.in[0]).partial != 0) return std::nullopt;
    std::vector<HaloShift> out;
    for (std::size_t r = 0; r < e.out.size(); ++r) {
      auto shift = shift_of(e.in[0], e.out[r], h.starts[r]);
      if (!shift) return std::nullopt;
      out.push_back(*shift);
    }
    return out;
  }

 private:
  std::optional<HaloShift> shift_of(ir::ValueId x, ir::ValueId y, const Dims& starts) const {
    constexpr std::int64_t kShortestLine = 16;
    const ir::Layout& layout = g_.layout(x);
    if (!read_[at(y)] || !elementwise_[at(y)] || g_.type(y).shape != g_.type(x).shape || g_.layout(y) != layout) {
      return std::nullopt;
    }
    std::optional<HaloShift> out;
    for (std::size_t d = 0; d < starts.size(); ++d) {
      if (starts[d] == 0) continue;
      if (out) return std::nullopt;
      out = HaloShift{static_cast<std::int64_t>(d), starts[d]};
    }
    if (!out) return std::nullopt;
    const auto d = at(out->dimension);
    const Shape shard = ir::tile_shape(g_.type(x).shape, layout, *g_.mesh);
    std::int64_t line = 1;
    for (std::size_t k = d; k < shard.size(); ++k) line *= shard[k];
    const bool even = g_.type(x).shape[d] == shard[d] * ir::parts(layout.dims[d], *g_.mesh);
    const bool near = std::abs(out->by) <= shard[d];
    return even && near && line >= kShortestLine ? out : std::nullopt;
  }

  ir::Values written(const ir::Eqn& e, const ir::Values& in, const std::vector<HaloShift>& shifts) const {
    ir::Values out;
    for (const HaloShift& s : shifts) {
      ir::Builder& b = *in[0].builder;
      const auto d = at(s.dimension);
      ir::Layout layout = g_.layout(e.in[0]);
      const std::int64_t parts = ir::parts(layout.dims[d], *g_.mesh);
      const std::int64_t each = in[0].shape()[d] / parts;
      ops::Halo h = ir::get<ops::Halo>(e.attrs);
      h.results = 1;
      h.shape[d] = std::abs(s.by);
      h.starts = {Dims(h.shape.size(), 0)};
      h.starts[0][d] = s.by > 0 ? each : s.by;
      h.windows = parts;
      h.dimension = s.dimension;
      h.step = each;
      const ir::Value edges = b.add1(ops::def::halo, in, ir::make_attrs(std::move(h)));
      const ir::AxisList axes = layout.dims[d];
      layout.dims.insert(layout.dims.begin(), axes);
      layout.dims[d + 1].clear();
      b.set_layout(edges, layout);
      out.push_back(b.add1(halo_shift(), {in[0], edges}, ir::make_attrs(s)));
      b.set_layout(out.back(), g_.layout(e.in[0]));
    }
    return out;
  }

  const ir::Graph& g_;
  std::vector<bool> elementwise_, read_;  // by value: its readers, and whether there are any
};

}  // namespace

ir::GraphPtr split_halos(const ir::GraphPtr& graph) {
  Splitter splitter(*graph);
  const bool any =
      std::ranges::any_of(graph->eqns, [&](const ir::Eqn& e) { return splitter.shifts_of(e).has_value(); });
  return any ? splitter.run() : graph;
}

}  // namespace tessera::cpu
