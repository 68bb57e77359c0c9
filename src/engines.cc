// SPDX-License-Identifier: Apache-2.0
// The one file that names engines and transports.
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/immortal.h"
#include "base/strings.h"
#include "engines/cpu/chrome_trace.h"
#include "engines/cpu/cpu_engine.h"
#include "engines/mpi/load_module.h"
#include "engines/mpi/mpi_transport.h"
#ifdef TESSERA_HAS_PJRT
#include "engines/pjrt/pjrt_engine.h"
#endif
#include "mesh/client_state.h"
#include "runtime/engine.h"
#include "runtime/local_cluster.h"
#include "runtime/write_trace.h"
#include "tessera/error.h"

namespace tessera::runtime {

namespace {

const char kRuntimeKey = 0;
const char kClusterKey = 0;
const char kTransportKey = 0;
const char kEngineKey = 0;

// Enough for a value that a program looks at again and again.
constexpr std::int64_t kHostKept = 512 << 20;  // bytes

// The transport that the client was made with; else that of the simulated cluster, else none.
std::shared_ptr<Collectives> transport_of(const Client& client) {
  auto made_with = client.extensions().get(&kTransportKey, [] { return std::shared_ptr<void>(); });
  if (made_with) return std::static_pointer_cast<Collectives>(made_with);
  auto cluster = client.cluster();
  if (!cluster) return nullptr;
  auto meeting = std::static_pointer_cast<LocalCluster>(cluster->extensions().get(
      &kClusterKey, [&]() -> std::shared_ptr<void> { return LocalCluster::create(cluster->process_count()); }));
  return meeting->join(client.process_index());
}

// Of all clients that there are, for `end_trace` to wait for their programs.
class Schedulers {
 public:
  void add(const std::shared_ptr<TaskScheduler>& s) {
    std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& known) { return known.expired(); });
    all_.push_back(s);
  }
  void drain() {
    std::vector<std::shared_ptr<TaskScheduler>> now;
    {
      std::lock_guard lock(mutex_);
      for (const auto& known : all_) {
        if (auto s = known.lock()) now.push_back(std::move(s));
      }
    }
    for (const auto& s : now) s->drain();
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<TaskScheduler>> all_;
};

Schedulers& schedulers() {
  static base::Immortal<Schedulers> s;  // clients may be made while the program ends
  return s.value;
}

// The engine that the client was made with; else the native one, for CPU devices.
std::shared_ptr<Engine> engine_of(const Client& client, const ClientRuntime& runtime) {
  auto made_with = client.extensions().get(&kEngineKey, [] { return std::shared_ptr<void>(); });
  if (made_with) return std::static_pointer_cast<Engine>(made_with);
  if (client.platform() != "cpu") {
    throw UnimplementedError("no engine for platform " + std::string(client.platform()) + "; this build has: cpu");
  }
  return cpu::make_engine(client.process_index(), runtime.memory, runtime.collectives);
}

std::shared_ptr<void> make_runtime(const Client& client) {
  auto runtime = std::make_shared<ClientRuntime>();
  runtime->memory = MemoryPool::create(client.memory_limit());
  // Who bounds memory wants none that lies idle.
  runtime->host_memory = MemoryPool::create(0, client.memory_limit() > 0 ? 0 : kHostKept);
  runtime->collectives = transport_of(client);
  runtime->engine = engine_of(client, *runtime);
  // Under a limit of memory programs run one at a time: what one needs is known, what any few need is not.
  runtime->scheduler = TaskScheduler::create(client.memory_limit() > 0 ? 1 : 0);
  schedulers().add(runtime->scheduler);
  return runtime;
}

}  // namespace

ClientRuntime& runtime_of(const Client& client) {
  return *std::static_pointer_cast<ClientRuntime>(
      client.extensions().get(&kRuntimeKey, [&] { return make_runtime(client); }));
}

void write_trace() { cpu::write_trace(); }

std::int64_t begin_trace(const std::string& path) { return cpu::begin_trace(path); }

void end_trace(std::int64_t trace) {
  schedulers().drain();
  cpu::end_trace(trace);
}

}  // namespace tessera::runtime

namespace tessera {

Client Client::mpi(const MpiOptions& options, const Loc&) {
  if (options.devices < 1) throw ValueError(str("Client::mpi: devices = ", options.devices, "; expected at least 1"));
  if (options.memory_limit < 0) {
    throw ValueError(str("Client::mpi: memory_limit = ", options.memory_limit, "; expected 0 or more bytes"));
  }
  if (!(options.timeout_seconds >= 0)) {
    throw ValueError(str("Client::mpi: timeout_seconds = ", options.timeout_seconds, "; expected 0 or more"));
  }
  std::shared_ptr<mpi::MpiTransport> transport = mpi::MpiTransport::join(options);
  std::map<std::int32_t, std::int64_t> islands;  // machines, numbered in the order of their first processes
  for (auto node : transport->nodes()) islands.emplace(node, static_cast<std::int64_t>(islands.size()));
  std::vector<mesh::DeviceDescription> devices;
  for (int p = 0; p < transport->process_count(); ++p) {
    const auto process = static_cast<std::size_t>(p);
    for (std::int64_t i = 0; i < transport->devices()[process]; ++i) {
      mesh::DeviceDescription d;
      d.id = static_cast<std::int64_t>(devices.size());
      d.process_index = p;
      if (islands.size() > 1) d.slice_index = islands.at(transport->nodes()[process]);
      devices.push_back(d);
    }
  }
  Client client =
      mesh::make_client("cpu", "CpuDevice", transport->process_index(), transport->process_count(), devices);
  mesh::ClientState::of(client)->memory_limit = options.memory_limit;
  client.extensions().get(&runtime::kTransportKey, [&]() -> std::shared_ptr<void> {
    return std::static_pointer_cast<runtime::Collectives>(transport);
  });
  return client;
}

#ifdef TESSERA_HAS_PJRT
Client Client::pjrt(const PjrtOptions& options, const Loc&) {
  if (const int processes = mpi::started_processes(); processes > 1 && !options.alone) {
    throw UnimplementedError(str("Client::pjrt: mpirun has started the program as one of ", processes,
                                 " processes, and the devices of PJRT plugins of several processes cannot be one "
                                 "client's; start it as one process, set PjrtOptions::alone for a client of this "
                                 "process alone, or use Client::mpi for CPU devices of all of them"));
  }
  pjrt_engine::PluginClientPtr plugin = pjrt_engine::open_client(options);
  Client client = mesh::make_client(plugin->platform(), plugin->device_word(), plugin->process_index(),
                                    plugin->process_count(), plugin->described());
  client.extensions().get(&runtime::kEngineKey, [&]() -> std::shared_ptr<void> {
    return pjrt_engine::make_engine(plugin, runtime::MemoryPool::create());
  });
  return client;
}
#else
Client Client::pjrt(const PjrtOptions&, const Loc&) {
  throw UnimplementedError(
      "Client::pjrt: this build has no engine for PJRT plugins, since the headers of the PJRT C API were not there "
      "when it "
      "was configured; `make plugin` fetches them");
}
#endif

}  // namespace tessera
