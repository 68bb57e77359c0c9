// SPDX-License-Identifier: Apache-2.0
// Programs, clients and the log through the C interface: what is refused, and calls from several threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/report/log.h"
#include "tests/unit/c_api_fixture.h"

namespace tessera::test {
namespace {

TEST_F(CApi, WrongArgumentsOfProgramsAreRefused) {
  const CProgram p = program(kDouble);
  const CArray a = array(whole);
  tessera_array* out[2] = {};
  const tessera_array* one[] = {a.get()};
  const tessera_array* hole[] = {nullptr};
  const tessera_array* two[] = {a.get(), a.get()};
  EXPECT_TRUE(names(fault(tessera_program_run(p.get(), two, 2, out, 1)), {"2 arguments", "takes 1"}));
  EXPECT_TRUE(names(fault(tessera_program_run(p.get(), one, 1, out, 2)), {"result_count = 2", "1 results"}));
  EXPECT_TRUE(names(fault(tessera_program_run(p.get(), hole, 1, out, 1)), {"args[0] is null"}));
  EXPECT_TRUE(names(fault(tessera_program_run(p.get(), nullptr, 1, out, 1)), {"args is null"}));
  EXPECT_TRUE(names(fault(tessera_program_run(p.get(), one, SIZE_MAX, out, 1)), {"args has"}));
  tessera_plan* plan = nullptr;
  EXPECT_TRUE(names(fault(tessera_program_plan(p.get(), two, 2, &plan)), {"2 arguments"}));
  tessera_string* text = nullptr;
  EXPECT_TRUE(names(fault(tessera_program_device_text(p.get(), nullptr, 0, &text)), {"0 arguments"}));

  tessera_host_buffer b = buffer();
  const std::int64_t shorter[] = {2};
  b.shape = shorter;
  tessera_array* made = nullptr;
  ASSERT_EQ(tessera_array_from_host(&b, whole.get(), &made), nullptr);
  const CArray small(made);
  const tessera_array* wrong_shape[] = {made};
  EXPECT_NE(fault(tessera_program_run(p.get(), wrong_shape, 1, out, 1)), "");
  b = buffer();
  b.dtype = TESSERA_I32;
  ASSERT_EQ(tessera_array_from_host(&b, whole.get(), &made), nullptr);
  const CArray integers(made);
  const tessera_array* wrong_dtype[] = {made};
  EXPECT_TRUE(names(fault(tessera_program_run(p.get(), wrong_dtype, 1, out, 1), TESSERA_ERROR_TYPE), {"int32"}));
  ASSERT_EQ(tessera_array_delete(made), nullptr);
  EXPECT_NE(fault(tessera_program_run(p.get(), wrong_dtype, 1, out, 1)), "");
  EXPECT_EQ(out[0], nullptr);
  tessera_dtype dtype = 0;
  std::size_t n = 0;
  EXPECT_TRUE(names(fault(tessera_program_input(p.get(), 1, &dtype, nullptr, 0, &n), TESSERA_ERROR_INDEX), {"i = 1"}));
  EXPECT_TRUE(names(fault(tessera_program_output(p.get(), 9, &dtype, nullptr, 0, &n), TESSERA_ERROR_INDEX), {"i = 9"}));
  tessera_sharding* s = nullptr;
  EXPECT_TRUE(names(fault(tessera_program_input_sharding(p.get(), 7, &s), TESSERA_ERROR_INDEX), {"i = 7"}));
}

TEST_F(CApi, ModulesThatAreNoneAreRefused) {
  tessera_program* p = nullptr;
  auto parse = [&](const std::string& text) {
    return fault(tessera_program_parse(client.get(), text.data(), text.size(), nullptr, &p), TESSERA_ERROR_FORMAT);
  };
  EXPECT_TRUE(names(parse("this is no module"), {"1"}));
  EXPECT_NE(parse(""), "");
  EXPECT_NE(parse(std::string("ML\xefR\0\0\0", 7)), "");
  EXPECT_TRUE(names(fault(tessera_program_parse(client.get(), nullptr, 3, nullptr, &p)), {"module is null"}));
  EXPECT_TRUE(names(fault(tessera_program_load(client.get(), "/nowhere/at/all.mlir", nullptr, &p)), {"/nowhere"}));
  EXPECT_TRUE(names(fault(tessera_program_load(client.get(), nullptr, nullptr, &p)), {"path is null"}));
  tessera_program_options options{.struct_size = sizeof options, .name = nullptr, .max_memory = -1, .donate = 0};
  EXPECT_TRUE(names(fault(tessera_program_parse(client.get(), kDouble, std::strlen(kDouble), &options, &p)),
                    {"options.max_memory = -1"}));
  options.max_memory = 8;
  EXPECT_NE(fault(tessera_program_parse(client.get(), kDouble, std::strlen(kDouble), &options, &p),
                  TESSERA_ERROR_RESOURCE_EXHAUSTED),
            "");
  EXPECT_EQ(p, nullptr);
}

// Every prefix of a module, and modules with a byte changed: an error, or a program.
TEST_F(CApi, BrokenModulesEndInErrors) {
  const std::string text = kDouble;
  std::mt19937 random(3);
  int programs = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[random() % text.size()] = static_cast<char>(random() % 256);
    for (const std::string& module : {text.substr(0, i), changed}) {
      tessera_program* p = nullptr;
      tessera_error* error = tessera_program_parse(client.get(), module.data(), module.size(), nullptr, &p);
      EXPECT_NE(error == nullptr, p == nullptr);
      programs += p != nullptr ? 1 : 0;
      tessera_error_free(error);
      tessera_program_free(p);
    }
  }
  EXPECT_GT(programs, 0);  // names may have other bytes
}

TEST_F(CApi, UnreducedAndSeveralShardsAreNoTensor) {
  const CArray a = array(split);
  DLManagedTensor* tensor = nullptr;
  EXPECT_NE(fault(tessera_array_to_dlpack(a.get(), 0, &tensor)), "");
  DLManagedTensorVersioned* versioned = nullptr;
  EXPECT_NE(fault(tessera_array_to_dlpack_versioned(a.get(), 1, &versioned)), "");
  EXPECT_EQ(tensor, nullptr);
  EXPECT_EQ(versioned, nullptr);
}

TEST_F(CApi, ClientsThatCannotBeAreRefused) {
  tessera_client* c = nullptr;
  tessera_cpu_options cpu{.struct_size = sizeof cpu, .devices = -1, .memory_limit = 0};
  EXPECT_TRUE(names(fault(tessera_client_cpu(&cpu, &c)), {"-1"}));
  EXPECT_TRUE(names(fault(tessera_client_pjrt(nullptr, &c)), {"options is null"}));
  tessera_pjrt_options pjrt{.struct_size = sizeof pjrt, .plugin = nullptr, .compilation_cache = nullptr};
  EXPECT_TRUE(names(fault(tessera_client_pjrt(&pjrt, &c)), {"options.plugin is null"}));
  pjrt.plugin = "/nowhere/plugin.so";
  tessera_error* error = tessera_client_pjrt(&pjrt, &c);
  EXPECT_TRUE(tessera_error_get_kind(error) == TESSERA_ERROR_STATE ||
              tessera_error_get_kind(error) == TESSERA_ERROR_UNIMPLEMENTED)
      << tessera_error_message(error);
  tessera_error_free(error);
  EXPECT_NE(fault(tessera_client_from_environment(-5, &c)), "");
  EXPECT_EQ(c, nullptr);
  // Memory that the client may not take is an error of its own kind.
  cpu = {.struct_size = sizeof cpu, .devices = 1, .memory_limit = 8};
  ASSERT_EQ(tessera_client_cpu(&cpu, &c), nullptr);
  const CClient small(c);
  tessera_sharding* s = nullptr;
  ASSERT_EQ(tessera_sharding_single_device(c, 0, &s), nullptr);
  const CSharding kept(s);
  const tessera_host_buffer b = buffer();
  tessera_array* a = nullptr;
  EXPECT_NE(fault(tessera_array_from_host(&b, s, &a), TESSERA_ERROR_RESOURCE_EXHAUSTED), "");
  EXPECT_EQ(a, nullptr);
}

TEST_F(CApi, LogLinesReachC) {
  std::vector<std::string> lines;
  auto sink = [](void* context, tessera_log_level level, const char* line) {
    static_cast<std::vector<std::string>*>(context)->push_back(std::to_string(level) + " " + line);
  };
  ASSERT_EQ(tessera_set_log_sink(sink, &lines, TESSERA_LOG_INFO), nullptr);
  base::log(LogLevel::Warning, "one");
  base::log(LogLevel::Debug, "two");
  ASSERT_EQ(tessera_set_log_sink(nullptr, nullptr, TESSERA_LOG_INFO), nullptr);
  base::log(LogLevel::Error, "three");
  EXPECT_EQ(lines, std::vector<std::string>{"2 one"});
  EXPECT_TRUE(names(fault(tessera_set_log_sink(sink, &lines, 5)), {"from = 5"}));
}

TEST_F(CApi, HandlesServeSeveralThreads) {
  const CProgram p = program(kDouble);
  const CArray a = array(split);
  std::vector<std::thread> threads;
  std::vector<float> sums(4);
  for (std::size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const tessera_array* args[] = {a.get()};
        tessera_array* out = nullptr;
        float back[4] = {};
        if (tessera_program_run(p.get(), args, 1, &out, 1) != nullptr) return;
        if (tessera_array_to_host(out, back, sizeof back) == nullptr) sums[t] += back[0] + back[3];
        tessera_array_free(out);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(sums, (std::vector<float>(4, 200)));
}

}  // namespace
}  // namespace tessera::test
