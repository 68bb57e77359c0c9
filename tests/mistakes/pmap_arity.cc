// SPDX-License-Identifier: Apache-2.0
// A function under pmap with too many arguments.
// MESSAGE: pmap: the function does not take arguments of these types in this number
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::pmap([](ts::Array a) { return a; })(x, x);
}
