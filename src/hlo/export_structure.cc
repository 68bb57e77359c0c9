// SPDX-License-Identifier: Apache-2.0
// Reductions, order, control flow, calls, random bits, constraints.
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "hlo/export.h"
#include "ops/attrs.h"
#include "ops/ops.h"
#include "ops/random.h"
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

// The number that changes nothing.
Text identity(Writer& w, const std::string& how, DType t) {
  double inf = std::numeric_limits<double>::infinity();
  if (how == "add" || how == "or" || how == "xor") return w.constant(0, t);
  if (how == "multiply") return w.constant(1, t);
  bool largest = how == "maximum";
  if (how == "and") return is_bool(t) ? w.constant(1, t) : w.constant(-1, t);
  if (is_bool(t)) return w.constant(largest ? 0 : 1, t);
  if (is_inexact(t)) return w.constant(largest ? -inf : inf, t);
  int bits = static_cast<int>(dtype_size(t)) * 8;
  HostArray extreme(t, {});
  auto* bytes = static_cast<unsigned char*>(extreme.data());  // little-endian: the sign is in the last byte
  bool is_signed = is_signed_int(t);
  unsigned char fill = largest ? 0 : 0xff;
  for (int i = 0; i < bits / 8; ++i) bytes[i] = fill;
  if (is_signed) bytes[bits / 8 - 1] = largest ? 0x80 : 0x7f;
  return w.constant(extreme);
}

Texts reduce_by(Writer& w, const Eqn& e, const Texts& in, const Types& out, std::string how) {
  const Dims& axes = ir::get<ops::Axes>(e.attrs).axes;
  DType t = in[0].type.dtype;
  if (is_bool(t) && how == "add") how = "or";
  if (is_bool(t) && how == "multiply") how = "and";
  return w.ops("stablehlo.reduce", {in[0], identity(w, how, t)}, out, list("dimensions", axes), w.reducer(how, t));
}
#define TESSERA_REDUCE(name, how) \
  Texts name(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return reduce_by(w, e, in, out, how); }
TESSERA_REDUCE(reduce_sum, "add")
TESSERA_REDUCE(reduce_max, "maximum")
TESSERA_REDUCE(reduce_min, "minimum")
TESSERA_REDUCE(reduce_prod, "multiply")
TESSERA_REDUCE(reduce_and, "and")
TESSERA_REDUCE(reduce_or, "or")
TESSERA_REDUCE(reduce_xor, "xor")
#undef TESSERA_REDUCE

// Pairs of a number and its place; NaN is the extreme one, of equal ones the first.
Texts arg_extreme(Writer& w, const Eqn& e, const Texts& in, const Types& out, bool largest) {
  const auto& p = ir::get<ops::ArgReduce>(e.attrs);
  Text x = is_bool(in[0].type.dtype) ? w.convert(in[0], DType::I32) : in[0];
  Type place{p.index_dtype, x.type.shape, false};
  Text places = w.op("stablehlo.iota", {}, place, str("iota_dimension = ", p.axis, " : i64"));
  Type number{x.type.dtype, {}, false}, index{p.index_dtype, {}, false};
  std::string body = w.region({number, index, number, index}, [&](const Texts& a) {
    Type flag{DType::Bool, {}, false};
    auto both = [&](const char* op, const Text& p_, const Text& q) { return w.op(op, {p_, q}, flag); };
    Text better = w.compare(a[0], a[2], largest ? "GT" : "LT");
    if (is_inexact(number.dtype)) better = both("stablehlo.or", better, w.compare(a[0], a[0], "NE"));
    Text same = w.compare(a[0], a[2], "EQ");
    Text earlier = both("stablehlo.and", same, w.compare(a[1], a[3], "LT"));
    Text nan_first = w.compare(a[2], a[2], "NE");  // both NaN: the earlier one
    Text take = both("stablehlo.or", better, earlier);
    if (is_inexact(number.dtype)) {
      Text later_nan = both("stablehlo.and", nan_first, w.compare(a[1], a[3], "GT"));
      take = both("stablehlo.and", take, w.op("stablehlo.not", {later_nan}, flag));
    }
    return Texts{w.op("stablehlo.select", {take, a[0], a[2]}, number),
                 w.op("stablehlo.select", {take, a[1], a[3]}, index)};
  });
  Types results{{x.type.dtype, out[0].shape, false}, out[0]};
  Text start = identity(w, largest ? "maximum" : "minimum", x.type.dtype);
  return {w.ops("stablehlo.reduce", {x, places, start, w.constant(0, p.index_dtype)}, results,
                list("dimensions", {p.axis}), body)[1]};
}
Texts argmax(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return arg_extreme(w, e, in, out, true); }
Texts argmin(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return arg_extreme(w, e, in, out, false); }

