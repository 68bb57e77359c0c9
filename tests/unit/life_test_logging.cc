// SPDX-License-Identifier: Apache-2.0
// What the library tells: nothing unless somebody listens, and then where it helps.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/report/log.h"
#include "support/checkpoint_files.h"
#include "support/meshes.h"
#include "tessera/checkpoint.h"
#include "tessera/tessera.h"

namespace tessera {
namespace {

using test::EightDevices;
using test::TempFolder;

// Takes the lines until it ends.
class Lines {
 public:
  explicit Lines(LogLevel from) {
    set_log_sink(
        [this](LogLevel level, std::string_view line) { lines_.push_back(base::str(to_string(level), ": ", line)); },
        from);
  }
  ~Lines() { set_log_sink(nullptr); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  std::int64_t count(const std::string& level, const std::vector<std::string>& parts) const {
    return std::ranges::count_if(lines_, [&](const std::string& line) {
      return line.starts_with(level) &&
             std::ranges::all_of(parts, [&](const std::string& p) { return line.find(p) != std::string::npos; });
    });
  }
  std::string all() const { return join(lines_, "\n"); }

 private:
  std::vector<std::string> lines_;
};

TEST(Logging, SilentUntilSomebodyListens) {
  set_log_sink(nullptr);
  EXPECT_EQ(log_level(), LogLevel::Off);
  base::log(LogLevel::Error, "nobody hears this");
  Lines lines(LogLevel::Warning);
  EXPECT_EQ(log_level(), LogLevel::Warning);
  base::log(LogLevel::Info, "too little");
  base::log(LogLevel::Warning, "enough: ", 3, " of ", Shape{2, 4});
  EXPECT_EQ(lines.all(), "warning: enough: 3 of (2, 4)");
}

TEST(Logging, CompiledProgramsAreToldOnce) {
  EightDevices e;
  Lines lines(LogLevel::Debug);
  auto f = jit([](Array x) { return x * 2.0; }, {.name = "doubled"});
  Array x = device_put(HostArray::from<float>({1, 2, 3, 4, 5, 6, 7, 8}), NamedSharding(e.L8(), P("x")));
  f(x).block_until_ready();
  f(x).block_until_ready();
  EXPECT_EQ(lines.count("debug", {"doubled: compiled in ", " s for 8 devices (cpu)"}), 1) << lines.all();
}

TEST(Logging, CheckpointsTellTheirBytes) {
  EightDevices e;
  TempFolder folder;
  Lines lines(LogLevel::Info);
  const Array x = device_put(HostArray::from(std::vector<float>(64, 3)), NamedSharding(e.L8(), P("x")));
  checkpoints::save(folder.path(), 7, x).wait();
  EXPECT_EQ(lines.count("info", {"step_00000007", ": 256 bytes written in "}), 1) << lines.all();
  checkpoints::restore(folder.path(), 7, x);
  EXPECT_EQ(lines.count("info", {"step_00000007", ": 256 bytes read in "}), 1) << lines.all();
}

TEST(Logging, ASaveThatFailsIsToldAlsoToWhoNeverWaits) {
  TempFolder folder;
  Lines lines(LogLevel::Error);
  auto files = std::make_shared<test::HookedFiles>([](const std::string& step, const std::string&) {
    if (step == "rename") throw ValueError("the disk is full");
  });
  auto handle = checkpoints::save(folder.path(), 1, ones({4}), {.file_system = files});
  while (!handle.done()) std::this_thread::yield();
  EXPECT_EQ(lines.count("error", {"the disk is full"}), 1) << lines.all();
  EXPECT_THROW(handle.wait(), ValueError);
}

TEST(Logging, FaultsOfOtherProcessesAreTold) {
  auto clients = test::cluster_clients(2, 1);
  Lines lines(LogLevel::Error);
  auto body = [&](int p) {
    ClientScope scope(clients[static_cast<std::size_t>(p)]);
    auto mesh = make_mesh({2}, {"x"}, Client::current().devices());
    Array x = device_put(HostArray::from<float>({1, 2}), NamedSharding(mesh, P("x")));
    auto failing = jit([&](Array v) {
      Array y = pure_callback(
          [p](const std::vector<HostArray>& in) -> std::vector<HostArray> {
            if (p == 0) throw ValueError("no more today");
            return in;
          },
          {ShapeDtype{v.shape(), v.dtype()}}, {v})[0];
      // The other process waits here for what the first one never sends.
      return sum(with_sharding_constraint(y, NamedSharding(mesh, P("x"))));
    });
    EXPECT_THROW(failing(x).block_until_ready(), Error);
  };
  std::thread other([&] { body(1); });
  body(0);
  other.join();
  EXPECT_GE(lines.count("error", {"process 0 has failed: ", "no more today"}), 1) << lines.all();
}

TEST(Logging, SinksThatThrowChangeNothing) {
  int calls = 0;
  set_log_sink(
      [&](LogLevel, std::string_view) {
        ++calls;
        throw std::runtime_error("the logger's own trouble");
      },
      LogLevel::Debug);
  EXPECT_NO_THROW(base::log(LogLevel::Info, "one"));
  EXPECT_NO_THROW(base::log(LogLevel::Info, "two"));
  EXPECT_EQ(calls, 2);
  std::string error;
  set_log_sink([&](LogLevel, std::string_view) {
    base::log(LogLevel::Error, "from within");  // dropped: the sink is not called by itself
    try {
      set_log_sink(nullptr);
    } catch (const StateError& e) {
      error = e.what();
    }
  });
  base::log(LogLevel::Info, "three");
  EXPECT_NE(error.find("set_log_sink: called by the sink itself"), std::string::npos) << error;
  set_log_sink(nullptr);
}

TEST(Logging, LinesOfManyThreadsComeOneByOne) {
  int inside = 0;
  int most = 0;
  int lines = 0;
  set_log_sink([&](LogLevel, std::string_view) {
    most = std::max(most, ++inside);
    ++lines;
    --inside;
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 250; ++i) base::log(LogLevel::Info, "line ", i);
    });
  }
  for (auto& t : threads) t.join();
  set_log_sink(nullptr);
  EXPECT_EQ(lines, 1000);
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace tessera
