// SPDX-License-Identifier: Apache-2.0
#include "numpy/indexing/index_plan.h"
#include "ops/shape/indexing_ops.h"
#include "program/graph_fragment.h"
#include "tessera/lax.h"

namespace tessera::lax {

using program::graph_fragment1;

namespace {
ops::Scatter scatter_attrs(const ScatterDimensionNumbers& n, const ScatterOptions& o) {
  return {n.update_window_dims,    n.inserted_window_dims,          n.scatter_dims_to_operand_dims,
          n.operand_batching_dims, n.scatter_indices_batching_dims, program::mode_of(o.mode),
          o.unique_indices};
}

using ScatterFn = ir::Value (*)(ir::Value, ir::Value, ir::Value, const ops::Scatter&);
Array scatter_with(const char* name, ScatterFn f, const Operand& x, const Operand& indices, const Operand& updates,
                   const ScatterDimensionNumbers& n, const ScatterOptions& o) {
  return graph_fragment1(name, x.loc(), {x.array(), indices.array(), updates.array()},
                         [&](ir::Builder&, const ir::Values& v) { return f(v[0], v[1], v[2], scatter_attrs(n, o)); });
}
}  // namespace

Array gather(const Operand& x, const Operand& start_indices, const GatherDimensionNumbers& n, const Dims& slice_sizes,
             const GatherOptions& o) {
  ops::Gather g{n.offset_dims,
                n.collapsed_slice_dims,
                n.start_index_map,
                n.operand_batching_dims,
                n.start_indices_batching_dims,
                slice_sizes,
                program::mode_of(o.mode),
                o.fill_value,
                o.unique_indices};
  return graph_fragment1("gather", x.loc(), {x.array(), start_indices.array()},
                         [&](ir::Builder&, const ir::Values& v) { return ops::gather(v[0], v[1], g); });
}
Array scatter(const Operand& x, const Operand& indices, const Operand& updates, const ScatterDimensionNumbers& n,
              const ScatterOptions& o) {
  return scatter_with("scatter", ops::scatter, x, indices, updates, n, o);
}
Array scatter_add(const Operand& x, const Operand& indices, const Operand& updates, const ScatterDimensionNumbers& n,
                  const ScatterOptions& o) {
  return scatter_with("scatter_add", ops::scatter_add, x, indices, updates, n, o);
}
Array scatter_mul(const Operand& x, const Operand& indices, const Operand& updates, const ScatterDimensionNumbers& n,
                  const ScatterOptions& o) {
  return scatter_with("scatter_mul", ops::scatter_mul, x, indices, updates, n, o);
}
Array scatter_min(const Operand& x, const Operand& indices, const Operand& updates, const ScatterDimensionNumbers& n,
                  const ScatterOptions& o) {
  return scatter_with("scatter_min", ops::scatter_min, x, indices, updates, n, o);
}
Array scatter_max(const Operand& x, const Operand& indices, const Operand& updates, const ScatterDimensionNumbers& n,
                  const ScatterOptions& o) {
  return scatter_with("scatter_max", ops::scatter_max, x, indices, updates, n, o);
}

}  // namespace tessera::lax
