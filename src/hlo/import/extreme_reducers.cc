// SPDX-License-Identifier: Apache-2.0
#include "hlo/import/extreme_reducers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "hlo/import/named_reducers.h"
#include "ops/shared_attrs.h"
#include "ops/transform/interpret.h"

namespace tessera::hlo {

namespace {

bool compares_and_chooses(const ir::Graph& g) {
  static const std::array chooses{&ops::def::lt, &ops::def::le,  &ops::def::gt,   &ops::def::ge,   &ops::def::eq,
                                  &ops::def::ne, &ops::def::or_, &ops::def::and_, &ops::def::not_, &ops::def::select_n};
  return std::ranges::all_of(g.eqns, [&](const ir::Eqn& e) {
    return std::ranges::any_of(chooses, [&](const ir::OpDef* op) { return op == e.op; });
  });
}

struct Trial {
  double number;
  std::int64_t place;
};

bool first_wins(const Trial& a, const Trial& b, Extreme kind) {
  if (std::isnan(a.number) || std::isnan(b.number)) return std::isnan(a.number);
  return kind == Extreme::Greatest ? a.number >= b.number : a.number <= b.number;
}

bool keeps(const ir::Graph& body, Extreme kind, const Trial& a, const Trial& b) {
  auto number = [&](double v, std::size_t input) {
    return HostArray::scalar(v).astype(body.type(body.inputs[input]).dtype);
  };
  std::vector<HostArray> in{number(a.number, 0), number(static_cast<double>(a.place), 1), number(b.number, 2),
                            number(static_cast<double>(b.place), 3)};
  std::vector<HostArray> out = ops::interpret(body, in);
  const Trial& want = first_wins(a, b, kind) ? a : b;
  double got = out[0].astype(DType::F64).span<double>()[0];
  bool same = std::isnan(want.number) ? std::isnan(got) : got == want.number;
  return same && out[1].astype(DType::I64).span<std::int64_t>()[0] == want.place;
}

// Equal places: a start value's beside the first element's.
bool keeps_in_all_trials(const ir::Graph& body, Extreme kind, const std::vector<double>& numbers) {
  constexpr std::array<std::array<std::int64_t, 2>, 2> kPlaces{{{0, 0}, {0, 1}}};
  for (double x : numbers) {
    for (double y : numbers) {
      for (auto [i, k] : kPlaces) {
        if (!keeps(body, kind, {x, i}, {y, k})) return false;
      }
    }
  }
  return true;
}

// The dimension along which `v` counts from 0, or -1.
std::int64_t counts_along(const OpCall& c, Value v) {
  for (const auto& e : c.b().graph().eqns) {
    if (e.out[0] != v.id || e.op != &ops::def::iota) continue;
    const auto& p = ir::get<ops::Iota>(e.attrs);
    return p.start == 0 ? p.dimension : -1;
  }
  return -1;
}

std::int64_t largest(DType t) {
  auto bits = dtype_size(t) * 8 - (is_unsigned_int(t) ? 0 : 1);
  return bits >= 63 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << bits) - 1;
}

bool is_zero(const Item& i) {
  return i.known && i.known->size() == 1 && i.known->astype(DType::I64).span<std::int64_t>()[0] == 0;
}

}  // namespace

std::optional<Extreme> extreme_with_place(const ir::Graph& body) {
  if (body.inputs.size() != 4 || body.outputs.size() != 2 || !compares_and_chooses(body)) return std::nullopt;
  DType t = body.type(body.inputs[0]).dtype;
  if (is_complex(t) || !is_integer(body.type(body.inputs[1]).dtype)) return std::nullopt;
  std::vector<double> numbers{0, 1};
  if (is_float(t)) numbers.push_back(std::numeric_limits<double>::quiet_NaN());
  for (auto kind : {Extreme::Greatest, Extreme::Least}) {
    if (keeps_in_all_trials(body, kind, numbers)) return kind;
  }
  return std::nullopt;
}

Value place_of_extreme(OpCall& c, const ir::Graph& body, const Dims& axes) {
  if (c.in.size() != 4 || axes.size() != 1) return {};
  Value x = c.v(0);
  Value place = c.v(1);
  std::int64_t extent = x.shape()[static_cast<std::size_t>(axes[0])];
  bool exact_types = !is_narrow_float(c.in[0].elem) && !is_narrow_int(c.in[0].elem) && !is_narrow_int(c.in[1].elem);
  if (!exact_types || extent == 0 || !is_integer(place.dtype()) || extent - 1 > largest(place.dtype())) return {};
  if (counts_along(c, place) != axes[0] || !is_zero(c.in[3])) return {};
  auto kind = extreme_with_place(body);
  if (!kind) return {};
  bool greatest = *kind == Extreme::Greatest;
  if (!is_identity(c.in[2], greatest ? "maximum" : "minimum")) return {};
  return greatest ? ops::argmax(x, axes[0], place.dtype()) : ops::argmin(x, axes[0], place.dtype());
}

}  // namespace tessera::hlo
