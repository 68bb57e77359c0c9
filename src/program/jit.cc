// SPDX-License-Identifier: Apache-2.0
#include "tessera/jit.h"

#include <algorithm>
#include <atomic>

#include "base/hash.h"
#include "base/strings.h"
#include "hlo/export/export.h"
#include "mesh/mesh_state.h"
#include "ops/shared_attrs.h"
#include "planner/simulate.h"
#include "program/axis_env.h"
#include "program/jit_core.h"
#include "program/program.h"
#include "program/trace.h"
#include "program/trace_once.h"
#include "runtime/program_costs.h"
#include "runtime/sharding_finder.h"
#include "sharding/fits.h"
#include "tessera/config.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/ops.h"
#include "tessera/transfer.h"

namespace tessera {

namespace program {
std::int64_t count_lowerings();
std::int64_t count_compiles();
}  // namespace program

namespace {
std::atomic<std::int64_t> total_traces{0};

// One sharding for all leaves, one a leaf, or none.
std::vector<ShardingPtr> spread(const std::vector<ShardingArg>& given, std::size_t count, const std::string& name,
                                const char* what, const char* unit) {
  std::vector<ShardingPtr> out;
  for (const auto& s : given) out.push_back(s.resolve(name, what));
  if (out.empty() || out.size() == count) return out;
  if (out.size() == 1) return std::vector<ShardingPtr>(count, out[0]);
  throw ValueError(
      str(name, ": ", what, " has ", given.size(), " entries; expected 1 or ", count, ", one for each ", unit));
}
}  // namespace

ShardingPtr ShardingArg::resolve(const std::string& function, const char* argument) const {
  if (!spec_) return sharding_;
  const Mesh& mesh = current_mesh();
  if (mesh.empty()) {
    throw StateError(str(function, ": ", argument, " has the spec ", *spec_,
                         ", which needs a mesh: call inside a MeshScope or give a NamedSharding"));
  }
  return sharding::named(function, argument, mesh, *spec_).share();
}

CompileStats compile_stats() { return {total_traces, program::count_lowerings(), program::count_compiles()}; }

namespace detail {

// What a trace depends on besides the call's own structure, types and static values.
struct CallContext {
  std::vector<Mesh> scope;
  std::vector<AbstractMesh> meshes;  // of the arguments: a body may ask for axis names
  std::size_t config = 0;
  std::string axes;                   // what enclosing maps bind
  std::vector<ops::NameSet> varying;  // of the arguments, in a checked map
  Mesh mesh;                          // of a `CallPlacement`

  CallContext(const std::vector<Array>& leaves, const CallPlacement* placement);
  bool operator==(const CallContext&) const = default;
};

class JitEntry {
 public:
  JitEntry(const FlatCall& call, CallContext around);
  bool is_for(const FlatCall& call, const CallContext& around) const;

  // The key.
  std::string structure;
  ir::Types types;
  std::vector<StaticValue> statics;
  CallContext context;

  program::Traced traced;
  std::shared_ptr<void> result;
  std::unique_ptr<program::Program> program;
  std::vector<ShardingPtr> in_shardings, out_shardings;
  program::Once once;

  // Where shardings are to be found: `program` and the two above are made when the function is first lowered.
  std::shared_ptr<const ShardingFinder> finder;
  program::ProgramOptions to_place;
  std::shared_ptr<const ShardingPlan> plan;
  program::Once placed;
};

struct JitCore::Impl {
  JitOptions options;
  Loc loc;
  mutable std::mutex mutex;
  std::unordered_multimap<std::size_t, std::shared_ptr<JitEntry>> entries;
  std::atomic<std::int64_t> traces{0};

