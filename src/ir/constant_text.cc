// SPDX-License-Identifier: Apache-2.0
// Constants as text from which every bit can be read again: "f32[2,2]{1, -0, inf, nan:7fc00001}".
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/strings.h"
#include "core/with_type.h"
#include "ir/attrs.h"
#include "ir/graph_text.h"

namespace tessera::ir {

namespace {
constexpr std::int64_t kShortElements = 16;

// The integer type of T's size.
template <class T>
using Bits =
    std::conditional_t<sizeof(T) == 2, std::uint16_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
// The type by whose shortest text T is written: float for the narrow floats, which it holds exactly.
template <class T>
using Printed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
void append_element(std::string& out, T v) {
  char buffer[32];
  if constexpr (std::is_integral_v<T>) {
    auto end = std::to_chars(buffer, buffer + sizeof buffer, static_cast<std::common_type_t<T, int>>(v)).ptr;
    out.append(buffer, end);
  } else {
    auto wide = static_cast<Printed<T>>(v);
    // NaNs differ in sign and payload.
    bool nan = std::isnan(wide);
    auto end = nan ? std::to_chars(buffer, buffer + sizeof buffer, std::bit_cast<Bits<T>>(v), 16).ptr
                   : std::to_chars(buffer, buffer + sizeof buffer, wide).ptr;
    out += nan ? "nan:" : "";
    out.append(buffer, end);
  }
}
template <class T>
void append_element(std::string& out, const std::complex<T>& v) {
  out += '(';
  append_element(out, v.real());
  out += ", ";
  append_element(out, v.imag());
  out += ')';
}

template <class N>
N read_number(TextReader& r, std::string_view text, int base = 10) {
  N v{};
  std::from_chars_result got;
  if constexpr (std::is_integral_v<N>) {
    got = std::from_chars(text.data(), text.data() + text.size(), v, base);
  } else {
    got = std::from_chars(text.data(), text.data() + text.size(), v);
  }
  if (got.ec != std::errc() || got.ptr != text.data() + text.size())
    r.fail(str("an element (got '", text, "') before"));
  return v;
}
template <class T>
void read_element(TextReader& r, T& v) {
  std::string_view text = r.until(",)} \n");
  if constexpr (std::is_integral_v<T>) {
    v = read_number<T>(r, text);
  } else if (text.starts_with("nan:")) {
    v = std::bit_cast<T>(read_number<Bits<T>>(r, text.substr(4), 16));
  } else {
    v = T(read_number<Printed<T>>(r, text));
  }
}
template <class T>
void read_element(TextReader& r, std::complex<T>& v) {
  T re{}, im{};
  r.expect("(");
  read_element(r, re);
  r.expect(",");
  read_element(r, im);
  r.expect(")");
  v = {re, im};
}

}  // namespace

std::string field_text(const HostArray& v, TextForm form) {
  std::string out = to_string(Type{v.dtype(), v.shape()});
  if (form == TextForm::Short && v.size() > kShortElements) return out + "{...}";
  out += '{';
  core::with_type(v.dtype(), [&]<class T>() {
    const auto* elements = static_cast<const T*>(v.data());
    for (std::int64_t i = 0; i < v.size(); ++i) {
      out += i > 0 ? ", " : "";
      append_element(out, elements[i]);
    }
  });
  return out + '}';
}

void read_field(TextReader& r, HostArray& v) {
  Type type = read_type(r);
  r.expect("{");
  if (r.peek("..."))
    r.fail(str(type.size(), " elements, which are elided in this text: print the graph by `full_text`"));
  // The elements are counted before memory is taken for what a text only claims.
  TextReader ahead = r;
  std::string_view elements = ahead.until("}");
  auto commas = std::count(elements.begin(), elements.end(), ',');
  if (is_complex(type.dtype)) commas /= 2;
  if (type.size() > commas + 1) r.fail(str(type.size(), " elements"));
  v = HostArray(type.dtype, type.shape);
  core::with_type(v.dtype(), [&]<class T>() {
    auto* out = static_cast<T*>(v.data());
    for (std::int64_t i = 0; i < v.size(); ++i) {
      if (i > 0) r.expect(",");
      read_element(r, out[i]);
    }
  });
  r.expect("}");
}

}  // namespace tessera::ir
