// SPDX-License-Identifier: Apache-2.0
#include "program/placed_stablehlo.h"

#include <algorithm>

#include "array/array_impl.h"
#include "array/array_stats.h"
#include "base/strings.h"
#include "hlo/sharding/hlo_sharding.h"
#include "sharding/placement.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/sharding.h"

namespace tessera::program {

namespace {
// Null where the text leaves the placement open, or says something that NamedSharding cannot.
const ir::NamedMesh* mesh_of(const ir::Module& module, const ir::Port& port) {
  const ir::NamedMesh* mesh = port.sharding ? module.find_mesh(port.sharding->mesh) : nullptr;
  if (mesh == nullptr || mesh->size() != module.num_devices() || mesh->axes.empty()) return nullptr;
  Dims ids = mesh->device_ids;
  std::sort(ids.begin(), ids.end());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != static_cast<std::int64_t>(i)) return nullptr;
  }
  return mesh;
}

bool is_sum(const std::string& tiles) {
  if (tiles.find("unreduced") == std::string::npos) return false;
  if (tiles.starts_with("{{")) return true;  // of a tuple
  hlo::HloSharding s = hlo::parse_hlo_sharding(tiles);
  using Last = hlo::HloSharding::Last;
  for (std::size_t k = 0; k < s.last.size(); ++k) {
    if (s.last[k] == Last::Unreduced && s.tiles->dims()[s.tiled_rank() + k] > 1) return true;
  }
  return s.kind == hlo::HloSharding::Kind::Unreduced;
}

// What devices hold addends of must be said by a sharding: taken for the value, it would be wrong.
void check_sum(const ir::Module& module, const ir::Port& port, const std::string& who) {
  if (!port.tiles.empty() && is_sum(port.tiles)) {
    throw UnimplementedError(
        str(who, " has the sharding ", port.tiles, ", unreduced over devices that are no axes of the program's mesh"));
  }
  if (!port.sharding || port.sharding->unreduced.empty()) return;
  if (!port.element.empty()) {
    throw UnimplementedError(
        str(who, " is unreduced and of type ", port.element, ", whose sums round; convert it to a wider type"));
  }
  if (mesh_of(module, port) == nullptr) {
    throw UnimplementedError(
        str(who, " is unreduced over a mesh of other devices than the program's ", module.num_devices()));
  }
}

std::vector<Device> in_order_of(const ir::NamedMesh* mesh, const std::vector<Device>& devices) {
  if (mesh == nullptr || mesh->device_ids.empty()) return devices;
  std::vector<Device> out;
  for (auto id : mesh->device_ids) out.push_back(devices[static_cast<std::size_t>(id)]);
  return out;
}

bool is_even(const sharding::Placement& place) {
  for (std::size_t t = 0; t < place.tile_shape.size(); ++t) {
    if (place.tile_shape[t] != place.shard_shape) return false;
  }
  return true;
}

Array placed_without_data(const ir::Type& type, const ShardingPtr& sharding, bool replicas_equal) {
  auto impl = std::make_shared<arrays::ArrayImpl>();
  impl->type = type;
  impl->sharding = sharding;
  impl->placement = arrays::look_up(sharding, type.shape);
  impl->committed = true;
  impl->replicas_equal = replicas_equal;
  impl->without_data = true;
  return Array(std::move(impl));
}
}  // namespace

