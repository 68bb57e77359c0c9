// SPDX-License-Identifier: Apache-2.0
// Reductions, whole and over windows.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/strings.h"
#include "core/integer_range.h"
#include "hlo/import/import.h"
#include "hlo/import/named_reducers.h"
#include "hlo/import/narrow.h"
#include "hlo/sharding/shard_marks.h"
#include "ops/reduce/windows.h"
#include "ops/shared_attrs.h"
#include "ops/transform/interpret.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
// The one number that a start value is, where the text says it.
std::optional<double> known_start(const Item& i) {
  if (!i.known || i.known->size() != 1 || is_complex(i.known->dtype())) return std::nullopt;
  return i.known->astype(DType::F64).span<double>()[0];
}
}  // namespace

bool is_identity(const Item& start, const std::string& name) {
  if (start.known && start.known->size() == 1 && is_complex(start.known->dtype())) {
    auto z = start.known->astype(DType::C128).span<complex128_t>()[0];
    return (name == "add" && z == 0.0) || (name == "multiply" && z == 1.0);
  }
  auto v = known_start(start);
  if (!v) return false;
  DType t = storage(start.elem);
  if (name == "add" || name == "xor") return *v == 0;
  if (name == "multiply") return *v == 1;
  if (is_bool(t)) return name == "and" || name == "minimum" ? *v == 1 : *v == 0;
  if (is_float(t)) {
    double inf = std::numeric_limits<double>::infinity();
    return (name == "maximum" && *v == -inf) || (name == "minimum" && *v == inf);
  }
  if (name == "or") return *v == 0;
  int unused = 64 - static_cast<int>(dtype_size(t)) * 8;
  if (is_unsigned_int(t)) {
    auto n = start.known->astype(DType::U64).span<std::uint64_t>()[0];
    return name == "maximum" ? n == 0 : n == ~std::uint64_t{0} >> unused;
  }
  auto n = start.known->astype(DType::I64).span<std::int64_t>()[0];
  if (name == "and") return n == -1;
  std::int64_t greatest = std::numeric_limits<std::int64_t>::max() >> unused;
  return name == "maximum" ? n == -greatest - 1 : n == greatest;
}

std::string simple_reducer(const AstRegion& r) {
  if (r.args.size() != 2 || r.ops.size() < 2) return "";
  std::string_view result = r.ops.back().operands.size() == 1 ? r.ops.back().operands[0] : std::string_view{};
  // Partly manual programs put constraints on the numbers; they change none.
  std::size_t last = r.ops.size() - 1;
  auto is_mark = [](const AstOp& op) {
    return op.name == "sdy.sharding_constraint" || custom_call_target(op) == "Sharding";
  };
  while (last > 1 && is_mark(r.ops[last - 1]) && r.ops[last - 1].results.size() == 1 &&
         r.ops[last - 1].results[0].name == result && r.ops[last - 1].operands.size() == 1) {
    result = r.ops[--last].operands[0];
  }
  if (last != 1) return "";
  const AstOp& op = r.ops[0];
  if (op.operands.size() != 2 || op.results.size() != 1 || !op.name.starts_with("stablehlo.")) return "";
  if (result != op.results[0].name) return "";
  bool in_order = op.operands[0] == r.args[0].name && op.operands[1] == r.args[1].name;
  bool swapped = op.operands[0] == r.args[1].name && op.operands[1] == r.args[0].name;
  if (!in_order && !swapped) return "";
  std::string name(op.name.substr(10));
  for (const char* known : {"add", "multiply", "maximum", "minimum", "and", "or", "xor"}) {
    if (name == known) return name;
  }
  return "";
}

// The one of a few names that means the same on this dtype.
std::string reducer_for(std::string name, DType t) {
  if (!is_bool(t)) return name;
  if (name == "add" || name == "maximum") return "or";
  if (name == "multiply" || name == "minimum") return "and";
  return name;
}

Value combine(const std::string& name, Value x, Value y) {
  if (name == "add") return ops::add(x, y);
  if (name == "multiply") return ops::mul(x, y);
  if (name == "maximum") return ops::max(x, y);
  if (name == "minimum") return ops::min(x, y);
  if (name == "and") return ops::and_(x, y);
  if (name == "or") return ops::or_(x, y);
  return ops::xor_(x, y);
}

