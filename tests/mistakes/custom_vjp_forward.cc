// SPDX-License-Identifier: Apache-2.0
// A forward rule without residuals.
// MESSAGE: custom_vjp: the forward rule must return std::pair(result, residuals)
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::custom_vjp([](ts::Array a) { return a; }, [](ts::Array a) { return a; },
                 [](ts::Array, ts::Array g) { return std::tuple(g); })(x);
}
