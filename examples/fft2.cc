// SPDX-License-Identifier: Apache-2.0
// Solves Poisson's equation on a torus by a two-dimensional Fourier transform whose rows are dealt out to eight
// devices. Rows are transformed where they are; one transposition between the devices makes the columns local. The
// solution must satisfy the equation, point by point, and be that of one device.
//
//   fft2 [PICTURE.svg]
#include <algorithm>
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

constexpr std::int64_t kSide = 256, kDevices = 8;

// Two charged plates, and a ring around a disc of the opposite charge; the mean is taken off, as a torus demands.
std::vector<double> charges() {
  std::vector<double> rho;
  auto at = [](double r, double c) {
    if (c > 30 && c < 130 && r > 60 && r < 66) return 1.0;
    if (c > 30 && c < 130 && r > 120 && r < 126) return -1.0;
    const double distance = std::hypot(r - 170, c - 190);
    if (distance < 12) return -1.0;
    return distance > 40 && distance < 43 ? 1.0 : 0.0;
  };
  for (std::int64_t i = 0; i < kSide * kSide; ++i) {
    rho.push_back(at(static_cast<double>(i / kSide), static_cast<double>(i % kSide)));
  }
  double sum = 0;
  for (double v : rho) sum += v;
  for (double& v : rho) v -= sum / static_cast<double>(rho.size());
  return rho;
}

// What the five-point Laplacian multiplies each wave by; the constant one, which is free, by 1.
Array laplacian_spectrum() {
  Array wave = 2.0 * ts::cos(2 * std::numbers::pi * ts::arange(kSide, ts::float64) / kSide) - 2.0;
  Array both = ts::expand_dims(wave, 1) + ts::expand_dims(wave, 0);
  return ts::where(both == 0.0, 1.0, both);
}

// The potential whose Laplacian is -rho. Both constraints are transpositions: all else happens where the data is.
Array potential(const Array& rho, const ts::ShardingPtr& rows, const ts::ShardingPtr& columns) {
  Array waves = ts::fft::fft(rho, {.axis = 1});
  waves = ts::fft::fft(ts::with_sharding_constraint(waves, columns), {.axis = 0});
  waves = -waves / laplacian_spectrum();
  waves = ts::with_sharding_constraint(ts::fft::ifft(waves, {.axis = 0}), rows);
  return ts::real(ts::fft::ifft(waves, {.axis = 1}));
}

// The five-point Laplacian itself, by neighbours.
Array laplacian(const Array& u) {
  return ts::roll(u, 1, 0) + ts::roll(u, -1, 0) + ts::roll(u, 1, 1) + ts::roll(u, -1, 1) - 4.0 * u;
}

double largest(const Array& x) { return ts::max(ts::abs(x)).item<double>(); }

// Every second point, with the largest at 1.
plot::Field field(const std::string& title, const Array& u) {
  const double scale = largest(u);
  const std::vector<double> values = u(ts::span({}, {}, 2), ts::span({}, {}, 2)).to_vector<double>();
  plot::Field out{title, kSide / 2, kSide / 2, {}};
  for (double v : values) out.values.push_back(static_cast<float>(v / scale));
  return out;
}

int run(const std::string& picture) {
  const ts::Mesh mesh = ts::make_mesh({kDevices}, {"x"});
  const ts::ShardingPtr rows = ts::NamedSharding(mesh, P("x"));
  const ts::ShardingPtr columns = ts::NamedSharding(mesh, P(ts::none, "x"));
  const ts::HostArray host = ts::HostArray::from(charges(), {kSide, kSide});
  const Array rho = ts::device_put(host, rows);

  auto solve = ts::jit([&](const Array& r) { return potential(r, rows, columns); });
  const ts::CommPlan plan = solve.comm_plan(rho);
  std::cout << to_string(plan) << '\n';
  const Array phi = solve(rho);

  // Of each device's block of 16-byte numbers, all but what it keeps itself comes from others; twice.
  const std::int64_t transpositions = 2 * 16 * kSide * kSide / kDevices * (kDevices - 1) / kDevices;
  const double residual = largest(laplacian(phi) + rho) / largest(rho);

  const ts::Mesh single = ts::make_mesh({1}, {"x"}, ts::devices().first(1));
  auto alone = ts::jit([&](const Array& r) {
    return potential(r, ts::NamedSharding(single, P("x")), ts::NamedSharding(single, P(ts::none, "x")));
  });
  const Array phi_alone = alone(ts::device_put(host, ts::NamedSharding(single, P("x"))));
  const double apart = largest(phi - ts::device_put(phi_alone, rows)) / largest(phi);

  plot::fields(picture, "Poisson's equation by a Fourier transform over 8 devices",
               {field("charges", rho), field("potential", phi)}, -1, 1);
  std::printf("bytes to a device: %lld; of two transpositions: %lld\n", static_cast<long long>(plan.bytes_per_device()),
              static_cast<long long>(transpositions));
  std::printf("largest residual of the equation %.1e; 8 devices and 1 differ by %.1e; picture in %s\n", residual, apart,
              picture.c_str());
  return plan.bytes_per_device() == transpositions && residual < 1e-9 && apart < 1e-12 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ts::ClientScope eight(ts::Client::cpu({.devices = kDevices}));
    return run(argc > 1 ? argv[1] : "fft2.svg");
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
