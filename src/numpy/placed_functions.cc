// SPDX-License-Identifier: Apache-2.0
// The forms with `out_sharding` of functions that have no other options.
#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "numpy/placed.h"
#include "program/promote.h"
#include "tessera/creation.h"
#include "tessera/initializers.h"
#include "tessera/lax.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"
#include "tessera/shaping.h"
#include "tessera/statistics.h"

namespace tessera {

using detail::placed_as;

// --- creation --------------------------------------------------------------------------------------------------------

Array zeros(const Shape& shape, const PlaceOptions& o, const Loc& loc) { return zeros(shape, float32, o, loc); }
Array zeros(const Shape& shape, DType dtype, const PlaceOptions& o, const Loc& loc) {
  return placed_as(o.out_sharding, "zeros", [&] { return zeros(shape, dtype, loc); });
}
Array ones(const Shape& shape, const PlaceOptions& o, const Loc& loc) { return ones(shape, float32, o, loc); }
Array ones(const Shape& shape, DType dtype, const PlaceOptions& o, const Loc& loc) {
  return placed_as(o.out_sharding, "ones", [&] { return ones(shape, dtype, loc); });
}
Array empty(const Shape& shape, const PlaceOptions& o, const Loc& loc) { return empty(shape, float32, o, loc); }
Array empty(const Shape& shape, DType dtype, const PlaceOptions& o, const Loc& loc) {
  return placed_as(o.out_sharding, "empty", [&] { return empty(shape, dtype, loc); });
}
Array full(const Shape& shape, const Operand& value, const PlaceOptions& o) {
  return full(shape, value, std::nullopt, o);
}
Array full(const Shape& shape, const Operand& value, std::optional<DType> dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "full", [&] { return full(shape, value, dtype); });
}

Array arange(std::int64_t stop, const PlaceOptions& o, const Loc& loc) { return arange(0, stop, 1, o, loc); }
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, const PlaceOptions& o, const Loc& loc) {
  return placed_as(o.out_sharding, "arange", [&] { return arange(start, stop, step, loc); });
}
Array arange(std::int64_t stop, DType dtype, const PlaceOptions& o, const Loc& loc) {
  return arange(0, stop, 1, dtype, o, loc);
}
Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, DType dtype, const PlaceOptions& o,
             const Loc& loc) {
  return placed_as(o.out_sharding, "arange", [&] { return arange(start, stop, step, dtype, loc); });
}
Array detail::float_range(double start, double stop, double step, DType dtype, const PlaceOptions& o, const Loc& loc) {
  return placed_as(o.out_sharding, "arange", [&] { return float_range(start, stop, step, dtype, loc); });
}

Array array(const ArrayLiteral& values, const PlaceOptions& o, const Loc& loc) {
  return array(values, std::nullopt, o, loc);
}
Array array(const ArrayLiteral& values, std::optional<DType> dtype, const PlaceOptions& o, const Loc& loc) {
  return placed_as(o.out_sharding, "array", [&] { return array(values, dtype, loc); });
}
Array asarray(const Operand& x, const PlaceOptions& o) { return asarray(x, std::nullopt, o); }
Array asarray(const Operand& x, std::optional<DType> dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "asarray", [&] { return asarray(x, dtype); });
}

namespace {
// f() has x's shape and placement; another shape is filled anew, which leaves it unsplit.
Array like(const char* name, const Operand& x, const Operand& value, const LikeOptions& o,
           const std::function<Array()>& f) {
  return placed_as(o.out_sharding, name, [&] {
    const Shape& own = x.array().shape();
    if (o.shape && *o.shape != own) return full(*o.shape, value, o.dtype.value_or(x.array().dtype()));
    Array y = f();
    return o.dtype ? astype(program::on(y, x.loc()), *o.dtype) : y;
  });
}
}  // namespace
Array zeros_like(const Operand& x, const LikeOptions& o) {
  return like("zeros_like", x, Operand(0, x.loc()), o, [&] { return zeros_like(x); });
}
Array ones_like(const Operand& x, const LikeOptions& o) {
  return like("ones_like", x, Operand(1, x.loc()), o, [&] { return ones_like(x); });
}
Array empty_like(const Operand& x, const LikeOptions& o) {
  return like("empty_like", x, Operand(0, x.loc()), o, [&] { return empty_like(x); });
}
Array full_like(const Operand& x, const Operand& value, const LikeOptions& o) {
  return like("full_like", x, value, o, [&] { return full_like(x, value, o.dtype); });
}

