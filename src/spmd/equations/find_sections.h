// SPDX-License-Identifier: Apache-2.0
// Which dimensions of a program are sections, and where they stay so.
#pragma once

#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/index.h"
#include "ops/shared_attrs.h"
#include "spmd/late_completion.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

/// A dimension that is sections of these extents. It becomes two: equal ones are counted by the first, and what each of
/// them has, the second, is split as the dimension was. Of others, whose extents the shards divide, the first dimension
/// is the shards, `parts`, and the second what a shard has of one section after the other.
struct Sections {
  std::size_t dim = 0;
  Dims sizes;
  std::int64_t parts = 0;  ///< 0: equal

  std::int64_t count() const { return static_cast<std::int64_t>(sizes.size()); }
  /// Which of the two dimensions the sections follow each other along.
  std::size_t along() const { return parts == 0 ? dim : dim + 1; }
  /// Where section i begins along it, and how much of it there is.
  std::int64_t start(std::int64_t i) const { return parts == 0 ? i : before(i) / parts; }
  std::int64_t extent(std::int64_t i) const { return parts == 0 ? 1 : sizes[at(i)] / parts; }
  /// The same along the dimension as it was.
  std::int64_t before(std::int64_t i) const {
    return std::accumulate(sizes.begin(), sizes.begin() + i, std::int64_t{0});
  }
  std::int64_t all() const { return before(count()); }
  /// The section that begins there; -1 where none does.
  std::int64_t beginning_at(std::int64_t start, std::int64_t size) const {
    for (std::int64_t i = 0; i < count(); ++i) {
      if (before(i) == start && sizes[at(i)] == size) return i;
    }
    return -1;
  }
  Sections at_dim(std::size_t d) const { return {d, sizes, parts}; }
  /// The two dimensions' extents, of the whole or of one section.
  std::pair<std::int64_t, std::int64_t> extents() const { return two(count(), all()); }
  std::pair<std::int64_t, std::int64_t> extents(std::int64_t i) const { return two(1, sizes[at(i)]); }

  bool operator==(const Sections&) const = default;
  auto operator<=>(const Sections&) const = default;

 private:
  std::pair<std::int64_t, std::int64_t> two(std::int64_t n, std::int64_t elements) const {
    return parts == 0 ? std::pair{n, elements / n} : std::pair{parts, elements / parts};
  }
};
/// By value.
using Family = std::unordered_map<ir::ValueId, Sections>;

/// Whether every shard has as much of each section, or the dimension is not split.
bool divides(const Sections& s, std::int64_t extent, std::int64_t parts);

/// The values whose dimension is to be taken apart: what is cut, joined or reshaped into sections, and what makes and
/// reads it element by element. Where products end it the family ends, too.
class SectionFinder {
 public:
  SectionFinder(const ir::Module& m, const std::vector<ir::Layout>& layouts);
  /// The families of sections that a split dimension has and a product reads or makes.
  Family run();
  /// What an equation cuts into sections, or joins of them.
  std::optional<std::pair<ir::ValueId, Sections>> seed_of(const ir::Eqn& e) const;

 private:
  // Of the sections that all slices of the array have together, the one that `e` is.
  std::optional<Sections> cut(const ir::Eqn& e) const;
  // The one dimension that an equation cuts as it is.
  std::optional<std::size_t> cut_dim(const ir::Eqn& e) const;
  static std::optional<std::size_t> only_other(const Shape& whole, const Shape& part, const Dims& starts,
                                               const Dims& steps, std::int64_t step);
  std::optional<Sections> padded(const ir::Eqn& e, const ops::Pad& p) const;
  std::optional<Sections> joined(const ir::Eqn& e, const ops::Concatenate& p) const;
  Sections of_sizes(ir::ValueId v, std::size_t d, Dims sizes) const;
  bool splits(ir::ValueId v, std::size_t dim) const;
  void join(ir::ValueId v, const Sections& s);
  void grow();
  // Whether the results have the sections that the operands have.
  bool keeps(const ir::Eqn& e, const Sections& s) const;
  void grow_to_operands(const ir::Eqn& e, const Sections& s);
  void grow_to_result(const ir::Eqn& e, const Sections& s);

  const ir::Graph& g_;
  const std::vector<ir::Layout>& layouts_;
  const ir::MeshAxes& mesh_;
  GraphUses uses_;
  Family grown_;  // from one seed
  std::vector<ir::ValueId> list_;
  bool fits_ = true;
  bool has_product_ = false;
};

}  // namespace tessera::spmd
