// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/sections_apart.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/op_def.h"
#include "ir/pass.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/linalg/dot.h"
#include "ops/shared_attrs.h"
#include "spmd/equations/find_sections.h"

namespace tessera::spmd {

namespace {

using ir::Value;
using ir::ValueId;
using ir::Values;

Shape with_two(Shape shape, std::size_t dim, std::pair<std::int64_t, std::int64_t> extents) {
  shape[dim] = extents.second;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), extents.first);
  return shape;
}

class SectionWriter {
 public:
  SectionWriter(const ir::Module& m, const std::vector<ir::Layout>& layouts, const SectionFinder& finder, Family family)
      : g_(*m.graph), mesh_(*m.mesh), layouts_(layouts), finder_(finder), family_(std::move(family)), r_(b_, g_) {}

  LaidGraph run() {
    r_.add_inputs();
    for (auto v : g_.inputs) lay(r_[v], layouts_[at(v)]);
    for (const auto& e : g_.eqns) {
      if (e.op == &ops::def::dot_general) note_columns(e);
      if (e.op == &ops::def::transpose) note_transposed(e);
      b_.set_loc(e.loc);
      if (!write_apart(e) && !write_of_sections(e)) write_whole(e);
    }
    for (auto v : g_.outputs) whole(v);
    // Not pruned: values keep the numbers that their layouts have.
    auto graph = std::make_shared<const ir::Graph>(b_.finish(r_.outputs()));
    return LaidGraph{ir::after_pass("with_sections_apart", graph), std::move(made_)};
  }

 private:
  bool in_family(ValueId v, const Sections& s) const {
    auto it = family_.find(v);
    return it != family_.end() && it->second == s;
  }
  bool fits(ValueId v, const Sections& s) const {
    return divides(s, g_.type(v).shape[s.dim], ir::parts(layouts_[at(v)].dims[s.dim], mesh_));
  }

  // By dimension of a product's result, after those of the batch, the operand and its dimension.
  std::vector<std::pair<std::size_t, std::size_t>> free_dims(const ir::Eqn& e) const {
    const auto& p = ir::get<ops::DotGeneral>(e.attrs);
    std::vector<std::pair<std::size_t, std::size_t>> out;
    for (std::size_t side : {0U, 1U}) {
      const Dims& batch = side == 0 ? p.lhs_batch : p.rhs_batch;
      const Dims& contracting = side == 0 ? p.lhs_contracting : p.rhs_contracting;
      for (auto d : ops::free_dims(g_.type(e.in[side]).rank(), contracting, batch)) out.emplace_back(side, at(d));
    }
    return out;
  }
  // The result of a product of sections has them, too: whoever reads it joins them again.
  void note_columns(const ir::Eqn& e) {
    std::size_t dim = ir::get<ops::DotGeneral>(e.attrs).lhs_batch.size();
    for (auto [side, d] : free_dims(e)) {
      const std::size_t to = dim++;
      auto it = family_.find(e.in[side]);
      if (it == family_.end() || it->second.dim != d) continue;
      const Sections s = it->second.at_dim(to);
      if (fits(e.out[0], s)) family_.emplace(e.out[0], s);
    }
  }
  void note_transposed(const ir::Eqn& e) {
    auto it = family_.find(e.in[0]);
    if (it == family_.end()) return;
    const auto& permutation = ir::get<ops::Transpose>(e.attrs).permutation;
    const auto place = std::ranges::find(permutation, static_cast<std::int64_t>(it->second.dim)) - permutation.begin();
    family_.emplace(e.out[0], it->second.at_dim(at(place)));
  }

  void write_whole(const ir::Eqn& e) {
    for (auto v : e.in) whole(v);
    r_.copy(e);
    for (auto v : e.out) lay(r_[v], layouts_[at(v)]);
  }

