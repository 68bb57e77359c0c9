// SPDX-License-Identifier: Apache-2.0
#include "io/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera {

namespace io {

Input::Input(std::string_view bytes, std::string name) : name_(std::move(name)), size_(bytes.size()), view_(bytes) {}

Input::Input(Input&& other) noexcept
    : name_(std::move(other.name_)),
      fd_(std::exchange(other.fd_, -1)),
      function_(other.function_),
      size_(other.size_),
      view_(other.view_),
      owned_(std::move(other.owned_)) {}

Input::~Input() {
  if (fd_ >= 0) ::close(fd_);
}

Input Input::open(const char* function, const std::string& path) {
  Input in({}, path);
  in.function_ = function;
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) {
    in.owned_ = base::read_file(function, path);  // or says why not
    in.size_ = in.owned_.size();
    return in;
  }
  in.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (in.fd_ < 0 || ::fstat(in.fd_, &s) != 0) {
    throw ValueError(str(function, ": cannot open \"", path, "\": ", std::strerror(errno)));
  }
  in.size_ = static_cast<std::uint64_t>(s.st_size);
  return in;
}

void Input::read(std::uint64_t offset, void* to, std::size_t n) const {
  char* out = static_cast<char*>(to);
  if (fd_ < 0 && n > 0) std::memcpy(out, bytes().data() + offset, n);
  if (fd_ < 0) return;
  while (n > 0) {
    auto got = ::pread(fd_, out, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw ValueError(str(function_, ": cannot read \"", name_, "\" at byte ", offset, ": ",
                           got < 0 ? std::strerror(errno) : "the file has become shorter"));
    }
    out += got;
    offset += static_cast<std::uint64_t>(got);
    n -= static_cast<std::size_t>(got);
  }
}

void check_defined(const char* function, const std::string& what, const HostArray& value) {
  if (!value.defined())
    throw ValueError(str(function, ": ", what, " is undefined; expected an array that was made or loaded"));
}

void fail_missing(const std::string& function, const std::string& file, const std::string& key,
                  const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string have = names.empty() ? "no arrays" : "";
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) have += str(i > 0 ? ", \"" : "\"", names[i], "\"");
  if (names.size() > kMost) have += str(" and ", names.size() - kMost, " more");
  throw ValueError(str(function, ": ", file.empty() ? std::string("the map has") : str("\"", file, "\" has"),
                       " no array \"", key, "\"; it has ", have));
}

}  // namespace io

HostArrays::HostArrays(std::string file) : file_(std::move(file)) {}

void HostArrays::check_has(const std::string& key) const {
  if (contains(key)) return;
  std::vector<std::string> names;
  for (const auto& [name, value] : *this) names.push_back(name);
  io::fail_missing("HostArrays", file_, key, names);
}

const HostArray& HostArrays::at(const std::string& key) const {
  check_has(key);
  return find(key)->second;
}
HostArray& HostArrays::at(const std::string& key) {
  check_has(key);
  return find(key)->second;
}

}  // namespace tessera
