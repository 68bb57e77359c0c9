// SPDX-License-Identifier: Apache-2.0
#include "api/promote.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "ops/attrs.h"
#include "tessera/ops.h"

namespace tessera::api {

Array cast(const Array& a, DType dtype, bool weak, const Loc& loc) {
  const auto& impl = *arrays::checked(a, "astype");
  if (impl.type.dtype == dtype && impl.type.weak == weak) return a;
  if (impl.literal) {
    auto out = std::make_shared<arrays::ArrayImpl>();
    out->type = ir::Type{dtype, {}, weak};
    out->literal = weak && is_inexact(dtype) ? *impl.literal : impl.literal->astype(dtype);
    return Array(std::move(out));
  }
  if (impl.type.dtype == dtype && impl.type.weak && !weak) {
    // Only the mark changes; conversion to the own dtype keeps the values.
    return bind1(ops::def::convert, {a}, attrs(ops::Convert{dtype, false}), loc);
  }
  return bind1(ops::def::convert, {a}, attrs(ops::Convert{dtype, weak}), loc);
}

PromotedType common_type(const char* name, const std::vector<Array>& in) {
  ir::Type first = type_of(in[0], name);
  PromotedType t{first.dtype, first.weak};
  for (std::size_t i = 1; i < in.size(); ++i) {
    ir::Type next = type_of(in[i], name);
    t = promote_types(t, {next.dtype, next.weak});
  }
  return t;
}

std::vector<Array> promote(const char* name, const std::vector<Array>& in, const Loc& loc) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i].defined()) arrays::throw_unusable(in[i], name, str("operand ", i));
  }
  PromotedType t = common_type(name, in);
  std::vector<Array> out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Array& a = in[i];
    // A weak operand beside strong ones takes their dtype; its own mark no longer matters.
    bool keep = a.dtype() == t.dtype && (t.weak || !a.weak_type() || a.impl()->literal || in.size() > 1);
    if (!keep && !arrays::usable(a)) arrays::throw_unusable(a, name, str("operand ", i));
    out.push_back(keep ? a : cast(a, t.dtype, t.weak, loc));
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

}  // namespace tessera::api
