// SPDX-License-Identifier: Apache-2.0
// What a plugin tells of a program that it has compiled.
#pragma once

#include <cstddef>
#include <string>

#include "engines/pjrt/plugin_client.h"
#include "tessera/program_analysis.h"

namespace tessera::pjrt_engine {

class ProgramDescription {
 public:
  ProgramDescription(const PluginClient& client, PJRT_LoadedExecutable* program);
  ~ProgramDescription();
  ProgramDescription(const ProgramDescription&) = delete;
  ProgramDescription& operator=(const ProgramDescription&) = delete;

  std::size_t result_count() const;
  /// Empty where the plugin cannot write it.
  std::string serialized() const;
  /// These throw `UnimplementedError` where the plugin lacks the entry, and what it answers.
  CostAnalysis cost_analysis() const;
  CompiledMemoryStats memory_analysis() const;

 private:
  const Api& api_;
  PJRT_Executable* handle_;
};

}  // namespace tessera::pjrt_engine
