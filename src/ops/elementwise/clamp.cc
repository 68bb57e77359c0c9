// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ir/derive_sharding.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/total_order.h"

namespace tessera::ops {

namespace {
// min(max(low, x), high) in this order: where low > high, high wins. NaN anywhere wins over all.
template <class T>
T clamped(T low, T x, T high) {
  return std::min(std::max(low, x), high);
}
double clamped(double low, double x, double high) {
  if (std::isnan(low) || std::isnan(x) || std::isnan(high)) return low + x + high;
  return minimum_of(maximum_of(low, x), high);
}

void clamp_element(const View& out, std::int64_t k, ViewSpan in) {
  auto i = element(in[0], out, k);
  auto j = element(in[2], out, k);
  switch (wide_kind(out.dtype)) {
    case Wide::Float:
      return store_float(out, k, clamped(load_float(in[0], i), load_float(in[1], k), load_float(in[2], j)));
    case Wide::Uint:
      return store_uint(out, k, clamped(load_uint(in[0], i), load_uint(in[1], k), load_uint(in[2], j)));
    default:
      return store_int(out, k, clamped(load_int(in[0], i), load_int(in[1], k), load_int(in[2], j)));
  }
}

Values clamp_jvp(Builder& b, const JvpArgs& a, const NoAttrs&) {
  Value low = a.in[0];
  Value x = a.in[1];
  Value high = a.in[2];
  Value zero = scalar(b, 0, x.dtype());
  Value sum;
  auto put = [&](std::size_t i, auto hit) {
    if (a.tangents[i]) sum = add_any(sum, where(broadcast_to(hit(), x.shape()), a.tangents[i], zero));
  };
  put(0, [&] { return and_(gt(low, x), lt(low, high)); });
  put(1, [&] { return and_(gt(x, low), lt(x, high)); });
  put(2, [&] { return lt(high, max(low, x)); });
  return {sum};
}

// As the operand, whatever the bounds are.
void place_clamp(const ir::PlaceArgs& args, Types& out) {
  const ir::TypeSharding s = ir::sharding_of(args.in[1], args.mesh);
  if (s.unreduced != 0) {
    throw UnimplementedError(str("clamp: the operand ", args.in[1], " is unreduced; reshard it first"));
  }
  ir::set_sharding(args, out[0], s);
}
}  // namespace

TESSERA_DEFINE_OP(clamp, NoAttrs,
                  {
                      .name = "clamp",
                      .traits = {.elementwise = true, .exact = true},
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            check_count("clamp", in, 3);
                            check_kind("clamp", in, 0, !is_complex(in[0].dtype), "bool, integer or float");
                            check_same_dtype("clamp", in);
                            for (std::size_t i : {0, 2}) {
                              if (!in[i].shape.empty() && in[i].shape != in[1].shape) {
                                bad_operand(
                                    "clamp", i,
                                    str("shape ", in[i].shape, "; expected ", in[1].shape, " as operand 1, or rank 0"));
                              }
                            }
                            return Types{in[1]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = clamp_jvp,
                      .transpose = Never{"the op is not linear"},
                      .place = [](const ir::PlaceArgs& args, Types& out, const NoAttrs&) { place_clamp(args, out); },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) clamp_element(out[0], k, in);
                          },
                      .samples =
                          [] {
                            std::vector<Sample<NoAttrs>> out;
                            for (auto t : {DType::F32, DType::I32, DType::U8, DType::BF16}) {
                              Type x{t, {4, 6}};
                              Type s{t, {}};
                              out.insert(out.end(), {{{x, x, x}}, {{s, x, s}}, {{s, x, x}}});
                            }
                            return out;
                          },
                  });

Value clamp(Value low, Value x, Value high) { return x.builder->add1(def::clamp, {low, x, high}); }

}  // namespace tessera::ops
