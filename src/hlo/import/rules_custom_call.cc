// SPDX-License-Identifier: Apache-2.0
// Custom calls that JAX makes on the CPU.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/strings.h"
#include "hlo/host/foreign_functions.h"
#include "hlo/host/host_callbacks.h"
#include "hlo/host/host_kernels.h"
#include "hlo/host/lapack.h"
#include "hlo/import/import.h"
#include "hlo/import/rules_manual.h"
#include "hlo/import/shared_compositions.h"
#include "hlo/text/parse.h"
#include "ops/linalg/linalg_ops.h"
#include "ops/reduce/sorting.h"
#include "ops/shape/sharding_groups.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
std::map<std::string, std::int64_t> config_of(OpCall& c) {
  std::map<std::string, std::int64_t> out;
  for (const char* name : {"mhlo.backend_config", "backend_config"}) {
    const AstAttr* a = c.find(name);
    if (a == nullptr || a->kind != AstAttr::Kind::Dict) continue;
    for (const auto& f : a->fields) out[f.name] = f.value.integer;
  }
  return out;
}
std::int64_t flag_of(const std::map<std::string, std::int64_t>& config, const char* name, std::int64_t otherwise) {
  auto it = config.find(name);
  return it == config.end() ? otherwise : it->second;
}

Value zeros(OpCall& c, std::size_t i) { return ops::zeros(c.b(), {storage(c.out(i).elem), c.out(i).shape, false}); }
Item result(OpCall& c, std::size_t i, Value v) { return tensor(c.out(i).elem, v); }

// Of each matrix, the elements with row >= column (or <=).
Value triangle_mask(OpCall& c, const Shape& shape, bool lower) {
  auto rank = static_cast<std::int64_t>(shape.size());
  Value row = ops::iota(c.b(), DType::I32, shape, rank - 2), column = ops::iota(c.b(), DType::I32, shape, rank - 1);
  return lower ? ops::ge(row, column) : ops::le(row, column);
}
// 1 where a matrix holds a NaN.
Value nan_info(Value x) {
  std::int64_t r = x.rank();
  Value bad = ops::convert(ops::ne(x, x), DType::I32);
  return ops::reduce_max(bad, {r - 2, r - 1});
}

Items potrf(OpCall& c) {
  bool lower = flag_of(config_of(c), "uplo", 'L') == 'L';
  Value a = c.v(0);
  Value factor = lower ? ops::cholesky(a) : ops::conj(swapped(ops::cholesky(ops::conj(swapped(a)))));
  Value out = ops::where(triangle_mask(c, a.shape(), lower), factor, a);
  return {result(c, 0, out), result(c, 1, nan_info(is_complex(factor.dtype()) ? ops::real(factor) : factor))};
}
Items getrf(OpCall& c) {
  Values f = ops::lu(c.v(0));
  Value pivots = ops::add(f[1], ops::scalar(c.b(), 1, f[1].dtype()));
  return {result(c, 0, f[0]), result(c, 1, pivots), result(c, 2, zeros(c, 2))};
}
Items syevd(OpCall& c) {
  Values f = ops::eigh(c.v(0));
  return {result(c, 0, f[0]), result(c, 1, f[1]), result(c, 2, zeros(c, 2))};
}
Items gesdd(OpCall& c) {
  char mode = static_cast<char>(flag_of(config_of(c), "mode", 'S'));
  Values f = ops::svd(c.v(0), mode == 'A', mode != 'N');
  bool vectors = mode != 'N';
  return {c.in[0], result(c, 1, f[0]), result(c, 2, vectors ? f[1] : zeros(c, 2)),
          result(c, 3, vectors ? f[2] : zeros(c, 3)), result(c, 4, zeros(c, 4))};
}
// Other rows and columns than all are the host's.
bool whole_matrix(OpCall& c) {
  std::int64_t n = c.v(0).shape().back();
  return flag_of(config_of(c), "low", 1) == 1 && flag_of(config_of(c), "high", n) == n;
}
Items gehrd(OpCall& c) {
  Values f = c.b().add(ops::def::hessenberg, {c.v(0)});
  return {result(c, 0, f[0]), result(c, 1, f[1]), result(c, 2, zeros(c, 2))};
}
Items trsm(OpCall& c) {
  c.check_operands(2);
  auto config = config_of(c);
  ops::TriangularSolve p;
  p.left = flag_of(config, "side", 'L') == 'L';
  p.lower = flag_of(config, "uplo", 'L') == 'L';
  p.unit_diagonal = flag_of(config, "diag", 'N') == 'U';
  std::int64_t trans = flag_of(config, "trans_x", 'N');
  p.transpose_a = trans != 'N';
  p.conjugate_a = trans == 'C' && is_complex(c.v(0).dtype());
  return c.one(ops::triangular_solve(c.v(0), c.v(1), p));
}

