// SPDX-License-Identifier: Apache-2.0
// The deterministic mode as a change of the program: what is summed in which order is then said by its equations.
#include <algorithm>

#include "ir/op_def.h"
#include "ir/rewriter.h"
#include "ops/control/subgraph_structure.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"
#include "spmd/spmd.h"

namespace tessera::spmd {

namespace {

using ir::Value;
using ir::Values;

// How many leaves a dimension has, and how long they are. Eight leaves serve meshes of 2, 4 and 8; where the extent is
// not a multiple of eight, as many as divide it, or for longer dimensions leaves as long as the tiles of an uneven
// split over eight, the last one filled up with zeros.
struct Leaves {
  std::int64_t count = 1;
  std::int64_t size = 1;
  std::int64_t padded() const { return count * size; }
};
Leaves leaves_of(std::int64_t extent, std::int64_t most) {
  for (std::int64_t count = most; count > 1; count /= 2) {
    if (extent % count == 0 && (count == most || extent < 64)) return {count, extent / count};
  }
  if (extent < 16) return {1, extent};
  std::int64_t size = (extent + 7) / 8;
  return {(extent + size - 1) / size, size};
}
constexpr std::int64_t kLeaves = 8;
constexpr std::int64_t kLeafElements = 1024;  // long dimensions have as many leaves of at least this size as fit, to 64

std::int64_t most_leaves(std::int64_t extent) {
  std::int64_t most = kLeaves;
  while (most < 64 && extent / (2 * most) >= kLeafElements) most *= 2;
  return most;
}

// Dimension d as (count, size), filled up by `fill`.
Value cut(Value x, std::int64_t d, const Leaves& leaves, double fill) {
  if (leaves.padded() != x.shape()[at(d)]) {
    Dims zeros(x.shape().size(), 0);
    Dims high = zeros;
    high[at(d)] = leaves.padded() - x.shape()[at(d)];
    x = ops::pad(x, ops::scalar(*x.builder, fill, x.dtype()), zeros, high);
  }
  Shape shape = x.shape();
  shape[at(d)] = leaves.size;
  shape.insert(shape.begin() + d, leaves.count);
  return ops::reshape(x, shape);
}

class Writer {
 public:
  explicit Writer(const ir::Graph& g) : g_(g), r_(b_, g) {}

  ir::GraphPtr run() {
    r_.add_inputs();
    r_.walk([this](const ir::Eqn& e, const Values& in) { return write(e, in); });
    return r_.finish("with_fixed_leaves");
  }

 private:
  Values write(const ir::Eqn& e, const Values& in) {
    bool rounds =
        !e.out.empty() && is_inexact(g_.type(e.out[0]).dtype) && g_.type(e.in.empty() ? e.out[0] : e.in[0]).size() > 0;
    if (rounds && (e.op == &ops::def::reduce_sum || e.op == &ops::def::reduce_prod)) return {reduced(*e.op, e, in[0])};
    if (rounds && e.op == &ops::def::dot_general) return {product(e, in)};
    auto control = ops::control_of(e);
    if (!control) return r_.copy(e, in);
    std::vector<ir::GraphPtr> bodies;
    for (const auto& body : control->bodies) bodies.push_back(with_fixed_leaves(body.graph));
    return r_.copy(e, in, ops::with_bodies(e, bodies));
  }

  Value reduced(const ir::OpDef& op, const ir::Eqn& e, Value x) {
    Dims axes = ir::get<ops::Axes>(e.attrs).axes;
    std::sort(axes.begin(), axes.end());
    Dims inside;  // within leaves
    Dims leaves;  // of leaves, where those within are gone
    std::int64_t added = 0;
    std::int64_t total = 1;
    for (auto axis : axes) {
      std::int64_t d = axis + added;
      std::int64_t extent = x.shape()[at(d)];
      Leaves l = leaves_of(extent, most_leaves(extent));
      if (l.count == 1 || total * l.count > 4096) {
        inside.push_back(d);
        continue;
      }
      total *= l.count;
      leaves.push_back(d - static_cast<std::int64_t>(inside.size()));
      x = cut(x, d, l, op.traits().reduction == ir::Reduction::Prod ? 1 : 0);
      inside.push_back(d + 1);
      ++added;
    }
    x = b_.add1(op, {x}, ir::make_attrs(ops::Axes{inside}));
    return leaves.empty() ? x : b_.add1(op, {x}, ir::make_attrs(ops::Axes{leaves}));
  }

  Value product(const ir::Eqn& e, const Values& in) {
    ops::DotGeneral p = ir::get<ops::DotGeneral>(e.attrs);
    // The first dimension that has leaves: a batch, where gradients are summed over one.
    for (std::size_t i = 0; i < p.lhs_contracting.size(); ++i) {
      std::int64_t l = p.lhs_contracting[i];
      std::int64_t r = p.rhs_contracting[i];
      Leaves leaves = leaves_of(in[0].shape()[at(l)], kLeaves);
      if (leaves.count == 1) continue;
      auto shift = [](Dims& dims, std::int64_t after) {
        for (auto& d : dims) d += d >= after ? 1 : 0;
      };
      for (auto* dims : {&p.lhs_contracting, &p.lhs_batch}) shift(*dims, l);
      for (auto* dims : {&p.rhs_contracting, &p.rhs_batch}) shift(*dims, r);
      p.lhs_batch.insert(p.lhs_batch.begin(), l);
      p.rhs_batch.insert(p.rhs_batch.begin(), r);
      Value x = b_.add1(ops::def::dot_general, {cut(in[0], l, leaves, 0), cut(in[1], r, leaves, 0)}, ir::make_attrs(p));
      return ops::reduce_sum(x, {0});
    }
    return b_.add1(ops::def::dot_general, {in[0], in[1]}, e.attrs);
  }

  const ir::Graph& g_;
  ir::Builder b_;
  ir::Rewriter r_;
};

}  // namespace

ir::GraphPtr with_fixed_leaves(const ir::GraphPtr& graph) { return Writer(*graph).run(); }

}  // namespace tessera::spmd
