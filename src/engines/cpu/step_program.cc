// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/step_program.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "base/verify_mode.h"
#include "engines/cpu/chrome_trace.h"
#include "engines/cpu/overlap.h"
#include "engines/cpu/passes/find_windows.h"
#include "engines/cpu/passes/fold_constants.h"
#include "engines/cpu/passes/fold_sections.h"
#include "engines/cpu/passes/fold_transposes.h"
#include "engines/cpu/passes/fuse.h"
#include "engines/cpu/passes/inline_calls.h"
#include "engines/cpu/passes/merge.h"
#include "engines/cpu/passes/recompute_cheap.h"
#include "engines/cpu/pipeline.h"
#include "engines/cpu/steps/fixed_program.h"
#include "engines/cpu/verify_steps.h"
#include "ir/op_def.h"
#include "ops/collective/transfer_bytes.h"
#include "ops/define_op.h"
#include "tessera/config.h"
#include "tessera/error.h"

namespace tessera::cpu {

namespace {
constexpr double kWorthIt = 20000;  // waking a worker and waiting for it takes some microseconds
}  // namespace

bool sole_owner(const BufferPtr& b) {
  if (b.use_count() != 1) return false;
  // Its release and acquire order earlier owners' reads before our writes.
  BufferPtr synchronize = b;  // NOLINT(performance-unnecessary-copy-initialization)
  return b->exclusive();
}

bool worth_threads(double cost) { return cost >= kWorthIt; }
bool worth_spreading(std::int64_t n, double cost) { return n > 1 && worth_threads(static_cast<double>(n) * cost); }

// Where some threads would have one more than others, or none, each item is shared out instead, if its kernel can.
bool divides_fairly(std::int64_t n) {
  const int threads = base::num_threads();
  return n % threads == 0 || threads % n == 0 || n >= std::int64_t{4} * threads;
}

void spread(std::int64_t n, double cost, const std::function<void(std::int64_t)>& body) {
  auto serial = [&] {
    for (std::int64_t k = 0; k < n; ++k) body(k);
  };
  if (!worth_spreading(n, cost) || base::in_parallel_region() || !divides_fairly(n)) return serial();
  auto grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(kWorthIt / 4 / std::max(cost, 1.0)));
  base::parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) body(k);
  });
}

namespace {
// By value the one equation that reads it; negative where none, several, or the program's caller do.
std::vector<std::int32_t> only_readers(const ir::Graph& g) {
  constexpr std::int32_t kNone = -1;
  constexpr std::int32_t kOthers = -2;
  std::vector<std::int32_t> out(g.num_values(), kNone);
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    for (auto v : g.eqns[i].in) out[at(v)] = out[at(v)] == kNone ? static_cast<std::int32_t>(i) : kOthers;
  }
  for (auto v : g.outputs) out[at(v)] = kOthers;
  return out;
}

FusedGraph rewritten(const ir::GraphPtr& graph) {
  return recompute_cheap(find_windows(fold_sections(fold_transposes(merge_equal(fold_constants(graph))))));
}
}  // namespace

std::shared_ptr<const Program> Program::compile(const ir::GraphPtr& graph, Context& context) {
  TESSERA_CHECK(graph->mesh && graph->layouts.size() == graph->num_values(), "the graph is not partitioned");
  auto program = std::make_shared<Program>();
  program->debug_nans_ = config().debug_nans;
  program->graph_ = inline_calls(graph);
  bool rewrites = !program->debug_nans_ && !context.plain();
  FusedGraph fused =
      rewrites ? rewritten(program->graph_) : FusedGraph{program->graph_, fusion_groups(*program->graph_, false)};
  program->graph_ = fused.graph;
  const ir::Graph& g = *program->graph_;
  for (auto v : g.inputs) {
    program->input_tables_.push_back(context.table(g.layout(v)));
    bool same = even(g.type(v).shape, g.layout(v), context.mesh());
    program->input_bytes_.push_back(same ? local_type(g.type(v), g.layout(v), context.mesh(), 0).nbytes() : -1);
  }
  auto readers = only_readers(g);
  std::vector<bool> done(g.eqns.size());  // as part of another equation's step
  for (const auto& group : fused.groups) {
    if (done[group.eqns.back()]) continue;
    const ir::Eqn* e = &g.eqns[group.eqns.back()];
    StepPtr step;
    if (group.eqns.size() > 1) {
      step = make_fused_step(g, group, context);
      if (base::verifying()) step = make_checked_step(g, group, std::move(step), context);
    } else if (!e->out.empty() && !context.plain()) {
      std::size_t reduced = 0;
      step = make_summed_product_step(g, *e, readers[at(e->out[0])], context, reduced);
      if (step) {
        done[reduced] = true;
        e = &g.eqns[reduced];
      }
    }
    if (!step) step = make_reshard_step(g, *e, context);
    if (!step) step = make_reinterpret_step(g, *e, context);
    if (!step) step = make_group_step(g, *e, context);
    if (!step) step = make_halo_step(g, *e, context);
    if (!step) step = make_control_step(g, *e, context);
    if (!step) step = make_compute_step(g, *e, context);
    step->loc = e->loc;
    step->ordered = ir::has_effect(*e);
    step->rounds = context.plain() && rounds(g, *e);
    if (group.eqns.size() == 1) {
      step->received = ops::received(g, *e);
      step->axes = ops::exchange_axes(g, *e);
    }
    program->cost_ += step->cost();
    program->steps_.push_back(std::move(step));
  }
  if (context.distributed()) {
    Overlapped all = overlapped(std::move(program->steps_), g.num_values());
    program->steps_ = std::move(all.steps);
    program->exchanges_ = all.exchanges;
  }
  program->free_early(!context.plain());
  program->fixed_ = FixedProgram::of_program(*program, context);
  // Others look at every step, or have other processes to answer between them.
  const bool alone = !program->fixed_ && !context.plain() && !context.distributed() && !program->debug_nans_;
  if (alone) program->pipelines_ = Pipeline::find(program->steps_, g);
  return program;
}

