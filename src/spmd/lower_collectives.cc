// SPDX-License-Identifier: Apache-2.0
#include "spmd/lower_collectives.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/collective/collectives.h"
#include "ops/collective/manual.h"
#include "ops/ops.h"
#include "spmd/layout_change.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

namespace {

using ops::Collective;

AxisMask mask_of_dims(const Dims& axes) {
  AxisMask m = 0;
  for (auto a : axes) m |= bit(static_cast<std::uint8_t>(a));
  return m;
}
AxisList list_of(const Dims& axes) { return AxisList(axes.begin(), axes.end()); }

// A value on its way through the steps of one equation.
struct Placed {
  ir::Value value;
  ir::Layout layout;
  const Shape& shape() const { return value.shape(); }
};

class Emitter {
 public:
  Emitter(const ir::Eqn& e, const PartitionAccess& a) : e_(e), a_(a) { a_.builder.set_loc(e.loc); }

  bool run() {
    if (e_.op == &ops::def::manual_enter) return enter(), true;
    if (e_.op == &ops::def::manual_exit) return leave(), true;
    const Collective* c = ops::collective_of(e_);
    if (c == nullptr) return false;
    TESSERA_CHECK(c->axes.has_value(), str(e_.op->name(), " stands outside any map"));
    axes_ = *c->axes;
    mask_ = mask_of_dims(axes_);
    if (c->groups || e_.op == &ops::def::ragged_all_to_all) {
      among_groups(*c);
    } else if (auto reduction = e_.op->traits().reduction) {
      reduce(*reduction, *c);
    } else if (e_.op == &ops::def::all_gather) {
      gather(ir::get<ops::AllGather>(e_.attrs));
    } else if (e_.op == &ops::def::psum_scatter) {
      scatter(ir::get<ops::PsumScatter>(e_.attrs));
    } else if (e_.op == &ops::def::all_to_all) {
      exchange(ir::get<ops::AllToAll>(e_.attrs));
    } else if (e_.op == &ops::def::ppermute) {
      permute(ir::get<ops::Ppermute>(e_.attrs));
    } else if (e_.op == &ops::def::pbroadcast) {
      broadcast(ir::get<ops::Pbroadcast>(e_.attrs));
    } else {
      index(*c);
    }
    return true;
  }

 private:
  // --- steps ------------------------------------------------------------------------------------------------------

  Placed operand(std::size_t i, const DimAxes& dims, AxisMask partial = 0) {
    ir::Layout goal;
    goal.dims = dims;
    goal.partial = partial;
    ir::Value v = a_.operand(e_, i, goal);
    a_.builder.set_loc(e_.loc);
    return {v, a_.builder.layout(v)};
  }
  // Automatic axes that the result is wanted with; dimensions `whole` are not split by any.
  DimAxes wanted(const Dims& whole = {}) const {
    DimAxes dims = a_.wanted(e_.out[0]).dims;
    for (auto d : whole) dims[static_cast<std::size_t>(d)].clear();
    return dims;
  }

  Placed add(const ir::OpDef& op, std::vector<ir::Value> in, ir::Attrs attrs, ir::Type type, ir::Layout layout) {
    ir::Value v = a_.builder.add_typed(op, in, std::move(attrs), {std::move(type)})[0];
    a_.builder.set_layout(v, layout);
    return {v, std::move(layout)};
  }

  Placed reinterpret(const Placed& x, ir::Layout layout, const Shape& shape, Dims source = {}) {
    layout.vary &= ~(layout.tiled() | layout.partial);
    if (source.empty() && layout == x.layout && shape == x.shape()) return x;
    ir::Type type = x.value.type();
    type.shape = shape;
    Dims moved = source.empty() ? Dims{} : axes_;
    return add(ops::def::reinterpret, {x.value},
               ir::make_attrs(ops::Reinterpret{shape, std::move(source), std::move(moved), std::string(e_.op->name())}),
               std::move(type), std::move(layout));
  }

