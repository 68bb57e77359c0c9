// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/halo.h"

#include <algorithm>

#include "core/strided_copy.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {

constexpr const char* kOnly = "stands in partitioned graphs only";

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

Types infer(TypeSpan in, const Halo& p) {
  bool single = p.results == 1;
  if (!single && (p.results < 1 || p.windows > 0 || p.starts.size() % at(p.results) != 0)) {
    throw ValueError(str("[halo] ", p.results, " results of ", p.starts.size(), " starts"));
  }
  if (in.size() != p.operands() && in.size() != p.operands() + 1) {
    throw ValueError(str("[halo] ", in.size(), " operands for ", p.operands(), " starts"));
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    auto rank = i < p.operands() ? p.shape.size() : 0;
    if (in[i].shape.size() != rank) bad_operand("halo", i, str("shape ", in[i].shape, "; expected rank ", rank));
  }
  Shape shape = p.shape;
  if (p.windows > 0) shape.insert(shape.begin(), p.windows);
  return Types(at(p.results), Type{in[0].dtype, shape, in[0].weak});
}

void fill_result(ViewSpan in, const View& out, const Halo& p, std::size_t first) {
  std::int64_t item = dtype_size(out.dtype);
  Dims to = core::contiguous_strides(p.shape, item);
  std::int64_t each = item;
  for (auto n : p.shape) each *= n;
  if (in.size() > p.operands()) {
    for (std::int64_t i = 0; i < out.size(); ++i) copy_element(out, i, in.back(), 0);
  }
  for (std::int64_t w = 0; w < std::max<std::int64_t>(p.windows, 1); ++w) {
    for (std::size_t k = 0; k < p.operands(); ++k) {
      Dims from = core::contiguous_strides(in[k].shape, item);
      Dims stride = to;
      Shape extent;
      char* target = static_cast<char*>(out.data) + w * each;
      const char* source = static_cast<const char*>(in[k].data);
      bool empty = false;
      for (std::size_t d = 0; d < p.shape.size(); ++d) {
        HaloLine line = halo_line(p, first + k, d, w, 0, p.shape[d], 0, in[k].shape[d]);
        empty = empty || line.count == 0;
        extent.push_back(line.count);
        target += line.position * to[d];
        source += line.element * from[d];
        stride[d] *= line.position_step;
        from[d] *= line.element_step;
      }
      if (!empty) core::copy_strided(target, stride, source, from, extent, item);
    }
  }
}

void reference(ViewSpan in, ViewSpan out, const Halo& p) {
  for (std::size_t r = 0; r < out.size(); ++r) fill_result(in, out[r], p, r * p.operands());
}

// Of two boxes the least that holds both.
HaloBox around(const HaloBox& a, const HaloBox& b) {
  HaloBox out = a;
  for (std::size_t d = 0; d < out.low.size(); ++d) {
    std::int64_t end = std::max(a.low[d] + a.extent[d], b.low[d] + b.extent[d]);
    out.low[d] = std::min(a.low[d], b.low[d]);
    out.extent[d] = end - out.low[d];
  }
  return out;
}

}  // namespace

namespace {
bool all_are(const Dims& dims, std::int64_t value) {
  return std::ranges::all_of(dims, [&](std::int64_t n) { return n == value; });
}
}  // namespace

bool shifts(const Halo& h) { return h.windows == 0 && all_are(h.strides, 1) && all_are(h.spacing, 1); }

bool is_window(const ir::Eqn& e) {
  if (e.op == &def::pad) return all_are(ir::get<Pad>(e.attrs).interior, 0);
  return e.op == &def::slice && all_are(ir::get<StaticSlice>(e.attrs).strides, 1);
}

std::int64_t HaloBox::size() const {
  std::int64_t n = 1;
  for (auto e : extent) n *= e;
  return n;
}

bool HaloBox::holds(const HaloBox& other) const {
  for (std::size_t d = 0; d < low.size(); ++d) {
    if (other.low[d] < low[d] || other.low[d] + other.extent[d] > low[d] + extent[d]) return false;
  }
  return true;
}

void add_box(std::vector<HaloBox>& boxes, HaloBox box) {
  for (HaloBox& have : boxes) {
    HaloBox both = around(have, box);
    if (both.size() > have.size() + box.size()) continue;
    have = std::move(both);
    return;
  }
  boxes.push_back(std::move(box));
}

