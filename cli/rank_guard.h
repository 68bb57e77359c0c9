// SPDX-License-Identifier: Apache-2.0
// `tessera launch` puts one process before each rank's program, which tells how the program ended, also where MPI does
// not, and never leaves it behind.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

/// How a rank ended that failed by itself, not because its `mpirun` ended it.
struct RankEnd {
  enum class Kind { Exited, Killed, NotStarted };
  int rank = -1;  ///< -1: not known
  Kind kind = Kind::Exited;
  int number = 0;  ///< exit status, signal or error of the system
};

/// Runs `program` as a rank and writes to the folder `reports` how it ends. Signals go on to it, and it ends
/// with this process and with the one that started this. Returns the exit status.
int guard_rank(const std::string& reports, const std::vector<std::string>& program);

/// What the ranks have told so far; of failures the earliest first.
struct RankReports {
  int begun = 0;  ///< ranks
  int done = 0;   ///< of these, with exit status 0
  std::vector<RankEnd> failed;
};
RankReports read_reports(const std::string& reports);

/// Replaces the process by `command`, with the signals' actions and mask that a program expects; only returns, with the
/// system's error, where that fails.
int become(const std::vector<std::string>& command);

}  // namespace tessera::cli
