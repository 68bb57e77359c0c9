// SPDX-License-Identifier: Apache-2.0
// sort and top_k.
#include <cmath>
#include <numeric>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/ops.h"
#include "ops/reduce/sorting.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

// Zeros and NaNs made equal, as the comparators of JAX do.
Text canonical(Writer& w, const Text& x) {
  if (!is_float(x.type.dtype)) return x;
  Text zero = w.constant(0, x.type.dtype), nan = w.constant(std::nan(""), x.type.dtype);
  Text no_sign = w.select(w.compare(x, zero, "EQ"), zero, x);
  return w.select(w.compare(x, x, "NE"), nan, no_sign);
}
// What a key is compared by, the most significant first: complex numbers by their parts.
Texts keys_of(Writer& w, const Text& x) {
  if (!is_complex(x.type.dtype)) return {canonical(w, x)};
  Type part{real_dtype(x.type.dtype), {}, false};
  return {canonical(w, w.op("stablehlo.real", {x}, part)), canonical(w, w.op("stablehlo.imag", {x}, part))};
}
Texts sort(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::Sort>(e.attrs);
  Types args;
  for (const auto& t : in) args.insert(args.end(), 2, {t.type.dtype, {}, false});
  std::string body = w.region(args, [&](const Texts& a) {
    Texts x, y;
    for (std::int64_t k = 0; k < p.num_keys; ++k) {
      auto i = static_cast<std::size_t>(2 * k);
      for (auto& v : keys_of(w, a[i])) x.push_back(v);
      for (auto& v : keys_of(w, a[i + 1])) y.push_back(v);
    }
    Text less;
    for (std::size_t k = x.size(); k-- > 0;) {
      Text mine = w.compare(x[k], y[k], "LT", true);
      if (less.name.empty()) {
        less = mine;
        continue;
      }
      Text rest = w.op("stablehlo.and", {w.compare(x[k], y[k], "EQ", true), less}, less.type);
      less = w.op("stablehlo.or", {mine, rest}, less.type);
    }
    return Texts{less};
  });
  return w.generic("stablehlo.sort", in, out,
                   str("dimension = ", p.dimension, " : i64, is_stable = ", p.stable ? "true" : "false"), body);
}

Text transposed(Writer& w, const Text& x, const Dims& order) {
  Type out{x.type.dtype, {}, false};
  for (auto d : order) out.shape.push_back(x.type.shape[static_cast<std::size_t>(d)]);
  return w.line(str("stablehlo.transpose ", x.name, ", dims = [", join(order), "] : ", signature({x}, {out})), out);
}
// chlo.top_k works along the last dimension.
Texts top_k(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::TopK>(e.attrs);
  Dims order(in[0].type.shape.size());
  std::iota(order.begin(), order.end(), 0);
  bool last = p.dimension == order.back();
  std::swap(order[static_cast<std::size_t>(p.dimension)], order.back());
  Text x = last ? in[0] : transposed(w, in[0], order);
  Types types;
  for (const auto& t : out) {
    types.push_back({t.dtype, x.type.shape, false});
    types.back().shape.back() = p.k;
  }
  Texts found = w.line(str("chlo.top_k(", x.name, ", k = ", p.k, ") : ", tensor_text(x.type), " -> (",
                           tensor_text(types[0]), ", ", tensor_text(types[1]), ")"),
                       types);
  if (last) return found;
  return {transposed(w, found[0], order), transposed(w, found[1], order)};
}
}  // namespace

void add_sort_writers(WriterTable& t) {
  t[&def::sort] = sort;
  t[&def::top_k] = top_k;
}

}  // namespace tessera::hlo
