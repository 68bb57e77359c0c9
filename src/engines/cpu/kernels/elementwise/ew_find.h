// SPDX-License-Identifier: Apache-2.0
// The tables behind `ew_find`, one per group of dtypes so that their files compile side by side.
#pragma once

#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"

namespace tessera::kernels {

EwFn find_f32(EwOp op);                 // f32 -> f32
EwFn find_f64(EwOp op);                 // f64 -> f64
EwFn find_small_int(EwOp op, DType t);  // 8 and 16 bits, same dtype out
EwFn find_wide_int(EwOp op, DType t);   // 32 and 64 bits
EwFn find_compare(EwOp op, DType t);    // real dtypes and bool -> Bool; IsFinite too
EwFn find_bool(EwOp op);                // Bool -> Bool, logic
EwFn find_select(std::int64_t itemsize);
EwFn find_half(EwOp op, DType in, DType out);  // f16 and bf16 through f32
EwFn find_complex(EwOp op, DType in, DType out);
EwFn find_convert(DType in, DType out);

/// Conversions of the two half types, `n` elements.
void half_to_f32(DType half, const void* in, float* out, std::int64_t n);
void f32_to_half(DType half, const float* in, void* out, std::int64_t n);

}  // namespace tessera::kernels
