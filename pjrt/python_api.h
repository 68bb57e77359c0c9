// SPDX-License-Identifier: Apache-2.0
// What the Python package asks of the library beside PJRT: plain C, for ctypes.
#pragma once

#include <cstddef>
#include <cstdint>

#define TESSERA_EXPORT extern "C" __attribute__((visibility("default")))

/// An array in host memory, row-major. `dtype` is tessera::DType's number; `narrow` the module's element type where
/// that is narrower ("i4", "f8E4M3FN"), else null.
struct TesseraHostArray {
  void* data;
  const std::int64_t* shape;
  std::int32_t rank;
  std::int32_t dtype;
  const char* narrow;
};
/// A function that programs call by number: fills `out`. Returns 0, or another number after writing a terminated
/// message of at most `error_size` bytes. It may be called from any thread.
using TesseraHostCallback = std::int32_t (*)(std::int64_t number, const TesseraHostArray* in, std::int32_t num_in,
                                             const TesseraHostArray* out, std::int32_t num_out, char* error,
                                             std::int32_t error_size);

/// Programs that are compiled from now on may call Python; null: they may not.
TESSERA_EXPORT void tessera_set_host_callback(TesseraHostCallback call);

/// A function that is given where a value is placed (a serialized OpSharding over the program's logical devices) while
/// the program that asks for it is compiled. Returns as a host callback does.
using TesseraShardingCallback = std::int32_t (*)(std::int64_t number, const char* op_sharding, std::size_t size,
                                                 char* error, std::int32_t error_size);

/// Programs that are compiled from now on may ask for shardings; null: they are given none.
TESSERA_EXPORT void tessera_set_sharding_callback(TesseraShardingCallback call);

/// The handlers of a target of XLA's FFI, by stage; null: it has none for that stage.
struct TesseraFfiTarget {
  void* instantiate;
  void* prepare;
  void* initialize;
  void* execute;
};
/// Finds the handlers of a target by its name. Returns 0 where there is no such target.
using TesseraFfiTargets = std::int32_t (*)(const char* name, TesseraFfiTarget* target);

/// Programs that are compiled from now on may call these; null: they may not.
TESSERA_EXPORT void tessera_set_ffi_targets(TesseraFfiTargets find);

/// The collectives of a StableHLO module (text or bytecode) as JSON: {"steps": [{"op", "axes", "bytes_per_device",
/// "times", "value", "equation", "file", "line", "reason", "hint"}], "bytes_per_device", "devices"}, or {"error":
/// text}. A module that does not say for how many devices it is is taken to be for `devices`. The answer is the calling
/// thread's until its next call.
TESSERA_EXPORT const char* tessera_comm_plan(const char* module, std::size_t size, std::int64_t devices);

/// Programs that this thread compiles or calls may move at most so many bytes per device; -1: as many as they like.
/// Returns what held before.
TESSERA_EXPORT std::int64_t tessera_set_comm_budget(std::int64_t bytes);

/// Keeps the steps of all programs from now on for a Chrome trace in the file `path`: {"trace": number}, or
/// {"error": text} where it cannot be written. The answer is the calling thread's until its next call.
TESSERA_EXPORT const char* tessera_begin_trace(const char* path);

/// Waits for the programs that were called so far and writes the trace of this number: {}, or {"error": text}.
TESSERA_EXPORT const char* tessera_end_trace(std::int64_t trace);

namespace tessera::pjrt {
/// What `tessera_set_sharding_callback` set.
TesseraShardingCallback sharding_callback();
}  // namespace tessera::pjrt