// The call as text, by which it is written again: "lapack_sgees_ffi mode = 86 : ui8".
std::string label_of(OpCall& c, const std::string& routine) {
  DType t = c.v(0).dtype();
  const char* letter = t == DType::F32 ? "s" : t == DType::F64 ? "d" : t == DType::C64 ? "c" : "z";
  std::string name = routine;
  if (is_complex(t) && (routine == "orgqr" || routine == "ormqr")) name = "un" + routine.substr(2);
  if (is_complex(t) && (routine == "sytrd" || routine == "syevd")) name = "he" + routine.substr(2);
  std::vector<std::string> flags;
  for (const auto& [flag, value] : config_of(c)) {
    bool row = flag == "low" || flag == "high";  // the others are letters
    flags.push_back(str(flag, " = ", value, row ? " : i32" : " : ui8"));
  }
  return str("lapack_", letter, name, "_ffi ", join(flags));
}

struct CallTypes {
  ir::Types in, out;
};
CallTypes types_of(OpCall& c) {
  CallTypes t;
  for (const auto& r : c.op.result_types) t.out.push_back({storage(r.elem), r.shape, false});
  if (c.in.empty() || t.out.empty()) c.fail("has no operands or no results");
  for (const auto& v : values_of(c.in)) t.in.push_back({v.dtype(), v.shape(), false});
  return t;
}

Items on_host(OpCall& c, ops::HostFunction function, const std::string& name, std::int64_t batch_dims = 0) {
  ops::Callback p;
  p.batch_dims = batch_dims;
  p.function = ops::host_function(std::move(function), name);
  p.results = types_of(c).out;
  p.vmap_method = "sequential";
  Values out = c.b().add(ops::def::pure_callback, values_of(c.in), ir::make_attrs(p));
  Items items;
  for (std::size_t i = 0; i < out.size(); ++i) items.push_back(result(c, i, out[i]));
  return items;
}

// lapack_<letter><routine>_ffi, or lapack_<letter><routine> of older texts.
Items lapack(OpCall& c, std::string name) {
  name = name.substr(7);
  if (name.ends_with("_ffi")) name = name.substr(0, name.size() - 4);
  std::string routine = name.substr(std::min<std::size_t>(1, name.size()));
  if (routine == "potrf") return potrf(c);
  if (routine == "getrf") return getrf(c);
  if (routine == "heevd") routine = "syevd";
  // Vectors are unique up to a factor, and the triangle that the routine reads decides it.
  if (routine == "syevd" && (flag_of(config_of(c), "uplo", 'L') == 'L' || size_of(c.v(0).shape()) == 0))
    return syevd(c);
  if (routine == "gesdd") return gesdd(c);
  if (routine == "trsm") return trsm(c);
  if (routine == "ungqr") routine = "orgqr";
  if (routine == "unmqr") routine = "ormqr";
  if (routine == "hetrd") routine = "sytrd";
  CallTypes t = types_of(c);
  check_lapack(routine, config_of(c), t.in, t.out);
  if (routine == "gehrd" && whole_matrix(c)) return gehrd(c);
  if (routine == "geqrf") {
    Values out = ops::packed_qr(c.v(0));
    return {result(c, 0, out[0]), result(c, 1, out[1])};
  }
  if (routine == "orgqr") return c.one(c.b().add1(ops::def::householder_product, {c.v(0), c.v(1)}));
  std::int64_t batch_dims = lapack_batch_dims(routine, t.in);
  return on_host(c, lapack_function(routine, c.v(0).dtype(), config_of(c), t.out, batch_dims), label_of(c, routine),
                 batch_dims);
}

