// SPDX-License-Identifier: Apache-2.0
#include "support/moved_values.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/strings.h"
#include "ir/op_def.h"
#include "ops/define_op.h"
#include "ops/ops.h"
#include "support/spmd_simulator.h"

namespace tessera::test {

double number_at(const HostArray& a, std::int64_t i) {
  ir::View v{a.dtype(), a.shape(), const_cast<void*>(a.data())};
  switch (ops::wide_kind(a.dtype())) {
    case ops::Wide::Bool:
      return ops::load_bool(v, i) ? 1 : 0;
    case ops::Wide::Int:
      return static_cast<double>(ops::load_int(v, i));
    case ops::Wide::Uint:
      return static_cast<double>(ops::load_uint(v, i));
    default:
      return ops::load_float(v, i);
  }
}

bool same_number(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

namespace {

using Rng = std::mt19937_64;

constexpr std::size_t kCopies = std::tuple_size_v<decltype(Moved::moved)>;

// Distance of neighbouring numbers at 1.
double unit(DType t) {
  switch (t) {
    case DType::F16:
      return std::ldexp(1.0, -10);
    case DType::BF16:
      return std::ldexp(1.0, -7);
    case DType::F32:
      return std::ldexp(1.0, -23);
    default:
      return std::ldexp(1.0, -52);
  }
}

// Distance of neighbouring numbers near 0, where fewer digits are left.
double least(DType t) {
  switch (t) {
    case DType::F16:
      return std::ldexp(1.0, -24);
    case DType::BF16:
      return std::ldexp(1.0, -133);
    case DType::F32:
      return std::ldexp(1.0, -149);
    default:
      return std::ldexp(1.0, -1074);
  }
}

bool is_sum(const ir::Eqn& e) { return e.op == &ops::def::reduce_sum || e.op == &ops::def::reduce_prod; }

// Ops of which every engine gives the same bits.
bool correctly_rounded(const ir::OpDef& op, DType t) {
  static constexpr std::string_view moving =
      " neg max min abs sign floor ceil round select_n convert_element_type clamp constant iota broadcast_in_dim "
      "reshape "
      "transpose reduce_max reduce_min eq ne lt le gt ge and or xor not is_finite copy ";
  static constexpr std::string_view arithmetic = " add sub mul div sqrt square ";
  std::string name = str(" ", op.name(), " ");
  if (moving.find(name) != moving.npos || !is_inexact(t)) return true;
  return (t == DType::F32 || t == DType::F64) && arithmetic.find(name) != arithmetic.npos;
}

bool jumps(const ir::Eqn& e, DType out) {
  static constexpr std::string_view names = " floor ceil round sign eq ne lt le gt ge is_finite ";
  return names.find(str(" ", e.op->name(), " ")) != names.npos || !is_inexact(out);
}

// True when every sum of some of these numbers, in any order, is exact in their dtype.
bool adds_exactly(const HostArray& a) {
  bool narrow = dtype_size(a.dtype()) == 2;
  double step = narrow ? 0.125 : 1.0 / 256;
  double most = step / unit(narrow ? a.dtype() : DType::F32);
  double total = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    double steps = number_at(a, i) / step;
    if (!std::isfinite(steps) || steps != std::floor(steps)) return false;
    total += std::abs(number_at(a, i));
  }
  return total < most;
}

// Every element changed by up to four units in its last place; more where it is the sum of many terms, whose
// roundings may all go one way.
HostArray shaken(const HostArray& a, Rng& rng, std::int64_t terms = 0) {
  if (!is_inexact(a.dtype())) return a;
  HostArray out(a.dtype(), a.shape());
  ir::View v{out.dtype(), out.shape(), out.data()};
  double step = unit(a.dtype()) * (a.dtype() == DType::F32 || a.dtype() == DType::F64 ? 4 : 1);
  step *= 1 + static_cast<double>(terms) / 64;
  for (std::int64_t i = 0; i < a.size(); ++i)
    ops::store_float(v, i, number_at(a, i) * (1 + step * (rng() % 2 == 0 ? 1 : -1)));
  return out;
}

}  // namespace

bool evaluate_moved(const ir::Graph& g, const ir::Eqn& e, std::vector<Moved>& values_of, std::mt19937_64& rng) {
  auto operands = [&](auto member) {
    std::vector<HostArray> in;
    for (auto v : e.in) in.push_back(member(values_of[at(v)]));
    return in;
  };
  auto values = operands([](const Moved& k) { return k.value; });
  DType t = g.type(e.out[0]).dtype;
  bool before = std::any_of(e.in.begin(), e.in.end(), [&](auto v) { return values_of[at(v)].moves; });
  bool fit = !before || !jumps(e, t);
  bool loop = !e.op->subgraphs(e.attrs).empty();
  bool here = loop || (is_sum(e) ? is_inexact(t) && (e.op == &ops::def::reduce_prod || !adds_exactly(values[0]))
                                 : !correctly_rounded(*e.op, t));
  auto out = evaluate_eqn(g, e, values);
  std::array<std::vector<HostArray>, kCopies> copies;
  for (std::size_t k = 0; k < kCopies; ++k) {
    if (!fit || (!before && !here)) {
      copies[k] = out;
      continue;
    }
    auto in = operands([&](const Moved& known) { return known.moved[k]; });
    if (loop || (is_sum(e) && here)) {
      for (auto& a : in) a = shaken(a, rng);
    }
    copies[k] = evaluate_eqn(g, e, in);
    if (here) {
      for (auto& a : copies[k]) a = shaken(a, rng, loop ? 0 : in[0].size() / std::max<std::int64_t>(1, a.size()));
    }
  }
  for (std::size_t j = 0; j < out.size(); ++j) {
    Moved& k = values_of[at(e.out[j])];
    k.value = out[j];
    k.moves = fit && (before || here);
    for (std::size_t c = 0; c < kCopies; ++c) k.moved[c] = copies[c][j];
  }
  return fit;
}
// Three copies may by chance lie close to an element that moves: the others of its array are asked as well.
std::vector<double> room_of(const Moved& k) {
  std::vector<double> out;
  double largest = 0;
  for (std::int64_t i = 0; i < k.value.size(); ++i) {
    double x = number_at(k.value, i);
    double most = 0;
    for (const auto& moved : k.moved) {
      double y = number_at(moved, i);
      if (!same_number(x, y)) most = std::max(most, std::abs(x - y));
    }
    largest = std::max(largest, most);
    out.push_back(10 * most + (std::isfinite(x) ? 32 * unit(k.value.dtype()) * std::abs(x) : 0));
  }
  for (auto& r : out) r += 4 * largest + 32 * least(k.value.dtype());
  return out;
}

}  // namespace tessera::test
