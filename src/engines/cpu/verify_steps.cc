// SPDX-License-Identifier: Apache-2.0
#include "engines/cpu/verify_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/hash.h"
#include "base/strings.h"
#include "base/verify_mode.h"
#include "engines/cpu/passes/fuse_rules.h"
#include "ir/op_def.h"
#include "ops/collective/collectives.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "runtime/verify_executable.h"

namespace tessera::cpu {

namespace {

using ops::complexd;

bool same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

ir::View elements(DType t, const BufferPtr& b) { return {t, {b->nbytes() / dtype_size(t)}, b->data()}; }

std::string element_text(const ir::View& v, std::int64_t i) {
  switch (ops::wide_kind(v.dtype)) {
    case ops::Wide::Bool:
      return str(static_cast<int>(static_cast<const unsigned char*>(v.data)[i]));
    case ops::Wide::Int:
      return str(ops::load_int(v, i));
    case ops::Wide::Uint:
      return str(ops::load_uint(v, i));
    case ops::Wide::Float:
      return str(ops::load_float(v, i));
    default: {
      complexd z = ops::load_complex(v, i);
      return str(z.real(), z.imag() < 0 ? "-" : "+", std::abs(z.imag()), "i");
    }
  }
}

// What of a reduction's operand bounds how far two orders of its terms may lie apart, by result.
class TermBound {
 public:
  TermBound(kernels::ReduceOp op, DType t, const BufferPtr& operand, std::int64_t results)
      : op_(op),
        terms_(elements(t, operand)),
        each_(results == 0 ? 0 : terms_.size() / results),
        unit_(runtime::epsilon(t)) {}
  // Nothing where an order may leave the range of the dtype on the way and another one not.
  std::optional<double> room(std::int64_t result, double value) const {
    double sum = 0;
    double logs = 0;
    for (std::int64_t i = result * each_; i < (result + 1) * each_; ++i) {
      double x = std::abs(ops::load_complex(terms_, i));
      sum += x;
      logs += x == 0 ? 0 : std::abs(std::log2(x));
    }
    double steps = unit_ * (16 + static_cast<double>(each_) / 16);
    constexpr double kRange = 14;  // binary orders that every dtype has
    if (op_ == kernels::ReduceOp::Prod) {
      return logs < (real_dtype(terms_.dtype) == DType::F16 ? kRange : 120) ? std::optional(steps * std::abs(value))
                                                                            : std::nullopt;
    }
    double most = real_dtype(terms_.dtype) == DType::F16 ? 6e4 : real_dtype(terms_.dtype) == DType::F64 ? 1e308 : 3e38;
    return sum < most ? std::optional(steps * sum) : std::nullopt;
  }

 private:
  kernels::ReduceOp op_;
  ir::View terms_;
  std::int64_t each_;
  double unit_;
};

class CheckedStep final : public Step {
 public:
  CheckedStep(const ir::Graph& g, const FusionGroup& group, StepPtr fused, Context& context)
      : g_(g), fused_(std::move(fused)) {
    reads = fused_->reads;
    writes = fused_->writes;
    FusionGroup all = group;
    all.results.clear();
    for (auto i : group.eqns) {
      all.results.push_back(g.eqns[i].out[0]);
      made_.push_back(&g.eqns[i]);
      alone_.push_back(make_compute_step(g, g.eqns[i], context));
      tables_.push_back({context.table(g.layout(g.eqns[i].out[0])), context.table(g.layout(g.eqns[i].in[0]))});
    }
    watched_ = make_fused_step(g, all, context);
  }

  void run(Frame& frame) const override {
    Frame watched{frame.run, Slots(g_.num_values()), {}};
    for (auto v : watched_->reads) watched.slots.borrow(at(v), frame.slots[at(v)]);
    watched_->run(watched);
    for (std::size_t n = 0; n < made_.size(); ++n) {
      const ir::Eqn& e = *made_[n];
      Frame alone{frame.run, Slots(g_.num_values()), {}};
      for (auto v : e.in) alone.slots.borrow(at(v), watched.slots[at(v)]);
      alone_[n]->run(alone);
      compare(n, watched.slots[at(e.out[0])], alone.slots[at(e.out[0])], watched.slots[at(e.in[0])], "by itself");
    }
    fused_->run(frame);
    for (std::size_t n = 0; n < made_.size(); ++n) {
      auto v = made_[n]->out[0];
      if (std::find(writes.begin(), writes.end(), v) == writes.end()) continue;
      compare(n, frame.slots[at(v)], watched.slots[at(v)], {}, "with all values of the block stored");
    }
  }

