// SPDX-License-Identifier: Apache-2.0
#include "element_types.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "base/strings.h"
#include "hlo/import/narrow.h"
#include "tessera/error.h"

namespace tessera::pjrt {

namespace {
using E = ElementType;
struct Row {
  PJRT_Buffer_Type type;
  E element;
};
constexpr std::array kRows = {
    Row{PJRT_Buffer_Type_PRED, E::Bool},
    Row{PJRT_Buffer_Type_S2, E::I2},
    Row{PJRT_Buffer_Type_S4, E::I4},
    Row{PJRT_Buffer_Type_S8, E::I8},
    Row{PJRT_Buffer_Type_S16, E::I16},
    Row{PJRT_Buffer_Type_S32, E::I32},
    Row{PJRT_Buffer_Type_S64, E::I64},
    Row{PJRT_Buffer_Type_U2, E::U2},
    Row{PJRT_Buffer_Type_U4, E::U4},
    Row{PJRT_Buffer_Type_U8, E::U8},
    Row{PJRT_Buffer_Type_U16, E::U16},
    Row{PJRT_Buffer_Type_U32, E::U32},
    Row{PJRT_Buffer_Type_U64, E::U64},
    Row{PJRT_Buffer_Type_F16, E::F16},
    Row{PJRT_Buffer_Type_BF16, E::BF16},
    Row{PJRT_Buffer_Type_F32, E::F32},
    Row{PJRT_Buffer_Type_F64, E::F64},
    Row{PJRT_Buffer_Type_C64, E::C64},
    Row{PJRT_Buffer_Type_C128, E::C128},
    Row{PJRT_Buffer_Type_F4E2M1FN, E::F4E2M1FN},
    Row{PJRT_Buffer_Type_F6E2M3FN, E::F6E2M3FN},
    Row{PJRT_Buffer_Type_F6E3M2FN, E::F6E3M2FN},
    Row{PJRT_Buffer_Type_F8E3M4, E::F8E3M4},
    Row{PJRT_Buffer_Type_F8E4M3, E::F8E4M3},
    Row{PJRT_Buffer_Type_F8E4M3FN, E::F8E4M3FN},
    Row{PJRT_Buffer_Type_F8E4M3FNUZ, E::F8E4M3FNUZ},
    Row{PJRT_Buffer_Type_F8E4M3B11FNUZ, E::F8E4M3B11FNUZ},
    Row{PJRT_Buffer_Type_F8E5M2, E::F8E5M2},
    Row{PJRT_Buffer_Type_F8E5M2FNUZ, E::F8E5M2FNUZ},
    Row{PJRT_Buffer_Type_F8E8M0FNU, E::F8E8M0FNU},
};

// The bits of every number of a narrow float, ascending, and those of a NaN.
struct Codes {
  std::vector<std::pair<float, std::uint8_t>> numbers;
  std::uint8_t nan = 0;
};
const Codes& codes(E e) {
  static const auto* all = [] {
    auto* out = new std::map<E, Codes>;
    for (const auto& row : kRows) {
      if (!hlo::is_narrow_float(row.element)) continue;
      Codes& c = (*out)[row.element];
      for (std::uint32_t bits = 0; bits < 1U << hlo::bit_width(row.element); ++bits) {
        float v = hlo::decode_narrow(row.element, bits);
        auto code = static_cast<std::uint8_t>(bits);
        if (std::isnan(v)) {
          if (c.nan == 0) c.nan = code;
        } else {
          c.numbers.emplace_back(v, code);
        }
      }
      // -0 before 0: they compare equal.
      std::ranges::stable_sort(c.numbers, [](const auto& a, const auto& b) {
        return a.first < b.first || (a.first == b.first && std::signbit(a.first) && !std::signbit(b.first));
      });
    }
    return out;
  }();
  return all->at(e);
}

std::uint8_t code_of(const Codes& c, float v) {
  if (std::isnan(v)) return c.nan;
  auto less = [](const auto& entry, float x) {
    return entry.first < x || (entry.first == x && std::signbit(entry.first) && !std::signbit(x));
  };
  auto it = std::lower_bound(c.numbers.begin(), c.numbers.end(), v, less);
  return it == c.numbers.end() ? c.numbers.back().second : it->second;
}

template <class F>
void each(const void* from, std::int64_t n, const F& f) {
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  for (std::int64_t i = 0; i < n; ++i) f(i, bytes[i]);
}
bool is_signed(E e) { return e == E::I2 || e == E::I4; }
}  // namespace

ElementType element_type(PJRT_Buffer_Type t) {
  for (const auto& row : kRows) {
    if (row.type == t) return row.element;
  }
  throw UnimplementedError(str("element type ", static_cast<int>(t), " of PJRT; Tessera has no such type"));
}

PJRT_Buffer_Type buffer_type(ElementType e) {
  for (const auto& row : kRows) {
    if (row.element == e) return row.type;
  }
  throw InternalError(str("PJRT has no element type ", hlo::to_string(e)));
}

ElementType element_type(const ir::Port& port, DType dtype) {
  auto named = port.element.empty() ? std::nullopt : hlo::elem_named(port.element);
  return named ? *named : hlo::elem_of(dtype);
}

bool is_narrow(ElementType e) { return hlo::is_narrow_int(e) || hlo::is_narrow_float(e); }
std::int64_t host_size(ElementType e) { return is_narrow(e) ? 1 : dtype_size(hlo::storage(e)); }

void widen(ElementType e, const void* from, void* to, std::int64_t n) {
  std::uint8_t mask = static_cast<std::uint8_t>((1U << hlo::bit_width(e)) - 1);
  if (hlo::is_narrow_float(e)) {
    std::array<float, 256> table;
    for (std::uint32_t bits = 0; bits <= mask; ++bits) table[bits] = hlo::decode_narrow(e, bits);
    each(from, n, [&](std::int64_t i, std::uint8_t b) { static_cast<float*>(to)[i] = table[b & mask]; });
    return;
  }
  std::uint8_t sign = is_signed(e) ? static_cast<std::uint8_t>(1U << (hlo::bit_width(e) - 1)) : 0;
  each(from, n, [&](std::int64_t i, std::uint8_t b) {
    b &= mask;
    static_cast<std::uint8_t*>(to)[i] = (b & sign) != 0 ? static_cast<std::uint8_t>(b | ~mask) : b;
  });
}

void narrow(ElementType e, const void* from, void* to, std::int64_t n) {
  auto* bytes = static_cast<std::uint8_t*>(to);
  if (hlo::is_narrow_float(e)) {
    const Codes& c = codes(e);
    for (std::int64_t i = 0; i < n; ++i) bytes[i] = code_of(c, static_cast<const float*>(from)[i]);
    return;
  }
  // Callers hold narrow integers with their sign in all of the byte.
  std::memcpy(to, from, static_cast<std::size_t>(n));
}

}  // namespace tessera::pjrt
