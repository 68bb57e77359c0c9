// SPDX-License-Identifier: Apache-2.0
#include "hlo/host/host_kernels.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
using Hosts = std::vector<HostArray>;
template <class T>
using Real = decltype(std::abs(T{}));

// Moves a pivot of size below 1 so far from zero that no quotient overflows (LAPACK's lagts).
template <class T>
void perturb_pivot(Real<T> by, T& pivot, T* row, std::int64_t k) {
  constexpr Real<T> kSmall = std::numeric_limits<Real<T>>::min(), kBig = 1 / kSmall;
  by = std::copysign(std::max(std::abs(by), kSmall), std::real(pivot));
  Real<T> largest = 0;
  for (std::int64_t j = 0; j < k; ++j) largest = std::max(largest, std::abs(row[j]));
  for (Real<T> size = std::abs(pivot); size < 1; size = std::abs(pivot)) {
    if (size < kSmall && size != 0 && largest * kSmall <= size) {
      pivot *= kBig;
      for (std::int64_t j = 0; j < k; ++j) row[j] *= kBig;
      return;
    }
    if (size >= kSmall && largest <= size * kBig) return;
    pivot += by;
    by *= 2;
  }
}

// One system with row exchanges: `u` holds the diagonal and both superdiagonals of the upper factor.
template <class T>
class Tridiagonal {
 public:
  Tridiagonal(std::int64_t n, std::int64_t k) : n_(n), k_(k), u_(static_cast<std::size_t>(3 * n)) {}

  void solve(const T* low, const T* d, const T* up, T* x) {
    std::fill(u_.begin(), u_.end(), T{});
    at(0, 0) = d[0];
    if (n_ > 1) at(0, 1) = up[0];
    Real<T> scale = std::abs(at(0, 0)) + std::abs(at(0, 1));
    for (std::int64_t i = 0; i + 1 < n_; ++i)
      eliminate(i, low[i + 1], d[i + 1], i + 2 < n_ ? up[i + 1] : T{}, scale, x);
    Real<T> largest = 0;
    for (const auto& v : u_) largest = std::max(largest, std::abs(v));
    for (std::int64_t i = n_ - 1; i >= 0; --i) {
      T* row = x + i * k_;
      for (std::int64_t j = 0; j < k_; ++j) {
        if (i + 1 < n_) row[j] -= at(i, 1) * row[k_ + j];
        if (i + 2 < n_) row[j] -= at(i, 2) * row[2 * k_ + j];
      }
      T pivot = at(i, 0);
      perturb_pivot(std::numeric_limits<Real<T>>::epsilon() * largest, pivot, row, k_);
      for (std::int64_t j = 0; j < k_; ++j) row[j] = row[j] / pivot;
    }
  }

 private:
  T& at(std::int64_t row, std::int64_t column) { return u_[static_cast<std::size_t>(3 * row + column)]; }

  // Row i and the next one, (low, d, up), whose first element goes.
  void eliminate(std::int64_t i, T low, T d, T up, Real<T>& scale, T* x) {
    T *row = x + i * k_, *next = row + k_;
    Real<T> next_scale = std::abs(low) + std::abs(d) + std::abs(up);
    at(i + 1, 0) = d;
    at(i + 1, 1) = up;
    if (low == T{}) {
      scale = next_scale;
      return;
    }
    Real<T> here = at(i, 0) == T{} ? 0 : std::abs(at(i, 0)) / scale;
    if (std::abs(low) / next_scale <= here) {
      T factor = low / at(i, 0);
      scale = next_scale;
      at(i + 1, 0) -= factor * at(i, 1);
      for (std::int64_t j = 0; j < k_; ++j) next[j] -= factor * row[j];
      return;
    }
    T factor = at(i, 0) / low, old = at(i, 1);
    at(i, 0) = low;
    at(i, 1) = d;
    at(i, 2) = up;
    at(i + 1, 0) = old - factor * d;
    at(i + 1, 1) = -factor * up;
    for (std::int64_t j = 0; j < k_; ++j) {
      T kept = row[j];
      row[j] = next[j];
      next[j] = kept - factor * next[j];
    }
    scale = std::abs(at(i + 1, 0)) + std::abs(at(i + 1, 1));
  }

  std::int64_t n_, k_;
  std::vector<T> u_;
};

template <class T>
Hosts solve_all(const Hosts& in) {
  HostArray x(in[3].dtype(), in[3].shape());
  if (x.nbytes() > 0) std::memcpy(x.data(), in[3].data(), static_cast<std::size_t>(x.nbytes()));
  std::int64_t n = x.shape()[x.shape().size() - 2], k = x.shape().back();
  if (x.size() == 0) return {x};
  Tridiagonal<T> system(n, k);
  for (std::int64_t i = 0; i < x.size() / (n * k); ++i) {
    auto diagonal = [&](std::size_t which) { return static_cast<const T*>(in[which].data()) + i * n; };
    system.solve(diagonal(0), diagonal(1), diagonal(2), static_cast<T*>(x.data()) + i * n * k);
  }
  return {x};
}

