// SPDX-License-Identifier: Apache-2.0
// The heat equation on a square plate whose edges are kept at zero, by finite differences on a 4x2 mesh. The stencil is
// written twice: for the whole plate, where the partitioner finds that neighbours need each other's edges, and for
// one device's block, where the program asks for them. Both send the edges and nothing else, the first in one exchange,
// and are compared with the exact solution and with one device.
//
//   heat [PICTURE.svg]
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numbers>
#include <string>
#include <vector>

#include "plot.h"
#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kPoints = 128;  // inside the plate, on a side
constexpr std::int64_t kSteps = 250;   // of one call, between two frames
constexpr std::int64_t kFrames = 4;
constexpr double kSpacing = 1.0 / (kPoints + 1);
constexpr double kRatio = 0.2;  // of a time step to the spacing's square; up to 1/4 the scheme is stable

// The plate moved by `by` points along a dimension; what comes in from the edge is zero.
Array shifted(const Array& u, std::size_t dim, std::int64_t by) {
  std::vector<ts::lax::PadDim> pads(2);
  pads[dim] = {by, -by};
  return ts::lax::pad(u, 0.0F, pads);
}

// One step for the whole plate.
Array step(const Array& u) {
  Array around = shifted(u, 0, 1) + shifted(u, 0, -1) + shifted(u, 1, 1) + shifted(u, 1, -1);
  return u + kRatio * (around - 4.0 * u);
}

// One step for the block of a device.
Array block_step(const Array& u) {
  using ts::span;
  Array rows = ts::halo_exchange(u, "x", 0);
  Array columns = ts::halo_exchange(u, "y", 1);
  Array around = rows(span(0, -2)) + rows(span(2, {})) + columns(span(), span(0, -2)) + columns(span(), span(2, {}));
  return u + kRatio * (around - 4.0 * u);
}

// The sum of three waves, each of which decays at its own rate: sin(j pi x) sin(k pi y) exp(-(j^2 + k^2) pi^2 t).
std::vector<float> exact(double time) {
  constexpr double pi = std::numbers::pi;
  struct Wave {
    double size, j, k;
  };
  std::vector<float> out;
  for (std::int64_t row = 1; row <= kPoints; ++row) {
    for (std::int64_t column = 1; column <= kPoints; ++column) {
      double u = 0;
      for (Wave w : {Wave{0.5, 1, 1}, Wave{-0.3, 3, 2}, Wave{0.2, 4, 5}}) {
        u += w.size * std::sin(w.j * pi * static_cast<double>(row) * kSpacing) *
             std::sin(w.k * pi * static_cast<double>(column) * kSpacing) *
             std::exp(-(w.j * w.j + w.k * w.k) * pi * pi * time);
      }
      out.push_back(static_cast<float>(u));
    }
  }
  return out;
}

template <class F>
auto advance(F one_step) {
  return ts::jit([=](Array u) {
    return ts::fori_loop(
        0, kSteps, [&](const Array&, const Array& v) { return one_step(v); }, u);
  });
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

int run(const std::string& picture) {
  const ts::Mesh mesh = ts::make_mesh({4, 2}, {"x", "y"});
  const ts::HostArray start = ts::HostArray::from(exact(0), {kPoints, kPoints});
  Array u = ts::device_put(start, ts::NamedSharding(mesh, P("x", "y")));
  Array by_block = u;
  Array single = ts::device_put(start, ts::devices()[0]);

  auto whole = advance(step);
  auto blocks = advance(ts::shard_map(block_step, mesh, P("x", "y"), P("x", "y")));
  std::cout << "what " << kSteps << " steps send, as the partitioner finds it:\n"
            << to_string(whole.comm_plan(u)) << "\nand as the blocks ask for it:\n"
            << to_string(blocks.comm_plan(u)) << '\n';

  std::vector<plot::Field> frames{{"t = 0", kPoints, kPoints, exact(0)}};
  float error = 0;
  bool equal = true;
  for (std::int64_t frame = 1; frame < kFrames; ++frame) {
    u = whole(u);
    by_block = blocks(by_block);
    single = whole(single);
    const double time = static_cast<double>(frame * kSteps) * kRatio * kSpacing * kSpacing;
    frames.push_back({"t = " + std::to_string(time).substr(0, 6), kPoints, kPoints, u.to_vector<float>()});
    error = std::max(error, largest_difference(frames.back().values, exact(time)));
    equal = equal && ts::identical(u.host(), single.host()) && ts::identical(u.host(), by_block.host());
  }
  plot::fields(picture, "Heat spreads over a plate that 8 devices share", frames, -0.5, 0.75);

  // A block is 32 x 64 points. One in the middle needs a row from above, one from below, and a column from beside it.
  // In exchanges one by one, as the blocks ask for them, both columns count: each has a device that receives it.
  const std::int64_t rows = 4 * 2 * (kPoints / 2), column = 4 * (kPoints / 4);
  const std::int64_t together = kSteps * (rows + column), apart = kSteps * (rows + 2 * column);
  const bool only_edges =
      whole.comm_plan(u).bytes_per_device() == together && blocks.comm_plan(u).bytes_per_device() == apart;
  std::printf("largest error against the exact solution: %.1e\n", error);
  std::printf("8 devices, both ways, and 1 device: bits %s\n", equal ? "equal" : "DIFFER");
  std::printf("bytes to a device: %lld a step, %s; picture in %s\n", static_cast<long long>(together / kSteps),
              only_edges ? "the edges alone" : "MORE than the edges", picture.c_str());
  return error < 2e-4F && equal && only_edges ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
    return run(argc > 1 ? argv[1] : "heat.svg");
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
