// SPDX-License-Identifier: Apache-2.0
// reduce and reduce_window with a reducer that the program gives: a graph (n numbers, n numbers) -> n numbers, which
// must be associative. Operands: n arrays, then n rank-0 start values.
#include <algorithm>

#include "ops/reduce/divided_reducers.h"
#include "ops/reduce/reduction.h"
#include "ops/reduce/windows.h"
#include "ops/transform/graph_rules.h"
#include "ops/transform/interpret.h"

namespace tessera::ops {

namespace {

std::size_t check_reducer(const char* name, TypeSpan in, const GraphPtr& body) {
  auto n = in.size() / 2;
  if (n == 0 || in.size() % 2 != 0) {
    throw ValueError(str("[", name, "] ", in.size(), " operands; expected arrays and as many start values"));
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (in[i].shape != in[0].shape) {
      bad_operand(name, i, str("shape ", in[i].shape, "; expected ", in[0].shape, " as operand 0"));
    }
    if (!in[n + i].shape.empty()) bad_operand(name, n + i, str("shape ", in[n + i].shape, "; expected rank 0"));
    if (in[n + i].dtype != in[i].dtype) {
      throw TypeError(str("[", name, "] operand ", n + i, " has dtype ", dtype_name(in[n + i].dtype), "; expected ",
                          dtype_name(in[i].dtype), " as operand ", i));
    }
  }
  Types takes = body->input_types();
  Types gives = body->output_types();
  bool fits = takes.size() == 2 * n && gives.size() == n;
  for (std::size_t i = 0; fits && i < takes.size(); ++i) {
    fits = takes[i].shape.empty() && takes[i].dtype == in[i % n].dtype;
  }
  for (std::size_t i = 0; fits && i < n; ++i) fits = gives[i].shape.empty() && gives[i].dtype == in[i].dtype;
  if (!fits) bad_attr(name, "body", "its inputs and outputs are not the numbers of the operands, twice and once");
  return n;
}

// Folds elements into the results by the reducer, one call a number.
class Folder {
 public:
  Folder(const GraphPtr& body, ViewSpan in, ViewSpan out) : body_(*body), n_(out.size()), in_(in), out_(out) {
    for (std::size_t i = 0; i < n_; ++i) memory_.emplace_back(out[i].dtype, Shape{});
  }
  void start(std::int64_t k) {
    for (std::size_t i = 0; i < n_; ++i) copy_element(out_[i], k, in_[n_ + i], 0);
  }
  void take(std::int64_t k, std::int64_t element) {
    auto number = [](const View& v, std::int64_t i) {
      return View{v.dtype, {}, static_cast<char*>(v.data) + i * dtype_size(v.dtype)};
    };
    std::vector<View> args;
    std::vector<View> results;
    for (std::size_t i = 0; i < n_; ++i) args.push_back(number(out_[i], k));
    for (std::size_t i = 0; i < n_; ++i) args.push_back(number(in_[i], element));
    for (auto& m : memory_) results.push_back(view_of(m));
    interpret(body_, args, results);
    for (std::size_t i = 0; i < n_; ++i) copy_element(out_[i], k, results[i], 0);
  }

 private:
  const ir::Graph& body_;
  std::size_t n_;
  ViewSpan in_, out_;
  std::vector<HostArray> memory_;
};

// One call after another, where start values differ from call to call: reducers know only one number at a time.
Batched call_by_call(Builder& b, const ir::OpDef& op, const BatchArgs& a, const ir::Attrs& attrs) {
  auto results = a.in.size() / 2;
  std::vector<Values> rows(results);
  for (std::int64_t n = 0; n < a.size; ++n) {
    Values in;
    for (std::size_t i = 0; i < a.in.size(); ++i) {
      in.push_back(a.batched[i] ? squeeze(slice_in_dim(a.in[i], n, n + 1, 0), {0}) : a.in[i]);
    }
    Values out = b.add(op, in, attrs);
    for (std::size_t i = 0; i < out.size(); ++i) rows[i].push_back(expand_dims(out[i], {0}));
  }
  Batched out{{}, Flags(results, true)};
  for (const auto& r : rows) out.out.push_back(concatenate(r, 0));
  return out;
}
template <class P>
Batched batch(Builder& b, const ir::OpDef& op, const BatchArgs& a, const P& p, const P& with_front) {
  auto n = a.in.size() / 2;
  bool starts = std::find(a.batched.begin() + static_cast<std::ptrdiff_t>(n), a.batched.end(), true) != a.batched.end();
  if (starts && a.size > 0) return call_by_call(b, op, a, attrs(p));
  Values in;
  for (std::size_t i = 0; i < n; ++i) in.push_back(with_batch(a, i));
  for (std::size_t i = n; i < 2 * n; ++i) {  // without calls no start value is read
    in.push_back(a.batched[i] ? zeros(b, Type{a.in[i].dtype(), {}}) : a.in[i]);
  }
  Values out = b.add(op, in, attrs(with_front));
  return {out, Flags(n, true)};
}

// The reduction as a tree of whole-array calls of the reducer, with tangents.
class Tree {
 public:
  Tree(Builder& b, const ir::Graph& body, const Flags& active) : b_(b), active_(active) {
    Flags both = active;
    both.insert(both.end(), active.begin(), active.end());
    jvp_ = jvp_graph(body, both, active);
  }

