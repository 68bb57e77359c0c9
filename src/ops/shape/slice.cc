// SPDX-License-Identifier: Apache-2.0
// Static slices, reversal, concatenation and splitting.
#include <algorithm>
#include <numeric>

#include "core/strided_copy.h"
#include "ops/define_op.h"
#include "ops/reduce/order_statistics.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {

Types slice_infer(TypeSpan in, const StaticSlice& p) {
  check_count("slice", in, 1);
  auto rank = in[0].shape.size();
  auto check = [&](const char* name, const Dims& v) {
    if (v.size() != rank) {
      bad_attr("slice", name, str(base::tuple_text(v), " for shape ", in[0].shape, "; expected one entry a dimension"));
    }
  };
  check("starts", p.starts);
  check("limits", p.limits);
  check("strides", p.strides);
  Shape shape;
  for (std::size_t d = 0; d < rank; ++d) {
    auto n = in[0].shape[d];
    if (p.strides[d] < 1) bad_attr("slice", "strides", str(p.strides[d], " for dimension ", d, "; expected >= 1"));
    if (p.starts[d] < 0 || p.starts[d] > p.limits[d] || p.limits[d] > n) {
      bad_attr(
          "slice", "starts",
          str(p.starts[d], " and limit ", p.limits[d], " for dimension ", d, "; expected 0 <= start <= limit <= ", n));
    }
    auto taken = p.limits[d] - p.starts[d];
    shape.push_back(taken == 0 ? 0 : (taken - 1) / p.strides[d] + 1);
  }
  return {Type{in[0].dtype, shape, in[0].weak}};
}

bool whole(const StaticSlice& p, const Shape& shape, std::size_t d) {
  return p.starts[d] == 0 && p.limits[d] == shape[d] && p.strides[d] == 1;
}

FactorRule slice_factors(TypeSpan in, TypeSpan out, const StaticSlice& p) {
  FactorRule r;
  r.operands = {{}};
  r.results = {{}};
  for (std::size_t d = 0; d < in[0].shape.size(); ++d) {
    if (whole(p, in[0].shape, d)) {
      int f = r.add(in[0].shape[d]);
      r.operands[0].push_back({f});
      r.results[0].push_back({f});
    } else {
      r.operands[0].push_back({r.add(in[0].shape[d], Factor::Kind::Whole)});
      r.results[0].push_back({r.add(out[0].shape[d], Factor::Kind::Whole)});
    }
  }
  return r;
}

void slice_reference(ViewSpan in, ViewSpan out, const StaticSlice& p) {
  auto item = dtype_size(out[0].dtype);
  Dims from = core::contiguous_strides(in[0].shape, item);
  Dims to = core::contiguous_strides(out[0].shape, item);
  std::int64_t read = 0;
  for (std::size_t d = 0; d < from.size(); ++d) {
    read += p.starts[d] * from[d];
    from[d] *= p.strides[d];
  }
  if (out[0].size() == 0) return;
  core::copy_strided(out[0].data, to, static_cast<const char*>(in[0].data) + read, from, out[0].shape, item);
}
}  // namespace

TESSERA_DEFINE_OP(slice, StaticSlice,
                  {
                      .name = "slice",
                      .traits = {.linearity = Linearity::Joint,
                                 .view = true,
                                 .whole_entry = ir::WholeEntry::Kept,
                                 .activity = "slicing or splitting"},
                      .infer = slice_infer,
                      .factors = slice_factors,
                      .remap =
                          [](const RemapArgs& r, const StaticSlice& p) {
                            StaticSlice q = p;
                            for (std::size_t d = 0; d < q.limits.size(); ++d) {
                              if (whole(p, r.global_in[0].shape, d)) q.limits[d] = r.local_in[0].shape[d];
                            }
                            return q;
                          },
                      .batch =
                          [](Builder& b, const BatchArgs& a, const StaticSlice& p) {
                            StaticSlice q = p;
                            q.starts.insert(q.starts.begin(), 0);
                            q.limits.insert(q.limits.begin(), a.size);
                            q.strides.insert(q.strides.begin(), 1);
                            return Batched{{b.add1(def::slice, {a.in[0]}, attrs(q))}, {true}};
                          },
                      .jvp = linear,
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const StaticSlice& p) {
                            const Shape& shape = t.types[0].shape;
                            const Shape& got = t.ct[0].shape();
                            Dims high;
                            Dims interior;
                            for (std::size_t d = 0; d < shape.size(); ++d) {
                              auto covered = got[d] == 0 ? 0 : (got[d] - 1) * p.strides[d] + 1;
                              high.push_back(shape[d] - p.starts[d] - covered);
                              interior.push_back(p.strides[d] - 1);
                            }
                            return Values{pad(t.ct[0], scalar(b, 0, t.ct[0].dtype()), p.starts, high, interior)};
                          },
                      .divide_with_maker = slice_of_sorted,
                      .reference = slice_reference,
                      .samples =
                          [] {
                            Type x{DType::F32, {4, 6}};
                            return std::vector<Sample<StaticSlice>>{{{x}, {{0, 1}, {4, 5}, {1, 1}}},
                                                                    {{x}, {{1, 0}, {4, 6}, {2, 1}}},
                                                                    {{x}, {{0, 1}, {4, 6}, {1, 3}}},
                                                                    {{x}, {{2, 0}, {2, 6}, {2, 1}}},
                                                                    {{Type{DType::I16, {8}}}, {{1}, {7}, {1}}}};
                          },
                  });