// mhlo.topk and TopK: along the last dimension.
Items last_top_k(OpCall& c) {
  std::int64_t k = 0;
  bool largest = true;
  if (const AstAttr* a = c.find("mhlo.attributes")) {
    if (const AstAttr* v = a->find("k")) k = v->integer;
    if (const AstAttr* v = a->find("largest")) largest = v->integer != 0;
  }
  Value x = c.v(0);
  if (x.rank() < 1) c.fail("the operand has no dimensions");
  if (k == 0) k = c.out(0).shape.empty() ? 0 : c.out(0).shape.back();
  if (largest) {
    Values out = ops::top_k(x, k, x.rank() - 1);
    return {result(c, 0, out[0]), result(c, 1, out[1])};
  }
  Value places = ops::iota(c.b(), DType::I32, x.shape(), x.rank() - 1);
  Values out = ops::sort(Values{x, places}, x.rank() - 1, 1, true);
  return {result(c, 0, ops::slice_in_dim(out[0], 0, k, x.rank() - 1)),
          result(c, 1, ops::slice_in_dim(out[1], 0, k, x.rank() - 1))};
}

// Whether the comparator, a function of the module, is GT or LT of its first two arguments.
bool takes_largest(OpCall& c) {
  const AstAttr* called = c.find("called_computations");
  std::string name = called != nullptr && called->items.size() == 1 ? called->items[0].text : "";
  for (const auto& f : c.importer.ast().functions) {
    if (f.name != name || f.body.ops.size() != 2 || f.body.args.size() < 2) continue;
    const AstOp& compare = f.body.ops[0];
    const AstAttr* direction = compare.find("comparison_direction");
    if (direction == nullptr && !compare.words.empty()) direction = compare.words.data();
    bool known = compare.name == "stablehlo.compare" && direction != nullptr && compare.operands.size() == 2 &&
                 compare.operands[0] == f.body.args[0].name && compare.operands[1] == f.body.args[1].name;
    std::string word = known ? c.word_of(*direction) : "";
    if (word == "GT" || word == "LT") return word == "GT";
  }
  throw UnimplementedError(
      str("a comparator @", name, " other than GT or LT of its first two arguments; use chlo.top_k"));
}

// The exact answer is an approximate one, too.
Items approx_top_k(OpCall& c) {
  if (c.in.size() != 4) throw UnimplementedError("ApproxTopK of several operands; use top_k");
  auto config = config_of(c);
  std::int64_t dimension = flag_of(config, "reduction_dim", c.v(0).rank() - 1);
  if (dimension < 0 || dimension >= rank(c.out(0).shape)) c.fail("reduction_dim lies outside the shape");
  // More than top_k where the call leaves the last choice to its caller.
  std::int64_t k = c.out(0).shape[static_cast<std::size_t>(dimension)];
  bool largest = takes_largest(c);
  Values out = ops::top_k(largest ? c.v(0) : ops::neg(c.v(0)), k, dimension);
  Value places = ops::take_along(c.v(1), out[1], dimension);
  return {result(c, 0, largest ? out[0] : ops::neg(out[0])), result(c, 1, places)};
}

constexpr std::string_view kPythonCallback = "xla_ffi_python_cpu_callback";
bool is_python_callback(const std::string& name) {
  return name == kPythonCallback || name == "xla_ffi_partitioned_python_cpu_callback";
}

