// SPDX-License-Identifier: Apache-2.0
#include "ops/linalg/conv.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ir/axis_sets.h"
#include "ir/derive_sharding.h"
#include "ops/define_op.h"
#include "ops/reduce/windows.h"
#include "ops/shape/dimension_parts.h"
#include "ops/shape/halo.h"

namespace tessera::ops {

namespace {

constexpr const char* kName = "conv_general_dilated";

// Spatial extent i of the inputs, the kernel or the result.
std::int64_t spatial(const Shape& shape, const Dims& spec, std::size_t i) { return shape[at(spec[i + 2])]; }

void check_attrs(const Type& x, const Type& w, const Conv& p) {
  if (x.rank() < 2 || w.rank() != x.rank()) {
    bad_operand(
        kName, 1,
        str("kernel of shape ", w.shape, " for inputs of shape ", x.shape, "; expected equal ranks of at least 2"));
  }
  auto n = at(x.rank()) - 2;
  auto list = [&](const char* name, const Dims& v, std::int64_t least) {
    if (v.size() != n)
      bad_attr(kName, name, str(base::tuple_text(v), "; expected ", n, " entries, one a spatial dimension"));
    for (auto e : v) {
      if (e < least) bad_attr(kName, name, str(base::tuple_text(v), "; expected ", least, " or more"));
    }
  };
  list("strides", p.strides, 1);
  list("lhs_dilation", p.lhs_dilation, 1);
  list("rhs_dilation", p.rhs_dilation, 1);
  list("pad_low", p.pad_low, std::numeric_limits<std::int64_t>::min());
  list("pad_high", p.pad_high, std::numeric_limits<std::int64_t>::min());
  auto spec = [&](const char* name, const Dims& v) {
    if (static_cast<std::int64_t>(v.size()) != x.rank()) {
      bad_attr(kName, name, str(base::tuple_text(v), "; expected a permutation of ", x.rank(), " dimensions"));
    }
    check_axes(kName, name, v, x.rank());
  };
  spec("lhs_spec", p.lhs_spec);
  spec("rhs_spec", p.rhs_spec);
  spec("out_spec", p.out_spec);
  if (p.feature_groups < 1 || p.batch_groups < 1 || (p.feature_groups > 1 && p.batch_groups > 1)) {
    bad_attr(
        kName, "feature_groups",
        str(p.feature_groups, " with batch_groups ", p.batch_groups, "; expected both at least 1 and one of them 1"));
  }
}

Types infer(TypeSpan in, const Conv& p) {
  check_count(kName, in, 2);
  const Type& x = in[0];
  const Type& w = in[1];
  if (x.dtype != w.dtype) {
    throw TypeError(str("[", kName, "] operand 1 has dtype ", dtype_name(w.dtype), "; expected ", dtype_name(x.dtype),
                        " as operand 0"));
  }
  check_attrs(x, w, p);
  auto batch = x.shape[at(p.lhs_spec[0])];
  auto features = x.shape[at(p.lhs_spec[1])];
  auto out_features = w.shape[at(p.rhs_spec[0])];
  // Divided, not multiplied: counts of groups are anything that a text says.
  if (features % p.feature_groups != 0 || features / p.feature_groups != w.shape[at(p.rhs_spec[1])]) {
    bad_operand(kName, 1,
                str("kernel has ", w.shape[at(p.rhs_spec[1])], " input features; expected ", features, " / ",
                    p.feature_groups, ", those of the inputs by feature_groups"));
  }
  bool divides = out_features % p.feature_groups == 0 && out_features / p.feature_groups % p.batch_groups == 0;
  if (!divides || batch % p.batch_groups != 0) {
    bad_attr(kName, p.feature_groups > 1 ? "feature_groups" : "batch_groups",
             str(p.feature_groups, p.batch_groups > 1 ? str(" times ", p.batch_groups) : "", " does not divide ",
                 out_features, " output features", p.batch_groups > 1 ? str(" and a batch of ", batch) : ""));
  }
  Shape shape(x.shape.size());
  shape[at(p.out_spec[0])] = batch / p.batch_groups;
  shape[at(p.out_spec[1])] = out_features;
  for (std::size_t i = 0; i < p.strides.size(); ++i) {
    auto room =
        padded(kName, dilated(kName, spatial(x.shape, p.lhs_spec, i), p.lhs_dilation[i]), p.pad_low[i], p.pad_high[i]);
    auto reach = dilated(kName, spatial(w.shape, p.rhs_spec, i), p.rhs_dilation[i]);
    shape[at(p.out_spec[i + 2])] = room < reach ? 0 : (room - reach) / p.strides[i] + 1;
  }
  return {Type{p.preferred.value_or(x.dtype), shape, x.weak && w.weak && !p.preferred}};
}

// Groups of features split as a whole; without groups output features are free and input features are summed.
FactorRule factors(TypeSpan in, TypeSpan out, const Conv& p) {
  FactorRule r;
  const Shape& x = in[0].shape;
  const Shape& w = in[1].shape;
  FactorRule::Tensor lhs(x.size());
  FactorRule::Tensor rhs(w.size());
  FactorRule::Tensor result(x.size());
  auto whole = Factor::Kind::Whole;
  if (p.batch_groups == 1) {
    lhs[at(p.lhs_spec[0])] = result[at(p.out_spec[0])] = {r.add(x[at(p.lhs_spec[0])])};
  } else {
    lhs[at(p.lhs_spec[0])] = {r.add(x[at(p.lhs_spec[0])], whole)};
    result[at(p.out_spec[0])] = {r.add(out[0].shape[at(p.out_spec[0])], whole)};
  }
  bool plain = p.feature_groups == 1 && p.batch_groups == 1;
  int in_feature = r.add(w[at(p.rhs_spec[1])], p.feature_groups == 1 ? Factor::Kind::Reduce : whole);
  int out_feature = r.add(w[at(p.rhs_spec[0])] / p.feature_groups, plain ? Factor::Kind::Pass : whole);
  rhs[at(p.rhs_spec[1])] = {in_feature};
  lhs[at(p.lhs_spec[1])] = {in_feature};
  rhs[at(p.rhs_spec[0])] = result[at(p.out_spec[1])] = {out_feature};
  if (p.feature_groups > 1) {
    int group = r.add(p.feature_groups);
    lhs[at(p.lhs_spec[1])] = {group, in_feature};
    rhs[at(p.rhs_spec[0])] = result[at(p.out_spec[1])] = {group, out_feature};
  }
  for (std::size_t i = 2; i < x.size(); ++i) {
    lhs[at(p.lhs_spec[i])] = {r.add(x[at(p.lhs_spec[i])], whole)};
    rhs[at(p.rhs_spec[i])] = {r.add(w[at(p.rhs_spec[i])], whole)};
    result[at(p.out_spec[i])] = {r.add(out[0].shape[at(p.out_spec[i])], whole)};
  }
  r.operands = {lhs, rhs};
  r.results = {result};
  return r;
}

// Batch and space follow the inputs; what is summed over, or made, must be whole.
void place_conv(const ir::PlaceArgs& args, Types& out, const Conv& p) {
  if (!args.strict()) return derive_by_factors(args, out, attrs(p));
  const ir::TypeSharding x = ir::sharding_of(args.in[0], args.mesh);
  const ir::TypeSharding w = ir::sharding_of(args.in[1], args.mesh);
  if (w.split() != 0 || !x.dims[at(p.lhs_spec[1])].empty() || p.batch_groups > 1) {
    ir::refuse_sharding(args, "the kernel and the input's features must be unsharded",
                        "Give out_sharding=, or reshard the operands");
  }
  ir::TypeSharding s{args.mesh, ir::DimAxes(out[0].shape.size()), 0, 0};
  s.dims[at(p.out_spec[0])] = x.dims[at(p.lhs_spec[0])];
  for (std::size_t i = 2; i < s.dims.size(); ++i) {
    s.dims[at(p.out_spec[i])] = kept_entry(args, x.dims[at(p.lhs_spec[i])], args.in[0].shape[at(p.lhs_spec[i])],
                                           out[0].shape[at(p.out_spec[i])]);
  }
  ir::set_sharding(args, out[0], std::move(s));
}

Conv remap(const RemapArgs& r, const Conv& p) {
  Conv q = p;
  if (p.feature_groups > 1) {
    auto each = r.global_in[0].shape[at(p.lhs_spec[1])] / p.feature_groups;
    q.feature_groups = std::max<std::int64_t>(1, each == 0 ? 1 : r.local_in[0].shape[at(p.lhs_spec[1])] / each);
  }
  return q;
}

// Dimension 0 becomes the major part of dimension `dim` of the others.
Value merge_front(Value x, std::int64_t dim) {
  x = move_dim(x, 0, dim);
  Shape shape = x.shape();
  shape[at(dim) + 1] *= shape[at(dim)];
  shape.erase(shape.begin() + dim);
  return reshape(x, shape);
}
// The major part, of `count`, of dimension `dim` becomes dimension 0.
Value split_front(Value x, std::int64_t dim, std::int64_t count) {
  Shape shape = x.shape();
  shape[at(dim)] /= std::max<std::int64_t>(count, 1);
  shape.insert(shape.begin() + dim, count);
  return move_dim(reshape(x, shape), dim, 0);
}

// The batch becomes more batch, more output features, or more groups of features.
Batched batch(Builder&, const BatchArgs& a, const Conv& p) {
  if (a.size == 0) throw UnimplementedError(str("[", kName, "] a batch of 0 elements"));
  if (!a.batched[1] && p.batch_groups == 1) {
    Value y = conv_general_dilated(merge_front(a.in[0], p.lhs_spec[0]), a.in[1], p);
    return {{split_front(y, p.out_spec[0], a.size)}, {true}};
  }
  if (!a.batched[0] && p.batch_groups == 1 && p.feature_groups == 1) {
    Value y = conv_general_dilated(a.in[0], merge_front(a.in[1], p.rhs_spec[0]), p);
    return {{split_front(y, p.out_spec[1], a.size)}, {true}};
  }
  Conv q = p;
  bool by_batch = p.batch_groups > 1;
  (by_batch ? q.batch_groups : q.feature_groups) *= a.size;
  Value y = conv_general_dilated(merge_front(with_batch(a, 0), p.lhs_spec[by_batch ? 0 : 1]),
                                 merge_front(with_batch(a, 1), p.rhs_spec[0]), q);
  return {{split_front(y, p.out_spec[1], a.size)}, {true}};
}

Values jvp(Builder&, const JvpArgs& a, const Conv& p) {
  Value sum;
  if (a.tangents[0]) sum = conv_general_dilated(a.tangents[0], a.in[1], p);
  if (a.tangents[1]) sum = add_any(sum, conv_general_dilated(a.in[0], a.tangents[1], p));
  return {sum};
}

Dims swapped(Dims spec) {
  std::swap(spec[0], spec[1]);
  return spec;
}

// A convolution of the cotangent with the reversed kernel, whose feature dimensions trade places (by groups).
Value transpose_lhs(Value ct, Value w, const Type& x, const Conv& p) {
  auto groups = p.feature_groups * p.batch_groups;
  if (groups > 1) w = merge_front(split_front(w, p.rhs_spec[0], groups), p.rhs_spec[1]);
  Conv q = p;
  q.preferred.reset();
  q.strides = p.lhs_dilation;
  q.lhs_dilation = p.strides;
  q.lhs_spec = p.out_spec;
  q.rhs_spec = swapped(p.rhs_spec);
  q.out_spec = p.lhs_spec;
  q.feature_groups = groups;
  q.batch_groups = 1;
  for (std::size_t i = 0; i < p.strides.size(); ++i) {
    auto reach = dilated(kName, spatial(w.shape(), p.rhs_spec, i), p.rhs_dilation[i]);
    q.pad_low[i] = reach - p.pad_low[i] - 1;
    q.pad_high[i] = dilated(kName, spatial(x.shape, p.lhs_spec, i), p.lhs_dilation[i]) + reach - 1 -
                    dilated(kName, spatial(ct.shape(), p.out_spec, i), p.strides[i]) - q.pad_low[i];
  }
  Value out = conv_general_dilated(ct, rev(w, Dims(p.rhs_spec.begin() + 2, p.rhs_spec.end())), q);
  if (p.batch_groups > 1) out = merge_front(split_front(out, p.lhs_spec[1], p.batch_groups), p.lhs_spec[0]);
  return out;
}

// A convolution of the inputs with the cotangent as kernel; batch and features trade places.
Value transpose_rhs(Value ct, Value x, const Type& w, const Conv& p) {
  Conv q = p;
  q.preferred.reset();
  q.strides = p.rhs_dilation;
  q.rhs_dilation = p.strides;
  q.lhs_spec = swapped(p.lhs_spec);
  q.rhs_spec = swapped(p.out_spec);
  q.out_spec = swapped(p.rhs_spec);
  q.feature_groups = p.batch_groups;
  q.batch_groups = p.feature_groups;
  for (std::size_t i = 0; i < p.strides.size(); ++i) {
    auto reach = dilated(kName, spatial(w.shape, p.rhs_spec, i), p.rhs_dilation[i]);
    q.pad_high[i] = dilated(kName, spatial(ct.shape(), p.out_spec, i), p.strides[i]) -
                    dilated(kName, spatial(x.shape(), p.lhs_spec, i), p.lhs_dilation[i]) + reach - p.pad_low[i] - 1;
  }
  return conv_general_dilated(x, ct, q);
}

Values transpose_rule(Builder& b, const TransposeArgs& t, const Conv& p) {
  Values out(2);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!t.linear[i]) continue;
    Value other = t.in[1 - i];
    if (t.ct[0].type().size() == 0 || other.type().size() == 0) {
      out[i] = zeros(b, t.types[i]);
      continue;
    }
    Value ct = convert(t.ct[0], other.dtype());
    out[i] = i == 0 ? transpose_lhs(ct, other, t.types[0], p) : transpose_rhs(ct, other, t.types[1], p);
  }
  return out;
}

