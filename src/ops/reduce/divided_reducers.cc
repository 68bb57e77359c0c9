// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce/divided_reducers.h"

#include <algorithm>
#include <array>

#include "ops/define_op.h"
#include "ops/reduce/windows.h"
#include "ops/shape/dimension_parts.h"

namespace tessera::ops {

GraphPtr reducer_of_present(const ir::Graph& body) {
  std::size_t n = body.outputs.size();
  Builder b;
  Values in;
  std::array<Value, 2> there;
  std::array<Values, 2> numbers;
  for (std::size_t side = 0; side < 2; ++side) {
    for (std::size_t i = 0; i < n; ++i) {
      in.push_back(b.input(body.type(body.inputs[i])));
      numbers[side].push_back(in.back());
    }
    there[side] = b.input(Type{DType::Bool, {}});
  }
  Values both = b.inline_graph(body, in);
  Value all = and_(there[0], there[1]);
  Values out;
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back(where(all, both[i], where(there[0], numbers[0][i], numbers[1][i])));
  }
  out.push_back(or_(there[0], there[1]));
  return b.finish_shared(out);
}

bool picks_floats(const ir::Graph& body) {
  auto picks = [](const ir::OpDef* op) {
    return std::ranges::any_of(
        std::array{&def::select_n, &def::max, &def::min, &def::lt, &def::le, &def::gt, &def::ge, &def::eq, &def::ne},
        [&](const ir::OpDef* known) { return op == known; });
  };
  return std::ranges::all_of(body.eqns, [&](const ir::Eqn& e) {
    auto is_float = [&](ir::ValueId v) { return is_inexact(body.type(v).dtype); };
    return picks(e.op) || (std::ranges::none_of(e.in, is_float) && std::ranges::none_of(e.out, is_float));
  });
}

namespace {

// Arrays that are reduced together, the last of them telling which numbers are there.
class Present {
 public:
  Present(Builder& b, const ir::Graph& body, Values arrays) : b_(b), body_(reducer_of_present(body)) {
    x_ = std::move(arrays);
    x_.push_back(broadcast_to(yes(true), x_[0].shape()));
  }

  Value yes(bool is) const { return constant(b_, HostArray::scalar(is)); }
  Values starts(ValueSpan starts) const {
    Values out(starts.begin(), starts.end());
    out.push_back(yes(true));
    return out;
  }
  Values no_starts() const {
    Values out;
    for (std::size_t i = 0; i + 1 < x_.size(); ++i) out.push_back(zeros(b_, Type{x_[i].dtype(), {}}));
    out.push_back(yes(false));
    return out;
  }

  void cut(const DimensionParts& parts) {
    Values fill = no_starts();
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = cut_in_parts(x_[i], parts, fill[i]);
  }
  void reduce_axis(std::int64_t axis) { x_ = reduce(x_, no_starts(), body_, {axis}); }

  // Says of the entries along `axis` that those in [from, to) are there, which needs no exchange.
  void set_there(std::int64_t axis, std::int64_t from, std::int64_t to) {
    Value place = iota(b_, DType::I32, x_[0].shape(), axis);
    auto number = [&](std::int64_t n) { return scalar(b_, static_cast<double>(n), DType::I32); };
    x_.back() = and_(ge(place, number(from)), lt(place, number(to)));
  }

  Values& arrays() { return x_; }
  Values numbers() const { return Values(x_.begin(), x_.end() - 1); }
  const GraphPtr& body() const { return body_; }

 private:
  Builder& b_;
  GraphPtr body_;
  Values x_;
};

bool keeps_order(const ir::DivideArgs& a, const ir::Graph& body) {
  bool floats = std::ranges::any_of(a.out, [](const Type& t) { return is_inexact(t.dtype); });
  return a.deterministic && floats && !picks_floats(body);
}

// The window of a running reduction along an axis.
ReduceWindow running(const Shape& shape, const Cumulative& along, const GraphPtr& body) {
  ReduceWindow w;
  Dims ones(shape.size(), 1);
  w.dimensions = w.strides = w.base_dilation = w.window_dilation = ones;
  w.low = w.high = Dims(shape.size(), 0);
  w.dimensions[at(along.axis)] = shape[at(along.axis)];
  (along.reverse ? w.high : w.low)[at(along.axis)] = shape[at(along.axis)] - 1;
  w.body = body;
  return w;
}

}  // namespace

