// SPDX-License-Identifier: Apache-2.0
// Transpositions beside matrix products cost nothing: the product reads and writes through strides.
#pragma once

#include "ir/graph.h"
#include "ir/op_def.h"
#include "ops/shared_attrs.h"

namespace tessera::cpu {

/// `dot_general` followed by `transpose`, as one op of this engine alone.
struct TransposedProduct {
  Dims lhs_contracting, rhs_contracting, lhs_batch, rhs_batch;
  std::optional<DType> preferred;
  Precision precision = Precision::Default;
  Dims permutation;
  ops::DotGeneral product() const {
    return {lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, preferred, precision};
  }
  static constexpr auto fields = std::tuple{ir::field("lhs_contracting", &TransposedProduct::lhs_contracting),
                                            ir::field("rhs_contracting", &TransposedProduct::rhs_contracting),
                                            ir::field("lhs_batch", &TransposedProduct::lhs_batch),
                                            ir::field("rhs_batch", &TransposedProduct::rhs_batch),
                                            ir::field("preferred", &TransposedProduct::preferred),
                                            ir::field("precision", &TransposedProduct::precision),
                                            ir::field("permutation", &TransposedProduct::permutation)};
};
const ir::OpDef& transposed_product();

/// The same program with transpositions taken into the products that read or make them, as far as dimensions stay in
/// the order that products give them.
ir::GraphPtr fold_transposes(const ir::GraphPtr& graph);

}  // namespace tessera::cpu
