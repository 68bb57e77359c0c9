// SPDX-License-Identifier: Apache-2.0
// Random bits: the Threefry-2x32 hash of a key and a counter, bit for bit as JAX with partitionable Threefry.
#pragma once

#include <array>

#include "ir/attrs.h"
#include "ops/ops.h"

namespace tessera::ops {

using ir::field;

/// Operand: keys u32[…, 2]. Result: `shape` numbers of `bits` bits for each key. Element i of a key's numbers is the
/// hash of the counter i; a shard of a split result knows where in the whole it lies.
struct RandomBits {
  std::int64_t bits = 32;  ///< 8, 16, 32 or 64
  Shape shape;             ///< of this shard, for one key
  Shape whole = {};        ///< of all shards; empty when this is all
  Dims offsets = {};       ///< first element of this shard
  static constexpr auto fields = std::tuple{field("bits", &RandomBits::bits), field("shape", &RandomBits::shape),
                                            field("whole", &RandomBits::whole), field("offsets", &RandomBits::offsets)};
};

Value random_bits(Value keys, std::int64_t bits, const Shape& shape);
/// Two hashes an element; operands u32 of one shape, or of rank 0.
std::array<Value, 2> threefry2x32(Value key0, Value key1, Value x0, Value x1);

// --- keys u32[2] --------------------------------------------------------------------------------------------------
/// u32[shape, 2].
Value random_split(Value key, const Shape& shape);
/// A key for `data` (converted to u32), of rank 0.
Value random_fold_in(Value key, Value data);

/// The hash of one counter.
std::array<std::uint32_t, 2> threefry_hash(std::array<std::uint32_t, 2> key, std::array<std::uint32_t, 2> counter);

}  // namespace tessera::ops
