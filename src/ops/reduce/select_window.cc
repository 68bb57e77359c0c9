// SPDX-License-Identifier: Apache-2.0
// What the derivatives of window maxima and minima need: in each window of `operand` the first extreme element is
// selected; select_and_gather_add reads `source` there, select_and_scatter_add adds the window's element of `source`
// there. Both are linear in `source` and each is the other's transpose; the choice is locally constant.
#include <cmath>

#include "ops/reduce/reduction.h"
#include "ops/reduce/sorting.h"
#include "ops/reduce/windows.h"
#include "ops/shape/halo.h"

namespace tessera::ops {

namespace {

// Element selected in each window, or -1 for a window of padding alone. NaN counts as the extreme one.
Dims selected(const View& operand, const Shape& windows, const SelectWindow& w) {
  Dims chosen(at(size_of(windows)), -1);
  auto better = [&](double x, double best) {
    if (std::isnan(best)) return false;
    return std::isnan(x) || (w.maximum ? x > best : x < best);
  };
  auto better_int = [&](auto x, auto best) { return w.maximum ? x > best : x < best; };
  for_each_window(
      operand.shape, windows, w, [](std::int64_t) {},
      [&](std::int64_t k, std::int64_t i) {
        auto& best = chosen[at(k)];
        bool take = best < 0;
        if (!take && is_float(operand.dtype)) take = better(load_float(operand, i), load_float(operand, best));
        if (!take && is_unsigned_int(operand.dtype)) take = better_int(load_uint(operand, i), load_uint(operand, best));
        if (!take && is_signed_int(operand.dtype)) take = better_int(load_int(operand, i), load_int(operand, best));
        if (take) best = i;
      });
  return chosen;
}

Types gather_infer(TypeSpan in, const SelectWindow& w) {
  const char* name = "select_and_gather_add";
  check_count(name, in, 2);
  check_kind(name, in, 1, is_integer(in[1].dtype) || is_float(in[1].dtype), "integer or float");
  if (in[0].shape != in[1].shape) {
    bad_operand(name, 0, str("shape ", in[0].shape, "; expected ", in[1].shape, " as operand 1"));
  }
  return {Type{in[0].dtype, windowed_shape(name, in[1].shape, w)}};
}
Types scatter_infer(TypeSpan in, const SelectWindow& w) {
  const char* name = "select_and_scatter_add";
  check_count(name, in, 2);
  check_kind(name, in, 0, !is_bool(in[0].dtype), "integer, float or complex");
  check_kind(name, in, 1, is_integer(in[1].dtype) || is_float(in[1].dtype), "integer or float");
  Shape windows = windowed_shape(name, in[1].shape, w);
  if (in[0].shape != windows) {
    bad_operand(name, 0, str("shape ", in[0].shape, "; expected ", windows, ", one element a window of operand 1"));
  }
  return {Type{in[0].dtype, in[1].shape}};
}

Batched batch(Builder& b, const ir::OpDef& op, const BatchArgs& a, const SelectWindow& w) {
  return {{b.add1(op, {with_batch(a, 0), with_batch(a, 1)}, attrs(with_batch_window(w)))}, {true}};
}
Values jvp(Builder& b, const ir::OpDef& op, const JvpArgs& a, const SelectWindow& w) {
  return {a.tangents[0] ? b.add1(op, {a.tangents[0], a.in[1]}, attrs(w)) : Value{}};
}

FactorRule scatter_factors(TypeSpan in, TypeSpan, const SelectWindow& w) {
  FactorRule r = window_factors(1, 0, 1, in[1].shape, in[0].shape, w);
  return {r.factors, {r.results[0], r.operands[0]}, {r.operands[0]}};
}

void scatter_reference(ViewSpan in, ViewSpan out, const SelectWindow& w) {
  WideResult wide(out[0]);
  for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) identity(Reduction::Sum, wide.view, k);
  Dims chosen = selected(in[1], in[0].shape, w);
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    if (chosen[k] >= 0) accumulate(Reduction::Sum, wide.view, chosen[k], in[0], static_cast<std::int64_t>(k));
  }
  wide.store(out[0]);
}
void gather_reference(ViewSpan in, ViewSpan out, const SelectWindow& w) {
  Dims chosen = selected(in[1], out[0].shape, w);
  for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) {
    if (chosen[at(k)] < 0) {
      identity(Reduction::Sum, out[0], k);
    } else {
      copy_element(out[0], k, in[0], chosen[at(k)]);
    }
  }
}

