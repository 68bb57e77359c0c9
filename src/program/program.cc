// SPDX-License-Identifier: Apache-2.0
#include "program/program.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "array/array_stats.h"
#include "base/hash.h"
#include "base/lru_cache.h"
#include "base/report/log.h"
#include "base/report/progress.h"
#include "base/strings.h"
#include "base/verify_mode.h"
#include "ops/transform/write_shardings.h"
#include "program/typed/hidden_communication.h"
#include "program/verified_program.h"
#include "sharding/mesh_tiling.h"
#include "spmd/spmd.h"
#include "tessera/config.h"
#include "tessera/error.h"
#include "tessera/explicit_sharding.h"

namespace tessera::program {

namespace {
std::atomic<std::int64_t> total_lowerings{0};
std::atomic<std::int64_t> total_compiles{0};

// What decides, without looking further, that a call is like an earlier one.
struct CallKey {
  struct Arg {
    const Sharding* sharding;
    unsigned flags;
    bool operator==(const Arg&) const = default;
  };
  std::vector<Arg> args;
  const void* scope = nullptr;
  const void* client = nullptr;
  std::size_t config = 0;
};

CallKey::Arg key_of(const Array& a) {
  const auto& impl = *a.impl();
  return {impl.sharding.get(), (impl.committed ? 1U : 0U) | (impl.replicas_equal ? 2U : 0U)};
}

// All but the arguments' own parts, which `is_for` compares where they are: nearly every call is like an earlier one.
CallKey key_around(const std::vector<Array>& args) {
  CallKey key;
  const Mesh& scope = current_mesh();
  key.scope = scope.empty() ? nullptr : scope.identity();
  bool any_placed = std::any_of(args.begin(), args.end(), [](const Array& a) { return a.impl()->sharding != nullptr; });
  if (!any_placed) key.client = &Client::current().extensions();
  key.config = config_key();
  return key;
}
bool is_for(const CallKey& known, const CallKey& around, const std::vector<Array>& args) {
  return known.scope == around.scope && known.client == around.client && known.config == around.config &&
         std::equal(args.begin(), args.end(), known.args.begin(), known.args.end(),
                    [](const Array& a, const CallKey::Arg& k) { return key_of(a) == k; });
}
}  // namespace

std::int64_t count_lowerings() { return total_lowerings; }
std::int64_t count_compiles() { return total_compiles; }

struct Program::CompiledEntry {
  struct Arg {
    bool as_is;         // it is placed as the program wants it
    ShardingPtr moved;  // what it is moved to; null: to what the program chooses
    bool operator==(const Arg& o) const {
      return as_is == o.as_is && (moved && o.moved ? *moved == *o.moved : moved == o.moved);
    }
  };
  std::shared_ptr<const Lowering> lowered;
  std::shared_ptr<const mesh::DeviceList> devices;
  std::vector<ir::NamedMesh> meshes;  // in whose terms the outputs' shardings are
  bool committed;
  std::vector<Arg> args;
  std::shared_ptr<const CompiledProgram> program;

