// SPDX-License-Identifier: Apache-2.0
// A branch that takes no operand.
// MESSAGE: cond: both branches must take exactly the operands that follow them
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::cond(
      ts::sum(x) > 0, [](ts::Array a) { return a; }, [] { return ts::zeros({4}); }, x);
}
