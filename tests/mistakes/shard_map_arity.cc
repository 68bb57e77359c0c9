// SPDX-License-Identifier: Apache-2.0
// A function under shard_map with too many arguments.
// MESSAGE: shard_map: the function does not take arguments of these types in this number
#include <tessera/tessera.h>

namespace ts = tessera;

int main() {
  ts::Array x = ts::ones({4});
  ts::shard_map([](ts::Array a) { return a; }, ts::make_mesh({1}, {"x"}), ts::P(), ts::P())(x, x);
}
