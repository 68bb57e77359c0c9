// SPDX-License-Identifier: Apache-2.0
// Whether the shards of an array are all there, and none twice.
#include <algorithm>

#include "base/strings.h"
#include "io/checkpoint/index.h"

namespace tessera::io {

namespace {

std::string text_of(const BlockAt& b) { return str("start ", *b.start, ", shape ", *b.shape); }

bool overlap(const BlockAt& a, const BlockAt& b) {
  for (std::size_t d = 0; d < a.start->size(); ++d) {
    const std::int64_t begin = std::max((*a.start)[d], (*b.start)[d]);
    const std::int64_t end = std::min((*a.start)[d] + (*a.shape)[d], (*b.start)[d] + (*b.shape)[d]);
    if (begin >= end) return false;
  }
  return true;
}

// Two blocks that overlap, or nothing. Sorted by their first dimension, a block is compared with those that begin
// before it ends.
std::string overlap_fault(std::vector<BlockAt> blocks) {
  auto key = [](const BlockAt& b) { return b.start->empty() ? 0 : b.start->front(); };
  auto end = [](const BlockAt& b) { return b.start->empty() ? 1 : b.start->front() + b.shape->front(); };
  std::stable_sort(blocks.begin(), blocks.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t j = i + 1; j < blocks.size() && key(blocks[j]) < end(blocks[i]); ++j) {
      if (overlap(blocks[i], blocks[j])) {
        return str("the shards of ", text_of(blocks[i]), " and ", text_of(blocks[j]), " overlap");
      }
    }
  }
  return {};
}

// A grid's cells are counted rather than compared pair by pair: a sharding over thousands of devices has a grid.
std::string grid_fault(const std::vector<std::vector<std::int64_t>>& cuts, const std::vector<BlockAt>& blocks,
                       std::size_t cells) {
  std::vector<bool> seen(cells);
  for (const BlockAt& b : blocks) {
    // The cells of the block, one after another.
    std::size_t rank = cuts.size();
    std::vector<std::size_t> first(rank);
    std::vector<std::size_t> last(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      auto at = [&](std::int64_t v) {
        return static_cast<std::size_t>(std::lower_bound(cuts[d].begin(), cuts[d].end(), v) - cuts[d].begin());
      };
      first[d] = at((*b.start)[d]);
      last[d] = at((*b.start)[d] + (*b.shape)[d]);
    }
    std::vector<std::size_t> cell = first;
    for (bool more = true; more;) {
      std::size_t number = 0;
      for (std::size_t d = 0; d < rank; ++d) number = number * (cuts[d].size() - 1) + cell[d];
      if (seen[number]) return str("the shard of ", text_of(b), " overlaps another one");
      seen[number] = true;
      more = false;
      for (std::size_t d = rank; d-- > 0 && !more;) {
        more = ++cell[d] < last[d];
        if (!more) cell[d] = first[d];
      }
    }
  }
  return {};
}

}  // namespace

std::string cover_fault(const Shape& shape, const std::vector<BlockAt>& given) {
  std::vector<BlockAt> blocks;
  std::int64_t elements = 0;  // cannot overflow while it is at most those of the array
  const std::int64_t wanted = size_of(shape);
  for (const BlockAt& b : given) {
    const std::int64_t n = size_of(*b.shape);
    if (n == 0) continue;
    if (n > wanted - elements) {
      return str("its shards have more than the ", wanted, " elements of shape ", shape);
    }
    elements += n;
    blocks.push_back(b);
  }
  if (elements < wanted) return str("its shards have ", elements, " of the ", wanted, " elements of shape ", shape);
  std::vector<std::vector<std::int64_t>> cuts(shape.size());
  std::size_t cells = 1;
  const std::size_t most_cells = 64 * blocks.size() + 4096;
  for (std::size_t d = 0; d < shape.size() && cells <= most_cells; ++d) {
    for (const BlockAt& b : blocks) {
      cuts[d].push_back((*b.start)[d]);
      cuts[d].push_back((*b.start)[d] + (*b.shape)[d]);
    }
    std::sort(cuts[d].begin(), cuts[d].end());
    cuts[d].erase(std::unique(cuts[d].begin(), cuts[d].end()), cuts[d].end());
    cells *= cuts[d].empty() ? 1 : cuts[d].size() - 1;
  }
  if (blocks.size() < 2) return {};
  if (cells <= most_cells) return grid_fault(cuts, blocks, cells);
  // A user's kind of sharding may have shards that form no grid; an index that claims many such is refused, because the
  // comparison of all pairs would hold up its reader.
  constexpr std::size_t kMostIrregular = 10'000;
  if (blocks.size() > kMostIrregular) {
    return str("its ", blocks.size(), " shards form no grid; expected at most ", kMostIrregular, " such");
  }
  return overlap_fault(std::move(blocks));
}

}  // namespace tessera::io
