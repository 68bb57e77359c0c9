// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce/sorting.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/define_op.h"
#include "ops/reduce/reduction.h"
#include "ops/shape/dimension_parts.h"
#include "ops/shape/indexing_ops.h"

namespace tessera::ops {

namespace {

// -1, 0, 1 in the total order that puts NaN last.
int compare_float(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return static_cast<int>(std::isnan(x)) - static_cast<int>(std::isnan(y));
  return x < y ? -1 : x > y ? 1 : 0;
}
int compare(const View& v, std::int64_t i, std::int64_t j) {
  switch (wide_kind(v.dtype)) {
    case Wide::Float:
      return compare_float(load_float(v, i), load_float(v, j));
    case Wide::Complex: {
      complexd x = load_complex(v, i);
      complexd y = load_complex(v, j);
      int real = compare_float(x.real(), y.real());
      return real != 0 ? real : compare_float(x.imag(), y.imag());
    }
    case Wide::Uint: {
      auto x = load_uint(v, i);
      auto y = load_uint(v, j);
      return x < y ? -1 : x > y ? 1 : 0;
    }
    default: {
      auto x = load_int(v, i);
      auto y = load_int(v, j);
      return x < y ? -1 : x > y ? 1 : 0;
    }
  }
}

// Calls `body(first element, stride, length)` for each line along `dimension`.
void for_each_line(const Shape& shape, std::int64_t dimension,
                   const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) {
  Dims strides = row_strides(shape);
  Shape lines = shape;
  lines[at(dimension)] = 1;
  for_each_position(lines,
                    [&](const Dims& p) { body(flat(p, strides), strides[at(dimension)], shape[at(dimension)]); });
}

FactorRule line_factors(TypeSpan in, TypeSpan out, std::int64_t dimension) {
  FactorRule r;
  FactorRule::Tensor operand;
  FactorRule::Tensor result;
  for (std::int64_t d = 0; d < in[0].rank(); ++d) {
    auto n = in[0].shape[at(d)];
    int f = r.add(n, d == dimension ? Factor::Kind::Whole : Factor::Kind::Pass);
    operand.push_back({f});
    bool same = d != dimension || out[0].shape[at(d)] == n;
    result.push_back({same ? f : r.add(out[0].shape[at(d)], Factor::Kind::Whole)});
  }
  r.operands.assign(in.size(), operand);
  r.results.assign(out.size(), result);
  return r;
}

Types infer_sort(TypeSpan in, const Sort& p) {
  if (in.empty()) throw ValueError("[sort] no operands; expected at least one");
  check_axes("sort", "dimension", {p.dimension}, in[0].rank());
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i].shape != in[0].shape) {
      bad_operand("sort", i, str("shape ", in[i].shape, "; expected ", in[0].shape, " as operand 0"));
    }
  }
  if (p.num_keys < 1 || p.num_keys > static_cast<std::int64_t>(in.size())) {
    bad_attr("sort", "num_keys", str(p.num_keys, "; expected 1..", in.size(), ", the number of operands"));
  }
  return Types(in.begin(), in.end());
}

// The permutation comes out of the same sort, as one more operand that goes along.
ir::Duals sort_dual(Builder& b, const ir::DualArgs& a, const Sort& p) {
  Values in(a.in.begin(), a.in.end());
  in.push_back(iota(b, DType::I32, a.in[0].shape(), p.dimension));
  ir::Duals d{b.add(def::sort, in, attrs(p)), {}};
  Value places = d.out.back();
  d.out.pop_back();
  for (const auto& t : a.tangents) d.tangents.push_back(t ? take_along(t, places, p.dimension) : Value{});
  return d;
}

