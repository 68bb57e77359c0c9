// SPDX-License-Identifier: Apache-2.0
#include "tessera/leaf_names.h"

#include "base/strings.h"

namespace tessera::detail {

std::vector<std::string> LeafNames::all() const {
  std::vector<std::string> out;
  if (paths_ == nullptr) return out;
  auto arguments = paths_(args_);
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    for (const auto& path : arguments[k]) {
      out.push_back(path.empty() ? str("argument ", k) : str("leaf ", path, " of argument ", k));
    }
  }
  return out;
}

std::string LeafNames::operator()(std::size_t leaf) const {
  auto names = all();
  if (leaf < names.size()) return names[leaf];
  return paths_ == nullptr ? str("argument leaf ", leaf) : str("captured array ", leaf - names.size());
}

}  // namespace tessera::detail
