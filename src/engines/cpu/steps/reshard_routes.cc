// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/reshard_routes.h"

#include <utility>

namespace tessera::cpu {

namespace {
constexpr std::size_t kMostKept = 1 << 12;
}

ReshardRoutes::ReshardRoutes(const ReshardPlan& plan, std::int32_t self, std::vector<bool> summed)
    : plan_(plan), self_(self), summed_(std::move(summed)) {
  walk([&](const Move& m) {
    cross_ = cross_ || m.reader != m.term.provider;
    return !cross_;
  });
}

// Of all processes, until `body` has seen enough.
void ReshardRoutes::walk(const std::function<bool(const Move&)>& body) const {
  bool more = true;
  for (std::size_t k = 0; k < plan_.target().holders.size() && more; ++k) {
    const auto target = static_cast<std::int32_t>(k);
    if (plan_.is_identity(target) || summed_[k]) continue;
    plan_.for_each_box(target, [&](const Box& box) {
      for (auto reader : plan_.target().holders[k]) {
        if (!more) return;
        for (Term& term : plan_.terms(box, reader)) more = more && body({k, box, reader, std::move(term)});
      }
    });
  }
}

void ReshardRoutes::remember() {
  std::size_t kept = 0;
  bool few = true;
  boxes_.resize(plan_.target().holders.size());
  for (std::size_t k = 0; k < boxes_.size() && few; ++k) {
    const auto target = static_cast<std::int32_t>(k);
    if (plan_.target().first_local[k] < 0 || plan_.is_identity(target)) continue;
    plan_.for_each_box(target, [&](const Box& box) {
      few = few && ++kept <= kMostKept;
      if (few) boxes_[k].push_back({box, plan_.terms(box, self_)});
    });
  }
  if (few) {
    std::size_t seen = 0;
    walk([&](const Move& m) {
      few = ++seen <= kMostKept;
      if ((m.reader == self_) != (m.term.provider == self_)) moves_.push_back(m);
      return few;
    });
  }
  remembered_ = few;
  if (few) return;
  moves_.clear();
  boxes_.clear();
}

void ReshardRoutes::for_each_move(const std::function<void(const Move&)>& body) const {
  if (remembered_) {
    for (const Move& m : moves_) body(m);
    return;
  }
  walk([&](const Move& m) {
    if ((m.reader == self_) != (m.term.provider == self_)) body(m);
    return true;
  });
}

void ReshardRoutes::for_each_box(std::int32_t target, const OwnBox& body) const {
  if (!remembered_) {
    return plan_.for_each_box(target, [&](const Box& box) { body(box, plan_.terms(box, self_)); });
  }
  for (const Kept& k : boxes_[at(target)]) body(k.box, k.terms);
}

}  // namespace tessera::cpu
