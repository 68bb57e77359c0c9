// SPDX-License-Identifier: Apache-2.0
// No auxiliary result under grad_aux.
// MESSAGE: grad_aux: the function must return std::pair(value, auxiliary results)
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::grad_aux([](ts::Array a) { return ts::sum(a); })(x);
}
