// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/pjrt_engine.h"

#include <algorithm>

namespace tessera::pjrt_engine {

namespace {

// The plugin's device behind each position of a list.
std::vector<PJRT_Device*> handles(const PluginClient& client, const sharding::DeviceList& devices) {
  std::vector<PJRT_Device*> out;
  out.reserve(devices.size());
  for (const Device& d : devices.devices) {
    out.push_back(client.device(static_cast<std::size_t>(mesh::DeviceState::of(d)->table_position)));
  }
  return out;
}

class PjrtEngine final : public runtime::Engine {
 public:
  PjrtEngine(PluginClientPtr client, std::shared_ptr<runtime::MemoryPool> memory)
      : client_(std::move(client)), memory_(std::move(memory)) {}

  bool partitions() const override { return true; }
  std::shared_ptr<runtime::Executable> compile(const ir::Module& module,
                                               std::shared_ptr<const sharding::DeviceList> devices) override {
    return pjrt_engine::compile(client_, memory_, module, *devices);
  }
  std::shared_ptr<runtime::MemoryPool> memory() override { return memory_; }
  void put_on_devices(runtime::ShardBuffers& shards, DType dtype, const sharding::Placement& placement,
                      bool by_tile) override;

 private:
  runtime::BufferPtr on_other_devices(const runtime::Buffer& shard, const std::vector<PJRT_Device*>& holders) const;

  PluginClientPtr client_;
  std::shared_ptr<runtime::MemoryPool> memory_;
};

// A shard of these devices' memory that none of `holders` has, in theirs; null where it stays as it is.
runtime::BufferPtr PjrtEngine::on_other_devices(const runtime::Buffer& shard,
                                                const std::vector<PJRT_Device*>& holders) const {
  const auto* memory = dynamic_cast<const DeviceShard*>(shard.elsewhere());
  if (memory == nullptr || memory->client() != client_ || memory->is_on_any(holders)) return nullptr;
  return std::make_shared<runtime::Buffer>(runtime::Buffer::Elsewhere{memory->copied_to(holders)}, shard.nbytes());
}

void PjrtEngine::put_on_devices(runtime::ShardBuffers& shards, DType dtype, const sharding::Placement& placement,
                                bool by_tile) {
  const auto devices = handles(*client_, *placement.devices);
  std::vector<std::vector<PJRT_Device*>> holders(shards.size());
  for (std::size_t p = 0; p < devices.size(); ++p) {
    const std::size_t shard = by_tile ? static_cast<std::size_t>(placement.tile_of[p]) : p;
    if (devices[p] != nullptr) holders[shard].push_back(devices[p]);
  }
  for (std::size_t k = 0; k < shards.size(); ++k) {
    if (!shards[k] || holders[k].empty()) continue;
    if (shards[k]->elsewhere() != nullptr) {
      if (auto moved = on_other_devices(*shards[k], holders[k])) shards[k] = std::move(moved);
      continue;
    }
    const auto tile = by_tile ? k : static_cast<std::size_t>(placement.tile_of[k]);
    auto type = std::make_shared<const ShardType>(ShardType{dtype, placement.tile_shape[tile], placement.shard_shape});
    shards[k] = put(client_, shards[k], type, holders[k]);
  }
}

}  // namespace

PluginClientPtr open_client(const PjrtOptions& options) {
  return std::make_shared<const PluginClient>(Api::load(plugin_path(options.plugin)), options);
}

std::shared_ptr<runtime::Engine> make_engine(PluginClientPtr client, std::shared_ptr<runtime::MemoryPool> memory) {
  return std::make_shared<PjrtEngine>(std::move(client), std::move(memory));
}

}  // namespace tessera::pjrt_engine
