// SPDX-License-Identifier: Apache-2.0
// What stands around the operations: meshes, devices, arguments and results of @main.
#include <algorithm>
#include <set>

#include "base/strings.h"
#include "hlo/bytecode/bytecode.h"
#include "hlo/import/check_shardings.h"
#include "hlo/import/import.h"
#include "hlo/sharding/hlo_sharding.h"
#include "hlo/sharding/sdy.h"
#include "hlo/sharding/shard_marks.h"
#include "hlo/text/parse.h"
#include "ir/pass.h"
#include "sharding/mesh_tiling.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
constexpr std::size_t kMaxMeshes = 1024;
}  // namespace

void Importer::meshes() {
  for (const auto& op : ast_.others) {
    if (op.name != "sdy.mesh") source_.fail(op.pos, str("\"", op.name.substr(0, 60), "\" cannot stand in a module"));
    if (result_.meshes.size() == kMaxMeshes) source_.fail(op.pos, str("more than ", kMaxMeshes, " meshes"));
    ir::NamedMesh m = parse_mesh(source_, op);
    if (mesh(m.name) != nullptr) source_.fail(op.pos, str("mesh @", m.name, " is defined twice"));
    result_.meshes.push_back(std::move(m));
  }
}

namespace {
// Calls `f` with every manual computation.
template <class F>
void each_manual(const std::vector<AstOp>& ops, const F& f) {
  for (const auto& op : ops) {
    if (op.name == "sdy.manual_computation") f(op);
    for (const auto& r : op.regions) each_manual(r.ops, f);
  }
}
}  // namespace

// The parts of axes that manual computations name, and how many devices these need where the module does not say it.
void Importer::find_devices() {
  if (source_.text().find("sdy.manual_computation") == std::string_view::npos) return;
  std::map<std::string, std::vector<ir::SubAxis>> named;
  auto see = [&](const AstOp& op) {
    for (const char* which : {"in_shardings", "out_shardings"}) {
      const AstAttr* a = op.find(which);
      if (a == nullptr) continue;
      for (const auto& s : parse_shardings(source_, *a)) {
        auto& list = named[s.mesh];
        for (const auto& d : s.dims) list.insert(list.end(), d.axes.begin(), d.axes.end());
        list.insert(list.end(), s.unreduced.begin(), s.unreduced.end());
      }
    }
  };
  for (const auto& f : ast_.functions) each_manual(f.body.ops, see);
  bool says = ast_.attrs.find("mhlo.num_partitions") != nullptr || result_.num_replicas != 1;
  for (const auto& m : result_.meshes) {
    auto it = named.find(m.name);
    if (it == named.end()) continue;
    try {
      cuts_[m.name] = ir::cut_mesh(m, it->second);
    } catch (const ValueError& e) {
      source_.fail(0, e.what());
    }
    if (!says) result_.num_partitions = std::max(result_.num_partitions, m.size());
  }
}

namespace {
// Calls `f` with the HLO sharding of every mark.
template <class F>
void each_mark(const std::vector<AstOp>& ops, const F& f) {
  for (const auto& op : ops) {
    std::string target = custom_call_target(op);
    if (target == "Sharding" || target.starts_with("SPMD")) {
      if (const AstAttr* a = op.find("mhlo.sharding")) f(a->text);
    }
    for (const auto& r : op.regions) each_mark(r.ops, f);
  }
}
}  // namespace

