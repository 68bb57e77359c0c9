// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <span>

#include "core/strided_copy.h"
#include "entries.h"
#include "objects.h"
#include "sharding/placement.h"
#include "tessera/sharding.h"

namespace tessera::pjrt {

namespace {
constexpr std::uintptr_t kAlignment = 64;  // of the buffers that kernels read

Shape shape_of(const std::int64_t* dims, std::size_t n) {
  Shape out(dims, dims + n);
  std::int64_t elements = 1;
  for (auto d : out) {
    if (d < 0 || (d > 0 && elements > std::numeric_limits<std::int64_t>::max() / 16 / d)) {
      throw InvalidArgument(str("a buffer of shape ", out));
    }
    elements *= std::max<std::int64_t>(d, 1);
  }
  return out;
}

PJRT_Memory* memory_for(PJRT_Device* device, PJRT_Memory* memory) {
  if (memory != nullptr) return memory;
  if (device == nullptr) throw InvalidArgument("neither a device nor a memory is given");
  return device->memories.front();
}

// What one device holds: an array of that device alone.
ValuePtr single(DescriptionPtr about, runtime::BufferPtr buffer, const Device& device,
                runtime::EventPtr ready = nullptr) {
  auto storage = std::make_shared<arrays::Storage>();
  storage->shard_buffers.push_back(std::move(buffer));
  storage->ready = std::move(ready);
  ir::Type type{hlo::storage(about->element), about->shape, false};
  Array array =
      arrays::make(std::move(type), program::interned(SingleDeviceSharding(device)), std::move(storage), true);
  return std::make_shared<const Value>(Value{std::move(array), std::move(about)});
}

DescriptionPtr described(ElementType element, Shape shape, Order layout = {}) {
  return std::make_shared<const Description>(Description{element, std::move(shape), std::move(layout)});
}

}  // namespace

std::mutex& buffers_mutex() {
  static auto* mutex = new std::mutex;  // buffers may outlive static objects
  return *mutex;
}

PJRT_Buffer* new_buffers(const ValuePtr& value, const std::vector<std::int32_t>& index) {
  auto together = std::make_unique<Handles>();
  together->about = value->about;
  together->left = index.size();
  together->list = std::make_unique<PJRT_Buffer[]>(index.size());
  for (std::size_t k = 0; k < index.size(); ++k) {
    PJRT_Buffer& b = together->list[k];
    b.together = together.get();
    b.value = value;
    b.index = index[k];
  }
  return together.release()->list.get();
}

PJRT_Buffer* new_buffer(const ValuePtr& value, PJRT_Device* device, PJRT_Memory* memory) {
  auto* out = new_buffers(value, {0});
  out->device = device;
  out->memory = memory;
  return out;
}

void destroy(PJRT_Buffer* b) {
  b->value = nullptr;
  b->held = nullptr;
  if (b->together->left.fetch_sub(1) == 1) delete b->together;
}

PJRT_Buffer* new_token(runtime::EventPtr ready, PJRT_Device* device) {
  auto nothing = runtime::runtime_of(device->client->client).memory->allocate(0);
  auto value = single(described(ElementType::Bool, {0}), std::move(nothing), device->device, std::move(ready));
  auto* out = new_buffer(value, device, device->memories.front());
  out->token = true;
  return out;
}

Held held(PJRT_Buffer& b, const char* entry) {
  std::lock_guard lock(buffers_mutex());
  if (!b.value || !arrays::usable(b.value->array)) {
    throw DeletedArrayError(str(entry, ": the buffer was deleted or donated"));
  }
  return {b.value, b.index};
}

namespace {
// The shard, where its data is ready; waits for it.
runtime::BufferPtr shard_of(PJRT_Buffer& b, const char* entry) {
  auto [value, index] = held(b, entry);
  auto storage = arrays::storage_of(value->array, entry);
  storage->wait();
  return storage->shard_buffers[static_cast<std::size_t>(index)];
}

Dims strides_in_order(std::span<const std::int64_t> minor_to_major, const Shape& shape, std::int64_t item) {
  Dims out(shape.size());
  for (auto d : minor_to_major) {
    if (d < 0 || d >= std::ssize(shape)) throw InvalidArgument(str("a layout that names dimension ", d));
    out[static_cast<std::size_t>(d)] = item;
    item *= std::max<std::int64_t>(shape[static_cast<std::size_t>(d)], 1);
  }
  return out;
}

// Byte strides of what a caller reads or writes; row-major where no layout is given.
Dims strides_of(const PJRT_Buffer_MemoryLayout* layout, const Shape& shape, std::int64_t item) {
  if (layout == nullptr) return core::contiguous_strides(shape, item);
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) {
    const auto& s = layout->strides;
    if (s.num_byte_strides != shape.size()) throw InvalidArgument("a layout of another rank than the buffer's");
    return {s.byte_strides, s.byte_strides + s.num_byte_strides};
  }
  const auto& t = layout->tiled;
  if (t.num_tiles != 0) throw UnimplementedError("a tiled layout; buffers here are plain arrays");
  if (t.minor_to_major_size != shape.size()) throw InvalidArgument("a layout of another rank than the buffer's");
  return strides_in_order({t.minor_to_major, t.minor_to_major_size}, shape, item);
}

bool is_dense(const Dims& strides, const Shape& shape, std::int64_t item) {
  Dims dense = core::contiguous_strides(shape, item);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] > 1 && strides[d] != dense[d]) return false;
  }
  return true;
}

