// SPDX-License-Identifier: Apache-2.0
// Views of host arrays as Eigen's matrices and as multi-dimensional spans.
#include <gtest/gtest.h>

#include <Eigen/LU>
#include <memory>
#include <string>
#include <vector>

#include "tessera/eigen.h"
#include "tessera/nd_view.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

HostArray counted(DType dtype, const Shape& shape) {
  HostArray out(int32, shape);
  for (std::int64_t i = 0; i < out.size(); ++i)
    static_cast<std::int32_t*>(out.data())[i] = static_cast<std::int32_t>(i);
  return out.astype(dtype);
}

TEST(EigenViews, MatricesAreMappedWhereTheyAre) {
  HostArray h = counted(float32, {2, 3});
  auto m = eigen_matrix<float>(h);
  EXPECT_EQ(m.data(), h.data());
  EXPECT_EQ(m.rows(), 2);
  EXPECT_EQ(m.cols(), 3);
  EXPECT_EQ(m(1, 0), 3.0F);
  Eigen::VectorXf y = m * Eigen::Vector3f(1, 10, 100);
  EXPECT_EQ(y(1), 543.0F);
}

TEST(EigenViews, AMapOfATemporaryHoldsTheMemory) {
  auto v = eigen_vector<double>(counted(float64, {4}));
  EXPECT_EQ(v.sum(), 6.0);
  auto copy = std::make_unique<EigenVectorView<double>>(v);
  EXPECT_EQ((*copy)(3), 3.0);
  auto last = *copy;
  copy.reset();
  EXPECT_EQ(last(2), 2.0);
}

TEST(EigenViews, ExpressionsBecomeHostArraysInRowMajorOrder) {
  Eigen::Matrix3d a;  // column-major
  a << 2, 0, 0, 0, 4, 1, 0, 0, 1;
  HostArray inverse = from_eigen(a.inverse());
  EXPECT_EQ(inverse.shape(), (Shape{3, 3}));
  EXPECT_EQ(inverse.to_vector<double>(), (std::vector<double>{0.5, 0, 0, 0, 0.25, -0.25, 0, 0, 1}));
  EXPECT_EQ(from_eigen(a.row(1)).shape(), Shape{3});
  EXPECT_EQ(from_eigen(a.row(1)).to_vector<double>(), (std::vector<double>{0, 4, 1}));
  EXPECT_EQ(from_eigen(a.col(2)).to_vector<double>(), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(from_eigen(a.array() + 1.0).to_vector<double>()[0], 3.0);
  EXPECT_EQ(from_eigen(Eigen::MatrixXf(0, 3)).shape(), (Shape{0, 3}));
}

TEST(EigenViews, HalfFloatsAreEigensOwn) {
  for (DType dtype : {float16, bfloat16}) {
    HostArray h = counted(dtype, {2, 2});
    HostArray back =
        dtype == float16 ? from_eigen(eigen_matrix<Eigen::half>(h)) : from_eigen(eigen_matrix<Eigen::bfloat16>(h));
    EXPECT_TRUE(identical(h, back)) << dtype_name(dtype);
  }
  HostArray c = counted(complex64, {2, 2});
  EXPECT_TRUE(identical(from_eigen(eigen_matrix<complex64_t>(c)), c));
}

TEST(EigenViews, AShardedProductAgreesWithEigen) {
  ClientScope eight(Client::cpu({.devices = 8}));
  auto mesh = make_mesh({4, 2}, {"x", "y"});
  Eigen::MatrixXf a = Eigen::MatrixXf::Random(8, 6);
  Eigen::MatrixXf b = Eigen::MatrixXf::Random(6, 4);
  Array product = matmul(device_put(from_eigen(a), NamedSharding(mesh, P("x", "y"))),
                         device_put(from_eigen(b), NamedSharding(mesh, P("y"))));
  EXPECT_LT((eigen_matrix<float>(product.host()) - a * b).cwiseAbs().maxCoeff(), 1e-5F);
}

TEST(EigenViews, RefusalsNameDtypeAndRank) {
  HostArray h = counted(float32, {2, 3});
  auto message = [](const auto& f) {
    try {
      f();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_NE(message([&] { eigen_matrix<double>(h); }).find("x has dtype float32; expected float64"), std::string::npos);
  EXPECT_NE(message([&] { eigen_vector<float>(h); }).find("shape (2, 3); expected rank 1"), std::string::npos);
  EXPECT_NE(message([&] { eigen_matrix<float>(HostArray()); }).find("undefined"), std::string::npos);
  EXPECT_NE(message([&] { view<float, 3>(h); }).find("shape (2, 3); expected rank 3"), std::string::npos);
  EXPECT_NE(message([&] { view<int, 2>(h); }).find("x has dtype float32; expected int32"), std::string::npos);
  EXPECT_NE(message([&] { view<float, 2>(h)(1, 3); }).find("index 3 of dimension 1 is outside; expected 0 to 2"),
            std::string::npos);
  EXPECT_NE(message([&] { view<float, 2>(h)[-1]; }).find("index -1 of dimension 0"), std::string::npos);
}

TEST(NdViews, ReadAndWriteTheElements) {
  HostArray h = counted(int32, {2, 3, 4});
  auto v = view<std::int32_t, 3>(h);
  static_assert(std::is_same_v<decltype(v)::element_type, const std::int32_t>);
  EXPECT_EQ(v.rank(), 3U);
  EXPECT_EQ(v.extent(1), 3);
  EXPECT_EQ(v.stride(0), 12);
  EXPECT_EQ(v.size(), 24);
  EXPECT_EQ(v(1, 2, 3), 23);
  EXPECT_EQ(v[1][2](3), 23);
  EXPECT_EQ(v.transposed()(3, 2, 1), 23);
  EXPECT_EQ(v.data_handle(), h.data());
  mutable_view<std::int32_t, 3>(h)(0, 0, 0) = 7;
  EXPECT_EQ(v(0, 0, 0), 7);
  EXPECT_TRUE((view<float, 1>(HostArray(float32, {0})).empty()));
  EXPECT_EQ((view<float, 0>(HostArray::scalar(3.0F))()), 3.0F);
}

TEST(NdViews, AViewOfATemporaryHoldsTheMemory) {
  auto row = view<float, 2>((reshape(astype(arange(6), float32), {2, 3}) * 2.0).host())[1];
  EXPECT_EQ(row(2), 10.0F);
}

}  // namespace
}  // namespace tessera