PlacedStablehlo::PlacedStablehlo(const ir::Module& module, const std::string& name, std::vector<Device> devices,
                                 const Options& how)
    : types_(module.graph->input_types()) {
  const ir::NamedMesh* first = nullptr;
  for (const auto* ports : {&module.inputs, &module.outputs}) {
    for (const auto& p : *ports) first = first == nullptr ? mesh_of(module, p) : first;
  }
  auto order = in_order_of(first, devices);
  auto whole = [&](const std::vector<Device>& on) -> ShardingPtr {
    if (on.size() > 1) return interned(GspmdSharding::replicated(on));
    return interned(SingleDeviceSharding(on[0]));
  };
  auto placed = [&](const ir::Port& p, const Shape& shape, bool as_text) -> ShardingPtr {
    const auto* mesh = mesh_of(module, p);
    if (mesh == nullptr) return nullptr;
    return public_sharding(*p.sharding, *mesh, shape, as_text ? in_order_of(mesh, devices) : order);
  };
  for (std::size_t i = 0; i < module.inputs.size() && devices.size() > 1; ++i) {
    check_sum(module, module.inputs[i], str(name, ": arg", i));
  }
  for (std::size_t i = 0; i < module.outputs.size() && devices.size() > 1; ++i) {
    check_sum(module, module.outputs[i], str(name, ": result ", i));
  }
  ProgramOptions options;
  options.sums_stay = false;  // a result is a sum where the text says it of the result
  options.name = name;
  options.distinct_results = how.distinct_results;
  for (std::size_t i = 0; i < module.inputs.size(); ++i) {
    for (bool as_text : {true, false}) {
      ShardingPtr s = placed(module.inputs[i], types_[i].shape, as_text);
      (as_text ? in_ : in_order_).push_back(s ? s : whole(order));
    }
    options.arg_names.push_back(str("arg", i));
    if (how.donate) options.donate.push_back(module.inputs[i].donated);
  }
  ir::Types results = module.graph->output_types();
  for (std::size_t i = 0; i < module.outputs.size(); ++i) {
    const auto& p = module.outputs[i];
    options.out_shardings.push_back(placed(p, results[i].shape, false));
    bool same = in_order_of(mesh_of(module, p), devices) == order;
    said_out_.push_back(placed(p, results[i].shape, true));
    moved_out_.push_back(same ? nullptr : said_out_.back());
  }
  options.devices = mesh::intern_device_list(order, "StablehloProgram", "devices");
  whole_ = whole(order);
  even_results_ = how.even_results;
  options_ = options;
  program_ = std::make_unique<Program>(module.graph, std::move(options));
}

std::vector<Array> PlacedStablehlo::ordered(std::vector<Array> args) const {
  for (std::size_t i = 0; i < args.size() && i < in_order_.size(); ++i) {
    // What lies right stays as it is: replicas may hold values of their own.
    const auto& impl = args[i].impl();
    bool lies_right =
        impl && impl->placement &&
        (impl->sharding == in_order_[i] || (impl->placement->devices == sharding::device_list(*in_order_[i]) &&
                                            in_order_[i]->is_equivalent_to(*impl->sharding, impl->type.rank())));
    if (!lies_right) args[i] = device_put(args[i], in_order_[i]);
  }
  return args;
}

std::shared_ptr<const CompiledProgram> PlacedStablehlo::compile(const std::vector<bool>& by_position) {
  std::vector<Array> args;
  for (std::size_t i = 0; i < in_order_.size(); ++i) {
    args.push_back(placed_without_data(types_[i], in_order_[i], i >= by_position.size() || !by_position[i]));
  }
  auto compiled = program_->compile(args);
  if (!even_results_) return compiled;
  bool uneven = false;
  for (std::size_t i = 0; i < compiled->out.size(); ++i) {
    if (options_.out_shardings[i] || is_even(*compiled->out[i].placement)) continue;
    options_.out_shardings[i] = whole_;
    uneven = true;
  }
  if (!uneven) return compiled;
  program_ = std::make_unique<Program>(program_->graph(), options_);
  return program_->compile(args);
}

void PlacedStablehlo::keep(std::size_t i) {
  if (i < options_.donate.size()) options_.donate[i] = false;
  program_->keep(i);
}

ShardingPtr PlacedStablehlo::out(const CompiledProgram& compiled, std::size_t i) const {
  return moved_out_[i] ? moved_out_[i] : compiled.out[i].sharding;
}

std::vector<Array> PlacedStablehlo::operator()(std::vector<Array> args, runtime::EventPtr* done) {
  std::vector<Array> out = program_->call(ordered(std::move(args)), done);
  for (std::size_t i = 0; i < out.size() && i < moved_out_.size(); ++i) {
    if (moved_out_[i]) out[i] = device_put(out[i], moved_out_[i]);
  }
  return out;
}

}  // namespace tessera::program
