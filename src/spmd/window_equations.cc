// SPDX-License-Identifier: Apache-2.0
#include "spmd/window_equations.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/linalg/conv.h"
#include "ops/reduce/reduction.h"
#include "ops/reduce/windows.h"
#include "ops/shape/halo.h"
#include "ops/shared_attrs.h"
#include "spmd/factoring.h"

namespace tessera::spmd {

namespace {

using ir::Value;
using ir::Values;
using ops::at;

bool reduces(const ir::Eqn& e) { return e.op->traits().reduction && ir::get_if<ops::Window>(e.attrs); }

// What positions outside the operand hold.
Value outside(ir::Builder& b, const ir::Eqn& e, DType dtype) {
  ir::Reduction r = e.op->traits().reduction.value_or(ir::Reduction::Sum);
  HostArray number(dtype, {});
  ops::identity(r, ir::View{dtype, {}, number.data()}, 0);
  return ops::constant(b, number);
}

// The windows that each of `parts` shards of the result reads, stacked along a new dimension 0.
Value stacked(ir::Builder& b, const ir::Eqn& e, Value x, const WindowDim& w, std::int64_t parts, std::int64_t chunk) {
  ops::Halo h;
  h.shape = x.shape();
  h.shape[w.in] = (chunk - 1) * w.stride + (w.size - 1) * w.dilation + 1;
  h.starts = {Dims(h.shape.size(), 0)};
  h.strides = h.spacing = Dims(h.shape.size(), 1);
  h.starts[0][w.in] = -w.low;
  h.spacing[w.in] = w.spread;
  h.windows = parts;
  h.dimension = static_cast<std::int64_t>(w.in);
  h.step = chunk * w.stride;
  h.reason = str(e.op->name(), " along a split dimension needs the edges of other shards");
  h.cause = std::string(e.op->name());
  return b.add1(ops::def::halo, {x, outside(b, e, x.dtype())}, ir::make_attrs(std::move(h)));
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
  y = ops::transpose(y, order);
  Shape shape = y.shape();
  shape[dimension] *= shape[dimension + 1];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dimension) + 1);
  return ops::slice_in_dim(ops::reshape(y, shape), 0, extent, static_cast<std::int64_t>(dimension));
}

class WindowSplitter {
 public:
  WindowSplitter(const ir::Module& m, const std::vector<ir::Layout>& layouts)
      : m_(m), g_(*m.graph), layouts_(layouts) {}

  std::optional<LaidGraph> run() {
    auto qualifies = [&](const ir::Eqn& e) { return split_dim(e).has_value(); };
    if (std::none_of(g_.eqns.begin(), g_.eqns.end(), qualifies)) return std::nullopt;
    ir::Rewriter r(b_, g_);
    r.add_inputs();
    lay(r.of(g_.inputs), g_.inputs, layouts_);
    r.walk([&](const ir::Eqn& e, const Values& in) {
      auto dim = split_dim(e);
      Values out = dim ? splice(divided(e, *dim), in) : r.copy(e, in);
      lay(out, e.out, layouts_);
      return out;
    });
    // Not pruned: values keep the numbers that their layouts have.
    auto graph = std::make_shared<const ir::Graph>(b_.finish(r.outputs()));
    return LaidGraph{ir::after_pass("split_windows", graph), std::move(made_)};
  }

 private:
  const ir::Layout& layout(ir::ValueId v) const { return layouts_[at(v)]; }

  // Gives new values the layouts that `layouts` has for the old ones.
  void lay(const Values& values, const std::vector<ir::ValueId>& old, const std::vector<ir::Layout>& layouts) {
    made_.resize(b_.graph().num_values());
    for (std::size_t i = 0; i < values.size(); ++i) made_[at(values[i].id)] = layouts[at(old[i])];
  }

