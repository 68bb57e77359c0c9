// SPDX-License-Identifier: Apache-2.0
// fft: https://openxla.org/stablehlo/spec#fft
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "ir/axis_sets.h"
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

bool keeps_extent(const Fft& p, const Type& in, const Type& out, std::int64_t d) {
  return p.type == FftType::Fft || p.type == FftType::Ifft || in.shape[at(d)] == out.shape[at(d)];
}

FactorRule factors(TypeSpan in, TypeSpan out, const Fft& p) {
  FactorRule r;
  r.operands.emplace_back();
  r.results.emplace_back();
  auto lead = in[0].rank() - static_cast<std::int64_t>(p.lengths.size());
  for (std::int64_t d = 0; d < in[0].rank(); ++d) {
    int f = r.add(in[0].shape[at(d)], d < lead ? Factor::Kind::Pass : Factor::Kind::Whole);
    bool same = keeps_extent(p, in[0], out[0], d);
    r.operands[0].push_back({f});
    r.results[0].push_back({same ? f : r.add(out[0].shape[at(d)], Factor::Kind::Whole)});
  }
  return r;
}

// Axes of the whole dimension d moved to the dimension that has the most left for a position, behind those that it had
// at first, and those that it is to have. Nothing where none can take them.
std::optional<ir::Layout> without(const ir::DivideArgs& a, ir::Layout l, const Shape& shape, std::int64_t d) {
  ir::AxisList axes = std::exchange(l.dims[at(d)], {});
  if (axes.empty()) return l;
  std::int64_t best = -1;
  std::int64_t most = 3;  // as in `Factoring`: not less than four elements for each part
  for (std::int64_t e = 0; e < rank(shape); ++e) {
    std::int64_t left = shape[at(e)] / (ir::parts(l.dims[at(e)], a.mesh) * ir::parts(axes, a.mesh));
    if (e == d || left <= most) continue;
    most = left;
    best = e;
  }
  if (best < 0) return std::nullopt;
  ir::AxisList all = a.operands[0].dims[at(best)];
  for (const ir::AxisList* more :
       {&a.results[0].dims[at(best)], &std::as_const(l.dims[at(best)]), &std::as_const(axes)}) {
    for (auto axis : *more) {
      if (std::find(all.begin(), all.end(), axis) == all.end()) all.push_back(axis);
    }
  }
  // Those that it had at first and that stand elsewhere by now stay there.
  ir::drop_if(all, [&](std::uint8_t axis) {
    auto has = [&](const ir::AxisList& list) { return std::find(list.begin(), list.end(), axis) != list.end(); };
    return !has(axes) && !has(l.dims[at(best)]);
  });
  l.dims[at(best)] = all;
  return l;
}

// One dimension after the other, each whole while it is transformed: an exchange between two of them.
std::optional<ir::Division> one_by_one(Builder&, const ir::DivideArgs& a, const Fft& p) {
  std::int64_t last = a.in[0].rank() - 1;
  std::int64_t lead = last + 1 - static_cast<std::int64_t>(p.lengths.size());
  Dims order;
  bool split = false;
  for (std::int64_t d = lead; d <= last; ++d) {
    order.push_back(d);
    split = split || a.parts_of(0, d) > 1;
  }
  if (!split || p.lengths.size() == 1 || a.in[0].type().size() == 0) return std::nullopt;
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t d, std::int64_t e) {
    // Numbers are real before the last dimension is transformed, or after.
    if (p.type == FftType::Rfft && (d == last) != (e == last)) return d == last;
    if (p.type == FftType::Irfft && (d == last) != (e == last)) return e == last;
    return a.parts_of(0, d) < a.parts_of(0, e);  // an exchange among few moves less
  });
  ir::Division out;
  Value x = a.in[0];
  ir::Layout layout = a.operands[0];
  layout.partial = 0;
  for (auto d : order) {
    FftType type = d == last                  ? p.type
                   : p.type == FftType::Rfft  ? FftType::Fft
                   : p.type == FftType::Irfft ? FftType::Ifft
                                              : p.type;
    x = fft(move_dim(x, d, last), type, {p.lengths[at(d - lead)]});
    Shape shape = x.shape();
    std::rotate(shape.begin() + d, shape.end() - 1, shape.end());
    if (auto next = without(a, layout, shape, d)) {
      layout = *next;
      ir::Layout moved = layout;
      std::rotate(moved.dims.begin() + d, moved.dims.begin() + d + 1, moved.dims.end());
      out.layouts.emplace_back(x, moved);
    }
    x = move_dim(x, last, d);
  }
  out.out = {x};
  if (order.back() != last && layout.dims[at(order.back())].empty()) out.layouts.emplace_back(x, layout);
  return out;
}

// exp(sign 2 pi i j k / n) for j along dimension -2 and k along dimension -1 of a matrix.
Value roots(Builder& b, DType dtype, const Shape& matrix, std::int64_t n, double sign) {
  Value product = iota(b, DType::I64, matrix, 0) * iota(b, DType::I64, matrix, 1);
  Value angle = convert(product, DType::F64) * (sign * 2 * std::numbers::pi / static_cast<double>(n));
  return complex(convert(cos(angle), real_dtype(dtype)), convert(sin(angle), real_dtype(dtype)));
}

// A dimension that is split, with no other that could be: its n = parts * m elements x[p m + j] are transformed along
// p, turned, and transformed along j (Bailey's four steps: doi.org/10.1109/SUPERC.1989.1263263); three exchanges.
std::optional<ir::Division> four_steps(Builder& b, const ir::DivideArgs& a, const Fft& p) {
  std::int64_t last = a.in[0].rank() - 1;
  std::int64_t parts = a.parts_of(0, last);
  std::int64_t n = a.in[0].shape()[at(last)];
  bool complex_to_complex = p.type == FftType::Fft || p.type == FftType::Ifft;
  if (parts == 1 || p.lengths.size() != 1 || !complex_to_complex || n % (parts * parts) != 0) return std::nullopt;
  if (a.in[0].type().size() == 0) return std::nullopt;
  std::int64_t m = n / parts;
  Shape shape = a.in[0].shape();
  shape.back() = parts;
  shape.push_back(m);
  ir::Layout turned = a.operands[0];
  turned.partial = 0;
  turned.dims.emplace_back();  // both steps work along the last dimension and are split along the one before
  Value x = fft(move_dim(reshape(a.in[0], shape), last, last + 1), p.type, {parts});
  ir::Division out{{}, {{x, turned}}};
  Value w = roots(b, x.dtype(), {m, parts}, n, p.type == FftType::Fft ? -1 : 1);
  x = x * broadcast_in_dim(w, x.shape(), {last, last + 1});
  x = fft(move_dim(x, last, last + 1), p.type, {m});
  out.layouts.emplace_back(x, turned);
  out.out = {reshape(move_dim(x, last, last + 1), a.in[0].shape())};
  return out;
}

Traits traits() { return {.linearity = Linearity::Joint, .work = ir::Work::Fft, .whole_entry = ir::WholeEntry::Kept}; }

}  // namespace

TESSERA_DEFINE_OP(fft, Fft,
                  {
                      .name = "fft",
                      .traits = traits(),
                      .infer = infer,
                      .factors = factors,
                      .remap = by_default,
                      .batch =
                          [](Builder&, const BatchArgs& a, const Fft& p) {
                            return Batched{{fft(a.in[0], p.type, p.lengths)}, {true}};
                          },
                      .jvp = linear,
                      .transpose = transpose_rule,
                      .divide = {one_by_one, four_steps},
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
