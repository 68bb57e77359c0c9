// SPDX-License-Identifier: Apache-2.0
#include "engines/mpi/load_module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/strings.h"
#include "tessera/error.h"

// The build says where the library will be installed.
#ifndef TESSERA_PREFIX
#define TESSERA_PREFIX "/usr/local"
#endif
#ifndef TESSERA_MODULE_DIR
#define TESSERA_MODULE_DIR "lib/tessera"
#endif

namespace tessera::mpi {

namespace {

namespace fs = std::filesystem;

struct Implementation {
  const char* name;
  const char* title;
  std::vector<const char*> marks;  // variables that its mpirun sets for every process
  const char* start;
  const char* package;
};
const std::vector<Implementation>& implementations() {
  static const auto* list = new std::vector<Implementation>{
      {"openmpi", "Open MPI", {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK"}, "mpirun.openmpi", "openmpi-bin"},
      {"mpich", "MPICH", {"PMI_SIZE", "PMI_RANK"}, "mpirun.mpich", "mpich"},
  };
  return *list;
}

// Whose mpirun has started this process; null for none.
const Implementation* starter() {
  for (const auto& i : implementations()) {
    for (const char* mark : i.marks) {
      if (std::getenv(mark) != nullptr) return &i;
    }
  }
  return nullptr;
}

const Implementation& wanted(const std::string& name) {
  const Implementation* started = starter();
  if (name.empty()) {
    if (started != nullptr) return *started;
    throw StateError(
        "Client::mpi: the program was not started by mpirun (its environment has neither OMPI_COMM_WORLD_SIZE nor "
        "PMI_SIZE); start it by \"mpirun.openmpi -n 4 program\" or \"mpirun.mpich -n 4 program\", or give "
        "implementation = \"openmpi\" or \"mpich\" to run it as one process");
  }
  for (const auto& i : implementations()) {
    if (i.name != name) continue;
    if (started != nullptr && started != &i) {
      throw StateError(str("Client::mpi: implementation = \"", name, "\", but ", started->title,
                           "'s mpirun has started the program; start it by ", i.start,
                           ", or leave implementation out"));
    }
    return i;
  }
  throw ValueError(str("Client::mpi: implementation = \"", name, "\"; expected \"openmpi\" or \"mpich\""));
}

// Where the module may be: beside the program as it is built or installed, beside the shared library, and where the
// library was installed.
std::vector<fs::path> candidates(const MpiOptions& options, const Implementation& i) {
  if (!options.module.empty()) return {options.module};
  if (const char* path = std::getenv("TESSERA_MPI_MODULE"); path != nullptr && *path != '\0') return {path};
  const std::string file = str("tessera_mpi_", i.name, ".so");
  std::vector<fs::path> out;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  if (!none) {
    const fs::path above = program.parent_path().parent_path();
    out.push_back(above / "modules" / file);
    out.push_back(program.parent_path() / file);
    out.push_back(above / TESSERA_MODULE_DIR / file);
  }
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&implementations), &own) != 0 && own.dli_fname != nullptr) {
    out.push_back(fs::path(own.dli_fname).parent_path() / "tessera" / file);
  }
  // A package's prefix is not that of its build.
  for (const char* prefix : {TESSERA_PREFIX, "/usr"}) out.push_back(fs::path(prefix) / TESSERA_MODULE_DIR / file);
  return out;
}

const tessera_mpi_module& loaded(const fs::path& path, const Implementation& i) {
  // Global: Open MPI loads parts of itself later, which look for its symbols in the program.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw StateError(str("Client::mpi: ", path.string(), " cannot be loaded: ", why ? why : "unknown error", "; is ",
                         i.title, " installed (Debian's package ", i.package, ")?"));
  }
  const auto* module = static_cast<const tessera_mpi_module*>(dlsym(library, TESSERA_MPI_MODULE_SYMBOL));
  if (module == nullptr || module->version != TESSERA_MPI_MODULE_VERSION) {
    throw StateError(str("Client::mpi: ", path.string(), " is ",
                         module == nullptr ? std::string("no module of the MPI transport")
                                           : str("of version ", module->version, " of the MPI transport"),
                         "; expected version ", TESSERA_MPI_MODULE_VERSION, ": build it with this library"));
  }
  if (std::string_view(module->implementation) != i.name) {
    throw StateError(str("Client::mpi: ", path.string(), " was built for ", module->built_for,
                         ", but the program runs ", "under ", i.title,
                         "; give the module of that one, or start the program by its own mpirun"));
  }
  return *module;
}

}  // namespace

const tessera_mpi_module& load_module(const MpiOptions& options) {
  const Implementation& i = wanted(options.implementation);
  std::string tried;
  for (const auto& path : candidates(options, i)) {
    std::error_code none;
    if (fs::exists(path, none)) return loaded(path, i);
    tried += str(tried.empty() ? "" : ", ", path.string());
  }
  throw StateError(str("Client::mpi: the module of the transport for ", i.title, " is not there (looked for ", tried,
                       "); build the library where ", i.title,
                       " is installed (tools/setup.sh --mpi), or name the module by MpiOptions::module or "
                       "TESSERA_MPI_MODULE"));
}

int started_processes() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return 0;
}

}  // namespace tessera::mpi
