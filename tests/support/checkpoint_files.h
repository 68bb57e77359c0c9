// SPDX-License-Identifier: Apache-2.0
// Folders and file systems for the tests of checkpoints.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "io/checkpoint/files.h"
#include "tessera/error.h"
#include "tessera/host_array.h"

namespace tessera::test {

/// A folder of its own, removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::random_device device;
    path_ = ::testing::TempDir() + "tessera_checkpoint_" + std::to_string(device()) + std::to_string(device());
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
/// Names in a folder, hidden ones too, sorted.
inline std::vector<std::string> names_in(const std::string& folder) { return io::list_directory("test", folder); }

/// Random bits, so that NaNs and denormals are among the floats; bools are 0 or 1.
inline HostArray random_bits(DType dtype, const Shape& shape, std::mt19937_64& random) {
  HostArray out(dtype, shape);
  auto* bytes = static_cast<unsigned char*>(out.data());
  for (std::int64_t i = 0; i < out.nbytes(); ++i) {
    bytes[i] = static_cast<unsigned char>(is_bool(dtype) ? random() & 1U : random());
  }
  return out;
}

/// Passes everything on to another file system. Before each step `before` is called with its name and path; what it
/// throws takes the step's place.
class HookedFiles : public io::FileSystem {
 public:
  using Before = std::function<void(const std::string& step, const std::string& path)>;
  explicit HookedFiles(Before before, std::shared_ptr<io::FileSystem> to = io::FileSystem::local())
      : before_(std::move(before)), to_(std::move(to)) {}

  std::unique_ptr<File> create(const std::string& path) override {
    before_("create", path);
    return std::make_unique<Hooked>(before_, path, to_->create(path));
  }
  void make_directories(const std::string& path) override {
    before_("make_directories", path);
    to_->make_directories(path);
  }
  void make_directory(const std::string& path) override {
    before_("make_directory", path);
    to_->make_directory(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    before_("rename", from);
    to_->rename(from, to);
  }
  void sync_directory(const std::string& path) override {
    before_("sync_directory", path);
    to_->sync_directory(path);
  }
  void remove_all(const std::string& path) override {
    before_("remove_all", path);
    to_->remove_all(path);
  }
  std::uint64_t file_size(const std::string& path) override {
    before_("file_size", path);
    return to_->file_size(path);
  }

 private:
  class Hooked final : public File {
   public:
    Hooked(Before before, std::string path, std::unique_ptr<File> to)
        : before_(std::move(before)), path_(std::move(path)), to_(std::move(to)) {}
    void write(std::uint64_t offset, const void* data, std::size_t n) override {
      before_("write", path_);
      to_->write(offset, data, n);
    }
    void sync() override {
      before_("sync", path_);
      to_->sync();
    }
    void close() override {
      before_("close", path_);
      to_->close();
    }

   private:
    Before before_;
    std::string path_;
    std::unique_ptr<File> to_;
  };

  Before before_;
  std::shared_ptr<io::FileSystem> to_;
};

}  // namespace tessera::test
