// SPDX-License-Identifier: Apache-2.0
// Bytes that readers take only what they need of: a file, or memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/io.h"

namespace tessera::io {

class Input {
 public:
  /// Memory that outlives this object.
  Input(std::string_view bytes, std::string name);
  /// Opens a file. A pipe is read to its end. Throws `ValueError` naming `function`, the path and the reason.
  static Input open(const char* function, const std::string& path);
  Input(Input&& other) noexcept;
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input();

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  /// Throws `ValueError` where the file cannot be read there, or has become shorter.
  void read(std::uint64_t offset, void* to, std::size_t n) const;
  /// Of a file that was opened, else -1.
  int descriptor() const { return fd_; }
  std::string_view bytes() const { return owned_.empty() ? view_ : std::string_view(owned_); }

 private:
  std::string name_;
  int fd_ = -1;
  const char* function_ = "";
  std::uint64_t size_ = 0;
  std::string_view view_;
  std::string owned_;
};

/// Gives the next `n` bytes.
using NextBytes = std::function<void(void* to, std::size_t n)>;
/// One .npy of `size` bytes. The elements are read into the array's own memory, once the header fits the size.
HostArray read_npy(const NextBytes& next, std::uint64_t size, const std::string& name);

/// The bytes before the elements.
std::string npy_header(const HostArray& value);
/// What a .npy or .npz holds for the value: bfloat16 as float32.
HostArray as_numpy(const HostArray& value);

/// Throws `ValueError` naming `what` unless the array has storage.
void check_defined(const char* function, const std::string& what, const HostArray& value);

/// Throws `ValueError` that names the key and the names that are there.
[[noreturn]] void fail_missing(const std::string& function, const std::string& file, const std::string& key,
                               const std::vector<std::string>& names);

}  // namespace tessera::io
