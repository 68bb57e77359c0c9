// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "base/file.h"
#include "base/strings.h"
#include "hlo/export/export.h"
#include "hlo/export/partitioned.h"
#include "hlo/module.h"
#include "planner/simulate.h"
#include "program/placed_stablehlo.h"
#include "tessera/error.h"
#include "tessera/simulate.h"
#include "tessera/stablehlo.h"

namespace tessera {

struct StablehloProgram::Impl {
  ir::Module module;
  std::string name;
  bool donate = false;
  std::vector<Port> inputs, outputs;
  // Fixed when it first runs: by the client that is current then.
  std::once_flag once;
  std::unique_ptr<program::PlacedStablehlo> placed;

  program::PlacedStablehlo& prepared();
};

program::PlacedStablehlo& StablehloProgram::Impl::prepared() {
  std::call_once(once, [&] {
    auto all = Client::current().devices();
    auto n = module.num_devices();
    if (static_cast<std::int64_t>(all.size()) < n) {
      throw DeviceMismatchError(str(name, ": the program is for ", n, " devices; the client has ", all.size()));
    }
    std::vector<Device> on(all.begin(), all.begin() + n);
    placed = std::make_unique<program::PlacedStablehlo>(module, name, std::move(on),
                                                        program::PlacedStablehlo::Options{.donate = donate});
  });
  return *placed;
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
  p.impl_->donate = options.donate;
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

namespace {
// Programs take arguments as they are: another dtype would be read as if it were the module's.
template <class T>
void check_arguments(const std::string& name, const std::vector<StablehloProgram::Port>& want,
                     const std::vector<T>& args) {
  if (args.size() != want.size()) {
    throw ValueError(str(name, ": ", args.size(), " arguments; @main takes ", want.size()));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!args[i].defined()) throw StateError(str(name, ": arg", i, " is uninitialised; expected ", want[i].type));
    if (args[i].shape() != want[i].shape) {
      throw ValueError(str(name, ": arg", i, " has shape ", args[i].shape(), "; expected ", want[i].type));
    }
    if (args[i].dtype() != want[i].dtype) {
      throw TypeError(str(name, ": arg", i, " has dtype ", dtype_name(args[i].dtype()), "; expected ", want[i].type));
    }
  }
}
}  // namespace

std::string StablehloProgram::device_text(const std::vector<Array>& args, const Loc&) const {
  check_arguments(impl_->name, impl_->inputs, args);
  return hlo::partitioned_text(impl_->prepared().lower(args)->partitioned(), impl_->module.name);
}

std::vector<Array> StablehloProgram::place(const std::vector<HostArray>& args, const Loc&) const {
  check_arguments(impl_->name, impl_->inputs, args);
  const auto& in = impl_->prepared().in();
  std::vector<Array> out;
  for (std::size_t i = 0; i < args.size(); ++i) out.push_back(device_put(args[i], in[i]));
  return out;
}

std::vector<Array> StablehloProgram::operator()(const std::vector<Array>& args, const Loc&) const {
  check_arguments(impl_->name, impl_->inputs, args);
  return impl_->prepared()(args);
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
  return entry(impl_->prepared().in(), i, "input_sharding");
}
ShardingPtr StablehloProgram::output_sharding(std::size_t i, const Loc&) const {
  return entry(impl_->prepared().said_out(), i, "output_sharding");
}

CommPlan StablehloProgram::comm_plan(const std::vector<Array>& args, const Loc&) const {
  check_arguments(impl_->name, impl_->inputs, args);
  return impl_->prepared().lower(args)->comm_plan();
}

Simulation simulate_module(const std::string& module, const ClusterModel& cluster, const std::string& name,
                           const Loc& loc) {
  cluster.check("simulate: the cluster", loc);
  return planner::simulate(planner::placed(hlo::import_module(module, {.name = name})), cluster);
}

}  // namespace tessera