  Placed reshard(Placed x, const ir::Layout& goal) {
    for (auto& step : plan(x.value.type(), x.layout, goal, a_.mesh)) {
      ops::Reshard p{step.kind, moving_axes(x.layout, step.layout), str("asked for by ", e_.op->name())};
      p.cause = e_.op->name();
      x = add(ops::def::reshard, {x.value}, ir::make_attrs(std::move(p)), x.value.type(), step.layout);
    }
    return x;
  }

  Placed reshape(const Placed& x, const Shape& shape, ir::Layout layout) {
    ir::Type type = x.value.type();
    type.shape = shape;
    return add(ops::def::reshape, {x.value}, ir::make_attrs(ops::Reshape{shape}), std::move(type), std::move(layout));
  }

  // Instances that hold equal values each contribute to a sum.
  Placed times(Placed x, std::int64_t n) {
    if (n == 1) return x;
    ir::Value factor = ops::scalar(a_.builder, static_cast<double>(n), x.value.dtype());
    a_.builder.set_layout(factor, ir::Layout::replicated(0));
    return add(ops::def::mul, {x.value, factor}, nullptr, x.value.type(), x.layout);
  }

  void finish(const Placed& x) { a_.define(e_.out[0], {x.layout, x.value}); }

  std::int64_t instances() const { return ir::axes_size(mask_, a_.mesh); }

  // --- boundaries ----------------------------------------------------------------------------------------------------

  void enter() {
    const auto& p = ir::get<ops::ManualSpec>(e_.attrs);
    DimAxes inside = a_.wanted(e_.out[0]).dims;
    DimAxes outside = inside;
    AxisMask cut = 0;
    for (std::size_t d = 0; d < p.dims.size(); ++d) {
      if (p.dims[d].empty()) continue;
      inside[d].clear();
      outside[d] = list_of(p.dims[d]);
      cut |= mask_of_dims(p.dims[d]);
    }
    AxisMask addends = mask_of_dims(p.partial);
    Placed x = operand(0, outside, addends);
    ir::Layout to = x.layout;
    to.dims = inside;
    to.partial &= ~addends;
    to.vary |= cut | addends;
    finish(reinterpret(x, to, p.shape));
  }

  void leave() {
    const auto& p = ir::get<ops::ManualSpec>(e_.attrs);
    DimAxes inside = a_.wanted(e_.in[0]).dims;
    for (std::size_t d = 0; d < p.dims.size(); ++d) {
      if (!p.dims[d].empty()) inside[d].clear();
    }
    Placed x = operand(0, inside);
    ir::Layout to = x.layout;
    for (std::size_t d = 0; d < p.dims.size(); ++d) {
      if (p.dims[d].empty()) continue;
      to.dims[d] = list_of(p.dims[d]);
      to.vary &= ~mask_of_dims(p.dims[d]);
    }
    // Each instance has an addend, also where all of these are equal.
    to.partial = mask_of_dims(p.partial);
    to.vary &= ~(to.partial | mask_of_dims(p.equal));
    finish(reinterpret(x, to, p.shape));
  }

  // --- collectives ------------------------------------------------------------------------------------------------

  // What varies over the axes, read as parts of a reduction; `rest`: instances that hold the same part.
  Placed as_partial(const Placed& x, ir::Reduction reduction, std::int64_t& rest) {
    ir::Layout to = x.layout;
    AxisMask differ = mask_ & x.layout.vary;
    rest = instances() / ir::axes_size(differ, a_.mesh);
    to.vary &= ~mask_;
    to.partial = differ;
    if (differ != 0) to.reduction = reduction;
    return reinterpret(x, to, x.shape());
  }

  void reduce(ir::Reduction reduction, const Collective&) {
    std::int64_t rest = 1;
    Placed x = as_partial(operand(0, wanted()), reduction, rest);
    ir::Layout goal = x.layout;
    goal.partial = 0;
    goal.reduction = ir::Reduction::Sum;
    x = reshard(x, goal);
    finish(reduction == ir::Reduction::Sum ? times(x, rest) : x);
  }

  void gather(const ops::AllGather& p) {
    auto d = static_cast<std::size_t>(p.dim);
    Placed x = operand(0, wanted({p.dim}));
    ir::Layout to = x.layout;
    to.dims[d] = list_of(axes_);
    to.vary &= ~mask_;
    Shape shape = x.shape();
    shape[d] *= p.total();
    x = reinterpret(x, to, shape);
    ir::Layout goal = x.layout;
    goal.dims[d].clear();
    finish(reshard(x, goal));
  }

