// SPDX-License-Identifier: Apache-2.0
// What all collectives share: names, groups, and access to attributes.
#include "ops/collective/collectives.h"

#include "ops/collective/manual.h"
#include "ops/define_op.h"

namespace tessera::ops {

namespace {
constexpr const char* kMark = "@vmap";
}  // namespace

std::string field_text(const Names& v) {
  std::vector<std::string> names;
  for (const auto& n : v.list) names.push_back(ir::name_text(n));
  return str("(", base::join(names), ")");
}
void read_field(ir::TextReader& r, Names& v) {
  ir::read_items(r, [&] { v.list.push_back(r.name()); });
}
std::size_t field_hash(const Names& v) {
  std::size_t h = 19;
  for (const auto& n : v.list) h = base::hash_mix(h, std::hash<std::string>{}(n));
  return h;
}
std::string vmapped_name(const std::string& name, std::size_t depth) { return str(name, kMark, depth); }
bool is_vmapped(const std::string& name) { return name.find(kMark) != std::string::npos; }
std::string plain_name(const std::string& name) { return name.substr(0, name.find(kMark)); }

std::int64_t Collective::total() const {
  std::int64_t n = 1;
  for (auto s : sizes) n *= s;
  return n;
}
std::int64_t Collective::group_size() const {
  return groups ? static_cast<std::int64_t>(groups->front().size()) : total();
}
Groups Collective::group_list() const {
  if (groups) return *groups;
  Dims all;
  for (std::int64_t i = 0; i < total(); ++i) all.push_back(i);
  return {all};
}

Dims Ppermute::sources() const {
  Dims out(at(total()), -1);
  for (const auto& p : pairs) out[at(p[1])] = p[0];
  return out;
}

namespace {
// The typed attributes of a collective, handed to `f`.
template <class F>
auto visit(const ir::Eqn& e, const F& f) {
  using R = decltype(f(std::declval<const Collective&>()));
  if (e.op == &def::all_gather) return f(ir::get<AllGather>(e.attrs));
  if (e.op == &def::psum_scatter) return f(ir::get<PsumScatter>(e.attrs));
  if (e.op == &def::all_to_all) return f(ir::get<AllToAll>(e.attrs));
  if (e.op == &def::ppermute) return f(ir::get<Ppermute>(e.attrs));
  if (e.op == &def::pbroadcast) return f(ir::get<Pbroadcast>(e.attrs));
  if (e.op == &def::psum || e.op == &def::pmax || e.op == &def::pmin || e.op == &def::axis_index ||
      e.op == &def::pvary || e.op == &def::ragged_all_to_all) {
    return f(ir::get<Collective>(e.attrs));
  }
  return R{};
}
}  // namespace

const Collective* collective_of(const ir::Eqn& e) {
  if (!e.op->traits().collective || !e.attrs) return nullptr;
  return visit(e, [](const auto& p) -> const Collective* { return &p; });
}

ir::Attrs with_axes(const ir::Eqn& e, const Dims& axes) {
  return visit(e, [&](const auto& p) -> ir::Attrs {
    auto q = p;
    q.axes = axes;
    return attrs(std::move(q));
  });
}

}  // namespace tessera::ops
