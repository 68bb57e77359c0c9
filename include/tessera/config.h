// SPDX-License-Identifier: Apache-2.0
// Settings of the whole program.
#pragma once

#include <atomic>
#include <cstddef>

namespace tessera {

/// A switch that threads may read while another one flips it.
class Setting {
 public:
  Setting(bool value) : value_(value) {}  // NOLINT(google-explicit-constructor): written `.deterministic = true`
  Setting(const Setting& other) : value_(other.get()) {}
  Setting& operator=(const Setting& other) { return *this = other.get(); }
  Setting& operator=(bool value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  bool get() const { return value_.load(std::memory_order_relaxed); }
  operator bool() const { return get(); }  // NOLINT(google-explicit-constructor): reads as a bool

 private:
  std::atomic<bool> value_;
};

/// Settings of the process, which may be changed at any time (`config()`).
struct Config {
  /// Opening a `MeshScope` throws.
  Setting disallow_mesh_scope = false;
  /// StableHLO text uses Shardy attributes; off: GSPMD sharding strings.
  Setting use_shardy = true;
  /// `make_mesh` makes meshes whose axes are all `Explicit`, where no other type is given.
  Setting explicit_meshes = false;
  /// Validate buffers even where a compiled program made them.
  Setting enable_checks = false;
  /// Reductions give the same bits for any number of threads and processes.
  Setting deterministic = false;
  /// Throw when an operation makes a NaN.
  Setting debug_nans = false;
  /// Fused blocks of element-wise operations and row reductions run as machine code that is written for them, on
  /// x86-64 with AVX2 or AVX-512; off, and on other machines: kernel by kernel. Results are the same. Read when a block
  /// runs. Off from the start where the environment has TESSERA_COMPILE_BLOCKS=0, and in builds with sanitizers, which
  /// do not see such code, unless it has another value.
  Setting compile_blocks = true;
  /// Verification mode: programs compiled while it is on are checked as they run, and throw `VerificationError` with
  /// the operation, its source line and the first element that differs. New and freed memory is filled with NaN; every
  /// fused block is compared with its operations one by one, on the same operands; every program is run again,
  /// operation by operation and partitioned another way. Differences that rounding explains are let pass: the second
  /// run is repeated with last places changed, and an element may differ as far as that moves it. Programs with effects
  /// of the host are not run again, nor are those over several processes. Some ten times slower. On from the start
  /// where the environment has TESSERA_VERIFY with a value other than 0.
  Setting verify = false;
  /// Long work shows how far it is on the terminal (`ProgressBar`). Off from the start where the environment has
  /// TESSERA_PROGRESS=0.
  Setting progress = true;
};

/// The one configuration; changing it affects programs traced afterwards.
Config& config();
/// One value for all settings that a traced program depends on: part of the key of program caches.
std::size_t config_key();

/// Sets a switch until the scope ends.
class ConfigScope {
 public:
  ConfigScope(Setting Config::*setting, bool value) : setting_(&(config().*setting)), old_(setting_->get()) {
    *setting_ = value;
  }
  ~ConfigScope() { *setting_ = old_; }
  ConfigScope(const ConfigScope&) = delete;
  ConfigScope& operator=(const ConfigScope&) = delete;

 private:
  Setting* setting_;
  bool old_;
};

}  // namespace tessera
