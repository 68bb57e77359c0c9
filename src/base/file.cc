// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::base {

namespace {

[[noreturn]] void fail(const char* function, const char* verb, const std::string& path, const std::string& why) {
  throw ValueError(str(function, ": cannot ", verb, " \"", path, "\": ", why));
}
[[noreturn]] void fail(const char* function, const char* verb, const std::string& path, int code) {
  fail(function, verb, path, std::string(std::strerror(code)));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  /// False where the file system reports a late failure.
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// --- names of unfinished files -------------------------------------------------------------------------------------

// A fixed table, as a signal handler may look at it at any time. A write beyond it goes unregistered.
struct Unfinished {
  std::atomic<bool> taken{false};
  std::atomic<bool> live{false};
  std::array<char, PATH_MAX> path;
};
std::array<Unfinished, 16> unfinished;

// Registers a name before the file of that name exists, and removes the file unless it was kept.
class TemporaryName {
 public:
  explicit TemporaryName(std::string path) : path_(std::move(path)) {
    if (path_.size() >= PATH_MAX) return;
    for (auto& u : unfinished) {
      bool taken = false;
      if (!u.taken.compare_exchange_strong(taken, true)) continue;
      std::copy_n(path_.c_str(), path_.size() + 1, u.path.begin());
      u.live.store(true, std::memory_order_release);
      entry_ = &u;
      return;
    }
  }
  ~TemporaryName() {
    if (exists) ::unlink(path_.c_str());
    if (entry_ == nullptr) return;
    entry_->live.store(false, std::memory_order_release);
    entry_->taken.store(false, std::memory_order_release);
  }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;
  const std::string& path() const { return path_; }
  bool exists = false;

 private:
  std::string path_;
  Unfinished* entry_ = nullptr;
};

std::string unused_name(const std::string& directory) {
  static std::atomic<std::uint64_t> count{0};
  auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return str(directory, "/.tessera-", std::int64_t{::getpid()}, "-", now, "-", count.fetch_add(1), ".tmp");
}

// --- where a path leads --------------------------------------------------------------------------------------------

// The descriptor that the path stands for: opening it anew would write over what the descriptor has written.
std::optional<int> named_descriptor(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    std::string digits = path.substr(folder.size());
    bool number = !digits.empty() && digits.size() < 8 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (number) return std::stoi(digits);
  }
  return std::nullopt;
}

std::string directory_of(const std::string& path) {
  auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

struct Target {
  std::optional<int> descriptor;
  std::string path;  // without links at its end
  std::optional<struct stat> existing;
  bool regular() const { return !descriptor && (!existing || S_ISREG(existing->st_mode)); }
};

void check_directory(const char* function, const std::string& path, const std::string& directory) {
  struct stat s {};
  if (::stat(directory.c_str(), &s) != 0) {
    fail(function, "write", path, str("its directory \"", directory, "\": ", std::strerror(errno)));
  }
  if (!S_ISDIR(s.st_mode)) fail(function, "write", path, str("\"", directory, "\" is no directory"));
  if (::access(directory.c_str(), W_OK | X_OK) != 0) {
    fail(function, "write", path, str("no new file can be made in \"", directory, "\": ", std::strerror(errno)));
  }
}

// Follows links, the last of which may lead to a file that is still to be made.
Target find_target(const char* function, const std::string& path) {
  constexpr int kMostLinks = 40;
  Target t{named_descriptor(path), path, std::nullopt};
  if (path.empty()) fail(function, "write", path, "the path is empty");
  if (t.descriptor) return t;
  struct stat s {};
  for (int links = 0; ::lstat(t.path.c_str(), &s) == 0 && S_ISLNK(s.st_mode); ++links) {
    if (links == kMostLinks) fail(function, "write", path, ELOOP);
    std::array<char, PATH_MAX> to{};
    auto n = ::readlink(t.path.c_str(), to.data(), to.size());
    if (n < 0 || n == static_cast<ssize_t>(to.size())) fail(function, "write", path, n < 0 ? errno : ENAMETOOLONG);
    std::string next(to.data(), static_cast<std::size_t>(n));
    t.path = next.starts_with('/') ? next : str(directory_of(t.path), "/", next);
    t.descriptor = named_descriptor(t.path);
    if (t.descriptor) return t;
  }
  if (::stat(t.path.c_str(), &s) == 0) {
    t.existing = s;
    if (S_ISDIR(s.st_mode)) fail(function, "write", path, EISDIR);
    if (::access(t.path.c_str(), W_OK) != 0) fail(function, "write", path, errno);
  } else if (errno != ENOENT) {
    fail(function, "write", path, errno);
  }
  if (t.regular()) check_directory(function, path, directory_of(t.path));
  return t;
}

// --- writing -------------------------------------------------------------------------------------------------------

struct Call {  // who writes what, for messages
  const char* function;
  const std::string& path;
  [[noreturn]] void fail_with(int code) const { fail(function, "write", path, code); }
};

class PlacedOutput final : public OutputFile {
 public:
  PlacedOutput(const Call& call, int fd) : call_(call), fd_(fd) {}
  void write(std::uint64_t offset, const void* data, std::size_t n) override {
    const char* from = static_cast<const char*>(data);
    while (n > 0) {
      auto wrote = ::pwrite(fd_, from, n, static_cast<off_t>(offset));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) call_.fail_with(wrote < 0 ? errno : ENOSPC);
      from += wrote;
      offset += static_cast<std::uint64_t>(wrote);
      n -= static_cast<std::size_t>(wrote);
    }
  }

 private:
  const Call& call_;
  int fd_;
};

// For what has no places: pipes and devices.
class BufferedOutput final : public OutputFile {
 public:
  void write(std::uint64_t offset, const void* data, std::size_t n) override {
    if (bytes.size() < offset + n) bytes.resize(offset + n);
    std::memcpy(bytes.data() + offset, data, n);
  }
  std::string bytes;
};

void write_through(const Call& call, const Target& target, const std::function<void(OutputFile&)>& fill) {
  BufferedOutput buffer;
  fill(buffer);
  Descriptor fd(target.descriptor ? ::dup(*target.descriptor) : ::open(target.path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.get() < 0) call.fail_with(errno);
  std::string_view rest = buffer.bytes;
  while (!rest.empty()) {
    auto wrote = ::write(fd.get(), rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) call.fail_with(wrote < 0 ? errno : ENOSPC);
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (!fd.close()) call.fail_with(errno);
}

// Fills, gives the file the old one's owner and mode, and waits for the disk.
void complete(const Call& call, const Target& target, int fd, const std::function<void(OutputFile&)>& fill) {
  PlacedOutput out(call, fd);
  fill(out);
  if (target.existing) {
    // Only root may give files away; everybody else's new file is their own.
    [[maybe_unused]] int kept = ::fchown(fd, target.existing->st_uid, target.existing->st_gid);
    if (::fchmod(fd, target.existing->st_mode & 07777) != 0) call.fail_with(errno);
  }
  if (::fsync(fd) != 0) call.fail_with(errno);
}

void take_place(const Call& call, const Target& target, TemporaryName& name, const std::string& directory) {
  if (::rename(name.path().c_str(), target.path.c_str()) != 0) call.fail_with(errno);
  name.exists = false;
  // The file is there whatever the directory's disk answers.
  Descriptor d(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (d.get() >= 0) ::fsync(d.get());
}

constexpr int kTries = 100;

// A file without a name: whatever ends the process, nothing of it stays. False where the file system has none.
bool write_unnamed(const Call& call, const Target& target, const std::string& directory,
                   const std::function<void(OutputFile&)>& fill) {
  Descriptor fd(::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
  std::string self = str("/proc/self/fd/", std::int64_t{fd.get()});
  if (fd.get() < 0 || ::access(self.c_str(), F_OK) != 0) return false;
  complete(call, target, fd.get(), fill);
  for (int i = 0; i < kTries; ++i) {
    TemporaryName name(unused_name(directory));
    name.exists = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.path().c_str(), AT_SYMLINK_FOLLOW) == 0;
    if (!name.exists && errno == EEXIST) continue;
    if (!name.exists) call.fail_with(errno);
    take_place(call, target, name, directory);
    return true;
  }
  call.fail_with(EEXIST);
}

void write_named(const Call& call, const Target& target, const std::string& directory,
                 const std::function<void(OutputFile&)>& fill) {
  for (int i = 0; i < kTries; ++i) {
    TemporaryName name(unused_name(directory));
    Descriptor fd(::open(name.path().c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666));
    name.exists = fd.get() >= 0;
    if (!name.exists && errno == EEXIST) continue;
    if (!name.exists) call.fail_with(errno);
    complete(call, target, fd.get(), fill);
    if (!fd.close()) call.fail_with(errno);
    take_place(call, target, name, directory);
    return;
  }
  call.fail_with(EEXIST);
}

}  // namespace

std::string read_file(const char* function, const std::string& path) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) fail(function, "open", path, errno);
  struct stat s {};
  if (::fstat(fd.get(), &s) != 0) fail(function, "read", path, errno);
  if (S_ISDIR(s.st_mode)) fail(function, "read", path, EISDIR);
  // One byte more than the file has shows its end; pipes are read in growing steps.
  std::string bytes(S_ISREG(s.st_mode) ? static_cast<std::size_t>(s.st_size) + 1 : std::size_t{1} << 16, '\0');
  std::size_t have = 0;
  for (;;) {
    auto got = ::read(fd.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(function, "read", path, errno);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
    if (have == bytes.size()) bytes.resize(bytes.size() * 2);
  }
  bytes.resize(have);
  return bytes;
}

void write_file(const char* function, const std::string& path, const std::function<void(OutputFile&)>& fill) {
  Call call{function, path};
  Target target = find_target(function, path);
  if (!target.regular()) {
    write_through(call, target, fill);
    return;
  }
  std::string directory = directory_of(target.path);
  if (!write_unnamed(call, target, directory, fill)) write_named(call, target, directory, fill);
}

void write_file(const char* function, const std::string& path, std::string_view bytes) {
  write_file(function, path, [&](OutputFile& out) { out.write(0, bytes.data(), bytes.size()); });
}

void check_writable(const char* function, const std::string& path) {
  Target target = find_target(function, path);
  if (!target.descriptor) return;
  int flags = ::fcntl(*target.descriptor, F_GETFL);
  if (flags < 0) fail(function, "write", path, errno);
  if ((flags & O_ACCMODE) == O_RDONLY) fail(function, "write", path, EBADF);
}

void discard_unfinished_files() noexcept {
  for (auto& u : unfinished) {
    if (u.live.load(std::memory_order_acquire)) ::unlink(u.path.data());
  }
}

}  // namespace tessera::base
