// SPDX-License-Identifier: Apache-2.0
// What the files of collective ops share.
#pragma once

#include "ops/collective/collectives.h"
#include "ops/define_op.h"

namespace tessera::ops {

inline constexpr const char* kNeedsMesh = "it has a meaning among the instances of a map only; tested with maps";

/// Dimensions `dims` are whole, others may be split.
FactorRule whole_dims(const Type& in, const Type& out, const Dims& dims);
void check_divides(const char* op, const char* what, const Type& t, std::int64_t dim, std::int64_t n);

// Batching. A batch that carries one of the names makes that part of the exchange local work.
/// The operation on the batched block, whatever names the batch carries.
Batched batch_same(Builder& b, const ir::OpDef& op, const BatchArgs& a, const ir::Attrs& attrs);
/// psum, pmax, pmin.
Batched batch_reduce(Builder& b, const ir::OpDef& op, const BatchArgs& a, const Collective& p);
Batched batch_scatter(Builder& b, const BatchArgs& a, const PsumScatter& p);
Batched batch_gather(Builder& b, const BatchArgs& a, const AllGather& p);
Batched batch_exchange(Builder& b, const BatchArgs& a, const AllToAll& p);
Batched batch_permute(Builder& b, const BatchArgs& a, const Ppermute& p);
Batched batch_broadcast(Builder& b, const BatchArgs& a, const Pbroadcast& p);
Batched batch_index(Builder& b, const BatchArgs& a, const Collective& p);
Batched batch_ragged(Builder& b, const BatchArgs& a, const Collective& p);

}  // namespace tessera::ops
