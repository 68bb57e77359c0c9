// SPDX-License-Identifier: Apache-2.0
#include "engines/pjrt/lower_for_xla.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "engines/pjrt/sub_graphs.h"
#include "ir/rewriter.h"
#include "ops/collective/collectives.h"
#include "ops/collective/shard_map_op.h"
#include "ops/control/subgraph_structure.h"
#include "ops/linalg/conv.h"
#include "ops/linalg/linalg_common.h"
#include "ops/ops.h"
#include "ops/shape/indexing_ops.h"
#include "ops/shape/sharding_groups.h"
#include "ops/shared_attrs.h"
#include "tessera/error.h"

namespace tessera::pjrt_engine {

namespace {

namespace def = ops::def;
using ir::Builder;
using ir::Eqn;
using ir::Value;
using ir::Values;

// --- products -------------------------------------------------------------------------------------------------------

Value shifted_right(Value x, std::int64_t bits) {
  Value count = ops::scalar(*x.builder, static_cast<double>(bits), x.dtype());
  return is_signed_int(x.dtype()) ? ops::shift_right_arithmetic(x, count) : ops::shift_right_logical(x, count);
}

// The upper 64 bits of a product of unsigned numbers, as one multiplies by hand, digits being of 32 bits.
Value mulhi_u64(Value x, Value y) {
  Value mask = ops::scalar(*x.builder, 4294967295.0, DType::U64);
  auto low = [&](Value v) { return ops::and_(v, mask); };
  Value xl = low(x), xh = shifted_right(x, 32), yl = low(y), yh = shifted_right(y, 32);
  Value middle = xh * yl + shifted_right(xl * yl, 32);  // cannot overflow, as none of these sums can
  Value other = xl * yh + low(middle);
  return xh * yh + shifted_right(middle, 32) + shifted_right(other, 32);
}

Value mulhi(Value x, Value y) {
  const DType t = x.dtype();
  const bool is_signed = is_signed_int(t);
  const std::int64_t bits = dtype_size(t) * 8;
  if (bits < 64) {
    const DType wide = is_signed ? DType::I64 : DType::U64;
    return ops::convert(shifted_right(ops::convert(x, wide) * ops::convert(y, wide), bits), t);
  }
  if (!is_signed) return mulhi_u64(x, y);
  auto as_unsigned = [](Value v) { return ops::bitcast_convert_type(v, DType::U64); };
  Value high = ops::bitcast_convert_type(mulhi_u64(as_unsigned(x), as_unsigned(y)), DType::I64);
  // A negative number is 2^64 less than the unsigned one of its bits.
  auto where_negative = [](Value sign, Value v) { return ops::and_(shifted_right(sign, 63), v); };
  return high - where_negative(x, y) - where_negative(y, x);
}

bool is_any_of(const std::string& platform, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, platform) != names.end();
}

// XLA's GPU backend has no product of float32 that gives float64, and ends the process for one of int8 that gives
// float32. Those of the libraries remain: of halves that give float32, and matrices of int8 that give int32.
bool lacks_product(const ir::Graph& g, const Eqn& e) {
  if (e.op != &def::dot_general && e.op != &def::conv_general_dilated) return false;
  const DType from = g.type(e.in[0]).dtype, to = g.type(e.out[0]).dtype;
  if (from == to || ((from == DType::F16 || from == DType::BF16) && to == DType::F32)) return false;
  return e.op == &def::conv_general_dilated || from != DType::I8 || to != DType::I32;
}
Value convolution(Value x, Value y, ops::Conv p) {
  const DType t = p.preferred.value_or(x.dtype());
  if (!is_complex(x.dtype())) return ops::conv_general_dilated(x, y, p);
  p.preferred = std::nullopt;
  auto of = [&](Value v, Value w) { return ops::conv_general_dilated(v, w, p); };
  Value xr = ops::real(x), xi = ops::imag(x), yr = ops::real(y), yi = ops::imag(y);
  return ops::convert(ops::complex(of(xr, yr) - of(xi, yi), of(xr, yi) + of(xi, yr)), t);
}
// cuDNN's integers are of 8 bits, and its sums saturate. Products of 16 bits and their sums are exact in float64; wider
// numbers are convolved by halves.
Value integer_convolution(Value x, Value y, ops::Conv p) {
  const DType t = p.preferred.value_or(x.dtype());
  const bool narrow = dtype_size(x.dtype()) <= 2;
  p.preferred = std::nullopt;
  auto of = [&](Value v, Value w) {
    return ops::convert(ops::conv_general_dilated(ops::convert(v, DType::F64), ops::convert(w, DType::F64), p),
                        DType::I64);
  };
  if (narrow) return ops::convert(of(x, y), t);
  x = ops::convert(x, DType::I64);
  y = ops::convert(y, DType::I64);
  auto times_power = [](Value v, double bits) { return ops::shift_left(v, ops::scalar(*v.builder, bits, v.dtype())); };
  auto low = [](Value v) { return ops::and_(v, ops::scalar(*v.builder, 65535.0, v.dtype())); };
  Value xl = low(x), yl = low(y), xh = shifted_right(x, 16), yh = shifted_right(y, 16);
  Value sum = of(xl, yl) + times_power(of(xh, yl) + of(xl, yh), 16) + times_power(of(xh, yh), 32);
  return ops::convert(sum, t);
}
// The operands in the result's type.
Value wide_product(const ir::Graph& g, const Eqn& e, const Values& in) {
  const DType t = g.type(e.out[0]).dtype;
  Value x = ops::convert(in[0], t), y = ops::convert(in[1], t);
  if (e.op == &def::conv_general_dilated) return convolution(x, y, ir::get<ops::Conv>(e.attrs));
  return x.builder->add1(def::dot_general, {x, y}, e.attrs);
}

// --- collectives ----------------------------------------------------------------------------------------------------

ops::AllGather gather_of(const ops::Collective& p) {
  ops::AllGather out;
  static_cast<ops::Collective&>(out) = p;
  return out;
}

Value from_source(Value x, const ops::Pbroadcast& p) {
  Value all = ops::all_gather(ops::expand_dims(x, {0}), gather_of(p));
  return ops::squeeze(ops::slice_in_dim(all, p.source, p.source + 1, 0), {0});
}

// Integers of the same order as these floats, where NaN is the extreme.
Value ordered(Value x, bool largest) {
  Builder& b = *x.builder;
  const DType t = x.dtype(), number = dtype_size(t) == 4 ? DType::I32 : DType::I64;
  // NaN of either sign becomes the one that is beyond the infinity.
  Value nan = largest ? ops::scalar(b, std::nan(""), t) : ops::bitcast_convert_type(ops::scalar(b, -1, number), t);
  Value bits = ops::bitcast_convert_type(ops::where(ops::ne(x, x), ops::broadcast_to(nan, x.shape()), x), number);
  Value sign = shifted_right(bits, dtype_size(t) * 8 - 1);
  // Negative floats are ordered backwards: all bits but the sign are turned over.
  Value turned = ops::shift_right_logical(sign, ops::scalar(b, 1, number));
  return ops::xor_(bits, turned);
}
Value from_ordered(Value n, DType t) {
  Value sign = shifted_right(n, dtype_size(t) * 8 - 1);
  Value turned = ops::shift_right_logical(sign, ops::scalar(*n.builder, 1, n.dtype()));
  return ops::bitcast_convert_type(ops::xor_(n, turned), t);
}
// What `of` makes of such integers, which picks extremes.
Value extreme(Value x, bool largest, const std::function<Value(Value)>& of) {
  const DType t = x.dtype();
  Value wide = dtype_size(t) < 4 ? ops::convert(x, DType::F32) : x;
  return ops::convert(from_ordered(of(ordered(wide, largest)), wide.dtype()), t);
}
Value extreme_over_devices(Value x, const ops::Collective& p, bool largest) {
  return extreme(x, largest, [&](Value n) { return largest ? ops::pmax(n, p) : ops::pmin(n, p); });
}
Value extreme_along(Value x, const Dims& axes, bool largest) {
  return extreme(x, largest, [&](Value n) { return largest ? ops::reduce_max(n, axes) : ops::reduce_min(n, axes); });
}

// Operands: operand, output, input offsets, send sizes, output offsets, receive sizes. Every instance gathers the
// operands and finds for each of its rows the one that was sent there.
Value ragged(const Values& in, const ops::Collective& p) {
  Builder& b = *in[0].builder;
  ops::AllToAll exchange;
  static_cast<ops::Collective&>(exchange) = p;
  const std::int64_t slots = in[2].shape()[0], rows = in[1].shape()[0], from_rows = in[0].shape()[0];
  const std::int64_t slots_each = slots / p.group_size();
  // Of what comes here, by the sender's slot, repeated over the rows of the result.
  auto received = [&](Value v) {
    return ops::broadcast_in_dim(ops::all_to_all(ops::convert(v, DType::I64), exchange), {slots, rows}, {0});
  };
  Value from = received(in[2]), size = received(in[3]), to = received(in[4]);
  Value row = ops::iota(b, DType::I64, {slots, rows}, 1), slot = ops::iota(b, DType::I64, {slots, rows}, 0);
  auto number = [&](std::int64_t v) { return ops::scalar(b, static_cast<double>(v), DType::I64); };
  Value inside = ops::and_(ops::ge(row, to), ops::lt(row, to + size));
  Value at = ops::clamp(number(0), from + row - to, number(std::max<std::int64_t>(from_rows - 1, 0)));
  Value source = ops::where(inside, ops::div(slot, number(slots_each)) * number(from_rows) + at,
                            ops::broadcast_to(number(-1), {slots, rows}));
  Value best = ops::reduce_max(source, {0});  // of overlapping slots the last one
  if (from_rows == 0 || rows == 0) return in[1];
  ops::Gather take;
  Shape one = in[0].shape();
  one[0] = 1;
  for (std::int64_t d = 1; d < in[0].rank(); ++d) take.offset_dims.push_back(d);
  take.collapsed_slice_dims = {0};
  take.start_index_map = {0};
  take.slice_sizes = one;
  Value taken = ops::gather(ops::all_gather(in[0], gather_of(p)), ops::reshape(best, {rows, 1}), take);
  Value is_sent = ops::broadcast_in_dim(ops::ge(best, number(0)), in[1].shape(), {0});
  return ops::where(is_sent, taken, in[1]);
}

// --- the walk -------------------------------------------------------------------------------------------------------

class Lowering {
 public:
  Lowering(const std::string& platform, bool splits)
      : platform_(platform), cpu_(platform == "cpu"), gpu_(is_any_of(platform, {"cuda", "rocm"})), splits_(splits) {}

