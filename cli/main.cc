// SPDX-License-Identifier: Apache-2.0
// The `tessera` command.
#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "commands.h"
#include "guard.h"
#include "memory.h"
#include "tessera/version.h"
#include "values.h"

namespace {
// OpenBLAS starts its threads while it is loaded, and they look for work for some 30 ms, beside the first results. The
// engine calls it from threads of its own, with one thread each.
void end_library_threads() {
  auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  auto end = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "blas_thread_shutdown_"));
  if (!set || !end) return;
  set(1);
  end();
}

// What is wrong with the arguments; where the command is missing or unknown, which ones there are.
std::string usage_error(const CLI::App* app, const CLI::Error& e) {
  std::string text = std::string("tessera: ") + e.what();
  if (app->get_subcommands().empty()) {
    const std::vector<std::string> rest = app->remaining();
    text = rest.empty() ? "tessera: no command" : "tessera: \"" + rest.front() + "\" is no command";
    text += "; expected one of";
    const char* before = " ";
    for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
      text += before + command->get_name();
      before = ", ";
    }
  }
  return text + "\nRun with --help for more information.\n";
}

// 0; 1 where a command fails; 2 where the arguments are none; a launched program's own.
int run_command(int argc, char** argv) {
  CLI::App app{"Tessera: sharded arrays on many devices"};
  app.set_version_flag("--version", std::string("tessera ") + tessera::version());
  app.require_subcommand(1);
  app.failure_message(usage_error);
  tessera::cli::add_run(app);
  tessera::cli::add_plan(app);
  tessera::cli::add_info(app);
  tessera::cli::add_bench(app);
  tessera::cli::add_calibrate(app);
  tessera::cli::add_launch(app);
  tessera::cli::add_shard(app);
  tessera::cli::add_show_sharding(app);
  tessera::cli::add_simulate(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RuntimeError& e) {
    return e.get_exit_code();
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const tessera::cli::OptionError& e) {
    std::fprintf(stderr, "tessera: %s\n", e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "tessera: %s\n", tessera::cli::out_of_memory_message().c_str());
    return 1;
  } catch (const std::system_error& e) {
    std::fprintf(stderr, "tessera: the system gives no more threads or locks: %s\n", e.what());
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tessera: %s\n", e.what());
    return 1;
  }
  return 0;
}
}  // namespace

int main(int argc, char** argv) {
  tessera::cli::guard_process();
  end_library_threads();
  int status = run_command(argc, argv);
  if (!tessera::cli::output_complete()) {
    std::fprintf(stderr, "tessera: standard output cannot be written to: it is closed, or its disk is full\n");
    if (status == 0) status = 1;
  }
  return status;
}
