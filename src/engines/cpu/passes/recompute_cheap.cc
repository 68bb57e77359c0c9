// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/recompute_cheap.h"

#include <algorithm>
#include <map>
#include <set>

#include "engines/cpu/passes/fuse_rules.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"

namespace tessera::cpu {

namespace {

struct Chain {
  std::set<std::size_t> eqns;          // of the producer, ascending
  std::set<ir::ValueId> more_to_read;  // whole values that the reader does not read otherwise
};

class Recomputer {
 public:
  explicit Recomputer(const ir::Graph& g)
      : g_(g),
        groups_(fusion_groups(g, true)),
        group_of_(g.eqns.size()),
        maker_(g.num_values(), -1),
        readers_(g.num_values()) {
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      for (auto i : groups_[k].eqns) group_of_[i] = k;
    }
    for (std::size_t i = 0; i < g.eqns.size(); ++i) {
      for (auto v : g.eqns[i].out) maker_[at(v)] = static_cast<std::int64_t>(i);
      for (auto v : g.eqns[i].in) readers_[at(v)].insert(group_of_[i]);
    }
    for (auto v : g.outputs) readers_[at(v)].insert(groups_.size());
  }

  FusedGraph run(const ir::GraphPtr& graph) {
    for (std::size_t k = 0; k < groups_.size(); ++k) {
      if (groups_[k].eqns.size() > 1) consider(k);
    }
    if (again_.empty()) return {graph, std::move(groups_)};
    ir::GraphPtr changed = written();
    return {changed, fusion_groups(*changed, true)};
  }

 private:
  bool whole(const FusionGroup& group, ir::ValueId v) const {
    return g_.type(v).shape == group.space && size_of(group.space) > 1;
  }

  // Values from memory that the group reads, by the group that made them.
  void consider(std::size_t reader) {
    std::map<std::size_t, std::set<ir::ValueId>> from;
    std::set<ir::ValueId> reads;
    std::set<ir::ValueId> under_windows;  // which only memory has
    for (auto i : groups_[reader].eqns) {
      if (reads_window(g_, groups_[reader], g_.eqns[i])) under_windows.insert(g_.eqns[i].in[0]);
    }
    for (auto i : groups_[reader].eqns) {
      for (auto v : g_.eqns[i].in) {
        if (maker_[at(v)] >= 0 && group_of_[at(maker_[at(v)])] == reader) continue;
        reads.insert(v);
        if (maker_[at(v)] < 0 || !whole(groups_[reader], v) || under_windows.contains(v)) continue;
        from[group_of_[at(maker_[at(v)])]].insert(v);
      }
    }
    for (const auto& [producer, values] : from) {
      if (groups_[producer].eqns.size() < 2 || groups_[producer].space != groups_[reader].space) continue;
      std::set<ir::ValueId> kept = reads;
      for (auto v : values) kept.erase(v);
      Chain chain;
      std::set<ir::ValueId> gone;
      for (auto v : values) {
        Chain longer = chain;
        if (follow(v, producer, kept, longer)) {
          chain = std::move(longer);
          gone.insert(v);
        } else {
          kept.insert(v);
        }
      }
      if (pays(chain, gone, reader)) again_.emplace(reader, std::pair(std::move(chain.eqns), std::move(gone)));
    }
  }

  // Adds what makes `v`; false where that is not cheap.
  bool follow(ir::ValueId v, std::size_t producer, const std::set<ir::ValueId>& kept, Chain& chain) const {
    constexpr std::size_t kLongest = 16;
    const FusionGroup& group = groups_[producer];
    if (kept.contains(v)) return true;
    auto role = group.produced.find(v);
    bool row = role != group.produced.end() && role->second == Role::Row;
    if (role == group.produced.end() || row) {
      if (whole(group, v)) chain.more_to_read.insert(v);
      return true;
    }
    std::size_t i = at(maker_[at(v)]);
    const ir::Eqn& e = g_.eqns[i];
    if (chain.eqns.contains(i)) return true;
    if (!e.op->traits().cheap || reduce_op(*e.op) || chain.eqns.size() >= kLongest) return false;
    chain.eqns.insert(i);
    return std::all_of(e.in.begin(), e.in.end(), [&](ir::ValueId x) { return follow(x, producer, kept, chain); });
  }

  // Whole values that are neither read nor, where nobody else wants them, written any more, against those read instead.
  bool pays(const Chain& chain, const std::set<ir::ValueId>& gone, std::size_t reader) const {
    auto unwritten = std::count_if(gone.begin(), gone.end(), [&](ir::ValueId v) {
      const auto& all = readers_[at(v)];
      auto others = all.size() - all.count(reader) - all.count(group_of_[at(maker_[at(v)])]);
      return others == 0;
    });
    auto instead = static_cast<std::ptrdiff_t>(chain.more_to_read.size());
    return !gone.empty() && instead <= unwritten && std::ssize(gone) + 2 * unwritten >= instead + 2;
  }

  // The graph with the chains in front of those who read them.
  ir::GraphPtr written() const {
    ir::Builder b;
    ir::Rewriter r(b, g_);
    r.add_inputs();
    std::map<std::size_t, Copies> copies;
    std::size_t i = 0;
    r.walk([&](const ir::Eqn& e, const ir::Values& now) {
      std::size_t group = group_of_[i++];
      ir::Values in = now;
      auto [begin, end] = again_.equal_range(group);
      for (auto it = begin; it != end; ++it) {
        const auto& [eqns, gone] = it->second;
        for (std::size_t k = 0; k < in.size(); ++k) {
          if (gone.contains(e.in[k])) in[k] = copy(e.in[k], eqns, copies[group], r);
        }
      }
      return r.copy(e, in);
    });
    return r.finish("recompute_cheap");
  }

  using Copies = std::map<ir::ValueId, ir::Value>;
  // The reader's own copy of `v`; its equations are written where that has not been done.
  ir::Value copy(ir::ValueId v, const std::set<std::size_t>& chain, Copies& copies, ir::Rewriter& r) const {
    if (auto known = copies.find(v); known != copies.end()) return known->second;
    if (maker_[at(v)] < 0 || !chain.contains(at(maker_[at(v)]))) return r[v];
    const ir::Eqn& e = g_.eqns[at(maker_[at(v)])];
    ir::Values in;
    for (auto x : e.in) in.push_back(copy(x, chain, copies, r));
    return copies[v] = r.copy(e, in)[0];
  }

  const ir::Graph& g_;
  std::vector<FusionGroup> groups_;
  std::vector<std::size_t> group_of_;  // by equation
  std::vector<std::int64_t> maker_;    // equation by value
  std::vector<std::set<std::size_t>> readers_;
  std::multimap<std::size_t, std::pair<std::set<std::size_t>, std::set<ir::ValueId>>> again_;  // by reader
};

}  // namespace

FusedGraph recompute_cheap(const ir::GraphPtr& graph) { return Recomputer(*graph).run(graph); }

}  // namespace tessera::cpu
