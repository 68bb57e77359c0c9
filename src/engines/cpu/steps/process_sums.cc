// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/steps/process_sums.h"

#include <algorithm>
#include <optional>

namespace tessera::cpu {

bool ProcessSum::has(std::int32_t process) const { return std::binary_search(group.begin(), group.end(), process); }

std::vector<ProcessSum> process_sums(const ReshardPlan& plan) {
  std::vector<ProcessSum> out;
  const auto& holders = plan.target().holders;
  for (std::size_t k = 0; k < holders.size(); ++k) {
    const auto target = static_cast<std::int32_t>(k);
    if (plan.is_identity(target) || holders[k].size() < 2) continue;
    bool same = true;
    bool any = false;
    plan.for_each_box(target, [&](const Box& box) {
      any = true;
      std::vector<std::int32_t> providers;
      for (const auto& term : plan.terms(box, holders[k][0])) providers.push_back(term.provider);
      same = same && providers == holders[k];
    });
    if (same && any) out.push_back({target, holders[k]});
  }
  return out;
}

}  // namespace tessera::cpu