  bool compiles_like(const CompiledEntry& o) const {
    return lowered == o.lowered && devices == o.devices && meshes == o.meshes && committed == o.committed &&
           args == o.args;
  }
};
struct Program::CallEntry {
  CallKey key;
  std::vector<ShardingPtr> keep;  // the addresses in `key` stay taken
  std::shared_ptr<const CompiledProgram> program;
};

Program::Program(ir::GraphPtr graph, ProgramOptions options) : graph_(std::move(graph)), options_(std::move(options)) {
  for (auto v : graph_->outputs) options_.typed_out.push_back(graph_->type(v).sharding);
  const std::string& made = options_.made.empty() ? options_.name : options_.made;
  for (std::size_t i = 0; i < options_.donate.size(); ++i) {
    donated_as_.push_back(options_.donate[i]
                              ? std::make_shared<const std::string>(str("donated to ", made, " as ", arg_name(i)))
                              : nullptr);
  }
}

const Program::Written& Program::written() const {
  const std::lock_guard lock(write_mutex_);
  if (!written_.graph) {
    ir::GraphPtr graph = ops::write_shardings(graph_);
    written_.uses = mesh_uses(*graph);
    written_.graph = std::move(graph);
  }
  return written_;
}
PlacedModule Program::place(const std::vector<Array>& args) const {
  const Written& w = written();
  return place_module(w.graph, options_, w.uses, args);
}

const ir::GraphPtr& Lowering::partitioned() const {
  std::lock_guard lock(mutex_);
  if (!partitioned_) {
    partitioned_ = spmd::partition(spmd::prepared(module_));
  }
  return partitioned_;
}
const CommPlan& Lowering::comm_plan() const {
  const ir::GraphPtr& graph = partitioned();
  std::lock_guard lock(mutex_);
  if (!comm_plan_) comm_plan_ = spmd::comm_plan(*graph);
  return *comm_plan_;
}

std::shared_ptr<const Lowering> Program::lowering_for(const ir::Module& m) {
  for (const auto& l : lowered_) {
    if (ir::partitions_alike(l->module(), m)) return l;
  }
  ++stats_.lowerings;
  ++total_lowerings;
  return lowered_.emplace_back(std::make_shared<const Lowering>(m));
}

std::shared_ptr<const Lowering> Program::lower(const std::vector<Array>& args) {
  PlacedModule placed = place(args);
  std::lock_guard lock(mutex_);
  return lowering_for(placed.module);
}

std::shared_ptr<const CompiledProgram> Program::compile(const std::vector<Array>& args) {
  CallKey key = key_around(args);
  std::lock_guard lock(mutex_);
  auto known = std::ranges::find_if(calls_, [&](const auto& e) { return is_for(e->key, key, args); });
  if (known != calls_.end()) {
    if (CommBudget::current() >= 0 || NoHiddenCommunication::current()) check_budget(*(*known)->program->lowered);
    return (*known)->program;
  }
  CallEntry entry{key, {}, compiled_from(place(args), args)};
  for (const auto& a : args) {
    entry.key.args.push_back(key_of(a));
    entry.keep.push_back(a.impl()->sharding);
  }
  if (calls_.size() >= 64) calls_.erase(calls_.begin());
  auto program = entry.program;
  calls_.push_back(std::make_shared<CallEntry>(std::move(entry)));
  if (CommBudget::current() >= 0 || NoHiddenCommunication::current()) check_budget(*program->lowered);
  return program;
}

void Program::check_budget(const Lowering& lowered) const {
  const CommPlan& plan = lowered.comm_plan();
  const bool typed = written().graph != graph_;
  if (typed && NoHiddenCommunication::current()) {
    if (const auto hidden = hidden_steps(*graph_, plan); !hidden.empty()) {
      throw CommBudgetError(str(options_.name, ": the program moves data on lines where no operation states it ",
                                "(NoHiddenCommunication); reshard there\n", CommPlan(hidden)));
    }
  }
  if (CommBudget::current() < 0) return;
  if (plan.bytes_per_device() <= CommBudget::current()) return;
  throw CommBudgetError(str(options_.name, ": the program moves ", plan.bytes_per_device(),
                            " bytes per device; the CommBudget allows ", CommBudget::current(), "\n", plan));
}

std::shared_ptr<const CompiledProgram> Program::compiled_from(const PlacedModule& placed,
                                                              const std::vector<Array>& args) {
  if (!placed.devices) {
    throw ValueError(str(options_.name, ": the program is over an abstract mesh of ", placed.module.num_partitions,
                         " positions, which has no devices to run on; give a Mesh (as_text, text and comm_plan need "
                         "none)"));
  }
  CompiledEntry wanted{
      lowering_for(placed.module), placed.devices, placed.module.meshes, placed.committed, {}, nullptr};
  for (std::size_t i = 0; i < args.size(); ++i) {
    const auto& impl = *args[i].impl();
    bool here = placed.module.inputs[i].layout && impl.placement && impl.placement->devices == placed.devices;
    wanted.args.push_back({here && !placed.moved_in[i], placed.moved_in[i]});
  }
  for (const auto& e : compiled_) {
    if (e->compiles_like(wanted)) return e->program;
  }
  const auto began = std::chrono::steady_clock::now();
  const base::WaitingBar bar(str("compiling ", options_.name));
  wanted.program = compile_for(placed, wanted);
  const bool is_long = std::chrono::steady_clock::now() - began > std::chrono::seconds(1);
  if (const LogLevel level = is_long ? LogLevel::Info : LogLevel::Debug; level >= log_level()) {
    base::log(level, options_.name, ": compiled in ", base::seconds_since(began), " for ", placed.devices->size(),
              " devices (", placed.devices->client.platform(), ")");
  }
  return compiled_.emplace_back(std::make_shared<CompiledEntry>(std::move(wanted)))->program;
}

namespace {
// The same placement, marked as reduced over axes where it is by a mesh that has them.
ShardingPtr with_reduced(const ShardingPtr& s, const std::vector<AxisRef>& axes) {
  const auto* named = dynamic_cast<const NamedSharding*>(s.get());
  if (named == nullptr) return s;
  std::vector<AxisRef> free;
  for (const auto& a : axes) {
    auto at = named->mesh().axis_index(a);
    if (!at) return s;
    bool used = std::ranges::count(named->unreduced_axes(), static_cast<int>(*at)) > 0;
    for (std::size_t d = 0; d < named->spec().size(); ++d) {
      used = used || std::ranges::count(named->dim_axes(d), static_cast<int>(*at)) > 0;
    }
    if (!used) free.push_back(a);
  }
  return named->with_spec(named->spec().with_reduced(free)).share();
}
}  // namespace

namespace {
// For an engine that partitions itself: what is free is laid out as it would be here, so that results lie the same way
// on every engine.
ir::Module pinned(const PlacedModule& placed, const std::vector<bool>& donate) {
  ir::Module m = placed.module;
  const ir::Module flat = spmd::prepared(placed.module);
  const std::vector<ir::Layout> layouts = spmd::propagate(flat);
  auto pin = [&](ir::Port& port, ir::ValueId v) {
    const ir::Type& type = flat.graph->type(v);
    if (!port.layout) port.layout = spmd::visible(type, layouts[static_cast<std::size_t>(v)], flat);
    if (port.sharding || m.mesh->num_positions() == 1) return;
    port.sharding = axis_sharding(*public_sharding(placed, *port.layout, type.shape), type.rank(), m);
  };
  for (std::size_t i = 0; i < m.inputs.size(); ++i) {
    pin(m.inputs[i], flat.graph->inputs[i]);
    m.inputs[i].donated = i < donate.size() && donate[i];
  }
  for (std::size_t i = 0; i < m.outputs.size(); ++i) pin(m.outputs[i], flat.graph->outputs[i]);
  return m;
}
}  // namespace

std::shared_ptr<const CompiledProgram> Program::compile_for(const PlacedModule& placed, const CompiledEntry& wanted) {
  auto program = std::make_shared<CompiledProgram>();
  program->lowered = wanted.lowered;
  program->mesh = placed.module.mesh;
  program->committed = placed.committed;
  auto& runtime = runtime::runtime_of(placed.devices->client);
  program->scheduler = runtime.scheduler;
  program->memory = runtime.memory;
  program->order = runtime::task_order(ir::has_effect(*graph_), !placed.devices->all_local());
  if (runtime.engine->partitions()) {
    program->executable = runtime.engine->compile(pinned(placed, options_.donate), placed.devices);
  } else {
    program->executable =
        runtime.engine->compile(placed.module.with_graph(wanted.lowered->partitioned()), placed.devices);
    if (base::verifying()) {
      program->executable = verified(program->executable, *runtime.engine, placed, wanted.lowered->partitioned());
    }
  }
  ++stats_.compiles;
  ++total_compiles;
  const runtime::PortLayouts& layouts = program->executable->layouts();
  for (std::size_t i = 0; i < wanted.args.size(); ++i) {
    const auto& [as_is, moved] = wanted.args[i];
    const ir::Layout& layout = layouts.in[i];
    const Shape& shape = graph_->type(graph_->inputs[i]).shape;
    ShardingPtr sharding = as_is ? nullptr : moved ? moved : public_sharding(placed, layout, shape);
    program->in.push_back({sharding, as_is, layout, layout.vary != 0});
  }
  for (std::size_t i = 0; i < layouts.out.size(); ++i) {
    CompiledProgram::Out out;
    out.type = graph_->type(graph_->outputs[i]);
    out.layout = layouts.out[i];
    out.by_position = out.layout.vary != 0;
    bool given = i < options_.out_shardings.size() && options_.out_shardings[i];
    out.sharding = given ? options_.out_shardings[i] : public_sharding(placed, out.layout, out.type.shape);
    if (!given && !placed.reduced_out[i].empty()) out.sharding = with_reduced(out.sharding, placed.reduced_out[i]);
    out.type.sharding = ir::type_sharding(*out.sharding, out.type.rank());
    out.placement = arrays::look_up(out.sharding, out.type.shape);
    program->out.push_back(std::move(out));
  }
  return program;
}

// --- one operation or one graph at once -----------------------------------------------------------

namespace {
using ProgramPtr = std::shared_ptr<Program>;
constexpr std::int64_t kMaxPrograms = 4096;

std::size_t hash_of(std::size_t h, const ir::Type& t) {
  return base::hash_range(h + static_cast<std::size_t>(t.dtype) * 2 + (t.weak ? 1 : 0), t.shape);
}

struct OpKey {
  const ir::OpDef* op;
  ir::Attrs attrs;
  ir::Types in;
  bool operator==(const OpKey& o) const { return op == o.op && in == o.in && ir::equal(attrs, o.attrs); }
};
struct OpKeyHash {
  std::size_t operator()(const OpKey& k) const {
    std::size_t h = base::hash_mix(std::hash<const void*>{}(k.op), ir::hash_of(k.attrs));
    for (const auto& t : k.in) h = hash_of(h, t);
    return h;
  }
};

struct GraphKey {
  ir::GraphPtr graph;
  bool operator==(const GraphKey& o) const { return graph == o.graph || ir::equal(*graph, *o.graph); }
};
struct GraphKeyHash {
  std::size_t operator()(const GraphKey& k) const { return ir::hash_of(*k.graph); }
};

struct ReshardKey {
  ir::Type type;
  ShardingPtr to;
  bool operator==(const ReshardKey& o) const { return type == o.type && (to == o.to || *to == *o.to); }
};
struct ReshardKeyHash {
  std::size_t operator()(const ReshardKey& k) const { return hash_of(k.to->hash(), k.type); }
};

std::pair<ProgramPtr, std::int64_t> new_program(ir::Builder& b, const ir::Values& out, ProgramOptions options) {
  return {std::make_shared<Program>(b.finish_shared(out), std::move(options)), 1};
}
}  // namespace

namespace {
// The program of an operation is kept without the mesh that is current, so this is looked at before.
void check_current_mesh(const ir::OpDef& op, const ir::Type& t) {
  if (t.sharding == nullptr) return;
  const AbstractMesh& current = get_abstract_mesh();
  if (current.empty() || current == t.sharding->mesh) return;
  throw ValueError(str(op.name(), ": the operand ", t, " is typed over the mesh ", t.sharding->mesh,
                       " but the current mesh is ", current, "; expected one mesh, with equal types of axes"));
}
}  // namespace

std::vector<Array> run_op(const ir::OpDef& op, const std::vector<Array>& in, const ir::Attrs& attrs, const Loc& loc) {
  static auto* cache = new base::LruCache<OpKey, ProgramPtr, OpKeyHash>(kMaxPrograms);
  std::string name(op.name());
  OpKey key{&op, attrs, {}};
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!arrays::usable(in[i])) arrays::throw_unusable(in[i], name.c_str(), str("operand ", i));
    if (in[i].impl()->trace != 0) arrays::throw_leaked(in[i], name.c_str(), str("operand ", i));
    key.in.push_back(in[i].impl()->type);
    check_current_mesh(op, key.in.back());
  }
  ProgramPtr program = cache->get(key, [&] {
    ir::Builder b;
    b.set_loc(loc);
    ir::Values values;
    for (const auto& t : key.in) values.push_back(b.input(t));
    if (b.typing() != ir::Typing::Off) b.set_typing(ir::Typing::Strict);
    ir::Values out = b.add(op, values, attrs);
    ProgramOptions options;
    options.name = name;
    return new_program(b, out, std::move(options));
  });
  return program->call(in);
}