// A kernel that is split along a spatial dimension, as a cotangent is that is the kernel of a gradient: every shard of
// it meets the part of the inputs that it reaches. Shards count as input features, so that their results are summed.
std::optional<ir::Division> by_kernel_shards(Builder& b, const ir::DivideArgs& a, const Conv& p) {
  if (p.feature_groups != 1 || p.batch_groups != 1 || a.out[0].size() == 0) return std::nullopt;
  for (std::size_t i = 0; i < p.strides.size(); ++i) {
    auto d = p.rhs_spec[i + 2];
    auto from = at(p.lhs_spec[i + 2]);
    DimensionParts parts(d, a.in[1].shape()[at(d)], a.parts_of(1, d));
    if (parts.parts == 1 || parts.chunk() == 1) continue;
    auto outputs = a.out[0].shape[at(p.out_spec[i + 2])];
    Value zero = scalar(b, 0, a.in[0].dtype());
    WindowStack stack{from,
                      parts.parts,
                      (parts.chunk() - 1) * p.rhs_dilation[i] + (outputs - 1) * p.strides[i] + 1,
                      -p.pad_low[i],
                      parts.chunk() * p.rhs_dilation[i],
                      p.lhs_dilation[i]};
    Value x = window_stack(a.in[0], zero, stack, kName);
    ir::Layout split{a.operands[0].dims};
    split.dims[from].clear();
    split.dims.insert(split.dims.begin(), a.operands[1].dims[at(d)]);
    ir::AxisMask taken = 0;
    for (auto& axes : split.dims) {  // other dimensions keep axes that the shards of the kernel do not have
      ir::drop_axes(axes, taken);
      for (auto axis : axes) taken |= ir::AxisMask{1} << axis;
    }
    Value w = move_dim(cut_in_parts(a.in[1], parts, zero), d, 0);
    Conv q = p;
    q.pad_low[i] = q.pad_high[i] = 0;
    q.lhs_dilation[i] = 1;
    Value y = conv_general_dilated(merge_front(x, p.lhs_spec[1]), merge_front(w, p.rhs_spec[1]), q);
    return ir::Division{{y}, {{x, split}}};
  }
  return std::nullopt;
}

