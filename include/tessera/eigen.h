// SPDX-License-Identifier: Apache-2.0
// Eigen's matrices and vectors, both ways. Optional: `tessera/tessera.h` leaves it out; it needs Eigen 3.3 or later in
// the include path (Debian's libeigen3-dev).
//
//   auto a = ts::eigen_matrix<float>(x.host());           // a map of x's memory, no copy
//   Eigen::VectorXf y = a * v;
//   ts::Array z = ts::device_put(ts::from_eigen(a.inverse()), sharding);
#pragma once

#include <Eigen/Core>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "tessera/dtype.h"
#include "tessera/error.h"
#include "tessera/host_array.h"
#include "tessera/loc.h"

namespace tessera {

namespace detail {
/// The dtype of an Eigen scalar, its 16-bit floats among them.
template <class T>
constexpr DType eigen_dtype() {
  if constexpr (std::is_same_v<T, Eigen::half>) {
    return DType::F16;
  } else if constexpr (std::is_same_v<T, Eigen::bfloat16>) {
    return DType::BF16;
  } else {
    return dtype_of<T>();
  }
}
inline void check_eigen(const char* function, const HostArray& x, DType dtype, std::int64_t rank) {
  const std::string name = function;
  if (!x.defined()) throw ValueError(name + ": x is undefined; expected an array with storage");
  if (x.dtype() != dtype) {
    throw TypeError(name + ": x has dtype " + std::string(dtype_name(x.dtype())) + "; expected " +
                    std::string(dtype_name(dtype)) + ", or convert it with astype");
  }
  if (x.ndim() != rank) {
    throw ValueError(name + ": x has shape " + to_string(x.shape()) + "; expected rank " + std::to_string(rank) +
                     ", or reshape it");
  }
}
}  // namespace detail

/// A map of an array's elements that holds its memory, so that a map of a temporary stays valid.
template <class Matrix>
class EigenView : public Eigen::Map<const Matrix, Eigen::Aligned64> {
 public:
  template <class... Extents>
  explicit EigenView(const HostArray& x, Extents... extents)
      : Eigen::Map<const Matrix, Eigen::Aligned64>(static_cast<const typename Matrix::Scalar*>(x.data()), extents...),
        owner_(x.storage()) {}

 private:
  std::shared_ptr<const void> owner_;
};

/// A row-major matrix of any size.
template <class T>
using EigenMatrixView = EigenView<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
/// A column vector of any size.
template <class T>
using EigenVectorView = EigenView<Eigen::Matrix<T, Eigen::Dynamic, 1>>;

/// A host array of rank 2 as a matrix, without a copy. `T` is its element type; float16 is Eigen::half, bfloat16
/// Eigen::bfloat16. Throws `TypeError` for another dtype, `ValueError` for another rank.
template <class T>
EigenMatrixView<T> eigen_matrix(const HostArray& x, const Loc& = Loc::current()) {
  detail::check_eigen("eigen_matrix", x, detail::eigen_dtype<T>(), 2);
  return EigenMatrixView<T>(x, static_cast<Eigen::Index>(x.shape()[0]), static_cast<Eigen::Index>(x.shape()[1]));
}
/// A host array of rank 1 as a column vector, without a copy. Throws as `eigen_matrix`.
template <class T>
EigenVectorView<T> eigen_vector(const HostArray& x, const Loc& = Loc::current()) {
  detail::check_eigen("eigen_vector", x, detail::eigen_dtype<T>(), 1);
  return EigenVectorView<T>(x, static_cast<Eigen::Index>(x.shape()[0]));
}

/// The elements of a matrix or vector, or of an expression of them, as a host array: rank 1 for what is a vector by its
/// type, else rank 2, row-major whatever the order of the matrix. An expression is evaluated once, into the new array.
template <class Derived>
HostArray from_eigen(const Eigen::DenseBase<Derived>& m, const Loc& = Loc::current()) {
  using Scalar = typename Derived::Scalar;
  const auto rows = static_cast<std::int64_t>(m.rows());
  const auto cols = static_cast<std::int64_t>(m.cols());
  HostArray out(detail::eigen_dtype<Scalar>(), Derived::IsVectorAtCompileTime ? Shape{rows * cols} : Shape{rows, cols});
  auto* to = static_cast<Scalar*>(out.data());
  if constexpr (Derived::IsVectorAtCompileTime) {
    using Vector = Eigen::Matrix<Scalar, Derived::RowsAtCompileTime == 1 ? 1 : Eigen::Dynamic,
                                 Derived::RowsAtCompileTime == 1 ? Eigen::Dynamic : 1,
                                 Derived::RowsAtCompileTime == 1 ? Eigen::RowMajor : Eigen::ColMajor>;
    Eigen::Map<Vector>(to, m.rows(), m.cols()) = m;
  } else {
    using Rows = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    Eigen::Map<Rows>(to, m.rows(), m.cols()) = m;
  }
  return out;
}

}  // namespace tessera
