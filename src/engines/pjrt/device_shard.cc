// SPDX-License-Identifier: Apache-2.0
// Shards in the devices' memory.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/strings.h"
#include "engines/pjrt/plugin_client.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {
struct Row {
  DType dtype;
  PJRT_Buffer_Type type;
};
constexpr std::array kTypes = {Row{DType::Bool, PJRT_Buffer_Type_PRED}, Row{DType::I8, PJRT_Buffer_Type_S8},
                               Row{DType::I16, PJRT_Buffer_Type_S16},   Row{DType::I32, PJRT_Buffer_Type_S32},
                               Row{DType::I64, PJRT_Buffer_Type_S64},   Row{DType::U8, PJRT_Buffer_Type_U8},
                               Row{DType::U16, PJRT_Buffer_Type_U16},   Row{DType::U32, PJRT_Buffer_Type_U32},
                               Row{DType::U64, PJRT_Buffer_Type_U64},   Row{DType::F16, PJRT_Buffer_Type_F16},
                               Row{DType::BF16, PJRT_Buffer_Type_BF16}, Row{DType::F32, PJRT_Buffer_Type_F32},
                               Row{DType::F64, PJRT_Buffer_Type_F64},   Row{DType::C64, PJRT_Buffer_Type_C64},
                               Row{DType::C128, PJRT_Buffer_Type_C128}};
}  // namespace

PJRT_Buffer_Type buffer_type(DType t) {
  auto row = std::ranges::find(kTypes, t, &Row::dtype);
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
  std::lock_guard lock(mutex_);
  // Row-major, whatever the device has chosen.
  std::vector<std::int64_t> minor_to_major(static_cast<std::size_t>(rank_));
  std::iota(minor_to_major.rbegin(), minor_to_major.rend(), 0);
  auto layout = sized<PJRT_Buffer_MemoryLayout>();
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled = sized<PJRT_Buffer_MemoryLayout_Tiled>();
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  auto args = sized<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = copies_.front().buffer.get();
  args.host_layout = &layout;
  args.dst = to;
  args.dst_size = static_cast<std::size_t>(nbytes_);
  PJRT_CALL(api, PJRT_Buffer_ToHostBuffer, args, "copy a buffer to the host");
  return api.event(args.event, "compute what is copied to the host");
}

PJRT_Buffer* DeviceShard::on(PJRT_Device* device, std::size_t nth) const {
  std::lock_guard lock(mutex_);
  if (nth < copies_.size() && copies_[nth].device == device) return copies_[nth].buffer.get();
  auto known = std::ranges::find(copies_, device, &Copy::device);
  if (known != copies_.end()) return known->buffer.get();
  auto args = sized<PJRT_Buffer_CopyToDevice_Args>();
  args.buffer = copies_.front().buffer.get();
  args.dst_device = device;
  PJRT_CALL(client_->api(), PJRT_Buffer_CopyToDevice, args, "copy a buffer to another device");
  copies_.push_back({device, OwnBuffer(client_.get(), args.dst_buffer)});
  return args.dst_buffer;
}

runtime::BufferPtr put(const PluginClientPtr& client, const runtime::BufferPtr& from, DType dtype, const Shape& shape,
                       const std::vector<PJRT_Device*>& devices) {
  const Api& api = client->api();
  std::vector<DeviceShard::Copy> copies;
  for (PJRT_Device* device : devices) {
    auto args = sized<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client->handle();
    args.data = from->data();
    args.type = buffer_type(dtype);
    args.dims = shape.data();
    args.num_dims = shape.size();
    args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
    args.device = device;
    PJRT_CALL(api, PJRT_Client_BufferFromHostBuffer, args, "copy an array to a device");
    copies.push_back({device, OwnBuffer(client.get(), args.buffer)});
    auto done = api.event(args.done_with_host_buffer, "copy an array to a device");
    done->on_ready([held = from] { static_cast<void>(held); });
  }
  auto memory =
      std::make_shared<DeviceShard>(client, std::move(copies), from->nbytes(), static_cast<std::int64_t>(shape.size()));
  return std::make_shared<runtime::Buffer>(runtime::Buffer::Elsewhere{std::move(memory)}, from->nbytes());
}

}  // namespace tessera::pjrt_engine