void reference(ViewSpan in, ViewSpan out, const Conv& p) {
  const View& x = in[0];
  const View& w = in[1];
  Dims sx = row_strides(x.shape);
  Dims sw = row_strides(w.shape);
  auto batch = x.shape[at(p.lhs_spec[0])] / p.batch_groups;
  auto each_in = w.shape[at(p.rhs_spec[1])];
  auto groups = p.feature_groups * p.batch_groups;
  auto each_out = w.shape[at(p.rhs_spec[0])] / groups;
  Shape window;
  for (std::size_t i = 0; i < p.strides.size(); ++i) window.push_back(spatial(w.shape, p.rhs_spec, i));
  std::int64_t k = 0;
  for_each_position(out[0].shape, [&](const Dims& position) {
    auto feature = position[at(p.out_spec[1])];
    auto group = feature / each_out;
    std::int64_t x0 = (position[at(p.out_spec[0])] + (p.batch_groups > 1 ? group * batch : 0)) * sx[at(p.lhs_spec[0])] +
                      (p.feature_groups > 1 ? group * each_in : 0) * sx[at(p.lhs_spec[1])];
    std::int64_t w0 = feature * sw[at(p.rhs_spec[0])];
    complexd sum = 0;
    std::uint64_t isum = 0;
    for_each_position(window, [&](const Dims& tap) {
      std::int64_t i = x0;
      std::int64_t j = w0;
      for (std::size_t d = 0; d < tap.size(); ++d) {
        auto place = position[at(p.out_spec[d + 2])] * p.strides[d] - p.pad_low[d] + tap[d] * p.rhs_dilation[d];
        if (place < 0 || place % p.lhs_dilation[d] != 0) return;
        place /= p.lhs_dilation[d];
        if (place >= spatial(x.shape, p.lhs_spec, d)) return;
        i += place * sx[at(p.lhs_spec[d + 2])];
        j += tap[d] * sw[at(p.rhs_spec[d + 2])];
      }
      for (std::int64_t c = 0; c < each_in; ++c) {
        auto a = i + c * sx[at(p.lhs_spec[1])];
        auto b = j + c * sw[at(p.rhs_spec[1])];
        if (is_inexact(x.dtype)) {
          sum += load_complex(x, a) * load_complex(w, b);
        } else {
          isum += load_uint(x, a) * load_uint(w, b);
        }
      }
    });
    if (is_complex(out[0].dtype)) {
      store_complex(out[0], k++, sum);
    } else if (is_float(out[0].dtype)) {
      store_float(out[0], k++, is_inexact(x.dtype) ? sum.real() : static_cast<double>(static_cast<std::int64_t>(isum)));
    } else {
      store_uint(out[0], k++, isum);
    }
  });
}

