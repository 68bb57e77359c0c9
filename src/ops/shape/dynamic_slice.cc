// SPDX-License-Identifier: Apache-2.0
// Slices at computed places. Starts are clamped so that the slice lies inside, as in XLA.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/strided_copy.h"
#include "ops/define_op.h"
#include "ops/reduce/order_statistics.h"
#include "ops/shape/indexing_common.h"
#include "ops/shape/row_routes.h"
#include "ops/shared_attrs.h"
#include "ops/transform/known_value.h"

namespace tessera::ops {

namespace {

void check_starts(const char* name, TypeSpan in, std::size_t from) {
  if (in.size() != from + in[0].shape.size()) {
    throw ValueError(
        str("[", name, "] ", in.size() - from, " starts for shape ", in[0].shape, "; expected one a dimension"));
  }
  for (std::size_t i = from; i < in.size(); ++i) {
    check_kind(name, in, i, is_integer(in[i].dtype), "integer");
    if (!in[i].shape.empty()) bad_operand(name, i, str("shape ", in[i].shape, "; expected rank 0"));
  }
  check_same_dtype(name, in, from);
}

// Dimensions taken whole always start at 0; they may be split.
FactorRule window_factors(const Shape& full, const Shape& window, std::size_t operands, std::size_t starts) {
  FactorRule r;
  FactorRule::Tensor large;
  FactorRule::Tensor small;
  for (std::size_t d = 0; d < full.size(); ++d) {
    bool same = full[d] == window[d];
    int f = r.add(full[d], same ? Factor::Kind::Pass : Factor::Kind::Whole);
    large.push_back({f});
    small.push_back({same ? f : r.add(window[d], Factor::Kind::Whole)});
  }
  r.operands = {large};
  if (operands == 2) r.operands.push_back(small);
  r.operands.resize(operands + starts);
  r.results = {operands == 2 ? large : small};
  return r;
}

std::int64_t byte_offset(ViewSpan starts, const Shape& full, const Shape& window, const Dims& strides) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < full.size(); ++d) {
    auto room = full[d] - window[d];
    // Numbers beyond 63 bits are far outside, and negative ones are before the first element.
    auto start = is_unsigned_int(starts[d].dtype)
                     ? static_cast<std::int64_t>(std::min<std::uint64_t>(load_uint(starts[d], 0), INT64_MAX))
                     : load_int(starts[d], 0);
    offset += std::clamp<std::int64_t>(start, 0, room) * strides[d];
  }
  return offset;
}

// Dimensions of which a part is taken; in the others the only start is 0, so that they may stay split.
Dims cut_dims(const Shape& full, const Shape& window) {
  Dims out;
  for (std::size_t d = 0; d < full.size(); ++d) {
    if (full[d] != window[d]) out.push_back(static_cast<std::int64_t>(d));
  }
  return out;
}
// The starts of all calls in these dimensions as index vectors: [batch, dimensions].
Value index_vectors(Builder& b, const BatchArgs& a, std::size_t from, const Dims& dims) {
  if (dims.empty()) return zeros(b, Type{DType::I32, {a.size, 0}});
  Values columns;
  for (auto d : dims) {
    std::size_t i = from + at(d);
    columns.push_back(broadcast_in_dim(a.in[i], {a.size, 1}, a.batched[i] ? Dims{0} : Dims{}));
  }
  return concatenate(columns, 1);
}
bool any_start_batched(const BatchArgs& a, std::size_t from) {
  return std::find(a.batched.begin() + static_cast<std::ptrdiff_t>(from), a.batched.end(), true) != a.batched.end();
}
// Starts with one more in front, for the batch.
Values with_zero(Builder& b, ValueSpan starts) {
  Values out{scalar(b, 0, starts.empty() ? DType::I32 : starts[0].dtype())};
  out.insert(out.end(), starts.begin(), starts.end());
  return out;
}
Dims counting(std::int64_t from, std::size_t n) {
  Dims out(n);
  std::iota(out.begin(), out.end(), from);
  return out;
}

Batched slice_batch(Builder& b, const BatchArgs& a, const DynamicSlice& p) {
  auto rank = p.sizes.size();
  if (!any_start_batched(a, 1)) {
    Dims sizes = p.sizes;
    sizes.insert(sizes.begin(), a.size);
    return {{dynamic_slice(a.in[0], with_zero(b, a.in.subspan(1)), sizes)}, {true}};
  }
  Shape full = a.in[0].shape();
  if (a.batched[0]) full.erase(full.begin());
  Dims cut = cut_dims(full, p.sizes);
  Value starts = index_vectors(b, a, 1, cut);
  Gather g{.offset_dims = counting(1, rank), .collapsed_slice_dims = {}, .start_index_map = cut};
  g.slice_sizes = p.sizes;
  if (a.batched[0]) {
    g.start_index_map = shifted(cut);
    g.operand_batching_dims = g.indices_batching_dims = {0};
    g.slice_sizes.insert(g.slice_sizes.begin(), 1);
  }
  return {{gather(a.in[0], starts, g)}, {true}};
}

