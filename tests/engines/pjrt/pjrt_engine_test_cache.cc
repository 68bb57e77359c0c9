// SPDX-License-Identifier: Apache-2.0
// Compiled programs on disk.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "base/file.h"
#include "engines/pjrt/plugin_programs.h"
#include "engines/pjrt/program_cache.h"
#include "tessera/tessera.h"

namespace tessera::test {

namespace {

namespace fs = std::filesystem;
using pjrt_engine::ProgramCache;

class Cache : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& f : fs::directory_iterator(folder_)) out.push_back(f.path());
    return out;
  }
  fs::path folder_ = fs::temp_directory_path() / ("tessera-cache-" + std::to_string(::getpid()));
};

TEST_F(Cache, FindsWhatWasStored) {
  const ProgramCache cache(folder_.string(), 1 << 20);
  EXPECT_FALSE(cache.find("a"));
  cache.store("a", "one");
  cache.store("b", std::string(1000, '\0'));
  cache.store("a", "two");
  EXPECT_EQ(cache.find("a"), "two");
  EXPECT_EQ(ProgramCache(folder_.string(), 1 << 20).find("b"), std::string(1000, '\0'));
  EXPECT_FALSE(cache.find("ab"));
  cache.remove("a");
  EXPECT_FALSE(cache.find("a"));
  EXPECT_THROW(ProgramCache("/proc/nowhere/folder", 1), ValueError);
}

TEST_F(Cache, TakesNothingThatIsDamaged) {
  const ProgramCache cache(folder_.string(), 1 << 20);
  cache.store("key", "value");
  const fs::path file = files().at(0);
  const std::string whole = base::read_file("test", file.string());
  std::size_t told = 0;
  set_log_sink(
      [&](LogLevel level, std::string_view line) {
        told += level == LogLevel::Warning && line.starts_with(file.string()) ? 1 : 0;
      },
      LogLevel::Debug);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    std::ofstream(file, std::ios::binary) << bad;
    EXPECT_FALSE(cache.find("key")) << "byte " << i;
    std::ofstream(file, std::ios::binary) << whole.substr(0, i);
    EXPECT_FALSE(cache.find("key")) << i << " bytes";
  }
  set_log_sink(nullptr);
  EXPECT_EQ(told, 2 * whole.size());
  std::ofstream(file, std::ios::binary) << whole;
  EXPECT_EQ(cache.find("key"), "value");
}

TEST_F(Cache, StaysWithinItsBound) {
  const ProgramCache cache(folder_.string(), 4096);
  for (int i = 0; i < 20; ++i) cache.store("key " + std::to_string(i), std::string(1000, 'x'));
  std::int64_t bytes = 0;
  for (const auto& f : files()) bytes += static_cast<std::int64_t>(fs::file_size(f));
  EXPECT_LE(bytes, 4096);
  EXPECT_TRUE(cache.find("key 19"));
  EXPECT_FALSE(cache.find("key 0"));
  cache.store("large", std::string(5000, 'x'));
  EXPECT_FALSE(cache.find("large"));
  EXPECT_TRUE(cache.find("key 19"));
}

TEST_F(Cache, MayBeSharedByWriters) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const ProgramCache cache(folder_.string(), 8000);
      for (int i = 0; i < 60; ++i) {
        const std::string key = "key " + std::to_string(i % 10);
        auto known = cache.find(key);
        if (known && *known != key + key) ++wrong;
        if (i % 7 == 0) cache.remove(key);
        cache.store(key, key + key);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Cache, SparesTheNextStartItsCompilations) {
  const PjrtOptions options{.plugin = plugin_path_of_test(), .options = {}, .compilation_cache = folder_.string()};
  auto run = [&] {
    ClientScope scope(Client::pjrt(options));
    return jit([](Array x) { return sin(x) * 3.0; })(device_put(arange(8.0F))).to_vector<float>();
  };
  auto entries = [&] {
    std::map<std::string, std::pair<ino_t, fs::file_time_type>> out;
    for (const auto& f : files()) {
      struct stat s {};
      ::stat(f.c_str(), &s);
      out[f.string()] = {s.st_ino, fs::last_write_time(f)};
    }
    return out;
  };
  const auto first = run();
  const auto before = entries();
  ASSERT_GE(before.size(), 1U);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(run(), first);
  const auto after = entries();
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [path, entry] : before) {
    EXPECT_EQ(after.at(path).first, entry.first) << "it was written again";
    EXPECT_GT(after.at(path).second, entry.second) << "it was not read";
  }
  // An entry of another version of the plugin, say, is compiled anew.
  for (const auto& f : files()) {
    std::ofstream(f, std::ios::binary | std::ios::in | std::ios::out).seekp(40) << "????";
  }
  EXPECT_EQ(run(), first);
}

}  // namespace
}  // namespace tessera::test
