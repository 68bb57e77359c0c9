// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/engine_products.h"

#include <numeric>
#include <utility>

#include "core/strided_copy.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/transform/interpret.h"

namespace tessera::cpu {

namespace {

using ir::Never;
using ir::Types;
using ir::TypeSpan;
using ir::View;
using ir::ViewSpan;

constexpr const char* kEngineOnly = "an op of the engine, made after all transformations";

Types infer_product(TypeSpan in, const TransposedProduct& p) {
  Types operands(in.begin(), in.end());
  for (std::size_t side : {0U, 1U}) {
    if (const Dims& s = p.section(side); !s.empty()) operands[side].shape.erase(operands[side].shape.begin() + s[0]);
  }
  Types plain = ops::def::dot_general.infer(operands, ir::make_attrs(p.product()));
  return ops::def::transpose.infer(plain, ir::make_attrs(ops::Transpose{p.permutation}));
}

// One section of an array along a dimension, to or from an array of its own.
void copy_section(const View& whole, std::int64_t dim, std::int64_t index, const View& section, bool out) {
  const std::int64_t size = dtype_size(whole.dtype);
  Dims strides = core::contiguous_strides(whole.shape, size);
  char* from = static_cast<char*>(whole.data) + index * strides[at(dim)];
  strides.erase(strides.begin() + dim);
  const Dims own = core::contiguous_strides(section.shape, size);
  if (out) {
    core::copy_strided(section.data, own, from, strides, section.shape, size);
  } else {
    core::copy_strided(from, strides, section.data, own, section.shape, size);
  }
}

void product_reference(ViewSpan in, ViewSpan out, const TransposedProduct& p) {
  std::vector<View> operands(in.begin(), in.end());
  std::vector<HostArray> memory;
  memory.reserve(3);
  for (std::size_t side : {0U, 1U}) {
    const Dims& s = p.section(side);
    if (s.empty()) continue;
    Shape shape = in[side].shape;
    shape.erase(shape.begin() + s[0]);
    operands[side] = ops::view_of(memory.emplace_back(in[side].dtype, shape));
    copy_section(in[side], s[0], s[1], operands[side], true);
  }
  Types types;
  for (const auto& v : operands) types.push_back({v.dtype, v.shape});
  Types plain = ops::def::dot_general.infer(types, ir::make_attrs(p.product()));
  std::vector<View> product{ops::view_of(memory.emplace_back(plain[0].dtype, plain[0].shape))};
  ops::def::dot_general.reference(operands, product, ir::make_attrs(p.product()));
  ops::def::transpose.reference(product, out, ir::make_attrs(ops::Transpose{p.permutation}));
}

Types infer_joined(TypeSpan in, const JoinedProducts& p) {
  Types out;
  for (std::size_t k = 0; k < p.count(); ++k) {
    out = infer_product(in.subspan(2 * k, 2), p.product(k));
  }
  out[0].shape.insert(out[0].shape.begin() + p.dimension, static_cast<std::int64_t>(p.count()));
  return out;
}

void joined_reference(ViewSpan in, ViewSpan out, const JoinedProducts& p) {
  Shape shape = out[0].shape;
  shape.erase(shape.begin() + p.dimension);
  HostArray memory(out[0].dtype, shape);
  const std::vector<View> product{ops::view_of(memory)};
  for (std::size_t k = 0; k < p.count(); ++k) {
    product_reference(in.subspan(2 * k, 2), product, p.product(k));
    copy_section(out[0], p.dimension, static_cast<std::int64_t>(k), product[0], false);
  }
}

}  // namespace

const ir::OpDef& transposed_product() {
  static const auto& op = *new ir::Op<TransposedProduct>{ir::OpSpec<TransposedProduct>{
      .name = "dot_general_transposed",
      .infer = infer_product,
      .factors = Never{kEngineOnly},
      .remap = ir::by_default,
      .batch = Never{kEngineOnly},
      .jvp = Never{kEngineOnly},
      .transpose = Never{kEngineOnly},
      .reference = product_reference,
      .samples = Never{kEngineOnly},
  }};
  return op;
}

const ir::OpDef& joined_products() {
  static const auto& op = *new ir::Op<JoinedProducts>{ir::OpSpec<JoinedProducts>{
      .name = "dot_general_joined",
      .infer = infer_joined,
      .factors = Never{kEngineOnly},
      .remap = ir::by_default,
      .batch = Never{kEngineOnly},
      .jvp = Never{kEngineOnly},
      .transpose = Never{kEngineOnly},
      .reference = joined_reference,
      .samples = Never{kEngineOnly},
  }};
  return op;
}

void JoinedProducts::add(const TransposedProduct& p) {
  lhs_contracting.push_back(p.lhs_contracting);
  rhs_contracting.push_back(p.rhs_contracting);
  lhs_batch.push_back(p.lhs_batch);
  rhs_batch.push_back(p.rhs_batch);
  permutation.push_back(p.permutation);
  lhs_section.push_back(p.lhs_section);
  rhs_section.push_back(p.rhs_section);
  preferred = p.preferred;
  precision = p.precision;
}

TransposedProduct JoinedProducts::product(std::size_t k) const {
  return {lhs_contracting[k], rhs_contracting[k], lhs_batch[k],   rhs_batch[k],  preferred,
          precision,          permutation[k],     lhs_section[k], rhs_section[k]};
}

TransposedProduct plain_product(const ops::DotGeneral& p, std::int64_t rank) {
  Dims permutation(at(rank));
  std::iota(permutation.begin(), permutation.end(), 0);
  return {p.lhs_contracting, p.rhs_contracting, p.lhs_batch, p.rhs_batch, p.preferred,
          p.precision,       permutation,       {},          {}};
}

std::optional<TransposedProduct> product_of(const ir::Graph& g, const ir::Eqn& e) {
  if (e.op == &transposed_product()) return ir::get<TransposedProduct>(e.attrs);
  if (e.op != &ops::def::dot_general) return std::nullopt;
  return plain_product(ir::get<ops::DotGeneral>(e.attrs), g.type(e.out[0]).rank());
}

}  // namespace tessera::cpu
