// SPDX-License-Identifier: Apache-2.0
// A compiled program: steps over all shards that this process holds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/cpu/context.h"
#include "ir/graph.h"
#include "runtime/process_collectives.h"

namespace tessera::cpu {

/// One call of a program, its nested programs included.
struct Run {
  runtime::MemoryPool& memory;
  runtime::Collectives* collectives = nullptr;
  std::int64_t tag = 0;
  std::int64_t number = 0;    ///< of this run of the program, from 0
  std::size_t processes = 0;  ///< `Collectives::Call::processes`
  std::uint64_t shake = 0;    ///< as for `PlainExecutable`; state of a generator
  /// By mesh position: whether its predicates chose this nested program; null: those of all did. Effects happen there
  /// alone.
  const std::vector<bool>* taken = nullptr;
};

/// By value its shards: the program's own, or borrowed ones, which stay where they are.
class Slots {
 public:
  explicit Slots(std::size_t values) : own_(values), borrowed_(values) {}
  const ShardBuffers& operator[](std::size_t v) const { return borrowed_[v] != nullptr ? *borrowed_[v] : own_[v]; }
  bool borrowed(std::size_t v) const { return borrowed_[v] != nullptr; }
  /// To be written, of a value that is not borrowed.
  ShardBuffers& own(std::size_t v) { return own_[v]; }
  /// Handles of its own for somebody; the last ones, unless the value is borrowed.
  ShardBuffers take(std::size_t v) {
    if (borrowed(v)) return *borrowed_[v];
    return std::move(own_[v]);
  }
  void borrow(std::size_t v, const ShardBuffers& shards) { borrowed_[v] = &shards; }
  void drop(std::size_t v) {
    borrowed_[v] = nullptr;
    runtime::release(own_[v]);
    own_[v] = ShardBuffers();
  }

 private:
  std::vector<ShardBuffers> own_;
  std::vector<const ShardBuffers*> borrowed_;
};

/// What a step has under way with other processes, from its beginning to its end.
class UnderWay {
 public:
  virtual ~UnderWay() = default;
};

struct Frame {
  Run& run;
  Slots slots;
  /// By value, where not empty: memory in which its shards are wanted. Steps that cannot do so may ignore it.
  std::vector<ShardBuffers> into;
  /// By number of the step (`overlapped`).
  std::vector<std::unique_ptr<UnderWay>> under_way = {};
};

/// True when only this handle refers to the buffer, and what other threads did with it is visible here.
bool sole_owner(const BufferPtr& b);

class FixedBuilder;
class FixedProgram;
class Pipeline;

/// A shard of a value by their numbers.
struct ShardOf {
  ir::ValueId value;
  std::int32_t shard;
};

/// The works of a step: kernel calls that may run in any order and beside each other.
struct Works {
  struct Work {
    std::vector<ShardOf> reads, writes;
  };
  std::vector<Work> list;
  std::vector<std::pair<ShardOf, ShardOf>> shared;  ///< shards of results that are shards of operands
  double cost = 0;                                  ///< of one, in nanoseconds on one thread
};

/// A step whose results have their memory and whose works are to be done.
class OpenStep {
 public:
  virtual ~OpenStep() = default;
  virtual void work(std::int64_t k) const = 0;
};

class Step {
 public:
  virtual ~Step() = default;
  virtual void run(Frame& frame) const = 0;
  /// What it does, without values: "add (8 shards)".
  virtual std::string label() const = 0;
  /// Nanoseconds on one thread, roughly.
  virtual double cost() const { return 0; }
  /// Operand values that nobody reads later; told once, after all steps are made.
  virtual void set_dying(const std::vector<bool>& dies) { static_cast<void>(dies); }

  /// Empty where the step has to run by itself, and where it has more than `most` works.
  virtual std::optional<Works> works(std::size_t most) const {
    static_cast<void>(most);
    return std::nullopt;
  }
  /// For steps that have works: all but these, of which those that read what others write come after them.
  virtual std::unique_ptr<OpenStep> open(Frame& frame) const {
    static_cast<void>(frame);
    return nullptr;
  }

  /// Adds what it does to a loop whose memory is laid out beforehand (`FixedProgram`); false where it cannot.
  virtual bool fix(FixedBuilder& to) const {
    static_cast<void>(to);
    return false;
  }

  /// What the step is to other processes.
  runtime::Collectives::Call call(const Run& run, std::string_view name) const {
    return {.tag = run.tag, .name = name, .loc = loc, .run = run.number, .processes = run.processes};
  }

