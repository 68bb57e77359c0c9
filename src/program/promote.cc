// SPDX-License-Identifier: Apache-2.0
#include "program/promote.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "ops/shared_attrs.h"
#include "tessera/ops.h"

namespace tessera::program {

Array cast_exactly(const Array& a, DType dtype, bool weak, const Loc& loc) {
  const auto& impl = *arrays::checked(a, "astype");
  if (impl.type.dtype == dtype && impl.type.weak == weak) return a;
  if (impl.literal) {
    auto out = std::make_shared<arrays::ArrayImpl>();
    out->type = ir::Type{dtype, {}, weak};
    out->literal = impl.literal->astype(dtype);
    return Array(std::move(out));
  }
  return bind1(ops::def::convert, {a}, attrs(ops::Convert{dtype, weak}), loc);
}

Array cast(const Array& a, DType dtype, bool weak, const Loc& loc) {
  const ir::Type& own = arrays::checked(a, "astype")->type;
  if (own.weak == weak && arrays::visible(own.dtype, own.weak) == dtype) return a;
  // What is weak and no float32 array has its digits still.
  const bool digits = weak && own.weak && own.dtype != DType::F32 && own.dtype != DType::C64;
  return cast_exactly(a, digits ? arrays::with_digits(dtype) : dtype, weak, loc);
}

std::vector<Array> under_one_type(std::vector<Array> in, const Loc& loc) {
  bool digits = true, weak = true;
  for (const auto& a : in) {
    const ir::Type& t = a.impl()->type;
    weak = weak && t.weak && is_inexact(t.dtype);
    digits = digits && arrays::has_digits(t);
  }
  if (!weak || digits) return in;
  for (auto& a : in) a = cast_exactly(a, a.dtype(), true, loc);
  return in;
}

PromotedType common_type(const char* name, const std::vector<Array>& in) {
  PromotedType t{in[0].dtype(), in[0].weak_type()};
  for (std::size_t i = 1; i < in.size(); ++i) {
    const ir::Type next = arrays::visible(type_of(in[i], name));
    t = promote_types(t, {next.dtype, next.weak});
  }
  return t;
}

namespace {

// Least and largest value of an integer dtype, the largest in 64 bits without sign.
std::pair<std::int64_t, std::uint64_t> bounds(DType t) {
  const auto bits = static_cast<unsigned>(dtype_size(t)) * 8;
  if (is_unsigned_int(t)) return {0, ~std::uint64_t{0} >> (64 - bits)};
  const std::uint64_t largest = (~std::uint64_t{0} >> 1) >> (64 - bits);
  return {-static_cast<std::int64_t>(largest) - 1, largest};
}

}  // namespace

namespace {
int outside(const Array& scalar, DType dtype) {
  const auto [least, largest] = bounds(dtype);
  const std::int64_t v = scalar.impl()->literal->astype(int64).span<std::int64_t>()[0];
  return v < least ? -1 : v > 0 && static_cast<std::uint64_t>(v) > largest ? 1 : 0;
}
bool is_weak_integer(const ir::Type& t) { return t.weak && is_integer(t.dtype); }
}  // namespace

int outside(const Array& scalar, const Array& array) {
  const auto& impl = *arrays::checked(scalar, "scalar");
  const ir::Type& other = arrays::checked(array, "array")->type;
  if (!impl.literal || !is_weak_integer(impl.type) || other.weak || !is_integer(other.dtype)) return 0;
  return outside(scalar, other.dtype);
}

Array meet(const char* name, const Array& a, DType dtype, bool weak, const Loc& loc) {
  const ir::Type& own = a.impl()->type;
  if (is_weak_integer(own) && is_integer(dtype) && own.dtype != dtype) {
    const auto refuse = [&](const std::string& value) {
      const auto [least, largest] = bounds(dtype);
      throw ValueError(str(name, ": ", value, " does not fit ", dtype_name(dtype), " (", least, "..", largest,
                           "), the dtype that it takes here; use a wider dtype, or astype, which wraps"));
    };
    if (a.impl()->literal) {
      if (outside(a, dtype) != 0) refuse(str("the integer ", a.item<std::int64_t>()));
    } else if (own.dtype == DType::I64 && dtype_size(dtype) < 8) {
      refuse(str("a weak integer of 64 bits (", own, ")"));  // it is wide because its value needs that
    }
  }
  return cast_exactly(a, dtype, weak, loc);
}

std::vector<Array> promote(const char* name, const std::vector<Array>& in, const Loc& loc) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined()) arrays::throw_unusable(in[i], name, str("operand ", i));
  }
  const PromotedType t = common_type(name, in);
  DType dtype = t.dtype;
  if (t.weak && is_inexact(dtype)) {
    // Digits stay where nothing else than scalars of the program takes part.
    const bool digits = std::ranges::all_of(in, [](const Array& a) {
      const ir::Type& own = a.impl()->type;
      return own.weak && (is_integer(own.dtype) || arrays::has_digits(own));
    });
    if (digits) dtype = arrays::with_digits(dtype);
  }
  std::vector<Array> out;
  out.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Array& a = in[i];
    // A weak operand beside strong ones takes their dtype; its own mark no longer matters.
    const bool keep = a.impl()->type.dtype == dtype && (t.weak || !a.weak_type() || in.size() > 1);
    if (!keep && !arrays::usable(a)) arrays::throw_unusable(a, name, str("operand ", i));
    out.push_back(keep ? a : meet(name, a, dtype, t.weak, loc));
  }
  return out;
}