  std::string label() const override { return fused_->label(); }
  double cost() const override { return fused_->cost(); }
  void set_dying(const std::vector<bool>& dies) override { fused_->set_dying(dies); }

 private:
  struct Tables {
    std::shared_ptr<const LayoutTable> out, in;
  };

  // `operand` is empty where the same bits are expected even of sums.
  void compare(std::size_t n, const ShardBuffers& got, const ShardBuffers& want, const ShardBuffers& operand,
               const char* how) const {
    const ir::Eqn& e = *made_[n];
    DType t = g_.type(e.out[0]).dtype;
    auto reduce = reduce_op(*e.op);
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (!got[k] || !want[k] || got[k]->nbytes() == 0) continue;
      if (std::memcmp(got[k]->data(), want[k]->data(), at(got[k]->nbytes())) == 0) continue;
      if (!is_inexact(t)) fail(n, k, first_byte(got[k], want[k]) / dtype_size(t), got[k], want[k], how);
      auto x = elements(t, got[k]);
      auto y = elements(t, want[k]);
      std::optional<TermBound> bound;
      if (reduce && !operand.empty()) {
        auto shard = tables_[n].in->map.of_position[at(tables_[n].out->first_local[k])];
        bound.emplace(*reduce, t, operand[at(shard)], x.size());
      }
      for (std::int64_t i = 0; i < x.size(); ++i) {
        complexd a = ops::load_complex(x, i);
        complexd b = ops::load_complex(y, i);
        if (same(a.real(), b.real()) && same(a.imag(), b.imag())) continue;
        std::optional<double> room = bound ? bound->room(i, std::abs(b)) : 0;
        if (room && !(std::abs(a - b) <= *room)) fail(n, k, i, got[k], want[k], how);
      }
    }
  }

  static std::int64_t first_byte(const BufferPtr& a, const BufferPtr& b) {
    const auto* x = static_cast<const unsigned char*>(a->data());
    const auto* y = static_cast<const unsigned char*>(b->data());
    return std::mismatch(x, x + a->nbytes(), y).first - x;
  }

  [[noreturn]] void fail(std::size_t n, std::size_t k, std::int64_t flat, const BufferPtr& got, const BufferPtr& want,
                         const char* how) const {
    const ir::Eqn& e = *made_[n];
    const ir::Type& type = g_.type(e.out[0]);
    auto position = tables_[n].out->first_local[k];
    Shape shape = runtime::tile_at(type.shape, g_.layout(e.out[0]), *g_.mesh, position).shape;
    Dims index(shape.size());
    std::int64_t left = flat;
    for (std::size_t d = shape.size(); d-- > 0; left /= shape[d]) index[d] = left % shape[d];
    base::verification_failed(str("verification: ", e.op->name(), " at ", e.loc, " (", type, "), fused into ",
                                  fused_->label(), ": element [", base::join(index, ","), "] on device ", position,
                                  " of the mesh is ", element_text(elements(type.dtype, got), flat), ", but ", how, " ",
                                  element_text(elements(type.dtype, want), flat)));
  }

  const ir::Graph& g_;
  StepPtr fused_;
  StepPtr watched_;             // every value of the block is a result
  std::vector<StepPtr> alone_;  // by equation
  std::vector<const ir::Eqn*> made_;
  std::vector<Tables> tables_;
};

}  // namespace

StepPtr make_checked_step(const ir::Graph& g, const FusionGroup& group, StepPtr fused, Context& context) {
  return std::make_unique<CheckedStep>(g, group, std::move(fused), context);
}