bool can_reshard(const Array& a, const Sharding& to) {
  const auto& impl = *a.impl();
  const auto storage = arrays::storage_of(a, "device_put");
  const bool here = !storage->ready || storage->ready->ready();  // before that, its list of shards is not to be read
  if (here && !runtime::all_on_host(storage->shard_buffers) &&
      !runtime::runtime_of(impl.placement->devices->client).engine->partitions()) {
    return false;
  }
  auto from_axes = sharding::mesh_tiling(*impl.sharding, impl.type.rank());
  auto to_axes = sharding::mesh_tiling(to, impl.type.rank());
  return from_axes && to_axes && sharding::common_refinement({from_axes->axis_sizes, to_axes->axis_sizes});
}

Array reshard(const Array& a, const ShardingPtr& to) {
  static auto* cache = new base::LruCache<ReshardKey, ProgramPtr, ReshardKeyHash>(kMaxPrograms);
  ReshardKey key{a.impl()->type, to};
  ProgramPtr program = cache->get(key, [&] {
    ir::Builder b;
    ir::Values whole{b.input(key.type)};
    ProgramOptions options;
    options.name = "device_put";
    options.out_shardings = {to};
    return new_program(b, whole, std::move(options));
  });
  return program->call({a})[0];
}

std::vector<Array> run_graph(const ir::GraphPtr& graph, const std::vector<Array>& args) {
  static auto* cache = new base::LruCache<GraphKey, ProgramPtr, GraphKeyHash>(kMaxPrograms);
  ProgramPtr program = cache->get(
      GraphKey{graph}, [&] { return std::pair(std::make_shared<Program>(graph, ProgramOptions{}), std::int64_t{1}); });
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!arrays::usable(args[i])) arrays::throw_unusable(args[i], "call", str("argument ", i));
  }
  return program->call(args);
}

}  // namespace tessera::program