  void scatter(const ops::PsumScatter& p) {
    auto d = static_cast<std::size_t>(p.dim);
    std::int64_t rest = 1;
    Placed x = as_partial(operand(0, wanted({p.dim})), ir::Reduction::Sum, rest);
    ir::Layout goal = x.layout;
    goal.partial = 0;
    goal.reduction = ir::Reduction::Sum;
    goal.dims[d] = list_of(axes_);
    x = reshard(x, goal);
    finish(times(as_blocks(x, d), rest));
  }

  // What is cut along dimension d by the axes, read as blocks.
  Placed as_blocks(const Placed& x, std::size_t d) {
    ir::Layout to = x.layout;
    to.dims[d].clear();
    to.vary |= mask_;
    Shape shape = x.shape();
    shape[d] /= instances();
    return reinterpret(x, to, shape);
  }
  // Blocks, read as cut along dimension d.
  Placed as_cut(const Placed& x, std::size_t d) {
    ir::Layout to = x.layout;
    to.dims[d] = list_of(axes_);
    to.vary &= ~mask_;
    Shape shape = x.shape();
    shape[d] *= instances();
    return reinterpret(x, to, shape);
  }

  Placed exchanged(Placed x, std::size_t split, std::size_t concat) {
    x = as_cut(x, concat);
    ir::Layout goal = x.layout;
    goal.dims[concat].clear();
    goal.dims[split] = list_of(axes_);
    return as_blocks(reshard(x, goal), split);
  }

  void exchange(const ops::AllToAll& p) {
    auto split = static_cast<std::size_t>(p.split);
    auto concat = static_cast<std::size_t>(p.concat);
    Placed x = operand(0, wanted({p.split, p.concat}));
    if (split != concat) return finish(exchanged(x, split, concat));
    // Chunks get a dimension of their own: (…, 1, n, chunk, …) goes to (…, n, 1, chunk, …).
    Shape whole = x.shape();
    Shape chunks = whole;
    chunks[split] /= instances();
    chunks.insert(chunks.begin() + static_cast<std::ptrdiff_t>(split), {1, instances()});
    ir::Layout wide = x.layout;
    wide.dims.insert(wide.dims.begin() + static_cast<std::ptrdiff_t>(split), 2, AxisList{});
    x = exchanged(reshape(x, chunks, wide), split + 1, split);
    ir::Layout narrow = x.layout;
    narrow.dims.erase(narrow.dims.begin() + static_cast<std::ptrdiff_t>(split),
                      narrow.dims.begin() + static_cast<std::ptrdiff_t>(split) + 2);
    finish(reshape(x, whole, narrow));
  }

  // By position: the position that has the same coordinates but instance `source[own]` along the axes; -1 for none.
  Dims sources(const Dims& source) const {
    const auto& sizes = a_.mesh.sizes;
    Dims stride(sizes.size(), 1);
    for (std::size_t a = sizes.size(); a-- > 1;) stride[a - 1] = stride[a] * sizes[a];
    Dims out;
    for (std::int64_t p = 0; p < a_.mesh.num_positions(); ++p) {
      std::int64_t own = 0;
      std::int64_t base = p;
      for (auto a : axes_) {
        auto i = static_cast<std::size_t>(a);
        std::int64_t c = p / stride[i] % sizes[i];
        own = own * sizes[i] + c;
        base -= c * stride[i];
      }
      std::int64_t from = source[static_cast<std::size_t>(own)];
      if (from < 0) {
        out.push_back(-1);
        continue;
      }
      for (std::size_t k = axes_.size(); k-- > 0;) {
        auto i = static_cast<std::size_t>(axes_[k]);
        base += from % sizes[i] * stride[i];
        from /= sizes[i];
      }
      out.push_back(base);
    }
    return out;
  }

