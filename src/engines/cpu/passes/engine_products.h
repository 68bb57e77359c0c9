// SPDX-License-Identifier: Apache-2.0
// Matrix products as this engine runs them: they read and write through strides, so that transpositions and sections
// of arrays cost nothing beside them. Ops of this engine alone.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/op_def.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

/// `dot_general` followed by `transpose`. An operand may be one section of an array: (dimension, index), and the
/// product's dimensions are those without it.
struct TransposedProduct {
  Dims lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  std::optional<DType> preferred;
  Precision precision = Precision::Default;
  Dims permutation;
  Dims lhs_section, rhs_section;  ///< empty: the whole array
  ops::DotGeneral product() const {
    return {lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, preferred, precision};
  }
  const Dims& section(std::size_t side) const { return side == 0 ? lhs_section : rhs_section; }
  static constexpr auto fields = std::tuple{ir::field("lhs_contracting", &TransposedProduct::lhs_contracting),
                                            ir::field("rhs_contracting", &TransposedProduct::rhs_contracting),
                                            ir::field("lhs_batch", &TransposedProduct::lhs_batch),
                                            ir::field("rhs_batch", &TransposedProduct::rhs_batch),
                                            ir::field("preferred", &TransposedProduct::preferred),
                                            ir::field("precision", &TransposedProduct::precision),
                                            ir::field("permutation", &TransposedProduct::permutation),
                                            ir::rare_field("lhs_section", &TransposedProduct::lhs_section),
                                            ir::rare_field("rhs_section", &TransposedProduct::rhs_section)};
};
const ir::OpDef& transposed_product();

/// Several such products, each of which writes one section of the result: section k along `dimension` is the product of
/// operands 2 k and 2 k + 1. One entry a product in every list.
struct JoinedProducts {
  std::vector<Dims> lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, permutation, lhs_section, rhs_section;
  std::optional<DType> preferred;
  Precision precision = Precision::Default;
  std::int64_t dimension = 0;

  void add(const TransposedProduct& p);
  std::size_t count() const { return permutation.size(); }
  TransposedProduct product(std::size_t k) const;
  static constexpr auto fields = std::tuple{ir::field("lhs_contracting", &JoinedProducts::lhs_contracting),
                                            ir::field("rhs_contracting", &JoinedProducts::rhs_contracting),
                                            ir::field("lhs_batch", &JoinedProducts::lhs_batch),
                                            ir::field("rhs_batch", &JoinedProducts::rhs_batch),
                                            ir::field("permutation", &JoinedProducts::permutation),
                                            ir::field("lhs_section", &JoinedProducts::lhs_section),
                                            ir::field("rhs_section", &JoinedProducts::rhs_section),
                                            ir::field("preferred", &JoinedProducts::preferred),
                                            ir::field("precision", &JoinedProducts::precision),
                                            ir::field("dimension", &JoinedProducts::dimension)};
};
const ir::OpDef& joined_products();

/// The product whose result has `rank` dimensions, in their order.
TransposedProduct plain_product(const ops::DotGeneral& p, std::int64_t rank);
/// The product of an equation of `dot_general` or `transposed_product`; nothing for others.
std::optional<TransposedProduct> product_of(const ir::Graph& g, const ir::Eqn& e);

}  // namespace tessera::cpu
