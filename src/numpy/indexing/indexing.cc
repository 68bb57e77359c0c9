// SPDX-License-Identifier: Apache-2.0
#include "tessera/indexing.h"

#include "array/array_impl.h"
#include "numpy/indexing/index_plan.h"
#include "numpy/indexing/write_sharding.h"
#include "numpy/placed.h"
#include "program/graph_fragment.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera {

using program::Arrays;
using program::IndexPlan;
using program::unplaced;

IndexItem::IndexItem(const std::vector<std::int64_t>& indices)
    : kind_(Kind::Array), array_(HostArray::from(std::vector<std::int32_t>(indices.begin(), indices.end()))) {}

Array index(const Operand& x, const IndexItems& items, const IndexOptions& o) {
  const Loc& loc = x.loc();
  IndexPlan p = program::plan_index(program::type_of(x.array(), "index").shape, items, loc);
  arrays::check_whole(*x.array().impl(), "index");
  p.gather.mode = program::mode_of(o.mode.value_or(IndexMode::PromiseInBounds));
  p.gather.fill = o.fill_value;
  p.gather.unique_indices = o.unique_indices;
  Arrays in{x.array()};
  in.insert(in.end(), p.arrays.begin(), p.arrays.end());
  auto read = [&] {
    return program::composite("index", loc, in, [&](const Arrays& v) {
      Array y = program::sliced(p, v[0]);
      if (!p.arrays.empty()) {
        Array at = program::index_vectors(p, Arrays(v.begin() + 1, v.end()), o.wrap_negative_indices);
        program::check_read(p, "gather", v[0], at);
        y = program::graph_fragment1("index", loc, {y, at}, [&](ir::Builder&, const ir::Values& u) {
          return ops::gather(u[0], u[1], p.gather);
        });
      }
      return reshape(y, p.result);
    });
  };
  if (!p.arrays.empty()) return detail::placed_as(o.out_sharding, "index", read);
  // A slice must be legal by itself; then it is resharded.
  Array slice = read();
  return detail::placed_as(o.out_sharding, "index", [&] { return slice; });
}

// One for each number of items: a pack would leave no place for the caller's line, and would call anything callable.
Array Array::operator()(const IndexItem& a, const Loc& loc) const { return index(Operand(*this, loc), {a}); }
Array Array::operator()(const IndexItem& a, const IndexItem& b, const Loc& loc) const {
  return index(Operand(*this, loc), {a, b});
}
Array Array::operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const Loc& loc) const {
  return index(Operand(*this, loc), {a, b, c});
}
Array Array::operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d,
                        const Loc& loc) const {
  return index(Operand(*this, loc), {a, b, c, d});
}
Array Array::operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d,
                        const IndexItem& e, const Loc& loc) const {
  return index(Operand(*this, loc), {a, b, c, d, e});
}
Array Array::operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d,
                        const IndexItem& e, const IndexItem& f, const Loc& loc) const {
  return index(Operand(*this, loc), {a, b, c, d, e, f});
}
Array Array::operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d,
                        const IndexItem& e, const IndexItem& f, const IndexItem& g, const Loc& loc) const {
  return index(Operand(*this, loc), {a, b, c, d, e, f, g});
}
Array Array::operator()(const IndexItem& a, const IndexItem& b, const IndexItem& c, const IndexItem& d,
                        const IndexItem& e, const IndexItem& f, const IndexItem& g, const IndexItem& h,
                        const Loc& loc) const {
  return index(Operand(*this, loc), {a, b, c, d, e, f, g, h});
}

namespace {

using Write = ir::Value (*)(ir::Value, ir::Value, ir::Value, const ops::Scatter&);
/// How one element takes an update.
struct Update {
  const char* name;
  Write scatter;
  Array (*combine)(const Operand&, const Operand&);  ///< null: the update itself
  double neutral;                                    ///< leaves an element as it is, under `combine`
};

// True where the plan's slice takes an element.
Array taken(const IndexPlan& p) {
  Array mask(true);
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    if (p.strides[d] == 1 && p.starts[d] == 0 && p.limits[d] == p.operand[d]) continue;
    Shape line(p.operand.size(), 1);
    line[d] = p.operand[d];
    Array i = iota(int32, line, static_cast<std::int64_t>(d));
    Array in = logical_and(i >= p.starts[d], i < p.limits[d]);
    if (p.strides[d] != 1) in = logical_and(in, (i - p.starts[d]) % p.strides[d] == 0);
    mask = logical_and(mask, in);
  }
  return broadcast_to(mask, p.operand);
}

// Updates of a static slice: laid out over the whole array, and taken where the mask says. Dimensions taken whole stay
// split as they are.
Array write_slice(const IndexPlan& p, const Update& u, const Array& x, const Array& update) {
  if (p.whole) return u.combine ? u.combine(x, update) : update;
  std::vector<lax::PadDim> pads;
  for (std::size_t d = 0; d < p.operand.size(); ++d) {
    pads.push_back({p.starts[d], p.operand[d] - std::max(p.limits[d], p.starts[d]), p.strides[d] - 1});
    if (p.sliced[d] == 0) return x;
  }
  Array y = p.reversed.empty() ? update : lax::rev(update, p.reversed);
  y = lax::pad(y, program::as(Array(u.neutral), y.dtype()), pads);
  return where(taken(p), u.combine ? u.combine(x, y) : y, x);
}

