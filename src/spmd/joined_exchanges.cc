// SPDX-License-Identifier: Apache-2.0
// Exchanges that become one: what each waits for, a collective's start, is then waited for once.
#include <algorithm>
#include <unordered_map>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/control/subgraph_structure.h"
#include "ops/shape/halo.h"
#include "ops/shared_attrs.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

namespace {

// Larger sums take their time by the byte, and all results of one exchange are in memory together.
constexpr std::int64_t kMostBytes = 16 << 10;
constexpr std::int64_t kMostTogether = 1 << 20;
// Equations that are computed earlier, so that what they make can go with an exchange that was before them.
constexpr std::size_t kMostEarlier = 8;

class Joiner {
 public:
  explicit Joiner(const ir::Graph& g)
      : g_(g), maker_(g.num_values(), kInput), place_(g.eqns.size()), joined_(g.eqns), earlier_(g.eqns.size()) {}

  ir::GraphPtr run() {
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      const ir::Eqn& e = g_.eqns[i];
      if (auto control = ops::control_of(e)) join_bodies(i, *control);
      place_[i] = 2 * i + 1;
      for (auto v : e.out) maker_[static_cast<std::size_t>(v)] = i;
      if (exchanges(e)) find_place(i);
    }
    if (!changed_) return nullptr;
    auto out = std::make_shared<ir::Graph>(g_);
    out->eqns.clear();
    for (std::size_t i = 0; i < joined_.size(); ++i) {
      for (auto k : earlier_[i]) out->eqns.push_back(g_.eqns[k]);
      if (joined_[i].op != nullptr) out->eqns.push_back(std::move(joined_[i]));
    }
    auto stand_in = [&](std::vector<ir::ValueId>& values) {
      for (auto& v : values) {
        auto it = instead_.find(v);
        if (it != instead_.end()) v = it->second;
      }
    };
    for (ir::Eqn& e : out->eqns) stand_in(e.in);
    stand_in(out->outputs);
    return out;
  }

 private:
  static constexpr std::size_t kInput = static_cast<std::size_t>(-1);

  // Equations that become the first of them, with bytes received when apart.
  struct Group {
    std::vector<std::size_t> members;
    std::int64_t bytes;
  };

  void join_bodies(std::size_t i, const ops::Control& control) {
    std::vector<ir::GraphPtr> bodies;
    bool any = false;
    for (const auto& body : control.bodies) {
      bodies.push_back(join_exchanges(body.graph));
      any = any || bodies.back() != body.graph;
    }
    if (!any) return;
    joined_[i].attrs = ops::with_bodies(g_.eqns[i], bodies);
    changed_ = true;
  }

  std::int64_t received(const ir::Eqn& e) const { return ops::received(g_, e); }

  bool exchanges(const ir::Eqn& e) const {
    if (e.op == &ops::def::halo) {
      const auto& h = ir::get<ops::Halo>(e.attrs);
      auto one = [](std::int64_t n) { return n == 1; };
      return h.windows == 0 && std::ranges::all_of(h.strides, one) && std::ranges::all_of(h.spacing, one) &&
             received(e) > 0;
    }
    if (e.op != &ops::def::reshard || ir::get<ops::Reshard>(e.attrs).kind != ops::Reshard::Kind::AllReduce)
      return false;
    return ops::local_bytes(g_.type(e.out[0]), g_.layout(e.out[0]), *g_.mesh) <= kMostBytes;
  }

  // Joins an equation to the first group that takes it and can have its operand, or begins one.
  void find_place(std::size_t i) {
    for (Group& group : groups_) {
      if (!fits(group, g_.eqns[i])) continue;
      std::vector<std::size_t> before;
      if (!ready_for(g_.eqns[i], group.members.front(), before)) continue;
      std::ranges::sort(before);
      for (auto k : before) {
        earlier_[group.members.front()].push_back(k);
        place_[k] = 2 * group.members.front();
        joined_[k].op = nullptr;
      }
      return take(group, i);
    }
    groups_.push_back({{i}, received(g_.eqns[i])});
  }

  // Whether the operands of an equation are there before equation `first`, or can be: `before` are equations that are
  // to be computed earlier for it. What exchanges or has effects stays where it is.
  bool ready_for(const ir::Eqn& e, std::size_t first, std::vector<std::size_t>& before) const {
    for (auto v : e.in) {
      std::size_t k = maker_[static_cast<std::size_t>(v)];
      if (k == kInput || place_[k] < 2 * first + 1 || std::ranges::find(before, k) != before.end()) continue;
      const ir::Eqn& made = g_.eqns[k];
      bool fixed = made.op->traits().collective || ir::has_effect(made) || ops::control_of(made);
      if (fixed || before.size() == kMostEarlier) return false;
      before.push_back(k);
      if (!ready_for(made, first, before)) return false;
    }
    return true;
  }

  // A value or a constant that was written twice, as fillings are.
  bool are_same(ir::ValueId x, ir::ValueId y) const {
    auto constant = [&](ir::ValueId v) {
      const std::size_t k = maker_[static_cast<std::size_t>(v)];
      return k != kInput && g_.eqns[k].op == &ops::def::constant ? &g_.eqns[k] : nullptr;
    };
    const ir::Eqn* a = constant(x);
    const ir::Eqn* b = constant(y);
    return x == y || (a != nullptr && b != nullptr && ir::equal(a->attrs, b->attrs) && g_.layout(x) == g_.layout(y));
  }

