// SPDX-License-Identifier: Apache-2.0
#include "runtime/program_costs.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "ir/op_def.h"
#include "ops/linalg/conv.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "tessera/dtype.h"

namespace tessera::runtime {

namespace {

class Sizes {
 public:
  explicit Sizes(const ir::Graph& g) : g_(g) {}
  Shape local(ir::ValueId v) const {
    const Shape& shape = g_.type(v).shape;
    return g_.mesh ? ir::tile_shape(shape, g_.layout(v), *g_.mesh) : shape;
  }
  std::int64_t bytes(ir::ValueId v) const { return size_of(local(v)) * dtype_size(g_.type(v).dtype); }
  std::int64_t bytes(const std::vector<ir::ValueId>& values) const {
    std::int64_t out = 0;
    for (auto v : values) out += bytes(v);
    return out;
  }

 private:
  const ir::Graph& g_;
};

struct Costs {
  double flops = 0, transcendentals = 0, bytes = 0;
};

class Counter {
 public:
  explicit Counter(const ir::Graph& g) : g_(g), sizes_(g) {}
  Costs run() {
    for (const auto& e : g_.eqns) count(e);
    return out_;
  }

 private:
  void count(const ir::Eqn& e) {
    for (const auto& sub : e.op->subgraphs(e.attrs)) {
      const Costs inner = Counter(*sub).run();
      out_.flops += inner.flops;
      out_.transcendentals += inner.transcendentals;
      out_.bytes += inner.bytes;
    }
    for (auto v : e.in) out_.bytes += static_cast<double>(sizes_.bytes(v));
    for (auto v : e.out) out_.bytes += static_cast<double>(sizes_.bytes(v));
    const EquationCosts own = costs_of(g_, e);
    out_.flops += own.products + own.flops;
    out_.transcendentals += own.transcendentals;
  }

  const ir::Graph& g_;
  Sizes sizes_;
  Costs out_;
};

// Of the donated arguments whose memory a result can take, each that of one.
std::int64_t alias_bytes(const ir::Graph& g, const Sizes& sizes, const std::vector<bool>& donated) {
  std::vector<bool> taken(g.outputs.size());
  std::int64_t out = 0;
  for (std::size_t i = 0; i < std::min(donated.size(), g.inputs.size()); ++i) {
    const std::int64_t bytes = sizes.bytes(g.inputs[i]);
    for (std::size_t j = 0; donated[i] && j < taken.size(); ++j) {
      if (taken[j] || sizes.bytes(g.outputs[j]) != bytes) continue;
      taken[j] = true;
      out += bytes;
      break;
    }
  }
  return out;
}

// Divisions count as the operations that they are in most sums of work; roots do not.
bool is_function(const ir::Traits& t) {
  switch (t.work) {
    case ir::Work::Root:
      return t.linearity == ir::Linearity::None;
    case ir::Work::Exp:
    case ir::Work::Tanh:
    case ir::Work::Function:
    case ir::Work::Special:
      return true;
    default:
      return false;
  }
}

}  // namespace

EquationCosts costs_of(const ir::Graph& g, const ir::Eqn& e) {
  const Sizes sizes(g);
  const ir::Traits& t = e.op->traits();
  EquationCosts out;
  if (e.out.empty() || t.view) return out;
  auto elements = static_cast<double>(size_of(sizes.local(e.out[0])));
  if (const auto* dot = ir::get_if<ops::DotGeneral>(e.attrs)) {
    Shape lhs = sizes.local(e.in[0]);
    for (auto d : dot->lhs_contracting) elements *= static_cast<double>(lhs[static_cast<std::size_t>(d)]);
    out.products = 2 * elements;
  } else if (const auto* conv = ir::get_if<ops::Conv>(e.attrs)) {
    Shape kernels = sizes.local(e.in[1]);
    for (std::size_t d = 1; d < conv->rhs_spec.size(); ++d) {
      elements *= static_cast<double>(kernels[static_cast<std::size_t>(conv->rhs_spec[d])]);
    }
    out.products = 2 * elements;
  } else if (t.elementwise && is_function(t)) {
    out.transcendentals = elements;
  } else if (t.elementwise) {
    out.flops = elements;
  } else if (t.reduction && !t.collective) {
    for (auto v : e.in) out.flops += static_cast<double>(size_of(sizes.local(v)));
  }
  return out;
}

CostAnalysis costs_of(const ir::Graph& partitioned) {
  const Costs costs = Counter(partitioned).run();
  return {{"flops", costs.flops}, {"transcendentals", costs.transcendentals}, {"bytes accessed", costs.bytes}};
}

std::vector<ir::ValueId> memory_owners(const ir::Graph& g) {
  using namespace ops::def;
  std::vector<ir::ValueId> out(g.num_values());
  std::iota(out.begin(), out.end(), 0);
  for (const auto& e : g.eqns) {
    const bool shares = e.op == &reshape || e.op == &optimization_barrier || e.op == &stop_gradient;
    for (std::size_t k = 0; shares && k < e.out.size(); ++k) {
      out[static_cast<std::size_t>(e.out[k])] = out[static_cast<std::size_t>(e.in[k])];
    }
  }
  return out;
}

// What is made and still to be read.
std::int64_t temporary_bytes(const ir::Graph& g) {
  const Sizes sizes(g);
  const std::vector<ir::ValueId> owners = memory_owners(g);
  const std::vector<std::int32_t> last_reads = ir::last_uses(g);
  std::vector<std::int32_t> last = last_reads;  // of a value or one that shares its memory
  for (std::size_t v = 0; v < owners.size(); ++v) {
    auto& of_owner = last[static_cast<std::size_t>(owners[v])];
    of_owner = std::max(of_owner, last_reads[v]);
  }
  auto end = static_cast<std::int32_t>(g.eqns.size());
  std::vector<std::vector<ir::ValueId>> dies(g.eqns.size());
  std::int64_t now = 0;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < g.eqns.size(); ++i) {
    for (auto v : g.eqns[i].out) {
      auto at = last[static_cast<std::size_t>(v)];
      if (owners[static_cast<std::size_t>(v)] != v || at < 0 || at >= end) continue;
      dies[static_cast<std::size_t>(at)].push_back(v);
      now += sizes.bytes(v);
    }
    std::int64_t inside = 0;  // of branches the largest
    for (const auto& sub : g.eqns[i].op->subgraphs(g.eqns[i].attrs)) inside = std::max(inside, temporary_bytes(*sub));
    most = std::max(most, now + inside);
    for (auto v : dies[i]) now -= sizes.bytes(v);
  }
  return most;
}

CompiledMemoryStats memory_of(const ir::Graph& partitioned, const std::vector<bool>& donated) {
  const Sizes sizes(partitioned);
  CompiledMemoryStats out;
  out.argument_size_in_bytes = sizes.bytes(partitioned.inputs);
  out.output_size_in_bytes = sizes.bytes(partitioned.outputs);
  out.alias_size_in_bytes = alias_bytes(partitioned, sizes, donated);
  out.temp_size_in_bytes = temporary_bytes(partitioned);
  out.peak_memory_in_bytes =
      out.argument_size_in_bytes + out.output_size_in_bytes - out.alias_size_in_bytes + out.temp_size_in_bytes;
  return out;
}

}  // namespace tessera::runtime
