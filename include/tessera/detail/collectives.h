// SPDX-License-Identifier: Apache-2.0
// What the templates of tessera/collectives.h call.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "tessera/collective_options.h"
#include "tessera/host_array.h"
#include "tessera/mesh.h"
#include "tessera/reduce_options.h"
#include "tessera/tree.h"

namespace tessera::detail {

using Leaves = std::vector<Array>;

enum class AxisReduction { Sum, Mean, Max, Min };
Leaves axis_reduce(AxisReduction kind, const Leaves& x, const AxisNames& axes, const ReduceOptions& o, const Loc& loc);
HostArray axis_reduce_host(AxisReduction kind, const HostArray& x, const AxisNames& axes, const ReduceOptions& o);
/// Positions that a reduction of a constant counts.
std::int64_t reduced_instances(const AxisNames& axes, const ReduceOptions& o, const char* function);
Leaves pbroadcast(const Leaves& x, const AxisNames& axes, std::int64_t source, const Loc& loc);
Leaves ppermute(const Leaves& x, const AxisNames& axes, const PermutationPairs& perm, const Loc& loc);
Leaves pshuffle(const Leaves& x, const AxisNames& axes, const std::vector<std::int64_t>& perm, const Loc& loc);
Leaves all_to_all(const Leaves& x, const AxisNames& axes, std::int64_t split, std::int64_t concat,
                  const AllToAllOptions& o, const char* function, const Loc& loc);
Leaves all_gather(const Leaves& x, const AxisNames& axes, const AllGatherOptions& o, const char* function,
                  const Loc& loc);
Leaves psum_scatter(const Leaves& x, const AxisNames& axes, const PsumScatterOptions& o, const Loc& loc);
Leaves pvary(const Leaves& x, const AxisNames& axes, const char* function, const Loc& loc);
Leaves pcast(const Leaves& x, const AxisNames& axes, CastTo to, const Loc& loc);
Array arg_extreme(const Leaves& x, const AxisNames& axis, bool maximum, const Loc& loc);

/// dtype of a host scalar under a reduction.
template <AxisReduction Kind, class T>
struct ReducedNumber {
  using type = T;
};
template <>
struct ReducedNumber<AxisReduction::Sum, bool> {
  using type = std::int32_t;
};
template <class T>
requires std::is_integral_v<T>
struct ReducedNumber<AxisReduction::Mean, T> {
  using type = std::conditional_t<sizeof(T) == 8, double, float>;
};

}  // namespace tessera::detail
