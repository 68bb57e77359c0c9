// SPDX-License-Identifier: Apache-2.0
// The one file that names engines.
#include "engines/cpu/chrome_trace.h"
#include "engines/cpu/cpu_engine.h"
#include "runtime/engine.h"
#include "runtime/local_cluster.h"
#include "runtime/write_trace.h"
#include "tessera/error.h"

namespace tessera::runtime {

namespace {

const char kRuntimeKey = 0;
const char kClusterKey = 0;

std::shared_ptr<Collectives> join_cluster(const Client& client) {
  auto cluster = client.cluster();
  if (!cluster) return nullptr;
  auto meeting = std::static_pointer_cast<LocalCluster>(cluster->extensions().get(
      &kClusterKey, [&]() -> std::shared_ptr<void> { return LocalCluster::create(cluster->process_count()); }));
  return meeting->join(client.process_index());
}

std::shared_ptr<void> make_runtime(const Client& client) {
  if (client.platform() != "cpu") {
    throw UnimplementedError("no engine for platform " + std::string(client.platform()) + "; this build has: cpu");
  }
  auto runtime = std::make_shared<ClientRuntime>();
  runtime->memory = MemoryPool::create(client.memory_limit());
  runtime->collectives = join_cluster(client);
  runtime->engine = cpu::make_engine(client.process_index(), runtime->memory, runtime->collectives);
  // Under a limit of memory programs run one at a time: what one needs is known, what any few need is not.
  runtime->scheduler = TaskScheduler::create(client.memory_limit() > 0 ? 1 : 0);
  return runtime;
}

}  // namespace

ClientRuntime& runtime_of(const Client& client) {
  return *std::static_pointer_cast<ClientRuntime>(
      client.extensions().get(&kRuntimeKey, [&] { return make_runtime(client); }));
}

void write_trace() { cpu::write_trace(); }

}  // namespace tessera::runtime
