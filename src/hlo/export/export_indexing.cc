// SPDX-License-Identifier: Apache-2.0
// Picking and writing at computed places.
#include <cmath>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/ops.h"
#include "ops/shape/indexing_ops.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

// Dimension numbers without the lists that are empty, as MLIR prints them.
class Numbers {
 public:
  void add(const char* name, const Dims& d) {
    if (!d.empty()) parts_.push_back(str(name, " = [", join(d), "]"));
  }
  void add(const char* name, std::int64_t v) {
    if (v != 0) parts_.push_back(str(name, " = ", v));
  }
  std::string text() const { return join(parts_); }

 private:
  std::vector<std::string> parts_;
};

// By index vector: whether its window lies wholly inside.
Text inside(Writer& w, const Text& indices, const Dims& dims, const Shape& operand, const Dims& sizes) {
  Text wide_indices = w.convert(indices, DType::I64);
  std::vector<std::int64_t> last;
  for (auto d : dims) last.push_back(operand[static_cast<std::size_t>(d)] - sizes[static_cast<std::size_t>(d)]);
  const Shape& shape = indices.type.shape;
  std::int64_t at = static_cast<std::int64_t>(shape.size()) - 1;
  Text limit = w.broadcast(w.constant(HostArray::from(last)), shape, {at});
  Text low = w.compare(wide_indices, w.constant(0, DType::I64, shape), "GE");
  Text high = w.compare(wide_indices, limit, "LE");
  Text both = w.op("stablehlo.and", {low, high}, low.type);
  Type out{DType::Bool, Shape(shape.begin(), shape.end() - 1), false};
  return w.reduce({both}, {out}, {at}, "and")[0];
}
Text fill_value(Writer& w, const ops::Gather& p, DType t) {
  if (p.fill) return w.constant(*p.fill, t);
  if (is_complex(t)) {
    Text real = w.constant(std::nan(""), real_dtype(t)), imag = w.constant(0, real_dtype(t));
    return w.op("stablehlo.complex", {real, imag}, {t, {}, false});
  }
  if (is_inexact(t)) return w.constant(std::nan(""), t);
  return w.identity(is_signed_int(t) ? "maximum" : "minimum", t);  // the least signed, the greatest unsigned number
}
Texts gather(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Gather>(e.attrs);
  Numbers n;
  n.add("offset_dims", p.offset_dims);
  n.add("collapsed_slice_dims", p.collapsed_slice_dims);
  n.add("operand_batching_dims", p.operand_batching_dims);
  n.add("start_indices_batching_dims", p.indices_batching_dims);
  n.add("start_index_map", p.start_index_map);
  n.add("index_vector_dim", static_cast<std::int64_t>(in[1].type.shape.size()) - 1);
  Text v = w.generic("stablehlo.gather", in, out[0],
                     str("dimension_numbers = #stablehlo.gather<", n.text(),
                         ">, indices_are_sorted = false, slice_sizes = ", array_text(p.slice_sizes)));
  if (p.mode != ops::IndexMode::FillOrDrop) return {v};
  Text ok = inside(w, in[1], p.start_index_map, in[0].type.shape, p.slice_sizes);
  ops::WindowMap map(p, in[0].type.shape, in[1].type.shape, out[0].shape);
  Text mask = w.broadcast(ok, out[0].shape, map.batch_of_window);
  return {w.select(mask, v, w.wide(fill_value(w, p, out[0].dtype), out[0].shape))};
}

Texts scatter_by(Writer& w, const Eqn& e, const Texts& in, const Types& out, const std::string& how) {
  const auto& p = ir::get<ops::Scatter>(e.attrs);
  Text indices = in[1];
  if (p.mode == ops::IndexMode::Clip) {  // windows are moved inside
    ops::WindowMap map(p, in[0].type.shape, in[1].type.shape, in[2].type.shape);
    std::vector<std::int64_t> last;
    for (auto d : p.scatter_dims_to_operand_dims) {
      last.push_back(in[0].type.shape[static_cast<std::size_t>(d)] - map.sizes[static_cast<std::size_t>(d)]);
    }
    indices = w.convert(indices, DType::I64);
    const Shape& shape = indices.type.shape;
    Text limit = w.broadcast(w.constant(HostArray::from(last)), shape, {static_cast<std::int64_t>(shape.size()) - 1});
    indices = w.op("stablehlo.clamp", {w.constant(0, DType::I64, shape), indices, limit}, indices.type);
  }
  Type number{out[0].dtype, {}, false};
  std::string region = how.empty() ? w.region({number, number}, [](const Texts& a) { return Texts{a[1]}; })
                                   : w.reducer(how, out[0].dtype);
  Numbers n;
  n.add("update_window_dims", p.update_window_dims);
  n.add("inserted_window_dims", p.inserted_window_dims);
  n.add("input_batching_dims", p.operand_batching_dims);
  n.add("scatter_indices_batching_dims", p.indices_batching_dims);
  n.add("scatter_dims_to_operand_dims", p.scatter_dims_to_operand_dims);
  n.add("index_vector_dim", static_cast<std::int64_t>(in[1].type.shape.size()) - 1);
  return w.generic("stablehlo.scatter", {in[0], indices, in[2]}, out,
                   str("indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<", n.text(),
                       ">, unique_indices = ", p.unique_indices ? "true" : "false"),
                   region);
}
Texts scatter(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return scatter_by(w, e, in, out, ""); }
Texts scatter_add(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return scatter_by(w, e, in, out, is_bool(out[0].dtype) ? "or" : "add");
}
Texts scatter_mul(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return scatter_by(w, e, in, out, is_bool(out[0].dtype) ? "and" : "multiply");
}
Texts scatter_min(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return scatter_by(w, e, in, out, "minimum");
}
Texts scatter_max(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return scatter_by(w, e, in, out, "maximum");
}
}  // namespace

void add_indexing_writers(WriterTable& t) {
  t[&def::gather] = gather;
  t[&def::scatter] = scatter;
  t[&def::scatter_add] = scatter_add;
  t[&def::scatter_mul] = scatter_mul;
  t[&def::scatter_min] = scatter_min;
  t[&def::scatter_max] = scatter_max;
}

}  // namespace tessera::hlo
