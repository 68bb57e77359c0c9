// SPDX-License-Identifier: Apache-2.0
// What is known of compiled programs.
#include "absl/strings/str_cat.h"
#include "entries.h"
#include "objects.h"
#include "types.h"
#include "xla/hlo/ir/hlo_module.h"

namespace xla_cpu {

namespace {
template <class Args>
xla::PjRtLoadedExecutable& loaded_of(const Args& args) {
  return *args.executable->executable->loaded;
}

// What is the first time made by `make`.
template <class T, class Make>
T& kept(Executable& e, std::optional<T>& field, const Make& make) {
  std::lock_guard lock(e.mutex);
  if (!field) field.emplace(make());
  return *field;
}

// The only program's: each executable here has one.
template <class T>
T first(std::vector<T> programs) {
  if (programs.size() != 1) refuse(absl::StrCat("an executable of ", programs.size(), " programs"));
  return std::move(programs[0]);
}

std::vector<PJRT_Buffer_Type> output_types(Executable& e) {
  std::vector<PJRT_Buffer_Type> out;
  for (auto type : first(value(e.loaded->GetOutputElementTypes()))) out.push_back(buffer_type(type));
  return out;
}

std::vector<std::vector<std::int64_t>> output_dims(Executable& e) {
  std::vector<std::vector<std::int64_t>> out;
  for (const auto& dims : first(value(e.loaded->GetOutputDimensions()))) out.emplace_back(dims.begin(), dims.end());
  for (const auto& dims : out) {
    e.ranks.push_back(dims.size());
    e.flat_dims.insert(e.flat_dims.end(), dims.begin(), dims.end());
  }
  return out;
}

std::optional<std::vector<std::string>> memory_kinds(Executable& e) {
  std::vector<std::string> out;
  auto kinds = e.loaded->GetOutputMemoryKinds();
  if (absl::IsUnimplemented(kinds.status())) {
    // Results are in the default memory then.
    auto devices = e.loaded->client()->addressable_devices();
    std::string kind(value(devices.at(0)->default_memory_space())->kind());
    return std::vector<std::string>(output_types(e).size(), kind);
  }
  for (auto kind : first(value(std::move(kinds)))) out.emplace_back(kind);
  return out;
}

std::optional<std::vector<std::string>> serialized(const std::optional<std::vector<xla::OpSharding>>& shardings) {
  if (!shardings) return std::nullopt;
  std::vector<std::string> out;
  for (const auto& sharding : *shardings) out.push_back(sharding.SerializeAsString());
  return out;
}

std::string fingerprint_of(Executable& e) { return value(e.loaded->FingerprintExecutable()); }

std::string optimized_program(Executable& e) {
  xla::HloModuleProtoWithConfig proto;
  first(value(e.loaded->GetHloModules()))->ToProtoWithConfig(&proto);
  return proto.SerializeAsString();
}

template <class Args>
void give_strings(const Strings& strings, Args& args, std::size_t& count) {
  count = strings.list.size();
  args.shardings = strings.given ? strings.data.data() : nullptr;
  args.sharding_sizes = strings.given ? strings.sizes.data() : nullptr;
}

// Bytes that live until their owner, given to the caller as well, is deleted.
template <class Owner>
void give_bytes(std::string bytes, const char*& data, std::size_t& size, Owner*& owner, void (*&deleter)(Owner*)) {
  auto kept = std::make_unique<Owner>();
  kept->bytes = std::move(bytes);
  give(kept->bytes, data, size);
  owner = kept.release();
  deleter = [](Owner* o) { delete o; };
}
}  // namespace

Strings::Strings(std::optional<std::vector<std::string>> strings) : given(strings.has_value()) {
  if (strings) list = *std::move(strings);
  for (const auto& s : list) {
    data.push_back(s.data());
    sizes.push_back(s.size());
  }
}

// --- executables -----------------------------------------------------------------------------------------------------

void executable_destroy(PJRT_Executable_Destroy_Args& args) { delete args.executable; }
void executable_name(PJRT_Executable_Name_Args& args) {
  give(loaded_of(args).name(), args.executable_name, args.executable_name_size);
}
void executable_num_replicas(PJRT_Executable_NumReplicas_Args& args) {
  args.num_replicas = loaded_of(args).num_replicas();
}
void executable_num_partitions(PJRT_Executable_NumPartitions_Args& args) {
  args.num_partitions = loaded_of(args).num_partitions();
}
void executable_num_outputs(PJRT_Executable_NumOutputs_Args& args) {
  Executable& e = *args.executable->executable;
  args.num_outputs = kept(e, e.types, [&] { return output_types(e); }).size();
}
void executable_code_size(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args) {
  args.size_in_bytes = loaded_of(args).SizeOfGeneratedCodeInBytes();
}
void executable_cost_analysis(PJRT_Executable_GetCostAnalysis_Args& args) {
  Executable& e = *args.executable->executable;
  std::lock_guard lock(e.mutex);
  if (!e.costs) e.costs.emplace(value(e.loaded->GetCostAnalysis()));
  args.properties = e.costs->data();
  args.num_properties = e.costs->size();
}
void executable_output_memory_kinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  Executable& e = *args.executable->executable;
  const Strings& kinds = kept(e, e.memory_kinds, [&] { return Strings(memory_kinds(e)); });
  args.num_outputs = kinds.list.size();
  args.memory_kinds = kinds.data.data();
  args.memory_kind_sizes = kinds.sizes.data();
}
// The caller asks for the size first, and then for the bytes in memory of its own.
void executable_optimized_program(PJRT_Executable_OptimizedProgram_Args& args) {
  Executable& e = *args.executable->executable;
  const std::string& code = kept(e, e.optimized, [&] { return optimized_program(e); });
  give("hlo_with_config", args.program->format, args.program->format_size);
  if (args.program->code == nullptr) {
    args.program->code_size = code.size();
    return;
  }
  if (args.program->code_size < code.size()) {
    refuse(absl::StrCat("PJRT_Executable_OptimizedProgram: room for ", args.program->code_size, " bytes of ",
                        code.size()));
  }
  code.copy(args.program->code, code.size());
}
void executable_serialize(PJRT_Executable_Serialize_Args& args) {
  give_bytes(value(loaded_of(args).SerializeExecutable()), args.serialized_bytes, args.serialized_bytes_size,
             args.serialized_executable, args.serialized_executable_deleter);
}
void executable_output_types(PJRT_Executable_OutputElementTypes_Args& args) {
  Executable& e = *args.executable->executable;
  auto& types = kept(e, e.types, [&] { return output_types(e); });
  args.output_types = types.data();
  args.num_output_types = types.size();
}
void executable_output_dimensions(PJRT_Executable_OutputDimensions_Args& args) {
  Executable& e = *args.executable->executable;
  args.num_outputs = kept(e, e.dims, [&] { return output_dims(e); }).size();
  args.dims = e.flat_dims.data();
  args.dim_sizes = e.ranks.data();
}
void executable_fingerprint(PJRT_Executable_Fingerprint_Args& args) {
  Executable& e = *args.executable->executable;
  give(kept(e, e.fingerprint, [&] { return fingerprint_of(e); }), args.executable_fingerprint,
       args.executable_fingerprint_size);
}
void executable_memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
  xla::CompiledMemoryStats s = value(loaded_of(args).GetCompiledMemoryStats());
  args.generated_code_size_in_bytes = s.generated_code_size_in_bytes;
  args.argument_size_in_bytes = s.argument_size_in_bytes;
  args.output_size_in_bytes = s.output_size_in_bytes;
  args.alias_size_in_bytes = s.alias_size_in_bytes;
  args.temp_size_in_bytes = s.temp_size_in_bytes;
  args.host_generated_code_size_in_bytes = s.host_generated_code_size_in_bytes;
  args.host_argument_size_in_bytes = s.host_argument_size_in_bytes;
  args.host_output_size_in_bytes = s.host_output_size_in_bytes;
  args.host_alias_size_in_bytes = s.host_alias_size_in_bytes;
  args.host_temp_size_in_bytes = s.host_temp_size_in_bytes;
  if (XLA_CPU_HAS(args, peak_memory_in_bytes)) args.peak_memory_in_bytes = s.peak_memory_in_bytes;
  if (XLA_CPU_HAS(args, total_size_in_bytes)) args.total_size_in_bytes = s.total_size_in_bytes;
}
void executable_compile_options(PJRT_Executable_GetCompileOptions_Args& args) {
  xla::CompileOptionsProto proto = value(value(loaded_of(args).GetCompileOptions()).ToProto());
  give_bytes(proto.SerializeAsString(), args.serialized_bytes, args.serialized_bytes_size,
             args.serialized_compile_options, args.serialized_compile_options_deleter);
}
void executable_parameter_shardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& args) {
  Executable& e = *args.executable->executable;
  auto make = [&] { return Strings(serialized(e.loaded->GetParameterShardings())); };
  give_strings(kept(e, e.parameter_shardings, make), args, args.num_parameters);
}
void executable_output_shardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& args) {
  Executable& e = *args.executable->executable;
  auto make = [&] { return Strings(serialized(e.loaded->GetOutputShardings())); };
  give_strings(kept(e, e.output_shardings, make), args, args.num_outputs);
}

