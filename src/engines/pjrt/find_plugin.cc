// SPDX-License-Identifier: Apache-2.0
// Plugins that are installed as Python packages lie in the folder `jax_plugins` of a path where Python finds modules.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/strings.h"
#include "engines/pjrt/api.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

namespace fs = std::filesystem;

void add_site_packages(std::vector<fs::path>& out, const fs::path& prefix) {
  std::error_code none;
  for (const char* lib : {"lib", "lib64", "local/lib"}) {
    for (const auto& entry : fs::directory_iterator(prefix / lib, none)) {
      if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
      for (const char* packages : {"site-packages", "dist-packages"}) out.push_back(entry.path() / packages);
    }
  }
}

// Where packages are: PYTHONPATH, the virtual environment, the user's own, the system's.
std::vector<fs::path> package_folders() {
  std::vector<fs::path> out;
  if (const char* path = std::getenv("PYTHONPATH")) {
    std::istringstream list(path);
    for (std::string folder; std::getline(list, folder, ':');) {
      if (!folder.empty()) out.emplace_back(folder);
    }
  }
  if (const char* environment = std::getenv("VIRTUAL_ENV")) add_site_packages(out, environment);
  if (const char* home = std::getenv("HOME")) add_site_packages(out, fs::path(home) / ".local");
  add_site_packages(out, "/usr/local");
  add_site_packages(out, "/usr");
  return out;
}

bool is_plugin(const fs::path& file) {
  const std::string name = file.filename().string();
  return file.extension() == ".so" && (name.find("pjrt") != std::string::npos ||
                                       name.find("plugin") != std::string::npos || name.rfind("libtpu", 0) == 0);
}

}  // namespace

std::string plugin_path(const std::string& plugin) {
  if (plugin.empty()) {
    throw ValueError(
        "Client::pjrt: plugin = \"\"; expected the path of a PJRT plugin, or the name of an installed one");
  }
  if (plugin.find('/') != std::string::npos) return plugin;
  std::error_code none;
  // The loader looks for bare names in the system's folders alone.
  if (fs::path(plugin).extension() == ".so") return fs::exists(plugin, none) ? "./" + plugin : plugin;
  std::vector<std::string> looked;
  for (const auto& folder : package_folders()) {
    std::vector<fs::path> found;
    for (const auto& package : fs::directory_iterator(folder / "jax_plugins", none)) {
      if (package.path().filename().string().find(plugin) == std::string::npos) continue;
      for (const auto& file : fs::directory_iterator(package.path(), none)) {
        if (is_plugin(file.path())) found.push_back(file.path());
      }
    }
    if (plugin == "tpu" && fs::exists(folder / "libtpu" / "libtpu.so", none))
      found.push_back(folder / "libtpu" / "libtpu.so");
    // Of several versions the newest: cuda13 after cuda12.
    if (!found.empty()) return std::ranges::max(found).string();
    looked.push_back(folder.string());
  }
  throw StateError(str("Client::pjrt: no plugin named \"", plugin, "\" is installed; looked into jax_plugins of ",
                       looked.empty() ? std::string("no folder") : join(looked), "; give its path"));
}

}  // namespace tessera::pjrt_engine