Program::Program() = default;
Program::~Program() = default;

void Program::free_early(bool reuse) {
  constexpr int kKeep = -2;
  std::vector<int> last(graph_->num_values(), -1);
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    for (auto v : steps_[s]->reads) last[at(v)] = static_cast<int>(s);
    for (auto v : steps_[s]->writes) last[at(v)] = static_cast<int>(s);
  }
  for (auto v : graph_->outputs) last[at(v)] = kKeep;
  std::vector<bool> again(graph_->num_values());
  repeated_outputs_.resize(graph_->outputs.size());
  for (std::size_t j = graph_->outputs.size(); j-- > 0;) {
    repeated_outputs_[j] = again[at(graph_->outputs[j])];
    again[at(graph_->outputs[j])] = true;
  }
  for (auto v : graph_->inputs) {
    if (last[at(v)] == -1) unused_inputs_.push_back(v);
  }
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    Step& step = *steps_[s];
    std::vector<bool> dies;
    for (auto v : step.reads) {
      dies.push_back(last[at(v)] == static_cast<int>(s));
      if (dies.back()) step.frees.push_back(v);
    }
    for (auto v : step.writes) {
      if (last[at(v)] == static_cast<int>(s)) step.frees.push_back(v);
    }
    if (reuse) step.set_dying(dies);
  }
}

void Program::check_args(const std::vector<const ShardBuffers*>& args) const {
  for (std::size_t i = 0; i < graph_->inputs.size(); ++i) {
    const ShardBuffers& arg = *args[i];
    const LayoutTable& table = *input_tables_[i];
    TESSERA_CHECK(static_cast<std::int64_t>(arg.size()) == table.map.count,
                  str("argument ", i, " has ", arg.size(), " shards, its layout ", table.map.count));
    for (std::size_t k = 0; k < arg.size(); ++k) {
      if (table.first_local[k] < 0) continue;
      TESSERA_CHECK(arg[k] != nullptr, str("argument ", i, " lacks shard ", k));
      TESSERA_CHECK(arg[k]->elsewhere() == nullptr,
                    str("shard ", k, " of argument ", i, " is in the memory of ", arg[k]->elsewhere()->place()));
      TESSERA_CHECK(
          input_bytes_[i] < 0 || arg[k]->nbytes() == input_bytes_[i],
          str("shard ", k, " of argument ", i, " has ", arg[k]->nbytes(), " bytes, expected ", input_bytes_[i]));
    }
  }
}

std::vector<ShardBuffers> Program::run(std::vector<ShardBuffers> args, Run& run, const std::vector<ShardBuffers>& into,
                                       const std::vector<const ShardBuffers*>& borrowed) const {
  TESSERA_CHECK(args.size() == graph_->inputs.size(),
                str(args.size(), " arguments, ", graph_->inputs.size(), " inputs"));
  std::vector<const ShardBuffers*> read;
  read.reserve(args.size());
  bool lent = true;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool own = i >= borrowed.size() || borrowed[i] == nullptr;
    read.push_back(own ? &args[i] : borrowed[i]);
    lent = lent && !own;
  }
  check_args(read);
  // Operands that are given away give their memory to results, which general programs alone do.
  if (fixed_ && lent && into.empty() && FixedProgram::serves(run)) return fixed_->run(read, run);
  Frame frame{run, Slots(graph_->num_values()), {}};
  if (!into.empty()) {
    frame.into.resize(graph_->num_values());
    for (std::size_t j = 0; j < into.size(); ++j) frame.into[at(graph_->outputs[j])] = into[j];
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    auto v = at(graph_->inputs[i]);
    if (read[i] != &args[i]) {
      frame.slots.borrow(v, *read[i]);
    } else {
      frame.slots.own(v) = std::move(args[i]);
    }
  }
  frame.under_way.resize(exchanges_);
  for (auto v : unused_inputs_) frame.slots.drop(at(v));
  run_steps(frame);
  std::vector<ShardBuffers> results;
  results.reserve(graph_->outputs.size());
  for (std::size_t j = 0; j < graph_->outputs.size(); ++j) {
    auto v = at(graph_->outputs[j]);
    results.push_back(repeated_outputs_[j] ? frame.slots[v] : frame.slots.take(v));
  }
  return results;
}