  /// Values, then tangents of the active ones.
  Values combine(const Values& x, const Values& y) const {
    auto n = active_.size();
    const Shape shape = x[0].shape();
    Values in;
    auto put = [&](const Values& from, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) in.push_back(reshape(from[i], {size_of(shape)}));
    };
    put(x, 0, n);
    put(y, 0, n);
    put(x, n, x.size());
    put(y, n, y.size());
    Batched out = batch_inline(b_, *jvp_.graph, in, Flags(in.size(), true), size_of(shape));
    for (std::size_t i = 0; i < out.out.size(); ++i) {
      if (!out.batched[i]) out.out[i] = repeat_in_front(out.out[i], size_of(shape));
      out.out[i] = reshape(out.out[i], shape);
    }
    return out.out;
  }

  /// `x`: arrays [m, rest]; neighbours are combined until one is left.
  Values reduce(Values x) const {
    for (auto m = x[0].shape()[0]; m > 1; m = x[0].shape()[0]) {
      Values even;
      Values odd;
      for (const auto& v : x) {
        even.push_back(slice_in_dim(v, 0, m / 2 * 2, 0, 2));
        odd.push_back(slice_in_dim(v, 1, m / 2 * 2, 0, 2));
      }
      Values half = combine(even, odd);
      for (std::size_t i = 0; m % 2 == 1 && i < x.size(); ++i) {
        half[i] = concatenate(Values{half[i], slice_in_dim(x[i], m - 1, m, 0)}, 0);
      }
      x = half;
    }
    return x;
  }

 private:
  Builder& b_;
  Flags active_;
  JvpGraph jvp_;
};

Values reduce_jvp(Builder& b, const JvpArgs& a, const Reduce& p) {
  auto n = a.in.size() / 2;
  Flags active(n);
  for (std::size_t i = 0; i < n; ++i) {
    active[i] = is_inexact(a.in[i].dtype());
  }
  // Reduced axes first and flattened.
  Dims order = p.axes;
  Shape line{1};
  for (auto d : p.axes) line[0] *= a.in[0].shape()[at(d)];
  for (std::int64_t d = 0; d < a.in[0].rank(); ++d) {
    if (std::find(p.axes.begin(), p.axes.end(), d) != p.axes.end()) continue;
    order.push_back(d);
    line.push_back(a.in[0].shape()[at(d)]);
  }
  Shape one = line;
  one[0] = 1;
  Values x;
  Values start;
  auto put = [&](Value array, Value number) {
    x.push_back(reshape(transpose(array, order), line));
    start.push_back(broadcast_to(number, one));
  };
  for (std::size_t i = 0; i < n; ++i) put(a.in[i], a.in[n + i]);
  for (std::size_t i = 0; i < n; ++i) {
    if (!active[i]) continue;
    put(a.tangents[i] ? a.tangents[i] : zeros_like(a.in[i]),
        a.tangents[n + i] ? a.tangents[n + i] : zeros_like(a.in[n + i]));
  }
  Tree tree(b, *p.body, active);
  Values total = line[0] == 0 ? start : tree.combine(start, tree.reduce(x));
  Values out(n);
  for (std::size_t i = 0, k = n; i < n; ++i) {
    if (active[i]) out[i] = squeeze(total[k++], {0});
  }
  return out;
}

FactorRule reduce_factors(TypeSpan in, TypeSpan out, const Reduce& p) {
  FactorRule r;
  FactorRule::Tensor from;
  FactorRule::Tensor to;
  for (std::int64_t d = 0; d < in[0].rank(); ++d) {
    bool reduced = std::find(p.axes.begin(), p.axes.end(), d) != p.axes.end();
    int f = r.add(in[0].shape[at(d)], reduced ? Factor::Kind::Whole : Factor::Kind::Pass);
    from.push_back({f});
    if (!reduced) to.push_back({f});
  }
  r.operands.assign(out.size(), from);
  r.operands.resize(2 * out.size());
  r.results.assign(out.size(), to);
  return r;
}

Types results(TypeSpan in, std::size_t n, const Shape& shape) {
  Types out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(Type{in[i].dtype, shape});
  return out;
}

// x + y + x y, whose start value 0 changes nothing.
GraphPtr sample_body(DType t) {
  Builder b;
  Value x = b.input(Type{t, {}});
  Value y = b.input(Type{t, {}});
  return b.finish_shared(Values{x + y + x * y});
}
// The larger first number, and what stands beside it.
GraphPtr sample_pair_body() {
  Builder b;
  Values in;
  for (auto t : {DType::F64, DType::I32, DType::F64, DType::I32}) in.push_back(b.input(Type{t, {}}));
  Value first = ge(in[0], in[2]);
  return b.finish_shared(Values{where(first, in[0], in[2]), where(first, in[1], in[3])});
}
// u x + v after another such map: the order of elements matters.
GraphPtr sample_map_body() {
  Builder b;
  Values in;
  for (int i = 0; i < 4; ++i) in.push_back(b.input(Type{DType::I32, {}}));
  return b.finish_shared(Values{in[0] * in[2], in[1] * in[2] + in[3]});
}
}  // namespace

