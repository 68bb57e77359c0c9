// SPDX-License-Identifier: Apache-2.0
// An argument number that does not exist.
// MESSAGE: grad: an argument number to differentiate is beyond the function's arguments
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::grad<2>([](ts::Array a, ts::Array b) { return ts::sum(a * b); })(x, x);
}
