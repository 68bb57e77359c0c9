// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/derive_sharding.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {

// Cases of one sharding, and a predicate split like them.
void place_select(const ir::PlaceArgs& args, Types& out) {
  ir::TypeSharding s{args.mesh, ir::DimAxes(out[0].shape.size()), 0, 0};
  bool first = true;
  for (std::size_t i = 1; i < args.in.size(); ++i) {
    if (args.in[i].shape.empty()) continue;
    const ir::TypeSharding own = ir::sharding_of(args.in[i], args.mesh);
    if (!first && args.strict() && !(own == s)) {
      ir::refuse_sharding(args, str("cases must have the same shardings, got ", spec_text(s), " and ", spec_text(own)),
                          "Reshard a case");
    }
    if (first) s = own;
    first = false;
    s.unreduced |= own.unreduced;
    s.reduced |= own.reduced;
    for (std::size_t d = 0; d < s.dims.size(); ++d) {
      if (s.dims[d].empty()) s.dims[d] = own.dims[d];
    }
  }
  if (!args.in[0].shape.empty()) {
    const ir::TypeSharding which = ir::sharding_of(args.in[0], args.mesh);
    if (args.strict() && which.dims != s.dims && !first) {
      ir::refuse_sharding(args,
                          str("the predicate and the cases must have the same shardings, got ", spec_text(which),
                              " and ", spec_text(s)),
                          "Reshard the predicate");
    }
    if (first) s.dims = which.dims;
  }
  ir::set_sharding(args, out[0], std::move(s));
}

}  // namespace

// jax.lax.select_n: `which` is bool (two cases) or i32; it has the cases' shape, or rank 0.
TESSERA_DEFINE_OP(select_n, NoAttrs,
                  {
                      .name = "select_n",
                      .traits = {.elementwise = true, .cheap = true, .exact = true},
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            if (in.size() < 2)
                              throw ValueError(str("[select_n] ", in.size(), " operands; expected which and cases"));
                            if (in[0].dtype != DType::Bool && in[0].dtype != DType::I32) {
                              throw TypeError(str("[select_n] operand 0 has dtype ", dtype_name(in[0].dtype),
                                                  "; expected bool or int32"));
                            }
                            if (in[0].dtype == DType::Bool && in.size() != 3) {
                              throw ValueError(str("[select_n] ", in.size() - 1, " cases for a bool; expected 2"));
                            }
                            bool weak = true;
                            for (std::size_t i = 1; i < in.size(); ++i) {
                              if (in[i].dtype != in[1].dtype) {
                                throw TypeError(str("[select_n] operand ", i, " has dtype ", dtype_name(in[i].dtype),
                                                    "; expected ", dtype_name(in[1].dtype)));
                              }
                              weak = weak && in[i].weak;
                            }
                            return Types{Type{in[1].dtype, elementwise_shape("select_n", in), weak}};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp =
                          [](Builder& b, const JvpArgs& a, const NoAttrs&) {
                            Values in{a.in[0]};
                            for (std::size_t i = 1; i < a.in.size(); ++i) {
                              in.push_back(a.tangents[i] ? a.tangents[i] : scalar(b, 0, a.in[i].dtype()));
                            }
                            return b.add(def::select_n, in);
                          },
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const NoAttrs&) {
                            Values out(t.types.size());
                            Value zero = scalar(b, 0, t.ct[0].dtype());
                            for (std::size_t i = 1; i < t.types.size(); ++i) {
                              if (!t.linear[i]) continue;
                              Values in{t.in[0]};
                              for (std::size_t j = 1; j < t.types.size(); ++j) in.push_back(i == j ? t.ct[0] : zero);
                              out[i] = b.add1(def::select_n, in);
                            }
                            return out;
                          },
                      .place = [](const ir::PlaceArgs& args, Types& out, const NoAttrs&) { place_select(args, out); },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) {
                              auto which = load_int(in[0], element(in[0], out[0], k));
                              auto last = static_cast<std::int64_t>(in.size()) - 2;
                              const View& from = in[at(std::clamp<std::int64_t>(which, 0, last)) + 1];
                              copy_element(out[0], k, from, element(from, out[0], k));
                            }
                          },
                      .samples =
                          [] {
                            Type f{DType::F32, {4, 6}};
                            return std::vector<Sample<NoAttrs>>{{{Type{DType::Bool, {4, 6}}, f, f}},
                                                                {{Type{DType::Bool, {}}, f, f}},
                                                                {{Type{DType::I32, {4, 6}}, f, f, f}},
                                                                {{Type{DType::Bool, {4, 6}}, f, Type{DType::F32, {}}}}};
                          },
                  });

