// SPDX-License-Identifier: Apache-2.0
// Type of a value in a graph.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/shape.h"

namespace tessera::ir {

struct TypeSharding;

/// dtype, weak-type mark, global shape and, over `Explicit` axes of a mesh, the sharding. The weak mark takes part in
/// promotion only; rules may ignore it. Rules of ops do not see to shardings either: what adds equations derives them
/// (ir/derive_sharding.h).
struct Type {
  DType dtype = DType::F32;
  Shape shape;
  bool weak = false;
  const TypeSharding* sharding = nullptr;  ///< interned; null: not typed so, the partitioner places the value

  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  std::int64_t size() const;
  std::int64_t nbytes() const { return size() * dtype_size(dtype); }
  bool operator==(const Type&) const = default;
};
using Types = std::vector<Type>;
using TypeSpan = std::span<const Type>;

/// "f32[8,4]", "f32[8@x,4]{U:y}"; weak types end in '~'.
std::string to_string(const Type& t);

}  // namespace tessera::ir
