// SPDX-License-Identifier: Apache-2.0
// A rule of custom_jvp that takes arrays in place of tuples.
// MESSAGE: custom_jvp: the rule must take (primals, tangents), two std::tuples of the arguments
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::custom_jvp([](ts::Array a) { return a; }, [](ts::Array a, ts::Array t) { return std::pair(a, t); })(x);
}
