// SPDX-License-Identifier: Apache-2.0
// The auxiliary result of a function under grad.
// MESSAGE: for a pair (value, auxiliary results) use grad_aux or value_and_grad_aux
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  auto g = ts::grad([](ts::Array a) { return std::pair(ts::sum(a), a); })(x);
}