  bool fits(const Group& group, const ir::Eqn& e) const {
    const ir::Eqn& first = g_.eqns[group.members.front()];
    if (first.op != e.op) return false;
    if (e.op == &ops::def::reshard) {
      const ir::Layout& a = g_.layout(first.in[0]);
      const ir::Layout& b = g_.layout(e.in[0]);
      const ir::Layout& to = g_.layout(e.out[0]);
      return a.reduction == b.reduction &&
             (a.partial & ~g_.layout(first.out[0]).partial) == (b.partial & ~to.partial) &&
             g_.type(first.in[0]).dtype == g_.type(e.in[0]).dtype && group.bytes + received(e) <= kMostTogether;
    }
    const auto& a = ir::get<ops::Halo>(first.attrs);
    const auto& b = ir::get<ops::Halo>(e.attrs);
    auto same = [&](ir::ValueId x, ir::ValueId y) { return are_same(x, y); };
    if (!std::ranges::equal(first.in, e.in, same) || a.shape != b.shape ||
        g_.layout(first.out[0]) != g_.layout(e.out[0]))
      return false;
    Group larger = group;
    larger.members.push_back(static_cast<std::size_t>(&e - g_.eqns.data()));
    return received(together(larger)) <= group.bytes + received(e);
  }

  // The first member whose result is that of member k: programs write the same shift of an array more than once.
  std::size_t first_like(const Group& group, std::size_t k) const {
    auto starts = [&](std::size_t m) -> const std::vector<Dims>& {
      return ir::get<ops::Halo>(g_.eqns[group.members[m]].attrs).starts;
    };
    if (g_.eqns[group.members[k]].op != &ops::def::halo) return k;
    std::size_t m = 0;
    while (starts(m) != starts(k)) ++m;
    return m;
  }

  // The group as one equation.
  ir::Eqn together(const Group& group) const {
    ir::Eqn out = g_.eqns[group.members.front()];
    std::vector<const ir::Eqn*> all;
    for (auto i : group.members) all.push_back(&g_.eqns[i]);
    for (std::size_t k = 1; k < all.size(); ++k) {
      if (out.op == &ops::def::reshard) out.in.push_back(all[k]->in[0]);
      if (first_like(group, k) == k) out.out.push_back(all[k]->out[0]);
    }
    if (const auto* p = ir::get_if<ops::Reshard>(out.attrs)) {
      ops::Reshard joined = *p;
      explain(all, joined, out.loc);
      out.attrs = ir::make_attrs(std::move(joined));
    } else {
      ops::Halo joined = ir::get<ops::Halo>(out.attrs);
      for (std::size_t k = 1; k < all.size(); ++k) {
        const auto& more = ir::get<ops::Halo>(all[k]->attrs).starts;
        if (first_like(group, k) == k) joined.starts.insert(joined.starts.end(), more.begin(), more.end());
      }
      joined.results = static_cast<std::int64_t>(out.out.size());
      explain(all, joined, out.loc);
      out.attrs = ir::make_attrs(std::move(joined));
    }
    return out;
  }

  // For the plan: every cause with its line, the last of them as the equation's own, and every reason.
  template <class Attrs>
  static void explain(const std::vector<const ir::Eqn*>& all, Attrs& joined, Loc& loc) {
    std::vector<std::string> causes, reasons;
    auto is_new = [](std::vector<std::string>& seen, std::string text) {
      if (std::ranges::find(seen, text) != seen.end()) return false;
      seen.push_back(std::move(text));
      return true;
    };
    for (const ir::Eqn* e : all) {
      const auto& p = ir::get<Attrs>(e->attrs);
      is_new(reasons, p.reason);
      if (!is_new(causes, str(p.cause, " at ", e->loc))) continue;
      bool first = causes.size() == 1;
      joined.cause = first ? p.cause : str(joined.cause, loc.file ? str(" at ", loc) : std::string(), ", ", p.cause);
      loc = e->loc;
    }
    joined.reason = str(join(reasons, "; "), "; ", all.size(), " such exchanges as one");
  }

  void take(Group& group, std::size_t i) {
    group.bytes += received(g_.eqns[i]);
    group.members.push_back(i);
    const std::size_t same = first_like(group, group.members.size() - 1);
    if (group.members[same] != i) instead_[g_.eqns[i].out[0]] = g_.eqns[group.members[same]].out[0];
    joined_[group.members.front()] = together(group);
    joined_[i].op = nullptr;
    changed_ = true;
  }

  const ir::Graph& g_;
  std::vector<std::size_t> maker_;  // by value: the equation that makes it, as far as they have been looked at
  std::vector<std::size_t> place_;  // by equation: odd where it stands, even where it is before equation place / 2
  std::vector<ir::Eqn> joined_;     // by equation what stands there; without op where it has joined or gone before one
  std::vector<std::vector<std::size_t>> earlier_;  // by equation those that have gone before it
  std::vector<Group> groups_;
  std::unordered_map<ir::ValueId, ir::ValueId> instead_;  // by result of an exchange that is there already: that one's
  bool changed_ = false;
};

}  // namespace

ir::GraphPtr join_exchanges(const ir::GraphPtr& partitioned) {
  ir::GraphPtr out = Joiner(*partitioned).run();
  return out ? out : partitioned;
}

}  // namespace tessera::spmd