Array write_arrays(const IndexPlan& p, const Update& u, const Array& x, const Array& given, const Arrays& arrays,
                   const IndexOptions& o) {
  Array at = program::index_vectors(p, arrays, o.wrap_negative_indices);
  const Array update = program::placed_update(p, u.name, x, at, given);
  program::check_written_ranges(p, u.name, x);
  ops::Scatter s = ops::inverse_of(p.gather);
  s.mode = program::mode_of(o.mode.value_or(IndexMode::FillOrDrop));
  s.unique_indices = o.unique_indices;
  Array y = program::sliced(p, x);
  y = program::graph_fragment1(u.name, Loc::current(), {y, at, update},
                               [&](ir::Builder&, const ir::Values& v) { return u.scatter(v[0], v[1], v[2], s); });
  if (p.whole) return y;
  return program::typed_as(program::checked_sharding(x, u.name), [&] {
    return write_slice(p, {"set", ops::scatter, nullptr, 0}, x, y);
  });
}

Array write_ranges(const IndexPlan& p, const Update& u, const Array& x, const Array& given) {
  const Array update = program::placed_update(p, u.name, x, Array(), given);
  program::check_written_ranges(p, u.name, x);
  return program::typed_as(program::checked_sharding(x, u.name), [&] { return write_slice(p, u, x, update); });
}

// A bool array alone: the update, of rank 0, goes where it is true. Needs no positions, so it works under a trace.
bool is_plain_mask(const IndexItems& items, const Array& update) {
  return items.size() == 1 && items[0].kind() == IndexItem::Kind::Array && is_bool(items[0].array().dtype()) &&
         update.ndim() == 0;
}
Array write_mask(const Update& u, const Array& x, const Array& mask, const Array& update) {
  Dims dims;
  Shape wide = mask.shape();
  for (std::int64_t d = mask.ndim(); d < x.ndim(); ++d) wide.push_back(1);
  Array m = broadcast_to(reshape(mask, wide), x.shape());
  return where(m, u.combine ? u.combine(x, update) : update, x);
}

Array plain_write(const Update& u, const Operand& x, const IndexItems& items, const Operand& given,
                  const IndexOptions& o) {
  const Loc& loc = x.loc();
  const ir::Type type = program::type_of(x.array(), u.name);
  const bool masked = is_plain_mask(items, given.array());
  IndexPlan p;
  Arrays in{x.array(), given.array()};
  if (masked) {
    in.push_back(items[0].array());
  } else {
    p = program::plan_index(type.shape, items, loc);
    in.insert(in.end(), p.arrays.begin(), p.arrays.end());
  }
  return program::composite(u.name, loc, in, [&](const Arrays& v) {
    // In the common dtype, then back.
    Arrays both = program::promoted(u.name, {v[0], v[1]});
    Array y;
    if (masked) {
      y = write_mask(u, both[0], v[2], both[1]);
    } else {
      Array update = reshape(broadcast_to(both[1], p.result), p.gathered);
      if (is_bool(update.dtype()) || update.weak_type()) update = program::as(update, update.dtype());
      y = p.arrays.empty() ? write_ranges(p, u, both[0], update)
                           : write_arrays(p, u, both[0], update, Arrays(v.begin() + 2, v.end()), o);
    }
    return program::cast(y, type.dtype, type.weak, Loc::current());
  });
}

Array write(const Update& u, const Operand& x, const IndexItems& items, const Operand& given, const IndexOptions& o) {
  return detail::placed_as(o.out_sharding, u.name, [&] { return plain_write(u, x, items, given, o); });
}

const Update kSet{"set", ops::scatter, nullptr, 0};
const Update kAdd{"add", ops::scatter_add, add, 0};
const Update kMultiply{"multiply", ops::scatter_mul, multiply, 1};
const Update kMin{"min", ops::scatter_min, minimum, 0};
const Update kMax{"max", ops::scatter_max, maximum, 0};

}  // namespace

Array IndexUpdate::set(const Operand& v, const IndexOptions& o) const { return write(kSet, x_, items_, v, o); }
Array IndexUpdate::add(const Operand& v, const IndexOptions& o) const { return write(kAdd, x_, items_, v, o); }
Array IndexUpdate::subtract(const Operand& v, const IndexOptions& o) const {
  return write(kAdd, x_, items_, Operand(negative(v), v.loc()), o);
}
Array IndexUpdate::multiply(const Operand& v, const IndexOptions& o) const {
  return write(kMultiply, x_, items_, v, o);
}
Array IndexUpdate::divide(const Operand& v, const IndexOptions& o) const {
  return detail::placed_as(o.out_sharding, "divide", [&] {
    Array divisor = at(ones_like(x_), items_).multiply(v, unplaced(o));
    return tessera::divide(x_, divisor);
  });
}
Array IndexUpdate::power(const Operand& v, const IndexOptions& o) const {
  return detail::placed_as(o.out_sharding, "power", [&] {
    Array exponent = at(ones_like(x_), items_).multiply(v, unplaced(o));
    return tessera::power(x_, exponent);
  });
}
Array IndexUpdate::min(const Operand& v, const IndexOptions& o) const { return write(kMin, x_, items_, v, o); }
Array IndexUpdate::max(const Operand& v, const IndexOptions& o) const { return write(kMax, x_, items_, v, o); }
Array IndexUpdate::apply(const std::function<Array(const Array&)>& f, const IndexOptions& o, const Loc&) const {
  return set(f(get(unplaced(o))), o);
}

}  // namespace tessera
