// SPDX-License-Identifier: Apache-2.0
// Plugins that are missing, foreign or fail: an exception with the plugin's message, and everything else lives on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tessera/tessera.h"

namespace tessera::test {

namespace {

namespace fs = std::filesystem;

class Failures : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // The plugin that fails like this.
  PjrtOptions fake(const std::string& how) const {
    const fs::path path = folder_ / ("fake_" + how + ".so");
    fs::copy_file(TESSERA_FAKE_PLUGIN, path, fs::copy_options::overwrite_existing);
    return {.plugin = path.string()};
  }
  static void has(const std::string& text, const std::vector<std::string>& words) {
    for (const auto& w : words) EXPECT_NE(text.find(w), std::string::npos) << "'" << w << "' is not in: " << text;
  }
  template <class Error, class F>
  static void throws(const F& f, const std::vector<std::string>& words) {
    try {
      f();
      ADD_FAILURE() << "no exception; expected " << testing::PrintToString(words);
    } catch (const Error& e) {
      has(e.what(), words);
    }
    // The native engine goes on.
    ClientScope native(Client::cpu());
    EXPECT_EQ((arange(4.0F) * 2.0).to_vector<float>(), (std::vector<float>{0, 2, 4, 6}));
  }

  fs::path folder_ = fs::temp_directory_path() / ("tessera-fake-" + std::to_string(::getpid()));
};

TEST_F(Failures, OfLoading) {
  throws<StateError>([] { Client::pjrt({.plugin = "/nowhere/plugin.so"}); }, {"Client::pjrt", "/nowhere/plugin.so"});
  throws<ValueError>([] { Client::pjrt({}); }, {"plugin = \"\"", "expected the path"});
  throws<StateError>([] { Client::pjrt({.plugin = "no_such_accelerator"}); },
                     {"no plugin named \"no_such_accelerator\" is installed", "give its path"});
  const fs::path text = folder_ / "text.so";
  std::ofstream(text) << "not a library";
  throws<StateError>([&] { Client::pjrt({.plugin = text.string()}); }, {"cannot be loaded", "text.so"});
  throws<StateError>([&] { Client::pjrt({.plugin = folder_.string()}); }, {"cannot be loaded", "directory"});
  throws<StateError>([] { Client::pjrt({.plugin = "libm.so.6", .options = {}}); }, {"libm.so.6"});
  throws<StateError>([] { Client::pjrt({.plugin = "/lib/x86_64-linux-gnu/libm.so.6"}); },
                     {"libm.so.6", "no PJRT plugin", "GetPjrtApi"});
  throws<StateError>([&] { Client::pjrt(fake("nothing")); }, {"no PJRT plugin", "no table of entries"});
}

TEST_F(Failures, OfVersions) {
  throws<StateError>([&] { Client::pjrt(fake("major")); }, {"fake_major.so has version 1.", "expected 0."});
  throws<StateError>([&] { Client::pjrt(fake("minor")); }, {"fake_minor.so has version 0.1 ", "or later"});
}

TEST_F(Failures, OfMakingAClient) {
  throws<StateError>([&] { Client::pjrt(fake("initialize")); }, {"could not initialize: the driver is too old"});
  throws<StateError>([&] { Client::pjrt(fake("create")); }, {"could not make a client: no device is plugged in"});
  throws<StateError>([&] { Client::pjrt(fake("empty")); }, {"fake_empty.so has no devices"});
  PjrtOptions options = fake("fine");
  options.options = {{"speed", std::int64_t{11}}};
  throws<ValueError>([&] { Client::pjrt(options); }, {"unknown option speed"});
}

// The form of a value in the environment tells the type that the plugin is given.
TEST_F(Failures, OfOptionsInTheEnvironment) {
  const PjrtOptions options = fake("fine");
  const auto refused = [&](const char* set, const std::vector<std::string>& words) {
    ::setenv("TESSERA_PJRT_OPTIONS", set, 1);
    throws<ValueError>([&] { Client::pjrt(options); }, words);
    ::unsetenv("TESSERA_PJRT_OPTIONS");
  };
  refused("speed:11", {"unknown option speed, an integer"});
  refused(";speed:1.5;", {"unknown option speed, a float"});
  refused("speed:false", {"unknown option speed, a bool"});
  refused("speed:0,1", {"unknown option speed, a list of integers"});
  refused("speed:0,", {"unknown option speed, a list of integers"});
  refused("speed:as:fast", {"unknown option speed, a text"});
  for (const char* set : {"speed", "speed:", ":11", "a:1;speed=11"}) {
    refused(set, {"TESSERA_PJRT_OPTIONS = \"" + std::string(set) + "\"", "expected name:value entries"});
  }
}

TEST_F(Failures, OfProgramsAndMemory) {
  auto twice = [](const Client& client) {
    ClientScope scope(client);
    return jit([](Array x) { return x + x; })(arange(1.0F)).block_until_ready();
  };
  EXPECT_EQ(twice(Client::pjrt(fake("fine"))).to_vector<float>(), (std::vector<float>{0}));
  throws<UnimplementedError>([&] { twice(Client::pjrt(fake("lacking"))); }, {"has no PJRT_Client_Compile"});
  throws<UnimplementedError>([&] { twice(Client::pjrt(fake("compile"))); },
                             {"could not compile", "stablehlo.add is not implemented"});
  throws<StateError>([&] { twice(Client::pjrt(fake("results"))); }, {"gives 7 results; the program has 1"});
  throws<StateError>([&] { twice(Client::pjrt(fake("execute"))); }, {"could not run", "the kernel was not launched"});
  throws<ResourceExhaustedError>([&] { twice(Client::pjrt(fake("exhaust"))); }, {"out of memory: 17 GiB"});
  throws<StateError>([&] { twice(Client::pjrt(fake("later"))); }, {"the device has fallen off the bus"});
  throws<StateError>([&] { static_cast<void>(twice(Client::pjrt(fake("read"))).to_vector<float>()); },
                     {"the copy engine is lost"});
  throws<ResourceExhaustedError>(
      [&] {
        ClientScope scope(Client::pjrt(fake("memory")));
        static_cast<void>(device_put(HostArray::from({1.0F})));
      },
      {"out of memory: 4 bytes"});
}

// A plugin need not tell what a program costs.
TEST_F(Failures, OfAnalysis) {
  auto compiled = [](const Client& client) {
    ClientScope scope(client);
    return jit([](Array x) { return x + x; }).lower(arange(1.0F)).compile();
  };
  const auto plain = compiled(Client::pjrt(fake("fine")));
  throws<UnimplementedError>([&] { plain.cost_analysis(); }, {"has no PJRT_Executable_GetCostAnalysis"});
  throws<UnimplementedError>([&] { plain.memory_analysis(); }, {"has no PJRT_Executable_GetCompiledMemoryStats"});
  const auto unknowing = compiled(Client::pjrt(fake("unknowing")));
  throws<StateError>([&] { unknowing.cost_analysis(); }, {"could not tell a program's costs: the compiler kept no"});
  throws<StateError>([&] { unknowing.memory_analysis(); }, {"could not tell a program's memory: the compiler kept no"});
  const auto told = compiled(Client::pjrt(fake("analysis")));
  EXPECT_EQ(told.cost_analysis(), (CostAnalysis{{"flops", 1.5}, {"bytes accessed", 12}}));
  EXPECT_EQ(told.memory_analysis(), (CompiledMemoryStats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, {}}));
}

