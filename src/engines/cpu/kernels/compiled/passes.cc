// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/kernels/compiled/passes.h"

#include <algorithm>

namespace tessera::kernels {

using Value = Fragment::Value;
using Kind = Fragment::Kind;

Value Fragment::add(Node node) {
  if (node.kind == Kind::Full) node.full = true;
  for (Value o : node.operands) {
    if (o < 0) continue;
    const Node& operand = nodes[static_cast<std::size_t>(o)];
    if (node.kind == Kind::Op) node.full |= operand.full;
    node.phase = std::max(node.phase, operand.phase + (node.kind == Kind::Reduce ? 1 : 0));
  }
  nodes.push_back(node);
  return static_cast<Value>(nodes.size() - 1);
}

bool Fragment::by_rows() const {
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node& n) { return n.kind == Kind::Row || n.kind == Kind::Reduce; });
}

namespace {

bool cheap(EwOp op) {
  switch (op) {
    case EwOp::Neg:
    case EwOp::Abs:
    case EwOp::Square:
    case EwOp::Not:
    case EwOp::Convert:
    case EwOp::Add:
    case EwOp::Sub:
    case EwOp::Mul:
    case EwOp::MulAdd:
    case EwOp::And:
    case EwOp::Or:
    case EwOp::Xor:
    case EwOp::Eq:
    case EwOp::Ne:
    case EwOp::Lt:
    case EwOp::Le:
    case EwOp::Gt:
    case EwOp::Ge:
    case EwOp::Select:
      return true;
    default:
      return false;
  }
}

class Planner {
 public:
  explicit Planner(const Fragment& f) : f_(f), kept_(f.nodes.size()) { out_.scratch.assign(f.nodes.size(), -1); }

  Passes plan() {
    std::int32_t last = 0;
    for (const auto& n : f_.nodes) last = std::max(last, n.phase);
    out_.list.resize(static_cast<std::size_t>(last) + 1);
    // From the last pass to the first: what a pass leaves to an earlier one is known when that one's turn comes.
    for (std::int32_t p = last; p >= 0; --p) pass(p, p == last);
    return std::move(out_);
  }

 private:
  const Fragment::Node& node(Value v) const { return f_.nodes[static_cast<std::size_t>(v)]; }

  void pass(std::int32_t p, bool last) {
    Pass& pass = out_.list[static_cast<std::size_t>(p)];
    std::vector<bool> needed(f_.nodes.size());
    pass.stores = last && std::any_of(f_.stores.begin(), f_.stores.end(), [](const auto& s) { return s.full; });
    for (std::size_t v = 0; v < f_.nodes.size(); ++v) {
      const auto& n = f_.nodes[v];
      auto value = static_cast<Value>(v);
      if (n.kind == Kind::Op && !n.full && n.phase == p) pass.row_ops.push_back(value);
      if (n.kind == Kind::Reduce && n.phase == p + 1) {
        pass.reduces.push_back(value);
        need(n.operands[0], p, needed);
      }
      if (kept_[v] && n.phase == p) {
        pass.keeps.push_back(value);
        need(value, p, needed);
      }
    }
    if (last) {
      for (const auto& s : f_.stores) {
        if (s.full) need(s.value, p, needed);
      }
    }
    for (std::size_t v = 0; v < f_.nodes.size(); ++v) {
      if (needed[v]) pass.values.push_back(static_cast<Value>(v));
    }
  }

  // Marks what pass `p` computes or loads for the sake of `v`.
  void need(Value v, std::int32_t p, std::vector<bool>& needed) {
    const auto& n = node(v);
    if (!n.full || needed[static_cast<std::size_t>(v)]) return;
    needed[static_cast<std::size_t>(v)] = true;
    if (n.kind == Kind::Full) return;
    int left = kCheapOps;
    if (n.phase < p && !(again(v, left))) {
      keep(v);
      return;
    }
    for (Value o : n.operands) {
      if (o >= 0) need(o, p, needed);
    }
  }

  // Whether a few cheap ops make the value out of operands.
  bool again(Value v, int& left) const {
    const auto& n = node(v);
    if (!n.full || n.kind == Kind::Full) return true;
    if (kept_[static_cast<std::size_t>(v)] || !cheap(n.op) || --left < 0) return false;
    return std::all_of(n.operands.begin(), n.operands.end(), [&](Value o) { return o < 0 || again(o, left); });
  }

  void keep(Value v) {
    auto i = static_cast<std::size_t>(v);
    if (kept_[i]) return;
    kept_[i] = true;
    out_.scratch[i] = static_cast<std::int32_t>(out_.scratch_dtypes.size());
    out_.scratch_dtypes.push_back(node(v).dtype);
  }

  static constexpr int kCheapOps = 3;
  const Fragment& f_;
  std::vector<bool> kept_;
  Passes out_;
};

}  // namespace

Passes plan_passes(const Fragment& f) { return Planner(f).plan(); }

}  // namespace tessera::kernels
