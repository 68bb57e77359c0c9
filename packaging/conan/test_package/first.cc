// SPDX-License-Identifier: Apache-2.0
// A sum over eight virtual devices.
#include <tessera/tessera.h>

#include <iostream>

namespace ts = tessera;

int main() {
  ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
  ts::Mesh mesh = ts::make_mesh({8}, {"x"});
  ts::Array x = ts::device_put(ts::arange(64), ts::NamedSharding(mesh, ts::P("x")));
  const auto sum = ts::sum(x).item<std::int32_t>();
  std::cout << "the sum over " << mesh.size() << " devices is " << sum << "\n";
  return sum == 64 * 63 / 2 ? 0 : 1;
}
