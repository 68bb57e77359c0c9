// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "base/file.h"
#include "base/strings.h"
#include "hlo/export/export.h"
#include "hlo/export/partitioned.h"
#include "hlo/module.h"
#include "hlo/sharding/hlo_sharding.h"
#include "program/program.h"
#include "sharding/placement.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/sharding.h"
#include "tessera/stablehlo.h"

namespace tessera {

struct StablehloProgram::Impl {
  ir::Module module;
  std::string name;
  std::vector<Port> inputs, outputs;
  // Fixed when it first runs: by the client that is current then. Meshes may name the devices in different orders; the
  // program runs in one of them, and arguments and results of others are moved at its boundary.
  std::once_flag once;
  std::vector<ShardingPtr> in;         // as the text says
  std::vector<ShardingPtr> out;        // the same; null where it leaves the placement open
  std::vector<ShardingPtr> in_order;   // in the program's order of devices
  std::vector<ShardingPtr> moved_out;  // of results that the text has in another order, else null
  std::unique_ptr<program::Program> program;

  std::vector<Device> devices() const;
  const ir::NamedMesh* mesh_of(const ir::Port& port) const;
  void check_sum(const ir::Port& port, const std::string& who) const;
  std::vector<Array> ordered(const std::vector<Array>& args) const;
  void prepare();
};

std::vector<Device> StablehloProgram::Impl::devices() const {
  Client client = Client::current();
  auto all = client.devices();
  auto n = module.num_devices();
  if (static_cast<std::int64_t>(all.size()) < n) {
    throw DeviceMismatchError(str(name, ": the program is for ", n, " devices; the client has ", all.size()));
  }
  return {all.begin(), all.begin() + n};
}

// Null where the text leaves the placement open, or says something that NamedSharding cannot.
const ir::NamedMesh* StablehloProgram::Impl::mesh_of(const ir::Port& port) const {
  const ir::NamedMesh* mesh = port.sharding ? module.find_mesh(port.sharding->mesh) : nullptr;
  if (mesh == nullptr || mesh->size() != module.num_devices() || mesh->axes.empty()) return nullptr;
  Dims ids = mesh->device_ids;
  std::sort(ids.begin(), ids.end());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != static_cast<std::int64_t>(i)) return nullptr;
  }
  return mesh;
}

namespace {
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
}  // namespace

// What devices hold addends of must be said by a sharding: taken for the value, it would be wrong.
void StablehloProgram::Impl::check_sum(const ir::Port& port, const std::string& who) const {
  bool sum = port.sharding && !port.sharding->unreduced.empty();
  if (!port.tiles.empty() && is_sum(port.tiles)) {
    throw UnimplementedError(str(name, ": ", who, " has the sharding ", port.tiles,
                                 ", unreduced over devices that are no axes of the program's mesh"));
  }
  if (!sum) return;
  if (!port.element.empty()) {
    throw UnimplementedError(str(name, ": ", who, " is unreduced and of type ", port.element,
                                 ", whose sums round; convert it to a wider type"));
  }
  if (mesh_of(port) == nullptr) {
    throw UnimplementedError(
        str(name, ": ", who, " is unreduced over a mesh of other devices than the program's ", module.num_devices()));
  }
}

namespace {
std::vector<Device> in_order_of(const ir::NamedMesh* mesh, const std::vector<Device>& devices) {
  if (mesh == nullptr || mesh->device_ids.empty()) return devices;
  std::vector<Device> out;
  for (auto id : mesh->device_ids) out.push_back(devices[static_cast<std::size_t>(id)]);
  return out;
}
}  // namespace

void StablehloProgram::Impl::prepare() {
  std::call_once(once, [&] {
    auto on = devices();
    const ir::NamedMesh* first = nullptr;
    for (const auto* ports : {&module.inputs, &module.outputs}) {
      for (const auto& p : *ports) first = first == nullptr ? mesh_of(p) : first;
    }
    auto order = in_order_of(first, on);
    auto placed = [&](const ir::Port& p, const Shape& shape, bool as_text) -> ShardingPtr {
      const auto* mesh = mesh_of(p);
      if (mesh == nullptr) return nullptr;
      return program::public_sharding(*p.sharding, *mesh, shape, as_text ? in_order_of(mesh, on) : order);
    };
    for (std::size_t i = 0; i < inputs.size() && on.size() > 1; ++i) check_sum(module.inputs[i], str("arg", i));
    for (std::size_t i = 0; i < outputs.size() && on.size() > 1; ++i) check_sum(module.outputs[i], str("result ", i));
    program::ProgramOptions options;
    options.name = name;
    options.sums_stay = false;  // a result is a sum where the text says it of the result
    for (std::size_t i = 0; i < module.inputs.size(); ++i) {
      for (bool as_text : {true, false}) {
        ShardingPtr s = placed(module.inputs[i], inputs[i].shape, as_text);
        if (!s && on.size() > 1) s = GspmdSharding::replicated(order).share();
        if (!s) s = SingleDeviceSharding(on[0]).share();
        (as_text ? in : in_order).push_back(s);
      }
      options.arg_names.push_back(str("arg", i));
    }
    for (std::size_t i = 0; i < module.outputs.size(); ++i) {
      const auto& p = module.outputs[i];
      options.out_shardings.push_back(placed(p, outputs[i].shape, false));
      bool same = in_order_of(mesh_of(p), on) == order;
      out.push_back(placed(p, outputs[i].shape, true));
      moved_out.push_back(same ? nullptr : out.back());
    }
    // Without arguments nothing but a result's sharding says which devices are meant.
    if (in.empty() && !options.out_shardings.empty() && !options.out_shardings[0] && on.size() > 1) {
      options.out_shardings[0] = GspmdSharding::replicated(order).share();
    }
    program = std::make_unique<program::Program>(module.graph, std::move(options));
  });
}