// --- shapes ----------------------------------------------------------------------------------------------------------

namespace {
Dims reversed(std::int64_t rank) {
  Dims d(static_cast<std::size_t>(rank));
  std::iota(d.rbegin(), d.rend(), 0);
  return d;
}
// Reading in another order moves elements between devices in ways that no placement follows.
void check_order(const Operand& x, const Shape& shape) {
  const ArrayType t = type_of(x);
  if (std::all_of(t.spec.begin(), t.spec.end(), [](const SpecEntry& e) { return e.axes().empty(); })) return;
  throw ShardingTypeError(str("reshape: ", to_string(t), " to ", shape,
                              " in another order than row-major; expected out_sharding, or an operand that is not "
                              "split"));
}
// Other elements in a place do not make a sum complete.
void check_marks(const Operand& x, const ShardingArg& out) {
  const ArrayType t = type_of(x);
  if (t.mesh.empty()) return;
  const auto* named = dynamic_cast<const NamedSharding*>(out.sharding().get());
  const PartitionSpec want = named != nullptr ? named->spec() : out.spec().value_or(P());
  auto places = [&](const std::vector<AxisRef>& axes) {
    std::vector<int> at;
    for (const auto& a : axes) at.push_back(t.mesh.axis_index(a).value_or(-1));
    std::ranges::sort(at);
    return at;
  };
  for (bool open : {true, false}) {
    if (open ? places(want.unreduced()) == places(t.spec.unreduced())
             : places(want.reduced()) == places(t.spec.reduced()))
      continue;
    throw ValueError(str("reshape: out_sharding = ", want, " for an operand ", to_string(t), "; expected the same ",
                         open ? "unreduced" : "reduced", " axes as the operand's: reshard it before or after"));
  }
}
}  // namespace

Array reshape(const Operand& x, const Shape& shape, const ReshapeOptions& o) {
  const std::int64_t rank = x.array().ndim();
  if (!o.dimensions.empty() && o.column_major)
    throw ValueError("reshape: dimensions and column_major are given; expected one of them");
  const Dims order = o.column_major ? reversed(rank) : o.dimensions;
  const bool moved = !std::is_sorted(order.begin(), order.end());
  if (moved && !o.out_sharding.given()) check_order(x, shape);
  if (o.out_sharding.given()) check_marks(x, o.out_sharding);
  return placed_as(o.out_sharding, "reshape", [&] {
    if (!moved) return reshape(order.empty() ? x : program::on(transpose(x, order), x.loc()), shape);
    const Operand turned = program::on(transpose(x, order), x.loc());
    if (!o.column_major) return reshape(turned, shape);
    const Shape backwards(shape.rbegin(), shape.rend());
    return transpose(program::on(reshape(turned, backwards), x.loc()));
  });
}
Array ravel(const Operand& x, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "ravel", [&] { return ravel(x); });
}
Array broadcast_to(const Operand& x, const Shape& shape, const PlaceOptions& o) {
  if (x.array().shape() == shape && o.out_sharding.given()) {
    const ArrayType t = type_of(x);
    const auto* named = dynamic_cast<const NamedSharding*>(o.out_sharding.sharding().get());
    std::vector<SpecEntry> want = (named != nullptr ? named->spec() : *o.out_sharding.spec()).entries();
    want.resize(std::max(want.size(), shape.size()), SpecEntry(none));
    for (std::size_t d = 0; d < shape.size() && d < t.spec.size(); ++d) {
      if (t.spec[d].axes().empty() || t.spec[d].axes() == want[d].axes()) continue;
      throw ValueError(str("broadcast_to: broadcasting ", to_string(t), " to its own shape moves nothing, and ",
                           "out_sharding = ", PartitionSpec(want), " is another placement; use reshard"));
    }
  }
  return placed_as(o.out_sharding, "broadcast_to", [&] { return broadcast_to(x, shape); });
}
Array broadcast_in_dim(const Operand& x, const Shape& shape, const Dims& dims, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "broadcast_in_dim", [&] { return broadcast_in_dim(x, shape, dims); });
}
Array repeat(const Operand& x, std::int64_t repeats, std::optional<std::int64_t> axis, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "repeat", [&] { return repeat(x, repeats, axis); });
}
Array repeat(const Operand& x, const Array& repeats, std::optional<std::int64_t> axis,
             std::optional<std::int64_t> total, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "repeat", [&] { return repeat(x, repeats, axis, total); });
}

