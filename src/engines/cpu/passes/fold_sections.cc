// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/fold_sections.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engines/cpu/context.h"
#include "engines/cpu/passes/engine_products.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

namespace {

using ir::Value;
using ir::ValueId;
using ir::Values;

// One of `count` equal sections of an array along a dimension, and where that dimension would be in an array which has
// the section's elements under another shape.
struct Section {
  ValueId array = -1;
  std::int64_t count = 1, index = 0;
  std::int64_t dim = 0;
};
// Sections that products of the same shape make, and the array that is made of them.
struct Joined {
  std::vector<const ir::Eqn*> products;
  std::int64_t dim = 0;
};

bool contains(const Dims& dims, std::int64_t d) { return std::ranges::find(dims, d) != dims.end(); }

class SectionFolder {
 public:
  explicit SectionFolder(const ir::Graph& g) : g_(g), maker_(g.num_values()), uses_(g.num_values()) {
    for (const auto& e : g_.eqns) {
      for (auto v : e.out) maker_[at(v)] = &e;
      for (auto v : e.in) ++uses_[at(v)];
    }
    for (auto v : g_.outputs) uses_[at(v)] += 2;  // it must stay
  }

  // Null where all stays as it is.
  ir::GraphPtr run() {
    for (const auto& e : g_.eqns) {
      if (auto p = product_of(g_, e)) find_read(e, *p);
      if (auto joined = joined_by(e)) joined_.emplace(&e, *std::move(joined));
    }
    if (read_.empty() && joined_.empty()) return nullptr;
    ir::Rewriter r(b_, g_);
    r_ = &r;
    r.add_inputs();
    r.walk([&](const ir::Eqn& e, const ir::Values& in) -> Values {
      if (auto it = joined_.find(&e); it != joined_.end()) return {write(e, it->second)};
      if (!reads_sections(e)) return r.copy(e, in);
      Values operands;
      TransposedProduct p = product(e, operands);
      return {
          add(transposed_product(), operands, ir::make_attrs(std::move(p)), g_.type(e.out[0]), g_.layout(e.out[0]))};
    });
    return r.finish("fold_sections");
  }

 private:
  // What a value has been reshaped from.
  ValueId before_reshapes(ValueId v, bool alone) const {
    while (maker_[at(v)] != nullptr && maker_[at(v)]->op == &ops::def::reshape && (!alone || uses_[at(v)] == 1)) {
      v = maker_[at(v)]->in[0];
    }
    return v;
  }

  // Where dimension `d` of one shape begins in another shape of the same elements, as devices have them.
  std::optional<std::int64_t> place(ValueId of, std::int64_t d, ValueId in) const {
    const Shape from = ir::tile_shape(g_.type(of).shape, g_.layout(of), *g_.mesh);
    const Shape to = ir::tile_shape(g_.type(in).shape, g_.layout(in), *g_.mesh);
    auto before = [](const Shape& s, std::int64_t n) {
      return std::accumulate(s.begin(), s.begin() + n, std::int64_t{1}, std::multiplies<>());
    };
    for (std::int64_t n = 0; n <= static_cast<std::int64_t>(to.size()); ++n) {
      const bool same =
          before(to, n) == before(from, d) && before(g_.type(in).shape, n) == before(g_.type(of).shape, d);
      if (same) return n;
    }
    return std::nullopt;
  }
  // Whether positions have the same parts of both, and all of them as many elements.
  bool alike(ValueId a, ValueId b) const {
    return g_.layout(a).distinct() == g_.layout(b).distinct() && g_.layout(a).partial == g_.layout(b).partial &&
           is_even(a) && is_even(b);
  }
  bool is_even(ValueId v) const { return g_.type(v).size() > 0 && even(g_.type(v).shape, g_.layout(v), *g_.mesh); }

  // --- operands that are sections ---------------------------------------------------------------------------------

