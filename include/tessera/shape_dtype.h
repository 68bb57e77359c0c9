// SPDX-License-Identifier: Apache-2.0
// Arrays without data: jax.ShapeDtypeStruct.
#pragma once

#include <string>

#include "tessera/array.h"
#include "tessera/dtype.h"
#include "tessera/shape.h"
#include "tessera/sharding.h"

namespace tessera {

/// Shape, dtype, weak-type mark and, where it matters, sharding of an array without data. `trace`, `lower` and
/// `eval_shape` take it in place of an array:
///   auto lowered = jit(step).lower(ShapeDtype{{1 << 20, 4096}, bfloat16, false, sharding});
struct ShapeDtype {
  Shape shape;
  DType dtype = float32;
  bool weak = false;
  ShardingPtr sharding = nullptr;  ///< null: uncommitted, on the default device
  bool operator==(const ShapeDtype& o) const;
};
/// "f32[8,4]".
std::string to_string(const ShapeDtype& s);

/// An array that has a type and a sharding and no data, for trees that `trace`, `lower` and `eval_shape` take. What
/// needs its data throws `StateError`. Throws as `Sharding::shard_shape` for a sharding that does not fit the shape.
Array without_data(const ShapeDtype& type, const Loc& loc = Loc::current());

namespace detail {
inline Array as_argument(const ShapeDtype& type) { return without_data(type); }
}  // namespace detail

}  // namespace tessera
