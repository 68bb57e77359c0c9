// SPDX-License-Identifier: Apache-2.0
#include "program/program.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "array/array_stats.h"
#include "base/check.h"
#include "base/strings.h"
#include "base/verify_mode.h"
#include "ops/collective/shard_map_op.h"
#include "program/program_plan.h"
#include "program/trace.h"
#include "program/verified_program.h"
#include "spmd/inline_maps.h"
#include "tessera/config.h"
#include "tessera/error.h"

namespace tessera::program {

namespace {
std::atomic<std::int64_t> total_lowerings{0};
std::atomic<std::int64_t> total_compiles{0};

MeshUse mesh_of(const ops::ShardMap& p) {
  MeshUse use;
  use.op = "shard_map";
  use.constraint.mesh_sizes = p.mesh_sizes;
  use.constraint.mesh_names = p.mesh_names;
  use.constraint.devices = p.devices;
  return use;
}

void collect_constraints(const ir::Graph& g, std::vector<MeshUse>& out) {
  for (const auto& e : g.eqns) {
    if (e.op == &ops::def::sharding_constraint) out.push_back({ir::get<ops::ShardingConstraint>(e.attrs)});
    if (e.op == &ops::def::shard_map) out.push_back(mesh_of(ir::get<ops::ShardMap>(e.attrs)));
    for (const auto& sub : e.op->subgraphs(e.attrs)) collect_constraints(*sub, out);
  }
}

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
  bool operator==(const CallKey&) const = default;
};

CallKey key_of(const std::vector<Array>& args) {
  CallKey key;
  key.args.reserve(args.size());
  for (const auto& a : args) {
    const auto& impl = *a.impl();
    key.args.push_back({impl.sharding.get(), (impl.committed ? 1U : 0U) | (impl.replicas_equal ? 2U : 0U)});
  }
  const Mesh& scope = current_mesh();
  key.scope = scope.empty() ? nullptr : scope.identity();
  bool any_placed = std::any_of(key.args.begin(), key.args.end(), [](const auto& a) { return a.sharding != nullptr; });
  if (!any_placed) key.client = &Client::current().extensions();
  key.config = config_key();
  return key;
}
}  // namespace

std::int64_t count_lowerings() { return total_lowerings; }
std::int64_t count_compiles() { return total_compiles; }

struct Program::CompiledEntry {
  std::shared_ptr<const LoweredProgram> lowered;
  std::shared_ptr<const mesh::DeviceList> devices;
  std::string known;  // outputs are said in terms of the meshes that were named
  bool committed;
  std::vector<ShardingPtr> in;
  std::shared_ptr<const CompiledProgram> program;
};
struct Program::CallEntry {
  CallKey key;
  std::vector<ShardingPtr> keep;  // the addresses in `key` stay taken
  std::shared_ptr<const CompiledProgram> program;
};

Program::Program(ir::GraphPtr graph, ProgramOptions options) : graph_(std::move(graph)), options_(std::move(options)) {
  collect_constraints(*graph_, constraints_);
  const std::string& made = options_.made.empty() ? options_.name : options_.made;
  for (std::size_t i = 0; i < options_.donate.size(); ++i) {
    donated_as_.push_back(options_.donate[i]
                              ? std::make_shared<const std::string>(str("donated to ", made, " as ", arg_name(i)))
                              : nullptr);
  }
}

spmd::Problem problem_of(const ir::GraphPtr& graph, const Program::Plan& plan) {
  spmd::ResolveMap axes_of_map = [&](const ops::ShardMap& p) {
    const KnownMesh* k = plan.find(p.mesh_sizes, p.mesh_names);
    TESSERA_CHECK(k != nullptr, "the mesh of a shard_map is not known");
    return k->axes;
  };
  return {spmd::expand_maps(plan.options.deterministic ? spmd::with_fixed_leaves(graph) : graph, axes_of_map),
          plan.mesh,
          plan.inputs,
          plan.outputs,
          [&plan](const ops::ShardingConstraint& c) { return plan.resolve(c); },
          plan.options};
}

