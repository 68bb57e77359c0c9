// SPDX-License-Identifier: Apache-2.0
// Ops that StableHLO lacks: the writer names them beside their decompositions.
#include "hlo/import/import.h"
#include "ops/elementwise/random_bits.h"
#include "ops/linalg/linalg_ops.h"

namespace tessera::hlo {

namespace {
bool flag(const AstAttr& dict, const char* name) {
  const AstAttr* a = dict.find(name);
  return a != nullptr && a->integer != 0;
}

// The op's results; none when the text does not fit the op.
Values values_of_op(OpCall& c, const std::string& name, const AstAttr& attributes) {
  Values in = values_of(c.in);
  auto is_matrix = [&] { return in.size() == 1 && in[0].rank() >= 2 && is_inexact(in[0].dtype()); };
  auto is_square = [&] { return is_matrix() && in[0].shape().back() == in[0].shape()[in[0].shape().size() - 2]; };
  if (name == "qr" && is_matrix()) return ops::qr(in[0], flag(attributes, "full"));
  if (name == "lu" && is_matrix()) return ops::lu(in[0]);
  if (name == "eigh" && is_square()) return ops::eigh(in[0]);
  if (name == "svd" && is_matrix()) return ops::svd(in[0], flag(attributes, "full"), flag(attributes, "vectors"));
  if (name == "threefry2x32" && in.size() == 4) {
    for (const auto& v : in) {
      if (v.dtype() != DType::U32 || v.shape() != in[0].shape()) return {};
    }
    auto h = ops::threefry2x32(in[0], in[1], in[2], in[3]);
    return {h[0], h[1]};
  }
  for (const auto* op : {&ops::def::bessel_i0e, &ops::def::regularized_incomplete_beta, &ops::def::igamma,
                         &ops::def::igammac, &ops::def::igamma_grad_a, &ops::def::random_gamma_grad}) {
    std::size_t operands = op == &ops::def::bessel_i0e ? 1 : op == &ops::def::regularized_incomplete_beta ? 3 : 2;
    bool fits = name == op->name() && in.size() == operands && is_float(in[0].dtype());
    for (std::size_t i = 1; i < in.size() && fits; ++i) {
      fits = in[i].dtype() == in[0].dtype() && in[i].shape() == in[0].shape();
    }
    if (fits) return c.b().add(*op, in, ir::make_attrs(ir::NoAttrs{}));
  }
  const AstAttr* bits = attributes.find("bits");
  const AstAttr* shape = attributes.find("shape");
  if (name == "random_bits" && bits && shape && in.size() == 1) {
    if (in[0].dtype() != DType::U32 || in[0].rank() < 1 || in[0].shape().back() != 2) return {};
    if (c.out().shape.size() != c.dims_of(*shape).size() + in[0].shape().size() - 1) return {};
    return {ops::random_bits(in[0], bits->integer, c.dims_of(*shape))};
  }
  return {};
}
}  // namespace

std::optional<Items> own_composite(OpCall& c, const std::string& name) {
  static const auto& none = *new AstAttr;
  const AstAttr* attributes = c.find("composite_attributes");
  Values out = values_of_op(c, name, attributes ? *attributes : none);
  if (out.empty() || out.size() != c.op.result_types.size()) return std::nullopt;
  Items items;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const AstType& want = c.out(i);
    if (storage(want.elem) != out[i].dtype() || want.shape != out[i].shape()) return std::nullopt;
    items.push_back(tensor(want.elem, out[i]));
  }
  return items;
}

}  // namespace tessera::hlo
