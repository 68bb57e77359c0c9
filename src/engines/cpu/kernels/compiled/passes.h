// SPDX-License-Identifier: Apache-2.0
// Which values of a fragment each pass over a row computes.
#pragma once

#include <cstdint>
#include <vector>

#include "engines/cpu/kernels/compiled/fragment.h"

namespace tessera::kernels {

struct Pass {
  std::vector<Fragment::Value> row_ops;  // one value a row, before the pass
  std::vector<Fragment::Value> values;   // full ones, in order: loads, ops, and those kept by an earlier pass
  std::vector<Fragment::Value> reduces;
  std::vector<Fragment::Value> keeps;  // of `values`: stored for a later pass
  bool stores = false;                 // the results: in the last pass, for they may lie over operands
};

struct Passes {
  std::vector<Pass> list;
  std::vector<std::int32_t> scratch;  // by value: the scratch row that it is kept in, or -1
  std::vector<DType> scratch_dtypes;
};

/// A value that a later pass needs as well is computed again there when that is cheap, else kept in a scratch row.
Passes plan_passes(const Fragment& f);

}  // namespace tessera::kernels
