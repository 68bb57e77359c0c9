// SPDX-License-Identifier: Apache-2.0
// Constants and ops that move elements without changing them.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/strided_copy.h"
#include "ops/define_op.h"
#include "ops/shape/reshape_sharding.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

struct Constant {
  HostArray value;
  bool weak = false;
  static constexpr auto fields = std::tuple{field("value", &Constant::value), field("weak", &Constant::weak)};
};
TESSERA_DEFINE_OP(constant, Constant,
                  {
                      .name = "constant",
                      .traits = {.exact = true},
                      .infer =
                          [](TypeSpan in, const Constant& p) {
                            check_count("constant", in, 0);
                            return Types{Type{p.value.dtype(), p.value.shape(), p.weak}};
                          },
                      .factors = Never{"every device holds the whole constant; large arrays are operands instead"},
                      .remap = by_default,
                      .batch = Never{"a constant has no operands"},
                      .jvp = Never{"a constant has no operands"},
                      .transpose = Never{"a constant has no operands"},
                      .reference =
                          [](ViewSpan, ViewSpan out, const Constant& p) {
                            if (p.value.nbytes() > 0) std::memcpy(out[0].data, p.value.data(), at(p.value.nbytes()));
                          },
                      .samples =
                          [] {
                            return std::vector<Sample<Constant>>{{{}, {HostArray::from<float>({1.5F, 2.5F})}}};
                          },
                  });

TESSERA_DEFINE_OP(
    iota, Iota,
    {
        .name = "iota",
        .traits = {.view = true},
        .infer =
            [](TypeSpan in, const Iota& p) {
              check_count("iota", in, 0);
              check_axes("iota", "dimension", {p.dimension}, rank(p.shape));
              if (is_bool(p.dtype)) throw TypeError("[iota] dtype: bool; expected a number dtype");
              return Types{Type{p.dtype, p.shape}};
            },
        .factors =
            [](TypeSpan, TypeSpan out, const Iota&) {
              FactorRule r;
              r.results.emplace_back();
              for (auto extent : out[0].shape) r.results[0].push_back({r.add(extent)});
              return r;
            },
        .remap =
            [](const RemapArgs& r, const Iota& p) {
              return Iota{p.dtype, r.local_out[0].shape, p.dimension, p.start + r.out_offsets[0][at(p.dimension)]};
            },
        .batch = Never{"iota has no operands"},
        .jvp = Never{"iota has no operands"},
        .transpose = Never{"iota has no operands"},
        .reference =
            [](ViewSpan, ViewSpan out, const Iota& p) {
              std::int64_t k = 0;
              for_each_position(out[0].shape, [&](const Dims& position) {
                auto v = p.start + position[at(p.dimension)];
                switch (wide_kind(p.dtype)) {
                  case Wide::Float:
                    store_float(out[0], k++, static_cast<double>(v));
                    break;
                  case Wide::Complex:
                    store_complex(out[0], k++, static_cast<double>(v));
                    break;
                  default:
                    store_int(out[0], k++, v);
                }
              });
            },
        .samples =
            [] {
              return std::vector<Sample<Iota>>{
                  {{}, {DType::I32, {8}, 0}}, {{}, {DType::F32, {4, 6}, 1}}, {{}, {DType::BF16, {4, 6}, 0}}};
            },
    });

