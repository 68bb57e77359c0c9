// SPDX-License-Identifier: Apache-2.0
// The communication that a compiled program does, as data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/loc.h"

namespace tessera {

/// One collective of a partitioned program.
struct CommStep {
  std::string op;  ///< "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute", …
  std::vector<std::string> axes;      ///< mesh axes over which data moves
  std::int64_t bytes_per_device = 0;  ///< bytes that the busiest device receives, once
  std::int64_t times = 1;             ///< how often it runs per call (loops of known length); -1 where unknown
  std::string value;                  ///< type of the value: "f32[8,4]"
  std::string equation;               ///< op of the equation that needs it: "dot_general"
  Loc loc;                            ///< user's line of that equation
  std::string reason;                 ///< why the equation needs it, in words
};

/// The collectives of a program, in program order.
class CommPlan {
 public:
  CommPlan() = default;
  explicit CommPlan(std::vector<CommStep> steps) : steps_(std::move(steps)) {}
  const std::vector<CommStep>& steps() const& { return steps_; }
  std::vector<CommStep> steps() const&& { return steps_; }
  bool empty() const { return steps_.empty(); }
  /// Sum over steps of bytes_per_device x times (unknown times count once).
  std::int64_t bytes_per_device() const;
  /// Steps with this op.
  std::int64_t count(const std::string& op) const;

 private:
  std::vector<CommStep> steps_;
};
/// A table with a row for each step, whose longer cells go on in the next line, and the total.
std::string to_string(const CommPlan& plan);

/// While it lives, compiling or calling a program on this thread that moves more than `bytes_per_device` throws
/// `CommBudgetError`, which lists the plan. Nested budgets all apply.
class CommBudget {
 public:
  /// Throws `ValueError` for a negative budget.
  explicit CommBudget(std::int64_t bytes_per_device, const Loc& loc = Loc::current());
  ~CommBudget();
  CommBudget(const CommBudget&) = delete;
  CommBudget& operator=(const CommBudget&) = delete;
  /// The smallest budget in force on this thread, or -1.
  static std::int64_t current();

 private:
  std::int64_t before_;
};

}  // namespace tessera
