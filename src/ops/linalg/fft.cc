// SPDX-License-Identifier: Apache-2.0
// fft: https://openxla.org/stablehlo/spec#fft
#include <cmath>
#include <numbers>

#include "ops/linalg/linalg_common.h"

namespace tessera::ops {

namespace {

Types infer(TypeSpan in, const Fft& p) {
  check_count("fft", in, 1);
  const Type& x = in[0];
  auto n = p.lengths.size();
  if (n < 1 || n > 3 || static_cast<std::int64_t>(n) > x.rank()) {
    bad_attr("fft", "lengths",
             str(base::tuple_text(p.lengths), " for shape ", x.shape,
                 "; expected one to three, no more than there are dimensions"));
  }
  bool from_real = p.type == FftType::Rfft;
  if (from_real ? (x.dtype != DType::F32 && x.dtype != DType::F64) : !is_complex(x.dtype)) {
    throw TypeError(str("[fft] operand 0 has dtype ", dtype_name(x.dtype), "; expected ",
                        from_real ? "float32 or float64" : "complex64 or complex128", " for ", to_string(p.type)));
  }
  Shape shape = x.shape;
  for (std::size_t i = 0; i < n; ++i) {
    auto d = shape.size() - n + i;
    bool half = p.type == FftType::Irfft && i + 1 == n;
    auto want = half ? p.lengths[i] / 2 + 1 : p.lengths[i];
    if (p.lengths[i] < 0 || shape[d] != want) {
      bad_operand("fft", 0,
                  str("dimension ", d, " of ", x.shape, " is ", shape[d], "; expected ", want, " for ",
                      to_string(p.type), " of lengths ", base::tuple_text(p.lengths)));
    }
  }
  if (from_real) shape.back() = p.lengths.back() / 2 + 1;
  if (p.type == FftType::Irfft) shape.back() = p.lengths.back();
  DType dtype = from_real ? complex_dtype(x.dtype) : p.type == FftType::Irfft ? real_dtype(x.dtype) : x.dtype;
  return {Type{dtype, shape}};
}

Values transpose_rule(Builder& b, const TransposeArgs& t, const Fft& p) {
  Value ct = t.ct[0];
  if (p.type == FftType::Rfft) {
    // The half spectrum is the whole one, cut.
    Dims low(at(ct.rank()), 0);
    Dims high = low;
    high.back() = p.lengths.back() - ct.shape().back();
    return {real(fft(pad(ct, scalar(b, 0, ct.dtype()), low, high), FftType::Fft, p.lengths))};
  }
  if (p.type == FftType::Irfft) {
    // Every number of the half spectrum but the first (and for even lengths the last) stands for two.
    Value x = fft(ct, FftType::Rfft, p.lengths);
    Value i = iota(b, DType::I32, x.shape(), x.rank() - 1);
    Value single = eq(i, scalar(b, 0, DType::I32));
    if (p.lengths.back() % 2 == 0) {
      single = or_(single, eq(i, scalar(b, static_cast<double>(p.lengths.back() / 2), DType::I32)));
    }
    double scale = 1 / static_cast<double>(size_of(p.lengths));
    Value weight = where(single, scalar(b, scale, x.dtype()), scalar(b, 2 * scale, x.dtype()));
    return {conj(x * weight)};
  }
  return {fft(ct, p.type, p.lengths)};
}

// One axis, by the definition.
std::vector<complexd> dft(const std::vector<complexd>& x, const Shape& shape, std::size_t axis, double sign) {
  std::vector<complexd> out(x.size());
  auto n = shape[axis];
  auto stride = row_strides(shape)[axis];
  std::vector<complexd> roots(at(n));
  for (std::int64_t k = 0; k < n; ++k) {
    roots[at(k)] = std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto k = static_cast<std::int64_t>(i) / stride % n;
    auto first = static_cast<std::int64_t>(i) - k * stride;
    for (std::int64_t j = 0; j < n; ++j) out[i] += x[at(first + j * stride)] * roots[at(j * k % n)];
  }
  return out;
}

void reference(ViewSpan in, ViewSpan out, const Fft& p) {
  bool inverse = p.type == FftType::Ifft || p.type == FftType::Irfft;
  Shape shape = p.type == FftType::Irfft ? out[0].shape : in[0].shape;
  auto n = p.lengths.size();
  auto lead = shape.size() - n;
  std::vector<complexd> x(at(size_of(shape)));
  Dims strides = row_strides(in[0].shape);
  std::size_t k = 0;
  for_each_position(shape, [&](const Dims& position) {
    Dims place = position;
    bool mirrored = p.type == FftType::Irfft && place.back() >= in[0].shape.back();
    if (mirrored) {
      for (auto d = lead; d < shape.size(); ++d) place[d] = (shape[d] - place[d]) % shape[d];
    }
    complexd v = load_complex(in[0], flat(place, strides));
    // A real result has a real mean and, for even lengths, a real last number: other parts are not read.
    x[k++] = mirrored ? std::conj(v) : v;
  });
  for (std::size_t d = lead; d < shape.size(); ++d) x = dft(x, shape, d, inverse ? 1 : -1);
  double scale = inverse ? 1 / static_cast<double>(size_of(p.lengths)) : 1;
  strides = row_strides(shape);
  std::int64_t to = 0;
  for_each_position(out[0].shape,
                    [&](const Dims& position) { store_number(out[0], to++, x[at(flat(position, strides))] * scale); });
}

}  // namespace

TESSERA_DEFINE_OP(fft, Fft,
                  {
                      .name = "fft",
                      .traits = {.linearity = Linearity::Joint},
                      .infer = infer,
                      .factors =
                          [](TypeSpan in, TypeSpan out, const Fft& p) {
                            return batch_factors(in, out, in[0].rank() - static_cast<std::int64_t>(p.lengths.size()));
                          },
                      .remap = by_default,
                      .batch =
                          [](Builder&, const BatchArgs& a, const Fft& p) {
                            return Batched{{fft(a.in[0], p.type, p.lengths)}, {true}};
                          },
                      .jvp = linear,
                      .transpose = transpose_rule,
                      .reference = reference,
                      .samples =
                          [] {
                            auto t = [](DType d, Shape s) { return Type{d, std::move(s)}; };
                            return std::vector<Sample<Fft>>{
                                {{t(DType::C64, {3, 4})}, {FftType::Fft, {4}}},
                                {{t(DType::C64, {2, 3, 4})}, {FftType::Ifft, {3, 4}}},
                                {{t(DType::F32, {3, 6})}, {FftType::Rfft, {6}}},
                                {{t(DType::F32, {2, 3, 5})}, {FftType::Rfft, {3, 5}}},
                                {{t(DType::C64, {3, 4})}, {FftType::Irfft, {6}}},
                                {{t(DType::C64, {2, 3})}, {FftType::Irfft, {5}}},
                            };
                          },
                  });

Value fft(Value x, FftType type, const Dims& lengths) {
  return x.builder->add1(def::fft, {x}, attrs(Fft{type, lengths}));
}

}  // namespace tessera::ops