// By the number that the module's writer gave the function. Tokens order the calls; they are no values.
Items python_callback(OpCall& c, const HostCallbacks& callbacks, bool partitioned) {
  HostCall call;
  std::vector<std::size_t> tensors;
  for (const auto& i : c.in) {
    if (i.kind == AstType::Kind::Tensor) call.in.push_back(i.elem);
  }
  for (std::size_t i = 0; i < c.op.result_types.size(); ++i) {
    const AstType& t = c.out(i);
    if (t.kind != AstType::Kind::Tensor) continue;
    call.results.push_back({storage(t.elem), t.shape, false});
    call.out.push_back(t.elem);
    tensors.push_back(i);
  }
  call.number = flag_of(config_of(c), "index", 0);
  ops::Callback p;
  p.results = call.results;
  p.function = ops::host_function(callbacks(call), str("Python callback ", call.number));
  p.ordered = std::ranges::any_of(c.in, [](const Item& i) { return i.kind == AstType::Kind::Token; });
  bool pure = !c.flag("has_side_effect", false);
  p.partitioned = partitioned && !pure && call.results.empty();
  p.once = !pure && !c.scope.levels() && !p.partitioned;
  p.vmap_method = "sequential";
  Values out = c.b().add(pure ? ops::def::pure_callback : ops::def::io_callback, values_of(c.in), ir::make_attrs(p));
  Items items(c.op.result_types.size());
  for (std::size_t i = 0; i < items.size(); ++i) items[i].kind = c.out(i).kind;
  for (std::size_t k = 0; k < tensors.size(); ++k) items[tensors[k]] = result(c, tensors[k], out[k]);
  return items;
}

// Who has lowered the program for this library gives a number; others mean a function in their own process.
Items inspect_sharding(OpCall& c) {
  c.check_operands(1);
  const AstAttr* config = c.find("backend_config");
  std::string_view text = config == nullptr ? std::string_view() : config->text;
  ops::InspectSharding p;
  if (text.starts_with(ops::kInspectKey) && c.importer.devices() > 1) {
    text.remove_prefix(ops::kInspectKey.size());
    auto read = std::from_chars(text.data(), text.data() + text.size(), p.number);
    if (read.ec != std::errc() || read.ptr != text.data() + text.size()) {
      c.fail(str("the backend_config \"", config->text.substr(0, 80), "\"; expected \"", ops::kInspectKey, "NUMBER\""));
    }
    c.b().add(ops::def::inspect_sharding, {c.v(0)}, ir::make_attrs(p));
  }
  return c.op.result_types.empty() ? Items{} : Items{c.in[0]};
}

[[noreturn]] void refuse_foreign(const std::string& what, const char* why) {
  throw UnimplementedError(str("a call of another library's function: ", what, " ", why));
}

HostArray foreign_numbers(const std::string& name, Elem elem, const std::vector<AstAttr>& list, const Shape& shape) {
  if (is_narrow_int(elem) || is_narrow_float(elem)) {
    refuse_foreign(str("the attribute ", name), "is of an element type that is held in a wider one");
  }
  HostArray out(is_float(storage(elem)) ? DType::F64 : DType::I64, shape);
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (out.dtype() == DType::F64) {
      out.span<double>()[i] = list[i].number;
    } else {
      out.span<std::int64_t>()[i] = list[i].integer;
    }
  }
  return out.astype(storage(elem));
}

// An attribute as XLA's FFI has it: strings, numbers, flat arrays of them, and dictionaries.
ForeignAttribute foreign_attribute(OpCall& c, const std::string& name, const AstAttr& a) {
  using Kind = AstAttr::Kind;
  ForeignAttribute out;
  out.name = name;
  if (a.kind == Kind::String) {
    out.kind = ForeignAttribute::Kind::String;
    out.text = a.text;
  } else if (a.kind == Kind::Dict) {
    out.kind = ForeignAttribute::Kind::Dictionary;
    for (const auto& f : a.fields) out.fields.push_back(foreign_attribute(c, f.name, f.value));
  } else if (a.kind == Kind::Bool) {
    out.elements = HostArray::scalar(a.integer != 0);
  } else if (a.kind == Kind::Int || a.kind == Kind::Float) {
    out.elements = foreign_numbers(name, a.type.elem, {a}, {});
  } else if (a.kind == Kind::Array && a.raw.end == 0) {  // array<…>, not a list of attributes
    out.kind = ForeignAttribute::Kind::Array;
    out.elements = foreign_numbers(name, a.type.elem, a.items, {static_cast<std::int64_t>(a.items.size())});
  } else if (a.kind == Kind::Dense) {
    out.kind = ForeignAttribute::Kind::Array;
    out.elements = c.importer.elements(a);
    if (is_narrow_int(a.type.elem) || is_narrow_float(a.type.elem)) foreign_numbers(name, a.type.elem, {}, {0});
  } else {
    refuse_foreign(str("the attribute ", name), "is neither a number, an array, a string nor a dictionary");
  }
  return out;
}

