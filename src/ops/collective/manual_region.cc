// SPDX-License-Identifier: Apache-2.0
#include "ops/collective/manual_region.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/rewriter.h"
#include "ops/collective/shard_map_op.h"
#include "ops/define_op.h"
#include "ops/transform/graph_rules.h"

namespace tessera::ops {

std::int64_t RegionBoundary::parts(std::size_t dim) const {
  std::int64_t n = 1;
  for (auto a : dims[dim]) n *= mesh_sizes[at(a)];
  return n;
}
bool RegionBoundary::same_mesh(const RegionBoundary& other) const {
  return mesh_sizes == other.mesh_sizes && mesh_names == other.mesh_names && devices == other.devices;
}

namespace {

constexpr const char* kRegionMark = "stands in a function that is being traced only";

Types infer_boundary(const char* op, TypeSpan in, const RegionBoundary& p, bool enter) {
  check_count(op, in, 1);
  if (static_cast<std::int64_t>(p.dims.size()) != in[0].rank()) {
    bad_attr(op, "dims", str(p.dims.size(), " entries for shape ", in[0].shape, "; expected one a dimension"));
  }
  Type t = in[0];
  for (std::size_t d = 0; d < p.dims.size(); ++d) {
    if (enter && t.shape[d] % p.parts(d) != 0) {
      bad_operand(op, 0, str("dimension ", d, " of ", t, " is no multiple of ", p.parts(d)));
    }
    t.shape[d] = enter ? t.shape[d] / p.parts(d) : t.shape[d] * p.parts(d);
  }
  return {t};
}

// A mark answers its type and nothing else.
template <class P>
ir::OpSpec<P> mark_spec(const char* name, Types (*infer)(TypeSpan in, const P& p)) {
  return {.name = name,
          .infer = infer,
          .factors = Never{kRegionMark},
          .remap = by_default,
          .batch = Never{kRegionMark},
          .jvp = Never{kRegionMark},
          .transpose = Never{kRegionMark},
          .reference = Never{kRegionMark},
          .samples = Never{kRegionMark}};
}

}  // namespace

TESSERA_DEFINE_OP(full_to_shard, RegionBoundary,
                  {mark_spec<RegionBoundary>("full_to_shard", [](TypeSpan in, const RegionBoundary& p) {
                    return infer_boundary("full_to_shard", in, p, true);
                  })});
TESSERA_DEFINE_OP(shard_to_full, RegionBoundary,
                  {mark_spec<RegionBoundary>("shard_to_full", [](TypeSpan in, const RegionBoundary& p) {
                    return infer_boundary("shard_to_full", in, p, false);
                  })});
TESSERA_DEFINE_OP(mark_manual, ManualMark, {mark_spec<ManualMark>("mark_manual", [](TypeSpan in, const ManualMark&) {
                    check_count("mark_manual", in, 1);
                    return Types{in[0]};
                  })});

namespace {

bool enters(const ir::Eqn& e) { return e.op == &def::full_to_shard; }
bool leaves(const ir::Eqn& e) { return e.op == &def::shard_to_full; }
bool is_constant(const ir::Eqn& e) { return e.in.empty() && (e.op == &def::constant || e.op == &def::iota); }

// Collectives of the equation itself or of its loops and branches; not those of a map, which binds its own names.
bool uses_axes(const ir::Eqn& e) {
  if (e.op == &def::shard_map) return false;
  if (collective_of(e) != nullptr) return true;
  auto inner = e.op->subgraphs(e.attrs);
  return std::any_of(inner.begin(), inner.end(),
                     [](const GraphPtr& g) { return std::any_of(g->eqns.begin(), g->eqns.end(), uses_axes); });
}

// Where every value and equation stands. Levels count the regions that lie before: global equations of level n come
// after regions of level n - 1 and before those of level n.
struct Survey {
  explicit Survey(const Graph& graph)
      : g(graph), region(g.num_values()), level(g.num_values()), maker(g.num_values(), -1) {
    for (std::size_t i = 0; i < g.eqns.size(); ++i) look_at(i);
  }

