// SPDX-License-Identifier: Apache-2.0
// Branches that return different types.
// MESSAGE: cond: both branches must return the same type
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::cond(
      ts::sum(x) > 0, [](ts::Array a) { return a; }, [](ts::Array a) { return std::pair(a, a); }, x);
}