std::string window_text(const ops::Window& v) {
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < v.low.size(); ++i) rows.push_back(str("[", v.low[i], ", ", v.high[i], "]"));
  std::string text = str(list("window_dimensions", v.dimensions), ", ", list("window_strides", v.strides));
  if (!v.base_dilation.empty()) text += str(", ", list("base_dilations", v.base_dilation));
  if (!v.window_dilation.empty()) text += str(", ", list("window_dilations", v.window_dilation));
  if (!rows.empty()) text += str(", padding = dense<[", join(rows), "]> : tensor<", rows.size(), "x2xi64>");
  return text;
}
Texts window_by(Writer& w, const ops::Window& v, const Texts& in, const Types& out, const std::string& how) {
  DType t = in[0].type.dtype;
  return w.ops("stablehlo.reduce_window", {in[0], identity(w, how, t)}, out, window_text(v), w.reducer(how, t));
}
Texts reduce_window_sum(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, ir::get<ops::Window>(e.attrs), in, out, "add");
}
Texts reduce_window_max(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, ir::get<ops::Window>(e.attrs), in, out, "maximum");
}
Texts reduce_window_min(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return window_by(w, ir::get<ops::Window>(e.attrs), in, out, "minimum");
}
// A running total is a window that begins before the array.
Texts cumulative(Writer& w, const Eqn& e, const Texts& in, const Types& out, const std::string& how) {
  const auto& p = ir::get<ops::Cumulative>(e.attrs);
  std::size_t rank = out[0].shape.size();
  auto axis = static_cast<std::size_t>(p.axis);
  ops::Window v;
  v.dimensions = v.strides = v.base_dilation = v.window_dilation = Dims(rank, 1);
  v.low = v.high = Dims(rank, 0);
  std::int64_t n = std::max<std::int64_t>(out[0].shape[axis], 1);
  v.dimensions[axis] = n;
  (p.reverse ? v.high : v.low)[axis] = n - 1;
  return window_by(w, v, in, out, how);
}
Texts cumsum(Writer& w, const Eqn& e, const Texts& in, const Types& out) { return cumulative(w, e, in, out, "add"); }
Texts cumprod(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return cumulative(w, e, in, out, "multiply");
}
Texts cummax(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return cumulative(w, e, in, out, "maximum");
}
Texts cummin(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return cumulative(w, e, in, out, "minimum");
}

std::string region_of(Writer& w, const ir::Graph& g) {
  return w.region(g.input_types(), [&](const Texts& a) { return w.inline_graph(g, a); });
}
Texts reduce(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Reduce>(e.attrs);
  return w.ops("stablehlo.reduce", in, out, list("dimensions", p.axes), region_of(w, *p.body));
}
Texts reduce_window(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::ReduceWindow>(e.attrs);
  return w.ops("stablehlo.reduce_window", in, out, window_text(p), region_of(w, *p.body));
}
Texts select_and_scatter_add(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::SelectWindow>(e.attrs);
  DType t = in[0].type.dtype;
  Type number{t, {}, false};
  std::string select =
      w.region({number, number}, [&](const Texts& a) { return Texts{w.compare(a[0], a[1], p.maximum ? "GE" : "LE")}; });
  return w.ops("stablehlo.select_and_scatter", {in[1], in[0], w.constant(0, t)}, out, window_text(p),
               str(select, ", ", w.reducer("add", t)));
}

// --- order
// ------------------------------------------------------------------------------------------------------------

