// SPDX-License-Identifier: Apache-2.0
// A body without the index.
// MESSAGE: fori_loop: the body must take (i, carry) and return the next carry
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::fori_loop(
      0, 3, [](ts::Array c) { return c; }, x);
}
