// SPDX-License-Identifier: Apache-2.0
// pad: a value before, behind and between the elements of each dimension; negative amounts cut elements off.
#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/strided_copy.h"
#include "ops/define_op.h"
#include "ops/reduce/windows.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {
Types infer(TypeSpan in, const Pad& p) {
  check_count("pad", in, 2);
  check_same_dtype("pad", in);
  if (!in[1].shape.empty()) bad_operand("pad", 1, str("shape ", in[1].shape, "; expected rank 0"));
  auto rank = in[0].shape.size();
  auto check = [&](const char* name, const Dims& v) {
    if (v.size() != rank) {
      bad_attr("pad", name, str(base::tuple_text(v), " for shape ", in[0].shape, "; expected one entry a dimension"));
    }
  };
  check("low", p.low);
  check("high", p.high);
  check("interior", p.interior);
  Shape shape;
  for (std::size_t d = 0; d < rank; ++d) {
    if (p.interior[d] < 0 || p.interior[d] == std::numeric_limits<std::int64_t>::max()) {
      bad_attr("pad", "interior", str(p.interior[d], " for dimension ", d, "; expected 0 <= interior < 2^63 - 1"));
    }
    shape.push_back(padded("pad", dilated("pad", in[0].shape[d], p.interior[d] + 1), p.low[d], p.high[d]));
    if (shape[d] < 0) {
      bad_attr("pad", "low",
               str(p.low[d], " and high ", p.high[d], " leave ", shape[d], " elements of dimension ", d, ", which has ",
                   in[0].shape[d]));
    }
  }
  return {Type{in[0].dtype, shape, in[0].weak && in[1].weak}};
}

bool untouched(const Pad& p, std::size_t d) { return p.low[d] == 0 && p.high[d] == 0 && p.interior[d] == 0; }

FactorRule factors(TypeSpan in, TypeSpan out, const Pad& p) {
  FactorRule r;
  r.operands = {{}, {}};
  r.results = {{}};
  for (std::size_t d = 0; d < in[0].shape.size(); ++d) {
    if (untouched(p, d)) {
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

Batched batch(Builder& b, const BatchArgs& a, const Pad& p) {
  Pad q = p;
  for (Dims* v : {&q.low, &q.high, &q.interior}) v->insert(v->begin(), 0);
  if (!a.batched[1]) return {{b.add1(def::pad, {a.in[0], a.in[1]}, attrs(q))}, {true}};
  // Another value for each call: pad with anything, and put the values where the padding is.
  Value x = with_batch(a, 0);
  Value inner = b.add1(def::pad, {x, zeros(b, Type{x.dtype(), {}})}, attrs(q));
  Value inside = b.add1(def::pad, {full(b, 1, Type{DType::Bool, x.shape()}), scalar(b, 0, DType::Bool)}, attrs(q));
  return {{where(inside, inner, broadcast_in_dim(a.in[1], inner.shape(), {0}))}, {true}};
}

Values transposed(Builder& b, const TransposeArgs& t, const Pad& p) {
  Value ct = t.ct[0];
  Dims low = p.low;
  Dims high = p.high;
  Dims strides = p.interior;
  for (auto& v : low) v = -v;
  for (auto& v : high) v = -v;
  for (auto& v : strides) v += 1;
  Value x;
  if (t.types[0].size() == 0) {
    x = zeros(b, t.types[0]);
  } else {
    Value inner = pad(ct, scalar(b, 0, ct.dtype()), low, high);
    x = slice(inner, Dims(low.size(), 0), inner.shape(), strides);
  }
  Values out{t.linear[0] ? x : Value{}, {}};
  if (t.linear[1]) {
    Dims all(low.size());
    std::iota(all.begin(), all.end(), 0);
    out[1] = reduce_sum(ct, all) - reduce_sum(x, all);
  }
  return out;
}

void fill(const View& out, const View& value) {
  auto item = at(dtype_size(out.dtype));
  auto bytes = at(out.size()) * item;
  auto* to = static_cast<char*>(out.data);
  if (bytes == 0) return;
  std::memcpy(to, value.data, item);
  for (std::size_t done = item; done < bytes; done *= 2) std::memcpy(to + done, to, std::min(done, bytes - done));
}

void reference(ViewSpan in, ViewSpan out, const Pad& p) {
  auto item = dtype_size(out[0].dtype);
  Dims from = core::contiguous_strides(in[0].shape, item);
  Dims to = core::contiguous_strides(out[0].shape, item);
  Shape kept;
  std::int64_t read = 0;
  std::int64_t write = 0;
  fill(out[0], in[1]);
  for (std::size_t d = 0; d < from.size(); ++d) {
    auto step = p.interior[d] + 1;
    auto first = p.low[d] >= 0 ? 0 : (-p.low[d] + step - 1) / step;
    auto room = out[0].shape[d] - 1 - p.low[d];
    auto last = room < 0 ? 0 : std::min(in[0].shape[d], room / step + 1);
    if (last <= first) return;
    kept.push_back(last - first);
    read += first * from[d];
    write += (p.low[d] + first * step) * to[d];
    to[d] *= step;
  }
  core::copy_strided(static_cast<char*>(out[0].data) + write, to, static_cast<const char*>(in[0].data) + read, from,
                     kept, item);
}
}  // namespace

TESSERA_DEFINE_OP(pad, Pad,
                  {
                      .name = "pad",
                      .traits = {.linearity = Linearity::Joint,
                                 .exact = true,
                                 .whole_entry = ir::WholeEntry::Kept,
                                 .activity = "padding"},
                      .infer = infer,
                      .factors = factors,
                      .remap = by_default,
                      .batch = batch,
                      .jvp = linear,
                      .transpose = transposed,
                      .reference = reference,
                      .samples =
                          [] {
                            Type x{DType::F32, {4, 6}};
                            Type v{DType::F32, {}};
                            return std::vector<Sample<Pad>>{
                                {{x, v}, {{0, 2}, {0, 1}, {0, 0}}},
                                {{x, v}, {{1, 0}, {2, 0}, {0, 2}}},
                                {{x, v}, {{-1, 2}, {3, -2}, {0, 1}}},
                                {{x, v}, {{-3, 0}, {1, -7}, {2, 1}}},
                                {{Type{DType::F32, {0, 3}}, v}, {{2, 0}, {1, 1}, {3, 0}}},
                                {{v, v}, {{}, {}, {}}},
                                {{Type{DType::I8, {5}}, Type{DType::I8, {}}}, {{1}, {1}, {1}}}};
                          },
                  });

Value pad(Value x, Value value, const Dims& low, const Dims& high, const Dims& interior) {
  Dims between = interior.empty() ? Dims(low.size(), 0) : interior;
  auto none = [](const Dims& v) { return std::all_of(v.begin(), v.end(), [](auto n) { return n == 0; }); };
  if (none(low) && none(high) && none(between)) return x;
  return x.builder->add1(def::pad, {x, value}, attrs(Pad{low, high, between}));
}

}  // namespace tessera::ops
