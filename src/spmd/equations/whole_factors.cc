// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/whole_factors.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"
#include "ops/linalg/linalg_ops.h"
#include "ops/shared_attrs.h"
#include "ops/transform/interpret.h"
#include "spmd/equations/known_constants.h"

namespace tessera::spmd {

namespace {

using ir::Value;
using ir::ValueId;
using ir::Values;

// A number that depends on an element's place in its matrix: row * i + column * j + offset.
struct PlaceNumber {
  std::int64_t row = 0, column = 0, offset = 0;
};

class FactorFinder {
 public:
  explicit FactorFinder(const ir::Graph& g) : g_(g), uses_(g), number_(g.num_values()) {
    for (const auto& e : g.eqns) {
      if (e.out.size() == 1) number_[static_cast<std::size_t>(e.out[0])] = number_made_by(e);
    }
  }

  // Reflectors that become factors.
  bool are_factors(const ir::Eqn& e) const {
    const auto* p = e.op == &ops::def::qr ? &ir::get<ops::Qr>(e.attrs) : nullptr;
    if (p == nullptr || !p->packed) return false;
    const Shape& shape = g_.type(e.out[0]).shape;
    if (shape[shape.size() - 2] < shape.back()) return false;
    const ValueId taus = e.out[1];
    if (uses_.of(taus).empty() || !all_read(taus, [&](const ir::Eqn& r) { return is_product(r, e); })) return false;
    return all_read(e.out[0], [&](const ir::Eqn& r) {
      return is_product(r, e) || keeps_triangle(r, e.out[0]) || is_top_of_triangle(r);
    });
  }
  // The reflectors that `e` multiplies; null where they are not made here.
  const ir::Eqn* reflectors_of_product(const ir::Eqn& e) const {
    const ir::Eqn* made = e.op == &ops::def::householder_product ? maker(e.in[0]) : nullptr;
    return made != nullptr && is_product(e, *made) ? made : nullptr;
  }
  const ir::Eqn* maker(ValueId v) const { return uses_.maker(v); }

 private:
  // Whether all that read a value are such equations, and it is no result of the program.
  template <class F>
  bool all_read(ValueId v, F&& such) const {
    return !uses_.returned(v) && std::ranges::all_of(uses_.of(v), [&](const Use& use) { return such(*use.eqn); });
  }
  static bool is_product(const ir::Eqn& e, const ir::Eqn& reflectors) {
    return e.op == &ops::def::householder_product && e.in == reflectors.out;
  }

  // The first n rows, of which only the upper triangle is read.
  bool is_top_of_triangle(const ir::Eqn& e) const {
    const auto* slice = e.op == &ops::def::slice ? &ir::get<ops::StaticSlice>(e.attrs) : nullptr;
    if (slice == nullptr) return false;
    Shape top = g_.type(e.in[0]).shape;
    top[top.size() - 2] = top.back();
    const bool whole =
        std::ranges::all_of(slice->starts, [](auto s) { return s == 0; }) && g_.type(e.out[0]).shape == top;
    return whole && all_read(e.out[0], [&](const ir::Eqn& r) { return keeps_triangle(r, e.out[0]); });
  }

  // Whether `e` has zeros below the diagonal, whatever the square matrices `x` have there.
  bool keeps_triangle(const ir::Eqn& e, ValueId x) const {
    const Shape& shape = g_.type(x).shape;
    if (e.op != &ops::def::select_n || e.in.size() != 3 || shape[shape.size() - 2] != shape.back()) return false;
    const bool where_true = e.in[2] == x;
    const ValueId other = e.in[where_true ? 1 : 2];
    return e.in[0] != x && other != x && is_zero(other) && decided_below(e.in[0], !where_true);
  }

  bool is_zero(ValueId v) const {
    const ir::Eqn* e = constant_of(uses_, v);
    if (e == nullptr) return false;
    const HostArray value = ops::interpret(*e->op, {}, e->attrs)[0];
    const auto* bytes = static_cast<const char*>(value.data());
    return std::all_of(bytes, bytes + value.nbytes(), [](char c) { return c == 0; });
  }

  // Whether the mask is `wanted` at every place below the diagonal.
  bool decided_below(ValueId mask, bool wanted) const {
    const ir::Eqn* e = maker(mask);
    while (e != nullptr && spreads_matrices(*e)) e = maker(e->in[0]);
    if (e == nullptr || e->in.size() != 2) return false;
    const auto x = number(e->in[0]), y = number(e->in[1]);
    if (!x || !y || !is_small(*x) || !is_small(*y)) return false;
    // The comparison of row - column with `limit`.
    const std::int64_t row = x->row - y->row;
    bool less = e->op == &ops::def::lt || e->op == &ops::def::le;
    bool equal = e->op == &ops::def::le || e->op == &ops::def::ge;
    if ((!less && e->op != &ops::def::gt && e->op != &ops::def::ge) || std::abs(row) != 1) return false;
    if (x->column - y->column != -row) return false;
    const std::int64_t limit = row * (y->offset - x->offset);
    less = less == (row == 1);
    if (!wanted) {
      less = !less;
      equal = !equal;
    }
    // Below the diagonal row - column is 1 or more.
    return !less && (equal ? limit <= 1 : limit < 1);
  }