// --- loaded executables ----------------------------------------------------------------------------------------------

void loaded_destroy(PJRT_LoadedExecutable_Destroy_Args& args) { delete args.executable; }
void loaded_get_executable(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  args.executable = new PJRT_Executable{args.loaded_executable->executable};
}
void loaded_addressable_devices(PJRT_LoadedExecutable_AddressableDevices_Args& args) {
  args.addressable_devices = args.executable->devices.data();
  args.num_addressable_devices = args.executable->devices.size();
}
void loaded_logical_ids(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args& args) {
  args.addressable_device_logical_ids = args.executable->logical_ids.data();
  args.num_addressable_device_logical_ids = args.executable->logical_ids.size();
}
void loaded_device_assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
  xla::DeviceAssignmentProto proto;
  loaded_of(args).device_assignment().Serialize(&proto);
  give_bytes(proto.SerializeAsString(), args.serialized_bytes, args.serialized_bytes_size,
             args.serialized_device_assignment, args.serialized_device_assignment_deleter);
}
void loaded_delete(PJRT_LoadedExecutable_Delete_Args& args) { loaded_of(args).Delete(); }
void loaded_is_deleted(PJRT_LoadedExecutable_IsDeleted_Args& args) { args.is_deleted = loaded_of(args).IsDeleted(); }
void loaded_fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
  Executable& e = *args.executable->executable;
  give(kept(e, e.fingerprint, [&] { return fingerprint_of(e); }), args.executable_fingerprint,
       args.executable_fingerprint_size);
}

}  // namespace xla_cpu