  /// "step (jitted at train.cc:12)".
  std::string made() const { return options.name + (loc.file ? str(" (jitted at ", loc, ")") : std::string()); }
  std::shared_ptr<JitEntry> find(const FlatCall& call, CallContext&& around, std::size_t hash);
  void forget(const std::shared_ptr<JitEntry>& entry, std::size_t hash);
  void build(JitEntry& e, const FlatCall& call, const CallPlacement* placement);
  program::ProgramOptions program_options(const JitEntry& e, const FlatCall& request,
                                          const std::vector<bool>& donated) const;
};

JitCore::JitCore(JitOptions options, const Loc& loc) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->loc = loc;
}
JitCore::~JitCore() = default;

CompileStats JitCore::stats() const {
  CompileStats s;
  std::lock_guard lock(impl_->mutex);
  s.traces = impl_->traces;
  for (const auto& [hash, e] : impl_->entries) {
    if (!e->once.done() || (e->finder && !e->placed.done()) || !e->program) continue;
    s.lowerings += e->program->stats().lowerings;
    s.compiles += e->program->stats().compiles;
  }
  return s;
}

CallContext::CallContext(const std::vector<Array>& leaves, const CallPlacement* placement)
    : scope(mesh_scope_stack()),
      config(config_key()),
      axes(program::axis_env_key()),
      varying(program::varying_of(leaves)) {
  if (mesh::types_in_use()) meshes.push_back(get_abstract_mesh());
  if (placement != nullptr) mesh = placement->mesh;
  const Sharding* before = nullptr;
  for (const auto& a : leaves) {
    const Sharding* sharding = a.impl()->sharding.get();
    if (a.impl()->trace != 0 || sharding == nullptr || sharding == before) continue;
    before = sharding;
    if (const auto* named = dynamic_cast<const NamedSharding*>(sharding)) {
      const auto& own = named->mesh().abstract_mesh();
      if (meshes.empty() || !(meshes.back() == own)) meshes.push_back(own);
    }
  }
}

JitEntry::JitEntry(const FlatCall& call, CallContext around)
    : structure(call.structure), statics(call.statics), context(std::move(around)) {
  for (const auto& a : call.leaves) types.push_back(a.impl()->type);
}

bool JitEntry::is_for(const FlatCall& call, const CallContext& around) const {
  return structure == call.structure && context == around && statics == call.statics &&
         std::ranges::equal(types, call.leaves, {}, {},
                            [](const Array& a) -> const ir::Type& { return a.impl()->type; });
}

namespace {
std::size_t hash_of(const FlatCall& call) {
  std::size_t h = std::hash<std::string>{}(call.structure);
  for (const auto& a : call.leaves) {
    const ir::Type& t = a.impl()->type;
    h = base::hash_range(h + static_cast<std::size_t>(t.dtype), t.shape);
  }
  for (const auto& s : call.statics) h = base::hash_mix(h, s.hash);
  return h;
}
}  // namespace

std::shared_ptr<JitEntry> JitCore::Impl::find(const FlatCall& call, CallContext&& around, std::size_t hash) {
  std::lock_guard lock(mutex);
  auto [begin, end] = entries.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second->is_for(call, around)) return it->second;
  }
  return entries.emplace(hash, std::make_shared<JitEntry>(call, std::move(around)))->second;
}

// An entry that could not be made, unless another thread has made it since.
void JitCore::Impl::forget(const std::shared_ptr<JitEntry>& entry, std::size_t hash) {
  std::lock_guard lock(mutex);
  auto [begin, end] = entries.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second != entry) continue;
    if (!entry->once.done()) entries.erase(it);
    return;
  }
}

