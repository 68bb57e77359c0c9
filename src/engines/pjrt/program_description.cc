// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/program_description.h"

#include <utility>

namespace tessera::pjrt_engine {

ProgramDescription::ProgramDescription(const PluginClient& client, PJRT_LoadedExecutable* program)
    : api_(client.api()) {
  auto of = sized<PJRT_LoadedExecutable_GetExecutable_Args>();
  of.loaded_executable = program;
  PJRT_CALL(api_, PJRT_LoadedExecutable_GetExecutable, of, "describe a program");
  handle_ = of.executable;
}

ProgramDescription::~ProgramDescription() {
  if (!api_.has(&PJRT_Api::PJRT_Executable_Destroy)) return;
  auto end = sized<PJRT_Executable_Destroy_Args>();
  end.executable = handle_;
  static_cast<void>(api_.exception(api_.entry(&PJRT_Api::PJRT_Executable_Destroy, "PJRT_Executable_Destroy")(&end),
                                   "end a program's description"));
}

std::size_t ProgramDescription::result_count() const {
  auto count = sized<PJRT_Executable_NumOutputs_Args>();
  count.executable = handle_;
  PJRT_CALL(api_, PJRT_Executable_NumOutputs, count, "count a program's results");
  return count.num_outputs;
}

std::string ProgramDescription::serialized() const {
  auto write = sized<PJRT_Executable_Serialize_Args>();
  write.executable = handle_;
  auto* error = api_.entry(&PJRT_Api::PJRT_Executable_Serialize, "PJRT_Executable_Serialize")(&write);
  if (api_.exception(error, "write a program")) return {};
  std::string out(write.serialized_bytes, write.serialized_bytes_size);
  write.serialized_executable_deleter(write.serialized_executable);
  return out;
}

CostAnalysis ProgramDescription::cost_analysis() const {
  auto costs = sized<PJRT_Executable_GetCostAnalysis_Args>();
  costs.executable = handle_;
  PJRT_CALL(api_, PJRT_Executable_GetCostAnalysis, costs, "tell a program's costs");
  CostAnalysis out;
  for (std::size_t i = 0; i < costs.num_properties; ++i) {
    const PJRT_NamedValue& v = costs.properties[i];
    std::string name(v.name, v.name_size);
    // XLA's -1 is for what it does not know, as the operations of a product by cuBLAS.
    if (v.type == PJRT_NamedValue_kFloat && v.float_value >= 0) {
      out.emplace(std::move(name), v.float_value);
    } else if (v.type == PJRT_NamedValue_kInt64 && v.int64_value >= 0) {
      out.emplace(std::move(name), static_cast<double>(v.int64_value));
    }
  }
  return out;
}

CompiledMemoryStats ProgramDescription::memory_analysis() const {
  auto told = sized<PJRT_Executable_GetCompiledMemoryStats_Args>();
  told.executable = handle_;
  PJRT_CALL(api_, PJRT_Executable_GetCompiledMemoryStats, told, "tell a program's memory");
  CompiledMemoryStats out;
  out.generated_code_size_in_bytes = told.generated_code_size_in_bytes;
  out.argument_size_in_bytes = told.argument_size_in_bytes;
  out.output_size_in_bytes = told.output_size_in_bytes;
  out.alias_size_in_bytes = told.alias_size_in_bytes;
  out.temp_size_in_bytes = told.temp_size_in_bytes;
  out.host_generated_code_size_in_bytes = told.host_generated_code_size_in_bytes;
  out.host_argument_size_in_bytes = told.host_argument_size_in_bytes;
  out.host_output_size_in_bytes = told.host_output_size_in_bytes;
  out.host_alias_size_in_bytes = told.host_alias_size_in_bytes;
  out.host_temp_size_in_bytes = told.host_temp_size_in_bytes;
  // Plugins of older versions do not know of it, and leave the zero.
  if (told.peak_memory_in_bytes > 0) out.peak_memory_in_bytes = told.peak_memory_in_bytes;
  return out;
}

}  // namespace tessera::pjrt_engine