TESSERA_DEFINE_OP(broadcast_in_dim, BroadcastInDim,
                  {
                      .name = "broadcast_in_dim",
                      .traits = {.linearity = Linearity::Joint, .cheap = true, .view = true},
                      .infer =
                          [](TypeSpan in, const BroadcastInDim& p) {
                            check_count("broadcast_in_dim", in, 1);
                            if (p.dims.size() != in[0].shape.size()) {
                              bad_attr("broadcast_in_dim", "dims",
                                       str(base::tuple_text(p.dims), " for shape ", in[0].shape,
                                           "; expected one entry a dimension"));
                            }
                            check_axes("broadcast_in_dim", "dims", p.dims, rank(p.shape));
                            for (std::size_t i = 0; i < p.dims.size(); ++i) {
                              auto n = in[0].shape[i];
                              auto m = p.shape[at(p.dims[i])];
                              if (n != m && n != 1) {
                                bad_operand("broadcast_in_dim", 0,
                                            str("dimension ", i, " is ", n, "; expected 1 or ", m, " (dimension ",
                                                p.dims[i], " of ", p.shape, ")"));
                              }
                            }
                            return Types{Type{in[0].dtype, p.shape, in[0].weak}};
                          },
                      .factors =
                          [](TypeSpan in, TypeSpan out, const BroadcastInDim& p) {
                            Dims map(p.shape.size(), -1);
                            for (std::size_t i = 0; i < p.dims.size(); ++i) {
                              if (in[0].shape[i] == p.shape[at(p.dims[i])])
                                map[at(p.dims[i])] = static_cast<std::int64_t>(i);
                            }
                            return FactorRule::mapped(in[0], out[0], map);
                          },
                      .remap =
                          [](const RemapArgs& r, const BroadcastInDim& p) {
                            return BroadcastInDim{r.local_out[0].shape, p.dims};
                          },
                      .batch =
                          [](Builder&, const BatchArgs& a, const BroadcastInDim& p) {
                            Shape shape = p.shape;
                            shape.insert(shape.begin(), a.size);
                            Dims dims = shifted(p.dims);
                            dims.insert(dims.begin(), 0);
                            return Batched{{broadcast_in_dim(a.in[0], shape, dims)}, {true}};
                          },
                      .jvp = linear,
                      .transpose =
                          [](Builder&, const TransposeArgs& t, const BroadcastInDim& p) {
                            const Shape& shape = t.types[0].shape;
                            Dims sum;
                            for (std::int64_t d = 0; d < rank(p.shape); ++d) {
                              auto it = std::find(p.dims.begin(), p.dims.end(), d);
                              if (it == p.dims.end() || shape[at(it - p.dims.begin())] != p.shape[at(d)])
                                sum.push_back(d);
                            }
                            Value ct = reduce_sum(t.ct[0], sum);
                            // What is left stands in result order; put it in operand order.
                            Dims order;
                            for (std::size_t i = 0; i < p.dims.size(); ++i) {
                              if (shape[i] == p.shape[at(p.dims[i])]) order.push_back(p.dims[i]);
                            }
                            Dims sorted = order;
                            std::sort(sorted.begin(), sorted.end());
                            Dims permutation;
                            for (auto d : order)
                              permutation.push_back(std::find(sorted.begin(), sorted.end(), d) - sorted.begin());
                            return Values{reshape(transpose(ct, permutation), shape)};
                          },
                      .place =
                          [](const ir::PlaceArgs& args, Types& out, const BroadcastInDim& p) {
                            // An extent of 1 keeps its entry, which can be over axes of size 1 alone.
                            const ir::TypeSharding s = ir::sharding_of(args.in[0], args.mesh);
                            ir::TypeSharding result{args.mesh, ir::DimAxes(p.shape.size()), s.unreduced, s.reduced};
                            for (std::size_t i = 0; i < p.dims.size(); ++i) result.dims[at(p.dims[i])] = s.dims[i];
                            ir::set_sharding(args, out[0], std::move(result));
                          },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const BroadcastInDim& p) {
                            auto item = dtype_size(out[0].dtype);
                            Dims strides = core::contiguous_strides(in[0].shape, item);
                            Dims from(p.shape.size(), 0);
                            for (std::size_t i = 0; i < p.dims.size(); ++i) {
                              if (in[0].shape[i] != 1) from[at(p.dims[i])] = strides[i];
                            }
                            if (out[0].size() == 0) return;
                            Dims to = core::contiguous_strides(p.shape, item);
                            core::copy_strided(out[0].data, to, in[0].data, from, p.shape, item);
                          },
                      .samples =
                          [] {
                            return std::vector<Sample<BroadcastInDim>>{
                                {{Type{DType::F32, {}}}, {{4, 6}, {}}},
                                {{Type{DType::F32, {6}}}, {{4, 6}, {1}}},
                                {{Type{DType::F32, {4}}}, {{4, 6}, {0}}},
                                {{Type{DType::F32, {1, 6}}}, {{4, 6}, {0, 1}}},
                                {{Type{DType::F32, {4, 6}}}, {{6, 2, 4}, {2, 0}}}};
                          },
                  });