// "dense<[1, 0]>", from minor to major, for each operand or result; empty where they are row-major.
std::vector<Dims> foreign_layouts(OpCall& c, const char* name, const std::vector<std::size_t>& ranks) {
  std::vector<Dims> out(ranks.size());
  const AstAttr* a = c.find(name);
  if (a == nullptr) return out;
  if (a->items.size() != ranks.size()) c.fail(str(name, " has ", a->items.size(), " entries for ", ranks.size()));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Dims order;
    if (a->items[i].kind == AstAttr::Kind::Dense) {
      HostArray e = c.importer.elements(a->items[i]).astype(DType::I64);
      order.assign(e.span<std::int64_t>().begin(), e.span<std::int64_t>().end());
    }
    Dims sorted = order, row_major(ranks[i]);
    std::ranges::sort(sorted);
    for (std::size_t d = 0; d < ranks[i]; ++d) row_major[ranks[i] - 1 - d] = static_cast<std::int64_t>(d);
    if (!std::equal(sorted.begin(), sorted.end(), row_major.rbegin(), row_major.rend())) {
      c.fail(str(name, " of ", i, ": expected the dimensions of a value of ", ranks[i]));
    }
    if (order != row_major) out[i] = std::move(order);
  }
  return out;
}

// #stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 0, operand_tuple_indices = []>
std::vector<std::pair<std::size_t, std::size_t>> foreign_aliases(OpCall& c) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  const AstAttr* list = c.find("output_operand_aliases");
  if (list == nullptr) return out;
  for (const auto& a : list->items) {
    std::string_view text = c.importer.source().text().substr(a.raw.begin, a.raw.end - a.raw.begin);
    auto after = [&](std::string_view name) -> std::size_t {
      auto at = text.find(name);
      std::size_t n = 0;
      if (at == std::string_view::npos) return n;
      at = text.find_first_not_of(" =[", at + name.size());
      if (at != std::string_view::npos) std::from_chars(text.data() + at, text.data() + text.size(), n);
      return n;
    };
    std::size_t result = after("output_tuple_indices"), operand = after("operand_index");
    if (result >= c.op.result_types.size() || operand >= c.in.size()) c.fail("an alias of no operand or no result");
    out.emplace_back(result, operand);
  }
  return out;
}

// A call of another library's function, where the process knows one of this name. Devices call it for their own shards
// inside manual computations, and elsewhere once for whole values.
std::optional<Items> foreign_call(OpCall& c, const std::string& name) {
  ForeignFunctions functions = foreign_functions();
  if (!functions) return std::nullopt;
  ForeignCall call;
  call.target = name;
  std::vector<std::size_t> in_ranks, out_ranks;
  const char* refused = nullptr;
  auto check_tensor = [&](const AstType::Kind kind, Elem elem) {
    if (kind != AstType::Kind::Tensor) refused = "takes or gives a token";
    if (is_narrow_int(elem) || is_narrow_float(elem)) refused = "has elements of a type that is held in a wider one";
    return kind == AstType::Kind::Tensor;
  };
  for (const auto& item : c.in) {
    in_ranks.push_back(check_tensor(item.kind, item.elem) ? item.value.shape().size() : 0);
  }
  for (const auto& r : c.op.result_types) {
    out_ranks.push_back(check_tensor(r.kind, r.elem) ? r.shape.size() : 0);
    call.results.push_back({storage(r.elem), r.shape, false});
  }
  call.in_layouts = foreign_layouts(c, "operand_layouts", in_ranks);
  call.out_layouts = foreign_layouts(c, "result_layouts", out_ranks);
  call.aliases = foreign_aliases(c);
  for (const char* config : {"mhlo.backend_config", "backend_config"}) {
    const AstAttr* a = c.find(config);
    if (a == nullptr || a->kind != AstAttr::Kind::Dict) continue;
    for (const auto& f : a->fields) call.attributes.push_back(foreign_attribute(c, f.name, f.value));
  }
  ops::HostFunction function = functions(call);
  if (!function) return std::nullopt;
  if (refused != nullptr) refuse_foreign("@" + name, refused);
  ops::Callback p;
  p.results = call.results;
  p.function = ops::host_function(std::move(function), name);
  p.vmap_method = "sequential";
  bool pure = !c.flag("has_side_effect", false);
  p.once = !pure && !c.scope.levels();
  Values out = c.b().add(pure ? ops::def::pure_callback : ops::def::io_callback, values_of(c.in), ir::make_attrs(p));
  Items items;
  for (std::size_t i = 0; i < out.size(); ++i) items.push_back(result(c, i, out[i]));
  return items;
}

