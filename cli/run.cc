// SPDX-License-Identifier: Apache-2.0
// tessera run program.mlir --devices 8 --inputs inputs.npz --outputs out.npz
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/machine.h"
#include "base/strings.h"
#include "commands.h"
#include "guard.h"
#include "memory.h"
#include "runtime/write_trace.h"
#include "tessera/comm_plan.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/io.h"
#include "tessera/stablehlo.h"
#include "values.h"

namespace tessera::cli {

namespace {
struct RunOptions {
  std::string program, inputs, outputs, trace, write;
  std::optional<std::string> max_memory_text, time_limit;
  std::int64_t devices = 0;  // as many as the program is for
  std::int64_t max_memory = 0;
  int time = 0;
  bool comm_plan = false, graph = false;
};

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

// The members that the program takes; others are not read.
HostArrays load_inputs(const std::string& path, const std::vector<std::string>& names) {
  try {
    return load_npz(path, names);
  } catch (const FormatError&) {
    throw;
  } catch (const ValueError& e) {
    throw ValueError(str("--inputs: ", e.what(), "; @main takes ", names.size(), " arguments"));
  }
}

std::vector<HostArray> arguments(const RunOptions& o, const StablehloProgram& program) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < program.inputs().size(); ++i) names.push_back(str("arg", i));
  if (o.inputs.empty() && !names.empty()) {
    throw ValueError(str("--inputs: none given; expected a .npz, for @main takes ", names.size(),
                         " arguments, and arg0 is ", program.inputs()[0].type));
  }
  std::vector<HostArray> args;
  if (o.inputs.empty()) return args;
  HostArrays given = load_inputs(o.inputs, names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    args.push_back(as_argument(given.at(names[i]), program.inputs()[i], names[i]));
    given.erase(names[i]);
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
  bound_memory(o.max_memory);
  check_paths({{"the program", o.program},
               {"--inputs", o.inputs},
               {"--outputs", o.outputs, true},
               {"--write", o.write, true},
               {"--trace", o.trace, true}});
  if (!o.trace.empty()) ::setenv("TESSERA_TRACE", o.trace.c_str(), 1);  // before the engine looks
  StablehloProgram program = StablehloProgram::load(o.program, {.max_memory = o.max_memory});
  if (!o.write.empty()) base::write_file("--write", o.write, program.as_text());
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
  std::fflush(stdout);  // in case the results go there, too
  if (!o.outputs.empty()) save_npz(o.outputs, results);
  if (o.time > 0) report_times(program, args, o.time);
  if (!o.trace.empty()) runtime::write_trace();
}
}  // namespace

void add_run(CLI::App& app) {
  auto o = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a StableHLO program");
  command
      ->add_option("program", o->program,
                   "The program: StableHLO's text (.mlir), a portable artifact (.mlirbc), or a file of jax.export")
      ->required();
  command->add_option("--devices", o->devices, "Virtual devices; default: as many as the program is for")
      ->check(CLI::Range(std::int64_t{1}, kMostDevices));
  command->add_option("--inputs", o->inputs,
                      ".npz with arg0, arg1, ...: the global arguments of @main; 64-bit numbers are taken for 32-bit "
                      "ones, other members are not read");
  command->add_option("--outputs", o->outputs, ".npz to write: out0, out1, ...");
  command->add_option("--max-memory", o->max_memory_text,
                      "Bytes that the run may hold, as 512M or 4G; default: the machine's memory");
  command->add_option("--time-limit", o->time_limit, "End with an error after so many seconds");
  command->add_option("--time", o->time, "Run that many times more and report milliseconds")
      ->check(CLI::Range(0, 1'000'000'000));
  command->add_option("--trace", o->trace, "Write a trace for Perfetto");
  command->add_option("--write", o->write, "Write the program as StableHLO again");
  command->add_flag("--comm-plan", o->comm_plan, "Print what is sent between devices");
  command->add_flag("--graph", o->graph, "Print the program as Tessera's graph");
  command->callback([o] {
    if (o->time_limit) limit_time(seconds_value("--time-limit", *o->time_limit));
    o->max_memory = o->max_memory_text ? bytes_value("--max-memory", *o->max_memory_text) : base::machine_memory();
    run(*o);
  });
}

}  // namespace tessera::cli
