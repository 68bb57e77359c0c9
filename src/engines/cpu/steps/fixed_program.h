// SPDX-License-Identifier: Apache-2.0
// Programs and loops of small steps. In a general program a step takes some hundred nanoseconds beside its kernel:
// handles of shards, memory from the pool, counts of who reads it. Here every value has a place in one block of memory,
// found when the program is compiled; a step is a call of its kernels on pointers, and an iteration of a loop ends with
// an exchange of pointers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/step_program.h"

namespace tessera::cpu {

/// How a text says that a program or a loop has this form.
inline constexpr const char* kLaidOut = "memory laid out beforehand";

/// Numbers a pointer of a run; those of a value's shards follow each other.
using Place = std::uint32_t;

/// One thing that such a program does, on the pointers of a run.
class FixedOp {
 public:
  virtual ~FixedOp() = default;
  virtual void run(void** places) const = 0;
};
struct CopyOp;
struct LoopOp;
using FixedOps = std::vector<std::unique_ptr<FixedOp>>;

/// A kernel on one combination of shards.
struct FixedCall {
  const Kernel::Fn* kernel;  ///< of the step, which outlives the program
  std::uint64_t in_place;    ///< as in `Kernel`
  std::span<const std::int32_t> in;
  std::span<const std::int32_t> out;
  std::span<const std::int64_t> out_bytes;
};

/// A program, or a loop, with its memory.
class FixedProgram {
 public:
  /// The loop of a step, with its operands and results. Null where a step of the loop, or of a loop or branch inside
  /// it, has no fixed form (`Step::fix`), and where the values of an iteration are too large for it to matter.
  static std::unique_ptr<FixedProgram> of_loop(const ir::Graph& g, const Step& loop, Context& context);
  /// Null for the same reasons, and where results are so large that they had better take the memory of operands.
  static std::unique_ptr<FixedProgram> of_program(const Program& p, Context& context);
  /// Whether this run asks for nothing that general programs alone do.
  static bool serves(const Run& run);
  /// Of a loop. `dies`: by operand, whether nobody reads it later; what is carried then stays in its memory. Throws
  /// what the kernels throw.
  void run(Frame& frame, const std::vector<bool>& dies) const;
  /// Of a program. Throws what the kernels throw.
  std::vector<ShardBuffers> run(const std::vector<const ShardBuffers*>& args, Run& run) const;

 private:
  friend class FixedBuilder;
  // An operand or a result, and the pointers to its shards.
  struct Port {
    ir::ValueId value;
    Place first;
    std::vector<std::int64_t> bytes;  // by shard
    std::size_t operand = 0;
    bool once = true;  // it is no other operand, too
  };
  // Where an output of a program comes from.
  struct Output {
    enum class Kind : std::uint8_t { Input, Known, Made } kind;
    std::size_t number;
    bool last = true;  // no later output is the same
  };
  // Results' shards of one size, which are allocated together.
  struct Group {
    std::int64_t bytes;
    std::vector<std::pair<std::size_t, std::size_t>> shards;  // result, shard
  };
  std::vector<void*> start(BufferPtr& block, Run& run) const;
  void bring_in(Frame& frame, const std::vector<bool>& dies, std::vector<void*>& places,
                std::vector<BufferPtr>& carried) const;
  void bring_out(Frame& frame, const std::vector<void*>& places, std::vector<BufferPtr>& carried) const;

  std::size_t places_ = 0;
  std::int64_t bytes_ = 0;
  std::vector<std::pair<Place, std::int64_t>> memory_;  // places, and how many bytes they have in the block
  std::vector<std::pair<Place, BufferPtr>> constants_;
  FixedOps ops_;
  // Of a loop:
  std::vector<Port> reads_;    // operands that stay as they are
  std::vector<Port> carries_;  // operands in memory that the run may write
  std::vector<Port> carried_;  // results that are where the last iteration left them
  std::vector<Port> stacks_;   // results that iterations write a part of
  // Of a program:
  std::vector<Port> inputs_, made_;
  std::vector<ShardBuffers> known_;
  std::vector<Group> groups_;
  std::vector<Output> outputs_;
};

/// Adds programs, step by step.
class FixedBuilder {
 public:
  FixedBuilder(FixedProgram& program, Context& context) : program_(program), context_(context) {}

