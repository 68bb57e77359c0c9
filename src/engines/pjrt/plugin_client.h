// SPDX-License-Identifier: Apache-2.0
// A client of a PJRT plugin: its devices, and buffers in their memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engines/pjrt/api.h"
#include "engines/pjrt/program_cache.h"
#include "mesh/client_state.h"
#include "runtime/buffer.h"
#include "tessera/dtype.h"
#include "tessera/shape.h"

namespace tessera::pjrt_engine {

PJRT_Buffer_Type buffer_type(DType t);

/// Programs over several devices are started one after the other, so that every device has them in the same order: else
/// collectives of two programs wait for each other. XLA:CPU runs devices on fewer threads than programs under way may
/// wait on, so there each also ends before the next is started.
class Turns {
 public:
  explicit Turns(bool one_by_one) : one_by_one_(one_by_one) {}
  bool one_by_one() const { return one_by_one_; }
  /// `start` gives the events of the program's end, or null ones.
  void take(const std::function<std::vector<runtime::EventPtr>()>& start);

 private:
  bool one_by_one_;
  std::mutex mutex_;
  std::vector<runtime::EventPtr> last_;
};

class PluginClient {
 public:
  /// Throws `StateError` with the plugin's message where it cannot make one.
  PluginClient(const Api& api, const PjrtOptions& options);

  const Api& api() const { return api_; }
  PJRT_Client* handle() const { return client_.handle; }
  /// "cuda".
  const std::string& platform() const { return platform_; }
  const std::string& platform_version() const { return version_; }
  int process_index() const { return process_index_; }
  int process_count() const { return process_count_; }
  /// In the order of `described`; null for those of other processes.
  PJRT_Device* device(std::size_t i) const { return devices_[i]; }
  const std::vector<mesh::DeviceDescription>& described() const { return described_; }
  /// The word for a device in texts: "CudaDevice".
  std::string device_word() const;
  /// "cuda:0".
  std::string place(const PJRT_Device* d) const;
  const ProgramCache& cache() const { return cache_; }
  Turns& turns() const { return *turns_; }

 private:
  void describe_devices();
  void read_attributes(PJRT_DeviceDescription* of, mesh::DeviceDescription& out) const;

  const Api& api_;
  ProgramCache cache_;
  struct Handle {
    explicit Handle(const Api& of) : api(of) {}
    ~Handle();
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    const Api& api;
    PJRT_Client* handle = nullptr;
  };
  Handle client_;
  std::string platform_, version_;
  std::unique_ptr<Turns> turns_;
  int process_index_ = 0, process_count_ = 1;
  std::vector<PJRT_Device*> devices_;
  std::vector<mesh::DeviceDescription> described_;
};
using PluginClientPtr = std::shared_ptr<const PluginClient>;

/// A buffer of the plugin, which is destroyed with it.
class OwnBuffer {
 public:
  OwnBuffer() = default;
  OwnBuffer(const PluginClient* client, PJRT_Buffer* buffer) : client_(client), buffer_(buffer) {}
  OwnBuffer(OwnBuffer&& o) noexcept : client_(o.client_), buffer_(std::exchange(o.buffer_, nullptr)) {}
  OwnBuffer& operator=(OwnBuffer&& o) noexcept {
    std::swap(client_, o.client_);
    std::swap(buffer_, o.buffer_);
    return *this;
  }
  ~OwnBuffer();
  PJRT_Buffer* get() const { return buffer_; }

 private:
  const PluginClient* client_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

struct ShardType {
  DType dtype;
  Shape shape;      ///< of the shard
  Shape on_device;  ///< the same or longer: filled up behind the last elements
  std::int64_t nbytes() const { return size_of(shape) * dtype_size(dtype); }
};

using ShardTypePtr = std::shared_ptr<const ShardType>;

/// A shard in the memory of every device that holds it.
class DeviceShard final : public runtime::DeviceMemory {
 public:
  struct Copy {
    PJRT_Device* device = nullptr;
    OwnBuffer buffer;
    runtime::EventPtr written = nullptr;  ///< the end of the run that fills it, where that is known
  };
  DeviceShard(PluginClientPtr client, std::vector<Copy> copies, ShardTypePtr type)
      : client_(std::move(client)), copies_(std::move(copies)), type_(std::move(type)) {}

  std::string place() const override { return client_->place(copies_.front().device); }
  void wait() const override;
  runtime::EventPtr copy_to_host(void* to) const override;

  /// The buffer of a device, where the shard is brought unless it is there. `nth`: how many of the shard's holders were
  /// asked for before, which is where it most often is.
  PJRT_Buffer* on(PJRT_Device* device, std::size_t nth) const;
  /// Whether one of these devices holds it.
  bool is_on_any(const std::vector<PJRT_Device*>& devices) const;
  /// The same shard on these devices, none of which holds it: copied without the host.
  std::shared_ptr<DeviceShard> copied_to(const std::vector<PJRT_Device*>& devices) const;
  const PluginClientPtr& client() const { return client_; }
  const ShardType& type() const { return *type_; }

 private:
  // Under the lock.
  OwnBuffer copy_on(PJRT_Device* device) const;

  PluginClientPtr client_;
  mutable std::mutex mutex_;
  mutable std::vector<Copy> copies_;
  ShardTypePtr type_;
};

/// A host's shard as one of these devices; the host's memory is held as long as it is read.
runtime::BufferPtr put(const PluginClientPtr& client, const runtime::BufferPtr& from, const ShardTypePtr& type,
                       const std::vector<PJRT_Device*>& devices);

}  // namespace tessera::pjrt_engine
