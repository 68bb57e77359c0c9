// SPDX-License-Identifier: Apache-2.0
// Instruction sets that kernels are compiled for. Include before "hwy/foreach_target.h": three sets keep compile time
// sane, and between them lies nothing that would pay for its code size.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