void Program::run_steps(Frame& frame) const {
  // One thread has nobody to wait for; times by step are those of steps one after the other.
  const bool pipelined = !base::in_parallel_region() && !tracing();
  auto pipeline = pipelines_.begin();
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    if (pipelined && pipeline != pipelines_.end() && pipeline->first() == s) {
      pipeline->run(frame);
      s = pipeline->end() - 1;
      ++pipeline;
      continue;
    }
    const Step& step = *steps_[s];
    if (frame.run.shake != 0 && step.rounds) {
      run_shaken(*graph_, step, frame);
    } else if (tracing()) {
      run_traced(step, frame);
    } else {
      step.run(frame);
    }
    if (debug_nans_) check_nans(step, frame);
    for (auto v : step.frees) frame.slots.drop(at(v));
    if (exchanges_ > 0) frame.run.collectives->progress();
  }
}

namespace {
// By position the next one, round and round, of those that differ from it in these axes alone.
std::vector<std::size_t> next_along(const Dims& axes, const ir::MeshAxes& mesh) {
  Dims strides(mesh.sizes.size(), 1);
  for (std::size_t a = strides.size(); a-- > 1;) strides[a - 1] = strides[a] * mesh.sizes[a];
  std::vector<std::size_t> next(at(mesh.num_positions()));
  for (std::size_t p = 0; p < next.size(); ++p) {
    auto to = static_cast<std::int64_t>(p);
    for (std::size_t k = axes.size(); k-- > 0;) {  // counts up, the last axis first
      const std::size_t a = at(axes[k]);
      const bool last = to / strides[a] % mesh.sizes[a] == mesh.sizes[a] - 1;
      to += last ? -strides[a] * (mesh.sizes[a] - 1) : strides[a];
      if (!last) break;
    }
    next[p] = at(to);
  }
  return next;
}
}  // namespace

void Program::run_traced(const Step& step, Frame& frame) const {
  auto bytes_of = [&](const std::vector<ir::ValueId>& values) {
    std::int64_t bytes = 0;
    for (auto v : values) {
      for (const auto& b : frame.slots[at(v)]) bytes += b ? b->nbytes() : 0;
    }
    return bytes;
  };
  Traffic bytes{.read = bytes_of(step.reads)};  // before a result takes an operand's memory
  TraceStart begin = TraceStart::now();
  step.run(frame);
  bytes.written = bytes_of(step.writes);
  bool alone = frame.run.collectives == nullptr;
  std::vector<std::int64_t> results(static_cast<std::size_t>(graph_->mesh->num_positions()), alone ? 0 : -1);
  const bool begins = step.writes.empty();  // its devices are those that it begins with
  for (auto v : begins ? step.reads : step.writes) {
    runtime::ShardNumbering map = runtime::shard_numbering(graph_->layout(v), *graph_->mesh);
    const ShardBuffers& shards = frame.slots[at(v)];
    for (std::size_t p = 0; p < results.size(); ++p) {
      const auto& shard = shards[static_cast<std::size_t>(map.of_position[p])];
      if (shard) results[p] = std::max<std::int64_t>(0, results[p]) + (begins ? 0 : shard->nbytes());
    }
  }
  int process = alone ? 0 : frame.run.collectives->process_index();
  std::string label = step.label();
  std::string name = label.substr(0, label.find('\n'));
  trace_step({name, to_string(step.loc), process, bytes, std::move(results), step.received,
              step.received > 0 ? next_along(step.axes, *graph_->mesh) : std::vector<std::size_t>()},
             begin);
}

void Program::check_nans(const Step& step, const Frame& frame) const {
  for (auto v : step.writes) {
    DType t = graph_->type(v).dtype;
    if (!is_inexact(t)) continue;
    for (const auto& b : frame.slots[at(v)]) {
      if (!b) continue;
      std::int64_t n = b->nbytes() / dtype_size(t);
      ir::View view{t, {n}, b->data()};
      for (std::int64_t i = 0; i < n; ++i) {
        auto x = ops::load_complex(view, i);
        if (std::isnan(x.real()) || std::isnan(x.imag())) {
          throw ValueError(str("debug_nans: ", step.label(), " at ", step.loc, " made a NaN (", graph_->type(v), ")"));
        }
      }
    }
  }
}

std::string Program::text() const {
  auto value = [&](ir::ValueId v) {
    return str("%", v, ":", graph_->type(v), "@", ir::to_string(graph_->layout(v), *graph_->mesh));
  };
  std::string out;
  for (const auto& step : steps_) {
    for (std::size_t i = 0; i < step->writes.size(); ++i) out += str(i > 0 ? ", " : "", value(step->writes[i]));
    out += str(step->writes.empty() ? "" : " = ", step->label());
    for (auto v : step->reads) out += str(" %", v);
    for (std::size_t i = 0; i < step->frees.size(); ++i) out += str(i > 0 ? " %" : "; frees %", step->frees[i]);
    out += '\n';
  }
  if (fixed_) out += str(kLaidOut, '\n');
  return out;
}

}  // namespace tessera::cpu
