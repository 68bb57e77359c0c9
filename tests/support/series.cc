// SPDX-License-Identifier: Apache-2.0
#include "tests/support/series.h"

#include <cstdlib>

namespace tessera::test {

int case_stride() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::getenv("TESSERA_ALL_CASES") ? 1 : 4;
#else
  return 1;
#endif
}

}  // namespace tessera::test