// Elements of a host's array as a new buffer.
runtime::BufferPtr copied(PJRT_Client& client, ElementType e, const Shape& shape, const void* data,
                          const Dims& strides) {
  auto n = size_of(shape);
  auto& pool = *runtime::runtime_of(client.client).memory;
  auto buffer = pool.allocate(n * dtype_size(hlo::storage(e)));
  if (n == 0) return buffer;
  std::int64_t item = host_size(e);
  if (is_narrow(e)) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(n));
    core::copy_strided(bytes.data(), core::contiguous_strides(shape, item), data, strides, shape, item);
    widen(e, bytes.data(), buffer->data(), n);
  } else if (is_dense(strides, shape, item)) {
    std::memcpy(buffer->data(), data, static_cast<std::size_t>(n * item));
  } else {
    core::copy_strided(buffer->data(), core::contiguous_strides(shape, item), data, strides, shape, item);
  }
  return buffer;
}

// The buffer of the put before this one, where it holds the same elements.
runtime::BufferPtr same_as_last(PJRT_Client& client, const PJRT_Client_BufferFromHostBuffer_Args& args,
                                const Shape& shape, std::int64_t bytes) {
  runtime::BufferPtr last;
  {
    std::lock_guard lock(client.mutex);
    const auto& p = client.last_put;
    if (p.data != args.data || p.type != args.type || p.shape != shape) return nullptr;
    last = p.buffer.lock();
  }
  if (!last || std::memcmp(last->data(), args.data, static_cast<std::size_t>(bytes)) != 0) return nullptr;
  return last;
}
}  // namespace

void buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args& args) {
  PJRT_Client& client = *args.client;
  auto* memory = memory_for(args.device, args.memory);
  auto* device = of(memory).device;
  ElementType e = element_type(args.type);
  Shape shape = shape_of(args.dims, args.num_dims);
  std::int64_t item = host_size(e);
  std::int64_t bytes = size_of(shape) * item;
  if (args.num_byte_strides != 0 && args.num_byte_strides != args.num_dims) {
    throw InvalidArgument(str(args.num_byte_strides, " byte strides for an array of rank ", args.num_dims));
  }
  Dims strides = args.num_byte_strides != 0 ? Dims(args.byte_strides, args.byte_strides + args.num_byte_strides)
                                            : core::contiguous_strides(shape, item);
  const bool plain = !is_narrow(e) && is_dense(strides, shape, item) && bytes > 0;
  const bool stays = args.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy ||
                     args.host_buffer_semantics == PJRT_HostBufferSemantics_kMutableZeroCopy;
  runtime::BufferPtr buffer = plain ? same_as_last(client, args, shape, bytes) : nullptr;
  runtime::EventPtr done;
  if (!buffer && plain && stays && reinterpret_cast<std::uintptr_t>(args.data) % kAlignment == 0) {
    auto completion = std::make_shared<runtime::Completion>();
    std::shared_ptr<void> memory_of_caller(const_cast<void*>(args.data),
                                           [completion](void*) { completion->complete(nullptr); });
    buffer = std::make_shared<runtime::Buffer>(std::move(memory_of_caller), bytes);
    done = completion;
  } else if (!buffer) {
    buffer = copied(client, e, shape, args.data, strides);
  }
  if (plain) {
    std::lock_guard lock(client.mutex);
    client.last_put = {args.data, args.type, shape, buffer};
  }
  auto about = described(e, shape, asked_layout(args.device_layout, shape.size()));
  OwnedBuffer made(new_buffer(single(std::move(about), std::move(buffer), device->device), device, memory));
  args.done_with_host_buffer = new_event(done);
  args.buffer = made.release();
}