Value reduce_by(const std::string& name, Value x, const Dims& axes) {
  // Whether all indices of a place are in range, where there is one.
  const bool single = std::ranges::all_of(
      axes, [&](auto d) { return d >= 0 && d < x.rank() && x.shape()[static_cast<std::size_t>(d)] == 1; });
  if (single && (name == "and" || name == "or")) return ops::squeeze(x, axes);
  ir::Attrs attrs = ir::make_attrs(ops::Axes{axes});
  if (name == "add") return ops::reduce_sum(x, axes);
  if (name == "multiply") return ops::reduce_prod(x, axes);
  if (name == "maximum") return ops::reduce_max(x, axes);
  if (name == "minimum") return ops::reduce_min(x, axes);
  if (name == "and") return x.builder->add1(ops::def::reduce_and, {x}, attrs);
  if (name == "or") return x.builder->add1(ops::def::reduce_or, {x}, attrs);
  return ops::reduce_xor(x, axes);
}

namespace {

enum class Extreme { Greatest, Least };

bool compares_and_chooses(const ir::Graph& g) {
  static const std::array chooses{&ops::def::lt, &ops::def::le,  &ops::def::gt,   &ops::def::ge,   &ops::def::eq,
                                  &ops::def::ne, &ops::def::or_, &ops::def::and_, &ops::def::not_, &ops::def::select_n};
  return std::ranges::all_of(g.eqns, [&](const ir::Eqn& e) {
    return std::ranges::any_of(chooses, [&](const ir::OpDef* op) { return op == e.op; });
  });
}

struct Trial {
  double number;
  std::int64_t place;
};

bool first_wins(const Trial& a, const Trial& b, Extreme kind) {
  if (std::isnan(a.number) || std::isnan(b.number)) return std::isnan(a.number);
  return kind == Extreme::Greatest ? a.number >= b.number : a.number <= b.number;
}

bool keeps(const ir::Graph& body, Extreme kind, const Trial& a, const Trial& b) {
  auto number = [&](double v, std::size_t input) {
    return HostArray::scalar(v).astype(body.type(body.inputs[input]).dtype);
  };
  std::vector<HostArray> in{number(a.number, 0), number(static_cast<double>(a.place), 1), number(b.number, 2),
                            number(static_cast<double>(b.place), 3)};
  std::vector<HostArray> out = ops::interpret(body, in);
  const Trial& want = first_wins(a, b, kind) ? a : b;
  double got = out[0].astype(DType::F64).span<double>()[0];
  bool same = std::isnan(want.number) ? std::isnan(got) : got == want.number;
  return same && out[1].astype(DType::I64).span<std::int64_t>()[0] == want.place;
}

// Equal places: a start value's beside the first element's.
bool keeps_in_all_trials(const ir::Graph& body, Extreme kind, const std::vector<double>& numbers) {
  constexpr std::array<std::array<std::int64_t, 2>, 2> kPlaces{{{0, 0}, {0, 1}}};
  for (double x : numbers) {
    for (double y : numbers) {
      for (auto [i, k] : kPlaces) {
        if (!keeps(body, kind, {x, i}, {y, k})) return false;
      }
    }
  }
  return true;
}

// The dimension along which `v` counts from 0, or -1.
std::int64_t counts_along(const OpCall& c, Value v) {
  for (const auto& e : c.b().graph().eqns) {
    if (e.out[0] != v.id || e.op != &ops::def::iota) continue;
    const auto& p = ir::get<ops::Iota>(e.attrs);
    return p.start == 0 ? p.dimension : -1;
  }
  return -1;
}

bool is_zero(const Item& i) {
  return i.known && i.known->size() == 1 && i.known->astype(DType::I64).span<std::int64_t>()[0] == 0;
}

// Which extreme of (number, place) pairs `body` keeps, NaN before all numbers and the first place of equal ones, where
// places ascend; empty for any other reducer. The body may compare and choose, and do nothing else: then what it does
// depends on how its numbers compare alone, and a trial of each way in which they can is a proof.
std::optional<Extreme> extreme_with_place(const ir::Graph& body) {
  if (body.inputs.size() != 4 || body.outputs.size() != 2 || !compares_and_chooses(body)) return std::nullopt;
  DType t = body.type(body.inputs[0]).dtype;
  if (is_complex(t) || !is_integer(body.type(body.inputs[1]).dtype)) return std::nullopt;
  std::vector<double> numbers{0, 1};
  if (is_float(t)) numbers.push_back(std::numeric_limits<double>::quiet_NaN());
  for (auto kind : {Extreme::Greatest, Extreme::Least}) {
    if (keeps_in_all_trials(body, kind, numbers)) return kind;
  }
  return std::nullopt;
}

// argmax or argmin in place of a reduction of `c`, where it is one; an empty value for others.
Value place_of_extreme(OpCall& c, const ir::Graph& body, const Dims& axes) {
  if (c.in.size() != 4 || axes.size() != 1) return {};
  Value x = c.v(0);
  Value place = c.v(1);
  std::int64_t extent = x.shape()[static_cast<std::size_t>(axes[0])];
  bool exact_types = !is_narrow_float(c.in[0].elem) && !is_narrow_int(c.in[0].elem) && !is_narrow_int(c.in[1].elem);
  if (!exact_types || extent == 0 || !is_integer(place.dtype()) || extent - 1 > core::largest_integer(place.dtype()))
    return {};
  if (counts_along(c, place) != axes[0] || !is_zero(c.in[3])) return {};
  auto kind = extreme_with_place(body);
  if (!kind) return {};
  bool greatest = *kind == Extreme::Greatest;
  if (!is_identity(c.in[2], greatest ? "maximum" : "minimum")) return {};
  return greatest ? ops::argmax(x, axes[0], place.dtype()) : ops::argmin(x, axes[0], place.dtype());
}

}  // namespace