// Zeros and NaNs made equal, as the comparators of JAX do.
Text canonical(Writer& w, const Text& x) {
  if (!is_float(x.type.dtype)) return x;
  Text zero = w.constant(0, x.type.dtype), nan = w.constant(std::nan(""), x.type.dtype);
  Text no_sign = w.op("stablehlo.select", {w.compare(x, zero, "EQ"), zero, x}, x.type);
  return w.op("stablehlo.select", {w.compare(x, x, "NE"), nan, no_sign}, x.type);
}
Text ordered(Writer& w, const Text& x, const Text& y, const char* direction) {
  std::string kind = is_float(x.type.dtype) ? ", compare_type = #stablehlo<comparison_type TOTALORDER>" : "";
  return w.op("stablehlo.compare", {x, y}, {DType::Bool, {}, false},
              str("comparison_direction = #stablehlo<comparison_direction ", direction, ">", kind));
}
Texts sort_by(Writer& w, const Texts& in, const Types& out, std::int64_t dimension, std::int64_t keys, bool stable,
              bool descending) {
  Types args;
  for (const auto& t : in) {
    if (is_complex(t.type.dtype)) throw UnimplementedError("StableHLO text of a sort of complex numbers");
    args.insert(args.end(), 2, {t.type.dtype, {}, false});
  }
  std::string body = w.region(args, [&](const Texts& a) {
    Text less;
    for (std::int64_t k = keys; k-- > 0;) {
      auto i = static_cast<std::size_t>(2 * k);
      Text x = canonical(w, a[i]), y = canonical(w, a[i + 1]);
      Text mine = ordered(w, x, y, descending ? "GT" : "LT");
      if (less.name.empty()) {
        less = mine;
        continue;
      }
      Text rest = w.op("stablehlo.and", {ordered(w, x, y, "EQ"), less}, less.type);
      less = w.op("stablehlo.or", {mine, rest}, less.type);
    }
    return Texts{less};
  });
  return w.ops("stablehlo.sort", in, out,
               str("dimension = ", dimension, " : i64, is_stable = ", stable ? "true" : "false"), body);
}
Texts sort(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Sort>(e.attrs);
  return sort_by(w, in, out, p.dimension, p.num_keys, p.stable, false);
}
Texts top_k(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::TopK>(e.attrs);
  Type places{DType::I32, in[0].type.shape, false};
  Text numbers = w.op("stablehlo.iota", {}, places, str("iota_dimension = ", p.dimension, " : i64"));
  Texts sorted = sort_by(w, {in[0], numbers}, {in[0].type, places}, p.dimension, 1, true, true);
  Texts results;
  std::size_t rank = in[0].type.shape.size();
  for (std::size_t i = 0; i < 2; ++i) {
    results.push_back(w.op("stablehlo.slice", {sorted[i]}, out[i],
                           str(list("start_indices", Dims(rank, 0)), ", ", list("limit_indices", out[i].shape), ", ",
                               list("strides", Dims(rank, 1)))));
  }
  return results;
}

// --- control flow
// -----------------------------------------------------------------------------------------------------

Texts cond(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Cond>(e.attrs);
  Texts operands(in.begin() + 1, in.end());
  auto branch = [&](const ir::GraphPtr& g) {
    return w.region({}, [&](const Texts&) { return w.inline_graph(*g, operands); });
  };
  if (is_bool(in[0].type.dtype)) {
    std::string yes = branch(p.branches[1]), no = branch(p.branches[0]);
    return w.ops("stablehlo.if", {in[0]}, out, "", str(yes, ", ", no));
  }
  std::vector<std::string> texts;
  for (const auto& g : p.branches) texts.push_back(branch(g));
  Text last = w.constant(static_cast<double>(p.branches.size()) - 1, in[0].type.dtype);
  Text which = w.op("stablehlo.clamp", {w.constant(0, in[0].type.dtype), in[0], last}, in[0].type);
  return w.ops("stablehlo.case", {w.convert(which, DType::I32)}, out, "", join(texts));
}

