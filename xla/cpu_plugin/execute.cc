// SPDX-License-Identifier: Apache-2.0
// Running executables.
#include "absl/strings/str_cat.h"
#include "entries.h"
#include "objects.h"

namespace xla_cpu {

namespace {
using Buffers = std::vector<std::unique_ptr<xla::PjRtBuffer>>;

xla::ExecuteOptions options_of(const PJRT_ExecuteOptions* options) {
  xla::ExecuteOptions out;
  if (options == nullptr) return out;
  if (options->num_send_ops != 0 || options->num_recv_ops != 0)
    unsupported("callbacks that send to and receive from the host");
  out.launch_id = options->launch_id;
  if (XLA_CPU_HAS(*options, num_non_donatable_input_indices)) {
    const std::int64_t* indices = options->non_donatable_input_indices;
    for (std::size_t i = 0; i < options->num_non_donatable_input_indices; ++i) {
      out.non_donatable_input_indices.insert(static_cast<int>(indices[i]));
    }
  }
  if (XLA_CPU_HAS(*options, context) && options->context != nullptr) out.context = &options->context->context;
  if (XLA_CPU_HAS(*options, call_location) && options->call_location != nullptr) {
    out.call_location = options->call_location;
  }
  if (XLA_CPU_HAS(*options, num_hlo_output_callbacks) && options->num_hlo_output_callbacks != 0) {
    unsupported("callbacks with intermediate values");
  }
  return out;
}

std::vector<xla::PjRtBuffer*> arguments_of(PJRT_Buffer* const* list, std::size_t count) {
  std::vector<xla::PjRtBuffer*> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = list[i]->buffer.get();
  return out;
}

bool fits(const xla::PjRtBuffer& argument, const xla::Shape& parameter) {
  if (!parameter.IsArray()) return argument.element_type() == parameter.element_type();
  return argument.element_type() == parameter.element_type() && argument.dimensions() == parameter.dimensions();
}

// What is known by now to have failed.
template <class Bad>
void check_data(xla::PjRtBuffer* argument, const Bad& bad) {
  xla::Future<> ready = argument->GetReadyFuture();
  if (ready.IsReady() && !ready.Await().ok()) bad(absl::StrCat("is an error: ", ready.Await().message()));
}

// XLA would find these on one device, while the others wait for it in a collective without end.
void check_arguments(const PJRT_LoadedExecutable& e, const std::vector<std::vector<xla::PjRtBuffer*>>& arguments) {
  for (std::size_t d = 0; d < arguments.size(); ++d) {
    if (arguments[d].size() != e.parameters.size()) {
      refuse(absl::StrCat(e.executable->loaded->name(), ": ", arguments[d].size(), " arguments; the program takes ",
                          e.parameters.size()));
    }
    for (std::size_t i = 0; i < e.parameters.size(); ++i) {
      const xla::PjRtBuffer& argument = *arguments[d][i];
      auto bad = [&](absl::string_view what) {
        refuse(absl::StrCat(e.executable->loaded->name(), ": argument ", i, " on device ", d, " ", what));
      };
      if (argument.IsDeleted()) bad("has been deleted or donated");
      if (argument.device() != e.devices[d]->device) {
        bad(absl::StrCat("is on ", argument.device()->DebugString(), ", not on ", e.devices[d]->device->DebugString()));
      }
      check_data(arguments[d][i], bad);
      if (!fits(argument, e.parameters[i])) {
        bad(absl::StrCat("is ", argument.on_device_shape().ToString(), ", not ", e.parameters[i].ToString()));
      }
    }
  }
}

void give_buffers(PJRT_Client* client, Buffers& buffers, PJRT_Buffer** out) {
  for (auto& buffer : buffers) *out++ = new_buffer(client, std::move(buffer));
}

// On one device that the caller names.
void execute_on(PJRT_LoadedExecutable_Execute_Args& args, const xla::ExecuteOptions& options) {
  if (args.num_devices != 1) {
    refuse(absl::StrCat("PJRT_LoadedExecutable_Execute: arguments of ", args.num_devices, " devices for one device"));
  }
  auto& loaded = *args.executable->executable->loaded;
  auto arguments = arguments_of(args.num_args == 0 ? nullptr : args.argument_lists[0], args.num_args);
  std::optional<xla::Future<>> done;
  bool wanted = args.device_complete_events != nullptr;
  xla::PjRtDevice* device = args.execute_device->device;
  // What was compiled for any device has none of its own.
  Buffers results = args.executable->devices.empty()
                        ? value(loaded.ExecutePortable(arguments, device, options, done, wanted))
                        : value(loaded.ExecuteSharded(arguments, device, options, done, wanted));
  give_buffers(args.executable->client, results, args.output_lists[0]);
  if (wanted) args.device_complete_events[0] = new_event(std::move(*done));
}
}  // namespace

void loaded_execute(PJRT_LoadedExecutable_Execute_Args& args) {
  auto options = options_of(args.options);
  if (XLA_CPU_HAS(args, execute_device) && args.execute_device != nullptr) return execute_on(args, options);
  if (args.executable->devices.empty()) {
    refuse("PJRT_LoadedExecutable_Execute: the program is compiled for any device; execute_device says which");
  }
  if (args.num_devices != args.executable->devices.size()) {
    refuse(absl::StrCat("PJRT_LoadedExecutable_Execute: arguments of ", args.num_devices,
                        " devices; the program runs on ", args.executable->devices.size()));
  }
  std::vector<std::vector<xla::PjRtBuffer*>> arguments(args.num_devices);
  if (args.num_args != 0) {
    for (std::size_t d = 0; d < args.num_devices; ++d)
      arguments[d] = arguments_of(args.argument_lists[d], args.num_args);
  }
  if (args.num_devices > 1) check_arguments(*args.executable, arguments);
  std::optional<std::vector<xla::Future<>>> done;
  if (args.device_complete_events != nullptr) done.emplace();
  auto results = value(args.executable->executable->loaded->Execute(arguments, options, done));
  for (std::size_t d = 0; d < results.size(); ++d)
    give_buffers(args.executable->client, results[d], args.output_lists[d]);
  if (done) {
    for (std::size_t d = 0; d < done->size(); ++d) args.device_complete_events[d] = new_event(std::move((*done)[d]));
  }
}

}  // namespace xla_cpu
