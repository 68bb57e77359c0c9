// SPDX-License-Identifier: Apache-2.0
// Buffers from the host's data, and from none.
#include "absl/strings/str_cat.h"
#include "entries.h"
#include "objects.h"
#include "types.h"

namespace xla_cpu {

namespace {
using Semantics = xla::PjRtClient::HostBufferSemantics;

Semantics semantics_of(PJRT_HostBufferSemantics semantics) {
  switch (semantics) {
    case PJRT_HostBufferSemantics_kImmutableOnlyDuringCall:
      return Semantics::kImmutableOnlyDuringCall;
    case PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes:
      return Semantics::kImmutableUntilTransferCompletes;
    case PJRT_HostBufferSemantics_kImmutableZeroCopy:
      return Semantics::kImmutableZeroCopy;
    case PJRT_HostBufferSemantics_kMutableZeroCopy:
      return Semantics::kMutableZeroCopy;
  }
  refuse(absl::StrCat("the unknown semantics ", static_cast<int>(semantics), " of a host buffer"));
}

// The memory that the caller names, or the device's.
xla::PjRtMemorySpace* space_of(PJRT_Device* device, PJRT_Memory* memory) {
  if (memory != nullptr) return of(memory).space;
  if (device == nullptr) refuse("a buffer without a device or a memory to be in");
  return value(device->device->default_memory_space());
}

template <class Args>
xla::Shape asked_shape(const Args& args) {
  return shape_of(args.shape_element_type, args.shape_dims, args.shape_num_dims, args.shape_layout);
}
}  // namespace

void buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args& args) {
  xla::PrimitiveType type = primitive_type(args.type);
  absl::Span<const std::int64_t> dims(args.dims, args.num_dims);
  std::optional<absl::Span<const std::int64_t>> strides;
  if (args.num_byte_strides != 0) {
    if (args.num_byte_strides != args.num_dims) {
      refuse(absl::StrCat("a host buffer of ", args.num_dims, " dimensions with ", args.num_byte_strides, " strides"));
    }
    strides.emplace(args.byte_strides, args.num_byte_strides);
  }
  auto layout = layout_of(args.device_layout, type, dims);
  auto [promise, done] = xla::MakePromise<>();
  auto buffer = value(args.client->client->BufferFromHostBuffer(
      args.data, type, dims, strides, semantics_of(args.host_buffer_semantics),
      [promise = std::move(promise)]() mutable { promise.Set(); }, space_of(args.device, args.memory),
      layout ? &*layout : nullptr));
  args.buffer = new_buffer(args.client, std::move(buffer));
  args.done_with_host_buffer = new_event(std::move(done));
}

void create_view(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  xla::Shape shape = shape_of(args.element_type, args.dims, args.num_dims, args.layout);
  PJRT_Memory* memory = XLA_CPU_HAS(args, memory) ? args.memory : nullptr;
  std::function<void()> on_delete;
  if (args.on_delete_callback != nullptr) {
    on_delete = [call = args.on_delete_callback, data = args.device_buffer_ptr, arg = args.on_delete_callback_arg] {
      call(data, arg);
    };
  }
  auto buffer = value(args.client->client->CreateViewOfDeviceBuffer(
      args.device_buffer_ptr, shape, space_of(args.device, memory), std::move(on_delete)));
  args.buffer = new_buffer(args.client, std::move(buffer));
}

void create_uninitialized(PJRT_Client_CreateUninitializedBuffer_Args& args) {
  auto buffer =
      value(args.client->client->CreateUninitializedBuffer(asked_shape(args), space_of(args.device, args.memory)));
  args.buffer = new_buffer(args.client, std::move(buffer));
}

void create_error_buffer(PJRT_Client_CreateErrorBuffer_Args& args) {
  absl::Status error(static_cast<absl::StatusCode>(args.error_code), view(args.error_message, args.error_message_size));
  if (error.ok()) refuse("PJRT_Client_CreateErrorBuffer: no error");
  auto buffer = value(args.client->client->CreateErrorBuffer(error, asked_shape(args), space_of(nullptr, args.memory)));
  args.buffer = new_buffer(args.client, std::move(buffer));
}

}  // namespace xla_cpu
