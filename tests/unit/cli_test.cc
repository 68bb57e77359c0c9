// SPDX-License-Identifier: Apache-2.0
// `tessera` in the hands of somebody who is careless, or wants it to fail: a message and an exit status of 1 or 2.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/file.h"
#include "base/sanitizers.h"
#include "base/strings.h"
#include "support/cli_runner.h"
#include "tessera/io.h"
#include "tessera/version.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdd = R"(module @add {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

constexpr const char* kEndless = R"(module @endless {
  func.func public @main() -> tensor<i32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %c) : tensor<i32>
      cond { %t = stablehlo.constant dense<true> : tensor<i1>
        stablehlo.return %t : tensor<i1> }
      do { %one = stablehlo.constant dense<1> : tensor<i32>
        %n = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %n : tensor<i32> }
    return %0 : tensor<i32>
  }
})";

// A table, a Fourier transform, a stable sort, a decomposition and a product: each with memory of its own.
constexpr const char* kHungry = R"(module @hungry {
  func.func public @main() -> (tensor<f32>, tensor<f64>) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %d = stablehlo.constant dense<0.0> : tensor<f64>
    %0 = stablehlo.iota dim = 0 : tensor<500009xf32>
    %1 = stablehlo.fft %0, type = RFFT, length = [500009] : (tensor<500009xf32>) -> tensor<250005xcomplex<f32>>
    %2 = stablehlo.real %1 : (tensor<250005xcomplex<f32>>) -> tensor<250005xf32>
    %3:2 = "stablehlo.sort"(%2, %2) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>, %e: tensor<f32>, %f: tensor<f32>):
        %p = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }) {dimension = 0 : i64, is_stable = true} : (tensor<250005xf32>, tensor<250005xf32>) -> (tensor<250005xf32>, tensor<250005xf32>)
    %4 = stablehlo.reduce(%3#0 init: %c) applies stablehlo.maximum across dimensions = [0] : (tensor<250005xf32>, tensor<f32>) -> tensor<f32>
    %5 = stablehlo.iota dim = 1 : tensor<400x400xf64>
    %6 = stablehlo.iota dim = 0 : tensor<400x400xf64>
    %7 = stablehlo.compare EQ, %5, %6 : (tensor<400x400xf64>, tensor<400x400xf64>) -> tensor<400x400xi1>
    %8 = stablehlo.convert %7 : (tensor<400x400xi1>) -> tensor<400x400xf64>
    %9 = stablehlo.dot_general %8, %8, contracting_dims = [1] x [0] : (tensor<400x400xf64>, tensor<400x400xf64>) -> tensor<400x400xf64>
    %10 = "stablehlo.cholesky"(%9) {lower = true} : (tensor<400x400xf64>) -> tensor<400x400xf64>
    %11 = stablehlo.reduce(%10 init: %d) applies stablehlo.add across dimensions = [0, 1] : (tensor<400x400xf64>, tensor<f64>) -> tensor<f64>
    return %4, %11 : tensor<f32>, tensor<f64>
  }
})";

using Outcome = test::CliOutcome;

class Cli : public test::CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write("add.mlir", kAdd);
    write("endless.mlir", kEndless);
    write("hungry.mlir", kHungry);
    HostArrays in;
    in["arg0"] = HostArray::from<float>({1, 2, 3, 4});
    in["arg1"] = HostArray::from<float>({1, 1, 1, 1});
    in["other"] = HostArray::from<float>({5});
    save_npz(path("in.npz"), in);
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bytes;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder()), fs::directory_iterator()));
  }
  // The same of options that are wrong.
  void expect_misused(const std::string& arguments, const std::vector<std::string>& parts) const {
    expect_refused(arguments, parts);
    EXPECT_EQ(run(arguments).status, 2) << arguments;
  }
};

TEST_F(Cli, RunsAProgram) {
  Outcome o = run("run add.mlir --inputs in.npz --outputs out.npz --write again.mlir --trace trace.json");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(load_npz(path("out.npz")).at("out0").to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_GT(fs::file_size(path("again.mlir")), 0U);
  std::ifstream file(path("trace.json"));
  const auto rows = nlohmann::json::parse(file).at("traceEvents");
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows.front().at("args").at("name"), "device 0");
  EXPECT_EQ(rows.back().at("ph"), "X");
  EXPECT_GE(rows.back().at("args").at("bytes"), 16);
  EXPECT_EQ(files(), 7U);
}

