// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/strings.h"
#include "hlo/export.h"
#include "ops/attrs.h"
#include "ops/conv.h"
#include "ops/indexing.h"
#include "ops/interpret.h"
#include "ops/linalg.h"
#include "ops/ops.h"
#include "ops/sorting.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

std::string list(const char* name, const Dims& d) {
  return d.empty() ? str(name, " = array<i64>") : str(name, " = array<i64: ", join(d), ">");
}
std::string number(const char* name, std::int64_t v) { return str(name, " = ", v, " : i64"); }
std::string field(const char* name, const Dims& d) { return str(name, " = [", join(d), "]"); }

Texts constant(Writer& w, const Eqn& e, const Texts&, const Types&) {
  return {w.constant(ops::interpret(*e.op, {}, e.attrs)[0])};
}
Texts iota(Writer& w, const Eqn& e, const Texts&, const Types& out) {
  const auto& p = ir::get<ops::Iota>(e.attrs);
  Text v = w.op("stablehlo.iota", {}, out[0], number("iota_dimension", p.dimension));
  if (p.start == 0) return {v};
  return {w.op("stablehlo.add", {v, w.constant(static_cast<double>(p.start), out[0].dtype, out[0].shape)}, out[0])};
}
Texts broadcast_in_dim(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return {w.broadcast(in[0], out[0].shape, ir::get<ops::BroadcastInDim>(e.attrs).dims)};
}
Texts reshape(Writer& w, const Eqn&, const Texts& in, const Types& out) { return {w.reshape(in[0], out[0].shape)}; }
Texts transpose(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return {w.op("stablehlo.transpose", in, out[0], list("permutation", ir::get<ops::Transpose>(e.attrs).permutation))};
}
Texts pad(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Pad>(e.attrs);
  Dims interior = p.interior.empty() ? Dims(p.low.size(), 0) : p.interior;
  return {w.op("stablehlo.pad", in, out[0],
               str(list("edge_padding_low", p.low), ", ", list("edge_padding_high", p.high), ", ",
                   list("interior_padding", interior)))};
}
Texts slice(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::StaticSlice>(e.attrs);
  Dims strides = p.strides.empty() ? Dims(p.starts.size(), 1) : p.strides;
  return {w.op(
      "stablehlo.slice", in, out[0],
      str(list("start_indices", p.starts), ", ", list("limit_indices", p.limits), ", ", list("strides", strides)))};
}
Texts rev(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return {w.op("stablehlo.reverse", in, out[0], list("dimensions", ir::get<ops::Rev>(e.attrs).dimensions))};
}
Texts concatenate(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return {w.op("stablehlo.concatenate", in, out[0], number("dimension", ir::get<ops::Concatenate>(e.attrs).dimension))};
}
Texts dynamic_slice(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return {w.op("stablehlo.dynamic_slice", in, out[0], list("slice_sizes", ir::get<ops::DynamicSlice>(e.attrs).sizes))};
}
Texts dynamic_update_slice(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  return {w.op("stablehlo.dynamic_update_slice", in, out[0])};
}

// --- products
// ---------------------------------------------------------------------------------------------------------

std::string precision(const std::string& p) {
  std::string word = p == "highest" ? "HIGHEST" : p == "high" ? "HIGH" : "DEFAULT";
  return str("precision_config = [#stablehlo<precision ", word, ">, #stablehlo<precision ", word, ">]");
}
Texts dot_general(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::DotGeneral>(e.attrs);
  return {w.op(
      "stablehlo.dot_general", in, out[0],
      str("dot_dimension_numbers = #stablehlo.dot<", field("lhs_batching_dimensions", p.lhs_batch), ", ",
          field("rhs_batching_dimensions", p.rhs_batch), ", ", field("lhs_contracting_dimensions", p.lhs_contracting),
          ", ", field("rhs_contracting_dimensions", p.rhs_contracting), ">, ", precision(p.precision)))};
}
std::string layout(const Dims& spec, char first, char second) {
  std::vector<std::string> out(spec.size());
  for (std::size_t i = 0; i < spec.size(); ++i) {
    out[static_cast<std::size_t>(spec[i])] = i == 0   ? std::string(1, first)
                                             : i == 1 ? std::string(1, second)
                                                      : std::to_string(i - 2);
  }
  return str("[", join(out), "]");
}
std::string pairs(const Dims& low, const Dims& high) {
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < low.size(); ++i) rows.push_back(str("[", low[i], ", ", high[i], "]"));
  return str("padding = dense<[", join(rows), "]> : tensor<", low.size(), "x2xi64>");
}
Texts conv(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Conv>(e.attrs);
  std::string numbers =
      str(layout(p.lhs_spec, 'b', 'f'), "x", layout(p.rhs_spec, 'o', 'i'), "->", layout(p.out_spec, 'b', 'f'));
  std::string text = str("dimension_numbers = #stablehlo.conv<", numbers, ">, ", list("window_strides", p.strides),
                         ", ", list("lhs_dilation", p.lhs_dilation), ", ", list("rhs_dilation", p.rhs_dilation), ", ",
                         number("feature_group_count", p.feature_groups), ", ",
                         number("batch_group_count", p.batch_groups), ", ", precision(p.precision));
  if (!p.pad_low.empty()) text += str(", ", pairs(p.pad_low, p.pad_high));
  return {w.op("stablehlo.convolution", in, out[0], text)};
}

// --- picking and writing
// ------------------------------------------------------------------------------------------------

