// SPDX-License-Identifier: Apache-2.0
// A step of scan that returns the carry alone.
// MESSAGE: scan: the function must return std::pair(carry, y) with a carry of the type of `init`
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::scan([](ts::Array c, ts::Array y) { return c + y; }, x, x);
}
