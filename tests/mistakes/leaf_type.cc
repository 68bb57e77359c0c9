// SPDX-License-Identifier: Apache-2.0
// A container of a type that is no leaf.
// MESSAGE: this type is no tree of arrays
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  std::vector<std::string> names{"a"};
  ts::tree_leaves(names);
}