Texts while_loop(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::While>(e.attrs);
  auto c = static_cast<std::ptrdiff_t>(p.cond_consts), b = static_cast<std::ptrdiff_t>(p.body_consts);
  Texts cond_consts(in.begin(), in.begin() + c), body_consts(in.begin() + c, in.begin() + c + b);
  Texts carry(in.begin() + c + b, in.end());
  auto with = [&](const ir::Graph& g, Texts consts) {
    return w.region(out, [&](const Texts& a) {
      consts.insert(consts.end(), a.begin(), a.end());
      return w.inline_graph(g, consts);
    });
  };
  std::string condition = with(*p.cond, cond_consts), body = with(*p.body, body_consts);
  return w.ops("stablehlo.while", carry, out, "", str(condition, ", ", body));
}

// A loop that counts, reads a row of each stacked input and writes one of each stacked output.
class ScanLoop {
 public:
  ScanLoop(Writer& w, const ops::Scan& p, const Texts& in, const Types& out) : w_(w), p_(p), out_(out) {
    auto consts = static_cast<std::ptrdiff_t>(p.num_consts), carry = static_cast<std::ptrdiff_t>(p.num_carry);
    consts_.assign(in.begin(), in.begin() + consts);
    carry_.assign(in.begin() + consts, in.begin() + consts + carry);
    xs_.assign(in.begin() + consts + carry, in.end());
  }
  Texts run() {
    Type counter{DType::I32, {}, false};
    Texts start{w_.constant(0, DType::I32)};
    start.insert(start.end(), carry_.begin(), carry_.end());
    Types types{counter};
    for (const auto& t : out_) types.push_back(t);
    for (std::size_t i = carry_.size(); i < out_.size(); ++i) {
      start.push_back(w_.constant(0, out_[i].dtype, out_[i].shape));
    }
    std::string condition = w_.region(types, [&](const Texts& a) {
      return Texts{w_.compare(a[0], w_.constant(static_cast<double>(p_.length), DType::I32), "LT")};
    });
    std::string body = w_.region(types, [&](const Texts& a) { return step(a); });
    Texts results = w_.ops("stablehlo.while", start, types, "", str(condition, ", ", body));
    results.erase(results.begin());
    return results;
  }

 private:
  Texts starts(const Text& row, std::size_t rank) {
    Texts out{row};
    for (std::size_t d = 1; d < rank; ++d) out.push_back(w_.constant(0, DType::I32));
    return out;
  }
  Texts step(const Texts& a) {
    Text row = a[0];
    if (p_.reverse) {
      Text last = w_.constant(static_cast<double>(p_.length) - 1, DType::I32);
      row = w_.op("stablehlo.subtract", {last, row}, row.type);
    }
    Texts args = consts_;
    args.insert(args.end(), a.begin() + 1, a.begin() + 1 + static_cast<std::ptrdiff_t>(carry_.size()));
    for (const auto& x : xs_) {
      Shape one = x.type.shape;
      one[0] = 1;
      Texts operands{x};
      for (auto& s : starts(row, one.size())) operands.push_back(s);
      Text piece = w_.op("stablehlo.dynamic_slice", operands, {x.type.dtype, one, false}, list("slice_sizes", one));
      args.push_back(w_.reshape(piece, Shape(one.begin() + 1, one.end())));
    }
    Texts results = w_.inline_graph(*p_.body, args);
    Texts out{w_.op("stablehlo.add", {a[0], w_.constant(1, DType::I32)}, a[0].type)};
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i < carry_.size()) {
        out.push_back(results[i]);
        continue;
      }
      Shape one = results[i].type.shape;
      one.insert(one.begin(), 1);
      Texts operands{a[i + 1], w_.reshape(results[i], one)};
      for (auto& s : starts(row, one.size())) operands.push_back(s);
      out.push_back(w_.op("stablehlo.dynamic_update_slice", operands, a[i + 1].type));
    }
    return out;
  }

  Writer& w_;
  const ops::Scan& p_;
  const Types& out_;
  Texts consts_, carry_, xs_;
};
Texts scan(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return ScanLoop(w, ir::get<ops::Scan>(e.attrs), in, out).run();
}

Texts call(Writer& w, const Eqn& e, const Texts& in, const Types&) {
  const auto& p = ir::get<ops::Call>(e.attrs);
  return w.call(*p.body, p.name.empty() ? std::string(e.op->name()) : p.name, in);
}