namespace {
// Marks of the operand stay in a sum, where an axis cannot split it, too.
void check_open_axes(const Operand& x, const ShardingArg& out) {
  if (!out.spec()) return;
  const ArrayType t = type_of(x);
  // An operand that no axis splits is whole on every device, and its sum goes anywhere.
  if (std::ranges::all_of(t.spec, [](const SpecEntry& e) { return e.axes().empty(); })) return;
  for (const SpecEntry& e : *out.spec()) {
    for (const auto& a : e.axes()) {
      const bool open = std::ranges::find(t.spec.unreduced(), a) != t.spec.unreduced().end();
      const bool marked = std::ranges::find(t.spec.reduced(), a) != t.spec.reduced().end();
      if (!open && !marked) continue;
      throw ValueError(str("reduce_sum: out_sharding = ", *out.spec(), " splits over '", to_string(a),
                           "', over which the operand ", to_string(t), " is ", open ? "unreduced" : "reduced",
                           "; expected other axes: reshard the result"));
    }
  }
}
}  // namespace

Array percentile(const Operand& x, const Operand& q, const QuantileOptions& options, const PlaceOptions& place) {
  return placed_as(place.out_sharding, "percentile", [&] { return percentile(x, q, options); });
}

namespace lax {

Array broadcast(const Operand& x, const Dims& sizes, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "broadcast", [&] { return broadcast(x, sizes); });
}
Array broadcasted_iota(DType dtype, const Shape& shape, std::int64_t dimension, const PlaceOptions& o, const Loc& loc) {
  return placed_as(o.out_sharding, "broadcasted_iota", [&] { return iota(dtype, shape, dimension, loc); });
}
Array reduce_sum(const Operand& x, const Dims& axes, const PlaceOptions& o) {
  check_open_axes(x, o.out_sharding);
  return placed_as(o.out_sharding, "reduce_sum", [&] { return reduce_sum(x, axes); });
}
std::vector<Array> reduce(const std::vector<Array>& operands, const std::vector<Array>& init, const Reducer& reducer,
                          const Dims& axes, const PlaceOptions& o, const Loc& loc) {
  if (!o.out_sharding.given()) return reduce(operands, init, reducer, axes, loc);
  std::vector<Array> out;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    out.push_back(placed_as(o.out_sharding, "reduce", [&] { return reduce(operands, init, reducer, axes, loc)[i]; }));
  }
  return out;
}

}  // namespace lax

namespace nn::initializers {

Array Initializer::operator()(const Array& key, const Shape& shape, DType dtype, const PlaceOptions& o,
                              const Loc&) const {
  return placed_as(o.out_sharding, "initializer", [&] { return f_(key, shape, dtype); });
}

}  // namespace nn::initializers

}  // namespace tessera
