// SPDX-License-Identifier: Apache-2.0
// Programs in, executables out.
#include "absl/strings/str_cat.h"
#include "entries.h"
#include "mlir_module.h"
#include "objects.h"
#include "xla/hlo/ir/hlo_module.h"

namespace xla {
// Declared in a header that needs MLIR's.
absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> ParseMlirModuleString(absl::string_view text,
                                                                        mlir::MLIRContext& context);
}  // namespace xla

namespace xla_cpu {

namespace {
using Loaded = std::unique_ptr<xla::PjRtLoadedExecutable>;

xla::CompileOptions options_of(absl::string_view serialized) {
  xla::CompileOptionsProto proto;
  if (!proto.ParseFromArray(serialized.data(), static_cast<int>(serialized.size()))) {
    refuse("the compile options are no serialized xla.CompileOptionsProto");
  }
  return value(xla::CompileOptions::FromProto(proto));
}

// Text, bytecode, or a portable artifact.
Loaded compile_mlir(xla::PjRtClient& client, absl::string_view code, xla::CompileOptions options) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = value(xla::ParseMlirModuleString(code, context));
  options.allow_in_place_mlir_modification = true;  // nobody else sees it
  return value(client.CompileAndLoad(module.get(), std::move(options)));
}

template <class Proto>
Proto parsed(absl::string_view code) {
  Proto proto;
  if (!proto.ParseFromArray(code.data(), static_cast<int>(code.size()))) {
    refuse(absl::StrCat("the program is no serialized ", Proto::descriptor()->full_name()));
  }
  return proto;
}
}  // namespace

namespace {
std::vector<xla::Shape> parameters_of(const xla::PjRtLoadedExecutable& loaded) {
  auto modules = value(loaded.GetHloModules());
  const xla::ComputationLayout& layout = modules.at(0)->entry_computation_layout();
  std::vector<xla::Shape> out;
  for (int i = 0; i < layout.parameter_count(); ++i) out.push_back(layout.parameter_shape(i));
  if (out.size() == 1 && out[0].IsTuple()) return std::vector<xla::Shape>(out[0].tuple_shapes());
  return out;
}
}  // namespace

PJRT_LoadedExecutable* new_loaded(PJRT_Client* client, Loaded loaded) {
  auto out = std::make_unique<PJRT_LoadedExecutable>();
  out->client = client;
  for (xla::PjRtDevice* device : loaded->addressable_devices()) out->devices.push_back(client->by_device.at(device));
  for (const auto& id : loaded->addressable_device_logical_ids())
    out->logical_ids.push_back({id.replica, id.partition});
  out->parameters = parameters_of(*loaded);
  out->executable = std::make_shared<Executable>();
  out->executable->loaded = std::move(loaded);
  return out.release();
}

void client_compile(PJRT_Client_Compile_Args& args) {
  auto options = options_of(view(args.compile_options, args.compile_options_size));
  absl::string_view code = view(args.program->code, args.program->code_size);
  absl::string_view format = view(args.program->format, args.program->format_size);
  xla::PjRtClient& client = *args.client->client;
  Loaded loaded;
  if (format == "mlir") {
    loaded = compile_mlir(client, code, std::move(options));
  } else if (format == "hlo") {
    xla::XlaComputation computation(parsed<xla::HloModuleProto>(code));
    loaded = value(client.CompileAndLoad(computation, std::move(options)));
  } else {
    unsupported(absl::StrCat("programs of the format '", format, "'; 'mlir' and 'hlo' are known"));
  }
  args.executable = new_loaded(args.client, std::move(loaded));
}

void executable_deserialize(PJRT_Executable_DeserializeAndLoad_Args& args) {
  std::optional<xla::CompileOptions> options;
  if (XLA_CPU_HAS(args, overridden_serialized_compile_options_size) &&
      args.overridden_serialized_compile_options != nullptr) {
    options =
        options_of(view(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size));
  }
  absl::string_view bytes = view(args.serialized_executable, args.serialized_executable_size);
  auto loaded = value(args.client->client->LoadSerializedExecutable(bytes, std::move(options), xla::LoadOptions()));
  args.loaded_executable = new_loaded(args.client, std::move(loaded));
}

}  // namespace xla_cpu