  bool write_apart(const ir::Eqn& e) {
    auto found = e.out.size() == 1 ? family_.find(e.out[0]) : family_.end();
    if (found == family_.end()) return false;
    const Sections s = found->second;
    Value made = apart_equation(e, s);
    if (made) apart_[{e.out[0], s}] = lay(made, apart_layout(e.out[0], s));
    return static_cast<bool>(made);
  }
  Value apart_equation(const ir::Eqn& e, const Sections& s) {
    if (e.op == &ops::def::dot_general) return product_apart(e, s);
    if (e.op == &ops::def::broadcast_in_dim) return broadcast_apart(e, s);
    if (e.op == &ops::def::transpose) return transpose_apart(e, s);
    if (e.op == &ops::def::sharding_constraint) {
      if (!fits(e.in[0], s)) return {};
      auto p = ir::get<ops::ShardingConstraint>(e.attrs);
      p.dims.insert(p.dims.begin() + static_cast<std::ptrdiff_t>(s.along()), Dims{});
      return b_.add1(*e.op, {apart(e.in[0], s)}, ir::make_attrs(std::move(p)));
    }
    if (e.op->traits().elementwise) {
      Values in;
      for (auto v : e.in) in.push_back(g_.type(v).rank() == 0 ? whole(v) : apart(v, s));
      return b_.add1(*e.op, in, e.attrs);
    }
    if (finder_.seed_of(e) != std::pair{e.out[0], s}) return {};
    if (e.op == &ops::def::reshape) return ops::reshape(whole(e.in[0]), apart_shape(e.out[0], s));
    if (e.op == &ops::def::concatenate) {
      Values sections;
      for (std::size_t i = 0; i < e.in.size(); ++i) sections.push_back(one_section(e.in[i], s, i));
      return ops::concatenate(sections, static_cast<std::int64_t>(s.along()));
    }
    if (e.op != &ops::def::pad) return {};
    const auto& p = ir::get<ops::Pad>(e.attrs);
    const std::int64_t i = s.beginning_at(p.low[s.dim], g_.type(e.in[0]).shape[s.dim]);
    Dims low(p.low.size() + 1);
    Dims high(low);
    low[s.along()] = s.start(i);
    high[s.along()] = s.start(s.count()) - s.start(i) - s.extent(i);
    Value section = one_section(e.in[0], s, at(i));
    return ops::pad(section, whole(e.in[1]), low, high);
  }
  Value product_apart(const ir::Eqn& e, const Sections& s) {
    auto p = ir::get<ops::DotGeneral>(e.attrs);
    if (s.dim < p.lhs_batch.size()) return {};
    const auto [side, d] = free_dims(e)[s.dim - p.lhs_batch.size()];
    const Sections of = s.at_dim(d);
    if (!fits(e.in[side], of)) return {};
    Value x = apart(e.in[side], of);
    Value other = whole(e.in[1 - side]);
    Values in = side == 0 ? Values{x, other} : Values{other, x};
    later_dims(p, side, d);
    return b_.add1(*e.op, in, ir::make_attrs(std::move(p)));
  }
  static void later_dims(ops::DotGeneral& p, std::size_t side, std::size_t d) {
    for (Dims* dims : {side == 0 ? &p.lhs_batch : &p.rhs_batch, side == 0 ? &p.lhs_contracting : &p.rhs_contracting}) {
      for (auto& i : *dims) i += i > static_cast<std::int64_t>(d) ? 1 : 0;
    }
  }
  Value broadcast_apart(const ir::Eqn& e, const Sections& s) {
    const auto& p = ir::get<ops::BroadcastInDim>(e.attrs);
    const auto dim = static_cast<std::int64_t>(s.dim);
    Dims dims;
    std::optional<Sections> of;
    for (std::size_t i = 0; i < p.dims.size(); ++i) {
      dims.push_back(p.dims[i] + (p.dims[i] > dim ? 1 : 0));
      if (p.dims[i] != dim) continue;
      dims.push_back(dim + 1);
      of = s.at_dim(i);
      if (g_.type(e.in[0]).shape[i] != p.shape[s.dim] || !fits(e.in[0], *of)) return {};
    }
    return ops::broadcast_in_dim(of ? apart(e.in[0], *of) : whole(e.in[0]), apart_shape(e.out[0], s), dims);
  }
  Value transpose_apart(const ir::Eqn& e, const Sections& s) {
    Dims permutation = ir::get<ops::Transpose>(e.attrs).permutation;
    const std::int64_t dim = permutation[s.dim];
    const Sections of = s.at_dim(at(dim));
    if (!fits(e.in[0], of)) return {};
    for (auto& d : permutation) d += d > dim ? 1 : 0;
    permutation.insert(permutation.begin() + static_cast<std::ptrdiff_t>(s.dim) + 1, dim + 1);
    return ops::transpose(apart(e.in[0], of), permutation);
  }
  // An operand that is section i, with its dimension as two.
  Value one_section(ValueId v, const Sections& s, std::size_t i) {
    Value x = whole(v);
    return lay(ops::reshape(x, with_two(x.shape(), s.dim, s.extents(static_cast<std::int64_t>(i)))),
               apart_layout(v, s));
  }