  ir::GraphPtr operator()(const ir::GraphPtr& g) const {
    if (!wants(*g)) return g;
    Builder b;
    ir::Rewriter r(b, *g);
    r.add_inputs();
    r.walk([&](const Eqn& e, const Values& in) { return lowered(r, *g, e, in); });
    return r.finish("lower_for_xla");
  }

 private:
  // Inside a map over all axes nothing is split any more.
  Lowering inside(const Eqn& e) const {
    const auto* map = e.attrs ? ir::get_if<ops::ShardMap>(e.attrs) : nullptr;
    return {platform_, splits_ && (map == nullptr || map->manual.size() < map->mesh_sizes.size())};
  }
  static bool is_empty(const ir::Graph& g, const Eqn& e) {
    if (ops::collective_of(e) == nullptr || e.op == &def::axis_index) return false;
    return std::ranges::all_of(e.out, [&](ir::ValueId v) { return g.type(v).size() == 0; });
  }
  bool is_float_extreme(const ir::Graph& g, const Eqn& e) const {
    return cpu_ && (e.op == &def::pmax || e.op == &def::pmin) && is_float(g.type(e.in[0]).dtype);
  }
  // Along a dimension that is split XLA reduces over devices.
  bool is_split_extreme(const ir::Graph& g, const Eqn& e) const {
    return cpu_ && splits_ && (e.op == &def::reduce_max || e.op == &def::reduce_min) &&
           is_float(g.type(e.in[0]).dtype) && g.type(e.in[0]).size() > 0;
  }
  // Its libraries convolve real numbers.
  bool is_complex_convolution(const ir::Graph& g, const Eqn& e) const {
    return gpu_ && e.op == &def::conv_general_dilated && is_complex(g.type(e.in[0]).dtype);
  }
  // Those of 64 bits the plugin refuses.
  bool is_integer_convolution(const ir::Graph& g, const Eqn& e) const {
    if (!gpu_ || e.op != &def::conv_general_dilated) return false;
    const DType t = g.type(e.in[0]).dtype;
    return !is_inexact(t) && dtype_size(t) < 8;
  }
  // What computes nothing: what dce_sink is to keep has no effect.
  static bool is_note(const Eqn& e) { return e.op == &def::dce_sink || e.op == &def::inspect_sharding; }
  bool changes(const ir::Graph& g, const Eqn& e) const {
    return is_split_extreme(g, e) || e.op == &def::mulhi || is_note(e) || e.op == &def::cholesky || is_foreign(e) ||
           is_empty(g, e) || is_float_extreme(g, e) || (gpu_ && lacks_product(g, e)) || is_complex_convolution(g, e) ||
           is_integer_convolution(g, e) || (cpu_ && (e.op == &def::pbroadcast || e.op == &def::ragged_all_to_all));
  }
  bool wants(const ir::Graph& g) const {
    return std::ranges::any_of(g.eqns, [&](const Eqn& e) {
      return changes(g, e) ||
             std::ranges::any_of(sub_graphs(e), [&](const auto& body) { return inside(e).wants(*body); });
    });
  }

