// SPDX-License-Identifier: Apache-2.0
// Arrays made from numbers, as jax.numpy makes them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"
#include "tessera/ops.h"

namespace tessera {

namespace detail {
Array float_range(double start, double stop, double step, DType dtype, const Loc& loc);
}  // namespace detail

/// The ranges of ops.h under another dtype, and ranges of floats: start, start + step, … below stop, float32 unless a
/// dtype is given.
Array arange(std::int64_t stop, DType dtype, const Loc& loc = Loc::current());
Array arange(std::int64_t start, std::int64_t stop, DType dtype, const Loc& loc = Loc::current());
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype, const Loc& loc = Loc::current());
template <std::floating_point A>
Array arange(A stop, DType dtype = float32, const Loc& loc = Loc::current()) {
  return detail::float_range(0, stop, 1, dtype, loc);
}
template <class A, class B>
requires(std::is_floating_point_v<A> || std::is_floating_point_v<B>) Array
    arange(A start, B stop, DType dtype = float32, const Loc& loc = Loc::current()) {
  return detail::float_range(static_cast<double>(start), static_cast<double>(stop), 1, dtype, loc);
}
template <class A, class B, class C>
requires(std::is_floating_point_v<A> || std::is_floating_point_v<B> || std::is_floating_point_v<C>) Array
    arange(A start, B stop, C step, DType dtype = float32, const Loc& loc = Loc::current()) {
  return detail::float_range(static_cast<double>(start), static_cast<double>(stop), static_cast<double>(step), dtype,
                             loc);
}

struct SpaceOptions {
  bool endpoint = true;
  std::optional<DType> dtype = std::nullopt;  ///< the float type of both ends
  std::int64_t axis = 0;                      ///< where the new dimension stands
};
/// `num` numbers at equal distances from start to stop (arrays broadcast, and get one more dimension). Throws
/// `ValueError` for a negative count.
Array linspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const SpaceOptions& options = {});
/// The same distances between exponents of `base`.
Array logspace(const Operand& start, const Operand& stop, std::int64_t num = 50, double base = 10,
               const SpaceOptions& options = {});
/// The same ratio between neighbours.
Array geomspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const SpaceOptions& options = {});

/// A number or an array, under another dtype where one is given.
Array asarray(const Operand& x, std::optional<DType> dtype = std::nullopt);
Array full_like(const Operand& x, const Operand& value, std::optional<DType> dtype = std::nullopt);
/// Zeros, as in JAX: nothing is left uninitialised.
Array empty(const Shape& shape, DType dtype = float32, const Loc& loc = Loc::current());
Array empty_like(const Operand& x);
Array identity(std::int64_t n, DType dtype = float32, const Loc& loc = Loc::current());

/// A vector becomes a matrix with it on diagonal k, a matrix gives its diagonal k. `ValueError` for other ranks.
Array diag(const Operand& v, std::int64_t k = 0);
Array diagflat(const Operand& v, std::int64_t k = 0);
/// Columns are powers of x, falling unless `increasing`.
Array vander(const Operand& x, std::optional<std::int64_t> n = std::nullopt, bool increasing = false);

struct MeshgridOptions {
  bool matrix_indexing = false;  ///< "ij"; else "xy": the first two dimensions change places
  bool sparse = false;           ///< extents of 1 in place of repetition
};
/// Coordinates of a grid from those along its axes.
std::vector<Array> meshgrid(const std::vector<Array>& axes, const MeshgridOptions& options = {},
                            const Loc& loc = Loc::current());
/// Numbers of each dimension of a grid: shape (rank, …).
Array indices(const Shape& shape, DType dtype = int32, const Loc& loc = Loc::current());
/// f of such coordinates.
Array fromfunction(const std::function<Array(const std::vector<Array>&)>& f, const Shape& shape, DType dtype = float32,
                   const Loc& loc = Loc::current());
/// Rows and columns of the elements at and below (above) diagonal k, in row-major order.
std::pair<Array, Array> tril_indices(std::int64_t n, std::int64_t k = 0, std::optional<std::int64_t> m = std::nullopt,
                                     const Loc& loc = Loc::current());
std::pair<Array, Array> triu_indices(std::int64_t n, std::int64_t k = 0, std::optional<std::int64_t> m = std::nullopt,
                                     const Loc& loc = Loc::current());
/// `ndim` times 0 … n-1.
std::vector<Array> diag_indices(std::int64_t n, std::int64_t ndim = 2, const Loc& loc = Loc::current());

// --- windows of signal processing: float32 vectors -------------------------------------------------------------------
Array bartlett(std::int64_t n, const Loc& loc = Loc::current());
Array blackman(std::int64_t n, const Loc& loc = Loc::current());
Array hamming(std::int64_t n, const Loc& loc = Loc::current());
Array hanning(std::int64_t n, const Loc& loc = Loc::current());
Array kaiser(std::int64_t n, double beta, const Loc& loc = Loc::current());

}  // namespace tessera
