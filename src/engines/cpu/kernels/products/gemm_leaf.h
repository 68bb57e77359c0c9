// SPDX-License-Identifier: Apache-2.0
// One matrix product on the calling thread, one function per kind of arithmetic.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::kernels {

struct GemmShape {
  bool trans_a, trans_b;
  std::int64_t m, n, k, lda, ldb, ldc;
};

/// f32 -> f32. With `add` the product is added to c.
void gemm_f32(const GemmShape& s, const void* a, const void* b, void* c, bool add);
/// bf16 -> `out`, which is BF16 or F32.
void gemm_bf16(const GemmShape& s, DType out, const void* a, const void* b, void* c);
/// int8 -> int32; only where `has_fast_int8`.
void gemm_int8(const GemmShape& s, const void* a, const void* b, void* c);
/// F64, C64 or C128.
void gemm_blas(DType t, const GemmShape& s, const void* a, const void* b, void* c);
/// Integers of one dtype, neither operand transposed.
void gemm_integer(DType t, const GemmShape& s, const void* a, const void* b, void* c);
/// Whether oneDNN works with vectors of 64 bytes.
bool has_wide_vectors();
/// Whether this machine multiplies bf16 faster than f32.
bool has_fast_bf16();
/// Whether it adds products of int8 to int32 in one instruction. Others would add pairs in 16 bits, which may saturate.
bool has_fast_int8();

}  // namespace tessera::kernels
