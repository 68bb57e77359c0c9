// SPDX-License-Identifier: Apache-2.0
// A step of scan that takes one argument.
// MESSAGE: scan: the function must take (carry, x)
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::scan([](ts::Array c) { return std::pair(c, c); }, x, x);
}
