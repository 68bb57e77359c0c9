// SPDX-License-Identifier: Apache-2.0
// Fits a line to points that are sharded over eight devices.
#include <tessera/tessera.h>

#include <iostream>

namespace ts = tessera;
using ts::P;

struct Params {
  ts::Array w, b;
};

ts::Array loss_fn(Params p, ts::Array x, ts::Array y) {
  ts::Array error = p.w * x + p.b - y;
  return ts::mean(error * error);
}

int main() {
  ts::ClientScope eight(ts::Client::from_environment(8));
  auto mesh = ts::make_mesh({4, 2}, {"data", "model"});
  ts::Array x = ts::device_put(ts::arange(64) / 64.0, ts::NamedSharding(mesh, P("data")));
  ts::Array y = 3.0 * x - 1.0;  // has the sharding of x

  auto step = ts::jit([](Params p, ts::Array x, ts::Array y) {
    auto [loss, g] = ts::value_and_grad(loss_fn)(p, x, y);
    return std::pair(Params{p.w - 0.5 * g.w, p.b - 0.5 * g.b}, loss);
  });
  Params p{ts::zeros({}), ts::zeros({})};
  ts::Array loss;
  for (int i = 0; i < 200; ++i) std::tie(p, loss) = step(p, x, y);

  std::cout << "w " << p.w << ", b " << p.b << ", loss " << loss << '\n' << to_string(step.comm_plan(p, x, y)) << '\n';
  return loss.item<float>() < 1e-4F ? 0 : 1;
}