  // Results without sections of operands that have them.
  bool write_of_sections(const ir::Eqn& e) {
    if (e.out.size() != 1) return false;
    Value made;
    if (e.op == &ops::def::dot_general) {
      made = product_of_sections(e);
    } else if (e.op == &ops::def::reduce_sum) {
      made = sum_of_sections(e);
    } else if (auto seed = finder_.seed_of(e); seed && seed->first == e.in[0] && in_family(e.in[0], seed->second)) {
      made = e.op == &ops::def::slice ? section_of(e, seed->second) : apart(e.in[0], seed->second);
      made = ops::reshape(made, g_.type(e.out[0]).shape);
    }
    if (made) r_.bind(e.out[0], lay(made, layouts_[at(e.out[0])]));
    return static_cast<bool>(made);
  }
  Value section_of(const ir::Eqn& e, const Sections& s) {
    const auto& p = ir::get<ops::StaticSlice>(e.attrs);
    return section(apart(e.in[0], s), e.in[0], s, s.beginning_at(p.starts[s.dim], g_.type(e.out[0]).shape[s.dim]));
  }
  Value product_of_sections(const ir::Eqn& e) {
    auto p = ir::get<ops::DotGeneral>(e.attrs);
    for (std::size_t i = 0; i < p.lhs_contracting.size(); ++i) {
      const std::size_t dims[] = {at(p.lhs_contracting[i]), at(p.rhs_contracting[i])};
      for (std::size_t side : {0U, 1U}) {
        auto it = family_.find(e.in[side]);
        if (it == family_.end() || it->second.dim != dims[side]) continue;
        const Sections s = it->second;
        if (!fits(e.in[1 - side], s.at_dim(dims[1 - side]))) return {};
        Values in{apart(e.in[0], s.at_dim(dims[0])), apart(e.in[1], s.at_dim(dims[1]))};
        later_dims(p, 0, dims[0]);
        later_dims(p, 1, dims[1]);
        const auto after = static_cast<std::ptrdiff_t>(i + 1);
        p.lhs_contracting.insert(p.lhs_contracting.begin() + after, p.lhs_contracting[i] + 1);
        p.rhs_contracting.insert(p.rhs_contracting.begin() + after, p.rhs_contracting[i] + 1);
        return b_.add1(*e.op, in, ir::make_attrs(std::move(p)));
      }
    }
    return {};
  }
  // Over other dimensions. The sections of the sum are joined again.
  Value sum_of_sections(const ir::Eqn& e) {
    auto it = family_.find(e.in[0]);
    Dims axes = ir::get<ops::Axes>(e.attrs).axes;
    if (it == family_.end() || std::ranges::count(axes, static_cast<std::int64_t>(it->second.dim)) > 0) return {};
    const auto dim = static_cast<std::int64_t>(it->second.dim);
    Sections s = it->second;
    for (auto& a : axes) {
      if (a < dim) --s.dim;
      if (a > dim) ++a;
    }
    if (!fits(e.out[0], s)) return {};
    Value sum = ops::reduce_sum(apart(e.in[0], it->second), axes);
    return joined(lay(sum, apart_layout(e.out[0], s)), e.out[0], s);
  }