  void permute(const ops::Ppermute& p) {
    Placed x = operand(0, wanted());
    Dims source = p.sources();
    bool full = std::find(source.begin(), source.end(), -1) == source.end();
    if (full && (x.layout.vary & mask_) == 0) return finish(x);
    ir::Layout to = x.layout;
    to.vary |= mask_;
    finish(reinterpret(x, to, x.shape(), sources(source)));
  }

  void broadcast(const ops::Pbroadcast& p) {
    Placed x = operand(0, wanted());
    if ((x.layout.vary & mask_) == 0) return finish(x);
    ir::Layout to = x.layout;
    to.vary &= ~mask_;
    finish(reinterpret(x, to, x.shape(), sources(Dims(static_cast<std::size_t>(p.total()), p.source))));
  }

  void index(const Collective& c) {
    ir::Type numbers{DType::I32, {c.total()}};
    ir::Layout cut;
    cut.dims = {list_of(axes_)};
    Placed x = add(ops::def::iota, {}, ir::make_attrs(ops::Iota{DType::I32, numbers.shape, 0}), numbers, cut);
    ir::Layout to;
    to.vary = mask_;
    finish(reinterpret(x, to, {}));
  }

  void among_groups(const Collective& c);

  const ir::Eqn& e_;
  const PartitionAccess& a_;
  Dims axes_;
  AxisMask mask_ = 0;
};

ops::GroupExchange::Kind kind_of(const ir::OpDef* op) {
  using Kind = ops::GroupExchange::Kind;
  if (op == &ops::def::psum) return Kind::Sum;
  if (op == &ops::def::pmax) return Kind::Max;
  if (op == &ops::def::pmin) return Kind::Min;
  if (op == &ops::def::all_gather) return Kind::AllGather;
  if (op == &ops::def::psum_scatter) return Kind::ReduceScatter;
  return op == &ops::def::all_to_all ? Kind::AllToAll : Kind::Ragged;
}

// Lists of positions in place of lists of indices.
void Emitter::among_groups(const Collective& c) {
  ops::GroupExchange p;
  p.kind = kind_of(e_.op);
  p.axes = axes_;
  p.shape = a_.graph.type(e_.out[0]).shape;
  p.cause = e_.op->name();
  Dims whole;
  if (p.kind == ops::GroupExchange::Kind::AllGather) whole = {p.dim = ir::get<ops::AllGather>(e_.attrs).dim};
  if (p.kind == ops::GroupExchange::Kind::ReduceScatter) whole = {p.dim = ir::get<ops::PsumScatter>(e_.attrs).dim};
  if (p.kind == ops::GroupExchange::Kind::AllToAll) {
    const auto& exchange = ir::get<ops::AllToAll>(e_.attrs);
    whole = {p.dim = exchange.split, p.concat = exchange.concat};
  }
  bool ragged = p.kind == ops::GroupExchange::Kind::Ragged;
  std::vector<ir::Value> in;
  ir::Layout layout;
  for (std::size_t i = 0; i < e_.in.size(); ++i) {
    auto rank = static_cast<std::size_t>(a_.graph.type(e_.in[i]).rank());
    Placed x = operand(i, ragged ? DimAxes(rank) : wanted(whole));
    in.push_back(x.value);
    AxisMask vary = layout.vary | x.layout.vary;
    if (i <= 1) layout = x.layout;
    layout.vary = vary;
  }
  layout.vary |= mask_;
  for (const auto& group : c.group_list()) {
    std::vector<Dims> by_rank;  // by member, by position: where the member of that position's group is
    for (auto member : group) by_rank.push_back(sources(Dims(static_cast<std::size_t>(c.total()), member)));
    for (std::int64_t position = 0; position < a_.mesh.num_positions(); ++position) {
      if (by_rank[0][static_cast<std::size_t>(position)] != position) continue;  // its first member stands for a group
      Dims& list = p.groups.emplace_back();
      for (const auto& m : by_rank) list.push_back(m[static_cast<std::size_t>(position)]);
    }
  }
  ir::Type type = a_.graph.type(e_.out[0]);
  finish(add(ops::def::group_exchange, in, ir::make_attrs(std::move(p)), std::move(type), std::move(layout)));
}

// --- which values differ ------------------------------------------------------------------------------------------

class VaryAnalysis {
 public:
  explicit VaryAnalysis(const ir::Module& m) : m_(m) {}

