// SPDX-License-Identifier: Apache-2.0
#include "program/composite.h"

#include <cmath>
#include <numeric>

#include "base/strings.h"
#include "program/program.h"
#include "tessera/lax.h"
#include "tessera/ops.h"

namespace tessera::program {

Arrays composites(const char* name, const Loc& loc, const Arrays& in, const std::function<Arrays(const Arrays&)>& f) {
  CallSite site(loc);
  ir::Types types;
  std::vector<std::size_t> places;  // of the arrays with data, among the operands
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!arrays::usable(in[i])) arrays::throw_unusable(in[i], name, str("operand ", i));
    const auto& impl = in[i].impl();
    if (impl->trace != 0 && Trace::current() == nullptr) arrays::throw_leaked(in[i], name, str("operand ", i));
    if (impl->literal) continue;
    types.push_back(impl->type);
    places.push_back(i);
  }
  if (Trace::current() != nullptr) return f(in);
  Traced t = trace(
      [&](const Arrays& tracers) {
        Arrays all = in;
        for (std::size_t k = 0; k < places.size(); ++k) all[places[k]] = tracers[k];
        return f(all);
      },
      types);
  Arrays args;
  for (auto i : places) args.push_back(in[i]);
  args.insert(args.end(), t.captures.begin(), t.captures.end());
  return run_graph(t.graph, args);
}
Array composite(const char* name, const Loc& loc, const Arrays& in, const std::function<Array(const Arrays&)>& f) {
  return composites(name, loc, in, [&](const Arrays& v) { return Arrays{f(v)}; })[0];
}

namespace {
Arrays arrays_of(const std::vector<Operand>& in) {
  Arrays out;
  for (const auto& o : in) out.push_back(o.array());
  return out;
}
}  // namespace

Arrays composites(const char* name, const std::vector<Operand>& in, const std::function<Arrays(const Arrays&)>& f) {
  return composites(name, in.front().loc(), arrays_of(in), f);
}
Array composite(const char* name, const std::vector<Operand>& in, const std::function<Array(const Arrays&)>& f) {
  return composite(name, in.front().loc(), arrays_of(in), f);
}

Arrays promoted(const char* name, const Arrays& in, bool as_floats) {
  const Loc loc = Loc::current();
  PromotedType t = common_type(name, in);
  if (as_floats) t.dtype = inexact_dtype(t.dtype);
  Arrays out;
  for (const auto& a : in) {
    out.push_back(is_integer(t.dtype) ? meet(name, a, t.dtype, t.weak, loc) : cast(a, t.dtype, t.weak, loc));
  }
  return under_one_type(std::move(out), loc);
}
Array number_like(const Array& like, double v) {
  const ir::Type type = type_of(like, "scalar");
  return cast_exactly(Array(v), type.dtype, type.weak, Loc::current());
}
Array as(const Array& a, DType dtype) { return cast(a, dtype, false, Loc::current()); }
Array cut(const Array& a, std::int64_t from, std::int64_t to, std::int64_t axis) {
  const std::int64_t n = a.shape(axis);
  auto bound = [n](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  from = bound(from);
  return lax::slice_in_dim(a, from, std::max(from, bound(to)), 1, axis < 0 ? axis + a.ndim() : axis);
}
Array pick(const Array& a, std::int64_t index, std::int64_t axis) {
  return lax::index_in_dim(a, index < 0 ? index + a.shape(axis) : index, axis, false);
}
Array with_leading(const Array& a, std::int64_t count) {
  if (count <= 0) return a;
  Dims dims(static_cast<std::size_t>(count));
  std::iota(dims.begin(), dims.end(), 0);
  return lax::expand_dims(a, dims);
}

FloatInfo float_info(DType t) {
  switch (real_dtype(t)) {
    case DType::F16:
      return {std::ldexp(1, -10), std::ldexp(1, -14), 65504.0, std::ldexp(1, -24), 10, 5};
    case DType::BF16:
      return {std::ldexp(1, -7),
              std::ldexp(1, -126),
              3.38953138925153547590470800371487866880e+38,
              std::ldexp(1, -133),
              7,
              8};
    case DType::F32:
      return {std::ldexp(1, -23),
              std::ldexp(1, -126),
              3.40282346638528859811704183484516925440e+38,
              std::ldexp(1, -149),
              23,
              8};
    case DType::F64:
      return {std::ldexp(1, -52), std::ldexp(1, -1022), 1.7976931348623157e308, std::ldexp(1, -1074), 52, 11};
    default:
      throw TypeError(str("dtype ", dtype_name(t), " has no float facts; expected a float or complex dtype"));
  }
}

}  // namespace tessera::program
