// SPDX-License-Identifier: Apache-2.0
// Collectives among the members of a batch. A per-device program that was read from text is written once for all
// devices; batched over them, each of its values has the devices along a leading dimension, and what it exchanged
// between devices becomes reductions and rearrangements along that dimension.
#pragma once

#include <string>
#include <vector>

#include "ir/attrs.h"
#include "ops/ops.h"

namespace tessera::ops {

using ir::field;

struct MemberCollective {
  enum class Kind : std::uint8_t { AllReduce, AllGather, ReduceScatter, AllToAll, Permute, Broadcast };
  Kind kind = Kind::AllReduce;
  std::vector<Dims> groups;     ///< of members; of Permute (source, target) pairs
  std::string reduction = {};   ///< "add", "multiply", "maximum", "minimum", "and", "or"
  std::int64_t dim = 0;         ///< gathered, scattered, or split by AllToAll
  std::int64_t concat_dim = 0;  ///< AllToAll
  std::int64_t members = 1;
  /// Batches that are still to come before all members are there: nested maps are batched from the inside outward.
  std::int64_t pending = 1;
  std::int64_t lead = 0;  ///< leading dimensions of the operand that batches have added so far
  static constexpr auto fields = std::tuple{field("kind", &MemberCollective::kind),
                                            field("groups", &MemberCollective::groups),
                                            field("reduction", &MemberCollective::reduction),
                                            field("dim", &MemberCollective::dim),
                                            field("concat_dim", &MemberCollective::concat_dim),
                                            field("members", &MemberCollective::members),
                                            field("pending", &MemberCollective::pending),
                                            field("lead", &MemberCollective::lead)};
};
const char* to_string(MemberCollective::Kind kind);

/// Rows of dimension 0 in another order; rows may repeat.
Value rows_at(Value x, const Dims& order);

/// `member` is the number of the member, any value that differs from member to member: what is equal on all members is
/// combined as often as there are members, too.
Value member_collective(Value x, Value member, const MemberCollective& p);

}  // namespace tessera::ops

namespace tessera::hlo {
class OpCall;
/// The numbers of `each` members that a body at this call is batched over, counted on from the member outside.
ir::Value member_numbers(OpCall& c, std::int64_t each);
}  // namespace tessera::hlo