namespace {
// XLA on the CPU: floats saturate to the integer's range and NaN becomes 0.
template <class I>
I saturate(double x, double low, double high) {
  if (x != x) return 0;
  if (x <= low) return std::numeric_limits<I>::min();
  if (x >= high) return std::numeric_limits<I>::max();
  return static_cast<I>(x);
}
std::int64_t float_to_int(double x, DType to) {
  int bits = static_cast<int>(dtype_size(to)) * 8;
  double high = std::ldexp(1.0, is_signed_int(to) ? bits - 1 : bits);
  if (is_signed_int(to)) {
    auto v = saturate<std::int64_t>(x, -high, high);
    if (v == std::numeric_limits<std::int64_t>::max() && bits < 64) return (std::int64_t{1} << (bits - 1)) - 1;
    if (v == std::numeric_limits<std::int64_t>::min() && bits < 64) return -(std::int64_t{1} << (bits - 1));
    return v;
  }
  auto v = saturate<std::uint64_t>(x, 0.0, high);
  return static_cast<std::int64_t>(v);
}

void convert_element(const View& to, const View& from, std::int64_t k) {
  if (is_complex(to.dtype)) {
    complexd v = is_inexact(from.dtype)        ? load_complex(from, k)
                 : is_unsigned_int(from.dtype) ? complexd(static_cast<double>(load_uint(from, k)))
                                               : complexd(static_cast<double>(load_int(from, k)));
    return store_complex(to, k, v);
  }
  if (is_inexact(from.dtype)) {
    complexd v = load_complex(from, k);
    if (is_bool(to.dtype)) return store_bool(to, k, v != complexd(0));
    if (is_float(to.dtype)) return store_float(to, k, v.real());
    return store_int(to, k, float_to_int(v.real(), to.dtype));
  }
  if (is_bool(to.dtype)) return store_bool(to, k, load_int(from, k) != 0);
  if (is_integer(to.dtype)) return store_int(to, k, load_int(from, k));
  // Straight to float32 where it is the target: going through double would round twice.
  if (to.dtype == DType::F32) {
    to.as<float>()[k] =
        is_unsigned_int(from.dtype) ? static_cast<float>(load_uint(from, k)) : static_cast<float>(load_int(from, k));
    return;
  }
  store_float(
      to, k,
      is_unsigned_int(from.dtype) ? static_cast<double>(load_uint(from, k)) : static_cast<double>(load_int(from, k)));
}
}  // namespace

TESSERA_DEFINE_OP(
    convert, Convert,
    {
        .name = "convert_element_type",
        .traits =
            {.elementwise = true, .linearity = Linearity::Joint, .own_dtypes = true, .cheap = true, .exact = true},
        .infer =
            [](TypeSpan in, const Convert& p) {
              check_count("convert_element_type", in, 1);
              return Types{Type{p.dtype, in[0].shape, p.weak}};
            },
        .factors = by_default,
        .remap = by_default,
        .batch = by_default,
        .jvp = [](Builder&, const JvpArgs& a, const Convert& p) { return Values{convert(a.tangents[0], p.dtype)}; },
        .transpose =
            [](Builder& b, const TransposeArgs& t, const Convert&) {
              DType to = t.types[0].dtype;
              Value ct = t.ct[0];
              if (is_complex(ct.dtype()) && !is_complex(to)) {
                ct = b.add1(def::convert, {ct}, attrs(Convert{real_dtype(ct.dtype())}));
              }
              return Values{convert(ct, to)};
            },
        .reference =
            [](ViewSpan in, ViewSpan out, const Convert&) {
              for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) convert_element(out[0], in[0], k);
            },
        .samples =
            [] {
              std::vector<Sample<Convert>> out;
              for (auto from : {DType::F32, DType::I32, DType::Bool, DType::BF16, DType::C64}) {
                for (auto to : {DType::F32, DType::I8, DType::U32, DType::F64, DType::BF16, DType::Bool}) {
                  out.push_back({{Type{from, {4, 3}}}, {to}});
                }
              }
              return out;
            },
    });

Value select_n(Value which, ValueSpan cases) {
  Values in{which};
  in.insert(in.end(), cases.begin(), cases.end());
  return which.builder->add1(def::select_n, in);
}
Value where(Value pred, Value yes, Value no) { return pred.builder->add1(def::select_n, {pred, no, yes}); }
Value convert(Value x, DType dtype) {
  if (x.dtype() == dtype && !x.type().weak) return x;
  return x.builder->add1(def::convert, {x}, attrs(Convert{dtype}));
}

}  // namespace tessera::ops
