// SPDX-License-Identifier: Apache-2.0
// Constants and shapes.
#include "hlo/import/import.h"
#include "hlo/import/narrow.h"
#include "hlo/text/dense.h"
#include "hlo/text/parse.h"

namespace tessera::hlo {

namespace {
Items constant(OpCall& c) {
  const AstAttr* a = c.find("value");
  if (a == nullptr && !c.op.words.empty()) a = &c.op.words[0];
  if (a == nullptr) c.fail("has no value");
  if (!(a->type == c.out())) c.fail("the value and the result have different types");
  ir::Type t{storage(a->type.elem), a->type.shape, false};
  c.importer.check_type(t, a->pos);
  HostArray h = dense_elements(c.importer.source(), c.importer.ast(), *a);
  Item out = tensor(c.elem(), ops::broadcast_to(ops::constant(c.b(), h), t.shape));
  if (size_of(t.shape) <= 4096) out.known = std::make_shared<const HostArray>(spread(h, t.shape));
  return {out};
}

Value iota_of(OpCall& c, const AstType& t, std::int64_t dimension) {
  if (dimension < 0 || dimension >= rank(t.shape)) c.fail("iota_dimension lies outside the shape");
  DType dtype = storage(t.elem);
  bool direct = is_integer(dtype) || is_float(dtype);
  Value v = ops::iota(c.b(), direct ? dtype : DType::F32, t.shape, dimension);
  return round_to(direct ? v : ops::convert(v, dtype), t.elem);
}
Items iota(OpCall& c) {
  std::int64_t dimension = c.find("dim") ? c.integer("dim") : c.integer("iota_dimension");
  return c.one(iota_of(c, c.out(), dimension));
}

Dims broadcast_dims(OpCall& c) { return c.find("dims") ? c.dims("dims") : c.dims("broadcast_dimensions"); }
Items broadcast_in_dim(OpCall& c) {
  if (c.in.empty()) c.fail("has no operand");
  Item out = tensor(c.elem(), ops::broadcast_in_dim(c.v(0), c.out().shape, broadcast_dims(c)));
  if (c.in[0].known && c.in[0].known->ndim() == 0 && size_of(c.out().shape) <= 4096) {
    out.known = std::make_shared<const HostArray>(spread(*c.in[0].known, c.out().shape));
  }
  return {out};
}
// The older form: new dimensions in front.
Items broadcast(OpCall& c) {
  c.check_operands(1);
  Dims sizes = c.dims("broadcast_sizes"), dims;
  for (std::int64_t d = 0; d < c.v(0).rank(); ++d) dims.push_back(d + static_cast<std::int64_t>(sizes.size()));
  return c.one(ops::broadcast_in_dim(c.v(0), c.out().shape, dims));
}

Items reshape(OpCall& c) {
  if (c.in.empty()) c.fail("has no operand");
  Item out = tensor(c.elem(), ops::reshape(c.v(0), c.out().shape));
  if (c.in[0].known) out.known = std::make_shared<const HostArray>(c.in[0].known->reshape(c.out().shape));
  return {out};
}
Items transpose(OpCall& c) {
  c.check_operands(1);
  return c.one(ops::transpose(c.v(0), c.find("dims") ? c.dims("dims") : c.dims("permutation")));
}
Items reverse(OpCall& c) {
  c.check_operands(1);
  return c.one(ops::rev(c.v(0), c.find("dims") ? c.dims("dims") : c.dims("dimensions")));
}

Items slice(OpCall& c) {
  c.check_operands(1);
  Dims starts, limits, strides;
  if (!c.op.words.empty() && c.op.words[0].kind == AstAttr::Kind::Dialect) {
    Parser p(c.importer.source(), c.op.words[0].raw);  // 0:1, 2:9:3
    while (!p.at_end()) {
      starts.push_back(p.integer());
      p.expect(":");
      limits.push_back(p.integer());
      strides.push_back(p.accept(":") ? p.integer() : 1);
      if (!p.accept(",") && !p.at_end()) p.fail("expected \",\"");
    }
  } else {
    starts = c.dims("start_indices");
    limits = c.dims("limit_indices");
    strides = c.dims_or("strides", Dims(starts.size(), 1));
  }
  Item out = tensor(c.elem(), ops::slice(c.v(0), starts, limits, strides));
  const auto& known = c.in[0].known;  // parts of a constant shape, as dynamic operations take them
  if (known && known->ndim() == 1 && starts.size() == 1 && strides[0] == 1 && starts[0] >= 0 &&
      limits[0] <= known->size() && starts[0] <= limits[0]) {
    out.known = std::make_shared<const HostArray>(known->slice({Slice{starts[0], limits[0]}}));
  }
  return {out};
}

Items pad(OpCall& c) {
  c.check_operands(2);
  bool pretty = c.find("low") != nullptr;
  Dims low = c.dims(pretty ? "low" : "edge_padding_low");
  return c.one(ops::pad(c.v(0), c.v(1), low, c.dims(pretty ? "high" : "edge_padding_high"),
                        c.dims_or(pretty ? "interior" : "interior_padding", Dims(low.size(), 0))));
}

// Without operands that add nothing, as those of jnp.roll by 0: a split one would be a reason to move the others.
Values without_empty(const Values& parts, std::int64_t dimension) {
  Values out;
  for (const Value& p : parts) {
    Shape like = parts[0].shape();
    const bool inside = dimension >= 0 && dimension < p.rank() && p.rank() == parts[0].rank();
    if (inside) like[static_cast<std::size_t>(dimension)] = 0;
    if (!inside || p.dtype() != parts[0].dtype() || p.shape() != like) out.push_back(p);
  }
  return out.empty() ? parts : out;
}
Items concatenate(OpCall& c) {
  if (c.in.empty()) c.fail("has no operands");
  std::int64_t dimension = c.find("dim") ? c.integer("dim") : c.integer("dimension");
  Item out = tensor(c.elem(), ops::concatenate(without_empty(values_of(c.in), dimension), dimension));
  bool all_known = rank(c.out().shape) == 1;
  for (const auto& i : c.in) all_known = all_known && i.known;
  if (all_known && c.out().shape[0] <= 64 && is_integer(storage(c.elem()))) {
    std::vector<std::int64_t> all;
    for (const auto& i : c.in) {
      HostArray wide = i.known->astype(DType::I64);
      for (auto v : wide.span<std::int64_t>()) all.push_back(v);
    }
    out.known = std::make_shared<const HostArray>(HostArray::from(all).astype(storage(c.elem())));
  }
  return {out};
}

Items get_dimension_size(OpCall& c) {
  c.check_operands(1);
  std::int64_t d = c.find("dim") ? c.integer("dim") : c.integer("dimension");
  if (d < 0 || d >= c.v(0).rank()) c.fail("dimension lies outside the shape");
  HostArray n = HostArray::scalar<std::int32_t>(static_cast<std::int32_t>(c.v(0).shape()[static_cast<std::size_t>(d)]));
  Item out = tensor(Elem::I32, ops::constant(c.b(), n));
  out.known = std::make_shared<const HostArray>(n);
  return {out};
}
// Sets a bound's true size: with shapes all static only the whole size is legal.
Items set_dimension_size(OpCall& c) {
  c.check_operands(2);
  std::int64_t d = c.find("dim") ? c.integer("dim") : c.integer("dimension");
  if (d < 0 || d >= c.v(0).rank()) c.fail("dimension lies outside the shape");
  if (c.known_dims(1) != Dims{c.v(0).shape()[static_cast<std::size_t>(d)]}) {
    throw UnimplementedError("set_dimension_size makes a dynamic shape; lower the function for fixed shapes");
  }
  return c.one(c.v(0));
}

// --- operations whose shapes are operands: the result's type already says what they come to ------------------------

Items dynamic_iota(OpCall& c) {
  return c.one(iota_of(c, c.out(), c.find("dim") ? c.integer("dim") : c.integer("iota_dimension")));
}
Items dynamic_pad(OpCall& c) {
  c.check_operands(5);
  return c.one(ops::pad(c.v(0), c.v(1), c.known_dims(2), c.known_dims(3), c.known_dims(4)));
}
Items real_dynamic_slice(OpCall& c) {
  c.check_operands(4);
  Dims strides = c.known_dims(3);
  if (c.in[1].known) return c.one(ops::slice(c.v(0), c.known_dims(1), c.known_dims(2), strides));
  for (auto s : strides) {
    if (s != 1) c.known(1);
  }
  Values starts;
  for (std::int64_t d = 0; d < c.v(0).rank(); ++d) {
    starts.push_back(ops::squeeze(ops::slice(c.v(1), {d}, {d + 1}), {0}));
  }
  return c.one(ops::dynamic_slice(c.v(0), starts, c.out().shape));
}
}  // namespace

void add_shape_rules(RuleTable& t) {
  t["stablehlo.constant"] = constant;
  t["chlo.constant"] = constant;
  t["sdy.constant"] = constant;
  t["stablehlo.iota"] = iota;
  t["stablehlo.broadcast_in_dim"] = broadcast_in_dim;
  t["stablehlo.broadcast"] = broadcast;
  t["stablehlo.reshape"] = reshape;
  t["stablehlo.transpose"] = transpose;
  t["stablehlo.reverse"] = reverse;
  t["stablehlo.slice"] = slice;
  t["stablehlo.pad"] = pad;
  t["stablehlo.concatenate"] = concatenate;
  t["stablehlo.get_dimension_size"] = get_dimension_size;
  t["stablehlo.set_dimension_size"] = set_dimension_size;
}

void add_dynamic_rules(RuleTable& t) {
  t["stablehlo.dynamic_broadcast_in_dim"] = broadcast_in_dim;
  t["stablehlo.dynamic_reshape"] = reshape;
  t["stablehlo.dynamic_iota"] = dynamic_iota;
  t["stablehlo.dynamic_pad"] = dynamic_pad;
  t["stablehlo.real_dynamic_slice"] = real_dynamic_slice;
}

}  // namespace tessera::hlo
