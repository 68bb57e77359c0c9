// SPDX-License-Identifier: Apache-2.0
// A backward rule that returns no tuple.
// MESSAGE: custom_vjp: the backward rule must return a std::tuple with one cotangent for each argument
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::custom_vjp([](ts::Array a, ts::Array b) { return a * b; },
                 [](ts::Array a, ts::Array b) { return std::pair(a * b, std::pair(a, b)); },
                 [](std::pair<ts::Array, ts::Array> r, ts::Array g) { return g * r.second; })(x, x);
}