  const Graph& g;
  std::vector<const RegionBoundary*> region;  // by value; null: global
  std::vector<std::int64_t> level;            // by value
  std::vector<std::int64_t> maker;            // by value: number of its equation
  std::vector<const RegionBoundary*> inside;  // by equation; null: global. Boundarys stand in their region.
  std::vector<std::int64_t> stage;            // by equation: its level
  const RegionBoundary* last = nullptr;       // of the newest region
  std::int64_t effects = 0;                   // level of the last equation with an effect

  void look_at(std::size_t i) {
    const ir::Eqn& e = g.eqns[i];
    const RegionBoundary* own = enters(e) ? &ir::get<RegionBoundary>(e.attrs) : nullptr;
    std::int64_t n = 0;
    for (auto v : e.in) {
      n = std::max(n, level[at(v)]);
      const RegionBoundary* r = region[at(v)];
      if (r == nullptr) continue;
      if (own != nullptr && !own->same_mesh(*r)) {
        throw ValueError(str("[", e.op->name(), "] values are manual over the meshes (", join(own->mesh_names.list),
                             ") and (", join(r->mesh_names.list), "); expected values of one manual region"));
      }
      own = r;
    }
    if (own == nullptr && last != nullptr && uses_axes(e)) own = last;
    if (has_effect(e)) n = effects = std::max(n, effects);
    if (enters(e)) last = own;
    inside.push_back(own);
    stage.push_back(n);
    for (auto v : e.out) {
      region[at(v)] = leaves(e) ? nullptr : own;
      level[at(v)] = leaves(e) ? n + 1 : n;
      maker[at(v)] = static_cast<std::int64_t>(i);
    }
  }
};

// Builds the new graph: global equations as they are, each component of manual ones as a shard_map.
class Grouper {
 public:
  explicit Grouper(const Graph& g) : g_(g), s_(g), parent_(g.eqns.size()), last_read_(g.num_values()), now_(b_, g) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    for (std::size_t i = 0; i < g.eqns.size(); ++i) {
      for (auto v : g.eqns[i].in) {
        last_read_[at(v)] = std::max(last_read_[at(v)], s_.stage[i]);
        if (s_.region[at(v)] != nullptr && same_stage(i, at(s_.maker[at(v)])))
          parent_[root(i)] = root(at(s_.maker[at(v)]));
      }
    }
  }

