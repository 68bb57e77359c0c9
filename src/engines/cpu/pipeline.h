// SPDX-License-Identifier: Apache-2.0
// Consecutive steps of a program in one parallel loop: a thread that finds no work left in one step goes on with what
// is ready of the next ones, where steps one by one make it wait for the others. The kernels and their operands are the
// same, and so is every bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/cpu/step_program.h"

namespace tessera::cpu {

class Pipeline {
 public:
  /// Those of a program, in the order of their steps.
  static std::vector<Pipeline> find(const std::vector<StepPtr>& steps, const ir::Graph& g);

  std::size_t first() const { return first_; }  ///< number of its first step
  std::size_t end() const { return first_ + steps_.size(); }
  /// What its steps' `run` and the end of their values do one after the other. Throws what the first of them throws
  /// that fails; the frame is then of no more use.
  void run(Frame& frame) const;

 private:
  friend class PipelineRun;

  std::size_t first_ = 0;
  std::vector<const Step*> steps_;
  std::vector<std::size_t> works_{0};            // of the steps before each, then of all
  std::vector<std::vector<ShardOf>> touches_;    // by work
  std::vector<std::vector<std::size_t>> after_;  // by work: those that it comes after
  int takers_ = 0;                               // threads
};

}  // namespace tessera::cpu