// --- random numbers: the hash written out
// ------------------------------------------------------------------------------

Text u32(Writer& w, std::uint32_t v, const Shape& shape) {
  return w.constant(static_cast<double>(v), DType::U32, shape);
}
Text two(Writer& w, const char* op, const Text& x, const Text& y) { return w.op(op, {x, y}, x.type); }
Text plus(Writer& w, const Text& x, const Text& y) { return two(w, "stablehlo.add", x, y); }

std::pair<Text, Text> hash(Writer& w, const Text& k0, const Text& k1, Text x0, Text x1) {
  const Shape& shape = x0.type.shape;
  Text k2 = two(w, "stablehlo.xor", two(w, "stablehlo.xor", k0, k1), u32(w, 0x1BD11BDAU, shape));
  const Text keys[] = {k0, k1, k2};
  static constexpr unsigned kTurns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  x0 = plus(w, x0, k0);
  x1 = plus(w, x1, k1);
  for (std::uint32_t i = 0; i < 5; ++i) {
    for (unsigned turn : kTurns[i % 2]) {
      x0 = plus(w, x0, x1);
      Text left = two(w, "stablehlo.shift_left", x1, u32(w, turn, shape));
      Text right = two(w, "stablehlo.shift_right_logical", x1, u32(w, 32 - turn, shape));
      x1 = two(w, "stablehlo.xor", two(w, "stablehlo.or", left, right), x0);
    }
    x0 = plus(w, x0, keys[(i + 1) % 3]);
    x1 = plus(w, plus(w, x1, keys[(i + 2) % 3]), u32(w, i + 1, shape));
  }
  return {x0, x1};
}
Texts threefry(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  Texts x;
  for (const auto& t : in) x.push_back(w.wide(t, out[0].shape));
  auto [a, b] = hash(w, x[0], x[1], x[2], x[3]);
  return {a, b};
}

Texts sharding_constraint(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::ShardingConstraint>(e.attrs);
  SdySharding s;
  s.mesh = w.mesh_for(p);
  const SdyMesh* mesh = nullptr;
  for (const auto& m : w.options().meshes) {
    if (m.name == s.mesh) mesh = &m;
  }
  for (const auto& d : p.dims) {
    SdyDim dim;
    dim.open = d == Dims{-1};
    for (auto a : d) {
      if (a >= 0) dim.axes.push_back({mesh->axes[static_cast<std::size_t>(a)], 1, 0});
    }
    s.dims.push_back(dim);
  }
  return {w.op("sdy.sharding_constraint", in, out[0], str("sharding = #sdy.sharding", to_string(s)))};
}
}  // namespace

void add_structure_writers(WriterTable& t) {
  t[&def::reduce_sum] = reduce_sum;
  t[&def::reduce_max] = reduce_max;
  t[&def::reduce_min] = reduce_min;
  t[&def::reduce_prod] = reduce_prod;
  t[&def::reduce_and] = reduce_and;
  t[&def::reduce_or] = reduce_or;
  t[&def::reduce_xor] = reduce_xor;
  t[&def::argmax] = argmax;
  t[&def::argmin] = argmin;
  t[&def::cumsum] = cumsum;
  t[&def::cumprod] = cumprod;
  t[&def::cummax] = cummax;
  t[&def::cummin] = cummin;
  t[&def::reduce] = reduce;
  t[&def::reduce_window] = reduce_window;
  t[&def::reduce_window_sum] = reduce_window_sum;
  t[&def::reduce_window_max] = reduce_window_max;
  t[&def::reduce_window_min] = reduce_window_min;
  t[&def::select_and_scatter_add] = select_and_scatter_add;
  t[&def::sort] = sort;
  t[&def::top_k] = top_k;
  t[&def::cond] = cond;
  t[&def::while_] = while_loop;
  t[&def::scan] = scan;
  t[&def::checkpoint] = call;
  t[&def::custom_jvp_call] = call;
  t[&def::custom_vjp_call] = call;
  t[&def::threefry2x32] = threefry;
  t[&def::sharding_constraint] = sharding_constraint;
}

}  // namespace tessera::hlo
