// SPDX-License-Identifier: Apache-2.0
// Solves a system of linear equations by conjugate gradients and finds the largest eigenvalue of its matrix by power
// iteration. The matrix is split over a 4x2 mesh and every iteration is one product with it. Entries rho^|i - j| (Kac,
// Murdock and Szego, 1953) make it dense, with an inverse and eigenvalues that are known in closed form.
//
//   linear_solve [PICTURE.svg]
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "plot.h"
#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr std::int64_t kSize = 1024, kSolverSteps = 450, kPowerSteps = 800;
const double kRho = std::exp(-1.0 / 16);

// Each device computes its own block; nothing is sent.
Array matrix(const ts::Mesh& mesh) {
  auto make = ts::jit(
      [] {
        Array i = ts::arange(kSize, ts::float64);
        return ts::pow(kRho, ts::abs(ts::expand_dims(i, 1) - ts::expand_dims(i, 0)));
      },
      {.out_shardings = {ts::NamedSharding(mesh, P("x", "y"))}});
  return make();
}

struct Search {
  Array x, residual, direction, square;  // square: of the residual's norm
};

// Conjugate gradients from x = 0: the solution, and the norm of the residual after every step.
std::pair<Array, Array> solve(const Array& a, const Array& b) {
  auto step = [&](const Search& s, const Array&) {
    Array image = ts::matmul(a, s.direction);
    Array length = s.square / ts::vdot(s.direction, image);
    Search next;
    next.x = s.x + length * s.direction;
    next.residual = s.residual - length * image;
    next.square = ts::vdot(next.residual, next.residual);
    next.direction = next.residual + next.square / s.square * s.direction;
    return std::pair{next, ts::sqrt(next.square)};
  };
  auto [end, norms] = ts::scan(step, Search{ts::zeros_like(b), b, b, ts::vdot(b, b)}, ts::arange(kSolverSteps));
  return {end.x, norms};
}

// Power iteration: the estimate of the largest eigenvalue after every step.
Array eigenvalue(const Array& a, const Array& start) {
  auto step = [&](const Array& v, const Array&) {
    Array image = ts::matmul(a, v);
    return std::pair{image / ts::sqrt(ts::vdot(image, image)), ts::vdot(v, image)};
  };
  return ts::scan(step, start / ts::sqrt(ts::vdot(start, start)), ts::arange(kPowerSteps)).second;
}

// The inverse has three diagonals, so the solution follows from neighbours in b.
std::vector<double> exact_solution(const std::vector<double>& b) {
  const std::size_t n = b.size();
  std::vector<double> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    const bool inside = i > 0 && i + 1 < n;
    double sum = (inside ? 1 + kRho * kRho : 1) * b[i];
    if (i > 0) sum -= kRho * b[i - 1];
    if (i + 1 < n) sum -= kRho * b[i + 1];
    x[i] = sum / (1 - kRho * kRho);
  }
  return x;
}

// (1 - rho^2) / (1 - 2 rho cos t + rho^2), where t is the first zero of a sum of sines.
double exact_eigenvalue() {
  double low = 1e-9;
  double high = std::numbers::pi / (kSize + 1);
  for (int i = 0; i < 200; ++i) {
    const double t = (low + high) / 2;
    const double f =
        std::sin((kSize + 1) * t) - 2 * kRho * std::sin(kSize * t) + kRho * kRho * std::sin((kSize - 1) * t);
    (f > 0 ? low : high) = t;
  }
  return (1 - kRho * kRho) / (1 - 2 * kRho * std::cos(low) + kRho * kRho);
}

double norm(const Array& x) { return ts::sqrt(ts::vdot(x, x)).item<double>(); }

std::vector<float> relative(const Array& values, double to) {
  std::vector<float> out;
  for (double v : values.to_vector<double>()) out.push_back(static_cast<float>(v / to));
  return out;
}

int run(const std::string& picture) {
  const ts::Mesh mesh = ts::make_mesh({4, 2}, {"x", "y"});
  const Array a = matrix(mesh);
  std::cout << "the matrix, " << kSize << " x " << kSize << " of float64, over 4 x 2 devices:\n"
            << ts::visualize_array_sharding(a.sharding(), a.shape());
  const Array b =
      ts::device_put(ts::sin(0.37 * ts::square(ts::arange(kSize, ts::float64))), ts::NamedSharding(mesh, P("x")));

  auto solver = ts::jit(solve);
  auto power = ts::jit(eigenvalue);
  std::cout << "conjugate gradients send:\n" << to_string(solver.comm_plan(a, b)) << '\n';
  auto [x, norms] = solver(a, b);
  const double residual = norm(b - ts::matmul(a, x)) / norm(b);
  const std::vector<double> known = exact_solution(b.to_vector<double>());
  const double error = norm(x - Array(ts::HostArray::from(known, {kSize}))) / norm(x);
  std::printf("residual %.1e; distance to the exact solution %.1e\n", residual, error);

  const Array estimates = power(a, b);
  const double expected = exact_eigenvalue();
  const double found = estimates.to_vector<double>().back();
  std::printf("largest eigenvalue %.9f, exactly %.9f\n", found, expected);

  const ts::Device first = ts::devices()[0];
  const auto alone = solver(ts::device_put(a, first), ts::device_put(b, first));
  const double apart = norm(ts::device_put(x, first) - alone.first) / norm(x);
  std::printf("solutions of 8 devices and of 1 differ by %.1e; picture in %s\n", apart, picture.c_str());

  plot::curves(picture, "A system of 1024 equations over 8 devices", "iteration", "relative error",
               {{"residual of conjugate gradients", relative(norms, norm(b))},
                {"eigenvalue by power iteration", relative(ts::abs(estimates - expected), expected)}},
               true);
  const bool good = residual < 1e-11 && error < 1e-9 && std::abs(found / expected - 1) < 1e-6 && apart < 1e-9;
  if (!good) std::cerr << "linear_solve: a result is further from what is known than rounding explains\n";
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
    return run(argc > 1 ? argv[1] : "linear_solve.svg");
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