  void find_read(const ir::Eqn& e, const TransposedProduct& p) {
    for (std::size_t side : {0U, 1U}) {
      auto section = section_read(e.in[side]);
      if (section && stays_regular(p, side, *section)) read_[{&e, side}] = *section;
    }
  }
  bool reads_sections(const ir::Eqn& e) const { return read_.contains({&e, 0}) || read_.contains({&e, 1}); }

  std::optional<Section> section_read(ValueId v) const {
    const ValueId cut = before_reshapes(v, false);
    const ir::Eqn* slice = maker_[at(cut)];
    if (slice == nullptr || slice->op != &ops::def::slice) return std::nullopt;
    const auto& p = ir::get<ops::StaticSlice>(slice->attrs);
    const Shape& whole = g_.type(slice->in[0]).shape;
    const Shape& part = g_.type(cut).shape;
    std::optional<Section> out;
    std::int64_t dim = 0;
    for (std::size_t d = 0; d < whole.size(); ++d) {
      if (whole[d] == part[d]) continue;
      const bool fits = !out && p.strides[d] == 1 && part[d] > 0 && whole[d] % part[d] == 0 &&
                        p.starts[d] % part[d] == 0 && g_.layout(slice->in[0]).dims[d].empty();
      if (!fits) return std::nullopt;
      out = Section{slice->in[0], whole[d] / part[d], p.starts[d] / part[d], 0};
      dim = static_cast<std::int64_t>(d);
    }
    if (!out || !alike(v, slice->in[0])) return std::nullopt;
    auto found = place(cut, dim, v);
    if (!found) return std::nullopt;
    out->dim = *found;
    return out;
  }

  // Whether the product's rows, columns and sums still step evenly through memory with the sections between.
  bool stays_regular(const TransposedProduct& p, std::size_t side, const Section& s) const {
    const Dims& batch = side == 0 ? p.lhs_batch : p.rhs_batch;
    const Dims& contracting = side == 0 ? p.lhs_contracting : p.rhs_contracting;
    const bool batched = contains(batch, s.dim - 1) || contains(batch, s.dim);
    return batched || s.dim == 0 || contains(contracting, s.dim - 1) != contains(contracting, s.dim);
  }

  // --- results that are sections ----------------------------------------------------------------------------------

  std::optional<Joined> joined_by(const ir::Eqn& e) const {
    if (e.op != &ops::def::concatenate || !is_even(e.out[0])) return std::nullopt;
    const std::int64_t d = ir::get<ops::Concatenate>(e.attrs).dimension;
    if (!g_.layout(e.out[0]).dims[at(d)].empty()) return std::nullopt;
    Joined out;
    const ValueId first = before_reshapes(e.in[0], true);
    for (auto v : e.in) {
      const ValueId made = before_reshapes(v, true);
      const ir::Eqn* m = maker_[at(made)];
      const bool fits = m != nullptr && uses_[at(v)] == 1 && uses_[at(made)] == 1 && product_of(g_, *m) &&
                        g_.type(v) == g_.type(e.in[0]) && g_.type(made) == g_.type(first) &&
                        g_.layout(made) == g_.layout(first) && g_.layout(made).partial == 0 && alike(v, made) &&
                        alike(v, e.out[0]) && same_kind(*m, *maker_[at(first)]);
      if (!fits) return std::nullopt;
      out.products.push_back(m);
    }
    auto found = place(e.in[0], d, first);
    if (!found) return std::nullopt;
    out.dim = *found;
    const bool regular = std::ranges::all_of(out.products, [&](const ir::Eqn* m) { return keeps_rows(*m, out.dim); });
    return regular ? std::optional(out) : std::nullopt;
  }
  bool same_kind(const ir::Eqn& a, const ir::Eqn& b) const {
    const TransposedProduct p = *product_of(g_, a);
    const TransposedProduct q = *product_of(g_, b);
    return p.preferred == q.preferred && p.precision == q.precision && g_.type(a.in[0]).dtype == g_.type(b.in[0]).dtype;
  }
  // Whether no sections come between the dimensions that are the product's rows, or its columns.
  bool keeps_rows(const ir::Eqn& e, std::int64_t dim) const {
    const TransposedProduct p = *product_of(g_, e);
    if (dim == 0 || dim == static_cast<std::int64_t>(p.permutation.size())) return true;
    const auto batch = static_cast<std::int64_t>(p.lhs_batch.size());
    const auto rows = g_.type(e.in[0]).rank() - static_cast<std::int64_t>(p.lhs_contracting.size());
    auto kind = [&](std::int64_t d) { return p.permutation[at(d)] < batch ? 0 : p.permutation[at(d)] < rows ? 1 : 2; };
    return kind(dim - 1) == 0 || kind(dim) == 0 || kind(dim - 1) != kind(dim);
  }

