// SPDX-License-Identifier: Apache-2.0
// What the plugin's compiler is given. Numbers of fields: xla/pjrt/proto/compile_options.proto and xla/xla_data.proto
// of OpenXLA.
#include "base/protobuf.h"
#include "base/strings.h"
#include "engines/pjrt/ffi.h"
#include "engines/pjrt/lower_for_xla.h"
#include "engines/pjrt/ordered_effects.h"
#include "engines/pjrt/pjrt_engine.h"
#include "hlo/export/export.h"
#include "ops/control/calls.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

void check_port(const ir::Port& port, const std::string& who) {
  if (!port.element.empty()) {
    throw UnimplementedError(
        str(who, " has the element type ", port.element,
            ", which arrays of PJRT plugins do not have yet; run the program on the native engine"));
  }
  if (!port.layout) throw InternalError(str(who, " has no layout"));
  if (port.layout->partial != 0) {
    throw UnimplementedError(str(who,
                                 " is unreduced; XLA keeps no sums undone between programs: reduce it first, or run "
                                 "the program on the native engine"));
  }
}

// A mesh over all of the program's devices, of those that its text has where there is one.
ir::MeshAxes mesh_of(const ir::Module& module) {
  for (const auto& m : module.meshes) {
    if (m.size() == module.mesh->num_positions() && m.device_ids.empty()) return {m.sizes, m.axes};
  }
  return *module.mesh;
}

}  // namespace

std::string program_text(const ir::Module& module, const PluginClient& client, HostCalls& host_calls) {
  for (std::size_t i = 0; i < module.inputs.size(); ++i) {
    check_port(module.inputs[i], str(module.name, ": argument ", i));
  }
  for (std::size_t i = 0; i < module.outputs.size(); ++i) {
    check_port(module.outputs[i], str(module.name, ": result ", i));
  }
  const bool on_host = calls_host(client.api(), client.platform());
  if (on_host) register_handlers(client.api());
  ir::Module even = module;
  even.graph = with_ordered_effects(
      lowered_for_xla(with_even_ports(module), client.platform(), module.mesh->num_positions()), mesh_of(module));
  hlo::TextOptions options;
  options.reflectors_by_xla = is_accelerator(client.platform());
  options.host_call = [&](const ops::Callback& call) -> std::optional<std::int64_t> {
    if (on_host) return host_calls.add(call);
    if (hlo::is_known_routine(call)) return std::nullopt;
    throw UnimplementedError(str(module.name, ": \"", call.function.label,
                                 "\" calls a function of the host; the plugin ", client.api().path(), " (platform ",
                                 client.platform(),
                                 ") cannot, as it has no FFI extension for the host's memory; run the program on the "
                                 "native engine"));
  };
  return hlo::export_module(even, options);
}

std::string compile_options(const std::vector<std::int64_t>& device_ids, const std::string& platform) {
  const auto count = static_cast<std::uint64_t>(device_ids.size());
  std::string assignment;
  protobuf::put_number(assignment, 1, 1);      // replicas
  protobuf::put_number(assignment, 2, count);  // partitions
  for (auto id : device_ids) {
    std::string replicas;
    protobuf::put_numbers(replicas, 1, {&id, 1});
    protobuf::put_bytes(assignment, 3, replicas);
  }
  std::string build;
  protobuf::put_number(build, 1, ~std::uint64_t{0});  // device ordinal -1: the assignment says where
  protobuf::put_number(build, 4, 1);
  protobuf::put_number(build, 5, count);
  protobuf::put_number(build, 6, count > 1 ? 1 : 0);  // SPMD
  protobuf::put_bytes(build, 9, assignment);
  protobuf::put_number(build, 19, 1);  // Shardy
  std::string out;
  protobuf::put_bytes(out, 3, build);
  // Maxima and minima of NaN are NaN, which XLA:CPU does not mind unless it is told to.
  if (platform == "cpu") {
    std::string no, option;
    protobuf::put_number(no, 2, 0);
    protobuf::put_bytes(option, 1, "xla_cpu_enable_fast_min_max");
    protobuf::put_bytes(option, 2, no);
    protobuf::put_bytes(out, 7, option);
  }
  return out;
}

}  // namespace tessera::pjrt_engine
