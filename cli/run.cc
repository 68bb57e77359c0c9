// SPDX-License-Identifier: Apache-2.0
// tessera run program.mlir --devices 8 --inputs inputs.npz --outputs out.npz
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "commands.h"
#include "tessera/comm_plan.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/io.h"
#include "tessera/stablehlo.h"

namespace tessera::cli {

namespace {
struct RunOptions {
  std::string program, inputs, outputs, trace, write;
  std::int64_t devices = 0;
  std::int64_t max_memory = 0;
  int time = 0;
  bool comm_plan = false, graph = false;
};

// "4G", "512M", "100K", or bytes.
std::int64_t bytes_of(const std::string& text) {
  char* end = nullptr;
  double n = std::strtod(text.c_str(), &end);
  std::int64_t unit = 1;
  switch (*end == '\0' ? '\0' : *end | 0x20) {
    case 'k':
      unit = 1 << 10;
      break;
    case 'm':
      unit = 1 << 20;
      break;
    case 'g':
      unit = 1 << 30;
      break;
    case '\0':
      break;
    default:
      unit = 0;
  }
  if (end == text.c_str() || unit == 0 || n < 0) {
    throw ValueError("--max-memory: \"" + text + "\"; expected bytes, as 1000000, 512M or 4G");
  }
  return static_cast<std::int64_t>(n * static_cast<double>(unit));
}

// Without a bound, that of the machine: a program's text is not trusted.
std::int64_t machine_memory() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGE_SIZE)};
}

// True where JAX takes the one for the other: NumPy's own numbers have 64 bits, programs mostly 32.
bool halved(DType from, DType to) {
  return (from == DType::I64 && to == DType::I32) || (from == DType::U64 && to == DType::U32) ||
         (from == DType::F64 && to == DType::F32) || (from == DType::C128 && to == DType::C64);
}

HostArray as_half(const HostArray& a, const StablehloProgram::Port& want, const std::string& name) {
  HostArray out = a.astype(want.dtype);
  if (is_integer(want.dtype)) {
    HostArray back = out.astype(a.dtype());
    if (a.nbytes() > 0 && std::memcmp(back.data(), a.data(), static_cast<std::size_t>(a.nbytes())) != 0) {
      throw ValueError(name + " has dtype " + std::string(dtype_name(a.dtype())) + " and numbers outside of " +
                       want.type);
    }
  }
  return out;
}

// The file's array as the program's dtype: dtypes that NumPy lacks come in wider ones.
HostArray as_argument(const HostArray& a, const StablehloProgram::Port& want, const std::string& name) {
  if (!want.narrow && halved(a.dtype(), want.dtype)) return as_half(a, want, name);
  bool from_wider = (want.dtype == DType::BF16 || want.narrow) &&
                    (a.dtype() == DType::F32 || a.dtype() == DType::I8 || a.dtype() == DType::U8);
  if (a.dtype() == want.dtype || !from_wider) return a;
  if (is_float(want.dtype) != is_float(a.dtype())) {
    throw TypeError(name + " has dtype " + std::string(dtype_name(a.dtype())) + "; expected " + want.type);
  }
  return a.astype(want.dtype);
}

std::vector<HostArray> arguments(const RunOptions& o, const StablehloProgram& program) {
  HostArrays given;
  if (!o.inputs.empty()) given = load_npz(o.inputs);
  std::vector<HostArray> args;
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    std::string name = "arg" + std::to_string(i);
    auto it = given.find(name);
    if (it == given.end()) {
      throw ValueError((o.inputs.empty() ? "no --inputs" : "\"" + o.inputs + "\" has no " + name) + ": @main takes " +
                       std::to_string(program.inputs().size()) + " arguments, " + name + " is " +
                       program.inputs()[i].type);
    }
    args.push_back(as_argument(it->second, program.inputs()[i], name));
  }
  return args;
}

void report_times(const StablehloProgram& program, const std::vector<Array>& args, int times) {
  double best = 0, total = 0;
  for (int i = 0; i < times; ++i) {
    auto begin = std::chrono::steady_clock::now();
    for (const auto& a : program(args)) a.block_until_ready();
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    best = i == 0 || ms < best ? ms : best;
    total += ms;
  }
  std::printf("%d runs: best %.3f ms, mean %.3f ms\n", times, best, total / times);
}

void run(const RunOptions& o) {
  if (!o.trace.empty()) ::setenv("TESSERA_TRACE", o.trace.c_str(), 1);  // before the engine looks
  StablehloProgram program = StablehloProgram::load(o.program, {.max_memory = o.max_memory});
  if (!o.write.empty()) std::ofstream(o.write, std::ios::binary) << program.as_text();
  if (o.graph) std::printf("%s\n", program.text().c_str());
  Client client =
      Client::cpu({.devices = o.devices > 0 ? o.devices : program.num_devices(), .memory_limit = o.max_memory});
  ClientScope scope(client);
  std::vector<Array> args = program.place(arguments(o, program));
  if (o.comm_plan) std::printf("%s\n", to_string(program.comm_plan(args)).c_str());
  HostArrays results;
  std::size_t n = 0;
  for (const auto& a : program(args)) {
    HostArray h = a.host();
    results["out" + std::to_string(n++)] = h.dtype() == DType::BF16 ? h.astype(DType::F32) : h;
  }
  if (!o.outputs.empty()) save_npz(o.outputs, results);
  if (o.time > 0) report_times(program, args, o.time);
}
}  // namespace

void add_run(CLI::App& app) {
  auto o = std::make_shared<RunOptions>();
  auto memory = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("run", "Run a StableHLO program");
  command->add_option("program", o->program, "The program's text (.mlir)")->required();
  command->add_option("--devices", o->devices, "Virtual devices; default: as many as the program is for");
  command->add_option(
      "--inputs", o->inputs,
      ".npz with arg0, arg1, ...: the global arguments of @main; 64-bit numbers are taken for 32-bit ones");
  command->add_option("--outputs", o->outputs, ".npz to write: out0, out1, ...");
  command->add_option("--max-memory", *memory,
                      "Refuse programs that ask for more, as 512M or 4G; default: the machine's memory");
  command->add_option("--time", o->time, "Run that many times more and report milliseconds");
  command->add_option("--trace", o->trace, "Write a trace for Perfetto");
  command->add_option("--write", o->write, "Write the program as StableHLO again");
  command->add_flag("--comm-plan", o->comm_plan, "Print what is sent between devices");
  command->add_flag("--graph", o->graph, "Print the program as Tessera's graph");
  command->callback([o, memory] {
    o->max_memory = memory->empty() ? machine_memory() : bytes_of(*memory);
    run(*o);
  });
}

}  // namespace tessera::cli
