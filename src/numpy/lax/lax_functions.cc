// SPDX-License-Identifier: Apache-2.0
// Functions of jax.lax that are formulas over its primitives.
#include <numeric>

#include "numpy/placed.h"
#include "ops/ops.h"
#include "program/composite.h"
#include "program/promote.h"
#include "tessera/creation.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/products.h"

namespace tessera::lax {

using program::Arrays;
using program::composite;
using program::composites;

std::pair<Array, Array> sort_key_val(const Operand& keys, const Operand& values, std::int64_t dimension, bool stable) {
  auto out = sort({keys.array(), values.array()}, dimension, 1, stable, keys.loc());
  return {out[0], out[1]};
}
std::pair<Array, Array> approx_max_k(const Operand& x, std::int64_t k, std::int64_t axis) { return top_k(x, k, axis); }
std::pair<Array, Array> approx_min_k(const Operand& x, std::int64_t k, std::int64_t axis) {
  Arrays out = composites("approx_min_k", {x}, [&](const Arrays& v) {
    // ~x reverses the order of integers; -x does not at 0 of unsigned ones, nor at the least signed number.
    bool discrete = is_integer(v[0].dtype()) || is_bool(v[0].dtype());
    auto turned = [&](const Array& a) { return discrete ? ~a : -a; };
    auto [values, places] = top_k(turned(v[0]), k, axis);
    return Arrays{turned(values), places};
  });
  return {out[0], out[1]};
}

Array scatter_sub(const Operand& x, const Operand& indices, const Operand& updates, const ScatterDimensionNumbers& n,
                  const ScatterOptions& o) {
  return composite("scatter_sub", {x, indices, updates},
                   [&](const Arrays& v) { return scatter_add(v[0], v[1], -v[2], n, o); });
}

Array mulhi(const Operand& x, const Operand& y) {
  return composite("mulhi", {x, y}, [](const Arrays& v) {
    DType t = v[0].dtype();
    if (!is_integer(t) || v[1].dtype() != t)
      throw TypeError(str("mulhi: dtypes ", dtype_name(t), " and ", dtype_name(v[1].dtype()),
                          "; expected two equal integer dtypes"));
    return program::elementwise(ops::def::mulhi, "mulhi", v[0], v[1]);
  });
}

Array ragged_dot(const Operand& lhs, const Operand& rhs, const Operand& group_sizes) {
  return composite("ragged_dot", {lhs, rhs, group_sizes}, [](const Arrays& v) {
    for (const Array& x : v) {
      if (program::checked_sharding(x, "ragged_dot") == nullptr) continue;
      throw UnimplementedError(
          "ragged_dot: the placement of its result (ragged_dot_general) is not derived; give out_sharding");
    }
    const Shape& a = v[0].shape();
    const Shape& b = v[1].shape();
    if (rank(a) != 2 || rank(b) != 3 || a[1] != b[1] || v[2].shape() != Shape{b[0]} || !is_integer(v[2].dtype()))
      throw ValueError(str("ragged_dot: shapes ", a, ", ", b, " and ", v[2].shape(),
                           "; expected [m, k], [g, k, n] and integer group sizes [g]"));
    Array ends = cumsum(v[2], 0);
    Array row = iota(v[2].dtype(), {a[0], b[0]}, 0);
    Array member = (row < ends) & (row >= ends - v[2]);
    // One row of lhs per group, zero where the group has another row: one product over groups and k.
    Array spread = where(expand_dims(member, 2), expand_dims(v[0], 1), zeros({}, v[0].dtype()));
    return einsum("mgk,gkn->mn", {spread, v[1]});
  });
}

Array conv_general_dilated_patches(const Operand& lhs, const Dims& filter_shape, const ConvOptions& options) {
  return composite("conv_general_dilated_patches", {lhs}, [&](const Arrays& v) {
    const std::string& layout = options.dimension_numbers.empty() ? "" : options.dimension_numbers[0];
    auto at = layout.find('C');
    if (at == std::string::npos || static_cast<std::int64_t>(layout.size()) != v[0].ndim())
      throw ValueError(str("conv_general_dilated_patches: layout \"", layout, "\" for shape ", v[0].shape(),
                           "; expected a letter a dimension, C among them"));
    std::int64_t channels = v[0].shape(static_cast<std::int64_t>(at));
    std::int64_t places =
        std::accumulate(filter_shape.begin(), filter_shape.end(), std::int64_t{1}, std::multiplies<>());
    // A kernel that is 1 at one place of the window, for each place; every channel is a group of its own.
    Shape shape{places, 1};
    shape.insert(shape.end(), filter_shape.begin(), filter_shape.end());
    Dims reps(shape.size(), 1);
    reps[0] = channels;
    Array kernel = tile(reshape(eye(places, {}, 0, v[0].dtype()), shape), reps);
    std::string as = options.dimension_numbers.size() == 3 ? options.dimension_numbers[1] : "";
    std::string spatial;
    for (char c : as) {
      if (c != 'O' && c != 'I') spatial += c;
    }
    if (spatial.size() != filter_shape.size())
      throw ValueError(
          str("conv_general_dilated_patches: filter_shape ", filter_shape, " for the layout \"", as, "\""));
    ConvOptions o = options;
    o.dimension_numbers[1] = "OI" + spatial;
    o.feature_group_count = channels;
    return conv_general_dilated(v[0], kernel, o);
  });
}

}  // namespace tessera::lax

namespace tessera {
Shape broadcast_shapes(const std::vector<Shape>& shapes, const Loc&) {
  return program::broadcast_shapes("broadcast_shapes", shapes);
}
}  // namespace tessera