namespace {
Items results(OpCall& c, const Values& v) {
  Items out;
  for (std::size_t i = 0; i < v.size(); ++i) out.push_back(tensor(c.out(i).elem, round_to(v[i], c.out(i).elem)));
  return out;
}

// Which binary operation the whole reduction is, or "".
std::string named_reducer(OpCall& c) {
  if (c.in.size() != 2) return "";
  std::string name;
  if (c.op.regions.empty()) {
    if (c.op.words.empty()) c.fail("has no reducer");
    name = c.word_of(c.op.words[0]);
    if (!name.starts_with("stablehlo.")) c.fail("unknown reducer");
    name = name.substr(10);
  } else {
    name = simple_reducer(c.region(0));
  }
  return name.empty() ? name : reducer_for(name, c.v(0).dtype());
}

Items reduce(OpCall& c) {
  if (c.in.empty() || c.in.size() % 2 != 0) c.fail("needs one start value an operand");
  Dims axes = c.dims("dimensions");
  std::string name = named_reducer(c);
  if (!name.empty()) {
    if (axes.empty()) return {c.in[0]};  // start values may be left out, as XLA does
    Value out = reduce_by(name, c.v(0), axes);
    if (!is_identity(c.in[1], name)) out = combine(name, out, c.v(1));
    return results(c, {out});
  }
  std::size_t n = c.in.size() / 2;
  if (axes.empty()) return {c.in.begin(), c.in.begin() + static_cast<std::ptrdiff_t>(n)};
  Values all = values_of(c.in);
  ir::ValueSpan span(all);
  GraphPtr body = c.function_of_numbers(c.region(0), "a reducer", 2 * n, n);
  Values out = ops::reduce(span.subspan(0, n), span.subspan(n), body, axes);
  // The extreme element itself is mostly not used; which of two zeros it is, only the reducer tells.
  if (Value place = place_of_extreme(c, *body, axes)) out[1] = place;
  return results(c, out);
}

ops::Window window_of(OpCall& c, std::size_t dims) {
  ops::Window w;
  w.dimensions = c.dims("window_dimensions");
  auto list = [&](const char* name) {
    Dims d = c.dims_or(name, Dims(dims, 1));
    if (d.size() == 1 && dims != 1) d.assign(dims, d[0]);
    return d;
  };
  w.strides = list("window_strides");
  w.base_dilation = list("base_dilations");
  w.window_dilation = list("window_dilations");
  w.low.assign(dims, 0);
  w.high.assign(dims, 0);
  if (const AstAttr* a = c.find("padding")) {
    auto rows = c.table_of(*a);
    if (rows.size() != dims && !(rows.empty() && dims == 0)) c.fail("padding has a wrong number of entries");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].size() != 2) c.fail("padding needs two numbers a dimension");
      w.low[i] = rows[i][0];
      w.high[i] = rows[i][1];
    }
  }
  return w;
}

// The running reduction that the windows are, by an operation with a name; an empty value for others.
Value running_reduction(OpCall& c, const std::string& name, const ops::Window& w) {
  Value x = c.v(0);
  auto along = ops::running_window(x.shape(), w);
  if (!along) return {};
  bool ordered = !is_complex(x.dtype());
  if (name == "add") return ops::cumsum(x, along->axis, along->reverse);
  if (name == "multiply") return ops::cumprod(x, along->axis, along->reverse);
  if (name == "maximum" && ordered) return ops::cummax(x, along->axis, along->reverse);
  if (name == "minimum" && ordered) return ops::cummin(x, along->axis, along->reverse);
  return {};
}

