// SPDX-License-Identifier: Apache-2.0
// Long series of cases of one kind.
#pragma once

namespace tessera::test {

/// Every how many-th case of a long series to run: each one in plain builds, one in four under sanitizers, which are
/// ten to thirty times slower and look for what the cases of a series have in common. TESSERA_ALL_CASES in the
/// environment asks for all of them there too.
int case_stride();

}  // namespace tessera::test
