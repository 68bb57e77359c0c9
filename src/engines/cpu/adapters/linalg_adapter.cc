// SPDX-License-Identifier: Apache-2.0
// Fourier transforms and decompositions of matrices.
#include <algorithm>
#include <memory>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/kernels/elementwise/elementwise_kernels.h"
#include "engines/cpu/kernels/products/fft_kernels.h"
#include "engines/cpu/kernels/products/linalg_kernels.h"
#include "ops/linalg/linalg_ops.h"

namespace tessera::cpu {

namespace {

// A stack of matrices.
struct Stack {
  std::int64_t count = 1, rows, cols;
  explicit Stack(const Shape& shape) : rows(shape[shape.size() - 2]), cols(shape.back()) {
    for (std::size_t d = 0; d + 2 < shape.size(); ++d) count *= shape[d];
  }
  bool empty() const { return count * rows * cols == 0; }
  // Nanoseconds for algorithms of `steps` n^3 operations.
  double cost(double steps) const {
    auto n = static_cast<double>(std::max(rows, cols));
    return 1000 + static_cast<double>(count) * (500 + steps * n * n * n / 5);
  }
};

// LAPACK has these.
bool factors(DType t) { return t == DType::F32 || t == DType::F64 || is_complex(t); }

Kernel make_fft(const Request& r) {
  const auto& p = ir::get<ops::Fft>(r.attrs);
  Kernel k;
  DType real = real_dtype(r.in[0].dtype);
  if ((real != DType::F32 && real != DType::F64) || r.in[0].size() == 0 || r.out[0].size() == 0) return k;
  static constexpr kernels::FftKind kinds[] = {kernels::FftKind::Forward, kernels::FftKind::Inverse,
                                               kernels::FftKind::RealForward, kernels::FftKind::RealInverse};
  auto kind = kinds[static_cast<int>(p.type)];
  Shape shape = p.type == ops::FftType::Irfft ? r.out[0].shape : r.in[0].shape;
  k.cost = 1000 + 20.0 * static_cast<double>(std::max(r.in[0].size(), r.out[0].size()));
  k.run = [=, axes = static_cast<std::int64_t>(p.lengths.size())](const void* const* in, void* const* out) {
    kernels::fft(kind, real, shape, axes, in[0], out[0]);
  };
  return k;
}

// A kernel for stacks of matrices that takes `steps` n^3 operations per matrix: calls `run(dtype, stack, in, out)`.
// `in_place` where all of a matrix is read before results are written in its place.
template <class F>
Kernel factorization(const Request& r, double steps, F run, bool in_place = false) {
  Kernel k;
  Stack a(r.in[0].shape);
  DType t = r.in[0].dtype;
  if (!factors(t) || a.empty()) return k;
  k.cost = a.cost(steps);
  k.in_place = in_place ? 1 : 0;
  k.run = [=](const void* const* in, void* const* out) { run(t, a, in, out); };
  return k;
}
using In = const void* const*;
using Out = void* const*;

Kernel make_cholesky(const Request& r) {
  auto run = [](DType t, const Stack& a, In in, Out out) {
    kernels::cholesky(t, true, a.count, a.rows, in[0], out[0]);
  };
  return factorization(r, 0.5, run, true);
}
Kernel make_qr(const Request& r) {
  if (ir::get<ops::Qr>(r.attrs).packed) {
    auto packed = [](DType t, const Stack& a, In in, Out out) {
      kernels::packed_qr(t, a.count, a.rows, a.cols, in[0], out[0], out[1]);
    };
    return factorization(r, 2, packed, true);
  }
  auto run = [full = ir::get<ops::Qr>(r.attrs).full](DType t, const Stack& a, In in, Out out) {
    kernels::qr(t, full, a.count, a.rows, a.cols, in[0], out[0], out[1]);
  };
  return factorization(r, 3, run, true);
}
Kernel make_lu(const Request& r) {
  return factorization(r, 1, [](DType t, const Stack& a, In in, Out out) {
    kernels::lu(t, a.count, a.rows, a.cols, in[0], out[0], static_cast<std::int32_t*>(out[1]),
                static_cast<std::int32_t*>(out[2]));
  });
}
Kernel make_svd(const Request& r) {
  return factorization(r, 20, [p = ir::get<ops::Svd>(r.attrs)](DType t, const Stack& a, In in, Out out) {
    kernels::svd(t, p.full, a.count, a.rows, a.cols, in[0], out[0], p.vectors ? out[1] : nullptr,
                 p.vectors ? out[2] : nullptr);
  });
}
Kernel make_eigh(const Request& r) {
  return factorization(r, 10, [](DType t, const Stack& a, In in, Out out) {
    kernels::eigh(t, true, a.count, a.rows, in[0], out[1], out[0]);
  });
}
Kernel make_hessenberg(const Request& r) {
  return factorization(r, 4, [](DType t, const Stack& a, In in, Out out) {
    kernels::hessenberg(t, a.count, a.rows, in[0], out[0], out[1]);
  });
}
Kernel make_householder_product(const Request& r) {
  return factorization(r, 2, [k = r.in[1].shape.back()](DType t, const Stack& a, In in, Out out) {
    kernels::householder_product(t, a.count, a.rows, a.cols, k, in[0], in[1], out[0]);
  });
}

Kernel make_solve(const Request& r) {
  const auto& p = ir::get<ops::TriangularSolve>(r.attrs);
  Kernel k;
  Stack x(r.in[1].shape);
  DType t = r.in[0].dtype;
  if (!factors(t) || x.empty()) return k;
  bool conjugate = p.conjugate_a && is_complex(t);
  auto transform = !p.transpose_a ? kernels::Transform::None
                   : conjugate    ? kernels::Transform::Adjoint
                                  : kernels::Transform::Transpose;
  k.cost = x.cost(0.5);
  k.in_place = 2;
  // BLAS knows the adjoint, not the conjugate alone.
  auto conj = conjugate && !p.transpose_a ? kernels::ew_find(kernels::EwOp::Conj, t, t) : nullptr;
  k.run = [=, left = p.left, lower = p.lower, unit = p.unit_diagonal, size = r.in[0].size()](const void* const* in,
                                                                                             void* const* out) {
    const void* a = in[0];
    std::unique_ptr<char[]> copy;
    if (conj != nullptr) {
      copy.reset(new char[static_cast<std::size_t>(size * dtype_size(t))]);
      conj(a, nullptr, nullptr, copy.get(), size);
      a = copy.get();
    }
    kernels::triangular_solve(t, left, lower, transform, unit, x.count, x.rows, x.cols, a, in[1], out[0]);
  };
  return k;
}

}  // namespace

void add_linalg_kernels(KernelTable& table) {
  table.add("fft", make_fft);
  table.add("cholesky", make_cholesky);
  table.add("qr", make_qr);
  table.add("lu", make_lu);
  table.add("svd", make_svd);
  table.add("eigh", make_eigh);
  table.add("hessenberg", make_hessenberg);
  table.add("householder_product", make_householder_product);
  table.add("triangular_solve", make_solve);
}

}  // namespace tessera::cpu