TESSERA_DEFINE_OP(reduce, Reduce,
                  {
                      .name = "reduce",
                      .traits = {.whole_entry = ir::WholeEntry::Dropped},
                      .infer =
                          [](TypeSpan in, const Reduce& p) {
                            auto n = check_reducer("reduce", in, p.body);
                            check_axes("reduce", "axes", p.axes, in[0].rank());
                            return results(in, n, reduced_shape(in[0].shape, p.axes));
                          },
                      .factors = reduce_factors,
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const Reduce& p) {
                            return batch(b, def::reduce, a, p, Reduce{p.body, shifted(p.axes)});
                          },
                      .jvp = reduce_jvp,
                      .transpose = Never{"a general reducer is not linear; its derivative is made of other ops"},
                      .divide = {divide_reduce},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const Reduce& p) {
                            Folder fold(p.body, in, out);
                            for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) fold.start(k);
                            Dims strides = row_strides(out[0].shape);
                            std::int64_t i = 0;
                            for_each_position(in[0].shape, [&](const Dims& position) {
                              fold.take(flat(reduced_shape(position, p.axes), strides), i++);
                            });
                          },
                      .samples =
                          [] {
                            Type x{DType::F64, {4, 5}};
                            Type s{DType::F64, {}};
                            Type i{DType::I32, {4, 5}};
                            Type k{DType::I32, {}};
                            return std::vector<Sample<Reduce>>{{{x, s}, {sample_body(DType::F64), {1}}},
                                                               {{x, s}, {sample_body(DType::F64), {0, 1}}},
                                                               {{i, k}, {sample_body(DType::I32), {0}}},
                                                               {{x, i, s, k}, {sample_pair_body(), {1}}},
                                                               {{i, i, k, k}, {sample_map_body(), {0, 1}}}};
                          },
                  });

TESSERA_DEFINE_OP(
    reduce_window, ReduceWindow,
    {
        .name = "reduce_window",
        .traits = {.whole_entry = ir::WholeEntry::Kept},
        .infer =
            [](TypeSpan in, const ReduceWindow& p) {
              auto n = check_reducer("reduce_window", in, p.body);
              return results(in, n, windowed_shape("reduce_window", in[0].shape, p));
            },
        .factors =
            [](TypeSpan in, TypeSpan out, const ReduceWindow& p) {
              return window_factors(out.size(), out.size(), out.size(), in[0].shape, out[0].shape, p);
            },
        .remap = by_default,
        .batch = [](Builder& b, const BatchArgs& a,
                    const ReduceWindow& p) { return batch(b, def::reduce_window, a, p, with_batch_window(p)); },
        .jvp = Never{"windows of a general reducer have no derivative; use sums, maxima or minima"},
        .transpose = Never{"a general reducer is not linear"},
        .divide = {divide_running_window},
        .reference =
            [](ViewSpan in, ViewSpan out, const ReduceWindow& p) {
              Folder fold(p.body, in, out);
              for_each_window(
                  in[0].shape, out[0].shape, p, [&](std::int64_t k) { fold.start(k); },
                  [&](std::int64_t k, std::int64_t i) { fold.take(k, i); });
            },
        .samples =
            [] {
              std::vector<Sample<ReduceWindow>> out;
              for (const auto& w : sample_windows()) {
                out.push_back({{Type{DType::F32, {4, 6}}, Type{DType::F32, {}}}, {w, sample_body(DType::F32)}});
              }
              Window before{{1, 11, 1}, {1, 1, 1}, {0, 10, 0}, {0, 0, 0}, {1, 1, 1}, {1, 1, 1}};
              Window behind{{1, 11, 1}, {1, 1, 1}, {0, 0, 0}, {0, 10, 0}, {1, 1, 1}, {1, 1, 1}};
              Type x{DType::F64, {2, 11, 3}};
              Type n{DType::I32, {}};
              Type i{DType::I32, {2, 11, 3}};
              for (const auto& w : {before, behind}) {
                out.push_back({{x, i, Type{DType::F64, {}}, n}, {w, sample_pair_body()}});
                out.push_back({{i, i, n, n}, {w, sample_map_body()}});
              }
              return out;
            },
    });

Values reduce(ValueSpan arrays, ValueSpan starts, const GraphPtr& body, const Dims& axes) {
  Values in(arrays.begin(), arrays.end());
  in.insert(in.end(), starts.begin(), starts.end());
  return in[0].builder->add(def::reduce, in, attrs(Reduce{body, axes}));
}
Values reduce_window(ValueSpan arrays, ValueSpan starts, const GraphPtr& body, const Window& w) {
  Values in(arrays.begin(), arrays.end());
  in.insert(in.end(), starts.begin(), starts.end());
  return in[0].builder->add(def::reduce_window, in, attrs(ReduceWindow{w, body}));
}

}  // namespace tessera::ops