  // The first dimension that is split alike on both sides and whose shards are not much smaller than their edges.
  std::optional<WindowDim> split_dim(const ir::Eqn& e) const {
    if (e.in.empty()) return std::nullopt;
    for (const auto& w : window_dims(e, types_of(g_, e.in))) {
      const AxisList& axes = layout(e.in[0]).dims[w.in];
      if (axes.empty() || layout(e.out[0]).dims[w.out] != axes || g_.type(e.out[0]).size() == 0) continue;
      std::int64_t reach = (w.size - 1) * w.dilation + 1;
      std::int64_t step = chunk(e, w, axes) * w.stride;
      if (reach <= 4 * step) return w;
    }
    return std::nullopt;
  }
  std::int64_t chunk(const ir::Eqn& e, const WindowDim& w, const AxisList& axes) const {
    std::int64_t parts = ir::parts(axes, *m_.mesh);
    return (g_.type(e.out[0]).shape[w.out] + parts - 1) / parts;
  }

  // The equation by itself, with stacked windows, and layouts between those of its operands and result.
  LaidGraph divided(const ir::Eqn& e, const WindowDim& w) const {
    ir::Builder b;
    b.set_loc(e.loc);
    Values in;
    for (auto v : e.in) in.push_back(b.input(g_.type(v)));
    const AxisList& axes = layout(e.in[0]).dims[w.in];
    Value windows = stacked(b, e, in[0], w, ir::parts(axes, *m_.mesh), chunk(e, w, axes));
    Value y = unstacked(apply(b, e, windows, in, w), w.out, g_.type(e.out[0]).shape[w.out]);
    ir::Module inner = m_.with_graph(std::make_shared<const ir::Graph>(b.finish(Values{y})));
    for (std::size_t i = 0; i < e.in.size(); ++i) inner.inputs[i].layout = layout(e.in[i]);
    inner.outputs[0].layout = layout(e.out[0]);
    auto layouts = propagate(inner);
    for (const auto& eqn : inner.graph->eqns) {
      if (eqn.op != &ops::def::halo) continue;
      // Nothing else says where the other dimensions of the windows lie.
      ir::Layout& l = layouts[at(eqn.out[0])];
      l = ir::Layout{layout(e.in[0]).dims};
      l.dims[w.in].clear();
      l.dims.insert(l.dims.begin(), axes);
    }
    auto further = split_windows(inner, layouts);
    return further ? *further : LaidGraph{inner.graph, std::move(layouts)};
  }

  Values splice(const LaidGraph& part, const Values& args) {
    ir::Rewriter r(b_, *part.graph);
    r.bind(part.graph->inputs, args);
    r.walk([&](const ir::Eqn& e, const Values& in) {
      Values out = r.copy(e, in);
      lay(out, e.out, part.layouts);
      return out;
    });
    return r.outputs();
  }

  const ir::Module& m_;
  const ir::Graph& g_;
  const std::vector<ir::Layout>& layouts_;
  ir::Builder b_;
  std::vector<ir::Layout> made_;  // by new value
};

}  // namespace

std::vector<WindowDim> window_dims(const ir::Eqn& e, ir::TypeSpan in) {
  std::vector<WindowDim> out;
  if (reduces(e)) {
    const auto& p = ir::get<ops::Window>(e.attrs);
    for (std::size_t d = 0; d < in[0].shape.size(); ++d) {
      bool still =
          p.dimensions[d] == 1 && p.strides[d] == 1 && p.low[d] == 0 && p.high[d] == 0 && p.base_dilation[d] == 1;
      if (!still) {
        out.push_back({d, d, d, p.dimensions[d], p.strides[d], p.window_dilation[d], p.low[d], p.base_dilation[d]});
      }
    }
  } else if (e.op == &ops::def::conv_general_dilated) {
    const auto& p = ir::get<ops::Conv>(e.attrs);
    if (p.batch_groups > 1) return out;
    for (std::size_t i = 0; i < p.strides.size(); ++i) {
      out.push_back({i, at(p.lhs_spec[i + 2]), at(p.out_spec[i + 2]), in[1].shape[at(p.rhs_spec[i + 2])], p.strides[i],
                     p.rhs_dilation[i], p.pad_low[i], p.lhs_dilation[i]});
    }
  }
  return out;
}

std::optional<LaidGraph> split_windows(const ir::Module& m, const std::vector<ir::Layout>& layouts) {
  return WindowSplitter(m, layouts).run();
}

}  // namespace tessera::spmd
