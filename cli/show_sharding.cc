// SPDX-License-Identifier: Apache-2.0
// tessera show-sharding 'x=4,y=2' 'P(x, y)' '8x16' [--svg file.svg]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "commands.h"
#include "terminal.h"
#include "tessera/device.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/pictures.h"
#include "tessera/sharding.h"
#include "tessera/visualize.h"
#include "values.h"

namespace tessera::cli {

namespace {
struct Options {
  std::string mesh, spec, shape, svg;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "x=4,y=2"
Mesh mesh_of(const std::string& text, Client& client) {
  constexpr std::int64_t kMost = 65536;
  std::vector<std::string> names;
  Shape sizes;
  for (auto& [name, size] : mesh_value("mesh", text, kMost)) {
    names.push_back(name);
    sizes.push_back(size);
  }
  client = Client::cpu({.devices = size_of(sizes)});
  auto devices = client.devices();
  return Mesh(DeviceArray({devices.begin(), devices.end()}, sizes), names);
}

// "P(x, None, (y, z))", "x,-,y+z"
PartitionSpec spec_of(const std::string& text) {
  std::string t = text;
  if (t.rfind("P(", 0) == 0 && t.back() == ')') t = t.substr(2, t.size() - 3);
  std::vector<SpecEntry> entries;
  std::vector<AxisRef> axes;
  bool any = false;
  int depth = 0;
  auto fail = [&] {
    throw OptionError("spec: \"" + text + "\"; expected axes of each dimension, as P(x, None, (y, z)) or x,-,y+z");
  };
  auto close = [&] {
    if (axes.empty()) {
      entries.emplace_back(none);
    } else {
      entries.emplace_back(axes);
    }
    axes.clear();
  };
  for (std::size_t i = 0; i < t.size();) {
    char c = t[i];
    if (is_word(c)) {
      std::size_t end = i;
      while (end < t.size() && is_word(t[end])) ++end;
      std::string word = t.substr(i, end - i);
      if (word != "None" && word != "none") axes.emplace_back(word);
      i = end;
      any = true;
      continue;
    }
    if (c == '(' || c == '{') ++depth;
    if (c == ')' || c == '}') --depth;
    if (depth < 0 || std::string_view("(){},-+ ").find(c) == std::string_view::npos) fail();
    if (c == '-') any = true;
    if (c == ',' && depth == 0) close();
    ++i;
  }
  if (depth != 0) fail();
  if (any) close();
  return PartitionSpec(entries);
}

// As many cells as the terminal has room for.
std::string drawing(const NamedSharding& sharding, const Shape& shape) {
  constexpr std::size_t kWithoutTerminal = 120;
  constexpr std::int64_t kMostCells = 64, kFewestCells = 3;
  const std::size_t room = terminal_width(kWithoutTerminal);
  for (std::int64_t cells = kMostCells;; cells = std::max(kFewestCells, cells * 3 / 4)) {
    std::string text = visualize_array_sharding(sharding.share(), shape, {.max_cells = cells});
    if (width_of(text) <= room || cells == kFewestCells) return text;
  }
}

void show(const Options& o) {
  check_paths({{"--svg", o.svg, true}});
  Client client;
  Mesh mesh = mesh_of(o.mesh, client);
  Shape shape = extents_value("shape", o.shape);
  NamedSharding sharding(mesh, spec_of(o.spec));
  if (shape.size() == 1 || shape.size() == 2) {
    const std::string text = drawing(sharding, shape);
    std::printf("%s", (shows_colours() ? coloured(text) : text).c_str());
  } else {
    for (const auto& e : sharding.devices_indices_map(shape)) {
      std::printf("%s: %s\n", to_string(e.device).c_str(), to_string(e.index).c_str());
    }
  }
  std::printf("%s: each device holds %s of %s\n", sharding.text().c_str(),
              to_string(sharding.shard_shape(shape)).c_str(), to_string(shape).c_str());
  if (!o.svg.empty()) base::write_file("--svg", o.svg, sharding_svg(sharding.share(), shape));
}
}  // namespace

void add_show_sharding(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("show-sharding", "Draw which device holds which shard");
  command->add_option("mesh", o->mesh, "Axes and sizes: x=4,y=2")->required();
  command->add_option("spec", o->spec, "Axes of each dimension: P(x, None, (y, z))")->required();
  command->add_option("shape", o->shape, "Extents: 8x16")->required();
  command->add_option("--svg", o->svg, "Write the drawing as SVG, too");
  command->callback([o] { show(*o); });
}

}  // namespace tessera::cli