bool rounds(const ir::Graph& g, const ir::Eqn& e) {
  if (!e.op->subgraphs(e.attrs).empty() || e.op->traits().effect) return false;
  if (e.op == &ops::def::reshard) {
    auto kind = ir::get<ops::Reshard>(e.attrs).kind;
    return kind == ops::Reshard::Kind::AllReduce || kind == ops::Reshard::Kind::ReduceScatter;
  }
  const ir::Traits& t = e.op->traits();
  bool inexact = std::any_of(e.out.begin(), e.out.end(), [&](auto v) { return is_inexact(g.type(v).dtype); });
  return inexact && !t.exact && !t.view;
}

namespace {

// One bit an element decides whether it goes up or down.
class Coins {
 public:
  explicit Coins(std::uint64_t& state) : state_(state) {}
  bool next() {
    if (left_ == 0) {
      state_ = base::hash_mix(state_, 1) | 1;
      bits_ = state_ >> 1;
      left_ = 63;
    }
    --left_;
    bool bit = (bits_ & 1) != 0;
    bits_ >>= 1;
    return bit;
  }

 private:
  std::uint64_t& state_;
  std::uint64_t bits_ = 0;
  int left_ = 0;
};

template <class T>
void shake_elements(const ir::View& from, const ir::View& to, double size, Coins& coins) {
  const T* x = static_cast<const T*>(from.data);
  T* y = static_cast<T*>(to.data);
  T up = static_cast<T>(1 + size);
  T down = static_cast<T>(1 - size);
  for (std::int64_t i = 0; i < from.size(); ++i) y[i] = x[i] * (coins.next() ? up : down);
}

// Copies whose elements lie `steps` units in the last place away.
ShardBuffers shaken(const ShardBuffers& shards, DType t, double steps, Run& run) {
  ShardBuffers out(shards.size());
  double size = runtime::epsilon(t) * steps;
  Coins coins(run.shake);
  for (std::size_t k = 0; k < shards.size(); ++k) {
    if (!shards[k]) continue;
    out[k] = run.memory.allocate(shards[k]->nbytes());
    ir::View from = elements(t, shards[k]);
    ir::View to = elements(t, out[k]);
    if (t == DType::F32) {
      shake_elements<float>(from, to, size, coins);
    } else if (t == DType::F64) {
      shake_elements<double>(from, to, size, coins);
    } else {
      for (std::int64_t i = 0; i < from.size(); ++i) {
        double by = coins.next() ? 1 + size : 1 - size;
        if (is_complex(t)) {
          ops::store_complex(to, i, ops::load_complex(from, i) * by);
        } else {
          ops::store_float(to, i, ops::load_float(from, i) * by);
        }
      }
    }
  }
  return out;
}

std::int64_t bytes(const ShardBuffers& shards) {
  std::int64_t n = 0;
  for (const auto& b : shards) n += b ? b->nbytes() : 0;
  return n;
}

}  // namespace

void run_shaken(const ir::Graph& g, const Step& step, Frame& frame) {
  Frame nested{frame.run, Slots(g.num_values()), {}};
  std::vector<ShardBuffers> operands;
  operands.reserve(step.reads.size());  // borrowed by address
  double terms = 0;
  for (auto v : step.reads) {
    const ShardBuffers& shards = frame.slots[at(v)];
    terms = std::max(terms, static_cast<double>(bytes(shards)));
    DType t = g.type(v).dtype;
    operands.push_back(is_inexact(t) ? shaken(shards, t, 2, frame.run) : shards);
    nested.slots.borrow(at(v), operands.back());
  }
  step.run(nested);
  for (auto v : step.writes) {
    ShardBuffers made = nested.slots.take(at(v));
    DType t = g.type(v).dtype;
    // Roundings of many terms may all go one way.
    double steps = 4 * (1 + terms / static_cast<double>(std::max<std::int64_t>(1, bytes(made))) / 64);
    frame.slots.own(at(v)) = is_inexact(t) ? shaken(made, t, std::min(steps, 4096.0), frame.run) : std::move(made);
  }
}

}  // namespace tessera::cpu