TESSERA_DEFINE_OP(
    rev, Rev,
    {
        .name = "rev",
        .traits = {.linearity = Linearity::Joint, .exact = true, .whole_entry = ir::WholeEntry::Kept},
        .infer =
            [](TypeSpan in, const Rev& p) {
              check_count("rev", in, 1);
              check_axes("rev", "dimensions", p.dimensions, in[0].rank());
              return Types{in[0]};
            },
        .factors =
            [](TypeSpan in, TypeSpan, const Rev& p) {
              FactorRule r;
              r.operands = {{}};
              for (std::int64_t d = 0; d < in[0].rank(); ++d) {
                bool turned = std::find(p.dimensions.begin(), p.dimensions.end(), d) != p.dimensions.end();
                r.operands[0].push_back({r.add(in[0].shape[at(d)], turned ? Factor::Kind::Whole : Factor::Kind::Pass)});
              }
              r.results = r.operands;
              return r;
            },
        .remap = by_default,
        .batch =
            [](Builder&, const BatchArgs& a, const Rev& p) {
              return Batched{{rev(a.in[0], shifted(p.dimensions))}, {true}};
            },
        .jvp = linear,
        .transpose = [](Builder&, const TransposeArgs& t, const Rev& p) { return Values{rev(t.ct[0], p.dimensions)}; },
        .reference =
            [](ViewSpan in, ViewSpan out, const Rev& p) {
              if (out[0].size() == 0) return;
              auto item = dtype_size(out[0].dtype);
              Dims to = core::contiguous_strides(out[0].shape, item);
              Dims from = to;
              std::int64_t read = 0;
              for (auto d : p.dimensions) {
                read += (in[0].shape[at(d)] - 1) * from[at(d)];
                from[at(d)] = -from[at(d)];
              }
              core::copy_strided(out[0].data, to, static_cast<const char*>(in[0].data) + read, from, out[0].shape,
                                 item);
            },
        .samples =
            [] {
              Type x{DType::F32, {4, 6}};
              return std::vector<Sample<Rev>>{{{x}, {{1}}}, {{x}, {{0}}}, {{x}, {{0, 1}}}};
            },
    });

namespace {
Types concatenate_infer(TypeSpan in, const Concatenate& p) {
  if (in.empty()) throw ValueError("[concatenate] no operands; expected at least one");
  check_same_dtype("concatenate", in);
  check_axes("concatenate", "dimension", {p.dimension}, in[0].rank());
  Shape shape = in[0].shape;
  bool weak = in[0].weak;
  for (std::size_t i = 1; i < in.size(); ++i) {
    for (std::size_t d = 0; d < std::max(shape.size(), in[i].shape.size()); ++d) {
      bool same = shape.size() == in[i].shape.size() && (shape[d] == in[i].shape[d] || d == at(p.dimension));
      if (!same) {
        bad_operand("concatenate", i,
                    str("shape ", in[i].shape, "; expected that of operand 0, ", in[0].shape, ", except in dimension ",
                        p.dimension));
      }
    }
    weak = weak && in[i].weak;
  }
  std::int64_t total = 0;
  for (const auto& t : in) total += t.shape[at(p.dimension)];
  shape[at(p.dimension)] = total;
  return {Type{in[0].dtype, shape, weak}};
}

FactorRule concatenate_factors(TypeSpan in, TypeSpan out, const Concatenate& p) {
  FactorRule r;
  r.operands.resize(in.size());
  r.results.resize(1);
  for (std::int64_t d = 0; d < out[0].rank(); ++d) {
    if (d == p.dimension) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        r.operands[i].push_back({r.add(in[i].shape[at(d)], Factor::Kind::Whole)});
      }
      r.results[0].push_back({r.add(out[0].shape[at(d)], Factor::Kind::Whole)});
    } else {
      int f = r.add(out[0].shape[at(d)]);
      for (auto& operand : r.operands) operand.push_back({f});
      r.results[0].push_back({f});
    }
  }
  return r;
}
}  // namespace

