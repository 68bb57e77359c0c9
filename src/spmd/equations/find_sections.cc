// SPDX-License-Identifier: Apache-2.0
#include "spmd/equations/find_sections.h"

#include <algorithm>
#include <set>

#include "ir/op_def.h"
#include "ops/define_op.h"

namespace tessera::spmd {

using ir::ValueId;

bool divides(const Sections& s, std::int64_t extent, std::int64_t parts) {
  if (extent != s.all()) return false;
  if (s.parts != 0) return parts == 1 || parts == s.parts;
  return s.sizes[0] % parts == 0;
}

namespace {

// Of more each would be an equation, and weights of so many come in another form.
constexpr std::size_t kMostSections = 64;

std::optional<Sections> equal_sections(std::size_t dim, std::int64_t count, std::int64_t extent) {
  if (static_cast<std::size_t>(count) > kMostSections) return std::nullopt;
  return Sections{dim, Dims(static_cast<std::size_t>(count), extent / count), 0};
}

std::int64_t product(const Shape& s, std::size_t from, std::size_t to) {
  return std::accumulate(s.begin() + static_cast<std::ptrdiff_t>(from), s.begin() + static_cast<std::ptrdiff_t>(to),
                         std::int64_t{1}, std::multiplies<>());
}

// A dimension of `whole` that `apart` has as several, the first of them, `first`, its sections.
struct TakenApart {
  Sections sections;
  std::size_t first;
};
std::vector<TakenApart> taken_apart(const Shape& whole, const Shape& apart) {
  std::vector<TakenApart> out;
  std::size_t o = 0;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    const std::int64_t before = product(whole, 0, d);
    while (o < apart.size() && (product(apart, 0, o) < before || apart[o] == 1)) ++o;
    if (o >= apart.size() || product(apart, 0, o) != before) continue;
    std::size_t end = o + 1;
    while (end < apart.size() && product(apart, o, end) < whole[d]) ++end;
    if (apart[o] >= whole[d] || product(apart, o, end) != whole[d]) continue;
    if (auto sections = equal_sections(d, apart[o], whole[d])) out.push_back({*std::move(sections), o});
  }
  return out;
}

}  // namespace

SectionFinder::SectionFinder(const ir::Module& m, const std::vector<ir::Layout>& layouts)
    : g_(*m.graph), layouts_(layouts), mesh_(*m.mesh), uses_(g_) {}

Family SectionFinder::run() {
  Family out;
  for (const auto& e : g_.eqns) {
    auto seed = seed_of(e);
    if (!seed || out.contains(seed->first) || !splits(seed->first, seed->second.dim)) continue;
    grown_.clear();
    fits_ = true;
    has_product_ = false;
    join(seed->first, seed->second);
    grow();
    if (fits_ && has_product_) out.insert(grown_.begin(), grown_.end());
  }
  return out;
}

std::optional<std::pair<ValueId, Sections>> SectionFinder::seed_of(const ir::Eqn& e) const {
  if (!e.attrs || e.out.size() != 1 || g_.type(e.out[0]).size() == 0) return std::nullopt;
  auto as_found = [](ValueId v, const std::optional<Sections>& s) {
    return s ? std::optional(std::pair{v, *s}) : std::nullopt;
  };
  if (e.op == &ops::def::slice) return as_found(e.in[0], cut(e));
  if (const auto* p = ir::get_if<ops::Pad>(e.attrs)) return as_found(e.out[0], padded(e, *p));
  if (const auto* p = ir::get_if<ops::Concatenate>(e.attrs)) return as_found(e.out[0], joined(e, *p));
  if (e.op != &ops::def::reshape) return std::nullopt;
  for (auto [whole, apart] : {std::pair{e.in[0], e.out[0]}, std::pair{e.out[0], e.in[0]}}) {
    for (const auto& found : taken_apart(g_.type(whole).shape, g_.type(apart).shape)) {
      // Where the sections themselves are split, the reshape moves nothing.
      const bool moves = splits(whole, found.sections.dim) && layouts_[at(apart)].dims[found.first].empty();
      if (moves) return std::pair{whole, found.sections};
    }
  }
  return std::nullopt;
}

std::optional<Sections> SectionFinder::cut(const ir::Eqn& e) const {
  const auto d = cut_dim(e);
  if (!d) return std::nullopt;
  const std::int64_t extent = g_.type(e.in[0]).shape[*d];
  const std::int64_t unit = g_.type(e.out[0]).shape[*d];
  std::set<std::int64_t> ends{0, extent};
  bool equal = extent % unit == 0;
  for (const Use& other : uses_.of(e.in[0])) {
    if (cut_dim(*other.eqn) != d) continue;
    const auto& p = ir::get<ops::StaticSlice>(other.eqn->attrs);
    equal = equal && p.limits[*d] - p.starts[*d] == unit && p.starts[*d] % unit == 0;
    ends.insert({p.starts[*d], p.limits[*d]});
    if (ends.size() > kMostSections) return std::nullopt;
  }
  if (equal) return equal_sections(*d, extent / unit, extent);
  Dims sizes;
  for (auto it = ends.begin(), next = std::next(it); next != ends.end(); it = next++) sizes.push_back(*next - *it);
  Sections out = of_sizes(e.in[0], *d, std::move(sizes));
  const std::int64_t start = ir::get<ops::StaticSlice>(e.attrs).starts[*d];
  return out.beginning_at(start, unit) < 0 ? std::nullopt : std::optional(std::move(out));
}

