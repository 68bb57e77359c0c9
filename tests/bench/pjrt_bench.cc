// SPDX-License-Identifier: Apache-2.0
// What a jitted call on one device of a PJRT plugin adds to the plugin's own execute call: both for the same program
// and the same two arguments, in turns. Prints the medians and the best of the rounds, in microseconds. `make
// bench-xla` runs it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "engines/pjrt/pjrt_engine.h"
#include "tessera/tessera.h"

namespace ts = tessera;
namespace engine = tessera::pjrt_engine;

namespace {

// Short rounds: on a busy machine some are not interrupted.
constexpr int kRounds = 1001;
constexpr int kCalls = 100;

template <class F>
double microseconds(const F& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kCalls;
}

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + kRounds / 2);
  return times[kRounds / 2];
}

// The plugin alone: a client, a program and arguments of its own.
class Bare {
 public:
  Bare(const std::string& plugin, std::string text)
      : client_(engine::open_client({.plugin = plugin, .alone = true})), api_(client_->api()) {
    auto program = engine::sized<PJRT_Program>();
    program.code = text.data();
    program.code_size = text.size();
    program.format = "mlir";
    program.format_size = 4;
    const std::string options = engine::compile_options({client_->described()[0].id}, client_->platform());
    auto compile = engine::sized<PJRT_Client_Compile_Args>();
    compile.client = client_->handle();
    compile.program = &program;
    compile.compile_options = options.data();
    compile.compile_options_size = options.size();
    PJRT_CALL(api_, PJRT_Client_Compile, compile, "compile");
    executable_ = compile.executable;
    for (auto& to : arguments_) to = buffer();
  }

  // Its result is destroyed, as that of a call whose array nobody keeps.
  void call() const {
    auto options = engine::sized<PJRT_ExecuteOptions>();
    std::array<PJRT_Buffer*, 1> results{};
    PJRT_Buffer* const* in = arguments_.data();
    PJRT_Buffer** out = results.data();
    auto run = engine::sized<PJRT_LoadedExecutable_Execute_Args>();
    run.executable = executable_;
    run.options = &options;
    run.argument_lists = &in;
    run.num_devices = 1;
    run.num_args = arguments_.size();
    run.output_lists = &out;
    PJRT_CALL(api_, PJRT_LoadedExecutable_Execute, run, "run");
    auto end = engine::sized<PJRT_Buffer_Destroy_Args>();
    end.buffer = results[0];
    PJRT_CALL(api_, PJRT_Buffer_Destroy, end, "free");
  }

 private:
  PJRT_Buffer* buffer() const {
    static const std::array<float, 16> kZeros{};
    static const std::int64_t kShape = kZeros.size();
    auto from = engine::sized<PJRT_Client_BufferFromHostBuffer_Args>();
    from.client = client_->handle();
    from.data = kZeros.data();
    from.type = PJRT_Buffer_Type_F32;
    from.dims = &kShape;
    from.num_dims = 1;
    from.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    from.device = client_->device(0);
    PJRT_CALL(api_, PJRT_Client_BufferFromHostBuffer, from, "copy an argument");
    api_.event(from.done_with_host_buffer, "copy an argument")->wait();
    return from.buffer;
  }

  engine::PluginClientPtr client_;
  const engine::Api& api_;
  PJRT_LoadedExecutable* executable_ = nullptr;
  std::array<PJRT_Buffer*, 2> arguments_{};
};

int measure(const std::string& plugin) {
  ts::ClientScope scope(ts::Client::pjrt({.plugin = plugin, .alone = true}));
  auto f = ts::jit([](const ts::Array& x, const ts::Array& y) { return x + y; });
  const ts::Array x = ts::device_put(ts::zeros({16})), y = ts::device_put(ts::zeros({16}));
  const Bare bare(plugin, f.lower(x, y).as_text());
  f(x, y).block_until_ready();
  std::vector<double> ours, plain;
  for (int round = 0; round < kRounds; ++round) {
    ours.push_back(microseconds([&] { f(x, y); }));
    plain.push_back(microseconds([&] { bare.call(); }));
  }
  auto print = [](const char* which, double call, double execute) {
    std::printf(
        "two arguments, one device, %s: a jitted call %.2f us, the plugin's execute call %.2f us, %.2f us more\n",
        which, call, execute, call - execute);
  };
  print("median", median(ours), median(plain));
  print("best", std::ranges::min(ours), std::ranges::min(plain));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2) return measure(argv[1]);
    std::fprintf(stderr, "usage: pjrt_bench PLUGIN\n");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "pjrt_bench: %s\n", e.what());
  }
  return EXIT_FAILURE;
}