Value window_stack(Value x, Value outside, const WindowStack& w, std::string_view cause) {
  Halo h;
  h.shape = x.shape();
  h.shape[w.dimension] = w.size;
  h.starts = {Dims(h.shape.size(), 0)};
  h.strides = h.spacing = Dims(h.shape.size(), 1);
  h.starts[0][w.dimension] = w.first;
  h.spacing[w.dimension] = w.spacing;
  h.windows = w.count;
  h.dimension = static_cast<std::int64_t>(w.dimension);
  h.step = w.step;
  h.reason = str(cause, " along a split dimension needs the edges of other shards");
  h.cause = std::string(cause);
  return x.builder->add1(def::halo, {x, outside}, ir::make_attrs(std::move(h)));
}

namespace {
const ir::Eqn* made_in(const Value& x) {
  const auto& eqns = x.builder->graph().eqns;
  auto makes = [&](const ir::Eqn& e) { return !e.out.empty() && e.out[0] == x.id; };
  auto it = std::find_if(eqns.rbegin(), eqns.rend(), makes);
  return it == eqns.rend() ? nullptr : &*it;
}
bool same_constant(const Value& a, const Value& b) {
  const ir::Eqn* x = made_in(a);
  const ir::Eqn* y = made_in(b);
  if (x == nullptr || y == nullptr) return false;
  return a == b || (x->op == &def::constant && y->op == &def::constant && ir::equal(x->attrs, y->attrs));
}
}  // namespace

PaddedWindows window_stack_of_padded(Value x, Value outside, const WindowStack& w, Outside read,
                                     std::string_view cause) {
  const ir::Eqn* maker = made_in(x);
  if (maker == nullptr || maker->op != &def::pad) return {window_stack(x, outside, w, cause)};
  Pad p = ir::get<Pad>(maker->attrs);
  const std::size_t d = w.dimension;
  const Value array = x.builder->value(maker->in[0]);
  const Value value = x.builder->value(maker->in[1]);
  const bool cut = p.low[d] < 0 || p.high[d] < 0;
  const bool unseen = (read == Outside::Unread && w.spacing == 1) || (!cut && same_constant(value, outside));
  if (array.type().size() == 0 || !unseen) return {window_stack(x, outside, w, cause)};
  WindowStack inner = w;
  inner.first -= p.low[d] * w.spacing;
  inner.spacing *= p.interior[d] + 1;
  PaddedWindows out{window_stack(array, value, inner, cause)};
  p.low[d] = p.high[d] = p.interior[d] = 0;
  if (all_are(p.low, 0) && all_are(p.high, 0) && all_are(p.interior, 0)) return out;
  for (Dims* v : {&p.low, &p.high, &p.interior}) v->insert(v->begin(), 0);
  out.taken = out.windows;
  out.windows = x.builder->add1(def::pad, {out.taken, value}, attrs(std::move(p)));
  return out;
}

HaloLine halo_line(const Halo& h, std::size_t k, std::size_t d, std::int64_t w, std::int64_t begin, std::int64_t end,
                   std::int64_t from, std::int64_t to) {
  std::int64_t start = h.starts[k][d] + (static_cast<std::int64_t>(d) == h.dimension ? w * h.step : 0);
  std::int64_t stride = h.strides[d];
  std::int64_t spacing = h.spacing[d];
  if (from >= to || begin >= end) return {};
  HaloLine line;
  if (spacing > 1) {
    std::int64_t first = std::max(from, ceil_div(begin + start, spacing));
    std::int64_t last = std::min(to - 1, floor_div(end - 1 + start, spacing));
    line = {last - first + 1, first * spacing - start, spacing, first, 1};
  } else {
    std::int64_t low = stride > 0 ? ceil_div(from - start, stride) : ceil_div(start - (to - 1), -stride);
    std::int64_t high = stride > 0 ? floor_div(to - 1 - start, stride) : floor_div(start - from, -stride);
    std::int64_t first = std::max(begin, low);
    std::int64_t last = std::min(end - 1, high);
    line = {last - first + 1, first, 1, start + stride * first, stride};
  }
  return line.count > 0 ? line : HaloLine{};
}

TESSERA_DEFINE_OP(halo, Halo,
                  {
                      .name = "halo",
                      .traits = {.linearity = Linearity::None, .collective = true, .exact = true},
                      .infer = infer,
                      .factors = Never{kOnly},
                      .remap = by_default,
                      .batch = Never{kOnly},
                      .jvp = Never{kOnly},
                      .transpose = Never{kOnly},
                      .reference = reference,
                      .samples = Never{"needs a mesh; tested with the partitioner"},
                  });

}  // namespace tessera::ops
