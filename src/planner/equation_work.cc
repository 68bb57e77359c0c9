// SPDX-License-Identifier: Apache-2.0
#include "planner/equation_work.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "ir/layout.h"
#include "ir/op_def.h"
#include "ops/linalg/conv.h"
#include "ops/ops.h"
#include "runtime/program_costs.h"

namespace tessera::planner {

namespace {

// Element-wise operations that a sum or a product of complex values counts as.
constexpr double kComplex = 4;
// Element-wise operations that an exponential or a logarithm counts as where nobody has measured it.
constexpr double kFunction = 10;

// The rate among `ClusterDevice::known_operations` that this work has; null: it has none of its own.
const char* operation_of(ir::Work work) {
  switch (work) {
    case ir::Work::Plain:
      return nullptr;
    case ir::Work::Root:
      return "root";
    case ir::Work::Exp:
      return "exp";
    case ir::Work::Tanh:
      return "tanh";
    case ir::Work::Function:
      return "transcendental";
    case ir::Work::Special:
      return "special";
    case ir::Work::Sort:
      return "sort";
    case ir::Work::TopK:
      return "top_k";
    case ir::Work::Fft:
      return "fft";
    case ir::Work::Gather:
    case ir::Work::Scatter:
      return "gather";
    case ir::Work::Scan:
      return "scan";
    case ir::Work::Conv:
      return "convolution";
  }
  return nullptr;
}

// By what extents sorts and transforms take more than their elements.
double logarithm(std::int64_t extent) { return std::log2(static_cast<double>(std::max<std::int64_t>(2, extent))); }

bool handles_complex(const ir::Graph& g, const ir::Eqn& e) {
  return is_complex(g.type(e.out[0]).dtype) || is_complex(g.type(e.in[0]).dtype);
}
// What arithmetic on elements does not describe.
void set_operation(const ir::Graph& g, const ir::Eqn& e, Task& t) {
  if (e.in.empty() || e.out.empty()) return;
  const ir::Traits& traits = e.op->traits();
  auto elements = [&](ir::ValueId v) { return static_cast<double>(size_of(local_shape(g, v))); };
  if (traits.elementwise && handles_complex(g, e)) {
    t.vector = kComplex * elements(e.out[0]);
    t.unmeasured = 0;
    if (traits.by_parts) return;
    t.operation = "complex";
    t.elements = elements(e.out[0]);
    t.function = false;
    return;
  }
  t.operation = operation_of(traits.work);
  switch (traits.work) {
    case ir::Work::Plain:
    case ir::Work::Conv:
      return;
    case ir::Work::Root:
    case ir::Work::Exp:
    case ir::Work::Tanh:
    case ir::Work::Function:
    case ir::Work::Special:
      t.unmeasured += std::exchange(t.vector, 0);
      t.elements = elements(e.out[0]);
      return;
    case ir::Work::Sort:
      t.elements = elements(e.in[0]) * logarithm(local_shape(g, e.in[0]).back());
      return;
    case ir::Work::Fft:
      t.elements = std::max(elements(e.in[0]), elements(e.out[0])) * logarithm(local_shape(g, e.out[0]).back());
      return;
    case ir::Work::Gather:
      t.elements = elements(e.out[0]);
      return;
    case ir::Work::Scatter:
      t.elements = elements(e.in.back());
      return;
    case ir::Work::TopK:
      t.elements = elements(e.in[0]);
      t.row_operation = "top_k_row";
      t.rows = row_count(g, e.in[0]) * std::sqrt(static_cast<double>(local_shape(g, e.in[0]).back()));
      return;
    case ir::Work::Scan:
      t.elements = elements(e.in[0]);
      return;
  }
}

// The operand of a product that is a matrix times a vector, if it is one: of each of its rows the library adds the
// products up.
std::optional<ir::ValueId> times_vector(const ir::Graph& g, const ir::Eqn& e, double products) {
  if (e.op != &ops::def::dot_general) return std::nullopt;
  for (auto v : e.in) {
    const Shape shape = local_shape(g, v);
    if (products == 2 * static_cast<double>(size_of(shape)) && shape.size() > 1) return v;
  }
  return std::nullopt;
}
// Convolutions compute whole vectors of channels.
double filled_up(const ir::Graph& g, const ir::Eqn& e) {
  constexpr std::int64_t kVector = 16;
  const auto* conv = ir::get_if<ops::Conv>(e.attrs);
  if (conv == nullptr) return 1;
  const std::int64_t channels = local_shape(g, e.in[1])[static_cast<std::size_t>(conv->rhs_spec[0])];
  if (channels <= 0) return 1;
  return static_cast<double>((channels + kVector - 1) / kVector * kVector) / static_cast<double>(channels);
}

}  // namespace

Shape local_shape(const ir::Graph& g, ir::ValueId v) {
  const ir::Type& t = g.type(v);
  return g.mesh ? ir::tile_shape(t.shape, g.layout(v), *g.mesh) : t.shape;
}

double row_count(const ir::Graph& g, ir::ValueId v) {
  const Shape shape = local_shape(g, v);
  return shape.empty() ? 1 : static_cast<double>(size_of(shape) / std::max<std::int64_t>(1, shape.back()));
}

void describe_work(const ir::Graph& g, const ir::Eqn& e, bool native, Task& t) {
  const runtime::EquationCosts costs = runtime::costs_of(g, e);
  t.products = costs.products;
  if (t.products > 0) t.reads_at = "product_reads";
  if (const auto matrix = times_vector(g, e, costs.products)) {
    t.row_operation = "product_row";
    t.rows = row_count(g, *matrix);
  }
  t.idle = native ? filled_up(g, e) : 1;
  t.vector = costs.flops;
  t.unmeasured = kFunction * costs.transcendentals;
  t.function = costs.transcendentals > 0;
  set_operation(g, e, t);
  for (const auto& sub : e.op->subgraphs(e.attrs)) {  // of a reducer, for each element
    std::int64_t elements = 0;
    for (auto v : e.in) elements = std::max(elements, size_of(local_shape(g, v)));
    t.vector += static_cast<double>(elements) * static_cast<double>(sub->eqns.size());
  }
  if (!e.in.empty()) t.dtype = g.type(e.in[0]).dtype;
}

}  // namespace tessera::planner
