// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/random_bits.h"

#include <algorithm>
#include <bit>

#include "ops/define_op.h"
#include "ops/elementwise/elementwise.h"

namespace tessera::ops {

std::array<std::uint32_t, 2> threefry_hash(std::array<std::uint32_t, 2> key, std::array<std::uint32_t, 2> counter) {
  static constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const std::uint32_t ks[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAU};
  std::uint32_t x = counter[0] + ks[0];
  std::uint32_t y = counter[1] + ks[1];
  for (std::uint32_t round = 0; round < 5; ++round) {
    for (int r : kRotations[round % 2]) {
      x += y;
      y = std::rotl(y, r) ^ x;
    }
    x += ks[(round + 1) % 3];
    y += ks[(round + 2) % 3] + round + 1;
  }
  return {x, y};
}

namespace {

constexpr const char* kNoTangent = "integers have no tangent";

DType bits_dtype(std::int64_t bits) {
  switch (bits) {
    case 8:
      return DType::U8;
    case 16:
      return DType::U16;
    case 32:
      return DType::U32;
    default:
      return DType::U64;
  }
}

void check_u32(const char* op, std::size_t i, const Type& t) {
  if (t.dtype != DType::U32) {
    throw TypeError(str("[", op, "] operand ", i, " has dtype ", dtype_name(t.dtype), "; expected uint32"));
  }
}

Types infer_bits(TypeSpan in, const RandomBits& p) {
  check_count("random_bits", in, 1);
  check_u32("random_bits", 0, in[0]);
  if (in[0].rank() < 1 || in[0].shape.back() != 2) {
    bad_operand("random_bits", 0, str("keys of shape ", in[0].shape, "; expected a last dimension of 2"));
  }
  if (p.bits != 8 && p.bits != 16 && p.bits != 32 && p.bits != 64) {
    bad_attr("random_bits", "bits", str(p.bits, "; expected 8, 16, 32 or 64"));
  }
  size_of(p.shape);
  Shape shape(in[0].shape.begin(), in[0].shape.end() - 1);
  shape.insert(shape.end(), p.shape.begin(), p.shape.end());
  return {Type{bits_dtype(p.bits), shape}};
}

// Every shard of the numbers can be made where it is wanted.
FactorRule bits_factors(TypeSpan in, TypeSpan out, const RandomBits&) {
  FactorRule r;
  r.operands.emplace_back();
  r.results.emplace_back();
  auto lead = in[0].shape.size() - 1;
  for (std::size_t d = 0; d < out[0].shape.size(); ++d) {
    int f = r.add(out[0].shape[d]);
    r.results[0].push_back({f});
    if (d < lead) r.operands[0].push_back({f});
  }
  r.operands[0].push_back({r.add(2, Factor::Kind::Whole)});
  return r;
}

RandomBits bits_remap(const RemapArgs& r, const RandomBits& p) {
  auto lead = static_cast<std::ptrdiff_t>(r.global_in[0].shape.size()) - 1;
  const Shape& local = r.local_out[0].shape;
  const Dims& offsets = r.out_offsets[0];
  RandomBits q{p.bits, Shape(local.begin() + lead, local.end()), p.whole.empty() ? p.shape : p.whole,
               Dims(offsets.begin() + lead, offsets.end())};
  for (std::size_t d = 0; d < p.offsets.size(); ++d) q.offsets[d] += p.offsets[d];
  return q;
}

void bits_reference(ViewSpan in, ViewSpan out, const RandomBits& p) {
  Dims strides = row_strides(p.whole.empty() ? p.shape : p.whole);
  const auto* keys = in[0].as<std::uint32_t>();
  std::int64_t k = 0;
  for (std::int64_t n = 0, count = in[0].size() / 2; n < count; ++n) {
    for_each_position(p.shape, [&](const Dims& position) {
      auto counter = static_cast<std::uint64_t>(flat(position, strides));
      if (!p.offsets.empty()) counter += static_cast<std::uint64_t>(flat(p.offsets, strides));
      auto [hi, lo] = threefry_hash({keys[2 * n], keys[2 * n + 1]},
                                    {static_cast<std::uint32_t>(counter >> 32), static_cast<std::uint32_t>(counter)});
      store_uint(out[0], k++, p.bits == 64 ? (std::uint64_t{hi} << 32 | lo) : std::uint64_t{hi ^ lo});
    });
  }
}

}  // namespace

TESSERA_DEFINE_OP(random_bits, RandomBits,
                  {
                      .name = "random_bits",
                      .traits = {.composite = true},
                      .infer = infer_bits,
                      .factors = bits_factors,
                      .remap = bits_remap,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const RandomBits& p) {
                            return Batched{{b.add1(def::random_bits, {a.in[0]}, attrs(p))}, {true}};
                          },
                      .jvp = Never{kNoTangent},
                      .transpose = Never{kNoTangent},
                      .reference = bits_reference,
                      .samples =
                          [] {
                            Type key{DType::U32, {2}};
                            return std::vector<Sample<RandomBits>>{{{key}, {32, {6, 4}}},
                                                                   {{key}, {8, {5}}},
                                                                   {{key}, {64, {}}},
                                                                   {{Type{DType::U32, {3, 2}}}, {16, {4, 2}}}};
                          },
                  });

