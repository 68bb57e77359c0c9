// SPDX-License-Identifier: Apache-2.0
// Functions of jax.lax that are formulas over its primitives.
#include <numeric>

#include "numpy/placed.h"
#include "ops/linalg/ragged_dot.h"
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

Array ragged_dot_general(const Operand& lhs, const Operand& rhs, const Operand& group_sizes,
                         const RaggedDotDimensionNumbers& n, const DotOptions& o) {
  constexpr const char* kName = "ragged_dot_general";
  return detail::placed_as(o.out_sharding, kName, [&] {
    return composite(kName, {lhs, rhs, group_sizes}, [&](const Arrays& v) {
      for (const Array& x : v) {
        if (program::checked_sharding(x, kName) == nullptr) continue;
        throw UnimplementedError(
            "ragged_dot: the placement of its result (ragged_dot_general) is not derived; give out_sharding");
      }
      program::Trace& t = *program::Trace::current();
      const ops::DotGeneral dot{n.lhs_contracting, n.rhs_contracting,        n.lhs_batch,
                                n.rhs_batch,       o.preferred_element_type, o.precision};
      return t.wrap(ops::ragged_dot_general(t.lift(v[0], kName), t.lift(v[1], kName), t.lift(v[2], kName), dot,
                                            n.lhs_ragged_dimensions, n.rhs_group_dimensions));
    });
  });
}

Array ragged_dot(const Operand& lhs, const Operand& rhs, const Operand& group_sizes, const DotOptions& o) {
  const Shape& a = lhs.array().shape();
  const Shape& b = rhs.array().shape();
  const Array& sizes = group_sizes.array();
  if (rank(a) != 2 || rank(b) != 3 || a[1] != b[1] || sizes.shape() != Shape{b[0]} || !is_integer(sizes.dtype())) {
    throw ValueError(str("ragged_dot: shapes ", a, ", ", b, " and ", sizes.shape(),
                         "; expected [m, k], [g, k, n] and integer group sizes [g]"));
  }
  return ragged_dot_general(lhs, rhs, group_sizes,
                            {{.lhs_contracting = {1}, .rhs_contracting = {1}},
                             /*lhs_ragged_dimensions=*/{0},
                             /*rhs_group_dimensions=*/{0}},
                            o);
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