// What is asked for of the result, and the operands that give it.
struct Scattered {
  Value source, x;
  SelectWindow w;
  Dims starts;  // of the elements that are read
  Shape shape;
};

// Along a dimension that is padded: with the padding, of all dimensions, in the array. Padding is never selected: less
// than any element, which numbers in the same order leave room for. Those of other numbers than floats do not.
bool pad_operand(Builder& b, Scattered& s, std::size_t dimension) {
  if (s.w.low[dimension] <= 0 && s.w.high[dimension] <= 0) return true;
  if (!is_float(s.x.dtype())) return false;
  Value keys = ordered_keys(s.w.maximum ? s.x : neg(s.x));
  s.w.maximum = true;
  Dims low(s.w.low.size(), 0);
  Dims high = low;
  for (std::size_t d = 0; d < low.size(); ++d) {
    if (s.w.base_dilation[d] != 1) continue;
    low[d] = std::max<std::int64_t>(s.w.low[d], 0);
    high[d] = std::max<std::int64_t>(s.w.high[d], 0);
    s.w.low[d] -= low[d];
    s.w.high[d] -= high[d];
    s.starts[d] += low[d];
  }
  s.x = pad(keys, scalar(b, 0, keys.dtype()), low, high);
  return true;
}

// The windows that reach into the shards of the elements that are read, and the elements that these windows have.
struct ReachedWindows {
  WindowStack elements, windows;
  std::int64_t chunk, before;  // elements of a shard; where its first window begins, from the first of them on
};
std::optional<ReachedWindows> reached(const Scattered& s, std::size_t i, std::int64_t parts) {
  const Window& w = s.w;
  const std::int64_t n = s.shape[i];
  const std::int64_t step = w.strides[i];
  const std::int64_t chunk = (n + parts - 1) / parts;
  const bool plain = w.base_dilation[i] == 1 && w.window_dilation[i] == 1;
  const bool still = w.dimensions[i] == 1 && step == 1 && w.low[i] == 0 && w.high[i] == 0;
  if (parts == 1 || still || !plain || chunk % step != 0) return std::nullopt;
  auto floored = [&](std::int64_t v) { return v >= 0 ? v / step : -((step - 1 - v) / step); };
  const std::int64_t low = w.low[i] + s.starts[i];  // what windows begin before the first element that is read
  const std::int64_t first = -floored(w.dimensions[i] - 1 - low);
  const std::int64_t count = floored(chunk - 1 + low) - first + 1;
  const std::int64_t reach = (count - 1) * step + w.dimensions[i];
  if (count <= 0 || reach > 4 * chunk) return std::nullopt;
  return ReachedWindows{{i, parts, reach, first * step - w.low[i], chunk, 1},
                        {i, parts, count, first, chunk / step, 1},
                        chunk,
                        first * step - low};
}

// Of the stacked elements those of the shards; what no window reaches has nothing added to it.
Value shards_joined(Builder& b, Value y, const Scattered& s, std::size_t i, const ReachedWindows& r) {
  Dims starts = s.starts;
  Dims limits;
  for (std::size_t d = 0; d < starts.size(); ++d) {
    if (d == i) starts[d] = 0;
    limits.push_back(d == i ? r.elements.size : starts[d] + s.shape[d]);
  }
  starts.insert(starts.begin(), 0);
  limits.insert(limits.begin(), r.elements.count);
  y = slice(y, starts, limits);
  Dims low(starts.size(), 0);
  Dims high = low;
  low[i + 1] = r.before;
  high[i + 1] = r.chunk - r.elements.size - r.before;
  const auto d = static_cast<std::int64_t>(i);
  y = move_dim(pad(y, scalar(b, 0, y.dtype()), low, high), 0, d);
  Shape shape = s.shape;
  shape[i] = r.elements.count * r.chunk;
  return slice_in_dim(reshape(y, shape), 0, s.shape[i], d);
}

}  // namespace