TEST_F(Cli, LogsWhereTheEnvironmentSaysSo) {
  const std::string command = "run add.mlir --inputs in.npz --outputs out.npz";
  EXPECT_EQ(run(command).err, "");
  const Outcome told = run(command, "export TESSERA_LOG=debug");
  EXPECT_NE(told.err.find(" debug: "), std::string::npos) << told.err;
  EXPECT_NE(told.err.find(": compiled in "), std::string::npos) << told.err;
  EXPECT_EQ(run(command, "export TESSERA_LOG=warning").err, "");
  const Outcome wrong = run(command, "export TESSERA_LOG=loud");
  EXPECT_EQ(wrong.status, 0);
  EXPECT_EQ(wrong.err,
            "tessera: TESSERA_LOG = \"loud\"; expected debug, info, warning, error or off; nothing is logged\n");
}

TEST_F(Cli, OptionsAreReadStrictly) {
  for (const char* bad : {"1x", "-5", "\"\"", "1e3", "1.5G", "0", "99999999999999999999", "9999999999G", "G", "1GG"}) {
    std::string value = std::string(bad) == "\"\"" ? "" : bad;
    expect_misused(std::string("run add.mlir --inputs in.npz --max-memory=") + bad, {"--max-memory", value});
  }
  for (const char* bad : {"1x", "-5", "0", "1e99999", "nan", "inf", "1000000000000"}) {
    expect_misused(std::string("run add.mlir --inputs in.npz --time-limit=") + bad, {"--time-limit", bad});
  }
  for (const char* bad : {"1x", "-5", "0", "99999999999999999999", "100000000000"}) {
    expect_misused(std::string("run add.mlir --inputs in.npz --devices=") + bad, {"--devices", bad});
    expect_misused(std::string("bench psum_1024B --devices=") + bad, {"--devices", bad});
  }
  expect_misused("run add.mlir --inputs in.npz --time=-3", {"--time", "-3"});
  expect_misused("run add.mlir --what", {"--what"});
  expect_misused("bench --budget=1x", {"--budget", "1x"});
  expect_refused("bench nothing", {"nothing"});
  for (const char* bad :
       {"x", "x=", "=4", "x=4x", "x=-4", "x=0", "x=99999999999999999999", "x=4,", "x=65536,y=65536"}) {
    expect_misused(std::string("show-sharding '") + bad + "' x 8,8", {"mesh", bad});
  }
  for (const char* bad : {"8x-8", "a", "99999999999999999999", "8.5"}) {
    expect_misused(std::string("show-sharding x=2 x '") + bad + "'", {"shape", bad});
  }
  for (const char* bad : {"x)", "x;y", "P(x"}) expect_misused(std::string("show-sharding x=2 '") + bad + "' 8", {bad});
}

TEST_F(Cli, WhatIsNoCommandIsAnsweredByTheCommandsThereAre) {
  expect_misused("", {"tessera: no command", "run, plan, info", "--help"});
  expect_misused("frobnicate", {"tessera: \"frobnicate\" is no command", "run, plan, info", "--help"});
  EXPECT_EQ(run("--help").status, 0);
}

// The lines of errors are the program's, not those of the command's own sources.
TEST_F(Cli, ErrorsDoNotNameTheCommandsOwnLines) {
  for (const char* arguments : {"run none.mlir", "run add.mlir --inputs none.npz", "show-sharding x=2 z 8"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 1) << arguments;
    EXPECT_EQ(o.err.find("(at "), std::string::npos) << arguments << ": " << o.err;
  }
}

TEST_F(Cli, FilesThatAreNotThereOrNotFitAreNamed) {
  fs::create_directory(path("folder"));
  write("empty", "");
  expect_refused("run none.mlir", {"none.mlir"});
  expect_refused("run folder", {"folder"});
  expect_refused("run empty", {"empty"});
  expect_refused("run add.mlir", {"--inputs", "2 arguments"});
  for (const char* bad : {"none.npz", "folder", "empty", "add.mlir"}) {
    expect_refused(std::string("run add.mlir --inputs ") + bad, {bad});
  }
  for (const char* option : {"--outputs", "--write", "--trace"}) {
    for (const char* bad : {"folder", "none/out", "empty/out"}) {
      expect_refused(std::string("run add.mlir --inputs in.npz ") + option + " " + bad, {option, bad});
    }
    for (const char* bad : {"in.npz", "add.mlir", "./in.npz"}) {
      expect_refused(std::string("run add.mlir --inputs in.npz ") + option + " " + bad, {option, bad, "also the file"});
    }
    expect_refused(std::string("run add.mlir --inputs in.npz ") + option + " /dev/full", {"/dev/full", "No space"});
  }
  expect_refused("run add.mlir --inputs in.npz --outputs o --write o", {"--outputs", "\"o\"", "--write"});
  expect_refused("show-sharding x=2 x 8 --svg none/x.svg", {"--svg", "none/x.svg"});
  EXPECT_EQ(load_npz(path("in.npz")).size(), 3U);
  EXPECT_EQ(files(), 6U);
}