Items reduce_window(OpCall& c) {
  if (c.in.empty() || c.in.size() % 2 != 0) c.fail("needs one start value an operand");
  auto dims = static_cast<std::size_t>(c.v(0).rank());
  ops::Window w = window_of(c, dims);
  std::string name = c.in.size() == 2 ? simple_reducer(c.region(0)) : "";
  DType t = c.v(0).dtype();
  if (!is_bool(t) && !name.empty() && is_identity(c.in[1], name)) {
    if (Value running = running_reduction(c, name, w)) return results(c, {running});
    if (name == "add") return results(c, {ops::reduce_window_sum(c.v(0), w)});
    if (name == "maximum" && !is_complex(t)) return results(c, {ops::reduce_window_max(c.v(0), w)});
    if (name == "minimum" && !is_complex(t)) return results(c, {ops::reduce_window_min(c.v(0), w)});
  }
  std::size_t n = c.in.size() / 2;
  Values all = values_of(c.in);
  ir::ValueSpan span(all);
  return results(c, ops::reduce_window(span.subspan(0, n), span.subspan(n),
                                       c.function_of_numbers(c.region(0), "a reducer", 2 * n, n), w));
}

// "GE" when a region is `compare GE, a, b`.
std::string simple_comparison(OpCall& c, const AstRegion& r) {
  if (r.args.size() != 2 || r.ops.size() != 2 || r.ops[0].name != "stablehlo.compare") return "";
  const AstOp& op = r.ops[0];
  if (op.operands.size() != 2 || op.operands[0] != r.args[0].name || op.operands[1] != r.args[1].name) return "";
  if (!op.words.empty()) return c.word_of(op.words[0]);
  const AstAttr* a = op.find("comparison_direction");
  return a ? c.word_of(*a) : "";
}

// Which element of a window is selected: places travel beside the values, -1 where a window has seen none.
Value selected_places(OpCall& c, const ops::Window& w) {
  Value x = c.v(0);
  GraphPtr select = c.function_of_numbers(c.region(0), "the selection", 2, 1);
  ir::Builder rb;
  ir::Type number{x.dtype(), {}, false}, place{DType::I32, {}, false};
  Value a = rb.input(number), ai = rb.input(place), bv = rb.input(number), bi = rb.input(place);
  Value none = ops::scalar(rb, 0, DType::I32);
  Value keep = rb.inline_graph(*select, Values{a, bv})[0];
  Value first = ops::or_(ops::lt(bi, none), ops::and_(ops::ge(ai, none), keep));
  GraphPtr body = rb.finish_shared(Values{ops::where(first, a, bv), ops::where(first, ai, bi)});
  ir::Builder& b = c.b();
  Value places = ops::reshape(ops::iota(b, DType::I32, {size_of(x.shape())}, 0), x.shape());
  Values starts{ops::scalar(b, 0, x.dtype()), ops::scalar(b, -1, DType::I32)};
  return ops::reduce_window(Values{x, places}, starts, body, w)[1];
}

Items select_and_scatter(OpCall& c) {
  c.check_operands(3);
  auto dims = static_cast<std::size_t>(c.v(0).rank());
  ops::Window w = window_of(c, dims);
  std::string compare = simple_comparison(c, c.region(0));
  std::string scatter = simple_reducer(c.region(1));
  Value x = c.v(0), source = c.v(1), start = c.v(2);
  if ((compare == "GE" || compare == "LE") && scatter == "add" && is_float(x.dtype())) {
    Value out = ops::select_and_scatter_add(source, x, w, compare == "GE");
    if (!is_identity(c.in[2], "add")) out = ops::add(out, start);
    return results(c, {out});
  }
  Value places = selected_places(c, w);
  std::int64_t n = size_of(source.shape());
  Value base = ops::broadcast_to(start, {size_of(x.shape())});
  Value out = scatter_elements(c, c.region(1), base, ops::reshape(places, {n}), ops::reshape(source, {n}));
  return results(c, {ops::reshape(out, x.shape())});
}
}  // namespace

void add_reduce_rules(RuleTable& t) {
  t["stablehlo.reduce"] = reduce;
  t["stablehlo.reduce_window"] = reduce_window;
  t["stablehlo.select_and_scatter"] = select_and_scatter;
}

}  // namespace tessera::hlo