bool is_pass_through(const std::string& name) {
  for (const char* known :
       {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "LayoutConstraint",
        "MoveToHost", "MoveToDevice", "PinToDevice", "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier"}) {
    if (name == known) return true;
  }
  return false;
}

Items with_results(OpCall& c) {
  std::string name = c.find("call_target_name") ? c.word("call_target_name") : "";
  if (name.empty() && !c.op.words.empty()) name = c.op.words[0].text;
  if (name.starts_with("lapack_")) return lapack(c, name);
  if (name == "mhlo.topk" || name == "TopK" || name == "stablehlo.topk") return last_top_k(c);
  if (name == "ApproxTopK" || name == "PartialReduce") return approx_top_k(c);
  if (name == "tridiagonal_solve_perturbed_ffi") {
    CallTypes t = types_of(c);
    check_tridiagonal_perturbed(t.in, t.out);
    return on_host(c, tridiagonal_perturbed(), name, c.v(0).rank() - 1);
  }
  if (name == "cpu_csr_sparse_dense_ffi") {
    CallTypes t = types_of(c);
    check_sparse_product(t.in, t.out);
    return on_host(c, sparse_product(), name);
  }
  if (name == "ragged_all_to_all") return ragged_all_to_all(c);
  if (name == "InspectSharding") return inspect_sharding(c);
  if (is_pass_through(name)) {
    c.check_operands(1);
    if (c.op.result_types.empty()) return {};
    if (!(c.in[0].type() == c.out(0))) {
      throw UnimplementedError(str("the custom call @", name, " changes shapes; lower the function with Shardy"));
    }
    Item out = c.in[0];
    if (name == "Sharding" && out.kind == AstType::Kind::Tensor) out.value = marked(c, out.value);
    return {out};
  }
  for (const char* unary : {"mhlo.erf", "mhlo.tan", "mhlo.asin", "mhlo.acos", "mhlo.sinh", "mhlo.cosh", "mhlo.asinh",
                            "mhlo.acosh", "mhlo.atanh", "mhlo.erf_inv"}) {
    if (name == unary) return rules().at(str("chlo.", name.substr(5)))(c);
  }
  if (is_python_callback(name)) {
    if (HostCallbacks callbacks = host_callbacks()) return python_callback(c, callbacks, name != kPythonCallback);
  }
  if (name == "dce_sink") {
    for (const auto& v : values_of(c.in)) c.b().add(ops::def::dce_sink, {v});
    return {};
  }
  if (name == "control_dep") return {};  // when what is computed is the engine's to choose
  if (auto items = foreign_call(c, name)) return *items;
  // What only reports (printing, checks of shapes) changes no value.
  if (name == "shape_assertion") return {};
  if (name.find("callback") != std::string::npos) {
    if (c.op.result_types.empty()) return {};
    throw UnimplementedError(str("the custom call @", name, " runs a Python function; lower the program without it"));
  }
  throw UnimplementedError(str("the custom call @", name, " is not known here"));
}

// Texts that come from XLA's HLO give the results of a call as one tuple.
Items custom_call(OpCall& c) {
  if (c.op.result_types.size() != 1 || c.out(0).kind != AstType::Kind::Tuple) return with_results(c);
  AstOp parts = c.op;
  parts.result_types = c.out(0).parts;
  OpCall call(c.importer, c.scope, parts, c.in);
  Item out;
  out.kind = AstType::Kind::Tuple;
  out.parts = with_results(call);
  return {out};
}
}  // namespace

void add_custom_call_rules(RuleTable& t) { t["stablehlo.custom_call"] = custom_call; }

}  // namespace tessera::hlo