  // What a step does, for `Step::fix`. False where it cannot be done so.

  /// The value is known; somebody keeps the shards for as long as the program lives.
  bool known(ir::ValueId v, const ShardBuffers& shards);
  /// Shard k of `to` is shard `shard_of[k]` of `from`.
  bool alias(ir::ValueId to, ir::ValueId from, std::span<const std::int32_t> shard_of);
  /// Every shard of every result of the step is made by one call.
  bool calls(const Step& step, std::span<const FixedCall> calls);
  /// Operands of the step: constants of `cond` and of `body`, then what is carried.
  bool while_loop(const Step& step, std::size_t cond_consts, std::size_t body_consts, const Program& cond,
                  const Program& body);
  /// Operands: constants, what is carried, stacked values; results: what is carried, stacked values.
  bool scan(const Step& step, std::size_t consts, std::size_t carry, std::int64_t length, bool reverse,
            const Program& body);
  /// Operands: the number of the branch, then those of the branches.
  bool branches(const Step& step, std::span<const std::shared_ptr<const Program>> branches);

 private:
  friend class FixedProgram;
  struct Value {
    Place first = 0;
    std::int32_t count = 0;   // shards
    ir::ValueId memory = -1;  // the value whose memory it has
    bool straight = true;     // shard by shard
    bool steady = false;      // the same in every iteration
    bool exchanged = false;   // a loop may have left it in other memory than it had
  };
  // A program that is being added.
  struct Scope {
    Scope(const ir::Graph& g, bool hoists_steady)
        : graph(g), hoists(hoists_steady), values(g.num_values()), readers(g.num_values()), kept(g.num_values()) {}
    const ir::Graph& graph;
    bool hoists;             // what is the same in every iteration is done once
    bool outermost = false;  // its values are bound when the loop runs
    std::vector<Value> values;
    std::vector<std::int32_t> readers;  // by value with memory: values that have it and are read later
    std::vector<char> kept;             // by value with memory: nobody may write it
    FixedOps once, each;
  };

  bool add(Scope& scope, const Program& p);
  std::vector<std::int64_t> shard_bytes(const ir::Graph& g, ir::ValueId v) const;
  Place places(std::size_t count);
  Place memory(std::span<const std::int64_t> bytes);
  bool too_large() const;
  void define(Scope& scope, ir::ValueId v, Value value, bool kept) const;
  bool steady(std::span<const ir::ValueId> values) const;
  void add_op(bool steady, std::unique_ptr<FixedOp> op);
  bool ends_with(const Step& step, std::size_t operand) const;
  std::int32_t in_place_of(const Step& step, std::span<const FixedCall> calls, std::size_t result,
                           std::span<const char> taken) const;
  const Value& around(ir::ValueId v);
  void pass(Scope& to, ir::ValueId inner, ir::ValueId outer);
  void bring(Scope& to, ir::ValueId inner, const Step& step, std::size_t operand, LoopOp& op);
  void carry_out(const Scope& from, ir::ValueId inner, const Step& step, std::size_t result, std::size_t operand,
                 LoopOp& op);
  Place result(ir::ValueId v, bool steady);
  bool outermost() const { return scope_->outermost; }
  ir::ValueId copied(Scope& scope, ir::ValueId v);
  bool give_results(Scope& scope);
  std::vector<ir::ValueId> carry_on(Scope& body, std::size_t first, std::size_t count, LoopOp& op);

  FixedProgram& program_;
  Context& context_;
  Scope* scope_ = nullptr;
};

}  // namespace tessera::cpu
