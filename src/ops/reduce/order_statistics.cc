// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce/order_statistics.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "ops/control/control.h"
#include "ops/define_op.h"
#include "ops/reduce/sorting.h"
#include "ops/shape/dimension_parts.h"
#include "ops/shape/indexing_common.h"

namespace tessera::ops {

namespace {

// Wanted elements of a line. Each takes a pass over the line for every bit of a key, where a sort of the line takes one
// for every doubling of its length.
constexpr std::int64_t kMostWanted = 8;
// Elements of a shard. The bits of a key are as many exchanges, one after the other, which shorter sorts do not wait
// for.
constexpr std::int64_t kLeastShard = std::int64_t{1} << 15;
// Elements that are counted at a time.
constexpr std::int64_t kRow = 512;
// Larger ones come from memory in each pass: half as many passes for half as many bytes again that are exchanged.
constexpr std::int64_t kCached = std::int64_t{1} << 18;

Value key_number(Value like, double value) { return scalar(*like.builder, value, like.dtype()); }

// The bits in which keys of a dtype may differ, from the highest to the lowest, and the others.
struct KeyBits {
  std::int64_t highest = 31, lowest = 0;
  double others = 0;
};
KeyBits key_bits(DType t) {
  const std::int64_t bits = dtype_size(t) * 8;
  if (is_bool(t)) return {0, 0};
  if (bits == 64) return {63, 0};
  if (t == DType::BF16) return {31, 16};
  if (t == DType::F16) return {31, 13};
  if (is_float(t) || bits == 32) return {};
  return {bits - 1, 0, is_unsigned_int(t) ? 0 : 0x1p31 - std::ldexp(1.0, static_cast<int>(bits) - 1)};
}

// What `ordered_keys` makes these of; of zeros the positive one. Lower bits are as good as zero.
Value of_ordered_keys(Value key, DType t, std::int64_t lowest) {
  if (is_bool(t)) return ne(key, key_number(key, 0));
  if (is_unsigned_int(t)) return convert(key, t);
  const bool wide = dtype_size(key.dtype()) == 8;
  Value sign = key_number(key, wide ? 0x1p63 : 0x1p31);
  if (!is_float(t)) return convert(bitcast_convert_type(xor_(key, sign), wide ? DType::I64 : DType::I32), t);
  Value bits = where(ge(key, sign), xor_(key, sign), not_(key));
  if (lowest > 0) bits = and_(bits, key_number(key, 0x1p32 - std::ldexp(1.0, static_cast<int>(lowest))));
  return convert(bitcast_convert_type(bits, wide ? DType::F64 : DType::F32), t);
}

// Keys with d as the last dimension, cut into the shards' parts of a line and these into rows, each row by itself: what
// a fused pass counts.
Value in_rows(Value keys, std::int64_t d, std::int64_t parts) {
  // Fillings are less than nothing.
  Value fill = not_(scalar(*keys.builder, 0, keys.dtype()));
  keys = move_dim(keys, d, keys.rank() - 1);
  keys = cut_in_parts(keys, {keys.rank() - 1, keys.shape().back(), parts}, fill);
  const std::int64_t chunk = keys.shape().back();
  return cut_in_parts(keys, {keys.rank() - 1, chunk, (chunk + kRow - 1) / kRow}, fill);
}

// How many keys of each part of a line are less than `tried` and than `count` - 1 more numbers, each `step` more than
// the one before: [count, q, lines, parts]. Rows are read once for all: their counts are digits of one number.
Value counted(Value keys, Value tried, Value step, std::int64_t count) {
  constexpr std::int64_t kBits = 10;
  static_assert(kRow < (1 << kBits));
  const std::int64_t rows = tried.rank() + 1;  // their dimension, behind the ranks, the lines and the parts
  Shape compared(keys.shape().begin(), keys.shape().end());
  compared.insert(compared.begin(), tried.shape()[0]);
  Dims of_keys(at(keys.rank())), of_lines(at(tried.rank()));
  std::iota(of_keys.begin(), of_keys.end(), 1);
  std::iota(of_lines.begin(), of_lines.end(), 0);
  const Shape lines(tried.shape().begin(), tried.shape().end());
  keys = broadcast_in_dim(keys, compared, of_keys);
  Value all;
  for (std::int64_t i = 0; i < count; ++i) {
    Value less = convert(lt(keys, broadcast_in_dim(tried, compared, of_lines)), DType::I32);
    all = all ? all + less * static_cast<double>(std::int64_t{1} << (kBits * i)) : less;
    tried = tried + broadcast_to(step, lines);
  }
  all = reduce_sum(all, {rows + 1});
  Values out;
  for (std::int64_t i = 0; i < count; ++i) {
    Value own = all;
    if (i > 0) own = shift_right_logical(own, key_number(own, static_cast<double>(kBits * i)));
    if (count > 1) own = and_(own, key_number(own, (1 << kBits) - 1));
    out.push_back(expand_dims(reduce_sum(own, {rows}), {0}));
  }
  return concatenate(out, 0);
}

// By line and rank the key with that rank, counted from 0. Keys of shape [lines, parts, rows, row], ranks of [q,
// lines]. As many bits are found at a time as `digit` says; all numbers between two are tried.
Value keys_of_ranks(Value keys, Value ranks, const KeyBits& bits, std::int64_t digit) {
  Builder& b = *keys.builder;
  Builder inner;
  Value all = inner.input(keys.type());
  Value wanted = inner.input(ranks.type());
  Value found = inner.input({keys.dtype(), ranks.shape()});
  Value shift = inner.input({keys.dtype(), {}});
  const Shape results(ranks.shape().begin(), ranks.shape().end());
  const std::int64_t count = (std::int64_t{1} << digit) - 1;
  Shape table = results;
  table.insert(table.begin(), count);
  Dims of_table(results.size());
  std::iota(of_table.begin(), of_table.end(), 1);
  Value step = shift_left(key_number(shift, 1), shift);
  Value below = counted(all, found + broadcast_to(step, results), step, count);
  // What shards exchange are counts of the ranks' dtype.
  below = reduce_sum(convert(below, wanted.dtype()), {below.rank() - 1});
  Value passed = convert(le(below, broadcast_in_dim(wanted, table, of_table)), keys.dtype());
  Value next = found + shift_left(reduce_sum(passed, {0}), broadcast_to(shift, results));
  ScanArgs args;
  args.body = inner.finish_shared(Values{next, shift - static_cast<double>(digit)});
  args.length = (bits.highest - bits.lowest + 1) / digit;
  args.consts = {keys, ranks};
  args.carry = {full(b, bits.others, {keys.dtype(), results}),
                scalar(b, static_cast<double>(bits.highest + 1 - digit), keys.dtype())};
  return scan(b, args)[0];
}

// Zeros are equal to a sort, which leaves those of either sign in the order in which they came.
Value with_signs_of_zeros(Value found, Value x, std::int64_t d) {
  const bool wide = dtype_size(x.dtype()) == 8;
  Value bits = bitcast_convert_type(convert(x, wide ? DType::F64 : DType::F32), wide ? DType::U64 : DType::U32);
  Value positive = reduce_max(convert(eq(bits, key_number(bits, 0)), DType::U8), {d});
  const Shape shape(found.shape().begin(), found.shape().end());
  Dims of_lines(shape.size() - 1);
  std::iota(of_lines.begin(), of_lines.end(), 1);
  Value negative = broadcast_in_dim(eq(positive, key_number(positive, 0)), shape, of_lines);
  return where(and_(eq(found, key_number(found, 0)), negative), neg(zeros_like(found)), found);
}

std::int64_t shard_size(const ir::DivideArgs& a) {
  std::int64_t n = a.in[0].type().size();
  for (std::int64_t d = 0; d < a.in[0].rank(); ++d) n /= a.parts_of(0, d);
  return n;
}

// Whether few elements of lines of a sorted operand are to be found by counting, and along which dimension.
std::optional<std::int64_t> sorted_along(const ir::DivideArgs& a) {
  if (a.maker->op != &def::sort) return std::nullopt;
  const auto& sort = ir::get<Sort>(a.maker->attrs);
  const Type& type = a.in[0].type();
  const std::int64_t d = sort.dimension;
  if (a.parts_of(0, d) == 1 || sort.num_keys != 1 || is_complex(type.dtype)) return std::nullopt;
  if (shard_size(a) < kLeastShard || type.shape[at(d)] > std::numeric_limits<std::int32_t>::max()) {
    return std::nullopt;
  }
  return d;
}

// The elements with these ranks where x is sorted along d: x's shape with [q] along d. Ranks are of shape [q] or
// [q, x's shape without d, or 1], and are moved inside.
Value elements_of_ranks(const ir::DivideArgs& a, Value ranks, std::int64_t d) {
  Value x = a.in[0];
  const std::int64_t n = x.shape()[at(d)];
  Shape lines(x.shape().begin(), x.shape().end());
  lines.erase(lines.begin() + d);
  lines.insert(lines.begin(), ranks.shape()[0]);
  Dims dims(at(ranks.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  ranks = as_signed(ranks);
  ranks = clamp(key_number(ranks, 0), ranks, key_number(ranks, static_cast<double>(n - 1)));
  ranks = convert(ranks, n <= std::numeric_limits<std::uint16_t>::max() ? DType::U16 : DType::I32);
  const KeyBits bits = key_bits(x.dtype());
  const std::int64_t digit = shard_size(a) > kCached && (bits.highest - bits.lowest) % 2 == 1 ? 2 : 1;
  Value keys = in_rows(ordered_keys(x), d, a.parts_of(0, d));
  Value found = keys_of_ranks(keys, broadcast_in_dim(ranks, lines, dims), bits, digit);
  found = of_ordered_keys(found, x.dtype(), bits.lowest);
  if (is_float(x.dtype())) found = with_signs_of_zeros(found, x, d);
  return move_dim(found, 0, d);
}

}  // namespace

// The elements that are found stand where the sorted ones stood, for a gather that picks each in its turn.
std::optional<ir::Division> gather_of_sorted(Builder& b, const ir::DivideArgs& a, const Gather& p) {
  auto d = sorted_along(a);
  if (!d || p.start_index_map != Dims{*d} || p.collapsed_slice_dims != Dims{*d}) return std::nullopt;
  Value x = a.in[0];
  const Shape shape(x.shape().begin(), x.shape().end());
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    if (i != *d && !contains(p.operand_batching_dims, i) && p.slice_sizes[at(i)] != shape[at(i)]) return std::nullopt;
  }
  Value indices = squeeze(a.in[1], {a.in[1].rank() - 1});
  const Shape picked(indices.shape().begin(), indices.shape().end());
  // Of the indices: [those of one line, the batching dimensions], and of the ranks the dimensions that those are.
  Dims own, order, dims{0};
  Shape numbers, ranked{1}, lines(shape.size(), 1);
  for (std::int64_t i = 0; i < rank(picked); ++i) {
    if (contains(p.indices_batching_dims, i)) continue;
    own.push_back(i);
    numbers.push_back(picked[at(i)]);
  }
  order = own;
  const std::int64_t q = size_of(numbers);
  if (q == 0 || q > kMostWanted || size_of(picked) == 0 || size_of(shape) == 0) return std::nullopt;
  ranked[0] = lines[0] = q;
  for (std::size_t i = 0; i < p.operand_batching_dims.size(); ++i) {
    const std::int64_t batch = p.indices_batching_dims[i];
    order.push_back(batch);
    ranked.push_back(picked[at(batch)]);
    const std::int64_t line = p.operand_batching_dims[i];
    dims.push_back(line < *d ? line + 1 : line);
    lines[at(dims.back())] = picked[at(batch)];
  }
  Value ranks = broadcast_in_dim(reshape(transpose(indices, order), ranked), lines, dims);
  Value found = elements_of_ranks(a, ranks, *d);
  Value place = broadcast_in_dim(reshape(iota(b, DType::I32, {q}, 0), numbers), picked, own);
  if (p.mode == IndexMode::FillOrDrop) {
    Value wanted = as_signed(indices);
    Value inside =
        and_(ge(wanted, key_number(wanted, 0)), lt(wanted, key_number(wanted, static_cast<double>(shape[at(*d)]))));
    place = where(inside, place, key_number(place, -1));
  }
  return ir::Division{{gather(found, expand_dims(place, {place.rank()}), p)}};
}

std::optional<ir::Division> slice_of_sorted(Builder& b, const ir::DivideArgs& a, const StaticSlice& p) {
  auto d = sorted_along(a);
  if (!d || a.out[0].size() == 0) return std::nullopt;
  const std::int64_t q = a.out[0].shape[at(*d)];
  if (q > kMostWanted) return std::nullopt;
  Value ranks = iota(b, DType::I32, {q}, 0) * static_cast<double>(p.strides[at(*d)]);
  StaticSlice all = p;
  all.starts[at(*d)] = 0;
  all.limits[at(*d)] = q;
  all.strides[at(*d)] = 1;
  Value found = elements_of_ranks(a, ranks + static_cast<double>(p.starts[at(*d)]), *d);
  return ir::Division{{slice(found, all.starts, all.limits, all.strides)}};
}

std::optional<ir::Division> dynamic_slice_of_sorted(Builder& b, const ir::DivideArgs& a, const DynamicSlice& p) {
  auto d = sorted_along(a);
  if (!d || a.out[0].size() == 0) return std::nullopt;
  const std::int64_t q = p.sizes[at(*d)];
  if (q > kMostWanted) return std::nullopt;
  Value start = as_signed(a.in[at(*d) + 1]);
  const std::int64_t room = a.in[0].shape()[at(*d)] - q;
  start = clamp(key_number(start, 0), start, key_number(start, static_cast<double>(room)));
  Values starts(a.in.begin() + 1, a.in.end());
  starts[at(*d)] = key_number(starts[at(*d)], 0);
  Value found = elements_of_ranks(a, iota(b, start.dtype(), {q}, 0) + start, *d);
  return ir::Division{{dynamic_slice(found, starts, p.sizes)}};
}

}  // namespace tessera::ops
