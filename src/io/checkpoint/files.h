// SPDX-License-Identifier: Apache-2.0
// The files of checkpoints: steps of writing that a test can make fail, mapped files whose reads are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::io {

/// What a checkpoint asks of a file system. Every function throws `ValueError` naming the path and the reason.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  class File {
   public:
    virtual ~File() = default;
    virtual void write(std::uint64_t offset, const void* data, std::size_t n) = 0;
    /// Returns when the file's bytes are on the disk.
    virtual void sync() = 0;
    /// Reports late failures. A file that is destroyed without it is closed all the same.
    virtual void close() = 0;
  };
  /// A new file; one of the name that is there already is an error.
  virtual std::unique_ptr<File> create(const std::string& path) = 0;
  /// With the directories above it; one that is there already is fine.
  virtual void make_directories(const std::string& path) = 0;
  /// A new directory; one that is there already is an error.
  virtual void make_directory(const std::string& path) = 0;
  /// Fails where `to` is a directory with entries.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Returns when the directory's entries are on the disk.
  virtual void sync_directory(const std::string& path) = 0;
  /// With all that is in it; what is not there is fine.
  virtual void remove_all(const std::string& path) = 0;
  /// Bytes of a regular file.
  virtual std::uint64_t file_size(const std::string& path) = 0;

  /// The machine's.
  static std::shared_ptr<FileSystem> local();
};

/// Names in a directory, sorted; none where it does not exist. Throws `ValueError` beginning with `who` where it cannot
/// be read.
std::vector<std::string> list_directory(const std::string& who, const std::string& path);

/// What counters a read belongs to.
enum class ReadKind : unsigned char { Data, Index };

/// A regular file in memory, whose pages are read when they are touched. Bytes are handed out by `bytes` alone, which
/// counts them.
class MappedFile {
 public:
  /// Messages begin with `who`: "checkpoints::restore: leaf \"w\"". Throws `ValueError` naming the path and the reason,
  /// also for what is no regular file.
  MappedFile(std::string who, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// Throws `FormatError` unless the file has these bytes, now as when it was opened.
  std::string_view bytes(std::uint64_t offset, std::uint64_t n, ReadKind kind) const;

 private:
  std::string who_;
  std::string path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  const char* data_ = nullptr;
};

void count_written(std::int64_t data_bytes, std::int64_t index_bytes);

}  // namespace tessera::io
