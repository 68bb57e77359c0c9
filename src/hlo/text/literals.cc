// SPDX-License-Identifier: Apache-2.0
#include "hlo/text/literals.h"

#include <bit>
#include <cmath>

#include "base/strings.h"
#include "hlo/import/narrow.h"
#include "hlo/text/dense.h"

namespace tessera::hlo {

namespace {
bool is_unsigned(Elem e) {
  return e == Elem::U2 || e == Elem::U4 || e == Elem::U8 || e == Elem::U16 || e == Elem::U32 || e == Elem::U64;
}

double from_bits(Elem e, std::uint64_t bits) {
  switch (e) {
    case Elem::F64:
      return std::bit_cast<double>(bits);
    case Elem::F32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case Elem::F16:
      return static_cast<double>(detail::half_to_float(static_cast<std::uint16_t>(bits)));
    case Elem::BF16:
      return static_cast<double>(detail::bf16_to_float(static_cast<std::uint16_t>(bits)));
    default:
      return static_cast<double>(decode_narrow(e, static_cast<std::uint32_t>(bits)));
  }
}
}  // namespace

std::int64_t to_integer(const Source& source, const Literal& n, Elem e) {
  if (!n.whole) source.fail(n.pos, str(n.text, " is no integer; the type is ", to_string(e)));
  int width = bit_width(e);
  std::uint64_t top = std::uint64_t{1} << (width - 1);  // its negative is the smallest with a sign
  std::uint64_t most = (top - 1) * 2 + 1;
  bool none_below = is_unsigned(e) && n.magnitude != 0;
  bool fits = n.fits && (n.negative ? n.magnitude <= top && !none_below : n.magnitude <= most);
  if (!fits) {
    std::string low = is_unsigned(e) ? "0" : str("-", top);
    source.fail(n.pos, str(n.text.substr(0, 40), " does not fit ", to_string(e), "; expected ", low, " to ", most));
  }
  if (e == Elem::Bool) return static_cast<std::int64_t>(n.magnitude);
  std::uint64_t bits = n.negative ? std::uint64_t{0} - n.magnitude : n.magnitude;
  if (is_unsigned(e)) return static_cast<std::int64_t>(bits);
  return static_cast<std::int64_t>(bits << (64 - width)) >> (64 - width);
}

double to_float(const Source& source, const Literal& n, Elem e) {
  if (!n.hex) {
    double v = n.negative ? -n.value : n.value;
    if (e == Elem::F8E8M0FNU && !(v > 0)) {
      source.fail(n.pos, str(n.text.substr(0, 40), " is no number of ", to_string(e), "; expected one above 0"));
    }
    return nearest(e, v);
  }
  int width = bit_width(e);
  bool fits = n.fits && !n.negative && (width == 64 || n.magnitude >> width == 0);
  if (!fits) source.fail(n.pos, str(n.text.substr(0, 40), " does not fit the ", width, " bits of ", to_string(e)));
  return from_bits(e, n.magnitude);
}

HostArray to_scalar(const Source& source, const AstAttr& a, Elem e) {
  if (a.kind == AstAttr::Kind::Bool && e != Elem::Bool) {
    source.fail(a.pos, str("true and false are no numbers of ", to_string(e)));
  }
  bool number = a.kind == AstAttr::Kind::Bool || a.kind == AstAttr::Kind::Int || a.kind == AstAttr::Kind::Float;
  bool whole = is_bool(storage(e)) || is_integer(storage(e));
  if (!number || is_complex(storage(e)) || (whole && a.kind == AstAttr::Kind::Float)) {
    source.fail(a.pos, str("expected a number of type ", to_string(e)));
  }
  HostArray out(storage(e), {});
  if (whole) {
    store_integer(out, 0, a.integer);
  } else {
    store_float(out, 0, nearest(e, a.number));
  }
  return out;
}

}  // namespace tessera::hlo