std::shared_ptr<const LoweredProgram> Lowering::program() const {
  std::lock_guard lock(mutex_);
  if (program_) return program_;
  spmd::Problem problem = problem_of(graph_, plan_);
  auto layouts = spmd::propagate(problem);
  auto program = std::make_shared<LoweredProgram>();
  program->graph = spmd::partition(problem, layouts);
  program->plan = spmd::comm_plan(*program->graph);
  program_ = std::move(program);
  return program_;
}

std::shared_ptr<const Lowering> Program::lowering_for(const Plan& plan) {
  for (const auto& l : lowered_) {
    if (l->plan().lowers_like(plan)) return l;
  }
  ++stats_.lowerings;
  ++total_lowerings;
  return lowered_.emplace_back(std::make_shared<const Lowering>(graph_, plan));
}

std::shared_ptr<const Lowering> Program::lower(const std::vector<Array>& args) {
  Plan plan = analyse(args);
  std::lock_guard lock(mutex_);
  return lowering_for(plan);
}

std::shared_ptr<const CompiledProgram> Program::compile(const std::vector<Array>& args) { return compiled_for(args); }

std::shared_ptr<const CompiledProgram> Program::compiled_for(const std::vector<Array>& args) {
  CallKey key = key_of(args);
  std::lock_guard lock(mutex_);
  std::shared_ptr<const CompiledProgram> found;
  for (const auto& e : calls_) {
    if (e->key == key) {
      found = e->program;
      break;
    }
  }
  if (!found) {
    Plan plan = analyse(args);
    auto lowered = lowering_for(plan)->program();
    std::string known;
    for (const auto& k : plan.known)
      known += str(k.mesh.abstract_mesh(), k.mesh.is_concrete() ? "" : "?", k.uneven ? "u;" : ";");
    std::vector<ShardingPtr> in;
    const auto& g = *lowered->graph;
    for (std::size_t i = 0; i < args.size(); ++i) {
      const auto& impl = *args[i].impl();
      if (plan.wanted_in[i]) {
        in.push_back(plan.wanted_in[i]);
      } else if (plan.inputs[i] && impl.placement && impl.placement->devices == plan.devices) {
        in.push_back(nullptr);  // lies right
      } else {
        in.push_back(express(plan, g.layout(g.inputs[i]), impl.type.shape));
      }
    }
    for (const auto& e : compiled_) {
      if (e->lowered != lowered || e->devices != plan.devices || e->known != known || e->committed != plan.committed)
        continue;
      bool same = true;
      for (std::size_t i = 0; i < in.size() && same; ++i) {
        same = (in[i] == nullptr) == (e->in[i] == nullptr) && (!in[i] || *in[i] == *e->in[i]);
      }
      if (same) found = e->program;
    }
    if (!found) {
      auto program = std::make_shared<CompiledProgram>();
      program->lowered = lowered;
      program->mesh = plan.mesh;
      program->committed = plan.committed;
      auto& runtime = runtime::runtime_of(plan.devices->client);
      program->scheduler = runtime.scheduler;
      program->order = runtime::task_order(ir::has_effect(*lowered->graph), !plan.devices->all_local());
      program->executable = runtime.engine->compile(lowered->graph, plan.devices);
      if (base::verifying()) {
        program->executable = verified(program->executable, *runtime.engine, graph_, plan, lowered->graph);
      }
      ++stats_.compiles;
      ++total_compiles;
      for (std::size_t i = 0; i < args.size(); ++i) {
        const auto& layout = g.layout(g.inputs[i]);
        program->in.push_back({in[i], in[i] == nullptr, layout, layout.vary != 0});
      }
      for (auto v : g.outputs) {
        const auto& layout = g.layout(v);
        CompiledProgram::Out out;
        out.type = g.type(v);
        out.layout = layout;
        out.by_position = layout.vary != 0;
        out.sharding = express(plan, layout, out.type.shape);
        auto n = program->out.size();
        if (n < options_.out_shardings.size() && options_.out_shardings[n]) out.sharding = options_.out_shardings[n];
        out.placement = arrays::look_up(out.sharding, out.type.shape);
        program->out.push_back(std::move(out));
      }
      found = program;
      compiled_.push_back(
          std::make_shared<CompiledEntry>(CompiledEntry{lowered, plan.devices, known, plan.committed, in, program}));
    }
    CallEntry entry{key, {}, found};
    for (const auto& a : args) entry.keep.push_back(a.impl()->sharding);
    if (calls_.size() >= 64) calls_.erase(calls_.begin());
    calls_.push_back(std::make_shared<CallEntry>(std::move(entry)));
  }
  if (std::int64_t budget = CommBudget::current(); budget >= 0) {
    const auto& plan = found->lowered->plan;
    if (plan.bytes_per_device() > budget) {
      throw CommBudgetError(str(options_.name, ": the program moves ", plan.bytes_per_device(),
                                " bytes per device; the CommBudget allows ", budget, "\n", plan));
    }
  }
  return found;
}