  GraphPtr build() {
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) {
      const RegionBoundary* r = s_.region[at(g_.outputs[i])];
      if (r == nullptr) continue;
      throw ValueError(str("traced function: output ", i, " is still manual over the mesh (", join(r->mesh_names.list),
                           "); call disable_manual_sharding before it is returned"));
    }
    now_.add_inputs();
    std::int64_t last = 0;
    for (auto n : s_.stage) last = std::max(last, n);
    for (std::int64_t n = 0; n <= last; ++n) {
      std::map<std::size_t, std::vector<std::size_t>> components;
      for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
        if (s_.stage[i] != n) continue;
        if (s_.inside[i] == nullptr) {
          now_.copy(g_.eqns[i]);
        } else {
          components[root(i)].push_back(i);
        }
      }
      for (const auto& [first, eqns] : components) add_map(eqns);
    }
    return now_.finish("group_manual_regions");
  }

 private:
  bool same_stage(std::size_t a, std::size_t b) const { return s_.stage[a] == s_.stage[b]; }
  std::size_t root(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }

  // One component on its way to a map.
  struct Map {
    explicit Map(const Graph& g) : block(body, g) {}
    Builder body;
    ir::Rewriter block;
    ShardMap p;
    Values in;                                          // of the map
    Values out;                                         // of the body
    std::vector<std::pair<ir::ValueId, bool>> results;  // old value; true: it goes on in a later region
  };

  // An operand of a manual equation inside the body.
  void bring(Map& m, ir::ValueId v) {
    if (m.block[v]) return;
    const Type& t = g_.type(v);
    if (s_.region[at(v)] != nullptr) {  // of an earlier region: it left with all instances stacked
      m.in.push_back(now_[v]);
      m.p.in_specs.list.emplace_back(at(t.rank() + 1));
      m.p.in_specs.list.back()[0] = m.p.manual;
      Type block = t;
      block.shape.insert(block.shape.begin(), 1);
      m.block.bind(v, reshape(m.body.input(block), t.shape));
      return;
    }
    if (s_.maker[at(v)] >= 0 && is_constant(g_.eqns[at(s_.maker[at(v)])])) {
      m.block.copy(g_.eqns[at(s_.maker[at(v)])]);
      return;
    }
    m.in.push_back(now_[v]);
    m.p.in_specs.list.emplace_back(at(t.rank()));
    m.block.bind(v, m.body.input(t));
  }

  void enter(Map& m, const ir::Eqn& e) {
    m.in.push_back(now_[e.in[0]]);
    m.p.in_specs.list.push_back(ir::get<RegionBoundary>(e.attrs).dims);
    m.block.bind(e.out[0], m.body.input(g_.type(e.out[0])));
  }
  void leave(Map& m, const ir::Eqn& e) {
    bring(m, e.in[0]);
    m.out.push_back(m.block[e.in[0]]);
    m.p.out_specs.list.push_back(ir::get<RegionBoundary>(e.attrs).dims);
    m.results.emplace_back(e.out[0], false);
  }
  // Manual results that equations of later regions read.
  void hand_on(Map& m, const ir::Eqn& e, std::size_t stage) {
    for (auto v : e.out) {
      if (last_read_[at(v)] <= static_cast<std::int64_t>(stage)) continue;
      const Type& t = g_.type(v);
      Shape shape = t.shape;
      shape.insert(shape.begin(), 1);
      m.out.push_back(reshape(m.block[v], shape));
      m.p.out_specs.list.emplace_back(at(t.rank() + 1));
      m.p.out_specs.list.back()[0] = m.p.manual;
      m.results.emplace_back(v, true);
    }
  }

  void add_map(const std::vector<std::size_t>& eqns) {
    const RegionBoundary& boundary = *s_.inside[eqns[0]];
    Map m(g_);
    m.p.mesh_sizes = boundary.mesh_sizes;
    m.p.mesh_names = boundary.mesh_names;
    m.p.devices = boundary.devices;
    m.p.manual.resize(boundary.mesh_sizes.size());
    std::iota(m.p.manual.begin(), m.p.manual.end(), std::int64_t{0});
    m.p.checked = false;
    for (auto i : eqns) {
      const ir::Eqn& e = g_.eqns[i];
      if (enters(e)) {
        enter(m, e);
      } else if (leaves(e)) {
        leave(m, e);
        continue;
      } else {
        for (auto v : e.in) bring(m, v);
        if (e.op == &def::mark_manual) {
          m.block.bind(e.out[0], m.block[e.in[0]]);
        } else {
          m.block.copy(e);
        }
      }
      hand_on(m, e, at(s_.stage[i]));
    }
    b_.set_loc(g_.eqns[eqns[0]].loc);
    m.p.body = m.body.finish_shared(m.out);
    Values out = shard_map(b_, m.p, m.in);
    for (std::size_t k = 0; k < out.size(); ++k) now_.bind(m.results[k].first, out[k]);
  }

  const Graph& g_;
  Survey s_;
  std::vector<std::size_t> parent_;
  std::vector<std::int64_t> last_read_;  // by value: latest level of an equation that reads it
  Builder b_;
  ir::Rewriter now_;  // global values, and manual ones that were handed on
};

}  // namespace

const RegionBoundary* region_of(const Graph& g, ir::ValueId v) { return Survey(g).region[at(v)]; }

GraphPtr group_manual_regions(const GraphPtr& g) {
  if (std::none_of(g->eqns.begin(), g->eqns.end(), enters)) return g;
  return Grouper(*g).build();
}

}  // namespace tessera::ops