  std::vector<ir::ValueId> reads;
  std::vector<ir::ValueId> writes;
  std::vector<ir::ValueId> frees;  ///< values to drop after this step
  Loc loc;
  bool ordered = false;       ///< has effects, which keep their order
  bool rounds = false;        ///< told for plain programs alone: see `rounds(g, e)`
  std::int64_t received = 0;  ///< bytes that the busiest device receives from others; of steps of one equation
  Dims axes;                  ///< numbers of the mesh axes over which it moves data; likewise
};
using StepPtr = std::unique_ptr<Step>;

/// A step that may have other processes to wait for. Where it has (`exchanges`), programs begin it once its operands
/// are there and end it before the first reader of its results; what lies between runs meanwhile, and leaves the
/// operands as they are.
class ExchangeStep : public Step {
 public:
  void run(Frame& frame) const final { end(frame, *begin(frame)); }
  /// The same in all processes.
  virtual bool exchanges() const = 0;
  virtual std::unique_ptr<UnderWay> begin(Frame& frame) const = 0;
  virtual void end(Frame& frame, UnderWay& under_way) const = 0;
};

class Program {
 public:
  Program();
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  /// Throws what building a step throws (an op without kernel and reference).
  static std::shared_ptr<const Program> compile(const ir::GraphPtr& graph, Context& context);

  /// `into`: for each output shards whose memory the result is wanted in, or an empty list. `borrowed` as in
  /// `Executable`.
  std::vector<ShardBuffers> run(std::vector<ShardBuffers> args, Run& run, const std::vector<ShardBuffers>& into = {},
                                const std::vector<const ShardBuffers*>& borrowed = {}) const;
  std::string text() const;
  double cost() const { return cost_; }
  /// Of its own, without those of nested programs.
  bool exchanges() const { return exchanges_ > 0; }
  const ir::Graph& graph() const { return *graph_; }
  const std::vector<StepPtr>& steps() const { return steps_; }

 private:
  /// `reuse`: results may take the memory of operands that nobody reads later.
  void free_early(bool reuse);
  void check_args(const std::vector<const ShardBuffers*>& args) const;
  void run_steps(Frame& frame) const;
  void run_traced(const Step& step, Frame& frame) const;
  void check_nans(const Step& step, const Frame& frame) const;

  ir::GraphPtr graph_;
  std::vector<StepPtr> steps_;
  std::vector<ir::ValueId> unused_inputs_;
  std::vector<bool> repeated_outputs_;  // the same value comes again later
  std::vector<std::shared_ptr<const LayoutTable>> input_tables_;
  std::vector<std::int64_t> input_bytes_;  // of a shard; -1 where shards differ
  double cost_ = 0;
  bool debug_nans_ = false;
  std::size_t exchanges_ = 0;                  // steps in two parts
  std::unique_ptr<const FixedProgram> fixed_;  // null where the program has no such form
  std::vector<Pipeline> pipelines_;            // in the order of their steps
};

/// Where the product `e` is a partial value whose only reader (its number, or negative) is an all-reduce: one step that
/// sums the products in place. `reduced` is then the number of that all-reduce; null otherwise.
StepPtr make_summed_product_step(const ir::Graph& g, const ir::Eqn& e, std::int32_t only_reader, Context& context,
                                 std::size_t& reduced);

/// Makes the step of one equation of a graph; null when the op needs no step of this kind.
StepPtr make_reshard_step(const ir::Graph& g, const ir::Eqn& e, Context& context);
StepPtr make_reinterpret_step(const ir::Graph& g, const ir::Eqn& e, Context& context);
StepPtr make_group_step(const ir::Graph& g, const ir::Eqn& e, Context& context);
StepPtr make_halo_step(const ir::Graph& g, const ir::Eqn& e, Context& context);
StepPtr make_control_step(const ir::Graph& g, const ir::Eqn& e, Context& context);
StepPtr make_compute_step(const ir::Graph& g, const ir::Eqn& e, Context& context);

/// Calls `body(k)` for k in [0, n): on this thread alone when there is little to do or when items are few and large
/// (kernels split those themselves), else spread over the pool. `cost` is that of one item in nanoseconds.
bool worth_spreading(std::int64_t n, double cost);
bool worth_threads(double cost);  ///< of all items
/// Whether n items keep all threads busy to the end.
bool divides_fairly(std::int64_t n);
void spread(std::int64_t n, double cost, const std::function<void(std::int64_t)>& body);

}  // namespace tessera::cpu
