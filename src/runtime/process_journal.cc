// SPDX-License-Identifier: Apache-2.0
#include "runtime/process_journal.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/strings.h"

namespace tessera::runtime {

namespace {

constexpr char kBetween = '\t';  // an array and where it was made; the text of a sharding has none
constexpr char kEnd = '\n';

// The lines of a list of arrays, and the number of the first.
struct Listed {
  std::int64_t first = 0;
  std::vector<std::pair<std::string, std::string>> arrays;  // and where each was made
};

Listed read(const std::string& text) {
  Listed out;
  std::size_t begin = text.find(kEnd);
  std::from_chars(text.data(), text.data() + std::min(begin, text.size()), out.first);
  while (begin < text.size()) {
    if (++begin == text.size()) break;
    const std::size_t end = text.find(kEnd, begin);
    const std::string line = text.substr(begin, end - begin);
    const std::size_t between = line.find(kBetween);
    if (between == std::string::npos) break;  // cut off
    out.arrays.emplace_back(line.substr(0, between), line.substr(between + 1));
    begin = end;
  }
  return out;
}

}  // namespace

std::string described(std::string_view name, const Loc& loc, std::int64_t run) {
  std::string out(name);
  if (loc.file) out += str(" at ", loc);
  if (run >= 0) out += str(" in run ", run, " of its program");
  return out;
}

void ProcessJournal::made(std::vector<std::int32_t> processes, std::string array, std::string where) {
  std::lock_guard lock(mutex_);
  arrays_.push_back({std::move(processes), std::move(array), std::move(where)});
  if (arrays_.size() <= kRememberedArrays) return;
  for (auto p : arrays_.front().processes) ++forgotten_[p];
  arrays_.pop_front();
}

void ProcessJournal::began(std::int64_t tag, std::string_view name, const Loc& loc, std::int64_t run) {
  std::lock_guard lock(mutex_);
  last_name_ = name;
  last_loc_ = loc;
  last_run_ = run;
  remember(tag);
}
void ProcessJournal::began(std::int64_t tag) {
  std::lock_guard lock(mutex_);
  remember(tag);
}
void ProcessJournal::remember(std::int64_t tag) {
  if (!tags_.empty() && tags_.back() == tag) return;
  tags_.push_back(tag);
  if (tags_.size() > kRememberedTags) tags_.pop_front();
}

bool ProcessJournal::has_begun(std::int64_t tag) const {
  std::lock_guard lock(mutex_);
  return std::find(tags_.rbegin(), tags_.rend(), tag) != tags_.rend();
}

std::string ProcessJournal::last() const {
  std::lock_guard lock(mutex_);
  return last_name_.empty() ? std::string() : described(last_name_, last_loc_, last_run_);
}

std::string ProcessJournal::arrays_with(std::int32_t process) const {
  std::lock_guard lock(mutex_);
  auto forgotten = forgotten_.find(process);
  std::string out = str(forgotten == forgotten_.end() ? 0 : forgotten->second, kEnd);
  for (const Made& made : arrays_) {
    if (!std::binary_search(made.processes.begin(), made.processes.end(), process)) continue;
    out += str(made.array, kBetween, made.where, kEnd);
  }
  return out;
}

std::string ProcessJournal::first_difference(std::int32_t self, std::int32_t other, const std::string& theirs) const {
  const Listed mine = read(arrays_with(other));
  const Listed others = read(theirs);
  const auto end = std::min(mine.first + std::ssize(mine.arrays), others.first + std::ssize(others.arrays));
  for (std::int64_t i = std::max(mine.first, others.first); i < end; ++i) {
    const auto& [here, made_here] = mine.arrays[static_cast<std::size_t>(i - mine.first)];
    const auto& [there, made_there] = others.arrays[static_cast<std::size_t>(i - others.first)];
    if (here == there) continue;
    return str("the first array of both that differs is number ", i, " (from 0): in process ", self, ' ', here, " (",
               made_here, "), in process ", other, ' ', there, " (", made_there, ")");
  }
  return "";
}

}  // namespace tessera::runtime
