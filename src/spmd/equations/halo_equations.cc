// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/halo_equations.h"

#include <algorithm>
#include <utility>

#include "ir/op_def.h"
#include "ops/shared_attrs.h"

namespace tessera::spmd {

namespace {

Moves standing(const ir::Type& out, std::size_t operands) {
  Moves m;
  m.halo.shape = out.shape;
  Dims ones(out.shape.size(), 1);
  m.halo.starts.assign(operands, Dims(out.shape.size(), 0));
  m.halo.strides = m.halo.spacing = ones;
  return m;
}

Moves of_slice(const ops::StaticSlice& p, const ir::Type& in, const ir::Type& out) {
  Moves m = standing(out, 1);
  m.halo.starts[0] = p.starts;
  m.halo.strides = p.strides;
  for (std::size_t d = 0; d < in.shape.size(); ++d) {
    if (in.shape[d] != out.shape[d]) m.dims.push_back({0, d});
  }
  return m;
}

Moves of_pad(const ops::Pad& p, const ir::Type& out) {
  Moves m = standing(out, 1);
  for (std::size_t d = 0; d < out.shape.size(); ++d) {
    m.halo.starts[0][d] = -p.low[d];
    m.halo.spacing[d] = p.interior[d] + 1;
    if (p.low[d] != 0 || p.high[d] != 0 || p.interior[d] != 0) m.dims.push_back({0, d});
  }
  return m;
}

Moves of_rev(const ops::Rev& p, const ir::Type& out) {
  Moves m = standing(out, 1);
  for (auto axis : p.dimensions) {
    auto d = static_cast<std::size_t>(axis);
    m.halo.starts[0][d] = out.shape[d] - 1;
    m.halo.strides[d] = -1;
    m.dims.push_back({0, d});
  }
  return m;
}

Moves of_concatenate(const ops::Concatenate& p, ir::TypeSpan in, const ir::Type& out) {
  Moves m = standing(out, in.size());
  auto d = static_cast<std::size_t>(p.dimension);
  std::int64_t before = 0;
  for (std::size_t k = 0; k < in.size(); ++k) {
    m.halo.starts[k][d] = -before;
    before += in[k].shape[d];
    m.dims.push_back({k, d});
  }
  return m;
}

}  // namespace

std::optional<Moves> moves_of(const ir::Eqn& e, const ir::Graph& g) {
  if (!e.attrs || e.out.empty()) return std::nullopt;
  std::optional<Moves> m;
  const ir::Type& out = g.type(e.out[0]);
  if (const auto* slice = ir::get_if<ops::StaticSlice>(e.attrs)) m = of_slice(*slice, g.type(e.in[0]), out);
  if (const auto* pad = ir::get_if<ops::Pad>(e.attrs)) m = of_pad(*pad, out);
  if (const auto* rev = ir::get_if<ops::Rev>(e.attrs)) m = of_rev(*rev, out);
  if (const auto* joined = ir::get_if<ops::Concatenate>(e.attrs)) m = of_concatenate(*joined, types_of(g, e.in), out);
  if (!m || m->dims.empty() || out.size() == 0) return std::nullopt;
  for (auto v : e.in) {
    if (g.type(v).size() == 0) return std::nullopt;
  }
  m->operands = e.in;
  return m;
}

namespace {

// Positions of a result of `extent` that an operand of `length` elements covers, the first of them element `start`.
std::pair<std::int64_t, std::int64_t> covered(std::int64_t start, std::int64_t length, std::int64_t extent) {
  return {std::clamp<std::int64_t>(-start, 0, extent), std::clamp<std::int64_t>(length - start, 0, extent)};
}

// Whether the whole operand of a slice covers no position that the slice does not.
bool hides(const ops::StaticSlice& slice, const Shape& whole, const Shape& cut, const ops::Halo& h, std::size_t k) {
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (slice.strides[d] != 1 || h.strides[d] != 1 || h.spacing[d] != 1) return false;
    std::int64_t start = h.starts[k][d];
    if (covered(start, cut[d], h.shape[d]) != covered(start + slice.starts[d], whole[d], h.shape[d])) return false;
  }
  return true;
}

}  // namespace

std::optional<Moves> through_slices(const Moves& m, const ir::Graph& g,
                                    const std::function<const ir::Eqn*(ir::ValueId)>& maker) {
  Moves out = m;
  bool any = false;
  for (std::size_t k = 0; k < m.halo.starts.size(); ++k) {
    const ir::Eqn* e = maker(m.operands[k]);
    const auto* slice = e == nullptr || !e->attrs ? nullptr : ir::get_if<ops::StaticSlice>(e->attrs);
    if (slice == nullptr) continue;
    const Shape& whole = g.type(e->in[0]).shape;
    const Shape& cut = g.type(m.operands[k]).shape;
    if (!hides(*slice, whole, cut, m.halo, k)) continue;
    for (std::size_t d = 0; d < whole.size(); ++d) {
      out.halo.starts[k][d] += slice->starts[d];
      if (whole[d] != cut[d]) out.dims.push_back({k, d});
    }
    out.operands[k] = e->in[0];
    any = true;
  }
  if (!any) return std::nullopt;
  return out;
}

std::optional<Moves> through_padding(const Moves& m, const ir::Graph& g, const ir::Eqn* maker) {
  const auto* pad = maker == nullptr || !maker->attrs ? nullptr : ir::get_if<ops::Pad>(maker->attrs);
  const auto one = [](std::int64_t n) { return n == 1; };
  bool slices = m.operands.size() == 1 && std::ranges::all_of(m.halo.strides, one) &&
                std::ranges::all_of(m.halo.spacing, one) && g.type(m.operands[0]).size() > 0;
  if (pad == nullptr || !slices || std::ranges::any_of(pad->interior, [](std::int64_t n) { return n != 0; }))
    return std::nullopt;
  Moves out = m;
  out.operands = maker->in;
  out.dims.clear();
  const Shape& shape = g.type(maker->in[0]).shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    out.halo.starts[0][d] -= pad->low[d];
    if (out.halo.starts[0][d] != 0 || shape[d] != m.halo.shape[d]) out.dims.push_back({0, d});
  }
  if (out.dims.empty() || g.type(maker->in[0]).size() == 0) return std::nullopt;
  return out;
}

}  // namespace tessera::spmd
