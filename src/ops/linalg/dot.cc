// SPDX-License-Identifier: Apache-2.0
// dot_general: https://openxla.org/stablehlo/spec#dot_general
#include "ops/linalg/dot.h"

#include <algorithm>

#include "ir/derive_sharding.h"
#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {

bool contains(const Dims& v, std::int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); }

}  // namespace

Dims free_dims(std::int64_t rank, const Dims& contracting, const Dims& batch) {
  Dims out;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(contracting, d) && !contains(batch, d)) out.push_back(d);
  }
  return out;
}

namespace {

void check_side(const char* side, std::size_t operand, const Type& t, const Dims& contracting, const Dims& batch) {
  check_axes("dot_general", str(side, "_contracting"), contracting, t.rank());
  check_axes("dot_general", str(side, "_batch"), batch, t.rank());
  for (auto d : batch) {
    if (contains(contracting, d))
      bad_operand("dot_general", operand, str("dimension ", d, " is both batch and contracting"));
  }
}

Types infer(TypeSpan in, const DotGeneral& p) {
  check_count("dot_general", in, 2);
  const Type& a = in[0];
  const Type& b = in[1];
  if (a.dtype != b.dtype) {
    throw TypeError(str("[dot_general] operand 1 has dtype ", dtype_name(b.dtype), "; expected ", dtype_name(a.dtype),
                        " as operand 0"));
  }
  check_side("lhs", 0, a, p.lhs_contracting, p.lhs_batch);
  check_side("rhs", 1, b, p.rhs_contracting, p.rhs_batch);
  auto pairs = [&](const char* what, const Dims& x, const Dims& y) {
    if (x.size() != y.size()) {
      throw ValueError(str("[dot_general] ", x.size(), " ", what, " dimensions of operand 0 and ", y.size(),
                           " of operand 1; expected as many"));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (a.shape[at(x[i])] != b.shape[at(y[i])]) {
        bad_operand("dot_general", 1,
                    str(what, " dim ", y[i], " is ", b.shape[at(y[i])], ", expected ", a.shape[at(x[i])],
                        " (operand 0 dim ", x[i], "); shapes ", a.shape, " and ", b.shape));
      }
    }
  };
  pairs("contracting", p.lhs_contracting, p.rhs_contracting);
  pairs("batch", p.lhs_batch, p.rhs_batch);
  Shape shape;
  for (auto d : p.lhs_batch) shape.push_back(a.shape[at(d)]);
  for (auto d : free_dims(a.rank(), p.lhs_contracting, p.lhs_batch)) shape.push_back(a.shape[at(d)]);
  for (auto d : free_dims(b.rank(), p.rhs_contracting, p.rhs_batch)) shape.push_back(b.shape[at(d)]);
  return {Type{p.preferred.value_or(a.dtype), shape, a.weak && b.weak && !p.preferred}};
}

FactorRule factors(TypeSpan in, TypeSpan, const DotGeneral& p) {
  FactorRule r;
  r.operands = {FactorRule::Tensor(in[0].shape.size()), FactorRule::Tensor(in[1].shape.size())};
  r.results.emplace_back();
  for (std::size_t i = 0; i < p.lhs_batch.size(); ++i) {
    int f = r.add(in[0].shape[at(p.lhs_batch[i])]);
    r.operands[0][at(p.lhs_batch[i])] = {f};
    r.operands[1][at(p.rhs_batch[i])] = {f};
    r.results[0].push_back({f});
  }
  for (auto d : free_dims(in[0].rank(), p.lhs_contracting, p.lhs_batch)) {
    int f = r.add(in[0].shape[at(d)]);
    r.operands[0][at(d)] = {f};
    r.results[0].push_back({f});
  }
  for (auto d : free_dims(in[1].rank(), p.rhs_contracting, p.rhs_batch)) {
    int f = r.add(in[1].shape[at(d)]);
    r.operands[1][at(d)] = {f};
    r.results[0].push_back({f});
  }
  for (std::size_t i = 0; i < p.lhs_contracting.size(); ++i) {
    int f = r.add(in[0].shape[at(p.lhs_contracting[i])], Factor::Kind::Reduce, Reduction::Sum);
    r.operands[0][at(p.lhs_contracting[i])] = {f};
    r.operands[1][at(p.rhs_contracting[i])] = {f};
  }
  return r;
}

// Of a batch dimension's entries the left one counts, also where it has none, as in JAX.
void place_product(const ir::PlaceArgs& args, Types& out, const DotGeneral& p) {
  if (args.in[1].sharding == nullptr || p.rhs_batch.empty()) return derive_by_factors(args, out, attrs(p));
  const ir::TypeSharding left = ir::sharding_of(args.in[0], args.mesh);
  ir::TypeSharding right = *args.in[1].sharding;
  for (std::size_t i = 0; i < p.lhs_batch.size(); ++i) {
    if (left.dims[at(p.lhs_batch[i])].empty()) right.dims[at(p.rhs_batch[i])].clear();
  }
  const Types in{args.in[0], Type{args.in[1].dtype, args.in[1].shape, args.in[1].weak, intern(right)}};
  derive_by_factors({args.op, in, args.mesh, args.typing, args.open}, out, attrs(p));
}

Batched batch(Builder& b, const BatchArgs& a, const DotGeneral& p) {
  DotGeneral q = p;
  if (a.batched[0] && a.batched[1]) {
    q.lhs_contracting = shifted(p.lhs_contracting);
    q.rhs_contracting = shifted(p.rhs_contracting);
    q.lhs_batch = shifted(p.lhs_batch);
    q.rhs_batch = shifted(p.rhs_batch);
    q.lhs_batch.insert(q.lhs_batch.begin(), 0);
    q.rhs_batch.insert(q.rhs_batch.begin(), 0);
    return {{b.add1(def::dot_general, a.in, attrs(q))}, {true}};
  }
  // One operand only: its batch is one more free dimension, in front of its other free ones.
  std::size_t side = a.batched[0] ? 0 : 1;
  (side == 0 ? q.lhs_contracting : q.rhs_contracting) = shifted(side == 0 ? p.lhs_contracting : p.rhs_contracting);
  (side == 0 ? q.lhs_batch : q.rhs_batch) = shifted(side == 0 ? p.lhs_batch : p.rhs_batch);
  Value out = b.add1(def::dot_general, a.in, attrs(q));
  auto batch_dims = static_cast<std::int64_t>(p.lhs_batch.size());
  auto lhs_free = a.in[0].rank() - static_cast<std::int64_t>(p.lhs_contracting.size()) - batch_dims;
  return {{move_dim(out, side == 0 ? batch_dims : batch_dims + lhs_free, 0)}, {true}};
}

// Cotangent of one operand. With result dimensions (batch, free of x, free of y), the product of ct and y over y's free
// dimensions gives (batch, free of x, contracting in y's order); a transposition puts them where x has them.
Value transpose_side(Value ct, Value y, const Type& x, std::size_t side, const DotGeneral& p) {
  const Dims& x_contract = side == 0 ? p.lhs_contracting : p.rhs_contracting;
  const Dims& y_contract = side == 0 ? p.rhs_contracting : p.lhs_contracting;
  const Dims& x_batch = side == 0 ? p.lhs_batch : p.rhs_batch;
  const Dims& y_batch = side == 0 ? p.rhs_batch : p.lhs_batch;
  Dims x_free = free_dims(x.rank(), x_contract, x_batch);
  Dims y_free = free_dims(y.rank(), y_contract, y_batch);
  auto nb = static_cast<std::int64_t>(x_batch.size());
  auto y_start = side == 0 ? nb + static_cast<std::int64_t>(x_free.size()) : nb;
  DotDims d;
  for (std::int64_t i = 0; i < nb; ++i) d.lhs_batch.push_back(i);
  d.rhs_batch = y_batch;
  for (std::size_t i = 0; i < y_free.size(); ++i) d.lhs_contracting.push_back(y_start + static_cast<std::int64_t>(i));
  d.rhs_contracting = y_free;
  Value g = dot_general(convert(ct, y.dtype()), y, d);
  // Dimensions of g, as dimensions of x; y's contracting ones come in ascending order of y's dimension.
  Dims where = x_batch;
  where.insert(where.end(), x_free.begin(), x_free.end());
  Dims sorted = y_contract;
  std::sort(sorted.begin(), sorted.end());
  for (auto s : sorted)
    where.push_back(x_contract[at(std::find(y_contract.begin(), y_contract.end(), s) - y_contract.begin())]);
  Dims permutation(where.size());
  for (std::size_t i = 0; i < where.size(); ++i) permutation[at(where[i])] = static_cast<std::int64_t>(i);
  return convert(transpose(g, permutation), x.dtype);
}

Values transpose_rule(Builder&, const TransposeArgs& t, const DotGeneral& p) {
  Values out(2);
  if (t.linear[0]) out[0] = transpose_side(t.ct[0], t.in[1], t.types[0], 0, p);
  if (t.linear[1]) out[1] = transpose_side(t.ct[0], t.in[0], t.types[1], 1, p);
  return out;
}

Values jvp(Builder& b, const JvpArgs& a, const DotGeneral& p) {
  Value sum;
  if (a.tangents[0]) sum = b.add1(def::dot_general, {a.tangents[0], a.in[1]}, attrs(p));
  if (a.tangents[1]) sum = add_any(sum, b.add1(def::dot_general, {a.in[0], a.tangents[1]}, attrs(p)));
  return {sum};
}

void reference(ViewSpan in, ViewSpan out, const DotGeneral& p) {
  Dims sa = row_strides(in[0].shape);
  Dims sb = row_strides(in[1].shape);
  Dims fa = free_dims(rank(in[0].shape), p.lhs_contracting, p.lhs_batch);
  Dims fb = free_dims(rank(in[1].shape), p.rhs_contracting, p.rhs_batch);
  Shape inner;
  for (auto d : p.lhs_contracting) inner.push_back(in[0].shape[at(d)]);
  std::int64_t k = 0;
  for_each_position(out[0].shape, [&](const Dims& position) {
    std::int64_t i0 = 0;
    std::int64_t j0 = 0;
    std::size_t d = 0;
    for (std::size_t n = 0; n < p.lhs_batch.size(); ++n, ++d) {
      i0 += position[d] * sa[at(p.lhs_batch[n])];
      j0 += position[d] * sb[at(p.rhs_batch[n])];
    }
    for (auto f : fa) i0 += position[d++] * sa[at(f)];
    for (auto f : fb) j0 += position[d++] * sb[at(f)];
    complexd sum = 0;
    std::uint64_t isum = 0;
    bool any = false;
    for_each_position(inner, [&](const Dims& c) {
      std::int64_t i = i0;
      std::int64_t j = j0;
      for (std::size_t n = 0; n < c.size(); ++n) {
        i += c[n] * sa[at(p.lhs_contracting[n])];
        j += c[n] * sb[at(p.rhs_contracting[n])];
      }
      if (is_bool(in[0].dtype)) {
        any = any || (load_bool(in[0], i) && load_bool(in[1], j));
      } else if (is_integer(in[0].dtype)) {
        isum += load_uint(in[0], i) * load_uint(in[1], j);
      } else {
        sum += load_complex(in[0], i) * load_complex(in[1], j);
      }
    });
    switch (wide_kind(out[0].dtype)) {
      case Wide::Bool:
        store_bool(out[0], k, any);
        break;
      case Wide::Float:
        store_float(out[0], k,
                    is_inexact(in[0].dtype) ? sum.real() : static_cast<double>(static_cast<std::int64_t>(isum)));
        break;
      case Wide::Complex:
        store_complex(out[0], k, sum);
        break;
      default:
        store_uint(out[0], k, isum);
    }
    ++k;
  });
}

}  // namespace