void JitCore::Impl::build(JitEntry& e, const FlatCall& call, const CallPlacement* placement) {
  std::vector<bool> donated =
      program::donated_arguments(options.donate_argnums, call.leaves_per_arg.size(), call.static_argnums, options.name);
  FlatBody body = call.function();
  ir::Types types = e.types;
  if (placement == nullptr) {
    // An argument from the host is typed as it will be placed.
    const auto in = spread(options.in_shardings.list(), call.leaves.size(), options.name, "in_shardings", "argument");
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i] && types[i].sharding == nullptr) types[i].sharding = ir::type_sharding(*in[i], types[i].rank());
    }
  }
  e.traced = program::trace(
      [&](const std::vector<Array>& tracers) {
        ++traces;
        ++total_traces;
        return body.run(tracers);
      },
      types, e.context.varying);
  e.result = body.like();
  if (placement != nullptr) {
    e.in_shardings = placement->in_shardings();
    e.out_shardings = placement->out_shardings();
  } else {
    e.in_shardings = spread(options.in_shardings.list(), call.leaves.size(), options.name, "in_shardings", "argument");
    e.out_shardings =
        spread(options.out_shardings, e.traced.graph->outputs.size(), options.name, "out_shardings", "result");
  }
  for (std::size_t i = 0; i < e.out_shardings.size(); ++i) {
    const auto* named = dynamic_cast<const NamedSharding*>(e.out_shardings[i].get());
    const auto& type = e.traced.graph->type(e.traced.graph->outputs[i]);
    if (named && static_cast<std::int64_t>(named->spec().size()) > type.rank()) {
      throw ValueError(str(options.name, ": out_shardings[", i, "] has ", named->spec().size(), " entries, ",
                           named->spec(), ", but the result ", type, " has rank ", type.rank()));
    }
  }
  program::ProgramOptions placing = program_options(e, call, donated);
  if (placement == nullptr && options.in_shardings.finder()) {
    e.to_place = std::move(placing);
    e.finder = options.in_shardings.finder();
    return;
  }
  e.program = std::make_unique<program::Program>(e.traced.graph, std::move(placing));
}

program::ProgramOptions JitCore::Impl::program_options(const JitEntry& e, const FlatCall& request,
                                                       const std::vector<bool>& donated) const {
  program::ProgramOptions p;
  p.name = options.name;
  p.made = made();
  p.in_shardings = e.in_shardings;
  p.out_shardings = e.out_shardings;
  p.arg_names = request.names.all();
  for (std::size_t arg = 0; arg < request.leaves_per_arg.size(); ++arg) {
    p.donate.insert(p.donate.end(), request.leaves_per_arg[arg], donated[arg]);
  }
  return p;
}

namespace {

[[noreturn]] void throw_recursion(const JitEntry& e, const std::string& made) {
  throw StateError(str(made, ": the function calls itself while it is traced for the arguments (", base::join(e.types),
                       "), and would do so without end; use while_loop, fori_loop or scan, or end the recursion by a "
                       "static argument or another shape"));
}

}  // namespace

std::shared_ptr<JitEntry> JitCore::entry(const FlatCall& call, const CallPlacement* placement) {
  program::check_leaves(call.leaves, impl_->options.name.c_str(), call.names, call.needs_data);
  const std::size_t hash = hash_of(call);
  auto found = impl_->find(call, CallContext(call.leaves, placement), hash);
  // Traced outside the lock (a body may call other jitted functions, or this one); racing callers wait for the first.
  if (found->once.done()) return found;
  try {
    found->once.run([&] { impl_->build(*found, call, placement); }, [&] { throw_recursion(*found, impl_->made()); });
  } catch (...) {
    impl_->forget(found, hash);
    throw;
  }
  return found;
}

namespace {

// Finds the shardings of a traced function that has none yet.
void place(JitEntry& e) {
  const std::size_t arguments = e.types.size();
  FoundShardings found =
      e.finder->find({e.to_place.name, e.traced.graph, arguments, e.to_place.donate, e.out_shardings});
  program::ProgramOptions options = e.to_place;
  options.in_shardings = found.arguments;
  e.program = std::make_unique<program::Program>(std::move(found.graph), std::move(options));
  e.in_shardings = std::move(found.arguments);
  e.plan = std::move(found.plan);
}

// The entry's program, whose shardings are found by the first that asks for it.
program::Program& placed(JitEntry& e) {
  if (e.finder && !e.placed.done()) {
    e.placed.run([&] { place(e); }, [&] { throw_recursion(e, e.to_place.name); });
  }
  return *e.program;
}

std::vector<Array> with_captures(const JitEntry& e, const std::vector<Array>& leaves) {
  std::vector<Array> all = leaves;
  all.insert(all.end(), e.traced.captures.begin(), e.traced.captures.end());
  return all;
}
}  // namespace

