// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/elementwise.h"

#include <type_traits>

namespace tessera::ops {

namespace {

int bits_of(DType t) { return static_cast<int>(dtype_size(t)) * 8; }

// How elements of one wide kind are loaded and stored, and which function of a row computes with them.
struct AsBool {
  static constexpr auto load = load_bool;
  static constexpr auto store = store_bool;
  static auto of(const auto& fns) { return fns.b; }
};
struct AsInt {
  static constexpr auto load = load_int;
  static constexpr auto store = store_int;
  static auto of(const auto& fns) { return fns.i; }
};
struct AsUint {
  static constexpr auto load = load_uint;
  static constexpr auto store = store_uint;
  static auto of(const auto& fns) { return fns.u; }
};
struct AsFloat {
  static constexpr auto load = load_float;
  static constexpr auto store = store_float;
  static auto of(const auto& fns) { return fns.f; }
};
struct AsComplex {
  static constexpr auto load = load_complex;
  static constexpr auto store = store_complex;
  static auto of(const auto& fns) { return fns.c; }
};
template <class F>
decltype(auto) with_kind(DType t, const F& f) {
  switch (wide_kind(t)) {
    case Wide::Bool:
      return f(AsBool{});
    case Wide::Int:
      return f(AsInt{});
    case Wide::Uint:
      return f(AsUint{});
    case Wide::Float:
      return f(AsFloat{});
    default:
      return f(AsComplex{});
  }
}

// The row's function for each element of the result; those of integers may take the number of bits too.
template <class Kind, class Fns>
void apply_as(Kind kind, const Fns& fns, ViewSpan in, const View& out) {
  auto call = [f = kind.of(fns), bits = bits_of(in[0].dtype)](auto... x) {
    if constexpr (std::is_invocable_v<decltype(f), decltype(x)..., int>) {
      return f(x..., bits);
    } else {
      return f(x...);
    }
  };
  for (std::int64_t k = 0, n = out.size(); k < n; ++k) {
    auto operand = [&](std::size_t i) { return kind.load(in[i], element(in[i], out, k)); };
    if constexpr (std::is_same_v<Fns, UnaryFns>) {
      kind.store(out, k, call(operand(0)));
    } else if constexpr (std::is_same_v<Fns, BinaryFns>) {
      kind.store(out, k, call(operand(0), operand(1)));
    } else {
      store_bool(out, k, call(operand(0), operand(1)));
    }
  }
}
template <class Fns>
void apply(const Fns& fns, ViewSpan in, const View& out) {
  with_kind(in[0].dtype, [&](auto kind) { apply_as(kind, fns, in, out); });
}

template <class Fns>
bool legal(const Fns& fns, DType t) {
  return with_kind(t, [&](auto kind) { return kind.of(fns) != nullptr; });
}

template <class Fns>
void check_dtypes(const char* op, const Fns& fns, TypeSpan in) {
  if (!legal(fns, in[0].dtype)) {
    std::string kinds;
    auto put = [&](bool yes, const char* name) {
      if (yes) kinds += (kinds.empty() ? "" : ", ") + std::string(name);
    };
    put(fns.b, "bool");
    put(fns.i, "signed integer");
    put(fns.u, "unsigned integer");
    put(fns.f, "float");
    put(fns.c, "complex");
    throw TypeError(str("[", op, "] operand 0 has dtype ", dtype_name(in[0].dtype), "; expected ", kinds));
  }
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i].dtype != in[0].dtype) {
      throw TypeError(str("[", op, "] operand ", i, " has dtype ", dtype_name(in[i].dtype), "; expected ",
                          dtype_name(in[0].dtype), " as operand 0"));
    }
  }
}

bool all_weak(TypeSpan in) {
  for (const auto& t : in) {
    if (!t.weak) return false;
  }
  return true;
}

template <class Fns>
std::vector<Sample<NoAttrs>> samples_of(const Fns& fns, std::int64_t operands) {
  std::vector<DType> dtypes;
  if (fns.f) dtypes.insert(dtypes.end(), {DType::F32, DType::F64, DType::BF16, DType::F16});
  if (fns.i) dtypes.insert(dtypes.end(), {DType::I32, DType::I8, DType::I64});
  if (fns.u) dtypes.insert(dtypes.end(), {DType::U32, DType::U8});
  if (fns.c) dtypes.push_back(DType::C64);
  if (fns.b) dtypes.push_back(DType::Bool);
  std::vector<Sample<NoAttrs>> out;
  for (auto t : dtypes) out.push_back({Types(at(operands), Type{t, {4, 6}})});
  if (operands == 2) {
    out.push_back({Types{Type{dtypes[0], {8, 3}}, Type{dtypes[0], {}}}});
    out.push_back({Types{Type{dtypes[0], {}}, Type{dtypes[0], {5}}}});
  }
  return out;
}

}  // namespace