namespace {
// Cuts both shapes into runs of equal products; inside a run the factors are the finer of the two subdivisions where
// one side is a refinement of the other, and whole otherwise.
FactorRule reshape_factors(const Shape& in, const Shape& out) {
  FactorRule r;
  r.operands.emplace_back(in.size());
  r.results.emplace_back(out.size());
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < in.size() || j < out.size()) {
    std::size_t i0 = i;
    std::size_t j0 = j;
    std::int64_t a = i < in.size() ? in[i++] : 1;
    std::int64_t b = j < out.size() ? out[j++] : 1;
    while (a != b && (i < in.size() || j < out.size())) {
      if ((a < b && i < in.size()) || j == out.size()) {
        a *= in[i++];
      } else {
        b *= out[j++];
      }
    }
    // Major-first walk: peel off common prefixes.
    std::size_t x = i0;
    std::size_t y = j0;
    std::int64_t left_x = x < i ? in[x] : 1;
    std::int64_t left_y = y < j ? out[y] : 1;
    while (x < i && y < j) {
      std::int64_t small = std::min(left_x, left_y);
      std::int64_t large = std::max(left_x, left_y);
      if (small == 0 || large % small != 0) break;
      int f = r.add(small);
      r.operands[0][x].push_back(f);
      r.results[0][y].push_back(f);
      left_x /= small;
      left_y /= small;
      if (left_x == 1 && ++x < i) left_x = in[x];
      if (left_y == 1 && ++y < j) left_y = out[y];
    }
    for (; x < i; ++x) {
      if (left_x != 1 || r.operands[0][x].empty()) r.operands[0][x].push_back(r.add(left_x, Factor::Kind::Whole));
      left_x = x + 1 < i ? in[x + 1] : 1;
    }
    for (; y < j; ++y) {
      if (left_y != 1 || r.results[0][y].empty()) r.results[0][y].push_back(r.add(left_y, Factor::Kind::Whole));
      left_y = y + 1 < j ? out[y + 1] : 1;
    }
  }
  return r;
}
}  // namespace

TESSERA_DEFINE_OP(reshape, Reshape,
                  {
                      .name = "reshape",
                      .traits = {.linearity = Linearity::Joint, .view = true},
                      .infer =
                          [](TypeSpan in, const Reshape& p) {
                            check_count("reshape", in, 1);
                            if (size_of(p.shape) != in[0].size()) {
                              bad_attr("reshape", "shape",
                                       str(p.shape, " has ", size_of(p.shape), " elements; expected ", in[0].size(),
                                           ", those of ", in[0].shape));
                            }
                            return Types{Type{in[0].dtype, p.shape, in[0].weak}};
                          },
                      .factors = [](TypeSpan in, TypeSpan,
                                    const Reshape& p) { return reshape_factors(in[0].shape, p.shape); },
                      .remap = [](const RemapArgs& r, const Reshape&) { return Reshape{r.local_out[0].shape}; },
                      .batch =
                          [](Builder&, const BatchArgs& a, const Reshape& p) {
                            Shape shape = p.shape;
                            shape.insert(shape.begin(), a.size);
                            return Batched{{reshape(a.in[0], shape)}, {true}};
                          },
                      .jvp = linear,
                      .transpose = [](Builder&, const TransposeArgs& t,
                                      const Reshape&) { return Values{reshape(t.ct[0], t.types[0].shape)}; },
                      .place = [](const ir::PlaceArgs& args, Types& out, const Reshape&) { place_reshape(args, out); },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const Reshape&) {
                            auto bytes = out[0].size() * dtype_size(out[0].dtype);
                            if (bytes > 0) std::memcpy(out[0].data, in[0].data, at(bytes));
                          },
                      .samples =
                          [] {
                            Type x{DType::F32, {4, 6}};
                            return std::vector<Sample<Reshape>>{
                                {{x}, {{24}}},      {{x}, {{2, 2, 6}}},    {{x}, {{6, 4}}},
                                {{x}, {{4, 2, 3}}}, {{x}, {{4, 1, 6, 1}}}, {{Type{DType::F32, {8, 3, 2}}}, {{24, 2}}}};
                          },
                  });

TESSERA_DEFINE_OP(transpose, Transpose,
                  {
                      .name = "transpose",
                      .traits = {.linearity = Linearity::Joint, .view = true},
                      .infer =
                          [](TypeSpan in, const Transpose& p) {
                            check_count("transpose", in, 1);
                            if (p.permutation.size() != in[0].shape.size()) {
                              bad_attr("transpose", "permutation",
                                       str(base::tuple_text(p.permutation), " for shape ", in[0].shape,
                                           "; expected a permutation of its dimensions"));
                            }
                            check_axes("transpose", "permutation", p.permutation, in[0].rank());
                            Shape shape;
                            for (auto d : p.permutation) shape.push_back(in[0].shape[at(d)]);
                            return Types{Type{in[0].dtype, shape, in[0].weak}};
                          },
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const Transpose& p) { return FactorRule::mapped(in[0], out[0], p.permutation); },
                      .remap = by_default,
                      .batch =
                          [](Builder&, const BatchArgs& a, const Transpose& p) {
                            Dims permutation = shifted(p.permutation);
                            permutation.insert(permutation.begin(), 0);
                            return Batched{{transpose(a.in[0], permutation)}, {true}};
                          },
                      .jvp = linear,
                      .transpose =
                          [](Builder&, const TransposeArgs& t, const Transpose& p) {
                            Dims inverse(p.permutation.size());
                            for (std::size_t i = 0; i < inverse.size(); ++i)
                              inverse[at(p.permutation[i])] = static_cast<std::int64_t>(i);
                            return Values{transpose(t.ct[0], inverse)};
                          },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const Transpose& p) {
                            auto item = dtype_size(out[0].dtype);
                            Dims strides = core::contiguous_strides(in[0].shape, item);
                            Dims from;
                            for (auto d : p.permutation) from.push_back(strides[at(d)]);
                            if (out[0].size() == 0) return;
                            Dims to = core::contiguous_strides(out[0].shape, item);
                            core::copy_strided(out[0].data, to, in[0].data, from, out[0].shape, item);
                          },
                      .samples =
                          [] {
                            return std::vector<Sample<Transpose>>{{{Type{DType::F32, {4, 6}}}, {{1, 0}}},
                                                                  {{Type{DType::F32, {2, 4, 6}}}, {{2, 0, 1}}}};
                          },
                  });