TESSERA_DEFINE_OP(
    concatenate, Concatenate,
    {
        .name = "concatenate",
        .traits = {.linearity = Linearity::Joint, .exact = true, .whole_entry = ir::WholeEntry::Kept, .alike = true},
        .infer = concatenate_infer,
        .factors = concatenate_factors,
        .remap = by_default,
        .batch =
            [](Builder&, const BatchArgs& a, const Concatenate& p) {
              Values in;
              for (std::size_t i = 0; i < a.in.size(); ++i) in.push_back(with_batch(a, i));
              return Batched{{concatenate(in, p.dimension + 1)}, {true}};
            },
        .jvp = linear,
        .transpose =
            [](Builder&, const TransposeArgs& t, const Concatenate& p) {
              Values out(t.types.size());
              std::int64_t start = 0;
              for (std::size_t i = 0; i < t.types.size(); ++i) {
                auto n = t.types[i].shape[at(p.dimension)];
                if (t.linear[i]) out[i] = slice_in_dim(t.ct[0], start, start + n, p.dimension);
                start += n;
              }
              return out;
            },
        .reference =
            [](ViewSpan in, ViewSpan out, const Concatenate& p) {
              auto item = dtype_size(out[0].dtype);
              Dims to = core::contiguous_strides(out[0].shape, item);
              auto* start = static_cast<char*>(out[0].data);
              for (const auto& x : in) {
                Dims from = core::contiguous_strides(x.shape, item);
                if (x.size() > 0) core::copy_strided(start, to, x.data, from, x.shape, item);
                start += x.shape[at(p.dimension)] * to[at(p.dimension)];
              }
            },
        .samples =
            [] {
              Type x{DType::F32, {4, 6}};
              return std::vector<Sample<Concatenate>>{{{x, x}, {0}},
                                                      {{x, Type{DType::F32, {4, 3}}, Type{DType::F32, {4, 0}}}, {1}},
                                                      {{x}, {1}},
                                                      {{Type{DType::I8, {3}}, Type{DType::I8, {2}}}, {0}}};
            },
    });

Value slice(Value x, const Dims& starts, const Dims& limits, const Dims& strides) {
  StaticSlice p{starts, limits, strides.empty() ? Dims(starts.size(), 1) : strides};
  bool all = p.starts.size() == x.shape().size() && p.limits == x.shape();
  for (std::size_t d = 0; all && d < p.starts.size(); ++d) all = whole(p, x.shape(), d);
  return all ? x : x.builder->add1(def::slice, {x}, attrs(p));
}
Value slice_in_dim(Value x, std::int64_t start, std::int64_t limit, std::int64_t dimension, std::int64_t stride) {
  Dims starts(x.shape().size(), 0);
  Dims limits = x.shape();
  Dims strides(starts.size(), 1);
  starts[at(dimension)] = start;
  limits[at(dimension)] = limit;
  strides[at(dimension)] = stride;
  return slice(x, starts, limits, strides);
}
Value rev(Value x, const Dims& dimensions) {
  return dimensions.empty() ? x : x.builder->add1(def::rev, {x}, attrs(Rev{dimensions}));
}
Value concatenate(ValueSpan parts, std::int64_t dimension) {
  return parts.size() == 1 ? parts[0] : parts[0].builder->add1(def::concatenate, parts, attrs(Concatenate{dimension}));
}
Values split(Value x, const Dims& sizes, std::int64_t dimension) {
  Values out;
  std::int64_t start = 0;
  for (auto n : sizes) {
    out.push_back(slice_in_dim(x, start, start + n, dimension));
    start += n;
  }
  return out;
}

}  // namespace tessera::ops
