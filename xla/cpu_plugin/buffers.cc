// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "entries.h"
#include "objects.h"
#include "types.h"
#include "xla/literal.h"
#include "xla/shape_util.h"

namespace xla_cpu {

namespace {
// XLA looks at nothing else of a deleted buffer.
xla::PjRtBuffer& live(PJRT_Buffer* b, const char* entry) {
  if (b->buffer->IsDeleted()) refuse(absl::StrCat(entry, ": the buffer has been deleted or donated"));
  return *b->buffer;
}

/// The buffer's mutex is held.
PJRT_Buffer::Described& described(PJRT_Buffer& b) {
  if (b.described == nullptr) b.described = std::make_unique<PJRT_Buffer::Described>();
  return *b.described;
}

// How the host gets the data: elements of whole bytes in the order that is asked for, or the buffer's.
xla::Shape host_shape(xla::PjRtBuffer& buffer, const PJRT_Buffer_MemoryLayout* asked) {
  xla::Shape shape = buffer.on_device_shape();
  if (!shape.IsArray()) unsupported("PJRT_Buffer_ToHostBuffer of what is no array");
  if (shape.is_dynamic()) shape = value(buffer.logical_on_device_shape());
  auto order = layout_of(asked, shape.element_type(), shape.dimensions());
  xla::Layout layout = order ? *order : buffer.layout()->xla_layout();
  *shape.mutable_layout() = xla::Layout(layout.minor_to_major());
  return shape;
}

// The literals live until the data is there. XLA:CPU looks at no other layout than the buffer's.
xla::Future<> copy_to_host(xla::PjRtBuffer& buffer, void* to, const xla::Shape& shape) {
  auto literal = std::make_shared<xla::MutableBorrowingLiteral>(static_cast<const char*>(to), shape);
  xla::Shape same = shape;
  *same.mutable_layout() = xla::Layout(buffer.layout()->xla_layout().minor_to_major());
  if (same == shape) {
    xla::Future<> done = buffer.ToLiteral(literal.get());
    done.OnReady([literal](const absl::Status&) {});
    return done;
  }
  auto between = std::make_shared<xla::Literal>(same);
  return buffer.ToLiteral(between.get()).Map([literal, between] { return literal->CopyFrom(*between); });
}
}  // namespace

PJRT_Buffer* new_buffer(PJRT_Client* client, std::unique_ptr<xla::PjRtBuffer> buffer) {
  auto out = std::make_unique<PJRT_Buffer>();
  out->client = client;
  out->buffer = std::move(buffer);
  return out.release();
}

// --- what they are ---------------------------------------------------------------------------------------------------

void buffer_destroy(PJRT_Buffer_Destroy_Args& args) { delete args.buffer; }
void buffer_element_type(PJRT_Buffer_ElementType_Args& args) {
  args.type = buffer_type(args.buffer->buffer->element_type());
}
void buffer_dimensions(PJRT_Buffer_Dimensions_Args& args) {
  auto dims = args.buffer->buffer->dimensions();
  args.dims = dims.data();
  args.num_dims = dims.size();
}
void buffer_unpadded_dimensions(PJRT_Buffer_UnpaddedDimensions_Args& args) {
  xla::PjRtBuffer& buffer = *args.buffer->buffer;
  if (!buffer.has_dynamic_dimensions()) {
    args.unpadded_dims = buffer.dimensions().data();
    args.num_dims = buffer.dimensions().size();
    return;
  }
  auto dims = value(buffer.logical_dimensions());
  std::lock_guard lock(args.buffer->mutex);
  auto& kept = described(*args.buffer).unpadded;
  if (kept.empty()) kept = std::move(dims);
  args.unpadded_dims = kept.data();
  args.num_dims = kept.size();
}
void buffer_dynamic_dimensions(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
  xla::PjRtBuffer& buffer = *args.buffer->buffer;
  args.dynamic_dim_indices = nullptr;
  args.num_dynamic_dims = 0;
  if (!buffer.has_dynamic_dimensions()) return;
  std::lock_guard lock(args.buffer->mutex);
  auto& kept = described(*args.buffer).dynamic;
  if (kept.empty()) {
    auto dynamic = buffer.is_dynamic_dimension();
    for (std::size_t i = 0; i < dynamic.size(); ++i) {
      if (dynamic[i]) kept.push_back(i);
    }
  }
  args.dynamic_dim_indices = kept.data();
  args.num_dynamic_dims = kept.size();
}
void buffer_memory_layout(PJRT_Buffer_GetMemoryLayout_Args& args) {
  auto layout = args.buffer->buffer->layout();
  std::lock_guard lock(args.buffer->mutex);
  auto& kept = described(*args.buffer);
  if (kept.minor_to_major.empty() && kept.tile_sizes.empty()) {
    auto order = layout->xla_layout().minor_to_major();
    kept.minor_to_major.assign(order.begin(), order.end());
    for (const xla::Tile& tile : layout->xla_layout().tiles()) {
      kept.tile_dims.insert(kept.tile_dims.end(), tile.dimensions().begin(), tile.dimensions().end());
      kept.tile_sizes.push_back(tile.dimensions().size());
    }
  }
  args.layout = {};
  args.layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  args.layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args.layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  args.layout.tiled.minor_to_major = kept.minor_to_major.data();
  args.layout.tiled.minor_to_major_size = kept.minor_to_major.size();
  args.layout.tiled.tile_dims = kept.tile_dims.data();
  args.layout.tiled.tile_dim_sizes = kept.tile_sizes.data();
  args.layout.tiled.num_tiles = kept.tile_sizes.size();
}
void buffer_size(PJRT_Buffer_OnDeviceSizeInBytes_Args& args) {
  args.on_device_size_in_bytes = value(args.buffer->buffer->GetOnDeviceSizeInBytes());
}
void buffer_device(PJRT_Buffer_Device_Args& args) {
  args.device = args.buffer->client->by_device.at(args.buffer->buffer->device());
}
void buffer_memory(PJRT_Buffer_Memory_Args& args) {
  args.memory = args.buffer->client->by_space.at(args.buffer->buffer->memory_space());
}
void buffer_is_on_cpu(PJRT_Buffer_IsOnCpu_Args& args) { args.is_on_cpu = args.buffer->buffer->IsOnCpu(); }

// --- their data ------------------------------------------------------------------------------------------------------

void buffer_delete(PJRT_Buffer_Delete_Args& args) { args.buffer->buffer->Delete(); }
void buffer_is_deleted(PJRT_Buffer_IsDeleted_Args& args) { args.is_deleted = args.buffer->buffer->IsDeleted(); }
void buffer_ready_event(PJRT_Buffer_ReadyEvent_Args& args) {
  args.event = new_event(args.buffer->buffer->GetReadyFuture());
}

void buffer_copy_to_device(PJRT_Buffer_CopyToDevice_Args& args) {
  auto* space = value(args.dst_device->device->default_memory_space());
  args.dst_buffer =
      new_buffer(args.buffer->client, value(live(args.buffer, "PJRT_Buffer_CopyToDevice").CopyToMemorySpace(space)));
}
void buffer_copy_to_memory(PJRT_Buffer_CopyToMemory_Args& args) {
  auto& buffer = live(args.buffer, "PJRT_Buffer_CopyToMemory");
  args.dst_buffer = new_buffer(args.buffer->client, value(buffer.CopyToMemorySpace(of(args.dst_memory).space)));
}
void buffer_to_host(PJRT_Buffer_ToHostBuffer_Args& args) {
  xla::PjRtBuffer& buffer = live(args.src, "PJRT_Buffer_ToHostBuffer");
  xla::Shape shape = host_shape(buffer, args.host_layout);
  std::size_t size = xla::ShapeUtil::ByteSizeOf(shape);
  if (args.dst == nullptr) {
    args.dst_size = size;
    return;
  }
  if (args.dst_size < size) {
    refuse(absl::StrCat("PJRT_Buffer_ToHostBuffer: room for ", args.dst_size, " bytes of ", size));
  }
  args.event = new_event(copy_to_host(buffer, args.dst, shape));
}
void buffer_copy_raw(PJRT_Buffer_CopyRawToHost_Args& args) {
  auto& buffer = live(args.buffer, "PJRT_Buffer_CopyRawToHost");
  std::int64_t size = value(buffer.GetOnDeviceSizeInBytes());
  if (args.offset < 0 || args.transfer_size < 0 || args.offset > size - args.transfer_size) {
    refuse(absl::StrCat("PJRT_Buffer_CopyRawToHost: ", args.transfer_size, " bytes from byte ", args.offset, " of ",
                        size));
  }
  args.event = new_event(buffer.CopyRawToHost(args.dst, args.offset, args.transfer_size));
}

void buffer_unsafe_pointer(PJRT_Buffer_UnsafePointer_Args& args) {
  auto& buffer = live(args.buffer, "PJRT_Buffer_UnsafePointer");
  args.buffer_pointer = value(args.buffer->client->client->UnsafeBufferPointer(&buffer));
}
void buffer_increase_references(PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) {
  auto reference = value(live(args.buffer, "PJRT_Buffer_IncreaseExternalReferenceCount").AcquireExternalReference());
  std::lock_guard lock(args.buffer->mutex);
  described(*args.buffer).references.push_back(std::move(reference));
}
void buffer_decrease_references(PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) {
  std::unique_ptr<xla::PjRtBuffer::ExternalReference> last;  // let go when the mutex is free
  std::lock_guard lock(args.buffer->mutex);
  auto& references = described(*args.buffer).references;
  if (references.empty()) refuse("PJRT_Buffer_DecreaseExternalReferenceCount: the buffer has no external reference");
  last = std::move(references.back());
  references.pop_back();
}
void buffer_opaque_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
  auto& buffer = live(args.buffer, "PJRT_Buffer_OpaqueDeviceMemoryDataPointer");
  args.device_memory_ptr = value(buffer.AcquireExternalReference())->OpaqueDeviceMemoryDataPointer();
}

}  // namespace xla_cpu
