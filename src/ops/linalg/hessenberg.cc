// SPDX-License-Identifier: Apache-2.0
// hessenberg and householder_product, as jax.lax.linalg has them.
#include <algorithm>

#include "ops/linalg/linalg_common.h"
#include "ops/linalg/split_factors.h"

namespace tessera::ops {

namespace {
constexpr const char* kNoDerivative = "JAX defines no derivative of reflectors either; use qr, eigh or svd";

// --- hessenberg: a (..., n, n) -> packed (..., n, n), taus (..., n - 1) ------------------------------------------
// packed: the Hessenberg matrix, and below its first subdiagonal the reflectors, whose first elements are 1.

Types infer_hessenberg(TypeSpan in, const NoAttrs&) {
  check_count("hessenberg", in, 1);
  check_matrix("hessenberg", 0, in[0], true);
  Shape taus(in[0].shape.begin(), in[0].shape.end() - 1);
  taus.back() = std::max<std::int64_t>(taus.back() - 1, 0);
  return {Type{in[0].dtype, in[0].shape}, Type{in[0].dtype, taus}};
}

void hessenberg_reference(ViewSpan in, ViewSpan out, const NoAttrs&) {
  for (std::int64_t i = 0, count = matrix_count(in[0]); i < count; ++i) {
    Matrix a = load_matrix(in[0], i);
    auto n = a.rows;
    for (std::int64_t k = 0; k + 1 < n; ++k) {
      Reflector h = reflector(a, k + 1, k);
      reflect_right(a, h, 0);
      reflect_left(a, h, k + 1);
      a(k + 1, k) = h.beta;
      for (auto row = k + 2; row < n; ++row) a(row, k) = h.v[at(row)];
      store_number(out[1], i * (n - 1) + k, h.tau);
    }
    store_matrix(out[0], i, a);
  }
}

// --- householder_product: a (..., m, n), taus (..., k) -> the first n columns of the product of k reflectors -----

Types infer_product(TypeSpan in, const NoAttrs&) {
  check_count("householder_product", in, 2);
  check_matrix("householder_product", 0, in[0], false);
  check_same_dtype("householder_product", in);
  const Shape& a = in[0].shape;
  const Shape& taus = in[1].shape;
  if (a[a.size() - 2] < a.back()) {
    bad_operand("householder_product", 0, str("shape ", a, "; expected at least as many rows as columns"));
  }
  if (taus.size() + 1 != a.size() || !std::equal(taus.begin(), taus.end() - 1, a.begin()) || taus.back() > a.back()) {
    bad_operand("householder_product", 1,
                str("shape ", taus, " beside ", a, "; expected the same leading dimensions and at most ", a.back(),
                    " reflectors"));
  }
  return {Type{in[0].dtype, a}};
}

void product_reference(ViewSpan in, ViewSpan out, const NoAttrs&) {
  auto k = in[1].shape.back();
  for (std::int64_t i = 0, count = matrix_count(in[0]); i < count; ++i) {
    Matrix a = load_matrix(in[0], i);
    Matrix q(a.rows, a.cols);
    for (std::int64_t c = 0; c < a.cols; ++c) q(c, c) = 1;
    for (auto r = k - 1; r >= 0; --r) {
      Reflector h{r, std::conj(load_complex(in[1], i * k + r)), 0, std::vector<complexd>(at(a.rows))};
      h.v[at(r)] = 1;
      for (auto row = r + 1; row < a.rows; ++row) h.v[at(row)] = a(row, r);
      reflect_left(q, h, 0);
    }
    store_matrix(out[0], i, q);
  }
}

}  // namespace

TESSERA_DEFINE_OP(hessenberg, NoAttrs,
                  {
                      .name = "hessenberg",
                      .traits = {.composite = true},
                      .infer = infer_hessenberg,
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const NoAttrs&) { return batch_factors(in, out, in[0].rank() - 2); },
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const NoAttrs& p) { return batch_in_front(def::hessenberg, b, a, p); },
                      .jvp = Never{kNoDerivative},
                      .transpose = Never{kNotLinear},
                      .reference = hessenberg_reference,
                      .samples = Never{"needs matrices of full rank; tested on its own"},
                  });

TESSERA_DEFINE_OP(householder_product, NoAttrs,
                  {
                      .name = "householder_product",
                      .traits = {.composite = true},
                      .infer = infer_product,
                      .factors = [](TypeSpan in, TypeSpan out, const NoAttrs&) { return tall_factors(in, out); },
                      .remap = by_default,
                      .batch = [](Builder& b, const BatchArgs& a,
                                  const NoAttrs& p) { return batch_in_front(def::householder_product, b, a, p); },
                      .jvp = Never{kNoDerivative},
                      .transpose = Never{kNotLinear},
                      .divide = {product_by_rows, product_by_panels},
                      .reference = product_reference,
                      .samples =
                          [] {
                            return std::vector<Sample<NoAttrs>>{
                                {{Type{DType::F32, {4, 3}}, Type{DType::F32, {2}}}, {}},
                                {{Type{DType::F32, {2, 3, 3}}, Type{DType::F32, {2, 3}}}, {}}};
                          },
                  });

Value householder_product(Value packed, Value taus) {
  return packed.builder->add1(def::householder_product, {packed, taus});
}

}  // namespace tessera::ops