// 1 where a window lies wholly inside: [leading dimensions of the indices].
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
  Text yes = w.constant(HostArray::scalar(true));
  Type out{DType::Bool, Shape(shape.begin(), shape.end() - 1), false};
  return w.ops("stablehlo.reduce", {both, yes}, {out}, str("dimensions = array<i64: ", at, ">"),
               w.reducer("and", DType::Bool))[0];
}
double fill_value(const ops::Gather& p, DType t) {
  if (p.fill) return *p.fill;
  if (is_inexact(t)) return std::nan("");
  if (is_bool(t)) return 1;
  int bits = static_cast<int>(dtype_size(t)) * 8;
  return is_signed_int(t) ? -std::ldexp(1.0, bits - 1) : std::ldexp(1.0, bits) - 1;
}
Texts gather(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Gather>(e.attrs);
  auto last = static_cast<std::int64_t>(in[1].type.shape.size()) - 1;
  Text v = w.op("stablehlo.gather", in, out[0],
                str("dimension_numbers = #stablehlo.gather<", field("offset_dims", p.offset_dims), ", ",
                    field("collapsed_slice_dims", p.collapsed_slice_dims), ", ",
                    field("operand_batching_dims", p.operand_batching_dims), ", ",
                    field("start_indices_batching_dims", p.indices_batching_dims), ", ",
                    field("start_index_map", p.start_index_map), ", index_vector_dim = ", last, ">, ",
                    list("slice_sizes", p.slice_sizes), ", indices_are_sorted = false"));
  if (p.mode != ops::IndexMode::FillOrDrop) return {v};
  Text ok = inside(w, in[1], p.start_index_map, in[0].type.shape, p.slice_sizes);
  ops::WindowMap map(p, in[0].type.shape, in[1].type.shape, out[0].shape);
  Text mask = w.broadcast(ok, out[0].shape, map.batch_of_window);
  Text fill = w.constant(fill_value(p, out[0].dtype), out[0].dtype, out[0].shape);
  return {w.op("stablehlo.select", {mask, v, fill}, out[0])};
}

Texts scatter_by(Writer& w, const Eqn& e, const Texts& in, const Types& out, const std::string& how) {
  const auto& p = ir::get<ops::Scatter>(e.attrs);
  Text indices = in[1];
  if (p.mode != ops::IndexMode::FillOrDrop) {  // windows are moved inside
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
  auto last = static_cast<std::int64_t>(in[1].type.shape.size()) - 1;
  Type number{out[0].dtype, {}, false};
  std::string region = how.empty() ? w.region({number, number}, [](const Texts& a) { return Texts{a[1]}; })
                                   : w.reducer(how, out[0].dtype);
  return w.ops("stablehlo.scatter", {in[0], indices, in[2]}, out,
               str("scatter_dimension_numbers = #stablehlo.scatter<", field("update_window_dims", p.update_window_dims),
                   ", ", field("inserted_window_dims", p.inserted_window_dims), ", ",
                   field("input_batching_dims", p.operand_batching_dims), ", ",
                   field("scatter_indices_batching_dims", p.indices_batching_dims), ", ",
                   field("scatter_dims_to_operand_dims", p.scatter_dims_to_operand_dims), ", index_vector_dim = ", last,
                   ">, indices_are_sorted = false, unique_indices = ", p.unique_indices ? "true" : "false"),
               region);
}
Texts scatter(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return scatter_by(w, e, in, out, ""); }
Texts scatter_add(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return scatter_by(w, e, in, out, "add");
}
Texts scatter_mul(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return scatter_by(w, e, in, out, "multiply");
}
Texts scatter_min(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return scatter_by(w, e, in, out, "minimum");
}
Texts scatter_max(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return scatter_by(w, e, in, out, "maximum");
}

// --- linear algebra
// -----------------------------------------------------------------------------------------------------

Texts fft(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Fft>(e.attrs);
  static constexpr const char* names[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  return {w.op(
      "stablehlo.fft", in, out[0],
      str("fft_type = #stablehlo<fft_type ", names[static_cast<int>(p.type)], ">, ", list("fft_length", p.lengths)))};
}
Texts triangular_solve(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::TriangularSolve>(e.attrs);
  const char* how = !p.transpose_a ? "NO_TRANSPOSE" : p.conjugate_a ? "ADJOINT" : "TRANSPOSE";
  return {w.op("stablehlo.triangular_solve", in, out[0],
               str("left_side = ", p.left ? "true" : "false", ", lower = ", p.lower ? "true" : "false",
                   ", unit_diagonal = ", p.unit_diagonal ? "true" : "false", ", transpose_a = #stablehlo<transpose ",
                   how, ">"))};
}
Texts cholesky(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  return {w.op("stablehlo.cholesky", in, out[0], "lower = true")};
}
}  // namespace

void add_shape_writers(WriterTable& t) {
  t[&def::constant] = constant;
  t[&def::iota] = iota;
  t[&def::broadcast_in_dim] = broadcast_in_dim;
  t[&def::reshape] = reshape;
  t[&def::transpose] = transpose;
  t[&def::pad] = pad;
  t[&def::slice] = slice;
  t[&def::rev] = rev;
  t[&def::concatenate] = concatenate;
  t[&def::dynamic_slice] = dynamic_slice;
  t[&def::dynamic_update_slice] = dynamic_update_slice;
  t[&def::dot_general] = dot_general;
  t[&def::conv_general_dilated] = conv;
  t[&def::gather] = gather;
  t[&def::scatter] = scatter;
  t[&def::scatter_add] = scatter_add;
  t[&def::scatter_mul] = scatter_mul;
  t[&def::scatter_min] = scatter_min;
  t[&def::scatter_max] = scatter_max;
  t[&def::fft] = fft;
  t[&def::triangular_solve] = triangular_solve;
  t[&def::cholesky] = cholesky;
}

}  // namespace tessera::hlo
