// SPDX-License-Identifier: Apache-2.0
#include "annotate/annotate.h"
#include "program/trace.h"
#include "ops/ops.h"

namespace tessera::detail {

std::vector<Array> optimization_barrier(const std::vector<Array>& leaves, const Loc& loc) {
  if (leaves.empty() || api::Trace::current() == nullptr) return leaves;
  return api::bind(ops::def::optimization_barrier, leaves, nullptr, loc);
}

std::vector<Array> backward_barrier(const std::vector<Array>& leaves, const Loc& loc) {
  if (leaves.empty() || api::Trace::current() == nullptr) return leaves;
  return api::bind(ops::def::backward_barrier, leaves, nullptr, loc);
}

}  // namespace tessera::detail
