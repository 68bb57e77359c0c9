// SPDX-License-Identifier: Apache-2.0
#include "tessera/device.h"

#include <charconv>
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/strings.h"
#include "base/thread_own.h"
#include "mesh/client_state.h"
#include "tessera/error.h"

namespace tessera {

using mesh::ClientState;
using mesh::DeviceDescription;
using mesh::DeviceState;

struct Extensions::Impl {
  std::recursive_mutex mutex;  // a factory may ask for other extensions
  std::unordered_map<const void*, std::shared_ptr<void>> slots;
};
Extensions::Extensions() : impl_(std::make_unique<Impl>()) {}
Extensions::~Extensions() = default;

std::shared_ptr<void> Extensions::get(const void* key, const std::function<std::shared_ptr<void>()>& make) {
  std::lock_guard lock(impl_->mutex);
  if (auto it = impl_->slots.find(key); it != impl_->slots.end()) return it->second;
  auto made = make();
  impl_->slots[key] = made;
  return made;
}

Cluster::Cluster(int process_count, std::int64_t devices_per_process, const Loc&)
    : process_count_(process_count), devices_per_process_(devices_per_process) {}

namespace {

// Clients are never destroyed: devices are plain pointers into them.
struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<ClientState>> clients;
  struct Member {
    std::weak_ptr<Cluster> cluster;
    std::set<int> joined;
  };
  std::vector<Member> clusters;  // oldest first
  Client default_client;
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

struct ScopeTag;
std::vector<Client>& scope_stack() { return base::thread_own<std::vector<Client>, ScopeTag>(); }

const DeviceState& state_of(const Device& d) {
  const DeviceState* s = DeviceState::of(d);
  if (s == nullptr) throw ValueError("Device: the device handle is null; expected a device of a client");
  return *s;
}
ClientState& state_of(const Client& c) {
  ClientState* s = ClientState::of(c);
  if (s == nullptr)
    throw ValueError("Client: the client handle is null; expected one made by Client::cpu or Client::current");
  return *s;
}

std::unique_ptr<ClientState> new_state(std::string platform, std::string kind, int process_index, int process_count,
                                       std::size_t count) {
  auto s = std::make_unique<ClientState>();
  s->platform = std::move(platform);
  s->device_kind = std::move(kind);
  s->process_index = process_index;
  s->process_count = process_count;
  s->table.resize(count);
  s->devices.reserve(count);
  return s;
}

Client keep(std::unique_ptr<ClientState> s) {
  for (std::size_t i = 0; i < s->table.size(); ++i) {
    DeviceState& d = s->table[i];
    d.client = s.get();
    d.table_position = static_cast<std::int32_t>(i);
    s->devices.push_back(d.handle());
    if (d.process_index == s->process_index) s->local_devices.push_back(d.handle());
  }
  auto& r = registry();
  std::lock_guard lock(r.mutex);
  r.clients.push_back(std::move(s));
  return r.clients.back()->handle();
}

std::shared_ptr<Cluster> join_cluster(const CpuOptions& o) {
  auto& r = registry();
  std::lock_guard lock(r.mutex);
  std::erase_if(r.clusters, [](const auto& m) { return m.cluster.expired(); });
  for (auto it = r.clusters.rbegin(); it != r.clusters.rend(); ++it) {
    auto c = it->cluster.lock();
    if (!c || (o.cluster && c != o.cluster)) continue;
    if (c->process_count() != o.process_count || c->devices_per_process() != o.devices) {
      if (!o.cluster) continue;
      throw ValueError(str("Client::cpu: cluster has ", c->process_count(), " processes of ", c->devices_per_process(),
                           " devices; got process_count = ", o.process_count, ", devices = ", o.devices));
    }
    if (it->joined.insert(o.process_index).second) return c;
    if (o.cluster) {
      throw ValueError(str("Client::cpu: process_index = ", o.process_index,
                           " has already joined the cluster; expected an index that is still free"));
    }
  }
  auto c = o.cluster ? o.cluster : std::make_shared<Cluster>(o.process_count, o.devices);
  if (c->process_count() != o.process_count || c->devices_per_process() != o.devices) {
    throw ValueError(str("Client::cpu: cluster has ", c->process_count(), " processes of ", c->devices_per_process(),
                         " devices; got process_count = ", o.process_count, ", devices = ", o.devices));
  }
  r.clusters.push_back({c, {o.process_index}});
  return c;
}

std::int64_t devices_from_environment() {
  const char* text = std::getenv("TESSERA_CPU_DEVICES");
  if (text == nullptr || *text == '\0') return 1;
  std::string_view v(text);
  std::int64_t n = 0;
  auto r = std::from_chars(v.data(), v.data() + v.size(), n);
  if (r.ec != std::errc() || r.ptr != v.data() + v.size() || n < 1) {
    throw ValueError(str("Client::current: TESSERA_CPU_DEVICES = \"", v, "\"; expected a positive number of devices"));
  }
  return n;
}

}  // namespace

namespace mesh {
Client make_client(std::string platform, std::string device_kind, int process_index, int process_count,
                   const std::vector<DeviceDescription>& devices) {
  auto s = new_state(std::move(platform), std::move(device_kind), process_index, process_count, devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& d = devices[i];
    s->table[i].id = d.id;
    s->table[i].process_index = d.process_index;
    if (!s->by_id.emplace(d.id, static_cast<std::int32_t>(i)).second) {
      throw ValueError(str("make_client: devices[", i, "] repeats the id ", d.id, "; ids must be unique"));
    }
    if (!d.coords.empty() || d.core_on_chip != 0 || d.slice_index) {
      s->table[i].physical = static_cast<std::int32_t>(s->physical.size());
      s->physical.push_back(d);
    }
  }
  return keep(std::move(s));
}
}  // namespace mesh

std::int64_t Device::id() const { return state_of(*this).id; }
int Device::process_index() const { return state_of(*this).process_index; }
std::string_view Device::platform() const { return state_of(*this).client->platform; }
Client Device::client() const { return state_of(*this).client->handle(); }
bool Device::is_local() const {
  const auto& s = state_of(*this);
  return s.process_index == s.client->process_index;
}
std::span<const std::int64_t> Device::coords() const {
  const auto& s = state_of(*this);
  if (s.physical < 0) return {};
  return s.client->physical[static_cast<std::size_t>(s.physical)].coords;
}
std::int64_t Device::core_on_chip() const {
  const auto& s = state_of(*this);
  return s.physical < 0 ? 0 : s.client->physical[static_cast<std::size_t>(s.physical)].core_on_chip;
}
std::optional<std::int64_t> Device::slice_index() const {
  const auto& s = state_of(*this);
  if (s.physical < 0) return std::nullopt;
  return s.client->physical[static_cast<std::size_t>(s.physical)].slice_index;
}
std::string to_string(const Device& d) {
  if (!d) return "Device(null)";
  return str(state_of(d).client->device_kind, "(id=", d.id(), ")");
}

Client Client::cpu(const CpuOptions& o, const Loc&) {
  if (o.devices < 1) throw ValueError(str("Client::cpu: devices = ", o.devices, "; expected at least 1"));
  if (o.process_count < 1)
    throw ValueError(str("Client::cpu: process_count = ", o.process_count, "; expected at least 1"));
  if (o.process_index < 0 || o.process_index >= o.process_count) {
    throw ValueError(str("Client::cpu: process_index = ", o.process_index, "; expected 0..", o.process_count - 1));
  }
  if (o.memory_limit < 0)
    throw ValueError(str("Client::cpu: memory_limit = ", o.memory_limit, "; expected 0 or more bytes"));
  if (o.devices > (std::int64_t{1} << 30) / o.process_count) {
    throw ValueError(
        str("Client::cpu: devices = ", o.devices, " in ", o.process_count, " processes; expected at most 2^30"));
  }
  std::shared_ptr<Cluster> cluster;
  if (o.process_count > 1 || o.cluster) cluster = join_cluster(o);
  auto s = new_state("cpu", "CpuDevice", o.process_index, o.process_count,
                     static_cast<std::size_t>(o.devices * o.process_count));
  s->memory_limit = o.memory_limit;
  s->cluster = std::move(cluster);
  for (std::size_t i = 0; i < s->table.size(); ++i) {
    s->table[i].id = static_cast<std::int64_t>(i);
    s->table[i].process_index = static_cast<std::int32_t>(static_cast<std::int64_t>(i) / o.devices);
  }
  return keep(std::move(s));
}

Client Client::from_environment(std::int64_t cpu_devices, const Loc& loc) {
  const char* text = std::getenv("TESSERA_ENGINE");
  const std::string_view engine = text == nullptr ? "" : text;
  if (engine.empty() || engine == "cpu") {
    return cpu({.devices = cpu_devices == 0 ? devices_from_environment() : cpu_devices}, loc);
  }
  constexpr std::string_view kPjrt = "pjrt:";
  if (engine.substr(0, kPjrt.size()) == kPjrt) return pjrt({.plugin = std::string(engine.substr(kPjrt.size()))}, loc);
  throw ValueError(str("Client::from_environment: TESSERA_ENGINE = \"", engine,
                       "\"; expected \"cpu\", or \"pjrt:\" and a plugin's path or name"));
}

Client Client::current() {
  if (!scope_stack().empty()) return scope_stack().back();
  auto& r = registry();
  {
    std::lock_guard lock(r.mutex);
    if (r.default_client) return r.default_client;
  }
  static const Client default_client = from_environment(0, Loc{});
  std::lock_guard lock(r.mutex);
  if (!r.default_client) r.default_client = default_client;
  return r.default_client;
}
void Client::set_default(const Client& client) {
  state_of(client);
  auto& r = registry();
  std::lock_guard lock(r.mutex);
  r.default_client = client;
}

std::span<const Device> Client::devices() const { return state_of(*this).devices; }
std::span<const Device> Client::local_devices() const { return state_of(*this).local_devices; }
int Client::process_index() const { return state_of(*this).process_index; }
int Client::process_count() const { return state_of(*this).process_count; }
std::string_view Client::platform() const { return state_of(*this).platform; }
std::int64_t Client::memory_limit() const { return state_of(*this).memory_limit; }
Device Client::device(std::int64_t id, const Loc&) const {
  auto& s = state_of(*this);
  if (s.by_id.empty()) {
    if (id >= 0 && id < static_cast<std::int64_t>(s.devices.size())) return s.devices[static_cast<std::size_t>(id)];
    throw ValueError(str("Client::device: id = ", id, "; known ids are 0..", s.devices.size() - 1));
  }
  if (auto it = s.by_id.find(id); it != s.by_id.end()) return s.devices[static_cast<std::size_t>(it->second)];
  std::vector<std::int64_t> known;
  for (const auto& d : s.devices) known.push_back(d.id());
  throw ValueError(str("Client::device: id = ", id, "; known ids are ", base::list_text(known)));
}
Extensions& Client::extensions() const { return state_of(*this).extensions; }
std::shared_ptr<Cluster> Client::cluster() const { return state_of(*this).cluster; }
std::string to_string(const Client& c) {
  if (!c) return "Client(null)";
  std::string kind(c.platform());
  if (!kind.empty() && kind[0] >= 'a' && kind[0] <= 'z') kind[0] = static_cast<char>(kind[0] - 'a' + 'A');
  return str(kind, "Client(process ", c.process_index(), " of ", c.process_count(), ", ", c.devices().size(),
             " devices)");
}

ClientScope::ClientScope(const Client& client, const Loc&) {
  state_of(client);
  scope_stack().push_back(client);
}
ClientScope::~ClientScope() {
  if (!scope_stack().empty()) scope_stack().pop_back();  // a thread that is ending has a new stack
}

std::span<const Device> devices() { return Client::current().devices(); }
std::span<const Device> local_devices() { return Client::current().local_devices(); }
int process_index() { return Client::current().process_index(); }
int process_count() { return Client::current().process_count(); }

}  // namespace tessera