std::vector<Array> StablehloProgram::Impl::ordered(const std::vector<Array>& args) const {
  std::vector<Array> out;
  for (std::size_t i = 0; i < args.size() && i < in_order.size(); ++i) {
    // What lies right stays as it is: replicas may hold values of their own.
    const auto& impl = args[i].impl();
    bool lies_right = impl && impl->placement && impl->placement->devices == sharding::device_list(*in_order[i]) &&
                      in_order[i]->is_equivalent_to(*impl->sharding, impl->type.rank());
    out.push_back(lies_right ? args[i] : device_put(args[i], in_order[i]));
  }
  return out;
}

StablehloProgram StablehloProgram::parse(const std::string& text, const std::string& name,
                                         const StablehloOptions& options, const Loc&) {
  StablehloProgram p;
  p.impl_ = std::make_shared<Impl>();
  hlo::ImportOptions o;
  o.name = name;
  o.max_memory = options.max_memory;
  p.impl_->module = hlo::import_module(text, o);
  p.impl_->name = name;
  const ir::Module& m = p.impl_->module;
  auto ports = [](const std::vector<ir::Port>& from, const ir::Types& types, std::vector<Port>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::string& element = from[i].element;
      const Shape& shape = types[i].shape;
      to.push_back({element.empty() ? hlo::tensor_text(types[i]) : hlo::tensor_text(shape, element), types[i].dtype,
                    shape, !element.empty()});
    }
  };
  ports(m.inputs, m.graph->input_types(), p.impl_->inputs);
  ports(m.outputs, m.graph->output_types(), p.impl_->outputs);
  return p;
}

StablehloProgram StablehloProgram::load(const std::string& path, const StablehloOptions& options, const Loc&) {
  return parse(base::read_file("StablehloProgram::load", path), path, options);
}

const std::vector<StablehloProgram::Port>& StablehloProgram::inputs() const& { return impl_->inputs; }
const std::vector<StablehloProgram::Port>& StablehloProgram::outputs() const& { return impl_->outputs; }
std::int64_t StablehloProgram::num_devices() const { return impl_->module.num_devices(); }
std::string StablehloProgram::text(const Loc&) const { return to_string(*impl_->module.graph); }

std::string StablehloProgram::as_text(const Loc&) const {
  ir::Module m = impl_->module;
  if (m.name.empty()) m.name = "module";
  m.num_partitions = num_devices();
  m.num_replicas = 1;
  return hlo::export_module(m);
}

std::string StablehloProgram::device_text(const std::vector<Array>& args, const Loc&) const {
  impl_->prepare();
  return hlo::partitioned_text(impl_->program->lower(args)->partitioned(), impl_->module.name);
}

std::vector<Array> StablehloProgram::place(const std::vector<HostArray>& args, const Loc&) const {
  const auto& want = impl_->inputs;
  if (args.size() != want.size()) {
    throw ValueError(str(impl_->name, ": ", args.size(), " arguments; @main takes ", want.size()));
  }
  impl_->prepare();
  std::vector<Array> out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].shape() != want[i].shape) {
      throw ValueError(str(impl_->name, ": arg", i, " has shape ", args[i].shape(), "; expected ", want[i].type));
    }
    if (args[i].dtype() != want[i].dtype) {
      throw TypeError(
          str(impl_->name, ": arg", i, " has dtype ", dtype_name(args[i].dtype()), "; expected ", want[i].type));
    }
    out.push_back(device_put(args[i], impl_->in[i]));
  }
  return out;
}

std::vector<Array> StablehloProgram::operator()(const std::vector<Array>& args, const Loc&) const {
  impl_->prepare();
  std::vector<Array> out = impl_->program->call(impl_->ordered(args));
  for (std::size_t i = 0; i < out.size() && i < impl_->moved_out.size(); ++i) {
    if (impl_->moved_out[i]) out[i] = device_put(out[i], impl_->moved_out[i]);
  }
  return out;
}

std::vector<HostArray> StablehloProgram::run(const std::vector<HostArray>& args, const Loc&) const {
  std::vector<HostArray> out;
  for (const auto& a : (*this)(place(args))) {
    const auto* named = dynamic_cast<const NamedSharding*>(a.impl()->sharding.get());
    bool sum = named != nullptr && !named->unreduced_axes().empty();
    out.push_back(sum ? device_put(a, named->with_spec(PartitionSpec(named->spec().entries())).share()).host()
                      : a.host());
  }
  return out;
}

namespace {
const ShardingPtr& entry(const std::vector<ShardingPtr>& list, std::size_t i, const char* function) {
  if (i < list.size()) return list[i];
  throw IndexError(str("StablehloProgram::", function, ": i = ", i, "; @main has ", list.size()));
}
}  // namespace

ShardingPtr StablehloProgram::input_sharding(std::size_t i, const Loc&) const {
  impl_->prepare();
  return entry(impl_->in, i, "input_sharding");
}
ShardingPtr StablehloProgram::output_sharding(std::size_t i, const Loc&) const {
  impl_->prepare();
  return entry(impl_->out, i, "output_sharding");
}

CommPlan StablehloProgram::comm_plan(const std::vector<Array>& args, const Loc&) const {
  impl_->prepare();
  return impl_->program->lower(impl_->ordered(args))->comm_plan();
}

}  // namespace tessera
