// SPDX-License-Identifier: Apache-2.0
// A jitted function with too few arguments.
// MESSAGE: jit: the function does not take arguments of these types in this number
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::jit([](ts::Array a, ts::Array b) { return a + b; })(x);
}
