// SPDX-License-Identifier: Apache-2.0
// Products and convolutions.
#include "hlo/import/import.h"
#include "hlo/import/narrow.h"
#include "hlo/text/parse.h"
#include "ops/linalg/conv.h"
#include "ops/linalg/ragged_dot.h"
#include "ops/shared_attrs.h"

namespace tessera::hlo {

namespace {
// The highest that the text asks for of either operand.
Precision precision_of(OpCall& c) {
  const AstAttr* a = c.find("precision");
  if (a == nullptr) a = c.find("precision_config");
  Precision out = Precision::Default;
  if (a == nullptr) return out;
  for (const auto& i : a->items) {
    std::string w = c.word_of(i);
    if (w == "HIGHEST") return Precision::Highest;
    if (w == "HIGH") out = Precision::High;
  }
  return out;
}

// Operands in one dtype, and the wanted result's.
struct Pair {
  Value x, y;
  std::optional<DType> preferred;
};
Pair same_dtype(OpCall& c) {
  Pair p{c.v(0), c.v(1), std::nullopt};
  DType to = storage(c.elem());
  if (p.x.dtype() != p.y.dtype()) {
    p.x = ops::convert(p.x, to);
    p.y = ops::convert(p.y, to);
  }
  if (p.x.dtype() != to) p.preferred = to;
  return p;
}

Items product(OpCall& c, ops::DotGeneral p) {
  Pair in = same_dtype(c);
  p.preferred = in.preferred;
  p.precision = precision_of(c);
  Value v = c.b().add1(ops::def::dot_general, {in.x, in.y}, ir::make_attrs(p));
  return c.one(round_to(v, c.elem()));
}

// #stablehlo.dot<lhs_batching_dimensions = [0], …>, #chlo.ragged_dot<…>
struct DotNumbers {
  ops::DotGeneral dot;
  Dims lhs_ragged, rhs_group;
};
DotNumbers dot_numbers(OpCall& c, const AstAttr& a) {
  DotNumbers out;
  ops::DotGeneral& p = out.dot;
  Parser parser(c.importer.source(), a.raw);
  while (!parser.at_end()) {
    auto name = parser.word();
    parser.expect("=");
    Dims value = c.dims_of(parser.attribute());
    if (name == "lhs_batching_dimensions") p.lhs_batch = value;
    if (name == "rhs_batching_dimensions") p.rhs_batch = value;
    if (name == "lhs_contracting_dimensions") p.lhs_contracting = value;
    if (name == "rhs_contracting_dimensions") p.rhs_contracting = value;
    if (name == "lhs_ragged_dimensions") out.lhs_ragged = value;
    if (name == "rhs_group_dimensions") out.rhs_group = value;
    if (!parser.accept(",") && !parser.at_end()) parser.fail("expected \",\"");
  }
  return out;
}

Items dot_general(OpCall& c) {
  c.check_operands(2);
  if (const AstAttr* a = c.find("dot_dimension_numbers")) return product(c, dot_numbers(c, *a).dot);
  ops::DotGeneral p;
  auto pair = [&](const char* name, Dims& lhs, Dims& rhs) {
    const AstAttr* a = c.find(name);
    if (a == nullptr) return;
    if (a->items.size() != 2) c.fail(std::string(name) + " must be [..] x [..]");
    lhs = c.dims_of(a->items[0]);
    rhs = c.dims_of(a->items[1]);
  };
  pair("batching_dims", p.lhs_batch, p.rhs_batch);
  pair("contracting_dims", p.lhs_contracting, p.rhs_contracting);
  return product(c, p);
}
Items ragged_dot(OpCall& c) {
  c.check_operands(3);
  DotNumbers n = dot_numbers(c, c.need("ragged_dot_dimension_numbers"));
  Pair in = same_dtype(c);
  n.dot.preferred = in.preferred;
  n.dot.precision = precision_of(c);
  Value v = ops::ragged_dot_general(in.x, in.y, c.v(2), n.dot, n.lhs_ragged, n.rhs_group);
  return c.one(round_to(v, c.elem()));
}
Items dot(OpCall& c) {
  c.check_operands(2);
  if (c.v(0).rank() < 1 || c.v(1).rank() < 1) c.fail("operands must have one or two dimensions");
  ops::DotGeneral p;
  p.lhs_contracting = {c.v(0).rank() - 1};
  p.rhs_contracting = {0};
  return product(c, p);
}

// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]: `first` and `second` name the two dimensions that are not spatial.
Dims layout_of(OpCall& c, const AstAttr& list, std::string_view first, std::string_view second) {
  Dims out(list.items.size(), -1);
  if (out.size() < 2) c.fail("dimension numbers have too few entries");
  for (std::size_t d = 0; d < list.items.size(); ++d) {
    const AstAttr& i = list.items[d];
    std::int64_t place = -1;
    if (i.kind == AstAttr::Kind::Int && i.integer >= 0 && i.integer < static_cast<std::int64_t>(out.size()) - 2) {
      place = i.integer + 2;
    }
    if (i.kind == AstAttr::Kind::Word && i.text == first) place = 0;
    if (i.kind == AstAttr::Kind::Word && i.text == second) place = 1;
    if (place < 0 || out[static_cast<std::size_t>(place)] >= 0) c.fail("bad dimension numbers");
    out[static_cast<std::size_t>(place)] = static_cast<std::int64_t>(d);
  }
  return out;
}

struct Windows {
  Dims stride, low, high, lhs_dilation, rhs_dilation, reversed;
};
Windows windows_of(OpCall& c, std::size_t spatial, const AstAttr* padding) {
  const AstAttr* w = c.find("window");
  Windows out;
  auto list = [&](const char* pretty, const char* generic, std::int64_t otherwise) {
    const AstAttr* a = w ? w->find(pretty) : c.find(generic);
    if (a == nullptr) return Dims(spatial, otherwise);
    Dims d = c.dims_of(*a);
    if (d.size() == 1 && spatial != 1) d.assign(spatial, d[0]);  // dense<1> : tensor<2xi64>
    if (d.size() != spatial) c.fail(std::string(pretty) + " has a wrong number of entries");
    return d;
  };
  out.stride = list("stride", "window_strides", 1);
  out.lhs_dilation = list("lhs_dilate", "lhs_dilation", 1);
  out.rhs_dilation = list("rhs_dilate", "rhs_dilation", 1);
  out.reversed = list("reverse", "window_reversal", 0);
  if (padding == nullptr) padding = w ? w->find("pad") : c.find("padding");
  out.low.assign(spatial, 0);
  out.high.assign(spatial, 0);
  if (padding == nullptr) return out;
  auto rows = c.table_of(*padding);
  if (rows.size() != spatial) c.fail("padding has a wrong number of entries");
  for (std::size_t i = 0; i < spatial; ++i) {
    if (rows[i].size() != 2) c.fail("padding needs two numbers a dimension");
    out.low[i] = rows[i][0];
    out.high[i] = rows[i][1];
  }
  return out;
}

Items convolve(OpCall& c, const Dims* padding) {
  AstAttr numbers;
  if (const AstAttr* a = c.find("dim_numbers")) {
    numbers = *a;
  } else {
    const AstAttr& raw = c.need("dimension_numbers");
    numbers = Parser(c.importer.source(), raw.raw).attribute();
  }
  if (numbers.items.size() != 3) c.fail("bad dimension numbers");
  ops::Conv p;
  p.lhs_spec = layout_of(c, numbers.items[0], "b", "f");
  p.rhs_spec = layout_of(c, numbers.items[1], "o", "i");
  p.out_spec = layout_of(c, numbers.items[2], "b", "f");
  std::size_t spatial = p.lhs_spec.size() - 2;
  if (p.rhs_spec.size() != spatial + 2 || p.out_spec.size() != spatial + 2) c.fail("bad dimension numbers");
  Windows w = windows_of(c, spatial, nullptr);
  if (padding) {
    if (padding->size() != 2 * spatial) c.fail("padding has a wrong number of entries");
    for (std::size_t i = 0; i < spatial; ++i) {
      w.low[i] = (*padding)[2 * i];
      w.high[i] = (*padding)[2 * i + 1];
    }
  }
  p.strides = w.stride;
  p.pad_low = w.low;
  p.pad_high = w.high;
  p.lhs_dilation = w.lhs_dilation;
  p.rhs_dilation = w.rhs_dilation;
  p.feature_groups = c.integer_or("feature_group_count", 1);
  p.batch_groups = c.integer_or("batch_group_count", 1);
  p.precision = precision_of(c);
  Pair in = same_dtype(c);
  p.preferred = in.preferred;
  Dims flipped;
  for (std::size_t i = 0; i < spatial; ++i) {
    if (w.reversed[i] != 0) flipped.push_back(p.rhs_spec[i + 2]);
  }
  if (static_cast<std::size_t>(in.y.rank()) != spatial + 2) c.fail("the kernel has a wrong number of dimensions");
  if (!flipped.empty()) in.y = ops::rev(in.y, flipped);
  return c.one(round_to(ops::conv_general_dilated(in.x, in.y, p), c.elem()));
}
Items convolution(OpCall& c) {
  c.check_operands(2);
  return convolve(c, nullptr);
}
Items dynamic_conv(OpCall& c) {
  c.check_operands(3);
  Dims padding = c.known_dims(2);
  return convolve(c, &padding);
}

// Two terms of einsum notation: "ij,jk->ik"; chlo and stablehlo both have it.
Items einsum(OpCall& c) {
  c.check_operands(2);
  std::string config = c.find("config") ? c.find("config")->text : c.need("einsum_config").text;
  auto comma = config.find(','), arrow = config.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) c.fail("bad einsum_config");
  std::string x = config.substr(0, comma), y = config.substr(comma + 1, arrow - comma - 1),
              z = config.substr(arrow + 2);
  ops::DotGeneral p;
  std::string order;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto j = y.find(x[i]);
    if (j == std::string::npos) continue;
    bool kept = z.find(x[i]) != std::string::npos;
    (kept ? p.lhs_batch : p.lhs_contracting).push_back(static_cast<std::int64_t>(i));
    (kept ? p.rhs_batch : p.rhs_contracting).push_back(static_cast<std::int64_t>(j));
    if (kept) order += x[i];
  }
  for (char l : x) {
    if (y.find(l) == std::string::npos) order += l;
  }
  for (char l : y) {
    if (x.find(l) == std::string::npos) order += l;
  }
  Items out = product(c, p);
  Dims permutation;
  for (char l : z) {
    auto at = order.find(l);
    if (at == std::string::npos) c.fail("einsum_config names a letter that no operand has");
    permutation.push_back(static_cast<std::int64_t>(at));
  }
  out[0].value = ops::transpose(out[0].value, permutation);
  return out;
}
}  // namespace

void add_product_rules(RuleTable& t) {
  t["stablehlo.dot_general"] = dot_general;
  t["chlo.ragged_dot"] = ragged_dot;
  t["stablehlo.dot"] = dot;
  t["stablehlo.convolution"] = convolution;
  t["stablehlo.dynamic_conv"] = dynamic_conv;
  t["stablehlo.einsum"] = einsum;
}

}  // namespace tessera::hlo
