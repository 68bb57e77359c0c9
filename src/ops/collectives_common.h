// SPDX-License-Identifier: Apache-2.0
// What the files of collective ops share.
#pragma once

#include "ops/collectives.h"
#include "ops/define.h"

namespace tessera::ops {

inline constexpr const char* kNeedsMesh = "it has a meaning among the instances of a map only; tested with maps";

/// Dimensions `dims` are whole, others may be split.
FactorRule whole_dims(const Type& in, const Type& out, const Dims& dims);
void check_divides(const char* op, const char* what, const Type& t, std::int64_t dim, std::int64_t n);

// Batching, for a batch that carries none of the names: the operation on the batched block.
Batched batch_same(Builder& b, const ir::OpDef& op, const BatchArgs& a, const ir::Attrs& attrs);
Batched batch_scatter(Builder& b, const BatchArgs& a, const PsumScatter& p);
Batched batch_gather(Builder& b, const BatchArgs& a, const AllGather& p);
Batched batch_exchange(Builder& b, const BatchArgs& a, const AllToAll& p);
Batched batch_index(Builder& b, const BatchArgs& a, const Collective& p);
Batched batch_ragged(Builder& b, const BatchArgs& a, const Collective& p);

}  // namespace tessera::ops
