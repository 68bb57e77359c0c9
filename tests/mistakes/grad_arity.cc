// SPDX-License-Identifier: Apache-2.0
// A function under grad that takes another number of arguments.
// MESSAGE: grad: the function does not take arguments of these types in this number
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::grad([](ts::Array a, ts::Array b) { return ts::sum(a * b); })(x);
}
