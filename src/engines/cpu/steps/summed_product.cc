// SPDX-License-Identifier: Apache-2.0
// A product whose contracted dimension is split gives partial shards, which an all-reduce would read and sum. Inside
// one process the library adds each product to the sum directly: partial shards are never written.
#include <array>

#include "base/strings.h"
#include "base/thread_pool.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/passes/engine_products.h"
#include "engines/cpu/step_program.h"
#include "ir/op_def.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "tessera/config.h"

namespace tessera::cpu {

namespace {

// Shard numbers of the operands of one term.
struct Product {
  std::int32_t lhs, rhs;
};

class SummedProductStep final : public Step {
  class Open final : public OpenStep {
   public:
    Open(const SummedProductStep& step, Frame& frame) : step_(step) {
      ShardBuffers to(step.terms_.size());
      frame.run.memory.allocate(step.bytes_, to);
      for (std::size_t k = 0; k < to.size(); ++k) {
        for (const Product& t : step.terms_[k]) {
          in_.push_back(
              {frame.slots[at(step.reads[0])][at(t.lhs)]->data(), frame.slots[at(step.reads[1])][at(t.rhs)]->data()});
        }
        out_.push_back(to[k]->data());
      }
      frame.slots.own(at(step.writes[0])) = std::move(to);
    }

    void work(std::int64_t k) const override {
      const std::size_t terms = step_.terms_[at(k)].size();  // of every shard
      for (std::size_t t = 0; t < terms; ++t) {
        void* out = out_[at(k)];
        (t == 0 ? step_.kernel_.run : step_.kernel_.add)(in_[at(k) * terms + t].data(), &out);
      }
    }

   private:
    const SummedProductStep& step_;
    std::vector<std::array<const void*, 2>> in_;
    std::vector<void*> out_;
  };

 public:
  SummedProductStep(Kernel kernel, std::int64_t bytes, std::vector<std::vector<Product>> terms, std::int64_t products)
      : kernel_(std::move(kernel)), bytes_(bytes), terms_(std::move(terms)), products_(products) {}

  void run(Frame& frame) const override {
    const Open open(*this, frame);
    spread(static_cast<std::int64_t>(terms_.size()), each(), [&](std::int64_t k) { open.work(k); });
  }

  std::optional<Works> works(std::size_t most) const override {
    if (terms_.size() > most) return std::nullopt;
    Works out{.list = {}, .shared = {}, .cost = each()};
    for (const auto& terms : terms_) {
      Works::Work work;
      for (const Product& t : terms) {
        work.reads.push_back({reads[0], t.lhs});
        work.reads.push_back({reads[1], t.rhs});
      }
      work.writes.push_back({writes[0], static_cast<std::int32_t>(out.list.size())});
      out.list.push_back(std::move(work));
    }
    return out;
  }
  std::unique_ptr<OpenStep> open(Frame& frame) const override { return std::make_unique<Open>(*this, frame); }

  std::string label() const override {
    return str("dot_general + reshard.all_reduce (", products_, " -> ", terms_.size(), " shards)");
  }
  double cost() const override { return kernel_.cost * static_cast<double>(products_); }

 private:
  double each() const { return cost() / static_cast<double>(terms_.size()); }

  Kernel kernel_;
  std::int64_t bytes_;
  std::vector<std::vector<Product>> terms_;  // by shard of the result
  std::int64_t products_;
};

}  // namespace

StepPtr make_summed_product_step(const ir::Graph& g, const ir::Eqn& e, std::int32_t only_reader, Context& context,
                                 std::size_t& reduced) {
  if (e.op != &ops::def::dot_general && e.op != &transposed_product()) return nullptr;
  const ir::Layout& partial = g.layout(e.out[0]);
  if (partial.partial == 0 || partial.reduction != ir::Reduction::Sum || only_reader < 0 || context.distributed() ||
      config().deterministic || config().debug_nans) {
    return nullptr;
  }
  const ir::Eqn& reader = g.eqns[at(only_reader)];
  if (reader.op != &ops::def::reshard || reader.in.size() > 1 ||
      ir::get<ops::Reshard>(reader.attrs).kind != ops::Reshard::Kind::AllReduce) {
    return nullptr;
  }
  const ir::Layout& whole = g.layout(reader.out[0]);
  if (whole.partial != 0 || whole.dims != partial.dims || whole.vary != partial.vary) return nullptr;
  for (auto v : {e.in[0], e.in[1], e.out[0]}) {
    if (g.layout(v).vary != 0 || !even(g.type(v).shape, g.layout(v), context.mesh())) return nullptr;
  }

  const auto& result = context.table(whole)->map;
  const auto& product = context.table(partial)->map;
  const auto& lhs = context.table(g.layout(e.in[0]))->map;
  const auto& rhs = context.table(g.layout(e.in[1]))->map;
  auto local = [&](ir::ValueId v) { return local_type(g.type(v), g.layout(v), context.mesh(), 0); };
  ir::Types in{local(e.in[0]), local(e.in[1])};
  ir::Types out{local(e.out[0])};
  Kernel kernel = KernelTable::get().find({*e.op, e.attrs, in, out});
  if (!kernel.add) return nullptr;
  // Sums of one shard are made one after the other: fewer shards than threads are worth that only where the library
  // can share out each product.
  constexpr double kSharedOut = 1e6;
  if (result.count % base::num_threads() != 0 && kernel.cost < kSharedOut) return nullptr;

  std::vector<std::vector<Product>> terms(at(result.count));
  std::vector<bool> seen(at(product.count));
  for (std::size_t p = 0; p < product.of_position.size(); ++p) {
    auto shard = at(product.of_position[p]);
    if (seen[shard]) continue;
    seen[shard] = true;
    terms[at(result.of_position[p])].push_back({lhs.of_position[p], rhs.of_position[p]});
  }
  auto step = std::make_unique<SummedProductStep>(std::move(kernel), out[0].nbytes(), std::move(terms), product.count);
  step->reads = e.in;
  step->writes = reader.out;
  reduced = at(only_reader);
  return step;
}

}  // namespace tessera::cpu