namespace {
// An argument of a call inside a trace, placed as `in_shardings` says: over explicit axes it is so already.
Array entered(const JitEntry& e, const Array& a, std::size_t i) {
  const ShardingPtr& want = e.in_shardings[i];
  const ir::Type& own = a.impl()->type;
  const auto* typed = ir::type_sharding(*want, own.rank());
  if (typed == nullptr || own.sharding == nullptr || own.sharding->plain_whole() || own.sharding == typed) {
    return reshard(a, want);
  }
  throw ValueError(str(e.program->name(), ": argument ", i, " has the type ", own, "; in_shardings wants ",
                       spec_text(*typed), " (reshard moves it)"));
}
}  // namespace

std::vector<Array> JitCore::call(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves) {
  program::Program& program = placed(*entry);
  const bool eager = program::Trace::current() == nullptr;
  if (eager && entry->traced.captures.empty()) return program.call(leaves);
  std::vector<Array> all = with_captures(*entry, leaves);
  if (eager) return program.call(all);
  for (std::size_t i = 0; i < entry->in_shardings.size(); ++i) {
    if (!entry->in_shardings[i]) continue;
    all[i] = entered(*entry, all[i], i);
  }
  std::vector<Array> out = program::bind_graph(program.graph(), all, Loc::current());
  for (std::size_t i = 0; i < entry->out_shardings.size(); ++i) {
    if (entry->out_shardings[i]) out[i] = reshard(out[i], entry->out_shardings[i]);
  }
  return out;
}

const std::shared_ptr<void>& JitCore::result(const std::shared_ptr<JitEntry>& entry) { return entry->result; }
std::string JitCore::graph_text(const std::shared_ptr<JitEntry>& entry) { return to_string(*entry->traced.graph); }
std::shared_ptr<const void> JitCore::lower(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves) {
  return placed(*entry).lower(with_captures(*entry, leaves));
}
namespace {
const program::Lowering& lowering(const std::shared_ptr<const void>& lowered) {
  return *static_cast<const program::Lowering*>(lowered.get());
}
}  // namespace
std::string JitCore::lowered_text(const std::shared_ptr<const void>& lowered) {
  return to_string(*lowering(lowered).partitioned());
}
std::string JitCore::stablehlo_text(const std::shared_ptr<JitEntry>& entry, const std::vector<Array>& leaves,
                                    const StablehloTextOptions& options) {
  ir::Module module = placed(*entry).place(with_captures(*entry, leaves)).module;
  module.name = entry->program->name() == "jit" ? "jit" : "jit_" + entry->program->name();
  return hlo::export_module(module, {options.shardy.value_or(config().use_shardy), options.replicas});
}
CommPlan JitCore::comm_plan(const std::shared_ptr<const void>& lowered) { return lowering(lowered).comm_plan(); }
Simulation JitCore::simulate(const std::shared_ptr<JitEntry>& entry, const std::shared_ptr<const void>& lowered,
                             const ClusterModel& cluster) {
  cluster.check();
  return planner::simulate(lowering(lowered).partitioned(), cluster, entry->program->donated());
}
std::shared_ptr<const ShardingPlan> JitCore::sharding_plan(const std::shared_ptr<JitEntry>& entry) {
  if (entry->plan) return entry->plan;
  throw StateError(str(entry->program->name(),
                       ": sharding_plan: in_shardings were written, so there is no plan that "
                       "was found; expected in_shardings = automatic(cluster)"));
}

struct JitExecutable {
  std::shared_ptr<JitEntry> entry;
  std::shared_ptr<const program::CompiledProgram> program;
  std::vector<Array> arguments;  // those it was compiled for, without data
};

std::shared_ptr<const JitExecutable> JitCore::compile(const std::shared_ptr<JitEntry>& entry,
                                                      const std::vector<Array>& leaves) {
  auto out = std::make_shared<JitExecutable>();
  out->entry = entry;
  out->program = placed(*entry).compile(with_captures(*entry, leaves));
  for (const auto& a : leaves) out->arguments.push_back(arrays::like_without_data(a));
  return out;
}

