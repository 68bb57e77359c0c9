// SPDX-License-Identifier: Apache-2.0
// Batching of collectives. Dimension 0 of a batched block is the batch; positional parameters move by one.
#include "ops/collectives.h"
#include "ops/collectives_common.h"
#include "ops/graph_rules.h"

namespace tessera::ops {

namespace {

// The batch carries one of the names.
bool named(const Collective& p) {
  const std::string& name = BatchName::current();
  return !name.empty() && std::find(p.names.list.begin(), p.names.list.end(), name) != p.names.list.end();
}

[[noreturn]] void refuse(const ir::OpDef& op, const Collective& p) {
  throw UnimplementedError(str("[", op.name(), "] over the vmapped axes (", base::join(p.names.list),
                               ") is not supported; use a mesh axis"));
}

template <class P>
Batched shifted(Builder& b, const ir::OpDef& op, const BatchArgs& a, const P& p) {
  if (named(p)) refuse(op, p);
  return {b.add(op, a.in, attrs(p)), {true}};
}

}  // namespace

Batched batch_same(Builder& b, const ir::OpDef& op, const BatchArgs& a, const ir::Attrs& attrs) {
  const Collective* p = collective_of(ir::Eqn{&op, attrs, {}, {}, {}});
  if (named(*p)) refuse(op, *p);
  return {b.add(op, a.in, attrs), {a.batched[0]}};
}
Batched batch_scatter(Builder& b, const BatchArgs& a, const PsumScatter& p) {
  PsumScatter q = p;
  ++q.dim;
  return shifted(b, def::psum_scatter, a, q);
}
Batched batch_gather(Builder& b, const BatchArgs& a, const AllGather& p) {
  AllGather q = p;
  ++q.dim;
  return shifted(b, def::all_gather, a, q);
}
Batched batch_exchange(Builder& b, const BatchArgs& a, const AllToAll& p) {
  AllToAll q = p;
  ++q.split;
  ++q.concat;
  return shifted(b, def::all_to_all, a, q);
}
Batched batch_index(Builder& b, const BatchArgs& a, const Collective& p) {
  if (!named(p)) return {{axis_index(b, p)}, {false}};
  if (p.names.list.size() > 1) refuse(def::axis_index, p);
  return {{iota(b, DType::I32, {a.size}, 0)}, {true}};
}
Batched batch_ragged(Builder&, const BatchArgs&, const Collective& p) { refuse(def::ragged_all_to_all, p); }

}  // namespace tessera::ops