  Shape apart_shape(ValueId v, const Sections& s) const { return with_two(g_.type(v).shape, s.dim, s.extents()); }
  ir::Layout apart_layout(ValueId v, const Sections& s) const {
    ir::Layout out = layouts_[at(v)];
    out.dims.insert(out.dims.begin() + static_cast<std::ptrdiff_t>(s.along()), ir::AxisList{});
    return out;
  }
  // Whether the elements stay in their order, on every device.
  bool is_reshape(ValueId v, const Sections& s) const {
    return s.parts == 0 && ir::parts(layouts_[at(v)].dims[s.dim], mesh_) == 1;
  }

  // What stands for a value as it was.
  Value whole(ValueId v) {
    if (r_[v]) return r_[v];
    const Sections s = family_.at(v);
    r_.bind(v, joined(apart_.at({v, s}), v, s));
    return r_[v];
  }
  // A value with its sections as a dimension. Where the dimension is split each section goes to all devices by itself.
  Value apart(ValueId v, const Sections& s) {
    Value& made = apart_[{v, s}];
    if (made) return made;
    Value x = whole(v);
    if (is_reshape(v, s)) return made = lay(ops::reshape(x, apart_shape(v, s)), apart_layout(v, s));
    Values sections;
    for (std::int64_t i = 0; i < s.count(); ++i) {
      const std::int64_t end = s.before(i) + s.sizes[at(i)];
      Value one = lay(ops::slice_in_dim(x, s.before(i), end, static_cast<std::int64_t>(s.dim)), layouts_[at(v)]);
      sections.push_back(lay(ops::reshape(one, with_two(one.shape(), s.dim, s.extents(i))), apart_layout(v, s)));
    }
    return made = lay(ops::concatenate(sections, static_cast<std::int64_t>(s.along())), apart_layout(v, s));
  }
  Value joined(Value x, ValueId v, const Sections& s) {
    const Shape& shape = g_.type(v).shape;
    if (is_reshape(v, s)) return lay(ops::reshape(x, shape), layouts_[at(v)]);
    Values sections;
    for (std::int64_t i = 0; i < s.count(); ++i) {
      Shape one = shape;
      one[s.dim] = s.sizes[at(i)];
      sections.push_back(lay(ops::reshape(section(x, v, s, i), one), layouts_[at(v)]));
    }
    return lay(ops::concatenate(sections, static_cast<std::int64_t>(s.dim)), layouts_[at(v)]);
  }
  // Section i of `x`, which stands for `v` with the sections apart.
  Value section(Value x, ValueId v, const Sections& s, std::int64_t i) {
    const auto along = static_cast<std::int64_t>(s.along());
    return lay(ops::slice_in_dim(x, s.start(i), s.start(i) + s.extent(i), along), apart_layout(v, s));
  }

  Value lay(Value v, const ir::Layout& layout) {
    made_.resize(std::max(made_.size(), b_.graph().num_values()));
    made_[at(v.id)] = layout;
    return v;
  }

  const ir::Graph& g_;
  const ir::MeshAxes& mesh_;
  const std::vector<ir::Layout>& layouts_;
  const SectionFinder& finder_;
  Family family_;
  ir::Builder b_;
  ir::Rewriter r_;
  std::map<std::pair<ValueId, Sections>, Value> apart_;
  std::vector<ir::Layout> made_;  // by new value
};

}  // namespace

std::optional<LaidGraph> with_sections_apart(const ir::Module& m, const std::vector<ir::Layout>& layouts) {
  // In a deterministic program the leaves of a sum are what they are on one device.
  auto is_product = [](const ir::Eqn& e) { return e.op == &ops::def::dot_general; };
  if (m.deterministic || std::ranges::none_of(m.graph->eqns, is_product)) return std::nullopt;
  SectionFinder finder(m, layouts);
  Family family = finder.run();
  if (family.empty()) return std::nullopt;
  return SectionWriter(m, layouts, finder, std::move(family)).run();
}

}  // namespace tessera::spmd