namespace {

// Whether the executable takes the array where it is placed.
bool same_place(const arrays::ArrayImpl& a, const arrays::ArrayImpl& compiled_for) {
  return a.replicas_equal == compiled_for.replicas_equal && a.sharding && compiled_for.sharding &&
         (a.sharding == compiled_for.sharding || *a.sharding == *compiled_for.sharding ||
          a.sharding->is_equivalent_to(*compiled_for.sharding, a.type.rank()));
}

}  // namespace

std::vector<Array> JitCore::run(const JitExecutable& executable, const FlatCall& call) {
  const JitEntry& entry = *executable.entry;
  const std::string name = entry.program->name() + " (compiled)";
  if (program::Trace::current() != nullptr) {
    throw StateError(str(name,
                         ": a compiled program cannot be called inside a traced function; call the jitted "
                         "function there"));
  }
  program::check_leaves(call.leaves, name.c_str(), call.names);
  if (call.structure != entry.structure) {
    throw TypeError(str(name, ": the arguments have another structure than those that it was compiled for"));
  }
  if (call.statics != entry.statics) {
    throw ValueError(str(name, ": a static argument has another value than the one that it was compiled for"));
  }
  std::vector<Array> leaves = call.leaves;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto& given = *leaves[i].impl();
    const auto& wanted = *executable.arguments[i].impl();
    if (given.type.shape != wanted.type.shape || leaves[i].dtype() != executable.arguments[i].dtype()) {
      throw TypeError(str(name, ": ", call.names(i), " is ", arrays::visible(given.type), "; it was compiled for ",
                          arrays::visible(wanted.type)));
    }
    if (!executable.program->in[i].as_is || same_place(given, wanted)) continue;
    if (given.committed) {
      throw ValueError(str(name, ": ", call.names(i), " has sharding ", given.sharding->text(),
                           "; it was compiled for ", wanted.sharding->text(), "; use device_put, or compile again"));
    }
    leaves[i] = device_put(leaves[i], wanted.sharding);
  }
  return entry.program->run(executable.program, with_captures(entry, leaves));
}
const std::shared_ptr<void>& JitCore::result(const JitExecutable& executable) { return executable.entry->result; }
CostAnalysis JitCore::cost_analysis(const JitExecutable& executable) {
  const program::CompiledProgram& program = *executable.program;
  if (auto told = program.executable->cost_analysis()) return *std::move(told);
  return runtime::costs_of(*program.lowered->partitioned());
}
CompiledMemoryStats JitCore::memory_analysis(const JitExecutable& executable) {
  const program::CompiledProgram& program = *executable.program;
  if (auto told = program.executable->memory_analysis()) return *std::move(told);
  return runtime::memory_of(*program.lowered->partitioned(), executable.entry->program->donated());
}

std::vector<ShapeDtype> eval_shapes(const LeafFn& f, const std::vector<Array>& like) {
  ir::Types types;
  for (const auto& a : like) {
    const ir::Type& t = arrays::checked(a, "eval_shape")->type;  // weak scalars as those of the program come
    types.push_back({t.weak && t.shape.empty() ? arrays::with_digits(t.dtype) : t.dtype, t.shape, t.weak});
  }
  std::vector<ShapeDtype> out;
  for (const auto& own : program::trace(f, types).graph->output_types()) {
    const ir::Type t = arrays::visible(own);
    out.push_back({t.shape, t.dtype, t.weak});
  }
  return out;
}

}  // namespace detail

bool ShapeDtype::operator==(const ShapeDtype& o) const {
  const bool placed = sharding && o.sharding ? *sharding == *o.sharding : sharding == o.sharding;
  return shape == o.shape && dtype == o.dtype && weak == o.weak && placed;
}
std::string to_string(const ShapeDtype& s) { return to_string(ir::Type{s.dtype, s.shape, s.weak}); }

}  // namespace tessera