// Axes are reduced from the last to the first, which keeps the row-major order of elements; the start values are taken
// with the first axis.
std::optional<ir::Division> divide_reduce(Builder& b, const ir::DivideArgs& a, const Reduce& p) {
  std::size_t n = a.out.size();
  Values x(a.in.begin(), a.in.begin() + static_cast<std::ptrdiff_t>(n));
  ValueSpan starts = a.in.subspan(n);
  Dims axes = p.axes;
  const ir::Layout* layout = a.operands.data();
  if (a.unflattened && x[0].rank() == 1 && axes.size() == 1) {
    x[0] = a.unflattened;
    layout = a.unflattened_layout;
    axes.clear();
    for (std::int64_t d = 0; d < x[0].rank(); ++d) axes.push_back(d);
    for (std::size_t i = 1; i < n; ++i) x[i] = reshape(x[i], x[0].shape());
  }
  if (axes.empty() || x[0].type().size() == 0 || keeps_order(a, *p.body)) return std::nullopt;
  std::sort(axes.begin(), axes.end());
  auto parts_of = [&](std::int64_t d) { return parts(layout->dims[at(d)], a.mesh); };
  bool cuts = std::ranges::any_of(axes, [&](auto d) { return parts_of(d) > 1 && parts_of(d) < x[0].shape()[at(d)]; });
  if (!cuts) return std::nullopt;
  Present all(b, *p.body, x);
  for (std::size_t i = axes.size(); i-- > 0;) {
    std::int64_t d = axes[i];
    DimensionParts parts(d, x[0].shape()[at(d)], parts_of(d));
    if (parts.parts > 1 && parts.parts < parts.extent) {
      all.cut(parts);
      all.reduce_axis(d + 1);
      all.set_there(d, 0, parts.occupied());
    }
    if (i > 0) all.reduce_axis(d);
  }
  Values out = reduce(all.arrays(), all.starts(starts), all.body(), {axes[0]});
  out.pop_back();
  return ir::Division{out};
}

// What stands before each part (behind it, where the order is reversed) becomes one more element of it.
std::optional<ir::Division> divide_running_window(Builder& b, const ir::DivideArgs& a, const ReduceWindow& p) {
  std::size_t n = a.out.size();
  Values x(a.in.begin(), a.in.begin() + static_cast<std::ptrdiff_t>(n));
  const Shape shape = x[0].shape();
  auto along = running_window(shape, p);
  if (!along || x[0].type().size() == 0 || keeps_order(a, *p.body)) return std::nullopt;
  std::int64_t axis = along->axis;
  DimensionParts parts(axis, shape[at(axis)], a.parts_of(0, axis));
  if (parts.parts == 1 || parts.chunk() == 1) return std::nullopt;
  Present elements(b, *p.body, x);
  elements.cut(parts);
  Present before = elements;
  before.reduce_axis(axis + 1);
  before.set_there(axis, 0, parts.occupied());
  Values totals = reduce_window(before.arrays(), before.no_starts(), before.body(),
                                running(before.arrays()[0].shape(), *along, before.body()));
  Dims low(shape.size(), 0);
  Dims high = low;
  (along->reverse ? high : low)[at(axis)] = 1;
  (along->reverse ? low : high)[at(axis)] = -1;
  Values fill = before.no_starts();
  for (std::size_t i = 0; i < n; ++i) before.arrays()[i] = pad(totals[i], fill[i], low, high);
  along->reverse ? before.set_there(axis, 0, parts.occupied() - 1) : before.set_there(axis, 1, parts.parts);
  Values& y = elements.arrays();
  for (std::size_t i = 0; i <= n; ++i) {
    Value edge = expand_dims(before.arrays()[i], {axis + 1});
    y[i] = along->reverse ? concatenate(Values{y[i], edge}, axis + 1) : concatenate(Values{edge, y[i]}, axis + 1);
  }
  Values out = reduce_window(y, elements.starts(a.in.subspan(n)), elements.body(),
                             running(y[0].shape(), {axis + 1, along->reverse}, elements.body()));
  out.pop_back();
  std::int64_t from = along->reverse ? 0 : 1;
  for (auto& v : out) v = join_parts(slice_in_dim(v, from, from + parts.chunk(), axis + 1), parts);
  return ir::Division{out};
}

}  // namespace tessera::ops