void create_view(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  PJRT_Memory* memory = memory_for(args.device, TESSERA_PJRT_HAS(args, memory) ? args.memory : nullptr);
  ElementType e = element_type(args.element_type);
  if (is_narrow(e)) throw UnimplementedError(str("a view of elements of type ", hlo::to_string(e)));
  Shape shape = shape_of(args.dims, args.num_dims);
  Dims strides = strides_of(args.layout, shape, host_size(e));
  auto bytes = size_of(shape) * host_size(e);
  // The caller keeps the memory where this fails.
  auto release = [callback = args.on_delete_callback, arg = args.on_delete_callback_arg](void* data) {
    if (callback != nullptr) callback(data, arg);
  };
  runtime::BufferPtr buffer;
  bool aligned = reinterpret_cast<std::uintptr_t>(args.device_buffer_ptr) % kAlignment == 0;
  if (aligned && is_dense(strides, shape, host_size(e)) && bytes > 0) {
    buffer = std::make_shared<runtime::Buffer>(std::shared_ptr<void>(args.device_buffer_ptr, release), bytes);
  } else {
    buffer = copied(*args.client, e, shape, args.device_buffer_ptr, strides);
    release(args.device_buffer_ptr);
  }
  auto* device = of(memory).device;
  args.buffer = new_buffer(single(described(e, std::move(shape)), std::move(buffer), device->device), device, memory);
}

void create_uninitialized(PJRT_Client_CreateUninitializedBuffer_Args& args) {
  auto* memory = memory_for(args.device, args.memory);
  ElementType e = element_type(args.shape_element_type);
  Shape shape = shape_of(args.shape_dims, args.shape_num_dims);
  auto buffer = runtime::runtime_of(args.client->client).memory->allocate(size_of(shape) * dtype_size(hlo::storage(e)));
  std::memset(buffer->data(), 0, static_cast<std::size_t>(buffer->nbytes()));
  auto* device = of(memory).device;
  args.buffer = new_buffer(single(described(e, std::move(shape)), std::move(buffer), device->device), device, memory);
}

void create_error_buffer(PJRT_Client_CreateErrorBuffer_Args& args) {
  auto* memory = memory_for(nullptr, args.memory);
  ElementType e = element_type(args.shape_element_type);
  auto error = std::make_exception_ptr(StateError(std::string(view(args.error_message, args.error_message_size))));
  auto* device = of(memory).device;
  auto about = described(e, shape_of(args.shape_dims, args.shape_num_dims));
  args.buffer =
      new_buffer(single(std::move(about), nullptr, device->device, runtime::ready_event(error)), device, memory);
}

void buffer_destroy(PJRT_Buffer_Destroy_Args& args) { destroy(args.buffer); }
void buffer_element_type(PJRT_Buffer_ElementType_Args& args) {
  args.type = args.buffer->token ? PJRT_Buffer_Type_TOKEN : buffer_type(args.buffer->about().element);
}
void buffer_dimensions(PJRT_Buffer_Dimensions_Args& args) {
  args.dims = args.buffer->about().shape.data();
  args.num_dims = args.buffer->about().shape.size();
}
void buffer_unpadded_dimensions(PJRT_Buffer_UnpaddedDimensions_Args& args) {
  args.unpadded_dims = args.buffer->about().shape.data();
  args.num_dims = args.buffer->about().shape.size();
}
void buffer_dynamic_dimensions(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
  args.dynamic_dim_indices = nullptr;
  args.num_dynamic_dims = 0;
}
void buffer_size(PJRT_Buffer_OnDeviceSizeInBytes_Args& args) {
  const Description& about = args.buffer->about();
  args.on_device_size_in_bytes = static_cast<std::size_t>(size_of(about.shape) * host_size(about.element));
}
void buffer_device(PJRT_Buffer_Device_Args& args) { args.device = args.buffer->device; }
void buffer_memory(PJRT_Buffer_Memory_Args& args) { args.memory = args.buffer->memory; }
// Narrow elements lie in wider ones here, and all data row-major: readers of others must ask for a copy.
void buffer_is_on_cpu(PJRT_Buffer_IsOnCpu_Args& args) {
  const Description& about = args.buffer->about();
  args.is_on_cpu = !is_narrow(about.element) && about.layout.empty();
}