std::optional<std::size_t> SectionFinder::cut_dim(const ir::Eqn& e) const {
  if (e.op != &ops::def::slice || g_.type(e.out[0]).size() == 0) return std::nullopt;
  const auto& p = ir::get<ops::StaticSlice>(e.attrs);
  return only_other(g_.type(e.in[0]).shape, g_.type(e.out[0]).shape, p.starts, p.strides, 1);
}

std::optional<std::size_t> SectionFinder::only_other(const Shape& whole, const Shape& part, const Dims& starts,
                                                     const Dims& steps, std::int64_t step) {
  std::optional<std::size_t> out;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] == part[d] && starts[d] == 0) continue;
    if (out || steps[d] != step) return std::nullopt;
    out = d;
  }
  return out;
}

std::optional<Sections> SectionFinder::padded(const ir::Eqn& e, const ops::Pad& p) const {
  const Shape& whole = g_.type(e.out[0]).shape;
  const Shape& part = g_.type(e.in[0]).shape;
  const auto d = only_other(whole, part, p.low, p.interior, 0);
  if (!d || part[*d] == 0 || p.low[*d] < 0 || p.high[*d] < 0 || whole[*d] % part[*d] != 0 || p.low[*d] % part[*d] != 0)
    return std::nullopt;
  return equal_sections(*d, whole[*d] / part[*d], whole[*d]);
}

std::optional<Sections> SectionFinder::joined(const ir::Eqn& e, const ops::Concatenate& p) const {
  const auto d = at(p.dimension);
  Dims sizes;
  for (auto v : e.in) sizes.push_back(g_.type(v).shape[d]);
  if (sizes.size() < 2 || sizes.size() > kMostSections || std::ranges::count(sizes, 0) > 0) return std::nullopt;
  return of_sizes(e.out[0], d, std::move(sizes));
}

Sections SectionFinder::of_sizes(ValueId v, std::size_t d, Dims sizes) const {
  const bool equal = std::ranges::all_of(sizes, [&](std::int64_t n) { return n == sizes[0]; });
  const std::int64_t parts = equal ? 0 : ir::parts(layouts_[at(v)].dims[d], mesh_);
  return {d, std::move(sizes), parts};
}

bool SectionFinder::splits(ValueId v, std::size_t dim) const { return ir::parts(layouts_[at(v)].dims[dim], mesh_) > 1; }

void SectionFinder::join(ValueId v, const Sections& s) {
  auto [it, is_new] = grown_.emplace(v, s);
  if (!is_new) {
    fits_ = fits_ && it->second == s;
    return;
  }
  auto shared = [&](std::int64_t n) { return s.parts == 0 || n % s.parts == 0; };
  fits_ = fits_ && std::ranges::all_of(s.sizes, shared) &&
          divides(s, g_.type(v).shape[s.dim], ir::parts(layouts_[at(v)].dims[s.dim], mesh_));
  list_.push_back(v);
}

void SectionFinder::grow() {
  while (!list_.empty() && fits_) {
    const ValueId v = list_.back();
    const Sections s = grown_.at(v);
    list_.pop_back();
    if (const ir::Eqn* e = uses_.maker(v)) grow_to_operands(*e, s);
    for (const Use& use : uses_.of(v)) grow_to_result(*use.eqn, s);
  }
  list_.clear();
}

bool SectionFinder::keeps(const ir::Eqn& e, const Sections& s) const {
  if (e.out.size() != 1) return false;
  if (e.op->traits().elementwise) return true;
  return e.op == &ops::def::sharding_constraint &&
         layouts_[at(e.in[0])].dims[s.dim] == layouts_[at(e.out[0])].dims[s.dim];
}

void SectionFinder::grow_to_operands(const ir::Eqn& e, const Sections& s) {
  has_product_ = has_product_ || e.op == &ops::def::dot_general;
  if (!keeps(e, s)) return;
  for (auto v : e.in) {
    if (g_.type(v).rank() > 0) join(v, s);
  }
}

void SectionFinder::grow_to_result(const ir::Eqn& e, const Sections& s) {
  has_product_ = has_product_ || e.op == &ops::def::dot_general;
  if (keeps(e, s)) join(e.out[0], s);
}

}  // namespace tessera::spmd
