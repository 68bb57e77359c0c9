// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/passes/merge.h"

#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"
#include "engines/cpu/context.h"
#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/ops.h"

namespace tessera::cpu {

namespace {

constexpr std::int64_t kSmall = 4096;  // bytes that are rather kept than made again

// Values are numbered so that equal ones have the same number, whether or not they will be merged.
class Merger {
 public:
  explicit Merger(const ir::Graph& g) : g_(g), number_(g.num_values()) { std::iota(number_.begin(), number_.end(), 0); }

  // Null where all stays as it is.
  ir::GraphPtr run() {
    for (const auto& e : g_.eqns) {
      if (says_nothing(e)) {
        number_[at(e.out[0])] = number_[at(e.in[0])];
        dropped_.insert(&e);
        continue;
      }
      const ir::Eqn* same = comparable(e) ? earlier(e) : nullptr;
      if (same == nullptr) continue;
      for (std::size_t i = 0; i < e.out.size(); ++i) number_[at(e.out[i])] = number_[at(same->out[i])];
      if (worth_keeping(e)) instead_[&e] = same;
    }
    if (instead_.empty() && dropped_.empty()) return nullptr;
    ir::Builder b;
    ir::Rewriter r(b, g_);
    r.add_inputs();
    r.walk([&](const ir::Eqn& e, const ir::Values& in) {
      if (dropped_.contains(&e)) return in;
      auto it = instead_.find(&e);
      return it == instead_.end() ? r.copy(e, in) : r.of(it->second->out);
    });
    return r.finish("merge_equal");
  }

 private:
  // Only derivatives, which are taken by now, know it from its operand. It would part what fuses: the maximum of a
  // softmax from the rest, which then reads its operand from memory a second time.
  bool says_nothing(const ir::Eqn& e) const {
    return e.op == &ops::def::stop_gradient && g_.type(e.in[0]) == g_.type(e.out[0]) &&
           g_.layout(e.in[0]) == g_.layout(e.out[0]);
  }

  bool comparable(const ir::Eqn& e) const {
    if (e.op == &ops::def::optimization_barrier || e.out.empty()) return false;
    if (e.in.empty() && g_.type(e.out[0]).nbytes() > kSmall) return false;  // comparing would cost more
    return !e.op->traits().effect && e.op->subgraphs(e.attrs).empty();
  }

  bool worth_keeping(const ir::Eqn& e) const {
    std::int64_t bytes = 0;
    for (auto v : e.out) bytes += g_.type(v).nbytes();
    return bytes <= kSmall || !(e.op->traits().elementwise || e.op->traits().view);
  }

  // The first equation like this one, or null, in which case this one is remembered.
  const ir::Eqn* earlier(const ir::Eqn& e) {
    std::size_t h = base::hash_mix(std::hash<const void*>{}(e.op), ir::hash_of(e.attrs));
    for (auto v : e.in) h = base::hash_mix(h, static_cast<std::size_t>(number_[at(v)]));
    auto& bucket = known_[h];
    for (const ir::Eqn* other : bucket) {
      if (same(*other, e)) return other;
    }
    bucket.push_back(&e);
    return nullptr;
  }

  bool same(const ir::Eqn& a, const ir::Eqn& b) const {
    if (a.op != b.op || a.in.size() != b.in.size() || a.out.size() != b.out.size()) return false;
    for (std::size_t i = 0; i < a.in.size(); ++i) {
      if (number_[at(a.in[i])] != number_[at(b.in[i])]) return false;
    }
    for (std::size_t i = 0; i < a.out.size(); ++i) {
      if (g_.type(a.out[i]) != g_.type(b.out[i]) || g_.layout(a.out[i]) != g_.layout(b.out[i])) return false;
    }
    return ir::equal(a.attrs, b.attrs);
  }

  const ir::Graph& g_;
  std::vector<ir::ValueId> number_;                             // by value: the first that equals it
  std::unordered_map<const ir::Eqn*, const ir::Eqn*> instead_;  // what is merged, with the equation that stays
  std::unordered_set<const ir::Eqn*> dropped_;                  // their operands stand for them
  std::unordered_map<std::size_t, std::vector<const ir::Eqn*>> known_;
};

}  // namespace

ir::GraphPtr merge_equal(const ir::GraphPtr& graph) {
  auto merged = Merger(*graph).run();
  return merged ? merged : graph;
}

}  // namespace tessera::cpu
