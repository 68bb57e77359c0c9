// SPDX-License-Identifier: Apache-2.0
// What a compiled program costs, for those who ask before they run it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tessera {

/// Costs of one run on one device, by name. "flops": additions and multiplications; "transcendentals": elements of
/// exponentials, logarithms and the like; "bytes accessed": bytes that operations read and write. XLA's compiler tells
/// more ("utilization0{}", "bytes accessedout{}", ...).
using CostAnalysis = std::map<std::string, double>;

/// Bytes of a compiled program in the memory of one device and, where the program keeps arrays there, of its host.
struct CompiledMemoryStats {
  std::int64_t generated_code_size_in_bytes = 0;
  std::int64_t argument_size_in_bytes = 0;
  std::int64_t output_size_in_bytes = 0;
  /// Of the results that take the memory of donated arguments; they count as arguments and as results, too.
  std::int64_t alias_size_in_bytes = 0;
  /// What the program takes while it runs, beside its arguments and results.
  std::int64_t temp_size_in_bytes = 0;
  std::int64_t host_generated_code_size_in_bytes = 0;
  std::int64_t host_argument_size_in_bytes = 0;
  std::int64_t host_output_size_in_bytes = 0;
  std::int64_t host_alias_size_in_bytes = 0;
  std::int64_t host_temp_size_in_bytes = 0;
  /// The most that is taken at any moment; empty where the device's compiler does not tell.
  std::optional<std::int64_t> peak_memory_in_bytes = {};
  bool operator==(const CompiledMemoryStats&) const = default;
};

}  // namespace tessera