// --- one operation or one graph at once -----------------------------------------------------------

namespace {
struct OpKey {
  const ir::OpDef* op;
  ir::Attrs attrs;
  ir::Types in;
  bool operator==(const OpKey& o) const { return op == o.op && in == o.in && ir::equal(attrs, o.attrs); }
};
struct OpKeyHash {
  std::size_t operator()(const OpKey& k) const {
    std::size_t h = base::hash_mix(std::hash<const void*>{}(k.op), ir::hash_of(k.attrs));
    for (const auto& t : k.in)
      h = base::hash_range(h + static_cast<std::size_t>(t.dtype) * 2 + (t.weak ? 1 : 0), t.shape);
    return h;
  }
};
constexpr std::size_t kMaxPrograms = 4096;
}  // namespace

std::vector<Array> run_op(const ir::OpDef& op, const std::vector<Array>& in, const ir::Attrs& attrs, const Loc& loc) {
  static auto* mutex = new std::mutex;
  static auto* cache = new std::unordered_map<OpKey, std::shared_ptr<Program>, OpKeyHash>;
  std::string name(op.name());
  OpKey key{&op, attrs, {}};
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!arrays::usable(in[i])) arrays::throw_unusable(in[i], name.c_str(), str("operand ", i));
    if (in[i].impl()->trace != 0) arrays::throw_leaked(in[i], name.c_str(), str("operand ", i));
    key.in.push_back(in[i].impl()->type);
  }
  std::shared_ptr<Program> program;
  {
    std::lock_guard lock(*mutex);
    auto it = cache->find(key);
    if (it != cache->end()) program = it->second;
  }
  if (!program) {
    ir::Builder b;
    b.set_loc(loc);
    ir::Values values;
    for (const auto& t : key.in) values.push_back(b.input(t));
    ir::Values out = b.add(op, values, attrs);
    ProgramOptions options;
    options.name = name;
    program = std::make_shared<Program>(b.finish_shared(out), std::move(options));
    std::lock_guard lock(*mutex);
    if (cache->size() >= kMaxPrograms) cache->clear();
    cache->emplace(std::move(key), program);
  }
  return program->call(in);
}

std::vector<Array> run_graph(const ir::GraphPtr& graph, const std::vector<Array>& args) {
  static auto* mutex = new std::mutex;
  static auto* cache = new std::unordered_map<std::size_t, std::vector<std::shared_ptr<Program>>>;
  std::size_t hash = ir::hash_of(*graph);
  std::shared_ptr<Program> program;
  {
    std::lock_guard lock(*mutex);
    for (const auto& p : (*cache)[hash]) {
      if (ir::equal(*p->graph(), *graph)) program = p;
    }
    if (!program) {
      if (cache->size() >= kMaxPrograms) cache->clear();
      program = std::make_shared<Program>(graph, ProgramOptions{});
      (*cache)[hash].push_back(program);
    }
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!arrays::usable(args[i])) arrays::throw_unusable(args[i], "call", str("argument ", i));
  }
  return program->call(args);
}

}  // namespace tessera::program
