// SPDX-License-Identifier: Apache-2.0
// A function under vmap with too many arguments.
// MESSAGE: vmap: the function does not take arguments of these types in this number
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::vmap([](ts::Array a) { return a; })(x, x);
}
