// SPDX-License-Identifier: Apache-2.0
#include "hlo/import/shared_compositions.h"

#include <utility>

#include "ops/shape/indexing_ops.h"
#include "ops/transform/graph_rules.h"

namespace tessera::hlo {

const std::unordered_map<std::string_view, const ir::OpDef*>& ops_by_stablehlo() {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string_view, const ir::OpDef*>;
    for (const ir::OpDef* op : ops::all()) {
      if (op->traits().stablehlo != nullptr) t->emplace(op->traits().stablehlo, op);
    }
    return t;
  }();
  return *table;
}

ir::Value look_up(ir::Value index, const HostArray& table) {
  ir::Builder& b = *index.builder;
  ir::Value values = ops::constant(b, table);
  ops::Gather p;
  p.collapsed_slice_dims = {0};
  p.start_index_map = {0};
  p.slice_sizes = {1};
  p.mode = ops::IndexMode::Clip;
  ir::Value at = ops::convert(index, DType::I32);
  return ops::gather(values, ops::expand_dims(at, {index.rank()}), p);
}

ir::Value total_order(ir::Value x) {
  DType as = dtype_size(x.dtype()) == 2 ? DType::I16 : dtype_size(x.dtype()) == 4 ? DType::I32 : DType::I64;
  ir::Value bits = ops::bitcast_convert_type(x, as);
  ir::Builder& b = *x.builder;
  double width = static_cast<double>(dtype_size(as) * 8);
  ir::Value sign = ops::shift_right_arithmetic(bits, ops::scalar(b, width - 1, as));
  ir::Value flip = ops::shift_right_logical(sign, ops::scalar(b, 1, as));  // all but the sign where negative
  return ops::xor_(bits, flip);
}

ir::Value swapped(ir::Value x) {
  Dims p;
  for (std::int64_t d = 0; d < x.rank(); ++d) p.push_back(d);
  std::swap(p[p.size() - 1], p[p.size() - 2]);
  return ops::transpose(x, p);
}

ir::Values map_graph(const ir::Graph& g, ir::ValueSpan in) {
  ir::Builder& b = *in[0].builder;
  Shape shape;
  for (const auto& v : in) {
    if (!v.shape().empty()) shape = v.shape();
  }
  if (shape.empty()) return b.inline_graph(g, in);
  std::int64_t n = size_of(shape);
  ir::Values flat;
  ops::Flags batched;
  for (const auto& v : in) {
    batched.push_back(!v.shape().empty());
    flat.push_back(v.shape().empty() ? v : ops::reshape(v, {n}));
  }
  ir::Batched out = ops::batch_inline(b, g, flat, batched, n);
  ir::Values results;
  for (std::size_t i = 0; i < out.out.size(); ++i) {
    ir::Value v = out.batched[i] ? out.out[i] : ops::repeat_in_front(out.out[i], n);
    results.push_back(ops::reshape(v, shape));
  }
  return results;
}

}  // namespace tessera::hlo