  // The same matrices along further dimensions before them.
  bool spreads_matrices(const ir::Eqn& e) const {
    if (e.op != &ops::def::broadcast_in_dim) return false;
    const Shape& from = g_.type(e.in[0]).shape;
    const Shape& to = g_.type(e.out[0]).shape;
    if (from.size() < 2 || !std::equal(from.end() - 2, from.end(), to.end() - 2)) return false;
    const Dims& dims = ir::get<ops::BroadcastInDim>(e.attrs).dims;
    const auto rank = static_cast<std::int64_t>(to.size());
    return dims[dims.size() - 2] == rank - 2 && dims.back() == rank - 1;
  }

  const std::optional<PlaceNumber>& number(ValueId v) const { return number_[static_cast<std::size_t>(v)]; }

  std::optional<PlaceNumber> number_made_by(const ir::Eqn& e) const {
    if (!is_integer(g_.type(e.out[0]).dtype)) return std::nullopt;
    if (auto same = number_of(g_, uses_, e.out[0])) return PlaceNumber{0, 0, *same};
    if (e.op == &ops::def::iota) {
      const auto& p = ir::get<ops::Iota>(e.attrs);
      const std::int64_t from_last = static_cast<std::int64_t>(p.shape.size()) - 1 - p.dimension;
      if (p.shape.size() < 2 || from_last > 1) return std::nullopt;
      return PlaceNumber{from_last, 1 - from_last, p.start};
    }
    if (e.op == &ops::def::broadcast_in_dim) {
      const bool one = g_.type(e.in[0]).rank() == 0;
      return one || spreads_matrices(e) ? number(e.in[0]) : std::nullopt;
    }
    if (e.op == &ops::def::convert) return number(e.in[0]);
    if (e.op != &ops::def::add && e.op != &ops::def::sub) return std::nullopt;
    const auto x = number(e.in[0]), y = number(e.in[1]);
    if (!x || !y || !is_small(*x) || !is_small(*y)) return std::nullopt;
    const std::int64_t sign = e.op == &ops::def::add ? 1 : -1;
    return PlaceNumber{x->row + sign * y->row, x->column + sign * y->column, x->offset + sign * y->offset};
  }
  // So that sums and differences of two are numbers.
  static bool is_small(const PlaceNumber& n) {
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    auto small = [](std::int64_t x) { return x > -kMost && x < kMost; };
    return small(n.row) && small(n.column) && small(n.offset);
  }

  const ir::Graph& g_;
  GraphUses uses_;
  std::vector<std::optional<PlaceNumber>> number_;  // by value
};

bool may_have_reflectors(const ir::Graph& g) {
  return std::ranges::any_of(g.eqns, [](const ir::Eqn& e) {
    if (e.op == &ops::def::householder_product) return true;
    auto control = ops::control_of(e);
    return control && std::ranges::any_of(control->bodies, [](const auto& b) { return may_have_reflectors(*b.graph); });
  });
}

}  // namespace

ir::GraphPtr with_whole_factors(const ir::GraphPtr& graph) {
  if (!may_have_reflectors(*graph)) return graph;
  const FactorFinder found(*graph);
  ir::Builder b;
  ir::Rewriter r(b, *graph);
  r.add_inputs();
  std::map<const ir::Eqn*, Values> factors;  // by reflectors: q and r
  auto factors_by = [&](const ir::Eqn* e) { return e == nullptr ? factors.end() : factors.find(e); };
  r.walk([&](const ir::Eqn& e, const Values& in) {
    if (auto control = ops::control_of(e)) {
      std::vector<ir::GraphPtr> bodies;
      for (const auto& body : control->bodies) bodies.push_back(with_whole_factors(body.graph));
      return r.copy(e, in, ops::with_bodies(e, bodies));
    }
    if (found.are_factors(e)) {
      Values f = ops::qr(in[0]);
      factors.emplace(&e, f);
      const Shape& shape = in[0].shape();
      // Of square ones the triangle is taken without a slice.
      return Values{shape[shape.size() - 2] == shape.back() ? f[1] : Value{}, Value{}};
    }
    if (auto f = factors_by(found.reflectors_of_product(e)); f != factors.end()) return Values{f->second[0]};
    if (e.op == &ops::def::slice) {
      if (auto f = factors_by(found.maker(e.in[0])); f != factors.end()) return Values{f->second[1]};
    }
    return r.copy(e, in);
  });
  return r.finish("whole_factors");
}

}  // namespace tessera::spmd