TEST_F(Cli, PlansAreShownWithoutInputsAndComparedAndWritten) {
  const std::string sharded = R"(module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{SPEC}]>}) -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";
  auto with = [&](const std::string& spec) {
    std::string text = sharded;
    return text.replace(text.find("{SPEC}"), 6, spec);
  };
  write("rows.mlir", with("{\"x\"}, {}"));
  write("whole.mlir", with("{}, {}"));
  HostArrays in;
  in["arg0"] = HostArray::from(std::vector<float>(32, 1), {8, 4});
  save_npz(path("rows.npz"), in);
  Outcome o = run("run rows.mlir --inputs rows.npz --trace trace.json");
  EXPECT_EQ(o.status, 0) << o.err;
  std::map<int, std::pair<int, int>> arrows;  // by number: from which device to which
  const auto trace = nlohmann::json::parse(base::read_file("test", path("trace.json")));
  for (const auto& row : trace.at("traceEvents")) {
    if (row.at("ph") == "s") arrows[row.at("id")].first = row.at("tid");
    if (row.at("ph") == "f") arrows[row.at("id")].second = row.at("tid");
  }
  EXPECT_EQ(arrows, (std::map<int, std::pair<int, int>>{{0, {0, 1}}, {1, {1, 2}}, {2, {2, 3}}, {3, {3, 0}}}));
  o = run("plan rows.mlir --html plan.html");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("all_reduce"), std::string::npos) << o.out;
  EXPECT_NE(base::read_file("test", path("plan.html")).find("argument 0"), std::string::npos);
  o = run("plan whole.mlir --compare rows.mlir --html change.html");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("change: -"), std::string::npos) << o.out;
  EXPECT_NE(base::read_file("test", path("change.html")).find("What has changed"), std::string::npos);
  EXPECT_NE(run("plan whole.mlir").out.find("no communication"), std::string::npos);
  expect_refused("plan none.mlir", {"none.mlir"});
  expect_refused("plan rows.mlir --compare none.mlir", {"none.mlir"});
  expect_refused("plan rows.mlir --html rows.mlir", {"--html", "rows.mlir"});
  expect_refused("plan rows.mlir --html none/plan.html", {"--html", "none/plan.html"});
  expect_refused("plan rows.mlir --max-memory none", {"--max-memory", "none"});
}

TEST_F(Cli, ShardingsAreDrawnInTheTerminalAndAsSvg) {
  Outcome o = run("show-sharding x=4,y=2 x,y 8,4 --svg s.svg");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("CPU 7"), std::string::npos) << o.out;
  EXPECT_EQ(o.out.find('\x1b'), std::string::npos) << "no colours where no terminal is";
  EXPECT_NE(base::read_file("test", path("s.svg")).find("[6:8, 2:4] on 7"), std::string::npos);
}

TEST_F(Cli, AMissingArgumentNamesWhatIsThere) {
  HostArrays in = load_npz(path("in.npz"));
  in.erase("arg1");
  save_npz(path("half.npz"), in);
  expect_refused("run add.mlir --inputs half.npz", {"--inputs", "half.npz", "\"arg1\"", "\"arg0\", \"other\""});
}

TEST_F(Cli, MembersThatAreNotUsedAreNotRead) {
  HostArrays in = load_npz(path("in.npz"));
  in["zz"] = HostArray(uint8, {50'000'000});
  save_npz(path("large.npz"), in);
  std::string bytes = base::read_file("test", path("large.npz"));
  bytes[bytes.rfind("NUMPY")] = 'n';  // of "zz", which is the last
  write("large.npz", bytes);
  EXPECT_EQ(run("run add.mlir --inputs large.npz --max-memory 20M").status, 0);
}

