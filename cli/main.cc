// SPDX-License-Identifier: Apache-2.0
// The `tessera` command.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "commands.h"
#include "tessera/error.h"

int main(int argc, char** argv) {
  CLI::App app{"Tessera: sharded arrays on many devices"};
  app.require_subcommand(1);
  tessera::cli::add_run(app);
  tessera::cli::add_info(app);
  tessera::cli::add_bench(app);
  tessera::cli::add_show_sharding(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const tessera::Error& e) {
    std::fprintf(stderr, "tessera: %s\n", e.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "tessera: out of memory\n");
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tessera: %s\n", e.what());
    return 1;
  }
  return 0;
}
