// SPDX-License-Identifier: Apache-2.0
// axis_index, ragged_all_to_all, and values that refuse differentiation.
#include "ops/collective/collectives.h"
#include "ops/collective/collectives_common.h"

namespace tessera::ops {

namespace {

Types infer_ragged(TypeSpan in, const Collective& p) {
  static constexpr const char* kNames[] = {"operand",    "output",         "input_offsets",
                                           "send_sizes", "output_offsets", "recv_sizes"};
  const char* op = "ragged_all_to_all";
  check_count(op, in, 6);
  for (std::size_t i = 2; i < 6; ++i) {
    if (!is_integer(in[i].dtype)) {
      throw ValueError(str("[", op, "] ", kNames[i], " is ", in[i], "; expected an integer dtype"));
    }
  }
  for (std::size_t i = 2; i < 6; ++i) {
    if (in[i].rank() != 1 || in[i].shape[0] == 0) {
      throw ValueError(str("[", op, "] ", kNames[i], " is ", in[i], "; expected rank 1 and a positive length"));
    }
  }
  for (std::size_t i = 2; i < 6; ++i) {
    if (in[i].shape[0] != in[2].shape[0]) {
      throw ValueError(str("[", op, "] ", kNames[i], " has length ", in[i].shape[0], "; expected ", in[2].shape[0],
                           ", that of input_offsets"));
    }
    if (in[i].shape[0] % p.group_size() != 0) {
      throw ValueError(str("[", op, "] ", kNames[i], " has length ", in[i].shape[0], ", which is not divisible by the ",
                           p.group_size(), " instances"));
    }
  }
  if (in[0].rank() < 1 || in[1].rank() < 1) {
    throw ValueError(str("[", op, "] operand is ", in[0], " and output ", in[1], "; expected rank 1 or more"));
  }
  Shape rows(in[0].shape.begin() + 1, in[0].shape.end());
  if (in[0].dtype != in[1].dtype || rows != Shape(in[1].shape.begin() + 1, in[1].shape.end())) {
    throw ValueError(str("[", op, "] output is ", in[1], " and operand ", in[0],
                         "; expected one dtype, and one shape behind the first dimension"));
  }
  return {Type{in[1].dtype, in[1].shape}};
}

Value exchanged(Value x, const Collective& p) {
  AllToAll q;
  static_cast<Collective&>(q) = p;
  return all_to_all(x, q);
}

// Whether each row lies in a slot [start, start + size). Empty slots cover nothing, wherever they start.
Value covered_rows(Value starts, Value sizes, std::int64_t rows) {
  Builder& b = *starts.builder;
  std::int64_t k = starts.shape()[0];
  Value s = broadcast_in_dim(convert(starts, DType::I32), {k, rows}, {0});
  Value e = broadcast_in_dim(convert(starts, DType::I32) + convert(sizes, DType::I32), {k, rows}, {0});
  Value row = iota(b, DType::I32, {k, rows}, 1);
  Value inside = convert(and_(ge(row, s), lt(row, e)), DType::I32);
  return gt(reduce_sum(inside, {0}), scalar(b, 0, DType::I32));
}

Values ragged_jvp(Builder& b, const JvpArgs& a, const Collective& p) {
  Values in(a.in.begin(), a.in.end());
  for (std::size_t i = 0; i < 2; ++i) in[i] = a.tangents[i] ? a.tangents[i] : zeros_like(a.in[i]);
  return {b.add1(def::ragged_all_to_all, in, attrs(p))};
}

Values ragged_transpose(Builder& b, const TransposeArgs& t, const Collective& p) {
  Values out(6);
  // Where a receiver put what it got: the senders' output offsets, slot by slot.
  Value landed = exchanged(t.in[4], p);
  if (t.linear[0]) {
    Values back{t.ct[0], zeros(b, t.types[0]), landed, t.in[5], exchanged(t.in[2], p), t.in[3]};
    out[0] = b.add1(def::ragged_all_to_all, back, attrs(p));
  }
  if (t.linear[1]) {
    Value mask = covered_rows(landed, t.in[5], t.types[1].shape[0]);
    out[1] = where(broadcast_in_dim(mask, t.types[1].shape, {0}), zeros_like(t.ct[0]), t.ct[0]);
  }
  return out;
}

struct Why {
  std::string why;
  static constexpr auto fields = std::tuple{field("why", &Why::why)};
};

}  // namespace

TESSERA_DEFINE_OP(axis_index, Collective,
                  {
                      .name = "axis_index",
                      .traits = {.collective = true},
                      .infer =
                          [](TypeSpan, const Collective&) {
                            return Types{Type{DType::I32, {}}};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = batch_index,
                      .jvp = Never{"it is a constant"},
                      .transpose = Never{"it is a constant"},
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

TESSERA_DEFINE_OP(ragged_all_to_all, Collective,
                  {
                      .name = "ragged_all_to_all",
                      .traits = {.linearity = Linearity::Joint, .collective = true, .linear_operands = 2},
                      .infer = infer_ragged,
                      .factors = [](TypeSpan in, TypeSpan out,
                                    const Collective&) { return FactorRule::whole(in, out); },
                      .remap = by_default,
                      .batch = batch_ragged,
                      .jvp = ragged_jvp,
                      .transpose = ragged_transpose,
                      .reference = Never{kNeedsMesh},
                      .samples = Never{kNeedsMesh},
                  });

TESSERA_DEFINE_OP(no_derivative, Why,
                  {
                      .name = "no_derivative",
                      .traits = {.elementwise = true},
                      .infer = [](TypeSpan in, const Why&) { return Types{in[0]}; },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = [](Builder&, const JvpArgs&, const Why& p) -> Values {
                        throw UnimplementedError(str(p.why, ": differentiation of this operation is not defined"));
                      },
                      .transpose = Never{"it has no derivative"},
                      .reference =
                          [](ViewSpan in, ViewSpan out, const Why&) {
                            for (std::int64_t i = 0; i < out[0].size(); ++i) copy_element(out[0], i, in[0], i);
                          },
                      .samples = Never{"a copy"},
                  });

Value axis_index(Builder& b, const Collective& p) {
  if (p.names.list.empty()) return scalar(b, 0, DType::I32);
  Collective q = p;
  q.groups.reset();
  return b.add1(def::axis_index, ValueSpan{}, attrs(q));
}
Value ragged_all_to_all(ValueSpan in, const Collective& p) {
  return in[0].builder->add1(def::ragged_all_to_all, in, attrs(p));
}
Value no_derivative(Value x, const std::string& why) {
  return x.builder->add1(def::no_derivative, {x}, attrs(Why{why}));
}

}  // namespace tessera::ops
