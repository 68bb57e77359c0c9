// SPDX-License-Identifier: Apache-2.0
// Fourier transforms and decompositions; the latter as the LAPACK calls that XLA's CPU programs make.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/control/calls.h"
#include "ops/linalg/linalg_ops.h"
#include "ops/ops.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

Texts fft(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Fft>(e.attrs);
  static constexpr const char* names[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
  return {w.line(str("stablehlo.fft ", in[0].name, ", type = ", names[static_cast<int>(p.type)], ", length = [",
                     join(p.lengths), "] : ", signature(in, out)),
                 out[0])};
}
Text conjugate(Writer& w, const Text& x) {
  const Type part{real_dtype(x.type.dtype), x.type.shape, false};
  Text imag = w.op("stablehlo.negate", {w.op("stablehlo.imag", {x}, part)}, part);
  return w.op("stablehlo.complex", {w.op("stablehlo.real", {x}, part), imag}, x.type);
}
Texts triangular_solve(Writer& w, const Eqn& e, const Texts& operands, const Types& out) {
  const auto& p = ir::get<ops::TriangularSolve>(e.attrs);
  Texts in = operands;
  // StableHLO knows the adjoint, not the conjugate alone.
  if (p.conjugate_a && !p.transpose_a && is_complex(in[0].type.dtype)) in[0] = conjugate(w, in[0]);
  const char* how = !p.transpose_a ? "NO_TRANSPOSE" : p.conjugate_a ? "ADJOINT" : "TRANSPOSE";
  auto flag = [](bool v) { return v ? "true" : "false"; };
  return {w.generic("stablehlo.triangular_solve", in, out[0],
                    str("left_side = ", flag(p.left), ", lower = ", flag(p.lower),
                        ", transpose_a = #stablehlo<transpose ", how, ">, unit_diagonal = ", flag(p.unit_diagonal)))};
}
Texts cholesky(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  return {w.line(str("stablehlo.cholesky ", in[0].name, ", lower = true : ", tensor_text(out[0])), out[0])};
}

// Matrices lie column by column, batches before them.
std::string layout_text(const Shape& shape, bool matrix) {
  auto rank = static_cast<std::int64_t>(shape.size());
  Dims order;
  if (matrix) order = {rank - 2, rank - 1};
  for (auto d = matrix ? rank - 3 : rank - 1; d >= 0; --d) order.push_back(d);
  if (order.empty()) return "dense<> : tensor<0xindex>";
  return order.size() == 1 ? str("dense<", order[0], "> : tensor<1xindex>")
                           : str("dense<[", join(order), "]> : tensor<", rank, "xindex>");
}
// geqrf, orgqr and ungqr; XLA's loops want a reflector at least.
Texts reflectors_by_xla(Writer& w, const std::string& routine, const Texts& in, const Types& out) {
  const bool factor = routine == "geqrf";
  if ((factor ? out[1] : in[1].type).size() > 0) {
    return w.line(str("stablehlo.custom_call @", factor ? "Qr" : "ProductOfElementaryHouseholderReflectors", "(",
                      names_of(in), ") : ", signature(in, out)),
                  out);
  }
  const Type& t = out[0];
  if (factor) return {in[0], w.constant(0, t.dtype, out[1].shape)};
  const auto rank = static_cast<std::int64_t>(t.shape.size());
  Text row = w.iota(DType::I32, t.shape, rank - 2), column = w.iota(DType::I32, t.shape, rank - 1);
  return {w.select(w.compare(row, column, "EQ"), w.constant(1, t.dtype, t.shape), w.constant(0, t.dtype, t.shape))};
}
// `matrices`: which operands, then results, end in matrices. Result 0 takes the memory of operand 0.
Texts lapack(Writer& w, const std::string& routine, const Texts& in, const Types& out, const std::string& config,
             const std::vector<bool>& matrices) {
  if (w.options().reflectors_by_xla && (routine == "geqrf" || routine == "orgqr" || routine == "ungqr")) {
    return reflectors_by_xla(w, routine, in, out);
  }
  std::size_t batch = in[0].type.shape.size() - 2;
  const char* letter = in[0].type.dtype == DType::F32   ? "s"
                       : in[0].type.dtype == DType::F64 ? "d"
                       : in[0].type.dtype == DType::C64 ? "c"
                                                        : "z";
  std::vector<std::string> from, to;
  for (std::size_t i = 0; i < in.size(); ++i) from.push_back(layout_text(in[i].type.shape, matrices[i]));
  for (std::size_t i = 0; i < out.size(); ++i) to.push_back(layout_text(out[i].shape, matrices[in.size() + i]));
  std::string alias = str("#stablehlo.output_operand_alias<output_tuple_indices = [", out.size() == 1 ? "" : "0",
                          "], operand_index = 0, operand_tuple_indices = []>");
  return w.line(
      str("stablehlo.custom_call @lapack_", letter, routine, "_ffi(", names_of(in),
          ") {backend_config = \"\", mhlo.backend_config = {", config,
          "}, mhlo.frontend_attributes = {num_batch_dims = \"", batch, "\"}, operand_layouts = [", join(from),
          "], output_operand_aliases = [", alias, "], result_layouts = [", join(to), "]} : ", signature(in, out)),
      out);
}
Shape batch_of(const Text& a) { return Shape(a.type.shape.begin(), a.type.shape.end() - 2); }
Shape with(Shape batch, std::initializer_list<std::int64_t> last) {
  batch.insert(batch.end(), last);
  return batch;
}
// x, or NaN where the routine failed.
Text checked(Writer& w, const Text& x, const Text& ok) {
  Dims batch(ok.type.shape.size());
  std::iota(batch.begin(), batch.end(), 0);
  DType part = real_dtype(x.type.dtype);
  Text nan = w.constant(std::nan(""), part);
  if (part != x.type.dtype) nan = w.op("stablehlo.complex", {nan, nan}, {x.type.dtype, {}, false});
  return w.select(w.broadcast(ok, x.type.shape, batch), x, w.wide(nan, x.type.shape));
}
Text succeeded(Writer& w, const Text& info, const char* direction) {
  return w.compare(info, w.constant(0, DType::I32, info.type.shape), direction);
}
// Zeros below the diagonal.
Text upper(Writer& w, const Text& x) {
  auto rank = static_cast<std::int64_t>(x.type.shape.size());
  Text row = w.iota(DType::I32, x.type.shape, rank - 2), column = w.iota(DType::I32, x.type.shape, rank - 1);
  return w.select(w.compare(row, column, "LE"), x, w.constant(0, x.type.dtype, x.type.shape));
}
Text leading(Writer& w, const Text& x, std::int64_t rows, std::int64_t columns) {
  Shape limits = with(batch_of(x), {rows, columns});
  if (limits == x.type.shape) return x;
  return w.slice(x, Dims(limits.size(), 0), limits, Dims(limits.size(), 1));
}

Texts qr(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  bool full = ir::get<ops::Qr>(e.attrs).full;
  return w.composite(e, in, out, [&](const Texts& a) {
    if (ir::get<ops::Qr>(e.attrs).packed) return lapack(w, "geqrf", {a[0]}, out, "", {true, true, false});
    Shape batch = batch_of(a[0]);
    std::int64_t m = a[0].type.shape[batch.size()], n = a[0].type.shape[batch.size() + 1], k = std::min(m, n);
    DType t = a[0].type.dtype;
    Texts f = lapack(w, "geqrf", {a[0]}, {a[0].type, {t, with(batch, {k}), false}}, "", {true, true, false});
    Text reflectors = leading(w, f[0], m, k);
    if (full && m > n) {
      Shape wide = with(batch, {m, m});
      Dims none(wide.size(), 0), high = none;
      high.back() = m - n;
      Text zero = w.constant(0, t);
      reflectors =
          w.line(str("stablehlo.pad ", names_of({f[0], zero}), ", low = [", join(none), "], high = [", join(high),
                     "], interior = [", join(none), "] : ", signature({f[0], zero}, {{t, wide, false}})),
                 {t, wide, false});
    } else if (full) {
      reflectors = leading(w, f[0], m, m);
    }
    const char* routine = is_complex(t) ? "ungqr" : "orgqr";
    Text q = lapack(w, routine, {reflectors, f[1]}, {reflectors.type}, "", {true, false, true})[0];
    return Texts{q, upper(w, full ? f[0] : leading(w, f[0], k, n))};
  });
}

// Rows in the order that the exchanges of the pivots leave.
Text permutation(Writer& w, const Text& pivots, std::int64_t m) {
  Shape batch(pivots.type.shape.begin(), pivots.type.shape.end() - 1);
  auto last = static_cast<std::int64_t>(batch.size());
  Shape rows = with(batch, {m}), one = with(batch, {1});
  Dims all(batch.size());
  std::iota(all.begin(), all.end(), 0);
  Text zero = w.constant(0, DType::I32), numbers = w.iota(DType::I32, rows, last);
  Texts out = w.while_loop(
      {zero, numbers},
      [&](const Texts& a) {
        return w.compare(a[0], w.constant(static_cast<double>(pivots.type.shape.back()), DType::I32), "LT");
      },
      [&](const Texts& a) {
        Texts starts{pivots};
        for (std::size_t d = 0; d < batch.size(); ++d) starts.push_back(w.constant(0, DType::I32));
        starts.push_back(a[0]);
        Type column{DType::I32, one, false};
        Text pivot = w.line(str("stablehlo.dynamic_slice ", names_of(starts), ", sizes = [", join(one),
                                "] : ", signature(starts, {column})),
                            column);
        Text there = w.broadcast(w.reshape(pivot, batch), rows, all);
        Text at_pivot = w.compare(numbers, there, "EQ"), here = w.compare(numbers, w.wide(a[0], rows), "EQ");
        Text none = w.constant(0, DType::I32, rows);
        Type sum{DType::I32, batch, false};
        auto picked = [&](const Text& mask) {
          return w.broadcast(w.reduce({w.select(mask, a[1], none)}, {sum}, {last}, "add")[0], rows, all);
        };
        Text mine = picked(here), other = picked(at_pivot);
        Text next = w.select(here, other, w.select(at_pivot, mine, a[1]));
        return Texts{w.op("stablehlo.add", {a[0], w.constant(1, DType::I32)}, a[0].type), next};
      });
  return out[1];
}
Texts lu(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const Types& types = out;
  return w.composite(e, in, out, [&](const Texts& a) {
    Type info{DType::I32, batch_of(a[0]), false};
    Texts f = lapack(w, "getrf", {a[0]}, {types[0], types[1], info}, "", {true, true, false, false});
    Text pivots = w.op("stablehlo.subtract", {f[1], w.constant(1, DType::I32, types[1].shape)}, types[1]);
    Text order = permutation(w, pivots, types[2].shape.back());
    return Texts{checked(w, f[0], succeeded(w, f[2], "GE")), pivots, order};
  });
}
Texts eigh(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const Types& types = out;
  return w.composite(e, in, out, [&](const Texts& a) {
    Type info{DType::I32, batch_of(a[0]), false};
    const char* routine = is_complex(types[0].dtype) ? "heevd" : "syevd";
    Texts f = lapack(w, routine, {a[0]}, {types[0], types[1], info}, "mode = 86 : ui8, uplo = 76 : ui8",
                     {true, true, false, false});
    Text ok = succeeded(w, f[2], "EQ");
    return Texts{checked(w, f[0], ok), checked(w, f[1], ok)};
  });
}
Texts svd(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  auto p = ir::get<ops::Svd>(e.attrs);
  const Types& types = out;
  return w.composite(e, in, out, [&](const Texts& a) {
    Shape batch = batch_of(a[0]);
    std::int64_t m = a[0].type.shape[batch.size()], n = a[0].type.shape[batch.size() + 1];
    DType t = a[0].type.dtype;
    Type u{t, with(batch, {m, m}), false}, v{t, with(batch, {n, n}), false}, info{DType::I32, batch, false};
    if (p.vectors) {
      u = types[1];
      v = types[2];
    }
    int mode = !p.vectors ? 'N' : p.full ? 'A' : 'S';
    Texts f = lapack(w, "gesdd", {a[0]}, {a[0].type, types[0], u, v, info}, str("mode = ", mode, " : ui8"),
                     {true, true, false, true, true, false});
    Text ok = succeeded(w, f[4], "EQ");
    Texts results{checked(w, f[1], ok)};
    if (p.vectors) {
      results.push_back(checked(w, f[2], ok));
      results.push_back(checked(w, f[3], ok));
    }
    return results;
  });
}
Texts hessenberg(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return w.composite(e, in, out, [&](const Texts& a) {
    std::string config = str("high = ", a[0].type.shape.back(), " : i32, low = 1 : i32");
    Texts f = lapack(w, "gehrd", a, {out[0], out[1], {DType::I32, batch_of(a[0]), false}}, config,
                     {true, true, false, false});
    Text ok = succeeded(w, f[2], "EQ");
    return Texts{checked(w, f[0], ok), checked(w, f[1], ok)};
  });
}
Texts householder_product(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return w.composite(e, in, out, [&](const Texts& a) {
    return lapack(w, is_complex(out[0].dtype) ? "ungqr" : "orgqr", a, out, "", {true, false, true});
  });
}
constexpr const char* kSparseProduct = "cpu_csr_sparse_dense_ffi";

// A function of the process by its number.
Texts host_call(Writer& w, const Eqn& e, std::int64_t number, const Texts& in, const Types& out) {
  std::vector<std::string> from, to;
  for (const auto& x : in) from.push_back(layout_text(x.type.shape, false));
  for (const auto& t : out) to.push_back(layout_text(t.shape, false));
  const bool effect = e.op != &def::pure_callback;
  return w.line(str("stablehlo.custom_call @tessera_host_call(", names_of(in),
                    ") {api_version = 4 : i32, backend_config = {function = ", number,
                    " : i64}, has_side_effect = ", effect ? "true" : "false", ", operand_layouts = [", join(from),
                    "], result_layouts = [", join(to), "]} : ", signature(in, out)),
                out);
}
// A routine of LAPACK or of JAX that was read from a text: its label is the call. Other functions of the host stay
// here.
Texts callback(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Callback>(e.attrs);
  if (w.options().host_call) {
    if (auto number = w.options().host_call(p)) return host_call(w, e, *number, in, out);
  }
  const std::string& label = p.function.label;
  if (!is_known_routine(p)) {
    throw UnimplementedError(str("the op ", e.op->name(), " of \"", label, "\" (", to_string(e.loc),
                                 ") calls a function of this process, which StableHLO text cannot hold"));
  }
  const bool rows = label == kSparseProduct;
  auto space = std::min(label.find(' '), label.size());
  std::string config = label.substr(std::min(space + 1, label.size()));
  std::vector<std::string> from, to;
  std::size_t rank = 0;  // of matrices: nothing has more dimensions
  for (const auto& x : in) rank = std::max(rank, x.type.shape.size());
  auto is_matrix = [&](const Shape& shape) { return !rows && rank >= 2 && shape.size() == rank; };
  for (const auto& x : in) from.push_back(layout_text(x.type.shape, is_matrix(x.type.shape)));
  for (const auto& t : out) to.push_back(layout_text(t.shape, is_matrix(t.shape)));
  return w.line(str("stablehlo.custom_call @", label.substr(0, space), "(", names_of(in),
                    ") {backend_config = \"\", mhlo.backend_config = {", config, "}, operand_layouts = [", join(from),
                    "], result_layouts = [", join(to), "]} : ", signature(in, out)),
                out);
}
Texts dce_sink(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  return w.line(
      str("stablehlo.custom_call @dce_sink(", names_of(in), ") {has_side_effect = true} : ", signature(in, out)), out);
}
}  // namespace

bool is_known_routine(const ops::Callback& call) {
  const std::string& label = call.function.label;
  return label.starts_with("lapack_") || label == kSparseProduct || label == "tridiagonal_solve_perturbed_ffi";
}

void add_linalg_writers(WriterTable& t) {
  t[&def::dce_sink] = dce_sink;
  t[&def::fft] = fft;
  t[&def::triangular_solve] = triangular_solve;
  t[&def::cholesky] = cholesky;
  t[&def::qr] = qr;
  t[&def::lu] = lu;
  t[&def::eigh] = eigh;
  t[&def::svd] = svd;
  t[&def::hessenberg] = hessenberg;
  t[&def::householder_product] = householder_product;
  t[&def::pure_callback] = callback;
  t[&def::io_callback] = callback;
  t[&def::debug_callback] = callback;
}

}  // namespace tessera::hlo
