// SPDX-License-Identifier: Apache-2.0
// Constants and what moves elements at places that are known.
#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/ops.h"
#include "ops/shared_attrs.h"
#include "ops/transform/interpret.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Types;

Texts constant(Writer& w, const Eqn& e, const Texts&, const Types&) {
  return {w.constant(ops::interpret(*e.op, {}, e.attrs)[0])};
}
Texts iota(Writer& w, const Eqn& e, const Texts&, const Types& out) {
  const auto& p = ir::get<ops::Iota>(e.attrs);
  Text v = w.iota(p.dtype, out[0].shape, p.dimension);
  if (p.start == 0) return {v};
  return {w.op("stablehlo.add", {v, w.constant(static_cast<double>(p.start), out[0].dtype, out[0].shape)}, out[0])};
}
Texts broadcast_in_dim(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  return {w.broadcast(in[0], out[0].shape, ir::get<ops::BroadcastInDim>(e.attrs).dims)};
}
// Where each dimension of `from` stands in `to` when `to` only has more dimensions of 1.
std::optional<Dims> expansion(const Shape& from, const Shape& to) {
  Dims dims;
  std::size_t at = 0;
  for (std::size_t d = 0; d < to.size(); ++d) {
    if (at < from.size() && from[at] == to[d]) {
      dims.push_back(static_cast<std::int64_t>(d));
      ++at;
    } else if (to[d] != 1) {
      return std::nullopt;
    }
  }
  return at == from.size() && to.size() > from.size() ? std::optional(dims) : std::nullopt;
}
Texts reshape(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  auto dims = expansion(in[0].type.shape, out[0].shape);
  return {dims ? w.broadcast(in[0], out[0].shape, *dims) : w.reshape(in[0], out[0].shape)};
}
Texts transpose(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Transpose>(e.attrs);
  return {w.line(str("stablehlo.transpose ", in[0].name, ", dims = [", join(p.permutation), "] : ", signature(in, out)),
                 out[0])};
}
Texts pad(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Pad>(e.attrs);
  Dims interior = p.interior.empty() ? Dims(p.low.size(), 0) : p.interior;
  return {w.line(str("stablehlo.pad ", names_of(in), ", low = [", join(p.low), "], high = [", join(p.high),
                     "], interior = [", join(interior), "] : ", signature(in, out)),
                 out[0])};
}
Texts slice(Writer& w, const Eqn& e, const Texts& in, const Types&) {
  const auto& p = ir::get<ops::StaticSlice>(e.attrs);
  return {w.slice(in[0], p.starts, p.limits, p.strides.empty() ? Dims(p.starts.size(), 1) : p.strides)};
}
Texts rev(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Rev>(e.attrs);
  return {w.line(str("stablehlo.reverse ", in[0].name, ", dims = [", join(p.dimensions), "] : ", tensor_text(out[0])),
                 out[0])};
}
Texts concatenate(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Concatenate>(e.attrs);
  return {
      w.line(str("stablehlo.concatenate ", names_of(in), ", dim = ", p.dimension, " : ", signature(in, out)), out[0])};
}
Texts dynamic_slice(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::DynamicSlice>(e.attrs);
  return {w.line(
      str("stablehlo.dynamic_slice ", names_of(in), ", sizes = [", join(p.sizes), "] : ", signature(in, out)), out[0])};
}
Texts dynamic_update_slice(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  return {w.op("stablehlo.dynamic_update_slice", in, out[0])};
}
}  // namespace

void add_shape_writers(WriterTable& t) {
  t[&def::constant] = constant;
  t[&def::iota] = iota;
  t[&def::broadcast_in_dim] = broadcast_in_dim;
  t[&def::reshape] = reshape;
  t[&def::transpose] = transpose;
  t[&def::pad] = pad;
  t[&def::slice] = slice;
  t[&def::rev] = rev;
  t[&def::concatenate] = concatenate;
  t[&def::dynamic_slice] = dynamic_slice;
  t[&def::dynamic_update_slice] = dynamic_update_slice;
}

}  // namespace tessera::hlo
