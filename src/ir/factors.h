// SPDX-License-Identifier: Apache-2.0
// Sharding rules. Like an einsum, a rule names the factors that the dimensions of operands and results are made of:
// matmul is ([i,k],[k,j]) -> [i,j] with k a reduction. Propagation, partitioning and default batching read nothing
// else. The form follows Shardy's OpShardingRuleAttr (https://openxla.org/shardy/propagation).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/layout.h"
#include "ir/type.h"

namespace tessera::ir {

struct Factor {
  enum class Kind : std::uint8_t {
    Pass,    ///< may be split: every shard is computed on its own
    Reduce,  ///< may be split: shards give partial results that `reduction` completes
    Whole,   ///< may not be split
  };
  std::int64_t size = 0;
  Kind kind = Kind::Pass;
  Reduction reduction = Reduction::Sum;
};

/// `operands[i][d]` lists the factors of dimension d of operand i, major first. A dimension of several factors
/// (reshape) is split along the first ones; a dimension without factors may not be split.
struct FactorRule {
  using Tensor = std::vector<std::vector<int>>;
  std::vector<Factor> factors;
  std::vector<Tensor> operands;
  std::vector<Tensor> results;

  int add(std::int64_t size, Factor::Kind kind = Factor::Kind::Pass, Reduction r = Reduction::Sum) {
    factors.push_back({size, kind, r});
    return static_cast<int>(factors.size()) - 1;
  }

  /// Element-wise: dimension d of every operand of full rank and of every result moves together; rank-0 operands are
  /// free.
  static FactorRule pointwise(TypeSpan in, TypeSpan out);
  /// Nothing may be split.
  static FactorRule whole(TypeSpan in, TypeSpan out);
  /// One operand, one result: `map[d]` is the operand dimension that result dimension d is, or -1 for a fresh one that
  /// may be split freely (`free_new`) or not. Operand dimensions that no result dimension names may not be split; nor
  /// may a dimension whose extent differs.
  static FactorRule mapped(const Type& in, const Type& out, const Dims& map, bool free_new = true);
};

}  // namespace tessera::ir