// Every shard of the array takes the windows that reach into it, whole, and of what they add the part that is its own.
// Where only a part of the result is read, as where the array was padded first, shards are those of that part.
std::optional<ir::Division> scatter_by_shards_of(const std::optional<Block>& kept, Builder& b, const ir::DivideArgs& a,
                                                 const SelectWindow& w) {
  const char* name = "select_and_scatter_add";
  const Shape whole = a.in[1].shape();
  Scattered s{a.in[0], a.in[1], w, Dims(whole.size(), 0), whole};
  if (kept) {
    s.starts = kept->starts;
    s.shape = kept->shape;
  }
  if (s.source.type().size() == 0 || size_of(s.shape) == 0) return std::nullopt;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const std::int64_t parts = a.parts_of(1, static_cast<std::int64_t>(i));
    std::optional<ReachedWindows> r = reached(s, i, parts);
    if (!r || !pad_operand(b, s, i)) continue;
    r = reached(s, i, parts);
    Value zero = scalar(b, 0, s.source.dtype());
    PaddedWindows xs = window_stack_of_padded(s.x, scalar(b, 0, s.x.dtype()), r->elements, Outside::Unread, name);
    PaddedWindows sources = window_stack_of_padded(s.source, zero, r->windows, Outside::Read, name);
    Window q = with_batch_window(s.w);
    q.low[i + 1] = q.high[i + 1] = 0;
    ir::Layout split{a.operands[1].dims};
    split.dims[i].clear();
    split.dims.insert(split.dims.begin(), a.operands[1].dims[i]);
    Value y = select_and_scatter_add(sources.windows, xs.windows, q, s.w.maximum);
    ir::Division out{{shards_joined(b, y, s, i, *r)}};
    for (const auto& stack : {xs, sources}) {
      out.layouts.emplace_back(stack.windows, split);
      if (stack.taken) out.layouts.emplace_back(stack.taken, split);
    }
    return out;
  }
  return std::nullopt;
}

namespace {

std::vector<Sample<SelectWindow>> samples(bool scatter) {
  std::vector<Sample<SelectWindow>> out;
  Type x{DType::F32, {4, 6}};
  for (const auto& w : sample_windows()) {
    for (bool maximum : {true, false}) {
      Type source = scatter ? Type{DType::F32, windowed_shape("sample", x.shape, w)} : x;
      out.push_back({{source, x}, {w, maximum}});
    }
  }
  return out;
}
}  // namespace

TESSERA_DEFINE_OP(
    select_and_gather_add, SelectWindow,
    {
        .name = "select_and_gather_add",
        .traits = {.linearity = Linearity::Joint, .linear_operands = 1, .whole_entry = ir::WholeEntry::Kept},
        .infer = gather_infer,
        .factors = [](TypeSpan in, TypeSpan out,
                      const SelectWindow& w) { return window_factors(2, 0, 1, in[1].shape, out[0].shape, w); },
        .remap = by_default,
        .batch = [](Builder& b, const BatchArgs& a,
                    const SelectWindow& w) { return batch(b, def::select_and_gather_add, a, w); },
        .jvp = [](Builder& b, const JvpArgs& a,
                  const SelectWindow& w) { return jvp(b, def::select_and_gather_add, a, w); },
        .transpose =
            [](Builder&, const TransposeArgs& t, const SelectWindow& w) {
              return Values{select_and_scatter_add(t.ct[0], t.in[1], w, w.maximum), {}};
            },
        .reference = gather_reference,
        .samples = [] { return samples(false); },
    });

TESSERA_DEFINE_OP(
    select_and_scatter_add, SelectWindow,
    {
        .name = "select_and_scatter_add",
        .traits = {.linearity = Linearity::Joint, .linear_operands = 1, .whole_entry = ir::WholeEntry::Kept},
        .infer = scatter_infer,
        .factors = scatter_factors,
        .remap = by_default,
        .batch = [](Builder& b, const BatchArgs& a,
                    const SelectWindow& w) { return batch(b, def::select_and_scatter_add, a, w); },
        .jvp = [](Builder& b, const JvpArgs& a,
                  const SelectWindow& w) { return jvp(b, def::select_and_scatter_add, a, w); },
        .transpose =
            [](Builder&, const TransposeArgs& t, const SelectWindow& w) {
              return Values{select_and_gather_add(t.ct[0], t.in[1], w, w.maximum), {}};
            },
        .divide = {[](Builder& b, const ir::DivideArgs& a, const SelectWindow& w) {
          return scatter_by_shards_of({}, b, a, w);
        }},
        .reference = scatter_reference,
        .samples = [] { return samples(true); },
    });

Value select_and_gather_add(Value source, Value operand, const Window& w, bool maximum) {
  return operand.builder->add1(def::select_and_gather_add, {source, operand}, attrs(SelectWindow{w, maximum}));
}
Value select_and_scatter_add(Value source, Value operand, const Window& w, bool maximum) {
  return operand.builder->add1(def::select_and_scatter_add, {source, operand}, attrs(SelectWindow{w, maximum}));
}

}  // namespace tessera::ops
