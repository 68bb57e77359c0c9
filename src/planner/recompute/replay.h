// SPDX-License-Identifier: Apache-2.0
// What a partitioned program keeps in memory, step by step, if some of its values are computed again: found by writing
// its steps anew, without partitioning the program that would do so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/index.h"
#include "ir/graph.h"
#include "planner/recompute/recompute.h"

namespace tessera::planner {

/// A partitioned program. Steps are its equations; places are equations of the program before it was partitioned.
struct ReplayProgram {
  struct Step {
    std::vector<std::int32_t> in, out;  ///< values
    std::size_t place = 0;              ///< that it comes from; never falls from one step to the next
    double seconds = 0;                 ///< predicted
    std::int64_t inside = 0;            ///< bytes of graphs inside it
    bool again = false;                 ///< may be done twice
    bool effect = false;
  };
  struct Value {
    std::int64_t bytes = 0;
    std::int32_t step = -1;         ///< that makes it; -1: an input
    ir::ValueId of = -1;            ///< value before partitioning that it is; -1: none
    bool copy = false;              ///< in another layout than that in which `of` is made
    std::int32_t shares_with = -1;  ///< operand of its step whose memory it has; -1: none
  };
  std::vector<Step> steps;
  std::vector<Value> values;
  std::vector<std::int32_t> outputs;
  std::vector<std::int32_t> bases;  ///< by value before partitioning: the one in which it is made; -1: none
};

/// The same graph with the position of each equation in the place of its source line.
ir::GraphPtr tagged(const ir::Graph& g);
/// The position of a tagged equation; none: it is another's.
std::optional<std::size_t> tag_of(const Loc& loc);

/// `partitioned`: of `tagged(program)`. `seconds`: by equation of it.
ReplayProgram replay_program(const ir::Graph& program, const ir::Graph& partitioned,
                             const std::vector<double>& seconds);

/// The steps with these values computed again.
class Replay {
 public:
  struct Line {
    std::int32_t step = 0;
    std::vector<std::int32_t> in, out;  ///< lives
    std::size_t place = 0;
    bool needed = false;
  };
  /// One version of a value.
  struct Life {
    std::int32_t value = 0;
    std::int32_t root = 0;            ///< life whose memory it has
    std::int32_t born = -1;           ///< line
    std::vector<std::int32_t> reads;  ///< lines, in order
    // Of roots, with all that share their memory.
    std::int32_t last = -1;  ///< line; the number of lines: the caller reads it
    std::vector<std::int32_t> members = {};
  };

  Replay(const ReplayProgram& program, const std::vector<Recomputation>& list);

  const ReplayProgram& program() const { return program_; }
  const std::vector<Line>& lines() const { return lines_; }
  const std::vector<Life>& lives() const { return lives_; }
  const Life& life(std::int32_t l) const { return lives_[static_cast<std::size_t>(l)]; }
  const ReplayProgram::Value& value_of(const Life& l) const {
    return program_.values[static_cast<std::size_t>(l.value)];
  }
  bool is_output(const Life& root) const { return root.last == static_cast<std::int32_t>(lines_.size()); }
  /// The version of a value that a reader at this place gets; -1: there is none so far.
  std::int32_t find(std::int32_t value, std::size_t place) const;

  /// Temporary bytes at most, and the first line where it is so.
  std::int64_t most() const { return most_; }
  std::size_t peak() const { return peak_; }
  double seconds() const { return seconds_; }
  /// Bytes above the limit at each place, summed up.
  double excess(std::int64_t limit) const;
  /// Places up to each one, itself included, that are above the limit.
  std::vector<std::int32_t> places_above(std::int64_t limit) const;

 private:
  using Inside = std::vector<std::pair<std::int32_t, std::int32_t>>;  // values without an `of`, and their lives

  std::size_t versions_before(ir::ValueId of, std::size_t place) const;
  std::int32_t known(std::int32_t value, std::size_t version) const;
  std::size_t version_at(std::int32_t value, std::size_t place) const;
  std::int32_t read(std::int32_t value, std::size_t place, Inside* inside);
  std::int32_t make(std::int32_t value, std::size_t version, std::size_t place);
  std::int32_t make_inside(std::int32_t value, std::size_t place, Inside& inside);
  std::int32_t add_life(std::int32_t value, const Line* line);
  std::vector<std::int32_t> write(std::int32_t step, std::vector<std::int32_t> in, std::size_t place);
  void set(std::int32_t value, std::size_t version, std::int32_t life);
  void write_all();
  void find_needed();
  void measure();

  const ReplayProgram& program_;
  std::vector<std::vector<Recomputation>> bounds_;  // by value before partitioning
  std::vector<Line> lines_;
  std::vector<Life> lives_;
  std::vector<std::vector<std::int32_t>> made_;  // by value and version
  std::vector<std::int64_t> bytes_;              // by line
  std::int64_t most_ = 0;
  std::size_t peak_ = 0;
  double seconds_ = 0;
};

}  // namespace tessera::planner
