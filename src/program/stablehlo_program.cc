// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/file.h"
#include "base/strings.h"
#include "hlo/export/export.h"
#include "hlo/export/partitioned.h"
#include "hlo/module.h"
#include "hlo/sharding/sdy.h"
#include "program/program_plan.h"
#include "sharding/placement.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/sharding.h"
#include "tessera/stablehlo.h"

namespace tessera {

struct StablehloProgram::Impl {
  hlo::ImportedModule module;
  std::string name;
  std::vector<Port> inputs, outputs;
  // Fixed when it first runs: by the client that is current then. Meshes may name the devices in different orders; the
  // program runs in one of them, and arguments and results of others are moved at its boundary.
  std::once_flag once;
  std::vector<ShardingPtr> in;         // as the text says
  std::vector<ShardingPtr> in_order;   // in the program's order of devices
  std::vector<ShardingPtr> moved_out;  // of results that the text has in another order, else null
  std::unique_ptr<program::Program> program;

  std::vector<Device> devices() const;
  const hlo::SdyMesh* mesh_of(const hlo::Port& port, std::size_t count) const;
  ShardingPtr sharding_of(const hlo::Port& port, const std::vector<Device>& order) const;
  std::vector<Array> ordered(const std::vector<Array>& args) const;
  void prepare();
};

std::vector<Device> StablehloProgram::Impl::devices() const {
  Client client = Client::current();
  auto all = client.devices();
  auto n = module.num_partitions * module.num_replicas;
  if (static_cast<std::int64_t>(all.size()) < n) {
    throw DeviceMismatchError(str(name, ": the program is for ", n, " devices; the client has ", all.size()));
  }
  return {all.begin(), all.begin() + n};
}

// Null where the text leaves the placement open, or says something that NamedSharding cannot.
const hlo::SdyMesh* StablehloProgram::Impl::mesh_of(const hlo::Port& port, std::size_t count) const {
  if (!port.sdy) return nullptr;
  const hlo::SdyMesh* mesh = nullptr;
  for (const auto& m : module.meshes) {
    if (m.name == port.sdy->mesh) mesh = &m;
  }
  if (mesh == nullptr || mesh->size() != static_cast<std::int64_t>(count) || mesh->axes.empty()) return nullptr;
  if (!mesh->device_ids.empty()) {
    Dims ids = mesh->device_ids;
    std::sort(ids.begin(), ids.end());
    Dims all(count);
    std::iota(all.begin(), all.end(), 0);
    if (ids != all) return nullptr;
  }
  return mesh;
}

namespace {
std::vector<Device> in_order_of(const hlo::SdyMesh* mesh, const std::vector<Device>& devices) {
  if (mesh == nullptr || mesh->device_ids.empty()) return devices;
  std::vector<Device> out;
  for (auto id : mesh->device_ids) out.push_back(devices[static_cast<std::size_t>(id)]);
  return out;
}
}  // namespace

// Over the port's mesh, whose positions are the devices of `order`.
ShardingPtr StablehloProgram::Impl::sharding_of(const hlo::Port& port, const std::vector<Device>& order) const {
  const hlo::SdyMesh* mesh = mesh_of(port, order.size());
  if (mesh == nullptr) return nullptr;
  if (port.sdy->dims.size() != port.shape.size()) {
    throw ValueError(
        str(name, ": a sharding of ", port.sdy->dims.size(), " dimensions for a value of shape ", port.shape));
  }
  ops::ShardingConstraint c = hlo::constraint_of(*port.sdy, *mesh);
  std::vector<SpecEntry> entries;
  bool uneven = false;
  for (std::size_t d = 0; d < c.dims.size(); ++d) {
    std::vector<AxisRef> axes;
    std::int64_t parts = 1;
    for (auto a : c.dims[d]) {
      if (a < 0) continue;
      axes.emplace_back(c.mesh_names.list[static_cast<std::size_t>(a)]);
      parts *= c.mesh_sizes[static_cast<std::size_t>(a)];
    }
    uneven = uneven || port.shape[d] % parts != 0;
    if (axes.empty()) {
      entries.emplace_back(none);
    } else {
      entries.emplace_back(axes);
    }
  }
  Mesh placed(DeviceArray(order, c.mesh_sizes), c.mesh_names.list);
  return NamedSharding(placed, PartitionSpec(entries), {.uneven = uneven}).share();
}

void StablehloProgram::Impl::prepare() {
  std::call_once(once, [&] {
    auto on = devices();
    const hlo::SdyMesh* first = nullptr;
    for (const auto* ports : {&module.inputs, &module.outputs}) {
      for (const auto& p : *ports) first = first == nullptr ? mesh_of(p, on.size()) : first;
    }
    auto order = in_order_of(first, on);
    auto placed = [&](const hlo::Port& p, bool as_text) {
      return sharding_of(p, as_text ? in_order_of(mesh_of(p, on.size()), on) : order);
    };
    program::ProgramOptions options;
    options.name = name;
    for (const auto& p : module.inputs) {
      if (p.token) continue;
      for (bool as_text : {true, false}) {
        ShardingPtr s = placed(p, as_text);
        if (!s && on.size() > 1) s = GspmdSharding::replicated(order).share();
        if (!s) s = SingleDeviceSharding(on[0]).share();
        (as_text ? in : in_order).push_back(s);
      }
      options.arg_names.push_back(str("arg", in.size() - 1));
    }
    for (const auto& p : module.outputs) {
      if (p.token) continue;
      options.out_shardings.push_back(placed(p, false));
      bool same = in_order_of(mesh_of(p, on.size()), on) == order;
      moved_out.push_back(same ? nullptr : placed(p, true));
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
  auto ports = [](const std::vector<hlo::Port>& from, std::vector<Port>& to) {
    for (const auto& f : from) {
      if (f.token) continue;
      to.push_back({hlo::to_string(hlo::AstType{hlo::AstType::Kind::Tensor, f.elem, f.shape, {}}), hlo::storage(f.elem),
                    f.shape, hlo::is_narrow_int(f.elem) || hlo::is_narrow_float(f.elem)});
    }
  };
  ports(p.impl_->module.inputs, p.impl_->inputs);
  ports(p.impl_->module.outputs, p.impl_->outputs);
  return p;
}

StablehloProgram StablehloProgram::load(const std::string& path, const StablehloOptions& options, const Loc&) {
  return parse(base::read_file("StablehloProgram::load", path), path, options);
}

const std::vector<StablehloProgram::Port>& StablehloProgram::inputs() const& { return impl_->inputs; }
const std::vector<StablehloProgram::Port>& StablehloProgram::outputs() const& { return impl_->outputs; }
std::int64_t StablehloProgram::num_devices() const { return impl_->module.num_partitions * impl_->module.num_replicas; }
std::string StablehloProgram::text(const Loc&) const { return to_string(*impl_->module.graph); }

std::string StablehloProgram::as_text(const Loc&) const {
  hlo::ExportOptions o;
  o.name = impl_->module.name.empty() ? "module" : impl_->module.name;
  o.num_partitions = num_devices();
  o.meshes = impl_->module.meshes;
  auto ports = [](const std::vector<hlo::Port>& from, std::vector<hlo::PortText>& to) {
    for (const auto& p : from) {
      if (p.token) continue;
      hlo::PortText text{p.sdy, p.sdy ? "" : p.mhlo, std::nullopt};
      if (hlo::is_narrow_int(p.elem) || hlo::is_narrow_float(p.elem)) text.elem = p.elem;
      to.push_back(std::move(text));
    }
  };
  ports(impl_->module.inputs, o.inputs);
  ports(impl_->module.outputs, o.outputs);
  return hlo::export_module(*impl_->module.graph, o);
}

std::string StablehloProgram::device_text(const std::vector<Array>& args, const Loc&) const {
  impl_->prepare();
  return hlo::partitioned_text(*impl_->program->lower(args)->program()->graph, impl_->module.name);
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
  for (const auto& a : (*this)(place(args))) out.push_back(a.host());
  return out;
}

CommPlan StablehloProgram::comm_plan(const std::vector<Array>& args, const Loc&) const {
  impl_->prepare();
  return impl_->program->lower(impl_->ordered(args))->program()->plan;
}

}  // namespace tessera