TESSERA_DEFINE_OP(dot_general, DotGeneral,
                  {
                      .name = "dot_general",
                      .traits = {.linearity = Linearity::Multi},
                      .infer = infer,
                      .factors = factors,
                      .remap = by_default,
                      .batch = batch,
                      .jvp = jvp,
                      .transpose = transpose_rule,
                      .place = place_product,
                      .reference = reference,
                      .samples =
                          [] {
                            auto f = [](Shape s) { return Type{DType::F32, std::move(s)}; };
                            return std::vector<Sample<DotGeneral>>{
                                {{f({4, 6}), f({6, 8})}, {{1}, {0}, {}, {}, {}}},
                                {{f({2, 4, 6}), f({2, 6, 3})}, {{2}, {1}, {0}, {0}, {}}},
                                {{f({6, 4, 2}), f({2, 4, 6})}, {{0, 1}, {2, 1}, {2}, {0}, {}}},
                                {{f({4}), f({4})}, {{0}, {0}, {}, {}, {}}},
                                {{f({4}), f({6})}, {{}, {}, {}, {}, {}}},
                                {{Type{DType::I32, {4, 6}}, Type{DType::I32, {6, 4}}}, {{1}, {0}, {}, {}, {}}},
                                {{Type{DType::BF16, {4, 6}}, Type{DType::BF16, {6, 4}}},
                                 {{1}, {0}, {}, {}, DType::F32}}};
                          },
                  });

Value dot_general(Value lhs, Value rhs, const DotDims& d, std::optional<DType> preferred) {
  return lhs.builder->add1(
      def::dot_general, {lhs, rhs},
      attrs(DotGeneral{d.lhs_contracting, d.rhs_contracting, d.lhs_batch, d.rhs_batch, preferred}));
}

}  // namespace tessera::ops
