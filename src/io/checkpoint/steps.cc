// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/steps.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "base/strings.h"
#include "tessera/checkpoint.h"
#include "tessera/error.h"

namespace tessera {

namespace io {

namespace {

constexpr std::string_view kPrefix = "step_";
constexpr std::string_view kUnfinished = ".tmp-";
constexpr std::string_view kDeleted = ".deleted-";
constexpr std::size_t kDigits = 8;  // names sort as steps do, up to a hundred million

std::string random_digits() {
  std::random_device device;
  static constexpr const char digits[] = "0123456789abcdef";
  std::string out;
  for (int i = 0; i < 16; ++i) out += digits[device() % 16];
  return out;
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const std::string_view rest = name.substr(kPrefix.size());
  const auto r = std::from_chars(rest.data(), rest.data() + rest.size(), step);
  if (r.ec != std::errc() || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

bool has_index(const std::string& folder) {
  struct stat s {};
  return ::stat(str(folder, "/", kIndexName).c_str(), &s) == 0 && S_ISREG(s.st_mode);
}

}  // namespace

void check_step(const char* function, std::int64_t step) {
  if (step < 0) throw ValueError(str(function, ": step = ", step, "; expected 0 or more"));
}

std::string step_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return str(kPrefix, digits);
}
std::string unfinished_name(std::int64_t step) { return str(".", step_name(step), kUnfinished, random_digits()); }

std::vector<std::int64_t> steps_in(const char* function, const std::string& dir) {
  std::vector<std::int64_t> out;
  for (const std::string& name : list_directory(function, dir)) {
    const auto step = step_of(name);
    if (step && has_index(str(dir, "/", name))) out.push_back(*step);
  }
  std::sort(out.begin(), out.end());
  return out;
}

CheckpointIndex read_index(const char* function, const std::string& dir, std::int64_t step, std::string& folder) {
  check_step(function, step);
  folder = checkpoints::step_path(dir, step);
  if (!has_index(folder)) {
    const auto steps = steps_in(function, dir);
    constexpr std::size_t kMost = 20;
    const std::size_t skipped = steps.size() > kMost ? steps.size() - kMost : 0;
    const std::vector<std::int64_t> last(steps.begin() + static_cast<std::ptrdiff_t>(skipped), steps.end());
    throw ValueError(str(function, ": \"", dir, "\" has no checkpoint of step ", step, "; it has ",
                         steps.empty() ? std::string("none") : str("steps ", skipped > 0 ? "..., " : "", join(last))));
  }
  const MappedFile file(function, str(folder, "/", kIndexName));
  CheckpointIndex index = parse_index(function, file.bytes(0, file.size(), ReadKind::Index), file.path());
  if (index.step != step) {
    throw FormatError(str(function, ": \"", file.path(), "\" is the index of step ", index.step, "; expected ", step),
                      file.path());
  }
  return index;
}

void remove_step(FileSystem& fs, const std::string& dir, std::int64_t step) {
  const std::string gone = str(dir, "/.", step_name(step), kDeleted, random_digits());
  fs.rename(checkpoints::step_path(dir, step), gone);
  fs.sync_directory(dir);
  fs.remove_all(gone);
}

void remove_unfinished(FileSystem& fs, const std::string& dir) {
  for (const std::string& name : list_directory("CheckpointManager", dir)) {
    if (!name.starts_with('.')) continue;
    const std::string_view rest = std::string_view(name).substr(1);
    for (std::string_view mark : {kUnfinished, kDeleted}) {
      const std::size_t at = rest.find(mark);
      if (at != std::string_view::npos && step_of(rest.substr(0, at))) fs.remove_all(str(dir, "/", name));
    }
  }
}

void apply_retention(FileSystem& fs, const std::string& dir, std::optional<std::int64_t> max_to_keep,
                     std::optional<std::int64_t> keep_period) {
  if (!max_to_keep) return;
  const auto steps = steps_in("CheckpointManager", dir);
  const auto n = static_cast<std::int64_t>(steps.size());
  for (std::int64_t i = 0; i < n - *max_to_keep; ++i) {
    const std::int64_t step = steps[static_cast<std::size_t>(i)];
    if (keep_period && step % *keep_period == 0) continue;
    remove_step(fs, dir, step);
  }
}

}  // namespace io

namespace checkpoints {

std::string step_path(const std::string& dir, std::int64_t step) { return str(dir, "/", io::step_name(step)); }

std::vector<std::int64_t> all_steps(const std::string& dir, const Loc&) {
  return io::steps_in("checkpoints::all_steps", dir);
}
std::optional<std::int64_t> latest_step(const std::string& dir, const Loc&) {
  const auto steps = io::steps_in("checkpoints::latest_step", dir);
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

void remove(const std::string& dir, std::int64_t step, const Loc&) {
  std::string folder;
  const auto steps = io::steps_in("checkpoints::remove", dir);
  if (!std::binary_search(steps.begin(), steps.end(), step)) {
    throw ValueError(str("checkpoints::remove: \"", dir, "\" has no checkpoint of step ", step));
  }
  io::remove_step(*io::FileSystem::local(), dir, step);
}

}  // namespace checkpoints
}  // namespace tessera
