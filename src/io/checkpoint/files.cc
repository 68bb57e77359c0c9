// SPDX-License-Identifier: Apache-2.0
#include "io/checkpoint/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/strings.h"
#include "tessera/checkpoint.h"
#include "tessera/error.h"

namespace tessera {

namespace io {

namespace {

std::atomic<std::int64_t> data_written{0};
std::atomic<std::int64_t> index_written{0};
std::atomic<std::int64_t> data_read{0};
std::atomic<std::int64_t> index_read{0};

constexpr const char kWriter[] = "checkpoints::save";

[[noreturn]] void fail(const std::string& who, const char* verb, const std::string& path, const std::string& why) {
  throw ValueError(str(who, ": cannot ", verb, " \"", path, "\": ", why));
}
[[noreturn]] void fail(const char* verb, const std::string& path, int code) {
  fail(kWriter, verb, path, std::strerror(code));
}

class LocalFile final : public FileSystem::File {
 public:
  explicit LocalFile(std::string path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("create", path_, errno);
  }
  ~LocalFile() override {
    if (fd_ >= 0) ::close(fd_);
  }
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;
  void write(std::uint64_t offset, const void* data, std::size_t n) override {
    const char* from = static_cast<const char*>(data);
    while (n > 0) {
      auto wrote = ::pwrite(fd_, from, n, static_cast<off_t>(offset));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) fail("write", path_, wrote < 0 ? errno : ENOSPC);
      from += wrote;
      offset += static_cast<std::uint64_t>(wrote);
      n -= static_cast<std::size_t>(wrote);
    }
  }
  void sync() override {
    if (::fsync(fd_) != 0) fail("write", path_, errno);
  }
  void close() override {
    if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) fail("write", path_, errno);
  }

 private:
  std::string path_;
  int fd_;
};

class LocalFileSystem final : public FileSystem {
 public:
  std::unique_ptr<File> create(const std::string& path) override { return std::make_unique<LocalFile>(path); }
  void make_directories(const std::string& path) override {
    std::error_code code;
    std::filesystem::create_directories(path, code);
    // A symbolic link to a directory counts as one, which create_directories does not always say.
    if (code && !std::filesystem::is_directory(path)) fail(kWriter, "make", path, code.message());
  }
  void make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) fail("make", path, errno);
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      fail(kWriter, "rename", from, str("to \"", to, "\": ", std::strerror(errno)));
    }
  }
  void sync_directory(const std::string& path) override {
    int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) fail("open", path, errno);
    // Some network file systems cannot synchronise a directory and say so.
    const int code = ::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno;
    ::close(fd);
    if (code != 0) fail("write", path, code);
  }
  void remove_all(const std::string& path) override {
    std::error_code code;
    std::filesystem::remove_all(path, code);
    if (code) fail(kWriter, "remove", path, code.message());
  }
  std::uint64_t file_size(const std::string& path) override {
    struct stat s {};
    if (::stat(path.c_str(), &s) != 0) fail("read", path, errno);
    if (!S_ISREG(s.st_mode)) fail(kWriter, "read", path, "it is no regular file");
    return static_cast<std::uint64_t>(s.st_size);
  }
};

}  // namespace

std::shared_ptr<FileSystem> FileSystem::local() { return std::make_shared<LocalFileSystem>(); }

std::vector<std::string> list_directory(const std::string& who, const std::string& path) {
  DIR* d = ::opendir(path.c_str());
  if (d == nullptr && errno == ENOENT) return {};
  if (d == nullptr) fail(who, "read", path, std::strerror(errno));
  const std::unique_ptr<DIR, int (*)(DIR*)> closed(d, ::closedir);
  std::vector<std::string> out;
  for (;;) {
    errno = 0;
    const dirent* e = ::readdir(d);
    if (e == nullptr && errno != 0) fail(who, "read", path, std::strerror(errno));
    if (e == nullptr) break;
    std::string name = e->d_name;
    if (name != "." && name != "..") out.push_back(std::move(name));
  }
  std::sort(out.begin(), out.end());
  return out;
}

MappedFile::MappedFile(std::string who, const std::string& path) : who_(std::move(who)), path_(path) {
  // A pipe of that name would keep a plain open waiting for its writer.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail(who_, "open", path, std::strerror(errno));
  struct stat s {};
  const int failed = ::fstat(fd_, &s) == 0 ? 0 : errno;
  std::string why;
  if (failed != 0) why = std::strerror(failed);
  if (why.empty() && !S_ISREG(s.st_mode)) why = "it is no regular file";
  size_ = static_cast<std::uint64_t>(s.st_size);
  if (why.empty() && size_ > 0) {
    void* at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
    if (at == MAP_FAILED) why = std::strerror(errno);
    // Blocks are read here and there: no pages beside those that are asked for.
    if (at != MAP_FAILED) ::madvise(at, size_, MADV_RANDOM);
    if (at != MAP_FAILED) data_ = static_cast<const char*>(at);
  }
  if (why.empty()) return;
  ::close(fd_);
  fail(who_, "read", path, why);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
  ::close(fd_);
}

std::string_view MappedFile::bytes(std::uint64_t offset, std::uint64_t n, ReadKind kind) const {
  // Pages beyond the end of a file that was cut meanwhile would end the program when they are touched.
  struct stat s {};
  const std::uint64_t now = ::fstat(fd_, &s) == 0 ? static_cast<std::uint64_t>(s.st_size) : 0;
  const std::uint64_t have = std::min(size_, now);
  if (offset > have || n > have - offset) {
    throw FormatError(str(who_, ": \"", path_, "\" is truncated: it has ", have, " bytes; expected bytes ", offset,
                          " to ", offset + n),
                      path_);
  }
  if (n == 0) return {};
  auto& counter = kind == ReadKind::Data ? data_read : index_read;
  counter.fetch_add(static_cast<std::int64_t>(n), std::memory_order_relaxed);
  constexpr std::uint64_t kPage = 4096;
  if (n > kPage) {  // one request for all pages in place of one fault for each
    const std::uint64_t from = offset / kPage * kPage;
    ::madvise(const_cast<char*>(data_) + from, offset + n - from, MADV_WILLNEED);
  }
  return {data_ + offset, n};
}

void count_written(std::int64_t data_bytes, std::int64_t index_bytes) {
  data_written.fetch_add(data_bytes, std::memory_order_relaxed);
  index_written.fetch_add(index_bytes, std::memory_order_relaxed);
}

}  // namespace io

checkpoints::IoStats checkpoints::io_stats() {
  return {io::data_written.load(), io::index_written.load(), io::data_read.load(), io::index_read.load()};
}

}  // namespace tessera
