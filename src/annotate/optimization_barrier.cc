// SPDX-License-Identifier: Apache-2.0
#include "annotate/annotate.h"
#include "ops/ops.h"
#include "program/trace.h"

namespace tessera::detail {

std::vector<Array> optimization_barrier(const std::vector<Array>& leaves, const Loc& loc) {
  if (leaves.empty() || program::Trace::current() == nullptr) return leaves;
  return program::bind(ops::def::optimization_barrier, leaves, nullptr, loc);
}

std::vector<Array> backward_barrier(const std::vector<Array>& leaves, const Loc& loc) {
  if (leaves.empty() || program::Trace::current() == nullptr) return leaves;
  return program::bind(ops::def::backward_barrier, leaves, nullptr, loc);
}

}  // namespace tessera::detail