template <class T>
void multiply(const Hosts& in, HostArray& out) {
  auto starts = in[1].astype(DType::I64), columns = in[2].astype(DType::I64);
  auto column = columns.span<std::int64_t>(), start = starts.span<std::int64_t>();
  const T* values = static_cast<const T*>(in[0].data());
  const T* x = static_cast<const T*>(in[3].data());
  std::int64_t rows = out.shape()[0], width = out.shape().size() == 2 ? out.shape()[1] : 1, inner = in[3].shape()[0];
  T* to = static_cast<T*>(out.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t begin = start[static_cast<std::size_t>(r)], end = start[static_cast<std::size_t>(r) + 1];
    if (begin < 0 || end < begin || end > in[0].size()) {
      throw ValueError(str("a sparse product: row ", r, " is [", begin, ", ", end, ") of ", in[0].size(), " elements"));
    }
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t c = column[static_cast<std::size_t>(i)];
      if (c < 0 || c >= inner) throw ValueError(str("a sparse product: column ", c, " of ", inner));
      for (std::int64_t j = 0; j < width; ++j) to[r * width + j] += values[i] * x[c * width + j];
    }
  }
}

void need(bool condition, const char* what) {
  if (!condition) throw ValueError(what);
}
bool same(const ir::Type& a, const ir::Type& b) { return a.dtype == b.dtype && a.shape == b.shape; }
}  // namespace

void check_tridiagonal_perturbed(ir::TypeSpan in, ir::TypeSpan out) {
  need(in.size() == 4 && out.size() == 1, "a tridiagonal solve has four operands and one result");
  DType t = in[0].dtype;
  need(t == DType::F32 || t == DType::F64 || is_complex(t), "the dtype is none of LAPACK's");
  need(in[3].shape.size() >= 2 && in[3].dtype == t, "right-hand sides need two dimensions and the diagonals' dtype");
  Shape diagonal(in[3].shape.begin(), in[3].shape.end() - 1);
  for (std::size_t i = 0; i < 3; ++i) {
    need(in[i].shape == diagonal && in[i].dtype == t, "diagonals have the shape of the right-hand sides but the last");
  }
  need(same(in[3], out[0]), "the result is like the right-hand sides");
}

ops::HostFunction tridiagonal_perturbed() {
  return [](const Hosts& in) {
    switch (in.at(3).dtype()) {
      case DType::F32:
        return solve_all<float>(in);
      case DType::F64:
        return solve_all<double>(in);
      case DType::C64:
        return solve_all<std::complex<float>>(in);
      default:
        return solve_all<std::complex<double>>(in);
    }
  };
}

void check_sparse_product(ir::TypeSpan in, ir::TypeSpan out) {
  need(in.size() == 4 && out.size() == 1, "a sparse product has four operands and one result");
  need(in[0].shape.size() == 1 && in[2].shape == in[0].shape, "values and columns have one dimension and one length");
  need(in[1].shape.size() == 1 && in[1].shape[0] >= 1, "row starts have one dimension and one element more than rows");
  need(is_integer(in[1].dtype) && is_integer(in[2].dtype), "columns and row starts are integers");
  need(in[3].shape.size() == 1 || in[3].shape.size() == 2, "the dense factor is a vector or a matrix");
  Shape result = in[3].shape;
  result[0] = in[1].shape[0] - 1;
  bool one = in[0].dtype == in[3].dtype && in[0].dtype == out[0].dtype && out[0].shape == result;
  need(one, "the result has one row for each start but the last, and the factors' dtype");
  DType t = in[0].dtype;
  need(t == DType::F32 || t == DType::F64 || t == DType::I32 || t == DType::I64 || is_complex(t),
       "the dtype is none of f32, f64, i32, i64 and complex");
}

ops::HostFunction sparse_product() {
  return [](const Hosts& in) {
    Shape shape = in.at(3).shape();
    shape[0] = in[1].shape()[0] - 1;
    HostArray out(in[3].dtype(), shape);
    if (out.nbytes() > 0) std::memset(out.data(), 0, static_cast<std::size_t>(out.nbytes()));
    switch (out.dtype()) {
      case DType::F32:
        multiply<float>(in, out);
        break;
      case DType::F64:
        multiply<double>(in, out);
        break;
      case DType::C64:
        multiply<std::complex<float>>(in, out);
        break;
      case DType::C128:
        multiply<std::complex<double>>(in, out);
        break;
      case DType::I32:
        multiply<std::int32_t>(in, out);
        break;
      default:
        multiply<std::int64_t>(in, out);
    }
    return Hosts{out};
  };
}

}  // namespace tessera::hlo
