// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/verify_mode.h"
#include "engines/cpu/steps/fixed_ops.h"
#include "engines/cpu/steps/fixed_program.h"
#include "tessera/config.h"

namespace tessera::cpu {

namespace {

// Of what an iteration makes: beyond it, kernels take longer than what surrounds them, and memory is better used again.
constexpr std::int64_t kMostFixedBytes = 128 << 10;
constexpr std::size_t kMostPlaces = 20'000;
// Of a program's steps and of its results, likewise.
constexpr std::size_t kMostSteps = 500;

bool suits(const Context& context) {
  return !context.distributed() && !context.plain() && !base::verifying() && !config().debug_nans;
}

}  // namespace

std::unique_ptr<FixedProgram> FixedProgram::of_loop(const ir::Graph& g, const Step& loop, Context& context) {
  if (!suits(context)) return nullptr;
  auto out = std::make_unique<FixedProgram>();
  FixedBuilder builder(*out, context);
  FixedBuilder::Scope outside(g, false);
  outside.outermost = true;
  builder.scope_ = &outside;
  if (!loop.fix(builder) || builder.too_large()) return nullptr;
  out->ops_ = std::move(outside.each);
  return out;
}

std::unique_ptr<FixedProgram> FixedProgram::of_program(const Program& p, Context& context) {
  if (!suits(context) || p.steps().size() > kMostSteps || p.steps().empty()) return nullptr;
  auto out = std::make_unique<FixedProgram>();
  FixedBuilder builder(*out, context);
  FixedBuilder::Scope scope(p.graph(), false);
  for (auto v : p.graph().inputs) {
    auto bytes = builder.shard_bytes(p.graph(), v);
    const Place first = builder.places(bytes.size());
    builder.define(scope, v, {.first = first, .count = static_cast<std::int32_t>(bytes.size()), .memory = v}, true);
    out->inputs_.push_back({v, first, std::move(bytes)});
  }
  if (!builder.add(scope, p) || !builder.give_results(scope)) return nullptr;
  out->ops_ = std::move(scope.each);
  return out;
}

std::vector<std::int64_t> FixedBuilder::shard_bytes(const ir::Graph& g, ir::ValueId v) const {
  const auto& first = context_.table(g.layout(v))->first_local;
  auto bytes = [&](std::int64_t p) { return local_type(g.type(v), g.layout(v), context_.mesh(), p).nbytes(); };
  if (even(g.type(v).shape, g.layout(v), context_.mesh())) return std::vector(first.size(), bytes(first[0]));
  std::vector<std::int64_t> out;
  for (auto p : first) out.push_back(bytes(p));
  return out;
}

Place FixedBuilder::places(std::size_t count) {
  const auto first = static_cast<Place>(program_.places_);
  program_.places_ += count;
  return first;
}

Place FixedBuilder::memory(std::span<const std::int64_t> bytes) {
  const Place first = places(bytes.size());
  for (std::size_t k = 0; k < bytes.size(); ++k) {
    constexpr std::int64_t kAlignment = 64;
    const std::int64_t whole = (bytes[k] + kAlignment - 1) / kAlignment * kAlignment;
    program_.memory_.emplace_back(first + static_cast<Place>(k), whole);
    program_.bytes_ += whole;
  }
  return first;
}

bool FixedBuilder::too_large() const { return program_.bytes_ > kMostFixedBytes || program_.places_ > kMostPlaces; }

void FixedBuilder::define(Scope& scope, ir::ValueId v, Value value, bool kept) const {
  scope.values[at(v)] = value;
  scope.readers[at(value.memory)] += 1;
  if (kept) scope.kept[at(v)] = 1;
}

bool FixedBuilder::steady(std::span<const ir::ValueId> values) const {
  return scope_->hoists &&
         std::all_of(values.begin(), values.end(), [&](auto v) { return scope_->values[at(v)].steady; });
}

void FixedBuilder::add_op(bool steady, std::unique_ptr<FixedOp> op) {
  (steady ? scope_->once : scope_->each).push_back(std::move(op));
}

bool FixedBuilder::add(Scope& scope, const Program& p) {
  Scope* outer = std::exchange(scope_, &scope);
  bool all = true;
  for (const StepPtr& step : p.steps()) {
    all = step->fix(*this) && !too_large();
    if (!all) break;
    for (auto v : step->frees) scope.readers[at(scope.values[at(v)].memory)] -= 1;
  }
  scope_ = outer;
  return all;
}

bool FixedBuilder::known(ir::ValueId v, const ShardBuffers& shards) {
  const Place first = places(shards.size());
  for (std::size_t k = 0; k < shards.size(); ++k) {
    if (!shards[k]) return false;
    program_.constants_.emplace_back(first + static_cast<Place>(k), shards[k]);
  }
  const auto count = static_cast<std::int32_t>(shards.size());
  define(*scope_, v, {.first = first, .count = count, .memory = v, .steady = true}, true);
  return true;
}

bool FixedBuilder::alias(ir::ValueId to, ir::ValueId from, std::span<const std::int32_t> shard_of) {
  const Value source = scope_->values[at(from)];
  Value v = source;
  v.count = static_cast<std::int32_t>(shard_of.size());
  v.first = places(shard_of.size());
  v.straight = v.straight && v.count == source.count;
  auto op = std::make_unique<AliasOp>();
  for (std::size_t k = 0; k < shard_of.size(); ++k) {
    v.straight = v.straight && shard_of[k] == static_cast<std::int32_t>(k);
    op->same.emplace_back(v.first + static_cast<Place>(k), source.first + static_cast<Place>(shard_of[k]));
  }
  define(*scope_, to, v, false);
  add_op(steady({&from, 1}), std::move(op));
  return true;
}

// Whether memory of the operand is free from this step on: nobody else has it, and nobody reads it later.
bool FixedBuilder::ends_with(const Step& step, std::size_t operand) const {
  const ir::ValueId v = step.reads[operand];
  const Value& x = scope_->values[at(v)];
  return x.straight && !scope_->kept[at(x.memory)] && scope_->readers[at(x.memory)] == 1 &&
         std::count(step.reads.begin(), step.reads.end(), v) == 1 &&
         std::find(step.frees.begin(), step.frees.end(), v) != step.frees.end();
}

// The operand whose memory the result of every call takes, or -1.
std::int32_t FixedBuilder::in_place_of(const Step& step, std::span<const FixedCall> calls, std::size_t result,
                                       std::span<const char> taken) const {
  for (std::size_t i = 0; i < step.reads.size() && i < 64; ++i) {
    const ir::ValueId v = step.reads[i];
    if (taken[i] || !ends_with(step, i) || at(scope_->values[at(v)].count) != calls.size()) continue;
    const auto bytes = shard_bytes(scope_->graph, v);
    const bool fits = std::all_of(calls.begin(), calls.end(), [&](const FixedCall& c) {
      return (c.in_place >> i & 1) != 0 && c.in[i] == c.out[result] && bytes[at(c.in[i])] == c.out_bytes[result];
    });
    if (fits) return static_cast<std::int32_t>(i);
  }
  return -1;
}

bool FixedBuilder::calls(const Step& step, std::span<const FixedCall> calls) {
  const std::size_t operands = step.reads.size();
  auto op = std::make_unique<KernelsOp>();
  op->operands = operands;
  op->width = operands + step.writes.size();
  if (op->width > KernelsOp::kMostPointers) return false;
  const bool still = steady(step.reads);
  std::vector<char> taken(operands);
  for (std::size_t j = 0; j < step.writes.size(); ++j) {
    const ir::ValueId v = step.writes[j];
    Value made{.count = static_cast<std::int32_t>(calls.size()), .memory = v, .steady = still};
    const std::int32_t same = still ? -1 : in_place_of(step, calls, j, taken);
    if (same >= 0) {
      const Value& operand = scope_->values[at(step.reads[at(same)])];
      taken[at(same)] = 1;
      made.memory = operand.memory;
      made.exchanged = operand.exchanged;
      made.first = places(calls.size());
      op->in_place.add(made.first, operand.first, calls.size());
    } else {
      std::vector<std::int64_t> bytes(calls.size());
      for (const FixedCall& c : calls) bytes[at(c.out[j])] = c.out_bytes[j];
      made.first = memory(bytes);
    }
    define(*scope_, v, made, still);
  }
  for (const FixedCall& c : calls) {
    if (c.kernel == nullptr) continue;
    op->kernels.push_back(c.kernel);
    for (std::size_t i = 0; i < operands; ++i) {
      op->places.push_back(scope_->values[at(step.reads[i])].first + static_cast<Place>(c.in[i]));
    }
    for (std::size_t j = 0; j < step.writes.size(); ++j) {
      op->places.push_back(scope_->values[at(step.writes[j])].first + static_cast<Place>(c.out[j]));
    }
  }
  add_op(still, std::move(op));
  return true;
}

// A value of the program around, which the outermost one has from its caller.
const FixedBuilder::Value& FixedBuilder::around(ir::ValueId v) {
  if (outermost() && scope_->values[at(v)].count == 0) {
    auto bytes = shard_bytes(scope_->graph, v);
    const Place first = places(bytes.size());
    define(*scope_, v, {.first = first, .count = static_cast<std::int32_t>(bytes.size()), .memory = v}, true);
    program_.reads_.push_back({v, first, std::move(bytes)});
  }
  return scope_->values[at(v)];
}

// A value of a nested program that is one of the program around, read where it is.
void FixedBuilder::pass(Scope& to, ir::ValueId inner, ir::ValueId outer) {
  const Value& v = around(outer);
  define(to, inner, {.first = v.first, .count = v.count, .memory = inner, .steady = to.hoists}, true);
}

// What a loop begins with: in memory of the program around where nobody else has that, else a copy.
void FixedBuilder::bring(Scope& to, ir::ValueId inner, const Step& step, std::size_t operand, LoopOp& op) {
  const ir::ValueId outer = step.reads[operand];
  auto bytes = shard_bytes(to.graph, inner);
  Value v{.count = static_cast<std::int32_t>(bytes.size()), .memory = inner};
  if (outermost()) {
    v.first = places(bytes.size());
    const bool once = std::count(step.reads.begin(), step.reads.end(), outer) == 1;
    program_.carries_.push_back({outer, v.first, std::move(bytes), operand, once});
  } else if (ends_with(step, operand)) {
    v.first = places(bytes.size());
    op.takes.add(v.first, scope_->values[at(outer)].first, bytes.size());
  } else {
    v.first = memory(bytes);
    op.copies_in.add(v.first, scope_->values[at(outer)].first, bytes);
  }
  define(to, inner, v, false);
}

// What a loop ends with, where `bring` began it.
void FixedBuilder::carry_out(const Scope& from, ir::ValueId inner, const Step& step, std::size_t result,
                             std::size_t operand, LoopOp& op) {
  const ir::ValueId v = step.writes[result];
  const Place last = from.values[at(inner)].first;
  auto bytes = shard_bytes(from.graph, inner);
  if (outermost()) {
    program_.carried_.push_back({v, last, std::move(bytes)});
  } else if (ends_with(step, operand)) {
    // Other memory may have come in exchange: that is now the memory of the value that had the operand's.
    const ir::ValueId memory = scope_->values[at(step.reads[operand])].memory;
    const Place first = places(bytes.size());
    define(*scope_, v,
           {.first = first, .count = static_cast<std::int32_t>(bytes.size()), .memory = memory, .exchanged = true},
           false);
    op.gives.add(first, last, bytes.size());
    op.gives.add(scope_->values[at(memory)].first, last, bytes.size());
  } else {
    op.copies_out.add(this->result(v, steady(step.reads)), last, bytes);
  }
}

// A result of a nested program in memory of its own; that of the outermost program is made when the loop runs.
Place FixedBuilder::result(ir::ValueId v, bool steady) {
  if (scope_->values[at(v)].count == 0) {
    auto bytes = shard_bytes(scope_->graph, v);
    Value made{.count = static_cast<std::int32_t>(bytes.size()), .memory = v, .steady = steady};
    made.first = outermost() ? places(bytes.size()) : memory(bytes);
    define(*scope_, v, made, steady);
    if (outermost()) program_.stacks_.push_back({v, made.first, std::move(bytes)});
  }
  return scope_->values[at(v)].first;
}

// The program's results: made in memory of their own, or what somebody has already.
bool FixedBuilder::give_results(Scope& scope) {
  std::unordered_map<ir::ValueId, std::size_t> made;  // by the value with the memory
  std::map<std::int64_t, FixedProgram::Group> groups;
  using Kind = FixedProgram::Output::Kind;
  for (ir::ValueId v : scope.graph.outputs) {
    const Value x = scope.values[at(v)];
    if (!x.straight) return false;
    const auto& inputs = scope.graph.inputs;
    if (auto input = std::find(inputs.begin(), inputs.end(), x.memory); input != inputs.end()) {
      program_.outputs_.push_back({Kind::Input, static_cast<std::size_t>(input - inputs.begin())});
      continue;
    }
    if (x.steady) {
      ShardBuffers shards;
      for (Place k = 0; k < static_cast<Place>(x.count); ++k) {
        const Place place = scope.values[at(x.memory)].first + k;
        auto known = std::find_if(program_.constants_.begin(), program_.constants_.end(),
                                  [&](const auto& c) { return c.first == place; });
        shards.push_back(known->second);
      }
      program_.outputs_.push_back({Kind::Known, program_.known_.size()});
      program_.known_.push_back(std::move(shards));
      continue;
    }
    if (x.exchanged) v = copied(scope, v);
    const ir::ValueId memory = scope.values[at(v)].memory;
    auto [it, first_time] = made.emplace(memory, program_.made_.size());
    if (!first_time) {
      for (auto& o : program_.outputs_) o.last = o.last && (o.kind != Kind::Made || o.number != it->second);
    }
    program_.outputs_.push_back({Kind::Made, it->second});
    if (!first_time) continue;
    auto bytes = shard_bytes(scope.graph, scope.graph.outputs[program_.outputs_.size() - 1]);
    for (std::size_t k = 0; k < bytes.size(); ++k) {
      auto& group = groups[bytes[k]];
      group.bytes = bytes[k];
      group.shards.emplace_back(it->second, k);
    }
    program_.made_.push_back({memory, scope.values[at(memory)].first, std::move(bytes)});
  }
  for (auto& [bytes, group] : groups) program_.groups_.push_back(std::move(group));
  // Results are not in the block.
  std::vector<bool> elsewhere(program_.places_);
  for (const auto& m : program_.made_) std::fill_n(elsewhere.begin() + m.first, m.bytes.size(), true);
  std::erase_if(program_.memory_, [&](const auto& m) { return elsewhere[m.first]; });
  program_.bytes_ = 0;
  for (const auto& [place, bytes] : program_.memory_) program_.bytes_ += bytes;
  return true;
}

ir::ValueId FixedBuilder::copied(Scope& scope, ir::ValueId v) {
  const auto bytes = shard_bytes(scope.graph, v);
  const auto copy = static_cast<ir::ValueId>(scope.values.size());
  scope.values.emplace_back();
  scope.readers.emplace_back();
  scope.kept.emplace_back();
  define(scope, copy, {.first = memory(bytes), .count = static_cast<std::int32_t>(bytes.size()), .memory = copy},
         false);
  auto op = std::make_unique<CopyOp>();
  op->add(scope.values[at(copy)].first, scope.values[at(v)].first, bytes);
  scope.each.push_back(std::move(op));
  return copy;
}

// What becomes of the carried values at the end of an iteration. Each output has memory of its own, which the input of
// the next iteration takes; what that input had goes where it is missing. Gives the values whose memory is taken.
std::vector<ir::ValueId> FixedBuilder::carry_on(Scope& body, std::size_t first, std::size_t count, LoopOp& op) {
  const std::span<const ir::ValueId> in(body.graph.inputs.data() + first, count);
  std::vector<ir::ValueId> taken;  // by output: the value with the memory
  std::vector<ir::ValueId> out;
  std::unordered_map<ir::ValueId, std::size_t> now;  // by that value: the output
  for (std::size_t j = 0; j < count; ++j) {
    ir::ValueId v = body.graph.outputs[j];
    const Value& x = body.values[at(v)];
    if (!x.straight || x.steady || body.kept[at(x.memory)] || now.count(x.memory) > 0) v = copied(body, v);
    out.push_back(v);
    taken.push_back(body.values[at(v)].memory);
    now[taken.back()] = j;
  }
  auto move = [&](ir::ValueId from, ir::ValueId to) {
    const Value &a = body.values[at(from)], &b = body.values[at(to)];
    for (Place k = 0; k < static_cast<Place>(a.count); ++k) op.next.emplace_back(a.first + k, b.first + k);
  };
  for (std::size_t j = 0; j < count; ++j) {
    if (taken[j] == in[j]) continue;
    move(out[j], in[j]);
    if (std::find(in.begin(), in.end(), taken[j]) != in.end()) continue;
    // Made in this iteration: the next one makes it in the memory that nobody has now.
    ir::ValueId left = in[j];
    for (auto it = now.find(left); it != now.end(); it = now.find(left)) left = in[it->second];
    move(left, taken[j]);
  }
  return taken;
}

bool FixedBuilder::while_loop(const Step& step, std::size_t cond_consts, std::size_t body_consts, const Program& cond,
                              const Program& body) {
  const bool still = steady(step.reads);
  const std::size_t first = cond_consts + body_consts, carried = step.reads.size() - first;
  Scope c(cond.graph(), true), b(body.graph(), true);
  auto op = std::make_unique<WhileOp>();
  for (std::size_t i = 0; i < cond_consts; ++i) pass(c, c.graph.inputs[i], step.reads[i]);
  for (std::size_t i = 0; i < body_consts; ++i) pass(b, b.graph.inputs[i], step.reads[cond_consts + i]);
  for (std::size_t j = 0; j < carried; ++j) {
    const ir::ValueId inner = b.graph.inputs[body_consts + j], read = c.graph.inputs[cond_consts + j];
    bring(b, inner, step, first + j, *op);
    Value v = b.values[at(inner)];
    v.memory = read;
    define(c, read, v, true);
  }
  if (!add(c, cond) || !add(b, body)) return false;
  const Value& decides = c.values[at(c.graph.outputs[0])];
  if (decides.count != 1) return false;  // devices may go different ways
  op->predicate = decides.first;
  op->dtype = c.graph.type(c.graph.outputs[0]).dtype;
  carry_on(b, body_consts, carried, *op);
  for (std::size_t j = 0; j < carried; ++j) {
    carry_out(b, b.graph.inputs[body_consts + j], step, j, first + j, *op);
  }
  op->once = std::move(c.once);
  std::move(b.once.begin(), b.once.end(), std::back_inserter(op->once));
  op->condition = std::move(c.each);
  op->body = std::move(b.each);
  add_op(still, std::move(op));
  return true;
}

bool FixedBuilder::scan(const Step& step, std::size_t consts, std::size_t carry, std::int64_t length, bool reverse,
                        const Program& body) {
  const bool still = steady(step.reads);
  Scope b(body.graph(), true);
  const auto &in = b.graph.inputs, &out = b.graph.outputs;
  auto op = std::make_unique<ScanOp>();
  op->length = length;
  op->reverse = reverse;
  for (std::size_t i = 0; i < consts; ++i) pass(b, in[i], step.reads[i]);
  for (std::size_t i = consts; i < consts + carry; ++i) bring(b, in[i], step, i, *op);
  for (std::size_t i = consts + carry; i < in.size(); ++i) {
    const auto bytes = shard_bytes(b.graph, in[i]);
    const Place slice = places(bytes.size());
    op->add_slices(slice, around(step.reads[i]).first, bytes);
    define(b, in[i], {.first = slice, .count = static_cast<std::int32_t>(bytes.size()), .memory = in[i]}, true);
  }
  if (!add(b, body)) return false;
  std::vector<ir::ValueId> taken = carry_on(b, consts, carry, *op);
  for (std::size_t j = 0; j < carry; ++j) carry_out(b, in[consts + j], step, j, consts + j, *op);
  for (std::size_t j = carry; j < out.size(); ++j) {
    const auto bytes = shard_bytes(b.graph, out[j]);
    const Value v = b.values[at(out[j])];
    // Made where it belongs, unless it is something else as well.
    const auto inputs = std::find(in.begin(), in.end(), v.memory);
    const bool own = v.straight && !v.steady && !v.exchanged && !b.kept[at(v.memory)] && inputs == in.end() &&
                     std::find(taken.begin(), taken.end(), v.memory) == taken.end();
    const Place slice = own ? b.values[at(v.memory)].first : places(bytes.size());
    if (own) {
      taken.push_back(v.memory);
    } else {
      auto copy = std::make_unique<CopyOp>();
      copy->add(slice, v.first, bytes);
      b.each.push_back(std::move(copy));
    }
    op->add_slices(slice, result(step.writes[j], still), bytes);
  }
  op->once = std::move(b.once);
  op->body = std::move(b.each);
  add_op(still, std::move(op));
  return true;
}

bool FixedBuilder::branches(const Step& step, std::span<const std::shared_ptr<const Program>> branches) {
  const bool still = steady(step.reads);
  const Value& which = scope_->values[at(step.reads[0])];
  if (which.count != 1) return false;
  auto op = std::make_unique<BranchOp>();
  op->which = which.first;
  op->dtype = scope_->graph.type(step.reads[0]).dtype;
  for (const auto& program : branches) {
    Scope branch(program->graph(), false);
    for (std::size_t i = 1; i < step.reads.size(); ++i) pass(branch, branch.graph.inputs[i - 1], step.reads[i]);
    if (!add(branch, *program)) return false;
    auto copy = std::make_unique<CopyOp>();
    for (std::size_t j = 0; j < step.writes.size(); ++j) {
      const ir::ValueId v = branch.graph.outputs[j];
      copy->add(result(step.writes[j], still), branch.values[at(v)].first, shard_bytes(branch.graph, v));
    }
    branch.each.push_back(std::move(copy));
    op->branches.push_back(std::move(branch.each));
  }
  add_op(still, std::move(op));
  return true;
}

}  // namespace tessera::cpu
