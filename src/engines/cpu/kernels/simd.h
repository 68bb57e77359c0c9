// SPDX-License-Identifier: Apache-2.0
// Instruction sets that kernels are compiled for. Include before "hwy/foreach_target.h": three sets keep compile time
// sane, and between them lies nothing that would pay for its code size.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

// Lanes of the math functions of glibc's vector library (since 2.35 a full set); elsewhere scalar functions serve.
#if defined(__x86_64__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35)
#define TESSERA_LIBMVEC 1
#endif
#endif
