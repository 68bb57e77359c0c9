// SPDX-License-Identifier: Apache-2.0
// Batching of collectives. Dimension 0 of a batched block is the batch. Where it carries none of the names, positional
// parameters move by one; where it carries one, that part of the exchange becomes local work and the other names keep
// theirs.
#include "ops/collective/collectives.h"
#include "ops/collective/collectives_common.h"
#include "ops/control/control.h"
#include "ops/shape/indexing_ops.h"
#include "ops/transform/graph_rules.h"

namespace tessera::ops {

namespace {

// The batch carries one of the names.
bool named(const Collective& p) {
  const std::string& name = BatchName::current();
  return !name.empty() && std::find(p.names.list.begin(), p.names.list.end(), name) != p.names.list.end();
}

std::string plain_names(const Collective& p) {
  std::vector<std::string> out;
  for (const auto& n : p.names.list) out.push_back(plain_name(n));
  return base::join(out);
}

// Instances along the names before and after the batch's, whose instances lie between them in rank order.
struct Place {
  std::int64_t before = 1;
  std::int64_t after = 1;
  std::int64_t others() const { return before * after; }
};
// Takes the batch's name out of `p`.
Place take_batch(std::string_view op, Collective& p) {
  if (p.groups) {
    throw UnimplementedError(str("[", op, "] axis_index_groups over the vmapped axes (", plain_names(p),
                                 ") are not supported; map one axis for the groups and one for their members"));
  }
  auto it = std::find(p.names.list.begin(), p.names.list.end(), BatchName::current());
  auto k = it - p.names.list.begin();
  Place at;
  for (std::ptrdiff_t i = 0; i < std::ssize(p.sizes); ++i) {
    if (i < k) at.before *= p.sizes[static_cast<std::size_t>(i)];
    if (i > k) at.after *= p.sizes[static_cast<std::size_t>(i)];
  }
  p.names.list.erase(it);
  p.sizes.erase(p.sizes.begin() + k);
  return at;
}

// The operand with the batch in front; an operand that is not mapped is the same for every instance.
Value in_front(const BatchArgs& a, std::size_t i = 0) {
  return a.batched[i] ? a.in[i] : repeat_in_front(a.in[i], a.size);
}
Value local_sum(const BatchArgs& a) {
  return a.batched[0] ? reduce_sum(a.in[0], {0}) : a.in[0] * static_cast<double>(a.size);
}

// Dimension `d` as several.
Value unfold(Value x, std::int64_t d, const Dims& parts) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + d);
  shape.insert(shape.begin() + d, parts.begin(), parts.end());
  return reshape(x, shape);
}
// Dimensions d … d + count - 1 as one.
Value fold(Value x, std::int64_t d, std::int64_t count) {
  Shape shape = x.shape();
  std::int64_t n = 1;
  for (std::int64_t i = 0; i < count; ++i) n *= shape[at(d + i)];
  shape.erase(shape.begin() + d, shape.begin() + d + count);
  shape.insert(shape.begin() + d, n);
  return reshape(x, shape);
}
// The batch (dimension 0) goes between the parts of the other instances in what was dimension d + 1.
Value batch_into(Value x, std::int64_t d, const Place& place) {
  std::int64_t rest = place.before == 0 ? 0 : x.shape()[at(d + 1)] / place.before;
  return fold(move_dim(unfold(x, d + 1, {place.before, rest}), 0, d + 1), d, 3);
}
// The reverse, of `size` instances: dimension d loses their part, which becomes dimension 0.
Value batch_out_of(Value x, std::int64_t d, const Place& place, std::int64_t size) {
  std::int64_t parts = place.before * size;
  std::int64_t rest = parts == 0 ? 0 : x.shape()[at(d)] / parts;
  return fold(move_dim(unfold(x, d, {place.before, size, rest}), d + 1, 0), d + 1, 2);
}

Value rows(Value x, Value indices) {
  Gather g;
  for (std::int64_t d = 1; d < x.rank(); ++d) g.offset_dims.push_back(d);
  g.collapsed_slice_dims = {0};
  g.start_index_map = {0};
  g.slice_sizes = x.shape();
  g.slice_sizes[0] = 1;
  return gather(x, reshape(indices, {indices.shape()[0], 1}), g);
}

template <class P>
Batched shifted(Builder& b, const ir::OpDef& op, const BatchArgs& a, const P& p) {
  return {b.add(op, a.in, attrs(p)), {true}};
}

}  // namespace

Batched batch_same(Builder& b, const ir::OpDef& op, const BatchArgs& a, const ir::Attrs& attrs) {
  return {b.add(op, a.in, attrs), {a.batched[0]}};
}

Batched batch_reduce(Builder& b, const ir::OpDef& op, const BatchArgs& a, const Collective& p) {
  if (!named(p)) return batch_same(b, op, a, attrs(p));
  Collective others = p;
  take_batch(op.name(), others);
  Value x = a.in[0];
  if (&op == &def::psum) {
    x = local_sum(a);
  } else if (a.batched[0]) {
    if (is_inexact(x.dtype())) x = no_derivative(x, std::string(op.name()));
    x = &op == &def::pmax ? reduce_max(x, {0}) : reduce_min(x, {0});
  }
  if (!others.names.list.empty()) x = b.add1(op, {x}, attrs(others));
  return {{x}, {false}};
}

Batched batch_scatter(Builder& b, const BatchArgs& a, const PsumScatter& p) {
  PsumScatter q = p;
  ++q.dim;
  if (!named(p)) return shifted(b, def::psum_scatter, a, q);
  Place place = take_batch("psum_scatter", q);
  return {{psum_scatter(batch_out_of(local_sum(a), p.dim, place, a.size), q)}, {true}};
}

