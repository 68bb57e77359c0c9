// SPDX-License-Identifier: Apache-2.0
// A product whose contracted dimension is split gives partial shards, which an all-reduce would read and sum. Inside
// one process the library adds each product to the sum directly: partial shards are never written.
#include "base/strings.h"
#include "base/thread_pool.h"
#include "engines/cpu/adapters/kernel_table.h"
#include "engines/cpu/passes/fold_transposes.h"
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
 public:
  SummedProductStep(Kernel kernel, std::int64_t bytes, std::vector<std::vector<Product>> terms, std::int64_t products)
      : kernel_(std::move(kernel)), bytes_(bytes), terms_(std::move(terms)), products_(products) {}

  void run(Frame& frame) const override {
    const ShardBuffers& lhs = frame.slots[at(reads[0])];
    const ShardBuffers& rhs = frame.slots[at(reads[1])];
    ShardBuffers to(terms_.size());
    frame.run.memory.allocate(bytes_, to);
    spread(static_cast<std::int64_t>(terms_.size()), cost() / static_cast<double>(terms_.size()), [&](std::int64_t k) {
      void* out = to[at(k)]->data();
      bool first = true;
      for (const Product& t : terms_[at(k)]) {
        const void* in[] = {lhs[at(t.lhs)]->data(), rhs[at(t.rhs)]->data()};
        (first ? kernel_.run : kernel_.add)(in, &out);
        first = false;
      }
    });
    frame.slots.own(at(writes[0])) = std::move(to);
  }

  std::string label() const override {
    return str("dot_general + reshard.all_reduce (", products_, " -> ", terms_.size(), " shards)");
  }
  double cost() const override { return kernel_.cost * static_cast<double>(products_); }

 private:
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