void sort_reference(ViewSpan in, ViewSpan out, const Sort& p) {
  for_each_line(in[0].shape, p.dimension, [&](std::int64_t first, std::int64_t stride, std::int64_t length) {
    std::vector<std::int64_t> order(at(length));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
      for (std::size_t key = 0; key < at(p.num_keys); ++key) {
        int c = compare(in[key], first + i * stride, first + j * stride);
        if (c != 0) return c < 0;
      }
      return false;
    });
    for (std::size_t n = 0; n < in.size(); ++n) {
      for (std::int64_t k = 0; k < length; ++k) {
        copy_element(out[n], first + k * stride, in[n], first + order[at(k)] * stride);
      }
    }
  });
}

Types infer_top_k(TypeSpan in, const TopK& p) {
  check_count("top_k", in, 1);
  check_axes("top_k", "dimension", {p.dimension}, in[0].rank());
  if (is_complex(in[0].dtype)) {
    throw TypeError(str("[top_k] operand 0 has dtype ", dtype_name(in[0].dtype), "; expected real numbers"));
  }
  auto n = in[0].shape[at(p.dimension)];
  if (p.k < 0 || p.k > n)
    bad_attr("top_k", "k", str(p.k, "; expected 0..", n, ", the extent of dimension ", p.dimension));
  Shape shape = in[0].shape;
  shape[at(p.dimension)] = p.k;
  return {Type{in[0].dtype, shape, in[0].weak}, Type{DType::I32, shape}};
}

// IEEE 754's total order: a NaN with a sign before everything, one without behind, -0 before 0.
int compare_total(const View& v, std::int64_t i, std::int64_t j) {
  if (wide_kind(v.dtype) != Wide::Float) return compare(v, i, j);
  const double x = load_float(v, i), y = load_float(v, j);
  const auto outside = [](double a) { return !std::isnan(a) ? 0 : std::signbit(a) ? -1 : 1; };
  if (outside(x) != outside(y)) return outside(x) < outside(y) ? -1 : 1;
  if (x != y) return x < y ? -1 : x > y ? 1 : 0;
  return static_cast<int>(std::signbit(y)) - static_cast<int>(std::signbit(x));
}

void top_k_reference(ViewSpan in, ViewSpan out, const TopK& p) {
  Dims to = row_strides(out[0].shape);
  Shape lines = in[0].shape;
  lines[at(p.dimension)] = 1;
  std::vector<std::int64_t> starts;
  for_each_position(lines, [&](const Dims& position) { starts.push_back(flat(position, to)); });
  std::size_t line = 0;
  for_each_line(in[0].shape, p.dimension, [&](std::int64_t first, std::int64_t stride, std::int64_t length) {
    std::vector<std::int64_t> order(at(length));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
      return compare_total(in[0], first + i * stride, first + j * stride) > 0;
    });
    auto start = starts[line++];
    for (std::int64_t k = 0; k < p.k; ++k) {
      copy_element(out[0], start + k * to[at(p.dimension)], in[0], first + order[at(k)] * stride);
      store_int(out[1], start + k * to[at(p.dimension)], order[at(k)]);
    }
  });
}

// Before every number in the order of top_k: a NaN with a sign.
Value least(Builder& b, DType dtype) {
  HostArray number(dtype, {});
  View view{dtype, {}, number.data()};
  if (is_float(dtype)) {
    store_float(view, 0, std::copysign(std::numeric_limits<double>::quiet_NaN(), -1.0));
  } else {
    identity(Reduction::Max, view, 0);
  }
  return constant(b, number);
}

// The k greatest are among the k greatest of each shard. Fillings come last, so that of equal ones they are not taken.
std::optional<ir::Division> divide_top_k(Builder& b, const ir::DivideArgs& a, const TopK& p) {
  Value x = a.in[0];
  std::int64_t d = p.dimension;
  DimensionParts parts(d, x.shape()[at(d)], a.parts_of(0, d));
  if (parts.parts == 1 || p.k >= parts.chunk() || x.type().size() == 0 || p.k == 0) return std::nullopt;
  Values best = top_k(cut_in_parts(x, parts, least(b, x.dtype())), p.k, d + 1);
  best[1] = best[1] + iota(b, DType::I32, best[1].shape(), d) * static_cast<double>(parts.chunk());
  Shape shape = x.shape();
  shape[at(d)] = parts.parts * p.k;
  Values chosen = top_k(reshape(best[0], shape), p.k, d);
  return ir::Division{{chosen[0], take_along(reshape(best[1], shape), chosen[1], d)}};
}

}  // namespace