  // --- the new program --------------------------------------------------------------------------------------------

  Value write(const ir::Eqn& e, const Joined& joined) {
    JoinedProducts p;
    p.dimension = joined.dim;
    Values operands;
    for (const ir::Eqn* m : joined.products) p.add(product(*m, operands));
    const ValueId made = joined.products[0]->out[0];
    const auto count = static_cast<std::int64_t>(joined.products.size());
    auto [type, layout] = with_sections(made, joined.dim, count);
    b_.set_loc(joined.products[0]->loc);
    Value all = add(joined_products(), operands, ir::make_attrs(std::move(p)), type, layout);
    return reshaped(all, g_.type(e.out[0]), g_.layout(e.out[0]));
  }

  // A product of the old program, with its operands added to `operands`.
  TransposedProduct product(const ir::Eqn& e, Values& operands) {
    TransposedProduct p = *product_of(g_, e);
    for (std::size_t side : {0U, 1U}) {
      auto it = read_.find({&e, side});
      operands.push_back(it == read_.end() ? (*r_)[e.in[side]] : whole_of(it->second, e.in[side]));
      if (it != read_.end()) (side == 0 ? p.lhs_section : p.rhs_section) = {it->second.dim, it->second.index};
    }
    return p;
  }
  // The array of which `v` is a section, in the shape of `v` with the sections as one more dimension.
  Value whole_of(const Section& s, ValueId v) {
    auto [type, layout] = with_sections(v, s.dim, s.count);
    Value& made = whole_[{s.array, type.shape}];
    if (!made) made = reshaped((*r_)[s.array], type, layout);
    return made;
  }
  std::pair<ir::Type, ir::Layout> with_sections(ValueId v, std::int64_t dim, std::int64_t count) const {
    ir::Type type = g_.type(v);
    ir::Layout layout = g_.layout(v);
    type.shape.insert(type.shape.begin() + dim, count);
    layout.dims.insert(layout.dims.begin() + dim, ir::AxisList{});
    return {type, layout};
  }
  Value reshaped(Value x, const ir::Type& type, const ir::Layout& layout) {
    if (x.shape() == type.shape) return x;
    return add(ops::def::reshape, {x}, ir::make_attrs(ops::Reshape{type.shape}), type, layout);
  }
  Value add(const ir::OpDef& op, const Values& in, ir::Attrs attrs, const ir::Type& type, const ir::Layout& layout) {
    Value out = b_.add_typed(op, in, std::move(attrs), {type})[0];
    b_.set_layout(out, layout);
    return out;
  }

  const ir::Graph& g_;
  std::vector<const ir::Eqn*> maker_;  // by value
  std::vector<int> uses_;
  std::map<std::pair<const ir::Eqn*, std::size_t>, Section> read_;  // by product and operand
  std::unordered_map<const ir::Eqn*, Joined> joined_;               // by concatenation
  ir::Builder b_;
  ir::Rewriter* r_ = nullptr;
  std::map<std::pair<ValueId, Shape>, Value> whole_;
};

}  // namespace

ir::GraphPtr fold_sections(const ir::GraphPtr& graph) {
  auto cuts = [](const ir::Eqn& e) { return e.op == &ops::def::slice || e.op == &ops::def::concatenate; };
  if (std::ranges::none_of(graph->eqns, cuts)) return graph;
  auto folded = SectionFolder(*graph).run();
  return folded ? folded : graph;
}

}  // namespace tessera::cpu
