// SPDX-License-Identifier: Apache-2.0
// Creation of arrays as in jax.numpy: ranges, spaces, diagonals, grids, windows. Results are on the default device,
// uncommitted.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
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
Array float_range(double start, double stop, double step, DType dtype, const PlaceOptions& options, const Loc& loc);
}  // namespace detail

/// 0, 1, … below stop, in `dtype`.
Array arange(std::int64_t stop, DType dtype, const Loc& loc = Loc::current());
/// start, start + 1, … below stop, in `dtype`.
Array arange(std::int64_t start, std::int64_t stop, DType dtype, const Loc& loc = Loc::current());
/// start, start + step, … below stop (above it for a negative step), in `dtype`. Throws `ValueError` for step 0.
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype, const Loc& loc = Loc::current());
/// The ranges of floats: 0, 1, … below stop, float32 unless a dtype is given. They throw `ValueError` for a step of 0
/// and for ends that are not finite.
template <std::floating_point A>
/// start, start + 1, … below stop, in `dtype`.
Array arange(A stop, DType dtype = float32, const Loc& loc = Loc::current()) {
  return detail::float_range(0, stop, 1, dtype, loc);
}
/// start, start + 1, … below stop.
template <class A, class B>
requires(std::is_floating_point_v<A> || std::is_floating_point_v<B>) Array
    arange(A start, B stop, DType dtype = float32, const Loc& loc = Loc::current()) {
  return detail::float_range(static_cast<double>(start), static_cast<double>(stop), 1, dtype, loc);
}
/// start, start + step, … below stop; element i is start + i * step in at least float32.
template <class A, class B, class C>
requires(std::is_floating_point_v<A> || std::is_floating_point_v<B> || std::is_floating_point_v<C>) Array
    arange(A start, B stop, C step, DType dtype = float32, const Loc& loc = Loc::current()) {
  return detail::float_range(static_cast<double>(start), static_cast<double>(stop), static_cast<double>(step), dtype,
                             loc);
}

/// 0, 1, … below stop, placed as `options.out_sharding`.
Array arange(std::int64_t stop, DType dtype, const PlaceOptions& options, const Loc& loc = Loc::current());
/// The range of three arguments, placed as `options.out_sharding`.
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype, const PlaceOptions& options,
             const Loc& loc = Loc::current());
/// The same of floats.
template <class A, class B, class C>
requires(std::is_floating_point_v<A> || std::is_floating_point_v<B> || std::is_floating_point_v<C>) Array
    arange(A start, B stop, C step, DType dtype, const PlaceOptions& options, const Loc& loc = Loc::current()) {
  return detail::float_range(static_cast<double>(start), static_cast<double>(stop), static_cast<double>(step), dtype,
                             options, loc);
}

/// End, dtype and axis of `linspace`, `logspace` and `geomspace`.
struct SpaceOptions {
  bool endpoint = true;
  std::optional<DType> dtype = std::nullopt;  ///< the float type of both ends
  std::int64_t axis = 0;                      ///< position of the new dimension
};
/// `num` values at equal distances from start to stop, which broadcast; the result has one more dimension. Integers
/// give floats; an integer `dtype` rounds down. Throws `ValueError` for a negative count.
Array linspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const SpaceOptions& options = {});
/// `base` to the power of `linspace(start, stop, num)`.
Array logspace(const Operand& start, const Operand& stop, std::int64_t num = 50, double base = 10,
               const SpaceOptions& options = {});
/// `num` values from start to stop with one ratio between neighbors. Both ends have one sign and are not 0.
Array geomspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const SpaceOptions& options = {});

/// What `array` takes: a scalar, an array, a vector, or a list of such, nested to any depth.
class ArrayLiteral {
 public:
  // NOLINTBEGIN(google-explicit-constructor): literals are written as what they are
  template <Number T>
  ArrayLiteral(T value) : value_(HostArray::scalar(value)), plain_(is_plain_type<T>) {}
  ArrayLiteral(const Array& value) : array_(value) {}
  ArrayLiteral(std::initializer_list<ArrayLiteral> elements) : elements_(elements), is_list_(true) {}
  template <Number T>
  ArrayLiteral(const std::vector<T>& values) : value_(HostArray::from(values)), plain_(is_plain_type<T>) {}
  template <class T>
  requires(!Number<T> && std::convertible_to<T, ArrayLiteral>) ArrayLiteral(const std::vector<T>& elements)
      : elements_(elements.begin(), elements.end()), is_list_(true) {}
  // NOLINTEND(google-explicit-constructor)

  bool is_list() const { return is_list_; }
  const std::vector<ArrayLiteral>& elements() const { return elements_; }
  /// Scalars and vectors of them.
  const HostArray& value() const { return value_; }
  /// Defined for an element that is an array.
  const Array& array() const { return array_; }
  /// Of a type that literals have in C++ (int, long, double, …): its width means nothing.
  bool is_plain() const { return plain_; }

 private:
  template <class T>
  static constexpr bool is_plain_type =
      std::same_as<T, bool> || std::same_as<T, int> || std::same_as<T, long> || std::same_as<T, long long> ||
      std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, complex64_t>;

