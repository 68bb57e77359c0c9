// SPDX-License-Identifier: Apache-2.0
// Compiling, and what an executable tells of itself.
#include <algorithm>
#include <cstring>

#include "array/array_stats.h"
#include "base/hash.h"
#include "entries.h"
#include "hlo/export/partitioned.h"
#include "hlo/module.h"
#include "objects.h"
#include "runtime/program_costs.h"
#include "sharding/placement.h"
#include "tessera/sharding.h"

namespace tessera::pjrt {

namespace {

using Port = Executable::Port;

std::vector<PJRT_Device*> devices_of(PJRT_Client& client, const CompileOptions& options) {
  std::vector<PJRT_Device*> out;
  auto n = options.num_replicas * options.num_partitions;
  std::vector<std::int64_t> ids = options.device_ids;
  if (ids.empty()) {
    for (std::int64_t k = 0; k < n; ++k)
      ids.push_back(n == 1 && options.device_ordinal > 0 ? options.device_ordinal : k);
  }
  for (auto id : ids) {
    if (id >= std::ssize(client.all)) {
      throw DeviceMismatchError(
          str("the program is for device ", id, "; the client has devices 0..", client.all.size() - 1));
    }
    out.push_back(client.all[static_cast<std::size_t>(id)]);
  }
  return out;
}

// Programs of one device may leave out what the options say; others must agree.
void fit_counts(ir::Module& m, const CompileOptions& options) {
  if (m.num_devices() == 1) {
    m.num_partitions = options.num_partitions;
    m.num_replicas = options.num_replicas;
  }
  if (m.num_devices() != options.num_replicas * options.num_partitions) {
    throw ValueError(str("the module is for ", m.num_replicas, " replicas of ", m.num_partitions,
                         " partitions; the compile options are for ", options.num_replicas, " of ",
                         options.num_partitions));
  }
}

std::size_t memory_index(const PJRT_Device& device, const std::string& kind) {
  if (kind.empty()) return 0;
  for (std::size_t k = 0; k < device.memories.size(); ++k) {
    if (of(device.memories[k]).kind == kind) return k;
  }
  throw InvalidArgument(str("memory kind \"", kind, "\"; expected device, pinned_host or unpinned_host"));
}

Port port(const Executable& exe, const ir::Port& p, const ir::Type& type, const ShardingPtr& sharding) {
  Port out;
  out.type = type;
  out.type.weak = false;
  out.sharding = sharding;
  out.placement = arrays::look_up(sharding, type.shape);
  for (const auto* d : exe.devices) {
    out.position.push_back(out.placement->devices->position(d->device));
    out.tile.push_back(out.placement->tile_of[static_cast<std::size_t>(out.position.back())]);
  }
  out.memory = memory_index(*exe.devices[0], p.memory_kind);
  out.donated = p.donated;
  const Shape& shape = out.placement->shard_shape;
  out.about = std::make_shared<const Description>(
      Description{element_type(p, type.dtype), shape, asked_layout(p.memory_layout, shape.size())});
  return out;
}

// Ports with tokens between them.
std::vector<std::int32_t> with_tokens(std::size_t ports, const std::vector<std::size_t>& tokens) {
  std::vector<std::int32_t> out;
  std::int32_t next = 0;
  for (std::size_t i = 0; i < ports + tokens.size(); ++i) {
    bool token = std::ranges::find(tokens, i) != tokens.end();
    out.push_back(token ? -1 : next++);
  }
  return out;
}

// What callers are told of an argument or a result; nullptr: of a token.
void describe(const Executable& exe, const Port* p, Executable::Described& to) {
  to.shardings.add(op_sharding(p));
  to.kinds.add(of(exe.devices[0]->memories[p == nullptr ? 0 : p->memory]).kind);
  to.layouts.add(p == nullptr ? layout_text({}, 0) : layout_text(p->about->layout, p->about->shape.size()));
}

void describe(Executable& exe) {
  auto at = [](const std::vector<Port>& ports, std::int32_t i) {
    return i < 0 ? nullptr : &ports[static_cast<std::size_t>(i)];
  };
  for (auto a : exe.arguments) describe(exe, at(exe.in, a), exe.described_in);
  for (auto r : exe.results) {
    const Port* p = at(exe.out, r);
    describe(exe, p, exe.described_out);
    exe.out_types.push_back(p == nullptr ? PJRT_Buffer_Type_TOKEN : buffer_type(p->about->element));
    if (p != nullptr) exe.out_dims.insert(exe.out_dims.end(), p->about->shape.begin(), p->about->shape.end());
    exe.out_ranks.push_back(p == nullptr ? 0 : p->about->shape.size());
  }
  for (auto* d : {&exe.described_in, &exe.described_out}) {
    d->shardings.finish();
    d->kinds.finish();
  }
}

void place(Executable& exe, const std::vector<Device>& on) {
  const ir::Module& m = exe.module;
  exe.placed =
      std::make_shared<program::PlacedStablehlo>(m, m.name, on, program::PlacedStablehlo::Options{true, true, true});
  exe.compiled = exe.placed->compile();
  ir::Types in = m.graph->input_types();
  ir::Types out = m.graph->output_types();
  for (std::size_t i = 0; i < in.size(); ++i) exe.in.push_back(port(exe, m.inputs[i], in[i], exe.placed->in()[i]));
  for (std::size_t i = 0; i < out.size(); ++i) {
    exe.out.push_back(port(exe, m.outputs[i], out[i], exe.placed->out(*exe.compiled, i)));
  }
}

std::int64_t shard_bytes(const Port& p) { return size_of(p.about->shape) * host_size(p.about->element); }

// An argument stays the caller's where no result could take its memory. Which results there are on a device is known
// once the program is compiled; what is donated makes no other program.
void drop_useless_donations(Executable& exe) {
  std::vector<bool> taken(exe.out.size());
  for (std::size_t i = 0; i < exe.in.size(); ++i) {
    Port& p = exe.in[i];
    if (!p.donated) continue;
    p.donated = false;
    for (std::size_t j = 0; j < taken.size() && !p.donated; ++j) {
      p.donated = !taken[j] && shard_bytes(exe.out[j]) == shard_bytes(p);
      if (p.donated) taken[j] = true;
    }
    if (p.donated) continue;
    exe.module.inputs[i].donated = false;
    exe.placed->keep(i);
  }
}
}  // namespace

std::shared_ptr<Executable> compile(PJRT_Client& client, std::string_view program, std::string_view options) {
  auto exe = std::make_shared<Executable>();
  exe->client = &client;
  exe->program = program;
  exe->options = options;
  exe->parsed = parse_compile_options(options);
  exe->devices = devices_of(client, exe->parsed);
  ClientScope scope(client.client);
  exe->module = hlo::import_module(exe->program, {.name = "program"});
  ir::Module& m = exe->module;
  fit_counts(m, exe->parsed);
  exe->name = m.name;
  exe->fingerprint =
      str(base::hash_mix(std::hash<std::string>{}(exe->program), std::hash<std::string>{}(exe->options)));
  std::vector<Device> on;
  for (const auto* d : exe->devices) on.push_back(d->device);
  place(*exe, on);
  drop_useless_donations(*exe);
  exe->arguments = with_tokens(exe->in.size(), m.token_inputs);
  exe->results = with_tokens(exe->out.size(), m.token_outputs);
  describe(*exe);
  return exe;
}

namespace {
std::string_view text_of(const PJRT_Program& p) {
  auto format = view(p.format, p.format_size);
  if (format != "mlir") {
    throw UnimplementedError(str("a program in the format \"", format, "\"; expected \"mlir\" (StableHLO)"));
  }
  return view(p.code, p.code_size);
}

PJRT_LoadedExecutable* loaded(std::shared_ptr<Executable> exe) {
  auto out = std::make_unique<PJRT_LoadedExecutable>();
  auto partitions = exe->parsed.num_partitions;
  for (std::size_t k = 0; k < exe->devices.size(); ++k) {
    if (!exe->devices[k]->addressable) continue;
    out->devices.push_back(exe->devices[k]);
    auto id = static_cast<std::int64_t>(k);
    out->logical_ids.push_back({static_cast<int>(id / partitions), static_cast<int>(id % partitions)});
  }
  out->executable = std::move(exe);
  return out.release();
}

Executable& live(PJRT_LoadedExecutable* e) {
  if (!e->executable) throw StateError("the executable was deleted");
  return *e->executable;
}
}  // namespace

// --- compiling -------------------------------------------------------------------------------------------------------

void client_compile(PJRT_Client_Compile_Args& args) {
  auto exe = compile(*args.client, text_of(*args.program), view(args.compile_options, args.compile_options_size));
  report_shardings(*exe);
  args.executable = loaded(std::move(exe));
}

void client_load(PJRT_Client_Load_Args& args) {
  if (args.executable->executable->client != args.client) {
    throw UnimplementedError("PJRT_Client_Load: an executable that was compiled for another client");
  }
  args.loaded_executable = loaded(args.executable->executable);
}

// For devices that need not be there: a topology's are as virtual as any.
void ahead_of_time(PJRT_Compile_Args& args) {
  auto exe =
      compile(*args.topology->client, text_of(*args.program), view(args.compile_options, args.compile_options_size));
  exe->own_client = args.topology->own;
  args.executable = new PJRT_Executable{std::move(exe)};
}

namespace {
constexpr std::string_view kMagic = "TesseraExecutable1";
void put(std::string& to, std::string_view part) {
  std::uint64_t n = part.size();
  to.append(reinterpret_cast<const char*>(&n), sizeof n);
  to += part;
}
std::string_view take(std::string_view& from) {
  std::uint64_t n = 0;
  if (from.size() < sizeof n) throw FormatError("a serialized executable that is truncated", "", 0, 0);
  std::memcpy(&n, from.data(), sizeof n);
  from.remove_prefix(sizeof n);
  if (n > from.size()) throw FormatError("a serialized executable that is truncated", "", 0, 0);
  auto out = from.substr(0, static_cast<std::size_t>(n));
  from.remove_prefix(out.size());
  return out;
}
}  // namespace

// The module and its options: compiling again takes milliseconds, and holds on any machine and for any version.
void executable_serialize(PJRT_Executable_Serialize_Args& args) {
  const Executable& e = *args.executable->executable;
  auto out = std::make_unique<PJRT_SerializedExecutable>();
  out->bytes = kMagic;
  put(out->bytes, e.options);
  put(out->bytes, e.program);
  give(out->bytes, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable = out.release();
  args.serialized_executable_deleter = [](PJRT_SerializedExecutable* s) { delete s; };
}

void executable_deserialize(PJRT_Executable_DeserializeAndLoad_Args& args) {
  auto bytes = view(args.serialized_executable, args.serialized_executable_size);
  if (!bytes.starts_with(kMagic)) throw FormatError("no serialized executable of Tessera's", "", 0, 0);
  bytes.remove_prefix(kMagic.size());
  auto options = take(bytes);
  auto program = take(bytes);
  if (TESSERA_PJRT_HAS(args, overridden_serialized_compile_options_size) &&
      args.overridden_serialized_compile_options_size > 0) {
    options = view(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size);
  }
  args.loaded_executable = loaded(compile(*args.client, program, options));
}

void executable_compile_options(PJRT_Executable_GetCompileOptions_Args& args) {
  auto out = std::make_unique<PJRT_SerializedCompileOptions>();
  out->bytes = args.executable->executable->options;
  give(out->bytes, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_compile_options = out.release();
  args.serialized_compile_options_deleter = [](PJRT_SerializedCompileOptions* s) { delete s; };
}

// --- what an executable tells ----------------------------------------------------------------------------------------

void executable_destroy(PJRT_Executable_Destroy_Args& args) { delete args.executable; }
void executable_name(PJRT_Executable_Name_Args& args) {
  give(args.executable->executable->name, args.executable_name, args.executable_name_size);
}
void executable_num_replicas(PJRT_Executable_NumReplicas_Args& args) {
  args.num_replicas = static_cast<std::size_t>(args.executable->executable->parsed.num_replicas);
}
void executable_num_partitions(PJRT_Executable_NumPartitions_Args& args) {
  args.num_partitions = static_cast<std::size_t>(args.executable->executable->parsed.num_partitions);
}
void executable_num_outputs(PJRT_Executable_NumOutputs_Args& args) {
  args.num_outputs = args.executable->executable->results.size();
}
// Steps refer to kernels of the library; there is no code of the program's own.
void executable_code_size(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args& args) { args.size_in_bytes = 0; }
void executable_fingerprint(PJRT_Executable_Fingerprint_Args& args) {
  give(args.executable->executable->fingerprint, args.executable_fingerprint, args.executable_fingerprint_size);
}
void executable_output_types(PJRT_Executable_OutputElementTypes_Args& args) {
  args.output_types = args.executable->executable->out_types.data();
  args.num_output_types = args.executable->executable->out_types.size();
}
void executable_output_dimensions(PJRT_Executable_OutputDimensions_Args& args) {
  const Executable& e = *args.executable->executable;
  args.num_outputs = e.results.size();
  args.dims = e.out_dims.data();
  args.dim_sizes = e.out_ranks.data();
}
void executable_output_memory_kinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  const Strings& kinds = args.executable->executable->described_out.kinds;
  args.num_outputs = kinds.list.size();
  args.memory_kinds = kinds.data.data();
  args.memory_kind_sizes = kinds.sizes.data();
}
void executable_parameter_memory_kinds(PJRT_Executable_ParameterMemoryKinds_Args& args) {
  const Strings& kinds = args.executable->executable->described_in.kinds;
  args.num_parameters = kinds.list.size();
  args.memory_kinds = kinds.data.data();
  args.memory_kind_sizes = kinds.sizes.data();
}
void executable_parameter_shardings(PJRT_Shardings_PJRT_Executable_ParameterShardings_Args& args) {
  const Strings& s = args.executable->executable->described_in.shardings;
  args.num_parameters = s.list.size();
  args.shardings = s.data.data();
  args.sharding_sizes = s.sizes.data();
}
void executable_output_shardings(PJRT_Shardings_PJRT_Executable_OutputShardings_Args& args) {
  const Strings& s = args.executable->executable->described_out.shardings;
  args.num_outputs = s.list.size();
  args.shardings = s.data.data();
  args.sharding_sizes = s.sizes.data();
}

// What each device runs. The first call asks for the size, the second for the bytes.
void executable_optimized_program(PJRT_Executable_OptimizedProgram_Args& args) {
  Executable& e = *args.executable->executable;
  std::lock_guard lock(e.mutex);
  if (e.optimized.empty()) e.optimized = hlo::partitioned_text(e.compiled->lowered->partitioned(), e.name);
  PJRT_Program& p = *args.program;
  static constexpr std::string_view kFormat = "mlir";
  give(kFormat, p.format, p.format_size);
  if (p.code != nullptr) {
    if (p.code_size < e.optimized.size()) {
      throw InvalidArgument(str("room for ", p.code_size, " bytes; the program has ", e.optimized.size()));
    }
    std::memcpy(p.code, e.optimized.data(), e.optimized.size());
  }
  p.code_size = e.optimized.size();
}

void executable_cost_analysis(PJRT_Executable_GetCostAnalysis_Args& args) {
  Executable& e = *args.executable->executable;
  std::lock_guard lock(e.mutex);
  if (e.cost_values.empty()) {
    e.costs = runtime::costs_of(*e.compiled->lowered->partitioned());
    for (const auto& [name, number] : e.costs) {
      PJRT_NamedValue v{};
      v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
      give(name, v.name, v.name_size);
      v.type = PJRT_NamedValue_kFloat;
      v.float_value = static_cast<float>(number);
      v.value_size = 1;
      e.cost_values.push_back(v);
    }
  }
  args.properties = e.cost_values.data();
  args.num_properties = e.cost_values.size();
}

namespace {
std::int64_t bytes_of(const std::vector<Port>& ports, bool donated_only) {
  std::int64_t out = 0;
  for (const auto& p : ports) {
    if (p.donated || !donated_only) out += shard_bytes(p);
  }
  return out;
}
}  // namespace

void executable_memory_stats(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
  const Executable& e = *args.executable->executable;
  args.generated_code_size_in_bytes = 0;
  args.argument_size_in_bytes = bytes_of(e.in, false);
  args.output_size_in_bytes = bytes_of(e.out, false);
  args.alias_size_in_bytes = bytes_of(e.in, true);
  args.temp_size_in_bytes = runtime::temporary_bytes(*e.compiled->lowered->partitioned());
  args.host_generated_code_size_in_bytes = 0;
  args.host_argument_size_in_bytes = 0;
  args.host_output_size_in_bytes = 0;
  args.host_alias_size_in_bytes = 0;
  args.host_temp_size_in_bytes = 0;
  auto all =
      args.argument_size_in_bytes + args.output_size_in_bytes - args.alias_size_in_bytes + args.temp_size_in_bytes;
  if (TESSERA_PJRT_HAS(args, peak_memory_in_bytes)) args.peak_memory_in_bytes = all;
  if (TESSERA_PJRT_HAS(args, total_size_in_bytes)) args.total_size_in_bytes = all;
  if (TESSERA_PJRT_HAS(args, total_allocation_bytes)) args.total_allocation_bytes = all;
  if (TESSERA_PJRT_HAS(args, indefinite_allocations)) args.indefinite_allocations = 0;
  if (TESSERA_PJRT_HAS(args, peak_unpadded_heap_bytes)) args.peak_unpadded_heap_bytes = all;
}

// --- loaded executables ----------------------------------------------------------------------------------------------

void loaded_destroy(PJRT_LoadedExecutable_Destroy_Args& args) { delete args.executable; }
void loaded_get_executable(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  live(args.loaded_executable);
  args.executable = new PJRT_Executable{args.loaded_executable->executable};
}
void loaded_device_assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
  const Executable& e = live(args.executable);
  std::vector<std::int64_t> ids;
  for (const auto* d : e.devices) ids.push_back(d->description.id);
  auto out = std::make_unique<PJRT_DeviceAssignmentSerialized>();
  out->bytes = serialized_device_assignment(e.parsed.num_replicas, e.parsed.num_partitions, ids);
  give(out->bytes, args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_device_assignment = out.release();
  args.serialized_device_assignment_deleter = [](PJRT_DeviceAssignmentSerialized* d) { delete d; };
}
void loaded_addressable_devices(PJRT_LoadedExecutable_AddressableDevices_Args& args) {
  args.addressable_devices = args.executable->devices.data();
  args.num_addressable_devices = args.executable->devices.size();
}
void loaded_logical_ids(PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args& args) {
  args.addressable_device_logical_ids = args.executable->logical_ids.data();
  args.num_addressable_device_logical_ids = args.executable->logical_ids.size();
}
void loaded_delete(PJRT_LoadedExecutable_Delete_Args& args) { args.executable->executable = nullptr; }
void loaded_is_deleted(PJRT_LoadedExecutable_IsDeleted_Args& args) {
  args.is_deleted = args.executable->executable == nullptr;
}
void loaded_fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
  give(live(args.executable).fingerprint, args.executable_fingerprint, args.executable_fingerprint_size);
}

}  // namespace tessera::pjrt
