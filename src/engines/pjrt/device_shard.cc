// SPDX-License-Identifier: Apache-2.0
// Shards in the devices' memory.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/strings.h"
#include "core/strided_copy.h"
#include "engines/pjrt/plugin_client.h"
#include "runtime/completion.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {
struct BufferType {
  DType dtype;
  PJRT_Buffer_Type type;
};
constexpr std::array kTypes = {
    BufferType{DType::Bool, PJRT_Buffer_Type_PRED}, BufferType{DType::I8, PJRT_Buffer_Type_S8},
    BufferType{DType::I16, PJRT_Buffer_Type_S16},   BufferType{DType::I32, PJRT_Buffer_Type_S32},
    BufferType{DType::I64, PJRT_Buffer_Type_S64},   BufferType{DType::U8, PJRT_Buffer_Type_U8},
    BufferType{DType::U16, PJRT_Buffer_Type_U16},   BufferType{DType::U32, PJRT_Buffer_Type_U32},
    BufferType{DType::U64, PJRT_Buffer_Type_U64},   BufferType{DType::F16, PJRT_Buffer_Type_F16},
    BufferType{DType::BF16, PJRT_Buffer_Type_BF16}, BufferType{DType::F32, PJRT_Buffer_Type_F32},
    BufferType{DType::F64, PJRT_Buffer_Type_F64},   BufferType{DType::C64, PJRT_Buffer_Type_C64},
    BufferType{DType::C128, PJRT_Buffer_Type_C128}};
}  // namespace

PJRT_Buffer_Type buffer_type(DType t) {
  auto row = std::ranges::find(kTypes, t, &BufferType::dtype);
  if (row == kTypes.end()) throw InternalError(str("PJRT has no buffers of ", dtype_name(t)));
  return row->type;
}

OwnBuffer::~OwnBuffer() {
  if (buffer_ == nullptr) return;
  auto args = sized<PJRT_Buffer_Destroy_Args>();
  args.buffer = buffer_;
  const Api& api = client_->api();
  static_cast<void>(
      api.exception(api.entry(&PJRT_Api::PJRT_Buffer_Destroy, "PJRT_Buffer_Destroy")(&args), "free a buffer"));
}

void DeviceShard::wait() const {
  std::vector<runtime::EventPtr> events;
  {
    std::lock_guard lock(mutex_);
    for (const auto& copy : copies_) events.push_back(copy.written);
  }
  // One event of a run stands for all that it fills. Where it has an error, the buffers tell theirs.
  if (std::ranges::all_of(events, [](const auto& e) { return e && !runtime::error_of([&] { e->wait(); }); })) return;
  events.clear();
  {
    std::lock_guard lock(mutex_);
    for (const auto& copy : copies_) {
      auto args = sized<PJRT_Buffer_ReadyEvent_Args>();
      args.buffer = copy.buffer.get();
      PJRT_CALL(client_->api(), PJRT_Buffer_ReadyEvent, args, "wait for a buffer");
      events.push_back(client_->api().event(args.event, "compute"));
    }
  }
  for (const auto& e : events) e->wait();
}

runtime::EventPtr DeviceShard::copy_to_host(void* to) const {
  const Api& api = client_->api();
  // BufferType-major, whatever the device has chosen.
  std::vector<std::int64_t> minor_to_major(type_->shape.size());
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  auto layout = sized<PJRT_Buffer_MemoryLayout>();
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = sized<PJRT_Buffer_MemoryLayout_Tiled>();
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  const std::int64_t item = dtype_size(type_->dtype);
  const bool filled_up = type_->on_device != type_->shape;
  auto whole = std::make_shared<std::vector<char>>(
      filled_up ? static_cast<std::size_t>(size_of(type_->on_device) * item) : std::size_t{0});
  auto args = sized<PJRT_Buffer_ToHostBuffer_Args>();
  args.host_layout = &layout;
  args.dst = filled_up ? whole->data() : to;
  args.dst_size = static_cast<std::size_t>(size_of(type_->on_device) * item);
  {
    std::lock_guard lock(mutex_);
    args.src = copies_.front().buffer.get();
    PJRT_CALL(api, PJRT_Buffer_ToHostBuffer, args, "copy a buffer to the host");
  }
  runtime::EventPtr copied = api.event(args.event, "compute what is copied to the host");
  if (!filled_up) return copied;
  return runtime::when_all({&copied, 1}, [to, whole, type = type_, item] {
    core::copy_strided(to, core::contiguous_strides(type->shape, item), whole->data(),
                       core::contiguous_strides(type->on_device, item), type->shape, item);
  });
}

PJRT_Buffer* DeviceShard::on(PJRT_Device* device, std::size_t nth) const {
  std::lock_guard lock(mutex_);
  if (nth < copies_.size() && copies_[nth].device == device) return copies_[nth].buffer.get();
  auto known = std::ranges::find(copies_, device, &Copy::device);
  if (known != copies_.end()) return known->buffer.get();
  copies_.push_back({device, copy_on(device)});
  return copies_.back().buffer.get();
}

OwnBuffer DeviceShard::copy_on(PJRT_Device* device) const {
  auto args = sized<PJRT_Buffer_CopyToDevice_Args>();
  args.buffer = copies_.front().buffer.get();
  args.dst_device = device;
  PJRT_CALL(client_->api(), PJRT_Buffer_CopyToDevice, args, "copy a buffer to another device");
  return {client_.get(), args.dst_buffer};
}

bool DeviceShard::is_on_any(const std::vector<PJRT_Device*>& devices) const {
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(copies_,
                             [&](const Copy& c) { return std::ranges::find(devices, c.device) != devices.end(); });
}

std::shared_ptr<DeviceShard> DeviceShard::copied_to(const std::vector<PJRT_Device*>& devices) const {
  std::vector<Copy> copies;
  std::lock_guard lock(mutex_);
  for (PJRT_Device* device : devices) copies.push_back({device, copy_on(device)});
  return std::make_shared<DeviceShard>(client_, std::move(copies), type_);
}

runtime::BufferPtr put(const PluginClientPtr& client, const runtime::BufferPtr& from, const ShardTypePtr& type,
                       const std::vector<PJRT_Device*>& devices) {
  const Api& api = client->api();
  std::shared_ptr<const void> held = from;
  const void* data = from->data();
  if (type->on_device != type->shape) {
    const std::int64_t item = dtype_size(type->dtype);
    auto whole = std::make_shared<std::vector<char>>(static_cast<std::size_t>(size_of(type->on_device) * item));
    core::copy_strided(whole->data(), core::contiguous_strides(type->on_device, item), data,
                       core::contiguous_strides(type->shape, item), type->shape, item);
    data = whole->data();
    held = std::move(whole);
  }
  std::vector<DeviceShard::Copy> copies;
  for (PJRT_Device* device : devices) {
    auto args = sized<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client->handle();
    args.data = data;
    args.type = buffer_type(type->dtype);
    args.dims = type->on_device.data();
    args.num_dims = type->on_device.size();
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    args.device = device;
    PJRT_CALL(api, PJRT_Client_BufferFromHostBuffer, args, "copy an array to a device");
    copies.push_back({device, OwnBuffer(client.get(), args.buffer)});
    auto done = api.event(args.done_with_host_buffer, "copy an array to a device");
    done->on_ready([held] { static_cast<void>(held); });
  }
  auto memory = std::make_shared<DeviceShard>(client, std::move(copies), type);
  return std::make_shared<runtime::Buffer>(runtime::Buffer::Elsewhere{std::move(memory)}, type->nbytes());
}

}  // namespace tessera::pjrt_engine