Batched update_batch(Builder& b, const BatchArgs& a, const NoAttrs&) {
  Value x = with_batch(a, 0);
  Value update = with_batch(a, 1);
  if (!any_start_batched(a, 2)) return {{dynamic_update_slice(x, update, with_zero(b, a.in.subspan(2)))}, {true}};
  auto rank = at(update.rank()) - 1;
  Shape full(x.shape().begin() + 1, x.shape().end());
  Shape window(update.shape().begin() + 1, update.shape().end());
  Dims cut = cut_dims(full, window);
  Scatter s{.update_window_dims = counting(1, rank),
            .inserted_window_dims = {},
            .scatter_dims_to_operand_dims = shifted(cut)};
  s.operand_batching_dims = s.indices_batching_dims = {0};
  s.mode = IndexMode::Clip;
  s.unique_indices = true;
  return {{scatter(x, index_vectors(b, a, 2, cut), update, s)}, {true}};
}

Types slice_infer(TypeSpan in, const DynamicSlice& p) {
  if (in.empty()) throw ValueError("[dynamic_slice] no operands; expected an array and its starts");
  check_starts("dynamic_slice", in, 1);
  if (p.sizes.size() != in[0].shape.size()) {
    bad_attr("dynamic_slice", "sizes",
             str(base::tuple_text(p.sizes), " for shape ", in[0].shape, "; expected one entry a dimension"));
  }
  for (std::size_t d = 0; d < p.sizes.size(); ++d) {
    if (p.sizes[d] < 0 || p.sizes[d] > in[0].shape[d]) {
      bad_attr("dynamic_slice", "sizes", str(p.sizes[d], " for dimension ", d, "; expected 0..", in[0].shape[d]));
    }
  }
  return {Type{in[0].dtype, p.sizes, in[0].weak}};
}

Types update_infer(TypeSpan in, const NoAttrs&) {
  const char* name = "dynamic_update_slice";
  if (in.size() < 2) throw ValueError(str("[", name, "] ", in.size(), " operands; expected array, update and starts"));
  check_same_dtype(name, in.first(2));
  check_starts(name, in, 2);
  bool fits = in[1].shape.size() == in[0].shape.size();
  for (std::size_t d = 0; fits && d < in[0].shape.size(); ++d) fits = in[1].shape[d] <= in[0].shape[d];
  if (!fits) bad_operand(name, 1, str("shape ", in[1].shape, "; expected at most ", in[0].shape, " of operand 0"));
  return {Type{in[0].dtype, in[0].shape, in[0].weak && in[1].weak}};
}
// Dimensions of which a part is taken or replaced, along which `full` is split.
Dims split_cuts(const ir::DivideArgs& a, const Shape& full, const Shape& window) {
  Dims out;
  for (auto d : cut_dims(full, window)) {
    if (a.parts_of(0, d) > 1) out.push_back(d);
  }
  return out;
}
Value clamped_start(Value start, std::int64_t room) {
  Value i = as_signed(start);
  return clamp(scalar(*i.builder, 0, i.dtype()), i, scalar(*i.builder, static_cast<double>(room), i.dtype()));
}
// x[…, places, …], where `places` are all inside.
Value taken(Value x, Value places, std::int64_t d) {
  Gather g{.collapsed_slice_dims = {d}, .start_index_map = {d}, .slice_sizes = x.shape()};
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    if (i != d) g.offset_dims.push_back(i);
  }
  g.slice_sizes[at(d)] = 1;
  g.mode = IndexMode::PromiseInBounds;
  return gather(x, expand_dims(places, {1}), g);
}

// Along split dimensions the elements are picked one by one, of which every shard gives those that it has.
std::optional<ir::Division> divide_slice(Builder& b, const ir::DivideArgs& a, const DynamicSlice& p) {
  Value x = a.in[0];
  const Shape full = x.shape();
  Dims split = split_cuts(a, full, p.sizes);
  if (split.empty() || size_of(p.sizes) == 0) return std::nullopt;
  Values starts(a.in.begin() + 1, a.in.end());
  Dims sizes = p.sizes;
  for (auto d : split) {
    starts[at(d)] = scalar(b, 0, starts[at(d)].dtype());
    sizes[at(d)] = full[at(d)];
  }
  if (sizes != full) x = dynamic_slice(x, starts, sizes);
  for (auto d : split) {
    Value start = clamped_start(a.in[at(d) + 1], full[at(d)] - p.sizes[at(d)]);
    x = taken(x, iota(b, start.dtype(), {p.sizes[at(d)]}, 0) + start, d);
  }
  return ir::Division{{x}};
}

