// SPDX-License-Identifier: Apache-2.0
// First calls, index maps, process start.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inputs.h"
#include "workload.h"

namespace tessera::bench {

namespace {

Result start(const Settings& s) {
  return each(4,
              [&](std::int64_t) {
                return microseconds([&] {
                  std::string self = "/proc/self/exe";
                  std::vector<std::string> words = {"tessera", "bench", "--first-result", "--devices",
                                                    std::to_string(s.devices)};
                  std::vector<char*> argv;
                  for (auto& w : words) argv.push_back(w.data());
                  argv.push_back(nullptr);
                  pid_t child = 0;
                  int status = -1;
                  if (posix_spawn(&child, self.c_str(), nullptr, nullptr, argv.data(), environ) != 0 ||
                      waitpid(child, &status, 0) != child || status != 0) {
                    throw StateError("start_to_first_result: the process that was started failed");
                  }
                });
              },
              {});
}

}  // namespace

void first_result(std::int64_t devices) {
  ClientScope scope(Client::cpu({.devices = devices}));
  Array x = device_put(HostArray::from(std::vector<float>(static_cast<std::size_t>(devices), 1.0F)),
                       NamedSharding(mesh1(devices), P("x")));
  jit([](const Array& v) { return v + 1; })(x).block_until_ready();
}

void add_latency(std::vector<Workload>& list) {
  list.push_back({"eager_first_op", [](const Settings&) {
                    return each(10,
                                [](std::int64_t i) {
                                  Array x = ones({100 + i, 3});
                                  return microseconds([&] { tanh(x).block_until_ready(); });
                                },
                                {});
                  }});
  list.push_back({"indices_map_alldev", [](const Settings& s) {
                    Mesh m = mesh2(s.devices);
                    return each(50,
                                [&](std::int64_t i) {
                                  NamedSharding sharding(m, P("x", "y"));
                                  Shape shape{4096 + s.devices * i, 4096};
                                  std::int64_t rows = 0;
                                  double time = microseconds([&] {
                                    for (const auto& [device, index] : sharding.devices_indices_map(shape)) {
                                      rows += index[0].stop.value_or(0) - index[0].start.value_or(0);
                                    }
                                  });
                                  if (rows != 2 * shape[0]) throw StateError("indices_map_alldev: wrong indices");
                                  return time;
                                },
                                {});
                  }});
  list.push_back({"start_to_first_result", start});
}

}  // namespace tessera::bench
