// SPDX-License-Identifier: Apache-2.0
// Random bits: the Threefry hash written out.
#include <numeric>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "ops/elementwise/random_bits.h"
#include "ops/ops.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
namespace def = ops::def;
using ir::Eqn;
using ir::Type;
using ir::Types;

Text u32(Writer& w, std::uint32_t v, const Shape& shape) {
  return w.constant(static_cast<double>(v), DType::U32, shape);
}
Text two(Writer& w, const char* op, const Text& x, const Text& y) { return w.op(op, {x, y}, x.type); }
Text plus(Writer& w, const Text& x, const Text& y) { return two(w, "stablehlo.add", x, y); }

Texts hash(Writer& w, const Texts& a) {
  const Shape& shape = a[2].type.shape;
  Text k2 = two(w, "stablehlo.xor", two(w, "stablehlo.xor", a[0], a[1]), u32(w, 0x1BD11BDAU, shape));
  const Text keys[] = {a[0], a[1], k2};
  static constexpr unsigned kTurns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  Text x = plus(w, a[2], a[0]), y = plus(w, a[3], a[1]);
  for (std::uint32_t i = 0; i < 5; ++i) {
    for (unsigned turn : kTurns[i % 2]) {
      x = plus(w, x, y);
      Text left = two(w, "stablehlo.shift_left", y, u32(w, turn, shape));
      Text right = two(w, "stablehlo.shift_right_logical", y, u32(w, 32 - turn, shape));
      y = two(w, "stablehlo.xor", two(w, "stablehlo.or", left, right), x);
    }
    x = plus(w, x, keys[(i + 1) % 3]);
    y = plus(w, plus(w, y, keys[(i + 2) % 3]), u32(w, i + 1, shape));
  }
  return {x, y};
}
// Operands of one shape.
Texts threefry_of(Writer& w, const Texts& in) {
  Type t{DType::U32, in[2].type.shape, false};
  return w.composite(def::threefry2x32, "", in, {t, t}, [&](const Texts& a) { return hash(w, a); });
}
Texts threefry(Writer& w, const Eqn&, const Texts& in, const Types& out) {
  Texts x;
  for (const auto& t : in) x.push_back(w.wide(t, out[0].shape));
  return threefry_of(w, x);
}

// The number of each element among all of `shape`, in 64 bits.
Text counters(Writer& w, const Shape& shape) {
  Shape flat{size_of(shape)};
  Text n = w.iota(DType::U64, flat, 0);
  return w.reshape(n, shape);
}
Texts random_bits(Writer& w, const Eqn& e, const Texts& in, const Types& out) {
  const auto& p = ir::get<ops::RandomBits>(e.attrs);
  if (!p.whole.empty()) throw UnimplementedError("StableHLO text of a shard of random bits");
  return w.composite(e, in, out, [&](const Texts& a) {
    const Shape& keys = a[0].type.shape;
    std::size_t lead = keys.size() - 1;
    Dims places(lead);
    std::iota(places.begin(), places.end(), 0);
    Dims places_of_counters(p.shape.size());
    std::iota(places_of_counters.begin(), places_of_counters.end(), static_cast<std::int64_t>(lead));
    const Shape& all = out[0].shape;
    Text n = counters(w, p.shape);
    Text high = w.convert(two(w, "stablehlo.shift_right_logical", n, w.constant(32, DType::U64, p.shape)), DType::U32);
    Text low = w.convert(n, DType::U32);
    Texts args;
    for (std::int64_t k = 0; k < 2; ++k) {
      Dims from(keys.size(), 0), to = keys;
      from.back() = k;
      to.back() = k + 1;
      Text key = w.reshape(w.slice(a[0], from, to, Dims(keys.size(), 1)), Shape(keys.begin(), keys.end() - 1));
      args.push_back(w.broadcast(key, all, places));
    }
    for (const auto& part : {high, low}) args.push_back(w.broadcast(part, all, places_of_counters));
    Texts h = threefry_of(w, args);
    if (p.bits == 64) {
      Text top = two(w, "stablehlo.shift_left", w.convert(h[0], DType::U64), w.constant(32, DType::U64, all));
      return Texts{two(w, "stablehlo.or", top, w.convert(h[1], DType::U64))};
    }
    return Texts{w.convert(two(w, "stablehlo.xor", h[0], h[1]), out[0].dtype)};
  });
}
}  // namespace

void add_random_writers(WriterTable& t) {
  t[&def::threefry2x32] = threefry;
  t[&def::random_bits] = random_bits;
}

}  // namespace tessera::hlo