TESSERA_DEFINE_OP(threefry2x32, NoAttrs,
                  {
                      .name = "threefry2x32",
                      .traits = {.composite = true},
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            check_count("threefry2x32", in, 4);
                            for (std::size_t i = 0; i < 4; ++i) check_u32("threefry2x32", i, in[i]);
                            return Types(2, Type{DType::U32, elementwise_shape("threefry2x32", in)});
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = Never{kNoTangent},
                      .transpose = Never{kNoTangent},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            for (std::int64_t k = 0, n = out[0].size(); k < n; ++k) {
                              auto x = [&](std::size_t i) {
                                return in[i].as<std::uint32_t>()[element(in[i], out[0], k)];
                              };
                              auto h = threefry_hash({x(0), x(1)}, {x(2), x(3)});
                              out[0].as<std::uint32_t>()[k] = h[0];
                              out[1].as<std::uint32_t>()[k] = h[1];
                            }
                          },
                      .samples =
                          [] {
                            Type x{DType::U32, {4, 3}};
                            Type one{DType::U32, {}};
                            return std::vector<Sample<NoAttrs>>{{{x, x, x, x}}, {{one, one, x, x}}};
                          },
                  });

Value random_bits(Value keys, std::int64_t bits, const Shape& shape) {
  return keys.builder->add1(def::random_bits, {keys}, attrs(RandomBits{bits, shape}));
}
std::array<Value, 2> threefry2x32(Value key0, Value key1, Value x0, Value x1) {
  Values r = key0.builder->add(def::threefry2x32, {key0, key1, x0, x1});
  return {r[0], r[1]};
}

namespace {
Value half(Value key, std::int64_t i) { return reshape(slice(key, {i}, {i + 1}), {}); }
// Two halves as the last dimension.
Value joined_halves(Value hi, Value lo) {
  Shape shape = hi.shape();
  shape.push_back(1);
  return concatenate(Values{reshape(hi, shape), reshape(lo, shape)}, hi.rank());
}
}  // namespace

Value random_split(Value key, const Shape& shape) {
  Builder& b = *key.builder;
  Value counter = reshape(iota(b, DType::U32, {size_of(shape)}, 0), shape);
  auto [hi, lo] = threefry2x32(half(key, 0), half(key, 1), scalar(b, 0, DType::U32), counter);
  return joined_halves(hi, lo);
}

Value random_fold_in(Value key, Value data) {
  Builder& b = *key.builder;
  auto [hi, lo] = threefry2x32(half(key, 0), half(key, 1), scalar(b, 0, DType::U32), convert(data, DType::U32));
  return joined_halves(hi, lo);
}

}  // namespace tessera::ops
