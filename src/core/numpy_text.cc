// SPDX-License-Identifier: Apache-2.0
#include "core/numpy_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>

#include "base/strings.h"
#include "core/strided_copy.h"

namespace tessera {

namespace core {
namespace {

constexpr std::int64_t kThreshold = 1000;
constexpr std::int64_t kEdge = 3;
constexpr std::int64_t kLineWidth = 75;
constexpr int kPrecision = 8;

// A decimal text taken apart: "-" / digits before and after the point / exponent.
struct Parts {
  std::string whole;
  std::string fraction;
  int exponent = 0;
};

std::string chars(double v, std::chars_format format, int precision) {
  char buffer[512];
  auto r = std::to_chars(buffer, buffer + sizeof buffer, v, format, precision);
  return {buffer, r.ptr};
}

// Fewest digits that read back as the same value of the dtype.
std::string shortest(double v, DType t) {
  char buffer[64];
  if (t == DType::F64) {
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific).ptr};
  }
  auto f = static_cast<float>(v);
  if (t == DType::F16) {
    for (int p = 0; p < 6; ++p) {
      std::string s = chars(v, std::chars_format::scientific, p);
      float back = 0;
      std::from_chars(s.data(), s.data() + s.size(), back);
      if (detail::float_to_half(back) == detail::float_to_half(f)) return s;
    }
  }
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, f, std::chars_format::scientific).ptr};
}

Parts split(const std::string& text) {
  Parts p;
  std::size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  if (e != std::string::npos) p.exponent = std::stoi(text.substr(e + 1));
  std::size_t dot = mantissa.find('.');
  p.whole = mantissa.substr(0, dot);
  if (dot != std::string::npos) p.fraction = mantissa.substr(dot + 1);
  while (!p.fraction.empty() && p.fraction.back() == '0') p.fraction.pop_back();
  return p;
}

Parts scientific(double v, DType t) {
  Parts p = split(shortest(v, t));
  return p.fraction.size() > kPrecision ? split(chars(v, std::chars_format::scientific, kPrecision)) : p;
}

Parts positional(double v, DType t) {
  Parts p = split(shortest(v, t));
  bool negative = p.whole[0] == '-';
  if (negative) p.whole.erase(0, 1);
  std::string digits = p.whole + p.fraction;
  std::int64_t point = 1 + p.exponent;  // digits before the decimal point
  if (static_cast<std::int64_t>(digits.size()) - point > kPrecision) {
    return split(chars(v, std::chars_format::fixed, kPrecision));
  }
  if (point <= 0) digits.insert(0, static_cast<std::size_t>(1 - point), '0');
  auto whole = static_cast<std::size_t>(std::max<std::int64_t>(point, 1));
  if (digits.size() < whole) digits.resize(whole, '0');
  Parts out = split(digits.substr(0, whole) + "." + digits.substr(whole));
  if (negative) out.whole.insert(0, "-");
  return out;
}

std::string pad(std::size_t n) { return std::string(n, ' '); }

// NumPy's FloatingFormat with floatmode "maxprec": one width for all elements.
class FloatFormat {
 public:
  FloatFormat(const std::vector<double>& values, DType t, bool plus) : type_(t), plus_(plus) {
    double lo = INFINITY, hi = 0;
    bool neg_inf = plus, special = false;
    for (double v : values) {
      special |= !std::isfinite(v);
      neg_inf |= std::isinf(v) && v < 0;
      if (!std::isfinite(v) || v == 0) continue;
      lo = std::min(lo, std::abs(v));
      hi = std::max(hi, std::abs(v));
    }
    // The number of decimal digits that a type holds for certain bounds what is printed without an exponent.
    double cutoff = t == DType::F16 ? 1e3 : t == DType::F32 ? 1e6 : 1e8;
    exponent_ = hi > 0 && (hi >= cutoff || lo < 1e-4 || hi / lo > 1000.0);
    for (double v : values) {
      if (!std::isfinite(v)) continue;
      Parts p = parts(v);
      left_ = std::max(left_, p.whole.size());
      right_ = std::max(right_, p.fraction.size());
      if (exponent_) exponent_digits_ = std::max(exponent_digits_, str(std::abs(p.exponent)).size());
    }
    if (special) {
      std::size_t offset = tail() + 1;
      std::size_t need = std::max<std::size_t>(3, 3 + (neg_inf ? 1 : 0));
      if (need > offset) left_ = std::max(left_, need - offset);
    }
  }