Shape elementwise_shape(std::string_view op, TypeSpan in, std::size_t from) {
  Shape full;
  std::size_t giver = from;
  for (std::size_t i = from; i < in.size(); ++i) {
    if (in[i].shape.empty()) continue;
    if (full.empty()) {
      full = in[i].shape;
      giver = i;
    } else if (in[i].shape != full) {
      bad_operand(op, i, str("shape ", in[i].shape, "; expected ", full, " as operand ", giver, ", or rank 0"));
    }
  }
  return full;
}

ir::OpSpec<NoAttrs> unary_spec(UnaryRow row) {
  ir::Must<Values(Builder&, const TransposeArgs&, const NoAttrs&)> transpose = Never{"the op is not linear"};
  if (row.transpose) {
    transpose = [row](Builder&, const TransposeArgs& t, const NoAttrs&) {
      return Values{row.transpose(t.ct[0], t.types[0])};
    };
  }
  return {
      .name = row.name,
      .traits = {.elementwise = true,
                 .linearity = row.transpose ? Linearity::Joint : Linearity::None,
                 .arity = 1,
                 .stablehlo = row.stablehlo,
                 .composite = row.composite,
                 .cheap = row.cheap,
                 .exact = row.exact,
                 .work = row.work,
                 .by_parts = row.by_parts},
      .infer =
          [row](TypeSpan in, const NoAttrs&) {
            check_count(row.name, in, 1);
            check_dtypes(row.name, row.fns, in);
            return Types{in[0]};
          },
      .factors = by_default,
      .remap = by_default,
      .batch = by_default,
      .jvp = [row](Builder&, const JvpArgs& a,
                   const NoAttrs&) { return Values{row.jvp ? row.jvp(a.in[0], a.out[0], a.tangents[0]) : Value{}}; },
      .transpose = transpose,
      .reference = [row](ViewSpan in, ViewSpan out, const NoAttrs&) { apply(row.fns, in, out[0]); },
      .samples = [row] { return samples_of(row.fns, 1); },
  };
}

ir::OpSpec<NoAttrs> binary_spec(BinaryRow row) {
  ir::Must<Values(Builder&, const TransposeArgs&, const NoAttrs&)> transpose = Never{"the op is not linear"};
  if (row.linearity != Linearity::None) {
    transpose = [row](Builder&, const TransposeArgs& t, const NoAttrs&) {
      Values out(2);
      if (t.linear[0] && row.transpose_x) out[0] = row.transpose_x(t.ct[0], t.in[1]);
      if (t.linear[1] && row.transpose_y) out[1] = row.transpose_y(t.ct[0], t.in[0]);
      return out;
    };
  }
  return {
      .name = row.name,
      .traits = {.elementwise = true,
                 .linearity = row.linearity,
                 .linear_operands = row.transpose_x && !row.transpose_y ? 1 : -1,
                 .arity = 2,
                 .stablehlo = row.stablehlo,
                 .composite = row.composite,
                 .cheap = row.cheap,
                 .exact = row.exact,
                 .work = row.work,
                 .by_parts = row.by_parts,
                 .takes_sums = row.takes_sums},
      .infer =
          [row](TypeSpan in, const NoAttrs&) {
            check_count(row.name, in, 2);
            check_dtypes(row.name, row.fns, in);
            return Types{Type{in[0].dtype, elementwise_shape(row.name, in), all_weak(in)}};
          },
      .factors = by_default,
      .remap = by_default,
      .batch = by_default,
      .jvp =
          [row](Builder&, const JvpArgs& a, const NoAttrs&) {
            Value sum;
            if (a.tangents[0] && row.jvp_x) sum = row.jvp_x(a.in[0], a.in[1], a.out[0], a.tangents[0]);
            if (a.tangents[1] && row.jvp_y) {
              sum = add_any(sum, row.jvp_y(a.in[0], a.in[1], a.out[0], a.tangents[1]));
            }
            return Values{sum};
          },
      .transpose = transpose,
      .reference = [row](ViewSpan in, ViewSpan out, const NoAttrs&) { apply(row.fns, in, out[0]); },
      .samples = [row] { return samples_of(row.fns, 2); },
  };
}

ir::OpSpec<NoAttrs> compare_spec(const char* name, const char* stablehlo, CompareFns fns) {
  return {
      .name = name,
      .traits = {.elementwise = true, .arity = 2, .stablehlo = stablehlo, .cheap = true},
      .infer =
          [name, fns](TypeSpan in, const NoAttrs&) {
            check_count(name, in, 2);
            check_dtypes(name, fns, in);
            return Types{Type{DType::Bool, elementwise_shape(name, in)}};
          },
      .factors = by_default,
      .remap = by_default,
      .batch = by_default,
      .jvp = Never{"bool has no tangent"},
      .transpose = Never{"the op is not linear"},
      .reference = [fns](ViewSpan in, ViewSpan out, const NoAttrs&) { apply(fns, in, out[0]); },
      .samples = [fns] { return samples_of(fns, 2); },
  };
}

#define TESSERA_OP(name)
#define TESSERA_UNARY(name) \
  Value name(Value x) { return x.builder->add1(def::name, {x}); }
#define TESSERA_BINARY(name) \
  Value name(Value x, Value y) { return x.builder->add1(def::name, {x, y}); }
#include "ops/ops.def"

}  // namespace tessera::ops