Value constant(Builder& b, const HostArray& value, bool weak) {
  return b.add1(def::constant, {}, attrs(Constant{value, weak}));
}
Value scalar(Builder& b, double value, DType dtype) {
  HostArray host(dtype, {});
  View v{dtype, {}, host.data()};
  switch (wide_kind(dtype)) {
    case Wide::Bool:
      store_bool(v, 0, value != 0);
      break;
    case Wide::Float:
      store_float(v, 0, value);
      break;
    case Wide::Complex:
      store_complex(v, 0, value);
      break;
    default:
      store_int(v, 0, static_cast<std::int64_t>(value));
  }
  return constant(b, host);
}
Value full(Builder& b, double value, const Type& type) {
  const std::size_t own = b.graph().num_values();
  return placed_as(broadcast_to(scalar(b, value, type.dtype), type.shape), type.sharding, own);
}
Value zeros(Builder& b, const Type& type) { return full(b, 0, type); }
Value zeros_like(Value x) { return zeros(*x.builder, x.type()); }
bool is_zeros(Value x) {
  const auto& eqns = x.builder->graph().eqns;
  ir::ValueId of = x.id;
  for (auto e = eqns.rbegin(); e != eqns.rend(); ++e) {
    if (std::find(e->out.begin(), e->out.end(), of) == e->out.end()) continue;
    if (e->op == &def::constant) {
      const HostArray& value = ir::get<Constant>(e->attrs).value;
      const auto* bytes = static_cast<const char*>(value.data());
      return std::all_of(bytes, bytes + value.nbytes(), [](char c) { return c == 0; });
    }
    bool keeps = e->op == &def::broadcast_in_dim || e->op == &def::reshape || e->op == &def::convert ||
                 e->op == &def::sharding_constraint;
    if (!keeps) return false;
    of = e->in[0];
  }
  return false;
}
Value iota(Builder& b, DType dtype, const Shape& shape, std::int64_t dimension) {
  return b.add1(def::iota, {}, attrs(Iota{dtype, shape, dimension}));
}
Value broadcast_in_dim(Value x, const Shape& shape, const Dims& dims) {
  return x.builder->add1(def::broadcast_in_dim, {x}, attrs(BroadcastInDim{shape, dims}));
}
Value broadcast_to(Value x, const Shape& shape) { return x.shape() == shape ? x : broadcast_in_dim(x, shape, {}); }
Value reshape(Value x, const Shape& shape) {
  return x.shape() == shape ? x : x.builder->add1(def::reshape, {x}, attrs(Reshape{shape}));
}
Value expand_dims(Value x, const Dims& dims) {
  Dims places = dims;
  std::sort(places.begin(), places.end());
  Shape shape = x.shape();
  for (auto d : places) shape.insert(shape.begin() + d, 1);
  return reshape(x, shape);
}
Value squeeze(Value x, const Dims& dims) {
  Shape shape;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) shape.push_back(x.shape()[at(d)]);
  }
  return reshape(x, shape);
}
Value transpose(Value x, const Dims& permutation) {
  bool same = true;
  for (std::size_t i = 0; i < permutation.size(); ++i) same = same && permutation[i] == static_cast<std::int64_t>(i);
  return same ? x : x.builder->add1(def::transpose, {x}, attrs(Transpose{permutation}));
}
Value move_dim(Value x, std::int64_t from, std::int64_t to) {
  Dims permutation(at(x.rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  permutation.erase(permutation.begin() + from);
  permutation.insert(permutation.begin() + to, from);
  return transpose(x, permutation);
}

}  // namespace tessera::ops