  HostArray value_;
  Array array_;
  std::vector<ArrayLiteral> elements_;
  bool is_list_ = false;
  bool plain_ = false;
};
/// Array literals as jax.numpy.array takes them: `array({{1, 2}, {3, 4}})`. Integers give int32 (int64 where one does
/// not fit), floats float32, bools bool, other types (std::uint8_t, bfloat16_t, …) themselves; mixed ones promote.
/// Arrays among the elements are stacked. Throws `ValueError` for a ragged list, naming the element.
Array array(const ArrayLiteral& values, std::optional<DType> dtype = std::nullopt, const Loc& loc = Loc::current());
/// The same, placed as `options.out_sharding`.
Array array(const ArrayLiteral& values, const PlaceOptions& options, const Loc& loc = Loc::current());
/// The same with a dtype.
Array array(const ArrayLiteral& values, std::optional<DType> dtype, const PlaceOptions& options,
            const Loc& loc = Loc::current());

/// A scalar or an array, converted to `dtype` where one is given.
Array asarray(const Operand& x, std::optional<DType> dtype = std::nullopt);
/// The same, placed as `options.out_sharding`, in traced functions too.
Array asarray(const Operand& x, const PlaceOptions& options);
/// The same with a dtype.
Array asarray(const Operand& x, std::optional<DType> dtype, const PlaceOptions& options);
/// An array of x's shape (and dtype unless one is given) filled with `value`, of rank 0.
Array full_like(const Operand& x, const Operand& value, std::optional<DType> dtype = std::nullopt);
/// The same but for what the options give.
Array full_like(const Operand& x, const Operand& value, const LikeOptions& options);
/// Zeros, as in JAX: nothing is left uninitialised.
Array empty(const Shape& shape, DType dtype = float32, const Loc& loc = Loc::current());
/// The same, placed as `options.out_sharding`.
Array empty(const Shape& shape, const PlaceOptions& options, const Loc& loc = Loc::current());
/// The same with a dtype.
Array empty(const Shape& shape, DType dtype, const PlaceOptions& options, const Loc& loc = Loc::current());
/// `zeros_like`.
Array empty_like(const Operand& x);
/// `zeros_like` with options.
Array empty_like(const Operand& x, const LikeOptions& options);
/// The n x n identity matrix.
Array identity(std::int64_t n, DType dtype = float32, const Loc& loc = Loc::current());

/// A vector becomes a matrix with it on diagonal k, a matrix gives its diagonal k. `ValueError` for other ranks.
Array diag(const Operand& v, std::int64_t k = 0);
/// The matrix with the flattened operand on diagonal k, zeros elsewhere.
Array diagflat(const Operand& v, std::int64_t k = 0);
/// The Vandermonde matrix of a vector: columns are the powers n - 1 … 0 of x (n is x's size unless given), ascending
/// where `increasing`. Throws `ValueError` for another rank or a negative n.
Array vander(const Operand& x, std::optional<std::int64_t> n = std::nullopt, bool increasing = false);

/// Form of `meshgrid`.
struct MeshgridOptions {
  bool matrix_indexing = false;  ///< "ij"; else "xy": the first two dimensions are exchanged
  bool sparse = false;           ///< extents of 1 in place of repetition
};
/// Coordinate arrays of a grid, one per axis, from the vectors of coordinates along its axes. Throws `ValueError`
/// unless they have rank 1.
std::vector<Array> meshgrid(const std::vector<Array>& axes, const MeshgridOptions& options = {},
                            const Loc& loc = Loc::current());
/// The index of every element along each dimension, stacked in front: shape (rank, …).
Array indices(const Shape& shape, DType dtype = int32, const Loc& loc = Loc::current());
/// f called once with the index arrays of all dimensions, each of `shape`.
Array fromfunction(const std::function<Array(const std::vector<Array>&)>& f, const Shape& shape, DType dtype = float32,
                   const Loc& loc = Loc::current());
/// Rows and columns (int32) of the elements of an n x m matrix at and below diagonal k, in row-major order.
std::pair<Array, Array> tril_indices(std::int64_t n, std::int64_t k = 0, std::optional<std::int64_t> m = std::nullopt,
                                     const Loc& loc = Loc::current());
/// The same at and above diagonal k.
std::pair<Array, Array> triu_indices(std::int64_t n, std::int64_t k = 0, std::optional<std::int64_t> m = std::nullopt,
                                     const Loc& loc = Loc::current());
/// Index arrays of the main diagonal of an array with `ndim` dimensions of extent n: `ndim` times 0 … n-1.
std::vector<Array> diag_indices(std::int64_t n, std::int64_t ndim = 2, const Loc& loc = Loc::current());

// --- windows of signal processing: float32 vectors of n points, ones for n <= 1, `ValueError` for a negative n
// --------
/// Bartlett's triangular window, zero at the ends.
Array bartlett(std::int64_t n, const Loc& loc = Loc::current());
/// Blackman's window: 0.42 - 0.5 cos(t) + 0.08 cos(2t) for t from 0 to 2 pi.
Array blackman(std::int64_t n, const Loc& loc = Loc::current());
/// Hamming's window: 0.54 - 0.46 cos(t).
Array hamming(std::int64_t n, const Loc& loc = Loc::current());
/// Hann's window: 0.5 - 0.5 cos(t).
Array hanning(std::int64_t n, const Loc& loc = Loc::current());
/// Kaiser's window with shape parameter beta: i0(beta sqrt(1 - t^2)) / i0(beta) for t from -1 to 1.
Array kaiser(std::int64_t n, double beta, const Loc& loc = Loc::current());

}  // namespace tessera