  // LAPACK is the host's.
  bool is_foreign(const Eqn& e) const {
    const std::array lapack = {&def::lu, &def::eigh, &def::svd, &def::hessenberg};
    return is_accelerator(platform_) && std::ranges::find(lapack, e.op) != lapack.end();
  }
  Values lowered(ir::Rewriter& r, const ir::Graph& g, const Eqn& e, const Values& in) const {
    if (!changes(g, e)) return r.copy(e, in, with_lowered_bodies(e));
    if (is_foreign(e)) {
      throw UnimplementedError(
          str("the op ", e.op->name(), " (", to_string(e.loc), ") on the platform ", platform_,
              ": this decomposition is LAPACK's, on the host; run the program on the native engine"));
    }
    if (e.op == &def::cholesky) return {ops::lower_part(r.copy(e, in)[0])};
    if (is_integer_convolution(g, e)) return {integer_convolution(in[0], in[1], ir::get<ops::Conv>(e.attrs))};
    if (gpu_ && lacks_product(g, e)) return {wide_product(g, e, in)};
    if (is_complex_convolution(g, e)) return {convolution(in[0], in[1], ir::get<ops::Conv>(e.attrs))};
    if (e.op == &def::mulhi) return {mulhi(in[0], in[1])};
    if (is_note(e)) return {};
    if (is_empty(g, e)) {
      Values out;
      for (auto v : e.out) out.push_back(ops::zeros(*in[0].builder, g.type(v)));
      return out;
    }
    if (e.op == &def::pbroadcast) return {from_source(in[0], ir::get<ops::Pbroadcast>(e.attrs))};
    if (e.op == &def::ragged_all_to_all) return {ragged(in, ir::get<ops::Collective>(e.attrs))};
    if (is_split_extreme(g, e)) {
      return {extreme_along(in[0], ir::get<ops::Axes>(e.attrs).axes, e.op == &def::reduce_max)};
    }
    return {extreme_over_devices(in[0], ir::get<ops::Collective>(e.attrs), e.op == &def::pmax)};
  }
  ir::Attrs with_lowered_bodies(const Eqn& e) const {
    const std::vector<ir::GraphPtr> before = sub_graphs(e);
    std::vector<ir::GraphPtr> now = before;
    for (auto& body : now) body = inside(e)(body);
    return now == before ? e.attrs : ops::with_bodies(e, now);
  }

  const std::string& platform_;
  bool cpu_, gpu_;
  bool splits_;  // values may be split over devices
};

}  // namespace

bool is_accelerator(const std::string& platform) { return is_any_of(platform, {"cuda", "rocm", "tpu"}); }

ir::GraphPtr lowered_for_xla(const ir::GraphPtr& g, const std::string& platform, std::int64_t devices) {
  return Lowering(platform, devices > 1)(g);
}

}  // namespace tessera::pjrt_engine