// Where the slice begins, if that is known; clamped as the op does.
std::optional<Dims> known_starts(ValueSpan starts, const Shape& full, const Shape& window) {
  Dims out;
  for (std::size_t d = 0; d < full.size(); ++d) {
    const std::int64_t room = full[d] - window[d];
    auto start = room > 0 ? known_value(as_signed(starts[d])) : std::nullopt;
    if (room > 0 && !start) return std::nullopt;
    out.push_back(room == 0 ? 0 : std::clamp<std::int64_t>(load_int({start->dtype(), {}, start->data()}, 0), 0, room));
  }
  return out;
}

// A place that is known: a slice, which takes of its neighbours what lies beyond its own part.
std::optional<ir::Division> slice_at_known_place(Builder&, const ir::DivideArgs& a, const DynamicSlice& p) {
  Value x = a.in[0];
  const Shape full(x.shape().begin(), x.shape().end());
  if (split_cuts(a, full, p.sizes).empty() || size_of(p.sizes) == 0) return std::nullopt;
  auto starts = known_starts(a.in.subspan(1), full, p.sizes);
  if (!starts) return std::nullopt;
  Dims limits = *starts;
  for (std::size_t d = 0; d < limits.size(); ++d) limits[d] += p.sizes[d];
  return ir::Division{{slice(x, *starts, limits)}};
}

// Likewise an update that is padded to the array's shape.
std::optional<ir::Division> update_at_known_place(Builder& b, const ir::DivideArgs& a, const NoAttrs&) {
  Value x = a.in[0];
  Value update = a.in[1];
  // New equations move the types of those before.
  const Shape full(x.shape().begin(), x.shape().end());
  const Shape window(update.shape().begin(), update.shape().end());
  if (split_cuts(a, full, window).empty() || size_of(window) == 0) return std::nullopt;
  auto low = known_starts(a.in.subspan(2), full, window);
  if (!low) return std::nullopt;
  Dims high(full.size());
  for (std::size_t d = 0; d < high.size(); ++d) high[d] = full[d] - (*low)[d] - window[d];
  Value padded = pad(update, scalar(b, 0, x.dtype()), *low, high);
  return ir::Division{{where(inside_window(b, full, *low, window), padded, x)}};
}

// Every shard of the array picks what comes to it of the update.
std::optional<ir::Division> divide_update(Builder& b, const ir::DivideArgs& a, const NoAttrs&) {
  Value x = a.in[0];
  Value update = a.in[1];
  const Shape window = update.shape();
  Dims split = split_cuts(a, x.shape(), window);
  if (split.empty() || size_of(window) == 0) return std::nullopt;
  Values starts(a.in.begin() + 2, a.in.end());
  Value inside;
  for (auto d : split) {
    Value start = clamped_start(starts[at(d)], x.shape()[at(d)] - window[at(d)]);
    Value place = iota(b, start.dtype(), {x.shape()[at(d)]}, 0) - start;
    Value first = scalar(b, 0, place.dtype());
    Value last = scalar(b, static_cast<double>(window[at(d)] - 1), place.dtype());
    Value here = broadcast_in_dim(and_(ge(place, first), le(place, last)), x.shape(), {d});
    inside = inside ? and_(inside, here) : here;
    update = taken(update, clamp(first, place, last), d);
    starts[at(d)] = scalar(b, 0, starts[at(d)].dtype());
  }
  if (update.shape() != x.shape()) update = dynamic_update_slice(x, update, starts);
  return ir::Division{{where(inside, update, x)}};
}
}  // namespace