  std::string operator()(double v) const {
    if (!std::isfinite(v)) {
      std::string s = std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
      if (plus_ && s[0] != '-') s.insert(0, "+");
      std::size_t width = left_ + tail() + 1;
      return pad(width > s.size() ? width - s.size() : 0) + s;
    }
    Parts p = parts(v);
    // With an exponent all elements show as many digits; further ones of the exact value, not zeros, fill them up.
    if (exponent_ && p.fraction.size() < right_) {
      p = split(chars(v, std::chars_format::scientific, static_cast<int>(right_)));
      if (plus_ && p.whole[0] != '-') p.whole.insert(0, "+");
    }
    std::string out = pad(left_ - p.whole.size()) + p.whole + "." + p.fraction;
    if (!exponent_) return out + pad(right_ - p.fraction.size());
    out += std::string(right_ - p.fraction.size(), '0');
    std::string digits = str(std::abs(p.exponent));
    return out + (p.exponent < 0 ? "e-" : "e+") + std::string(exponent_digits_ - digits.size(), '0') + digits;
  }

 private:
  Parts parts(double v) const {
    Parts p = exponent_ ? scientific(v, type_) : positional(v, type_);
    if (plus_ && p.whole[0] != '-') p.whole.insert(0, "+");
    return p;
  }
  std::size_t tail() const { return exponent_ ? right_ + exponent_digits_ + 2 : right_; }

  DType type_;
  bool plus_;
  bool exponent_ = false;
  std::size_t left_ = 0, right_ = 0, exponent_digits_ = 2;
};

using Format = std::function<std::string(std::int64_t)>;  // of the element at a position

// Positions that are printed: all, or three from either end of every dimension.
void shown(const Shape& shape, bool summary, std::size_t dim, std::int64_t base, std::vector<std::int64_t>& out) {
  if (dim == shape.size()) {
    out.push_back(base);
    return;
  }
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    if (summary && shape[dim] > 2 * kEdge && i == kEdge) i = shape[dim] - kEdge;
    shown(shape, summary, dim + 1, base * shape[dim] + i, out);
  }
}

Format float_format(const HostArray& a, const std::vector<std::int64_t>& positions) {
  HostArray wide = a.astype(DType::F64);
  std::vector<double> values;
  for (auto i : positions) values.push_back(wide.span<double>()[static_cast<std::size_t>(i)]);
  return [wide, f = FloatFormat(values, a.dtype(), false)](std::int64_t i) {
    return f(wide.span<double>()[static_cast<std::size_t>(i)]);
  };
}

Format complex_format(const HostArray& a, const std::vector<std::int64_t>& positions) {
  HostArray wide = a.astype(DType::C128);
  std::vector<double> re, im;
  for (auto i : positions) {
    auto v = wide.span<complex128_t>()[static_cast<std::size_t>(i)];
    re.push_back(v.real());
    im.push_back(v.imag());
  }
  DType part = real_dtype(a.dtype());
  return [wide, r = FloatFormat(re, part, false), m = FloatFormat(im, part, true)](std::int64_t i) {
    auto v = wide.span<complex128_t>()[static_cast<std::size_t>(i)];
    std::string s = m(v.imag());
    std::size_t end = s.find_last_not_of(' ') + 1;
    return r(v.real()) + s.substr(0, end) + "j" + s.substr(end);
  };
}