TEST_F(Cli, DamagedInputsNeverGiveOtherValues) {
  const std::string good = base::read_file("test", path("in.npz"));
  const std::size_t elements = good.find("NUMPY") + 127;  // of arg0, behind a header of 128 bytes
  std::mt19937 random(2);
  for (int i = 0; i < 40; ++i) {
    std::string bytes = good;
    std::size_t at = i % 2 == 0 ? elements + random() % 16 : random() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    write("in.npz", bytes);
    fs::remove(path("out.npz"));
    Outcome o = run("run add.mlir --inputs in.npz --outputs out.npz");
    EXPECT_TRUE(o.status == 0 || o.status == 1) << o.status << " " << o.signal;
    EXPECT_EQ(fs::exists(path("out.npz")), o.status == 0);
    if (o.status != 0) continue;
    EXPECT_EQ(load_npz(path("out.npz")).at("out0").to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
  }
}

TEST_F(Cli, OutputsFollowLinksKeepModesAndLeaveDevices) {
  write("real.npz", "old");
  fs::permissions(path("real.npz"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real.npz", path("link.npz"));
  fs::create_symlink("/dev/null", path("null"));
  write("link.npz.part", "the user's");
  EXPECT_EQ(run("run add.mlir --inputs in.npz --outputs link.npz").status, 0);
  EXPECT_TRUE(fs::is_symlink(path("link.npz")));
  EXPECT_EQ(fs::status(path("real.npz")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(load_npz(path("real.npz")).size(), 1U);
  EXPECT_EQ(base::read_file("test", path("link.npz.part")), "the user's");
  EXPECT_EQ(run("run add.mlir --inputs in.npz --outputs null --write /dev/null --trace /dev/null").status, 0);
  EXPECT_TRUE(fs::is_symlink(path("null")) && fs::is_character_file("/dev/null"));
  Outcome o = run("run add.mlir --inputs in.npz --outputs /dev/stdout");
  EXPECT_EQ(parse_npz(o.out).at("out0").to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
}

TEST_F(Cli, AnEndlessProgramEndsWithItsTime) {
  auto begin = std::chrono::steady_clock::now();
  expect_refused("run endless.mlir --time-limit 0.5 --outputs out.npz", {"--time-limit", "0.5"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(files(), 4U);
  EXPECT_EQ(run("run add.mlir --inputs in.npz --time-limit 300").status, 0);
}

TEST_F(Cli, SignalsLeaveNoFiles) {
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    pid_t child = ::fork();
    if (child == 0) {
      ::execl(std::getenv("TESSERA_CLI"), "tessera", "run", path("endless.mlir").c_str(), "--outputs",
              path("out.npz").c_str(), nullptr);
      ::_exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::kill(child, number);
    int code = 0;
    ::waitpid(child, &code, 0);
    EXPECT_TRUE(WIFSIGNALED(code) && WTERMSIG(code) == number) << number;
    EXPECT_EQ(files(), 4U);
  }
}

TEST_F(Cli, Version) {
  const std::string version = str(TESSERA_VERSION_MAJOR, ".", TESSERA_VERSION_MINOR, ".", TESSERA_VERSION_PATCH);
  EXPECT_EQ(TESSERA_VERSION, version);
  EXPECT_EQ(tessera::version(), version);
  EXPECT_EQ(run("--version").out, "tessera " + version + "\n");
}

TEST_F(Cli, StandardOutputThatTakesNothingIsAnError) {
  expect_refused("run add.mlir --inputs in.npz --graph >&-", {"standard output"});
  expect_refused("run add.mlir --inputs in.npz --graph >/dev/full", {"standard output"});
  expect_refused("--help >/dev/full", {"standard output"});
  // With every standard stream closed the first file that is opened would be one of them.
  Outcome o = run("run add.mlir --inputs in.npz --graph --outputs out.npz <&- >&- 2>&-");
  EXPECT_EQ(o.status, 1);
  EXPECT_EQ(load_npz(path("out.npz")).size(), 1U);
  // A reader that leaves: `tessera ... | true`.
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  o = run("run add.mlir --inputs in.npz --graph --outputs piped.npz >pipe", "head -c 1 <pipe >/dev/null & sleep 0.1");
  EXPECT_EQ(o.signal, 0);
  EXPECT_EQ(load_npz(path("piped.npz")).size(), 1U);
}

TEST_F(Cli, AFileBeyondTheShellsLimitIsAnError) {
  expect_refused("run hungry.mlir --write again.mlir", {"--write", "again.mlir", "File too large"}, "ulimit -f 1");
  EXPECT_EQ(files(), 4U);
}

TEST_F(Cli, MemoryIsBounded) {
  int refused = 0, done = 0;
  for (const char* bound :
       {"4K", "100K", "1M", "2M", "3M", "4M", "6M", "8M", "12M", "16M", "24M", "32M", "48M", "1G"}) {
    Outcome o = run(std::string("run hungry.mlir --outputs out.npz --max-memory ") + bound);
    EXPECT_EQ(o.signal, 0) << bound << ": " << o.err;
    EXPECT_TRUE(o.status == 0 || o.status == 1) << bound << ": " << o.status << o.err;
    (o.status == 0 ? done : refused)++;
    if (o.status == 1) {
      EXPECT_TRUE(o.err.find("memory") != std::string::npos || o.err.find("bytes") != std::string::npos) << o.err;
    }
    EXPECT_EQ(fs::remove(path("out.npz")), o.status == 0) << bound;
  }
  EXPECT_GE(refused, 6);
  EXPECT_GE(done, 1);
}

// Many values, each within the bound.
TEST_F(Cli, ConstantsCountTogether) {
  std::string text = "module @constants {\n  func.func public @main() -> tensor<f32> {\n";
  for (int i = 0; i < 40; ++i) {
    text += "    %t" + std::to_string(i) + " = stablehlo.constant dense<\"0x" + std::string(2'000'000, '4') +
            "\"> : tensor<250000xf32>\n";
  }
  text += "    %c = stablehlo.constant dense<0.0> : tensor<f32>\n    return %c : tensor<f32>\n  }\n}\n";
  write("constants.mlir", text);
  expect_refused("run constants.mlir --max-memory 90M", {"memory", "94371840"});
  EXPECT_EQ(run("run constants.mlir --max-memory 2G").status, 0);
}

// Sanitizers take more address space than any limit worth trying.
#if !defined(TESSERA_ADDRESS_SANITIZER) && !defined(TESSERA_THREAD_SANITIZER)
TEST_F(Cli, ALimitOfTheShellIsAMessage) {
  int refused = 0;
  // Between 400 and 650 MB some of the threads that multiply find room for OpenBLAS's buffer, others none.
  for (int kb :
       {120'000, 130'000, 140'000, 149'000, 150'000, 151'000, 152'000, 155'000, 160'000, 180'000, 200'000, 250'000,
        300'000, 400'000, 450'000, 475'000, 500'000, 525'000, 550'000, 575'000, 600'000, 650'000, 700'000}) {
    Outcome o = run("run hungry.mlir --time-limit 60", "ulimit -v " + std::to_string(kb));
    EXPECT_EQ(o.signal, 0) << kb << ": " << o.err;
    EXPECT_TRUE(o.status == 0 || o.status == 1 || o.status == 127) << kb << ": " << o.status << o.err;
    EXPECT_EQ(o.status == 0, o.err.empty()) << kb << ": " << o.err;
    EXPECT_EQ(o.err.find("time limit"), std::string::npos) << kb;
    refused += o.status == 0 ? 0 : 1;
  }
  EXPECT_GE(refused, 3);
}

// What the process really holds: the bound, and what the libraries take before anything runs.
TEST_F(Cli, TheBoundHoldsForTheProcess) {
  write("wide.mlir", R"(module @wide {
  func.func public @main() -> tensor<f32> {
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.iota dim = 0 : tensor<20000000xf32>
    %1 = stablehlo.sine %0 : tensor<20000000xf32>
    %2 = "stablehlo.sort"(%1) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }) {dimension = 0 : i64, is_stable = true} : (tensor<20000000xf32>) -> tensor<20000000xf32>
    %3 = stablehlo.reduce(%2 init: %c) applies stablehlo.maximum across dimensions = [0] : (tensor<20000000xf32>, tensor<f32>) -> tensor<f32>
    return %3 : tensor<f32>
  }
})");
  for (const char* bound : {"100M", "200M", "300M"}) {
    pid_t child = ::fork();
    if (child == 0) {
      ::execl(std::getenv("TESSERA_CLI"), "tessera", "run", path("wide.mlir").c_str(), "--max-memory", bound, nullptr);
      ::_exit(127);
    }
    int code = 0;
    rusage usage{};
    ::wait4(child, &code, 0, &usage);
    EXPECT_TRUE(WIFEXITED(code) && WEXITSTATUS(code) <= 1) << bound;
    EXPECT_LT(usage.ru_maxrss / 1024, std::atoi(bound) + 80) << bound;
  }
}
#endif

}  // namespace
}  // namespace tessera
