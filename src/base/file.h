// SPDX-License-Identifier: Apache-2.0
// Files: read whole, and written so that a failure at any moment leaves either the old file or the new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tessera::base {

/// All bytes. Throws `ValueError` naming `function`, the path and the reason.
std::string read_file(const char* function, const std::string& path);

/// Where the bytes of a file go while it is written.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Throws `ValueError` where the medium refuses (a full disk).
  virtual void write(std::uint64_t offset, const void* data, std::size_t n) = 0;
};

/// Writes a file whose bytes `fill` gives.
///
/// Symbolic links are followed. A regular file is written beside the target without a name where the file system can
/// (`O_TMPFILE`), else under an unused name, is synchronised with the disk, and takes the target's place with its mode
/// and owner; other hard links of the target keep the old bytes. Devices, pipes, and the descriptors `/dev/stdout`,
/// `/dev/stderr` and `/dev/fd/N` are written to as they are. Throws `ValueError` naming `function`, the path and the
/// reason; what `fill` throws passes through. Either way an old file stays as it was.
void write_file(const char* function, const std::string& path, const std::function<void(OutputFile&)>& fill);
void write_file(const char* function, const std::string& path, std::string_view bytes);

/// What `write_file` would meet before it writes: throws `ValueError` for a directory, a missing directory, a missing
/// permission. Creates nothing.
void check_writable(const char* function, const std::string& path);

/// Removes what writes that have not ended left under names of their own. Safe in a signal handler that ends the
/// process.
void discard_unfinished_files() noexcept;

}  // namespace tessera::base