  // By value, from the masks of the inputs.
  std::vector<AxisMask> run(const ir::Graph& g, const std::vector<AxisMask>& inputs) {
    std::vector<AxisMask> out(g.num_values());
    auto at = [&](ir::ValueId v) -> AxisMask& { return out[static_cast<std::size_t>(v)]; };
    for (std::size_t i = 0; i < inputs.size(); ++i) at(g.inputs[i]) = inputs[i];
    for (const auto& e : g.eqns) {
      std::vector<AxisMask> in;
      for (auto v : e.in) in.push_back(at(v));
      std::vector<AxisMask> r = results(e, in);
      for (std::size_t i = 0; i < r.size(); ++i) at(e.out[i]) = r[i];
    }
    return out;
  }
  VaryBoundary boundary(const ir::Eqn& e, const ops::Control& control, std::vector<AxisMask> in);

 private:
  std::vector<AxisMask> results(const ir::Eqn& e, const std::vector<AxisMask>& in) {
    AxisMask all = std::accumulate(in.begin(), in.end(), AxisMask{0}, std::bit_or<>());
    if (const auto* c = ops::collective_of(e)) {
      AxisMask mask = mask_of_dims(c->axes.value_or(Dims{}));
      bool equal =
          !c->groups && (e.op->traits().reduction || e.op == &ops::def::all_gather || e.op == &ops::def::pbroadcast);
      all = equal ? all & ~mask : all | mask;
    } else if (e.op == &ops::def::manual_enter || e.op == &ops::def::manual_exit) {
      const auto& p = ir::get<ops::ManualSpec>(e.attrs);
      AxisMask cut = 0;
      for (const auto& d : p.dims) cut |= mask_of_dims(d);
      cut |= mask_of_dims(p.partial) | mask_of_dims(p.equal);
      all = e.op == &ops::def::manual_enter ? all | cut : all & ~cut;
    } else if (const auto* c = ir::get_if<ops::ShardingConstraint>(e.attrs)) {
      if (!c->unreduced.empty()) all &= ~resolve(*c, m_).layout.partial;  // a sum has one value
    } else if (auto control = ops::control_of(e)) {
      return boundary(e, *control, in).out;
    }
    return std::vector<AxisMask>(e.out.size(), all);
  }

  const ir::Module& m_;
};

VaryBoundary VaryAnalysis::boundary(const ir::Eqn& e, const ops::Control& control, std::vector<AxisMask> in) {
  std::vector<AxisMask> out(e.out.size());
  AxisMask predicate = 0;
  for (auto i : control.scalars) predicate |= in[i];
  for (bool changed = true; changed;) {
    changed = false;
    auto grow = [&](AxisMask& to, AxisMask from) {
      changed = changed || (from & ~to) != 0;
      to |= from;
    };
    for (const auto& body : control.bodies) {
      std::vector<AxisMask> inner;
      for (const auto& t : body.inputs) inner.push_back(in[t.outer]);
      std::vector<AxisMask> all = run(*body.graph, inner);
      for (const auto& t : body.outputs) {
        grow(out[t.outer], all[static_cast<std::size_t>(body.graph->outputs[t.inner])]);
      }
      for (std::size_t i = body.outputs.size(); i < body.graph->outputs.size(); ++i) {
        grow(predicate, all[static_cast<std::size_t>(body.graph->outputs[i])]);
      }
    }
    for (auto& m : out) grow(m, predicate);
    for (auto [operand, result] : control.carried) {
      grow(in[operand], out[result]);
      grow(out[result], in[operand]);
    }
  }
  return {std::move(in), std::move(out)};
}

}  // namespace

bool add_manual(const ir::Eqn& e, const PartitionAccess& access) { return Emitter(e, access).run(); }

VaryBoundary vary_boundary(const ir::Module& m, const ir::Eqn& e, const ops::Control& control,
                           const std::vector<AxisMask>& in) {
  return VaryAnalysis(m).boundary(e, control, in);
}

}  // namespace tessera::spmd
