// SPDX-License-Identifier: Apache-2.0
// An argument that is neither a tree nor comparable.
// MESSAGE: is neither a tree of arrays nor static
#include <tessera/tessera.h>

namespace ts = tessera;
struct Opaque {
  explicit Opaque(int v) : value(v) {}
  int value;
};

int main() {
  ts::Array x = ts::ones({4});
  ts::jit([](ts::Array a, Opaque o) { return a + o.value; })(x, Opaque(1));
}