Format integer_format(const HostArray& a, const std::vector<std::int64_t>& positions) {
  bool is_unsigned = a.dtype() == DType::U64;
  HostArray wide = a.astype(is_unsigned ? DType::U64 : DType::I64);
  auto text = [wide, is_unsigned](std::int64_t i) {
    auto n = static_cast<std::size_t>(i);
    return is_unsigned ? str(wide.span<std::uint64_t>()[n]) : str(wide.span<std::int64_t>()[n]);
  };
  std::size_t width = 0;
  for (auto i : positions) width = std::max(width, text(i).size());
  return [text, width](std::int64_t i) {
    std::string s = text(i);
    return pad(width - s.size()) + s;
  };
}

Format element_format(const HostArray& a, const std::vector<std::int64_t>& positions) {
  if (a.dtype() == DType::Bool) {
    return [a](std::int64_t i) -> std::string {
      if (!a.span<bool>()[static_cast<std::size_t>(i)]) return "False";
      return a.ndim() == 0 ? "True" : " True";
    };
  }
  if (a.dtype() == DType::BF16) {  // not a type of NumPy's own: each element prints by itself
    return [a](std::int64_t i) {
      char buffer[32];
      float v = a.span<bfloat16_t>()[static_cast<std::size_t>(i)];
      int n = std::snprintf(buffer, sizeof buffer, "%g", static_cast<double>(v));
      return std::string(buffer, static_cast<std::size_t>(n));
    };
  }
  if (is_complex(a.dtype())) return complex_format(a, positions);
  return is_float(a.dtype()) ? float_format(a, positions) : integer_format(a, positions);
}

struct Printer {
  const Shape& shape;
  Format format;
  bool summary;

  // One row, wrapped where the next word would not fit.
  std::string row(std::int64_t base, std::int64_t extent, const std::string& indent, std::int64_t width) const {
    std::string done, line = indent;
    auto put = [&](const std::string& word) {
      bool wrap = static_cast<std::int64_t>(line.size() + word.size()) > width - 1 && line.size() > indent.size();
      if (wrap) {
        line.erase(line.find_last_not_of(' ') + 1);
        done += line + "\n";
        line = indent;
      }
      line += word;
    };
    for (std::int64_t i = 0; i < extent; ++i) {
      if (summary && extent > 2 * kEdge && i == kEdge) {
        put("...");
        line += ", ";
        i = extent - kEdge;
      }
      put(format(base + i));
      if (i + 1 < extent) line += ", ";
    }
    return done + line;
  }

  std::string block(std::size_t dim, std::int64_t base, const std::string& indent, std::int64_t width) const {
    if (dim == shape.size()) return format(base);
    std::int64_t extent = shape[dim];
    std::string out;
    if (dim + 1 == shape.size()) {
      out = row(base * extent, extent, indent, width);
    } else {
      std::string separator = "," + std::string(shape.size() - dim - 1, '\n');
      for (std::int64_t i = 0; i < extent; ++i) {
        if (summary && extent > 2 * kEdge && i == kEdge) {
          out += indent + "..." + separator;
          i = extent - kEdge;
        }
        out += indent + block(dim + 1, base * extent + i, indent + " ", width - 1);
        if (i + 1 < extent) out += separator;
      }
    }
    return "[" + out.substr(indent.size()) + "]";
  }
};

}  // namespace

std::string numpy_text(const HostArray& a, std::int64_t prefix, std::int64_t suffix) {
  if (a.size() == 0) return "[]";
  bool summary = a.size() > kThreshold;
  std::vector<std::int64_t> positions;
  shown(a.shape(), summary, 0, 0, positions);
  Printer p{a.shape(), element_format(a, positions), summary};
  return p.block(0, 0, pad(static_cast<std::size_t>(prefix) + 1), kLineWidth - suffix);
}

}  // namespace core

std::string to_string(const HostArray& a) { return core::numpy_text(a); }

}  // namespace tessera
