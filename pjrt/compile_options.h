// SPDX-License-Identifier: Apache-2.0
// xla.CompileOptionsProto, as far as it concerns Tessera.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::pjrt {

struct CompileOptions {
  std::int64_t num_replicas = 1;
  std::int64_t num_partitions = 1;
  std::vector<std::int64_t> device_ids;  ///< by replica, then partition; empty: the client's first devices
  std::int64_t device_ordinal = -1;      ///< of a program for one device
  /// By result: whether the compiler may choose the sharding of one that has none; a single entry speaks of all.
  std::vector<bool> propagate_to_outputs;
};

/// Throws `FormatError` naming the byte for what is no such message, `ValueError` for counts or ids below zero and for
/// options by name that XLA does not have.
CompileOptions parse_compile_options(std::string_view bytes);
/// xla.DeviceAssignmentProto.
std::string serialized_device_assignment(std::int64_t replicas, std::int64_t partitions,
                                         const std::vector<std::int64_t>& device_ids);

}  // namespace tessera::pjrt
