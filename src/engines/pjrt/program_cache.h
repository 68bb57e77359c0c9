// SPDX-License-Identifier: Apache-2.0
// Compiled programs on disk, for the next start of the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::pjrt_engine {

/// A folder of entries that several processes may use at the same time: each is written whole or not at all, and one
/// that is damaged counts as absent. What was not used for longest goes when the entries exceed the bound.
class ProgramCache {
 public:
  /// An empty folder name: no cache. Throws `ValueError` where the folder cannot be made.
  ProgramCache(std::string folder, std::int64_t most_bytes);
  bool used() const { return !folder_.empty(); }
  /// The bytes that were stored for this key, all of which counts.
  std::optional<std::string> find(const std::string& key) const;
  /// Failures are silent: a full disk is no reason not to run a program.
  void store(const std::string& key, const std::string& value) const;
  /// For an entry that proved useless.
  void remove(const std::string& key) const;

 private:
  std::string path_of(const std::string& key) const;
  void shrink() const;

  std::string folder_;
  std::int64_t most_bytes_;
};

}  // namespace tessera::pjrt_engine