std::vector<Sample<Conv>> conv_samples() {
  auto f = [](Shape s) { return Type{DType::F32, std::move(s)}; };
  Dims nchw{0, 1, 2, 3};
  Dims nhwc{0, 3, 1, 2};
  Dims hwio{3, 2, 0, 1};
  Dims one{1, 1};
  return {
      {{f({2, 4, 6, 5}), f({6, 4, 3, 2})}, {one, {1, 1}, {1, 0}, one, one, nchw, nchw, nchw}},
      {{f({2, 6, 5, 4}), f({3, 3, 4, 6})}, {{2, 1}, {0, 2}, {1, 1}, one, {1, 2}, nhwc, hwio, nhwc}},
      {{f({2, 4, 5, 5}), f({6, 2, 3, 3})}, {one, {1, 1}, {1, 1}, {2, 1}, one, nchw, nchw, nchw, 2}},
      {{f({4, 3, 5, 5}), f({4, 3, 2, 2})}, {{2, 2}, {-1, 1}, {1, -1}, one, one, nchw, nchw, nchw, 1, 2}},
      {{f({2, 3, 8}), f({4, 3, 3})}, {{1}, {2}, {0}, {1}, {1}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}}},
      {{Type{DType::I32, {2, 2, 4}}, Type{DType::I32, {2, 2, 3}}},
       {{1}, {1}, {1}, {1}, {1}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}}},
  };
}

}  // namespace

TESSERA_DEFINE_OP(conv_general_dilated, Conv,
                  {
                      .name = kName,
                      .traits = {.linearity = Linearity::Multi, .work = ir::Work::Conv},
                      .infer = infer,
                      .factors = factors,
                      .remap = remap,
                      .batch = batch,
                      .jvp = jvp,
                      .transpose = transpose_rule,
                      .divide = {by_kernel_shards},
                      .place = place_conv,
                      .reference = reference,
                      .samples = conv_samples,
                  });

Value conv_general_dilated(Value lhs, Value rhs, const Conv& p) {
  return lhs.builder->add1(def::conv_general_dilated, {lhs, rhs}, attrs(p));
}

}  // namespace tessera::ops
