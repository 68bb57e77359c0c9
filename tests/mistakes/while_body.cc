// SPDX-License-Identifier: Apache-2.0
// A body that returns another type than the carry.
// MESSAGE: while_loop: the body must take the carry and return the next one, of the same type
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::while_loop([](ts::Array c) { return ts::sum(c) < 3; }, [](ts::Array c) { return std::pair(c, c); }, x);
}
