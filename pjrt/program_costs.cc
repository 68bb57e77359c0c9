// SPDX-License-Identifier: Apache-2.0
#include "program_costs.h"

#include <algorithm>

#include "ir/op_def.h"
#include "ops/linalg/conv.h"
#include "ops/shared_attrs.h"
#include "tessera/dtype.h"

namespace tessera::pjrt {

namespace {
class Counter {
 public:
  explicit Counter(const ir::Graph& g) : g_(g) {}
  Costs run() {
    for (const auto& e : g_.eqns) count(e);
    out_.temporary_bytes = temporaries();
    return out_;
  }

 private:
  Shape local(ir::ValueId v) const {
    const Shape& shape = g_.type(v).shape;
    return g_.mesh ? ir::tile_shape(shape, g_.layout(v), *g_.mesh) : shape;
  }
  std::int64_t bytes(ir::ValueId v) const { return size_of(local(v)) * dtype_size(g_.type(v).dtype); }

  void count(const ir::Eqn& e) {
    for (const auto& sub : e.op->subgraphs(e.attrs)) {
      Costs inner = costs_of(*sub);
      out_.flops += inner.flops;
      out_.transcendentals += inner.transcendentals;
      out_.bytes += inner.bytes;
    }
    for (auto v : e.in) out_.bytes += static_cast<double>(bytes(v));
    for (auto v : e.out) out_.bytes += static_cast<double>(bytes(v));
    const ir::Traits& t = e.op->traits();
    if (e.out.empty() || t.view) return;
    auto elements = static_cast<double>(size_of(local(e.out[0])));
    if (const auto* dot = ir::get_if<ops::DotGeneral>(e.attrs)) {
      Shape lhs = local(e.in[0]);
      for (auto d : dot->lhs_contracting) elements *= static_cast<double>(lhs[static_cast<std::size_t>(d)]);
      out_.flops += 2 * elements;
    } else if (const auto* conv = ir::get_if<ops::Conv>(e.attrs)) {
      Shape kernels = local(e.in[1]);
      for (std::size_t d = 1; d < conv->rhs_spec.size(); ++d) {
        elements *= static_cast<double>(kernels[static_cast<std::size_t>(conv->rhs_spec[d])]);
      }
      out_.flops += 2 * elements;
    } else if (t.elementwise && !t.exact && t.linearity == ir::Linearity::None) {
      out_.transcendentals += elements;
    } else if (t.elementwise) {
      out_.flops += elements;
    } else if (t.reduction && !t.collective) {
      for (auto v : e.in) out_.flops += static_cast<double>(size_of(local(v)));
    }
  }

  // What is made and still to be read, but for the program's own arguments and results.
  std::int64_t temporaries() const {
    std::vector<std::int32_t> last = ir::last_uses(g_);
    auto end = static_cast<std::int32_t>(g_.eqns.size());
    std::vector<std::vector<ir::ValueId>> dies(g_.eqns.size());
    for (const auto& e : g_.eqns) {
      for (auto v : e.out) {
        auto at = last[static_cast<std::size_t>(v)];
        if (at >= 0 && at < end) dies[static_cast<std::size_t>(at)].push_back(v);
      }
    }
    std::int64_t now = 0;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < g_.eqns.size(); ++i) {
      for (auto v : g_.eqns[i].out) {
        auto at = last[static_cast<std::size_t>(v)];
        if (at >= 0 && at < end) now += bytes(v);
      }
      most = std::max(most, now);
      for (auto v : dies[i]) now -= bytes(v);
    }
    return most;
  }

  const ir::Graph& g_;
  Costs out_;
};
}  // namespace

Costs costs_of(const ir::Graph& partitioned) { return Counter(partitioned).run(); }

}  // namespace tessera::pjrt