// One client cannot have the devices of several processes.
TEST_F(Failures, OfSeveralProcesses) {
  PjrtOptions options = fake("fine");
  ASSERT_EQ(::setenv("PMI_SIZE", "2", 1), 0);
  throws<UnimplementedError>([&] { Client::pjrt(options); }, {"as one of 2 processes", "PjrtOptions::alone"});
  options.alone = true;
  EXPECT_EQ(Client::pjrt(options).devices().size(), 2U);
  ASSERT_EQ(::setenv("TESSERA_ENGINE", ("pjrt:" + options.plugin).c_str(), 1), 0);
  throws<UnimplementedError>([] { distributed::initialize(); }, {"TESSERA_ENGINE = \"pjrt:", "expected \"cpu\""});
  ::unsetenv("TESSERA_ENGINE");
  ::unsetenv("PMI_SIZE");
}

// Between devices of one client nothing goes through the host, which cannot read these.
TEST_F(Failures, OfReadingDoNotStopCopiesBetweenDevices) {
  Client client = Client::pjrt(fake("read"));
  ClientScope scope(client);
  Array x = device_put(HostArray::from({1.0F}), client.devices()[0]);
  Array y = device_put(x, client.devices()[1]);
  y.block_until_ready();
  EXPECT_EQ(to_string(y.addressable_shards()[0].device()), "FakeDevice(id=1)");
  throws<StateError>([&] { static_cast<void>(y.to_vector<float>()); }, {"the copy engine is lost"});
}

TEST_F(Failures, LeaveOtherArraysAlone) {
  Client good = Client::pjrt(fake("fine"));
  ClientScope scope(good);
  Array here = device_put(HostArray::from({1.0F}));
  throws<StateError>([&] { Client::pjrt(fake("create")); }, {"no device is plugged in"});
  EXPECT_EQ(here.to_vector<float>(), (std::vector<float>{0}));
  EXPECT_EQ(to_string(good.devices()[1]), "FakeDevice(id=1)");
}

}  // namespace
}  // namespace tessera::test
