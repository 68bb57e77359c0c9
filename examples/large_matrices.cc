// SPDX-License-Identifier: Apache-2.0
// Decomposes a matrix that is split over a 4x2 mesh, as one that no device could hold would be, and reports the time,
// the memory of the process beside the matrix's own, the bytes that devices exchange, and how well the factors fit.
//
//   large_matrices [cholesky|qr|lu] [n] [room]             on eight virtual devices
//   mpirun -n 2 large_matrices cholesky 16384 3            on the devices of two processes
//
// With `room`, arrays may take that many times the memory of the matrix, and the program fails where they would not do.
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tessera.h"

namespace ts = tessera;
using ts::Array;
using ts::P;

namespace {

constexpr double kMb = 1e6;
constexpr double kDecay = 0.02;
constexpr std::int64_t kProbes = 16;

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / kMb;
}

// exp(-|i - j| / 50): positive definite (Kac, Murdock, Szego), and neither singular nor the identity.
Array smooth(std::int64_t n) {
  Array i = ts::astype(ts::arange(n), ts::float32);
  return ts::exp(-kDecay * ts::abs(ts::expand_dims(i, 1) - ts::expand_dims(i, 0)));
}

// The same with signs that follow no pattern, and larger diagonals.
Array rough(std::int64_t n) {
  Array i = ts::astype(ts::arange(n), ts::float32);
  Array phase = ts::expand_dims(ts::sin(i * 12.9898) * 43.7, 1) + ts::expand_dims(ts::cos(i * 78.233) * 91.3, 0);
  return ts::sin(phase * phase);
}

double norm(const Array& x) { return std::sqrt(ts::sum(ts::square(x)).item<float>()); }

// The norm of what the factors leave of the matrix, beside the matrix's, both as random vectors show them. The factors
// are gone when the matrix is made again: what is measured is the memory of the decomposition, not that of its check.
double residual(const std::string& name, const std::function<Array()>& matrix, std::vector<Array> factors) {
  const auto probes = [](std::int64_t n) { return ts::random::normal(ts::random::key(0), {n, kProbes}); };
  auto product = ts::jit([&](const std::vector<Array>& g) {
    Array v = probes(g.front().shape(1));
    if (name == "cholesky") return ts::matmul(g[0], ts::matmul(ts::transpose(g[0]), v));
    if (name == "qr") return ts::matmul(g[0], ts::matmul(g[1], v));
    Array uv = ts::matmul(ts::triu(g[0]), v);
    return ts::matmul(ts::tril(g[0], -1), uv) + uv;
  });
  const Array got = product(factors);
  const std::optional<Array> order = name == "lu" ? std::optional(factors.back()) : std::nullopt;
  factors.clear();
  auto applied = ts::jit([&](const Array& x) { return ts::matmul(x, probes(x.shape(1))); });
  Array want = applied(matrix());
  if (order) want = ts::take(want, *order, 0);
  return norm(got - want) / norm(want);
}

int run(const std::string& name, std::int64_t n) {
  ts::Mesh mesh = ts::make_mesh({4, 2}, {"x", "y"});
  auto split = ts::NamedSharding(mesh, P("x", "y")).share();
  auto whole = ts::NamedSharding(mesh, P()).share();
  bool report = ts::process_index() == 0;
  double before = peak_mb();
  auto matrix = ts::jit([&] { return name == "cholesky" ? smooth(n) : rough(n); }, {.out_shardings = {split}});
  Array a = matrix();
  a.block_until_ready();
  std::vector<ts::ShardingArg> shardings{split};
  if (name == "qr") shardings = {split, split};
  if (name == "lu") shardings = {split, whole, whole};
  auto f = ts::jit(
      [&](const Array& x) {
        if (name == "cholesky") return std::vector<Array>{ts::linalg::cholesky(x)};
        if (name == "qr") {
          auto r = ts::linalg::qr(x);
          return std::vector<Array>{r.q, r.r};
        }
        auto r = ts::linalg::lu(x);
        return std::vector<Array>{r.lu, r.pivots, r.permutation};
      },
      {.out_shardings = shardings, .donate_argnums = {0}});
  auto compiled = f.lower(a).compile();
  auto start = std::chrono::steady_clock::now();
  std::vector<Array> factors = compiled(a);
  for (const auto& x : factors) x.block_until_ready();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double peak = peak_mb() - before;
  double share = static_cast<double>(n) * static_cast<double>(n) * 4 / ts::process_count() / kMb;
  double fit = residual(name, matrix, std::move(factors));
  if (!report) return 0;
  std::printf(
      "%s of %lld x %lld: %.1f s, peak %.0f MB = %.2f of this process's part of the matrix, %.0f MB to a device\n",
      name.c_str(), static_cast<long long>(n), static_cast<long long>(n), seconds, peak, peak / share,
      static_cast<double>(compiled.comm_plan().bytes_per_device()) / kMb);
  std::printf("residual %.2g\n", fit);
  return fit < 1e-4 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
    if (size == nullptr) size = std::getenv("PMI_SIZE");
    const int processes = size == nullptr ? 1 : std::atoi(size);
    const std::string name = argc > 1 ? argv[1] : "cholesky";
    const std::int64_t n = argc > 2 ? std::atoll(argv[2]) : 512;
    const double room = argc > 3 ? std::atof(argv[3]) : 0;
    if ((name != "cholesky" && name != "qr" && name != "lu") || n < 1 || room < 0) {
      std::cerr
          << "usage: large_matrices [cholesky | qr | lu [ROWS [ROOM]]], ROOM times the matrix for a process's memory\n";
      return 2;
    }
    const auto limit =
        static_cast<std::int64_t>(room * 4 * static_cast<double>(n) * static_cast<double>(n) / processes);
    if (processes > 1) {
      ts::distributed::initialize({.devices = 8 / processes, .memory_limit = limit});
      return run(name, n);
    }
    ts::ClientScope eight(ts::Client::cpu({.devices = 8, .memory_limit = limit}));
    return run(name, n);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