void buffer_delete(PJRT_Buffer_Delete_Args& args) {
  ValuePtr gone;
  std::lock_guard lock(buffers_mutex());
  gone = std::exchange(args.buffer->value, nullptr);
}
void buffer_is_deleted(PJRT_Buffer_IsDeleted_Args& args) {
  std::lock_guard lock(buffers_mutex());
  args.is_deleted = !args.buffer->value || !arrays::usable(args.buffer->value->array);
}

void buffer_ready_event(PJRT_Buffer_ReadyEvent_Args& args) {
  auto [value, index] = held(*args.buffer, "PJRT_Buffer_ReadyEvent");
  args.event = new_event(arrays::storage_of(value->array, "PJRT_Buffer_ReadyEvent")->ready);
}

void buffer_memory_layout(PJRT_Buffer_GetMemoryLayout_Args& args) {
  const Description& about = args.buffer->about();
  Order& order = args.buffer->together->minor_to_major;
  std::lock_guard lock(buffers_mutex());
  if (order.size() != about.shape.size()) order = full_order(about.layout, about.shape.size());
  args.layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  args.layout.extension_start = nullptr;
  args.layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args.layout.tiled = {
      PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE, nullptr, order.data(), order.size(), nullptr, nullptr, 0};
}

// --- out of a buffer -------------------------------------------------------------------------------------------------

namespace {
// Runs `copy` once the data is there: here where it is, else on the thread that completes it.
PJRT_Event* when_there(PJRT_Buffer& b, const char* entry, std::function<void(const runtime::Buffer&)> copy) {
  auto [value, index] = held(b, entry);
  auto storage = arrays::storage_of(value->array, entry);
  auto run = [storage, index, copy = std::move(copy)] {
    copy(*storage->shard_buffers[static_cast<std::size_t>(index)]);
  };
  if (!storage->ready || (storage->ready->ready() && !storage->ready->error())) {
    run();
    return new_event(nullptr);
  }
  return new_event(runtime::when_all(std::span(&storage->ready, 1), std::move(run)));
}
}  // namespace

void buffer_to_host(PJRT_Buffer_ToHostBuffer_Args& args) {
  auto& b = *args.src;
  const auto& [e, shape, layout] = b.about();
  std::int64_t item = host_size(e);
  auto bytes = static_cast<std::size_t>(size_of(shape) * item);
  if (args.dst == nullptr) {
    args.dst_size = bytes;
    return;
  }
  if (args.dst_size < bytes) throw InvalidArgument(str("room for ", args.dst_size, " bytes; the buffer has ", bytes));
  // Without a layout the host gets the buffer's own.
  Dims strides = args.host_layout == nullptr && !layout.empty() ? strides_in_order(layout, shape, item)
                                                                : strides_of(args.host_layout, shape, item);
  auto copy = [bytes, item, strides = std::move(strides), about = b.together->about,
               dst = args.dst](const runtime::Buffer& from) {
    if (bytes == 0) return;
    const auto& [e, shape, layout] = *about;
    const void* source = from.data();
    std::vector<std::uint8_t> narrowed;
    if (is_narrow(e)) {
      narrowed.resize(bytes);
      narrow(e, source, narrowed.data(), size_of(shape));
      source = narrowed.data();
    }
    if (is_dense(strides, shape, item)) {
      std::memcpy(dst, source, bytes);
    } else {
      core::copy_strided(dst, strides, source, core::contiguous_strides(shape, item), shape, item);
    }
  };
  args.event = when_there(b, "PJRT_Buffer_ToHostBuffer", std::move(copy));
}

