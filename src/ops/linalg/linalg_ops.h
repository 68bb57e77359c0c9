// SPDX-License-Identifier: Apache-2.0
// Fourier transforms and decompositions of matrices: the last dimensions hold one problem, those before them a batch.
#pragma once

#include <array>

#include "ir/attrs.h"
#include "ops/ops.h"

namespace tessera::ops {

using ir::field;
using ir::rare_field;

enum class FftType : std::uint8_t {
  Fft,    ///< complex to complex
  Ifft,   ///< its inverse, divided by the number of points
  Rfft,   ///< real to the first half of the spectrum, n / 2 + 1 along the last dimension
  Irfft,  ///< the other way, divided by the number of points
};
constexpr auto enum_names(FftType) { return std::array{"fft", "ifft", "rfft", "irfft"}; }
inline const char* to_string(FftType type) { return enum_names(type)[static_cast<std::size_t>(type)]; }
struct Fft {
  FftType type = FftType::Fft;
  Dims lengths;  ///< one to three: points along the last dimensions, of the real side
  static constexpr auto fields = std::tuple{field("type", &Fft::type), field("lengths", &Fft::lengths)};
};
Value fft(Value x, FftType type, const Dims& lengths);

/// Operands a[…, m, m] and b; result x with op(a) x = b (b[…, m, n]), or x op(a) = b (b[…, n, m]) unless `left`. Of a,
/// one triangle is read.
struct TriangularSolve {
  bool left = true;
  bool lower = true;
  bool transpose_a = false;
  bool conjugate_a = false;
  bool unit_diagonal = false;
  static constexpr auto fields = std::tuple{
      field("left", &TriangularSolve::left), field("lower", &TriangularSolve::lower),
      field("transpose_a", &TriangularSolve::transpose_a), field("conjugate_a", &TriangularSolve::conjugate_a),
      field("unit_diagonal", &TriangularSolve::unit_diagonal)};
};
Value triangular_solve(Value a, Value b, const TriangularSolve& p);

/// Lower factor of a positive definite matrix, zeros above the diagonal; NaN where it is not positive definite. Reads
/// the lower triangle.
Value cholesky(Value a);

struct Qr {
  bool full = false;    ///< q[…, m, m] and r[…, m, n]; else k = min(m, n) in place of the inner m
  bool packed = false;  ///< in their place LAPACK's geqrf: r with the reflectors below it, and their factors […, k]
  static constexpr auto fields = std::tuple{field("full", &Qr::full), rare_field("packed", &Qr::packed)};
};
/// q and r.
Values qr(Value a, bool full = false);
/// r, with the reflectors below it, and their factors.
Values packed_qr(Value a);
/// The first n columns of the product of the reflectors of `packed`.
Value householder_product(Value packed, Value taus);

/// l (unit diagonal, not stored) and u in one matrix, pivots i32[…, k], permutation i32[…, m] with a[permutation] = l
/// u.
Values lu(Value a);

/// Vectors (columns) and ascending values of a Hermitian matrix; reads the lower triangle.
Values eigh(Value a);

struct Svd {
  bool full = false;
  bool vectors = true;
  static constexpr auto fields = std::tuple{field("full", &Svd::full), field("vectors", &Svd::vectors)};
};
/// Descending singular values; then u and the adjoint of v where `vectors`.
Values svd(Value a, bool full = false, bool vectors = true);

}  // namespace tessera::ops
