// SPDX-License-Identifier: Apache-2.0
#include "hlo/sharding/shard_marks.h"

#include <numeric>
#include <unordered_map>
#include <utility>

namespace tessera::hlo {

std::string custom_call_target(const AstOp& op) {
  if (op.name != "stablehlo.custom_call") return "";
  if (const AstAttr* a = op.find("call_target_name")) return a->text;
  return op.words.empty() ? "" : op.words[0].text;
}

namespace {
bool is_entry(const AstOp& op) { return custom_call_target(op) == "SPMDFullToShardShape" && op.operands.size() == 1; }
bool is_exit(const AstOp& op) { return custom_call_target(op) == "SPMDShardToFullShape" && op.operands.size() == 1; }

// "%0" of "%0#1".
std::string_view base_name(std::string_view name) { return name.substr(0, name.find('#')); }

std::string sharding_of(const AstOp& op) {
  const AstAttr* a = op.find("mhlo.sharding");
  return a == nullptr ? "" : a->text;
}

class Grouping {
 public:
  explicit Grouping(const std::vector<AstOp>& ops) : ops_(ops), manual_(ops.size()), parent_(ops.size()) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    for (std::size_t i = 0; i < ops.size(); ++i) {
      for (const auto& r : ops[i].results) defined_[r.name] = i;
    }
    uses_.resize(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) add_uses(ops[i], uses_[i]);
    find_manual();
  }

  std::vector<AstOp> grouped() {
    std::unordered_map<std::size_t, std::vector<std::size_t>> exits;  // by group
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (is_exit(ops_[i])) exits[group_of_exit(i)].push_back(i);
    }
    std::vector<AstOp> out;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (manual_[i]) continue;
      if (!is_exit(ops_[i])) {
        out.push_back(ops_[i]);
        continue;
      }
      const auto& all = exits[group_of_exit(i)];
      if (all.front() == i) out.push_back(group(group_of_exit(i), all));
    }
    return out;
  }

 private:
  void add_uses(const AstOp& op, std::vector<std::size_t>& to) const {
    for (auto name : op.operands) {
      auto it = defined_.find(base_name(name));
      if (it != defined_.end()) to.push_back(it->second);
    }
    for (const auto& r : op.regions) {
      for (const auto& inner : r.ops) add_uses(inner, to);
    }
  }
  std::size_t root(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  // Exits of values that come from outside every group stand alone, under their own number.
  std::size_t group_of_exit(std::size_t i) { return uses_[i].empty() || !manual_[uses_[i][0]] ? i : root(uses_[i][0]); }

  void find_manual() {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      bool entry = is_entry(ops_[i]);
      bool uses_manual = false;
      for (auto u : uses_[i]) uses_manual = uses_manual || manual_[u];
      manual_[i] = entry || (uses_manual && !is_exit(ops_[i]) && !ops_[i].name.ends_with("return"));
    }
    // What only manual operations use is manual too: bodies that take no operands.
    std::vector<bool> used(ops_.size()), used_outside(ops_.size());
    for (std::size_t i = ops_.size(); i-- > 0;) {
      if (used[i] && !used_outside[i] && !is_exit(ops_[i])) manual_[i] = true;
      bool inside = (manual_[i] && !is_entry(ops_[i])) || is_exit(ops_[i]);
      for (auto u : uses_[i]) {
        used[u] = true;
        if (!inside) used_outside[u] = true;
      }
    }
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (!manual_[i] || is_entry(ops_[i])) continue;
      for (auto u : uses_[i]) {
        if (manual_[u]) parent_[root(i)] = root(u);
      }
    }
  }

  AstOp group(std::size_t which, const std::vector<std::size_t>& exits) {
    AstOp out;
    out.name = kManualShards;
    out.pos = ops_[exits[0]].pos;
    AstAttr in_shardings, out_shardings, manual;
    in_shardings.kind = out_shardings.kind = AstAttr::Kind::Array;
    manual.kind = AstAttr::Kind::String;
    auto text = [](std::string s) {
      AstAttr a;
      a.kind = AstAttr::Kind::String;
      a.text = std::move(s);
      return a;
    };
    AstRegion body;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (!manual_[i] || root(i) != which) continue;
      const AstOp& op = ops_[i];
      if (!is_entry(op)) {
        body.ops.push_back(op);
        continue;
      }
      if (op.results.size() != 1 || op.result_types.size() != 1) continue;  // its use is an error of its own
      body.args.push_back({op.results[0].name, op.result_types[0], {}});
      out.operands.push_back(op.operands[0]);
      std::string tiles;
      if (!uses_[i].empty() && custom_call_target(ops_[uses_[i][0]]) == "Sharding") {
        tiles = sharding_of(ops_[uses_[i][0]]);
      }
      in_shardings.items.push_back(text(tiles));
      manual.text = sharding_of(op);
    }
    AstOp end;
    end.name = "stablehlo.return";
    end.pos = out.pos;
    for (auto e : exits) {
      end.operands.push_back(ops_[e].operands[0]);
      out.results.insert(out.results.end(), ops_[e].results.begin(), ops_[e].results.end());
      out.result_types.insert(out.result_types.end(), ops_[e].result_types.begin(), ops_[e].result_types.end());
      out_shardings.items.push_back(text(sharding_of(ops_[e])));
      // A body without operands: the mark on its result says what is manual.
      if (manual.text.empty() && !uses_[e].empty() && custom_call_target(ops_[uses_[e][0]]) == "Sharding") {
        manual.text = sharding_of(ops_[uses_[e][0]]);
      }
    }
    body.ops.push_back(std::move(end));
    out.regions.push_back(std::move(body));
    out.attrs.kind = AstAttr::Kind::Dict;
    out.attrs.fields.push_back({"in_shardings", std::move(in_shardings)});
    out.attrs.fields.push_back({"out_shardings", std::move(out_shardings)});
    out.attrs.fields.push_back({"manual", std::move(manual)});
    return out;
  }

  const std::vector<AstOp>& ops_;
  std::vector<bool> manual_;
  std::vector<std::size_t> parent_;  // of a group, united by values
  std::unordered_map<std::string_view, std::size_t> defined_;
  std::vector<std::vector<std::size_t>> uses_;  // by operation: those whose results it reads, its first operand's first
};
}  // namespace

bool has_shard_marks(const std::vector<AstOp>& ops) {
  for (const auto& op : ops) {
    if (is_entry(op) || is_exit(op)) return true;
  }
  return false;
}

std::vector<AstOp> with_manual_groups(const std::vector<AstOp>& ops) { return Grouping(ops).grouped(); }

}  // namespace tessera::hlo