TESSERA_DEFINE_OP(sort, Sort,
                  {
                      .name = "sort",
                      .traits = {.exact = true, .work = ir::Work::Sort, .alike = true, .activity = "sorting"},
                      .infer = infer_sort,
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const Sort& p) { return line_factors(in, out, p.dimension); },
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const Sort& p) {
                            Values in;
                            for (std::size_t i = 0; i < a.in.size(); ++i) in.push_back(with_batch(a, i));
                            Sort q = p;
                            ++q.dimension;
                            return Batched{b.add(def::sort, in, attrs(q)), std::vector<bool>(in.size(), true)};
                          },
                      .jvp =
                          [](Builder& b, const JvpArgs& a, const Sort& p) {
                            return sort_dual(b, {a.in, a.tangents, false}, p).tangents;
                          },
                      .transpose = Never{"the op is not linear"},
                      .dual = sort_dual,
                      .divide = {sort_by_exchange},
                      .reference = sort_reference,
                      .samples =
                          [] {
                            Type f{DType::F32, {4, 6}};
                            Type i{DType::I32, {4, 6}};
                            return std::vector<Sample<Sort>>{{{f}, {1}},
                                                             {{f}, {0}},
                                                             {{i, f}, {1, 1, true}},
                                                             {{i, f, f}, {0, 2, true}},
                                                             {{Type{DType::BF16, {7}}}, {0}},
                                                             {{Type{DType::C64, {5}}}, {0}}};
                          },
                  });

TESSERA_DEFINE_OP(top_k, TopK,
                  {
                      .name = "top_k",
                      .traits = {.exact = true, .work = ir::Work::TopK},
                      .infer = infer_top_k,
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const TopK& p) { return line_factors(in, out, p.dimension); },
                      .remap = by_default,
                      .batch =
                          [](Builder&, const BatchArgs& a, const TopK& p) {
                            return Batched{top_k(a.in[0], p.k, p.dimension + 1), {true, true}};
                          },
                      .jvp =
                          [](Builder&, const JvpArgs& a, const TopK& p) {
                            return Values{take_along(a.tangents[0], a.out[1], p.dimension), Value{}};
                          },
                      .transpose = Never{"the op is not linear"},
                      .divide = {divide_top_k},
                      .reference = top_k_reference,
                      .samples =
                          [] {
                            return std::vector<Sample<TopK>>{{{Type{DType::F32, {4, 6}}}, {2, 1}},
                                                             {{Type{DType::F32, {4, 6}}}, {3, 0}},
                                                             {{Type{DType::I32, {7}}}, {7, 0}}};
                          },
                  });

Values sort(ValueSpan operands, std::int64_t dimension, std::int64_t num_keys, bool stable) {
  if (operands.empty()) throw ValueError("[sort] no operands; expected at least one");
  return operands[0].builder->add(def::sort, operands, attrs(Sort{dimension, num_keys, stable}));
}
Values top_k(Value x, std::int64_t k, std::int64_t dimension) {
  return x.builder->add(def::top_k, {x}, attrs(TopK{k, dimension}));
}

Value take_along(Value x, Value places, std::int64_t dimension) {
  Shape shape = places.shape();
  shape.push_back(1);
  Gather p{{}, {dimension}, {dimension}};
  p.slice_sizes.assign(at(x.rank()), 1);
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (d == dimension) continue;
    p.operand_batching_dims.push_back(d);
    if (x.shape()[at(d)] == 0) p.slice_sizes[at(d)] = 0;
  }
  p.indices_batching_dims = p.operand_batching_dims;
  p.mode = IndexMode::PromiseInBounds;
  p.unique_indices = true;
  return gather(x, reshape(places, shape), p);
}

}  // namespace tessera::ops
