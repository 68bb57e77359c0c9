// SPDX-License-Identifier: Apache-2.0
// What a process has made and done in common with others. Nothing is sent while all goes well: processes that wait for
// each other compare their journals, so that what differs has a name.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/loc.h"

namespace tessera::runtime {

/// Thread-safe.
class ProcessJournal {
 public:
  /// This process has made its part of an array whose devices are those of `processes` (ascending). `array` is equal
  /// where the arrays are; `where` is how and at which line it was made.
  void made(std::vector<std::int32_t> processes, std::string array, std::string where);
  /// The operation `tag`, of those that all processes enter in one order, has begun here.
  void began(std::int64_t tag, std::string_view name, const Loc& loc, std::int64_t run);
  /// It has, or has failed before it asked for anything.
  void began(std::int64_t tag);
  /// Whether it has; the last 16,384 are remembered.
  bool has_begun(std::int64_t tag) const;
  /// "all_reduce at model.cc:12 in run 7 of its program", for messages; empty where nothing has begun.
  std::string last() const;

  /// The arrays made together with a process, as text that `first_difference` of that process reads.
  std::string arrays_with(std::int32_t process) const;
  /// What this process, `self`, and another one have made otherwise first, with `theirs` the other's
  /// `arrays_with(self)`; empty where nothing is known to differ.
  std::string first_difference(std::int32_t self, std::int32_t other, const std::string& theirs) const;

 private:
  struct Made {
    std::vector<std::int32_t> processes;
    std::string array, where;
  };
  static constexpr std::size_t kRememberedArrays = 128;
  static constexpr std::size_t kRememberedTags = 1 << 14;

  void remember(std::int64_t tag);

  mutable std::mutex mutex_;
  std::deque<Made> arrays_;
  std::map<std::int32_t, std::int64_t> forgotten_;  // arrays, by process
  std::deque<std::int64_t> tags_;
  std::string last_name_;
  Loc last_loc_;
  std::int64_t last_run_ = -1;
};

/// "all_reduce at model.cc:12 in run 7 of its program"; a negative run is no program's.
std::string described(std::string_view name, const Loc& loc, std::int64_t run);

}  // namespace tessera::runtime