void Importer::find_tile_mesh() {
  std::set<std::string> texts;
  for (const auto& f : ast_.functions) each_mark(f.body.ops, [&](const std::string& text) { texts.insert(text); });
  for (const auto* ports : {&result_.inputs, &result_.outputs}) {
    for (const auto& p : *ports) texts.insert(p.tiles);
  }
  std::vector<GridTiles> all;
  for (const auto& text : texts) {
    if (text.empty()) continue;
    if (auto tiles = grid_tiles(text, devices())) all.push_back(std::move(*tiles));
  }
  auto grid = grid_of(all, devices());
  if (!grid || !nests(*grid)) return;
  ir::NamedMesh m;
  m.name = "grid";
  while (mesh(m.name) != nullptr) m.name += "_";
  m.sizes = *grid;
  for (std::size_t a = 0; a < grid->size(); ++a) m.axes.push_back(str("d", a));
  tile_mesh_ = std::move(m);
  bool used = false;
  for (std::size_t i = 0; i < in_shapes_.size(); ++i) used = place_on_grid(result_.inputs[i], in_shapes_[i]) || used;
  for (std::size_t i = 0; i < out_shapes_.size(); ++i) used = place_on_grid(result_.outputs[i], out_shapes_[i]) || used;
  if (used) result_.meshes.push_back(*tile_mesh_);
}

// An HLO sharding of an argument or result said in Shardy's way, where it cuts the value evenly.
bool Importer::place_on_grid(ir::Port& p, const Shape& shape) const {
  auto tiles = p.tiles.empty() || p.sharding ? std::nullopt : grid_tiles(p.tiles, devices());
  if (!tiles || !tiles->manual.empty()) return false;
  if (tiles->dims.empty()) tiles->dims.resize(shape.size());
  if (tiles->dims.size() != shape.size()) return false;
  ir::AxisSharding s;
  s.mesh = tile_mesh_->name;
  for (std::size_t d = 0; d < tiles->dims.size(); ++d) {
    ir::DimSharding& dim = s.dims.emplace_back();
    std::int64_t n = 1;
    for (auto a : axes_of(tiles->dims[d], tile_mesh_->sizes)) {
      dim.axes.push_back({tile_mesh_->axes[static_cast<std::size_t>(a)], 1, 0});
      n *= tile_mesh_->sizes[static_cast<std::size_t>(a)];
    }
    if (shape[d] % n != 0) return false;
  }
  for (auto a : axes_of(tiles->unreduced, tile_mesh_->sizes)) {
    s.unreduced.push_back({tile_mesh_->axes[static_cast<std::size_t>(a)], 1, 0});
  }
  p.sharding = std::move(s);
  p.tiles.clear();
  return true;
}

const ir::CutMesh* Importer::cut(const ir::NamedMesh& mesh) {
  auto it = cuts_.find(mesh.name);
  return it == cuts_.end() || !it->second ? nullptr : &*it->second;
}

bool Importer::nests(const Dims& sizes) {
  std::vector<std::int64_t> grid(sizes.begin(), sizes.end());
  if (size_of(sizes) != devices()) return false;
  if (std::find(grids_.begin(), grids_.end(), grid) != grids_.end()) return true;
  grids_.push_back(grid);
  if (sharding::common_refinement(grids_)) return true;
  grids_.pop_back();
  return false;
}

const std::shared_ptr<const ManualLevels>& Importer::levels(const std::string& key,
                                                            const std::function<ManualLevels()>& make) {
  auto& found = levels_[key];
  if (!found) found = std::make_shared<const ManualLevels>(make());
  return found;
}

namespace {
ir::Port port(const Source& source, const AstType& t, const AstAttr& attrs) {
  ir::Port p;
  if (is_narrow_int(t.elem) || is_narrow_float(t.elem)) p.element = to_string(t.elem);
  if (const AstAttr* a = attrs.find("sdy.sharding")) p.sharding = parse_sharding(source, *a);
  const AstAttr* tiles = attrs.find("mhlo.sharding");
  if (tiles != nullptr && !p.sharding) p.tiles = tiles->text;
  p.donated = attrs.find("jax.buffer_donor") != nullptr || attrs.find("tf.aliasing_output") != nullptr;
  if (const AstAttr* kind = attrs.find("mhlo.memory_kind")) p.memory_kind = kind->text;
  const AstAttr* mode = attrs.find("mhlo.layout_mode");
  if (mode != nullptr && mode->text.starts_with("{")) p.memory_layout = mode->text;
  return p;
}
}  // namespace