void buffer_copy_raw(PJRT_Buffer_CopyRawToHost_Args& args) {
  auto& b = *args.buffer;
  const auto& [element, shape, layout] = b.about();
  if (!layout.empty())
    throw UnimplementedError(str("raw bytes of a buffer of layout ", layout_text(layout, shape.size())));
  std::int64_t bytes = size_of(shape) * host_size(element);
  if (args.offset < 0 || args.transfer_size < 0 || args.offset > bytes || args.transfer_size > bytes - args.offset) {
    throw InvalidArgument(
        str("bytes ", args.offset, "..", args.offset, "+", args.transfer_size, " of a buffer of ", bytes));
  }
  args.event = when_there(b, "PJRT_Buffer_CopyRawToHost",
                          [e = element, n = size_of(shape), offset = args.offset, size = args.transfer_size,
                           dst = args.dst](const runtime::Buffer& from) {
                            if (size == 0) return;
                            std::vector<std::uint8_t> narrowed;
                            const void* source = from.data();
                            if (is_narrow(e)) {
                              narrowed.resize(static_cast<std::size_t>(n));
                              narrow(e, source, narrowed.data(), n);
                              source = narrowed.data();
                            }
                            std::memcpy(dst, static_cast<const char*>(source) + offset, static_cast<std::size_t>(size));
                          });
}

namespace {
// Memory does not change once it is filled, so the copy is the same memory, on another device's account.
PJRT_Buffer* copy_to(PJRT_Buffer& b, PJRT_Memory* memory, const char* entry) {
  auto [value, index] = held(b, entry);
  auto from = arrays::storage_of(value->array, entry);
  auto* device = of(memory).device;
  if (!from->ready || (from->ready->ready() && !from->ready->error())) {
    auto copy = single(value->about, from->shard_buffers[static_cast<std::size_t>(index)], device->device);
    return new_buffer(copy, device, memory);
  }
  auto copy = single(value->about, nullptr, device->device);
  auto to = arrays::storage_of(copy->array, entry);
  to->ready = runtime::when_all(std::span(&from->ready, 1), [from, index, to] {
    to->shard_buffers[0] = from->shard_buffers[static_cast<std::size_t>(index)];
  });
  return new_buffer(copy, device, memory);
}
}  // namespace

void buffer_copy_to_device(PJRT_Buffer_CopyToDevice_Args& args) {
  args.dst_buffer = copy_to(*args.buffer, args.dst_device->memories.front(), "PJRT_Buffer_CopyToDevice");
}
void buffer_copy_to_memory(PJRT_Buffer_CopyToMemory_Args& args) {
  args.dst_buffer = copy_to(*args.buffer, args.dst_memory, "PJRT_Buffer_CopyToMemory");
}

namespace {
void* address(PJRT_Buffer& b, const char* entry) {
  const auto& [element, shape, layout] = b.about();
  if (is_narrow(element)) {
    throw UnimplementedError(str(entry, ": elements of type ", hlo::to_string(element), " lie in wider ones"));
  }
  if (!layout.empty()) {
    throw UnimplementedError(
        str(entry, ": the data of a buffer of layout ", layout_text(layout, shape.size()), " lies row-major"));
  }
  return shard_of(b, entry)->data();
}
}  // namespace

void buffer_unsafe_pointer(PJRT_Buffer_UnsafePointer_Args& args) {
  args.buffer_pointer = reinterpret_cast<std::uintptr_t>(address(*args.buffer, "PJRT_Buffer_UnsafePointer"));
}
void buffer_opaque_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
  args.device_memory_ptr = address(*args.buffer, "PJRT_Buffer_OpaqueDeviceMemoryDataPointer");
}

// Who has the address keeps the memory, and a program that the buffer is donated to does not overwrite it.
void buffer_increase_references(PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) {
  auto shard = shard_of(*args.buffer, "PJRT_Buffer_IncreaseExternalReferenceCount");
  std::lock_guard lock(buffers_mutex());
  ++args.buffer->external_references;
  args.buffer->held = std::move(shard);
}
void buffer_decrease_references(PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) {
  runtime::BufferPtr gone;
  std::lock_guard lock(buffers_mutex());
  if (args.buffer->external_references < 1) {
    throw InvalidArgument("PJRT_Buffer_DecreaseExternalReferenceCount: more often than increased");
  }
  if (--args.buffer->external_references == 0) gone = std::move(args.buffer->held);
}

}  // namespace tessera::pjrt