TESSERA_DEFINE_OP(
    dynamic_slice, DynamicSlice,
    {
        .name = "dynamic_slice",
        .traits = {.linearity = Linearity::Joint,
                   .linear_operands = 1,
                   .exact = true,
                   .whole_entry = ir::WholeEntry::Kept,
                   .activity = "slicing"},
        .infer = slice_infer,
        .factors = [](TypeSpan in, TypeSpan,
                      const DynamicSlice& p) { return window_factors(in[0].shape, p.sizes, 1, in.size() - 1); },
        .remap = [](const RemapArgs& r, const DynamicSlice&) { return DynamicSlice{r.local_out[0].shape}; },
        .batch = slice_batch,
        .jvp =
            [](Builder&, const JvpArgs& a, const DynamicSlice& p) {
              return Values{a.tangents[0] ? dynamic_slice(a.tangents[0], a.in.subspan(1), p.sizes) : Value{}};
            },
        .transpose =
            [](Builder& b, const TransposeArgs& t, const DynamicSlice&) {
              Values out(t.types.size());
              out[0] = dynamic_update_slice(zeros(b, t.types[0]), t.ct[0], t.in.subspan(1));
              return out;
            },
        .divide = {divide_slice, slice_by_routes, slice_at_known_place},
        .divide_with_maker = dynamic_slice_of_sorted,
        .reference =
            [](ViewSpan in, ViewSpan out, const DynamicSlice& p) {
              if (out[0].size() == 0) return;
              auto item = dtype_size(out[0].dtype);
              Dims from = core::contiguous_strides(in[0].shape, item);
              Dims to = core::contiguous_strides(out[0].shape, item);
              auto offset = byte_offset(in.subspan(1), in[0].shape, p.sizes, from);
              core::copy_strided(out[0].data, to, static_cast<const char*>(in[0].data) + offset, from, out[0].shape,
                                 item);
            },
        .samples =
            [] {
              Type x{DType::F32, {4, 6}};
              Type i{DType::I32, {}};
              Type u{DType::U8, {}};
              return std::vector<Sample<DynamicSlice>>{{{x, i, i}, {{2, 3}}},
                                                       {{x, i, i}, {{4, 3}}},
                                                       {{x, u, u}, {{1, 6}}},
                                                       {{Type{DType::I16, {5}}, i}, {{3}}}};
            },
    });

TESSERA_DEFINE_OP(
    dynamic_update_slice, NoAttrs,
    {
        .name = "dynamic_update_slice",
        .traits = {.linearity = Linearity::Joint,
                   .linear_operands = 2,
                   .exact = true,
                   .whole_entry = ir::WholeEntry::Kept,
                   .alike = true},
        .infer = update_infer,
        .factors = [](TypeSpan in, TypeSpan,
                      const NoAttrs&) { return window_factors(in[0].shape, in[1].shape, 2, in.size() - 2); },
        .remap = by_default,
        .batch = update_batch,
        .jvp =
            [](Builder& b, const JvpArgs& a, const NoAttrs&) {
              Value x = a.tangents[0] ? a.tangents[0] : zeros(b, a.in[0].type());
              Value update = a.tangents[1] ? a.tangents[1] : zeros(b, a.in[1].type());
              return Values{dynamic_update_slice(x, update, a.in.subspan(2))};
            },
        .transpose =
            [](Builder& b, const TransposeArgs& t, const NoAttrs&) {
              Values out(t.types.size());
              auto starts = t.in.subspan(2);
              if (t.linear[0]) out[0] = dynamic_update_slice(t.ct[0], zeros(b, t.types[1]), starts);
              if (t.linear[1]) out[1] = dynamic_slice(t.ct[0], starts, t.types[1].shape);
              return out;
            },
        .divide = {divide_update, update_at_known_place},
        .reference =
            [](ViewSpan in, ViewSpan out, const NoAttrs&) {
              auto item = dtype_size(out[0].dtype);
              auto bytes = out[0].size() * item;
              if (bytes == 0) return;
              std::memcpy(out[0].data, in[0].data, at(bytes));
              if (in[1].size() == 0) return;
              Dims to = core::contiguous_strides(out[0].shape, item);
              Dims from = core::contiguous_strides(in[1].shape, item);
              auto offset = byte_offset(in.subspan(2), in[0].shape, in[1].shape, to);
              core::copy_strided(static_cast<char*>(out[0].data) + offset, to, in[1].data, from, in[1].shape, item);
            },
        .samples =
            [] {
              Type x{DType::F32, {4, 6}};
              Type i{DType::I32, {}};
              return std::vector<Sample<NoAttrs>>{
                  {{x, Type{DType::F32, {2, 3}}, i, i}},
                  {{x, Type{DType::F32, {4, 1}}, i, i}},
                  {{x, Type{DType::F32, {0, 6}}, i, i}},
                  {{Type{DType::I16, {5}}, Type{DType::I16, {3}}, Type{DType::I8, {}}}}};
            },
    });

Value dynamic_slice(Value x, ValueSpan starts, const Dims& sizes) {
  Values in{x};
  in.insert(in.end(), starts.begin(), starts.end());
  return x.builder->add1(def::dynamic_slice, in, attrs(DynamicSlice{sizes}));
}
Value dynamic_update_slice(Value x, Value update, ValueSpan starts) {
  Values in{x, update};
  in.insert(in.end(), starts.begin(), starts.end());
  return x.builder->add1(def::dynamic_update_slice, in);
}

}  // namespace tessera::ops
