// SPDX-License-Identifier: Apache-2.0
// The named reductions on single elements: what references of reductions, scans and windows share.
#pragma once

#include "ops/define_op.h"
#include "tessera/host_array.h"

namespace tessera::ops {

/// `shape` without `axes`.
Shape reduced_shape(const Shape& shape, const Dims& axes);
bool reducible(Reduction r, DType t);
/// Whether the result is one of the elements.
constexpr bool picks(Reduction r) { return r == Reduction::Max || r == Reduction::Min; }

/// Writes the start value in element i of `out`.
void identity(Reduction r, const View& out, std::int64_t i);
/// Takes element i of `in` into element k of `out`; `out` may be the wider dtype of `WideResult`.
void accumulate(Reduction r, const View& out, std::int64_t k, const View& in, std::int64_t i);

/// Where a result is accumulated: floats in double precision, rounded once at the end, which is the answer that faster
/// kernels approach. Other dtypes where they are.
class WideResult {
 public:
  explicit WideResult(const View& out);
  void store(const View& out) const;
  View view;

 private:
  HostArray memory_;
};

}  // namespace tessera::ops
