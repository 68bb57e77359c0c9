// SPDX-License-Identifier: Apache-2.0
// Functions of users that a plugin's program calls on the host.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "ops/control/calls.h"
#include "xla/ffi/api/c_api.h"

namespace tessera::pjrt_engine {

/// The name of the custom call by which programs call them, and its handler.
inline constexpr std::string_view kHostCallTarget = "tessera_host_call";
XLA_FFI_Handler* host_call_handler();

/// The functions that one program calls, each by a number of its own in this process. A run of the program begins and
/// ends while no other does, so that what a function throws is that run's.
class HostCalls {
 public:
  /// `several_devices`: a device that stops would leave the others waiting in a collective for ever. There a call that
  /// throws gives zeros, and those after it are left out, so that the run ends.
  explicit HostCalls(bool several_devices) : several_devices_(several_devices) {}
  ~HostCalls();
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  /// Its number. The function is held as long as this.
  std::int64_t add(const ops::Callback& callback);
  bool empty() const { return numbers_.empty(); }

  /// Held during a run.
  std::unique_lock<std::mutex> begin();
  /// What a function threw in this run; null for nothing.
  std::exception_ptr error() const;

  /// Whether this thread is inside a function that a program called.
  static bool inside();

 private:
  friend class HostCallRun;
  struct Failure {
    std::mutex mutex;
    std::exception_ptr error;
  };
  struct Function;
  bool several_devices_;
  std::vector<std::int64_t> numbers_;
  std::mutex running_;
  std::shared_ptr<Failure> failure_ = std::make_shared<Failure>();
};

}  // namespace tessera::pjrt_engine
