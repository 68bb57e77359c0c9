// SPDX-License-Identifier: Apache-2.0
// A condition of another carry.
// MESSAGE: while_loop: the condition must take the carry
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::while_loop([](ts::Array a, ts::Array b) { return a < b; }, [](ts::Array c) { return c; }, x);
}