Batched batch_gather(Builder& b, const BatchArgs& a, const AllGather& p) {
  AllGather q = p;
  ++q.dim;
  if (!named(p)) return shifted(b, def::all_gather, a, q);
  if (p.mapped_only && !a.batched[0]) {
    throw ValueError(str("pgather: src is not mapped along the vmapped axes (", plain_names(p),
                         "); expected an array that the vmap maps"));
  }
  Place place = take_batch("all_gather", q);
  return {{batch_into(all_gather(in_front(a), q), p.dim, place)}, {false}};
}

Batched batch_exchange(Builder& b, const BatchArgs& a, const AllToAll& p) {
  AllToAll q = p;
  ++q.split;
  ++q.concat;
  if (!named(p)) return shifted(b, def::all_to_all, a, q);
  Place place = take_batch("all_to_all", q);
  // Dimension 0 becomes the destinations, 1 the sources, until those join the shards along `concat`.
  Value x = batch_out_of(in_front(a), p.split + 1, place, a.size);
  ++q.split;
  ++q.concat;
  x = move_dim(all_to_all(x, q), 1, 0);
  return {{batch_into(x, p.concat + 1, place)}, {true}};
}

Batched batch_permute(Builder& b, const BatchArgs& a, const Ppermute& p) {
  if (!named(p)) return batch_same(b, def::ppermute, a, attrs(p));
  AllGather q;
  static_cast<Collective&>(q) = p;
  Place place = take_batch("ppermute", q);
  Dims sources = p.sources();
  bool full = std::find(sources.begin(), sources.end(), -1) == sources.end();
  if (full && !a.batched[0] && q.names.list.empty()) return {{a.in[0]}, {false}};
  // What all instances have, in rank order; then everyone takes the row of its source.
  q.dim = 1;
  Value all = batch_into(all_gather(expand_dims(in_front(a), {1}), q), 0, place);
  HostArray table(DType::I32, {p.total()});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    table.span<std::int32_t>()[i] = static_cast<std::int32_t>(sources[i]);
  }
  Value source = constant(b, table);
  if (!q.names.list.empty()) source = rows(source, batch_index(b, a, p).out[0]);
  Value x = rows(all, source);
  if (full) return {{x}, {true}};
  Value sent = broadcast_in_dim(ge(source, scalar(b, 0, DType::I32)), x.shape(), {0});
  return {{where(sent, x, zeros_like(x))}, {true}};
}

Batched batch_broadcast(Builder& b, const BatchArgs& a, const Pbroadcast& p) {
  if (!named(p)) return batch_same(b, def::pbroadcast, a, attrs(p));
  Pbroadcast q = p;
  Place place = take_batch("pbroadcast", q);
  std::int64_t mine = p.source / place.after % a.size;
  q.source = p.source / (place.after * a.size) * place.after + p.source % place.after;
  Value x = a.in[0];
  if (a.batched[0]) x = squeeze(slice_in_dim(x, mine, mine + 1, 0), {0});
  if (!q.names.list.empty()) x = pbroadcast(x, q);
  return {{a.batched[0] ? repeat_in_front(x, a.size) : x}, {a.batched[0]}};
}

Batched batch_index(Builder& b, const BatchArgs& a, const Collective& p) {
  if (!named(p)) return {{axis_index(b, p)}, {false}};
  Collective major = p;
  major.groups.reset();
  Collective minor = major;
  Place place = take_batch("axis_index", major);
  auto k = static_cast<std::ptrdiff_t>(minor.names.list.size()) - 1;
  while (minor.names.list[at(k)] != BatchName::current()) --k;
  minor = major;
  major.names.list.resize(at(k));
  major.sizes.resize(at(k));
  minor.names.list.erase(minor.names.list.begin(), minor.names.list.begin() + k);
  minor.sizes.erase(minor.sizes.begin(), minor.sizes.begin() + k);
  Value index = iota(b, DType::I32, {a.size}, 0);
  auto times = [&](Value v, std::int64_t n) { return n == 1 ? v : v * static_cast<double>(n); };
  index = times(index, place.after);
  auto add_other = [&](const Collective& c, std::int64_t n) {
    if (!c.names.list.empty()) index = index + broadcast_to(times(axis_index(b, c), n), index.shape());
  };
  add_other(major, a.size * place.after);
  add_other(minor, 1);
  return {{index}, {true}};
}

namespace {
// One exchange for the whole batch: rows of all calls in one array, and for every peer the slots of all calls.
Value folded_slots(Value x, std::int64_t peers, std::int64_t shift) {
  Builder& b = *x.builder;
  if (dtype_size(x.dtype()) < 4) x = convert(x, DType::I32);  // shifted offsets may need more bits
  if (shift > 0) x = x + convert(iota(b, DType::I32, x.shape(), 0), x.dtype()) * static_cast<double>(shift);
  return fold(move_dim(unfold(x, 1, {peers, x.shape()[1] / peers}), 1, 0), 0, 3);
}
}  // namespace

Batched batch_ragged(Builder&, const BatchArgs& a, const Collective& p) {
  if (named(p)) {
    throw UnimplementedError(
        str("[ragged_all_to_all] over the vmapped axes (", plain_names(p), ") is not supported; use a mesh axis"));
  }
  Values in;
  for (std::size_t i = 0; i < a.in.size(); ++i) in.push_back(in_front(a, i));
  std::int64_t shifts[] = {0, 0, in[0].shape()[1], 0, in[1].shape()[1], 0};
  Shape result = in[1].shape();
  for (std::size_t i = 0; i < in.size(); ++i) {
    in[i] = i < 2 ? fold(in[i], 0, 2) : folded_slots(in[i], p.group_size(), shifts[i]);
  }
  return {{reshape(ragged_all_to_all(in, p), result)}, {true}};
}

}  // namespace tessera::ops
