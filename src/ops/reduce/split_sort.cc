// SPDX-License-Identifier: Apache-2.0
// A sort along a split dimension: every position sorts its own elements, all find out between which of them the shards
// of the result begin, each element goes to its place in one exchange, and every position sorts what it received.
//
// The bounds are exact, so that every shard of the result receives as many elements as it has (Cheng, Edelman, Gilbert,
// Shah: A Novel Parallel Sorting Algorithm for Contemporary Architectures, 2006). They are found four bits of the keys
// at a time.
#include <limits>

#include "ops/collective/collectives.h"
#include "ops/collective/manual.h"
#include "ops/control/control.h"
#include "ops/define_op.h"
#include "ops/reduce/reduction.h"
#include "ops/reduce/sorting.h"
#include "ops/shape/dimension_parts.h"
#include "ops/shape/indexing_ops.h"
#include "ops/shape/row_routes.h"

namespace tessera::ops {

namespace {

constexpr std::int64_t kDigit = 4;  // bits

Value number(Value like, double value) { return scalar(*like.builder, value, like.dtype()); }

}  // namespace

Value ordered_keys(Value key) {
  if (is_bool(key.dtype())) return convert(key, DType::U32);
  if (is_unsigned_int(key.dtype())) return convert(key, dtype_size(key.dtype()) == 8 ? DType::U64 : DType::U32);
  bool wide = dtype_size(key.dtype()) == 8;
  DType bits = wide ? DType::U64 : DType::U32;
  double sign = wide ? 0x1p63 : 0x1p31;
  if (!is_float(key.dtype())) {
    Value u = bitcast_convert_type(convert(key, wide ? DType::I64 : DType::I32), bits);
    return xor_(u, number(u, sign));
  }
  key = convert(key, wide ? DType::F64 : DType::F32);
  key = where(eq(key, number(key, 0)), number(key, 0), key);
  Value u = bitcast_convert_type(key, bits);
  Value flipped = where(ge(u, number(u, sign)), not_(u), or_(u, number(u, sign)));
  return where(ne(key, key), not_(number(u, 0)), flipped);
}

namespace {

// By bound: how many of the ascending numbers are less, or not more. A binary search for all bounds together.
Value count_below(Value ascending, Value bounds, bool or_equal) {
  Builder& b = *ascending.builder;
  std::int64_t n = ascending.shape()[0];
  Value found = zeros(b, {DType::I32, bounds.shape()});
  std::int64_t step = 1;
  while (2 * step <= n) step *= 2;
  Gather pick{{}, {0}, {0}, {}, {}, {1}, IndexMode::Clip};
  Shape vectors = bounds.shape();
  vectors.push_back(1);
  for (; step > 0; step /= 2) {
    Value next = found + static_cast<double>(step);
    Value before = gather(ascending, reshape(next - 1.0, vectors), pick);
    Value below = or_equal ? le(before, bounds) : lt(before, bounds);
    found = where(and_(below, le(next, number(next, static_cast<double>(n)))), next, found);
  }
  return found;
}

// The keys with these numbers in the order of all, counted from 0.
Value keys_at(Value ascending, Value numbers, const Collective& c) {
  Builder& b = *ascending.builder;
  DType t = ascending.dtype();
  std::int64_t bits = dtype_size(t) * 8;
  std::int64_t digits = (std::int64_t{1} << kDigit) - 1;
  Builder inner;
  Value keys = inner.input(ascending.type());
  Value wanted = inner.input(numbers.type());
  Value found = inner.input({t, numbers.shape()});
  Value shift = inner.input({t, {}});
  Shape table = numbers.shape();
  table.push_back(digits);
  Value digit = iota(inner, t, table, 1) + 1.0;
  Value tried = broadcast_in_dim(found, table, {0}) + shift_left(digit, broadcast_to(shift, table));
  Value below = psum(count_below(keys, tried, false), c);
  Value fits = convert(le(below, broadcast_in_dim(wanted, table, {0})), t);
  Value next = found + shift_left(reduce_sum(fits, {1}), broadcast_to(shift, numbers.shape()));
  ScanArgs args;
  args.body = inner.finish_shared(Values{next, shift - static_cast<double>(kDigit)});
  args.length = bits / kDigit;
  args.consts = {ascending, numbers};
  args.carry = {zeros(b, {t, numbers.shape()}), scalar(b, static_cast<double>(bits - kDigit), t)};
  return scan(b, args)[0];
}

// What each position sends: by source and destination, the first element and the number of elements.
struct Shares {
  Value first, size;
};
Shares shares(Value ascending, std::int64_t parts, const Collective& c) {
  Builder& b = *ascending.builder;
  std::int64_t chunk = ascending.shape()[0];
  Value numbers = (iota(b, DType::I32, {parts - 1}, 0) + 1.0) * static_cast<double>(chunk);
  Value bounds = keys_at(ascending, numbers, c);
  Value below = count_below(ascending, bounds, false);
  Value equal = count_below(ascending, bounds, true) - below;
  AllGather gathered;
  static_cast<Collective&>(gathered) = c;
  Value all = reshape(all_gather(concatenate(Values{below, equal}, 0), gathered), {parts, 2, parts - 1});
  auto part = [&](std::int64_t i) { return squeeze(slice_in_dim(all, i, i + 1, 1), {1}); };
  // Of elements that equal a bound, those of the first positions come before it, as many as there is room for.
  Value room = broadcast_in_dim(numbers - reduce_sum(part(0), {0}), {parts, parts - 1}, {1});
  Value earlier = cumsum(part(1), 0) - part(1);
  Value split = part(0) + clamp(zeros_like(room), room - earlier, part(1));
  Value none = zeros(b, {DType::I32, {parts, 1}});
  Value edges = concatenate(Values{none, split, none + static_cast<double>(chunk)}, 1);
  Value first = slice_in_dim(edges, 0, parts, 1);
  return {first, slice_in_dim(edges, 1, parts + 1, 1) - first};
}

}  // namespace

std::optional<ir::Division> sort_by_exchange(Builder& b, const ir::DivideArgs& a, const Sort& p) {
  const Shape shape = a.in[0].shape();
  std::int64_t n = shape[at(p.dimension)];
  std::int64_t parts = a.parts_of(0, p.dimension);
  DimensionParts line(0, n, parts);
  std::int64_t chunk = line.chunk();
  bool one_line = size_of(shape) == n;
  if (parts == 1 || !one_line || p.num_keys != 1 || is_complex(a.in[0].dtype())) return std::nullopt;
  if (chunk < 2 * parts || parts * chunk > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  Collective c;
  ManualSpec spec;
  spec.dims.emplace_back();
  for (auto axis : a.operands[0].dims[at(p.dimension)]) {
    c.names.list.push_back(a.mesh.names[axis]);
    c.sizes.push_back(a.mesh.sizes[axis]);
    spec.dims[0].push_back(axis);
  }
  c.axes = spec.manual = spec.dims[0];
  spec.shape = {chunk};
  Values blocks;
  for (auto x : a.in) {
    x = reshape(x, {n});
    // Fillings are as great as any key and come after those that equal them.
    HostArray last(x.dtype(), {});
    View view{x.dtype(), {}, last.data()};
    bool nan = is_float(x.dtype());
    nan                     ? store_float(view, 0, std::numeric_limits<double>::quiet_NaN())
    : is_complex(x.dtype()) ? store_complex(view, 0, 0)
                            : identity(Reduction::Min, view, 0);
    blocks.push_back(b.add1(def::manual_enter, {fill_up(x, line, constant(b, last))}, attrs(spec)));
  }
  blocks = sort(blocks, 0);
  Shares s = shares(ordered_keys(blocks[0]), parts, c);
  RowRoutes routes(s.first, s.size, c);
  for (auto& x : blocks) x = routes.sent(x, chunk);
  blocks = sort(blocks, 0);
  spec.shape = {parts * chunk};
  ir::Division out;
  for (const auto& x : blocks) {
    Value whole = b.add1(def::manual_exit, {x}, attrs(spec));
    out.out.push_back(reshape(slice_in_dim(whole, 0, n, 0), shape));
  }
  return out;
}

}  // namespace tessera::ops