// Tokens are no ports of the graph.
void Importer::signature(const AstFunction& main) {
  for (std::size_t i = 0; i < main.body.args.size(); ++i) {
    const auto& a = main.body.args[i];
    if (a.type.kind == AstType::Kind::Token) {
      result_.token_inputs.push_back(i);
      continue;
    }
    result_.inputs.push_back(port(source_, a.type, a.attrs));
    in_shapes_.push_back(a.type.shape);
  }
  for (std::size_t i = 0; i < main.result_types.size(); ++i) {
    if (main.result_types[i].kind == AstType::Kind::Token) {
      result_.token_outputs.push_back(i);
      continue;
    }
    result_.outputs.push_back(port(source_, main.result_types[i], main.result_attrs[i]));
    out_shapes_.push_back(main.result_types[i].shape);
  }
  for (const auto* ports : {&result_.inputs, &result_.outputs}) {
    for (const auto& p : *ports) {
      const ir::NamedMesh* m = p.sharding ? mesh(p.sharding->mesh) : nullptr;
      if (m != nullptr && m->size() == devices()) nests(constraint_of(*p.sharding, *m).mesh_sizes);
    }
  }
}

ir::Module Importer::run() {
  result_.name = ast_.name;
  auto count = [&](const char* name) {
    const AstAttr* a = ast_.attrs.find(name);
    if (a == nullptr) return std::int64_t{1};
    if (a->kind != AstAttr::Kind::Int || a->integer < 1)
      source_.fail(a->pos, str(name, " must be an integer of 1 or more"));
    if (a->integer > kMaxDevices) source_.fail(a->pos, str(name, " is beyond ", kMaxDevices));
    return a->integer;
  };
  result_.num_partitions = count("mhlo.num_partitions");
  result_.num_replicas = count("mhlo.num_replicas");
  if (devices() > kMaxDevices) source_.fail(0, str("a program for more than ", kMaxDevices, " devices"));
  meshes();
  bool says = ast_.attrs.find("mhlo.num_partitions") != nullptr || result_.num_replicas != 1;
  check_shardings(source_, ast_, result_.meshes,
                  says ? DeviceCounts{result_.num_partitions, devices()} : DeviceCounts{});
  find_devices();
  std::string name = "main";
  if (!by_name_.contains(name)) {
    if (by_name_.size() != 1) source_.fail(0, "there is no function @main");
    name = by_name_.begin()->first;
  }
  signature(*by_name_.at(name));
  shard_marks_ = source_.text().find("SPMDFullToShardShape") != std::string_view::npos ||
                 source_.text().find("SPMDShardToFullShape") != std::string_view::npos;
  if (devices() > 1 && source_.text().find("mhlo.sharding") != std::string_view::npos) find_tile_mesh();
  Offset pos = by_name_.at(name)->pos;
  if (!shard_marks_ && runs_on_each_device(ast_, name, result_.num_replicas > 1)) {
    auto all = levels("", [&] { return all_devices(devices()); });
    GraphPtr each = function(name, pos, all).graph;
    ir::Builder b;
    Values in;
    for (const auto& t : each->input_types()) in.push_back(b.input(t));
    result_.graph = b.finish_shared(map_over_devices(b, each, in, devices()));
  } else {
    result_.graph = function(name, pos, nullptr).graph;
  }
  result_.graph = ir::after_pass("import", std::move(result_.graph));
  return std::move(result_);
}

ir::Module import_module(const std::string& text, const ImportOptions& options) {
  bool bytes = is_bytecode(text) || is_exported(text);
  if (!bytes) check_whole_export(text, options.name);
  Source source(bytes ? text_of_bytecode(text, options.name) : text, bytes ? options.name + ", as text" : options.name);
  Parser parser(source);
  AstModule ast = parser.module();
  return Importer(source, ast, options).run();
}

}  // namespace tessera::hlo
