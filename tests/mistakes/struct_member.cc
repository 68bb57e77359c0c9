// SPDX-License-Identifier: Apache-2.0
// A member that is neither a tree nor comparable.
// MESSAGE: this type is no tree of arrays
#include <tessera/tessera.h>

namespace ts = tessera;
struct Opaque {
  explicit Opaque(int v) : value(v) {}
  int value;
};
struct Params {
  ts::Array w;
  Opaque o;
};

int main() {
  ts::Array x = ts::ones({4});
  ts::tree_leaves(Params{x, Opaque(1)});
}