DType inexact_dtype(DType t) {
  if (is_inexact(t)) return t;
  return dtype_size(t) == 8 ? DType::F64 : DType::F32;
}

Array inexact(const char* name, const Array& a, const Loc& loc) {
  ir::Type t = type_of(a, name);
  return is_inexact(t.dtype) ? a : cast(a, inexact_dtype(t.dtype), t.weak, loc);
}

Shape broadcast_shapes(const char* name, const std::vector<Shape>& shapes) {
  Shape out;
  for (const auto& s : shapes) {
    if (s.size() > out.size()) out.insert(out.begin(), s.size() - out.size(), 1);
    for (std::size_t k = 0; k < s.size(); ++k) {
      auto& mine = out[out.size() - 1 - k];
      auto theirs = s[s.size() - 1 - k];
      if (mine == 1) {
        mine = theirs;
      } else if (theirs != 1 && theirs != mine) {
        std::string all;
        for (const auto& t : shapes) all += str(all.empty() ? "" : " and ", t);
        throw ValueError(str(name, ": shapes ", all, " do not broadcast: extents ", mine, " and ", theirs,
                             " differ and neither is 1"));
      }
    }
  }
  return out;
}

Array widen(const Array& a, const Shape& shape, const Loc& loc) {
  const Shape& own = a.shape();
  if (own == shape || own.empty()) return a;
  Dims dims(own.size());
  std::iota(dims.begin(), dims.end(), static_cast<std::int64_t>(shape.size() - own.size()));
  return broadcast_in_dim(Operand(a, loc), shape, dims);
}

std::int64_t axis_of(const char* name, std::int64_t axis, std::int64_t rank) {
  std::int64_t a = axis < 0 ? axis + rank : axis;
  if (a < 0 || a >= rank) {
    throw ValueError(rank == 0 ? str(name, ": axis = ", axis, " for an array of rank 0")
                               : str(name, ": axis = ", axis, "; expected -", rank, "..", rank - 1));
  }
  return a;
}

Dims axes_of(const char* name, const std::optional<Dims>& axes, std::int64_t rank) {
  Dims out;
  if (!axes) {
    out.resize(static_cast<std::size_t>(rank));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  for (auto a : *axes) out.push_back(axis_of(name, a, rank));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) {
    throw ValueError(str(name, ": axis = ", *axes, " names an axis twice"));
  }
  return out;
}

Array elementwise(const ir::OpDef& op, const char* name, const Operand& x, const Operand& y) {
  std::vector<Array> in = promote(name, {x.array(), y.array()}, x.loc());
  Shape shape = broadcast_shapes(name, {in[0].shape(), in[1].shape()});
  for (auto& a : in) a = widen(a, shape, x.loc());
  return bind1(op, in, nullptr, x.loc());
}
Array elementwise(const ir::OpDef& op, const char* name, const Operand& x) {
  arrays::checked(x.array(), name);
  return bind1(op, {x.array()}, nullptr, x.loc());
}
Array elementwise_float(const ir::OpDef& op, const char* name, const Operand& x) {
  return bind1(op, {inexact(name, x.array(), x.loc())}, nullptr, x.loc());
}

}  // namespace tessera::program
