// SPDX-License-Identifier: Apache-2.0
#include "support/oracle_case.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/paths.h"
#include "tessera/error.h"

namespace tessera::oracle {

using nlohmann::json;

struct Params::Node {
  json value;
};

namespace {

std::shared_ptr<const Params::Node> node(const json& j) { return std::make_shared<Params::Node>(Params::Node{j}); }

const json& member(const std::shared_ptr<const Params::Node>& n, const std::string& name) {
  if (!n || !n->value.is_object() || !n->value.contains(name)) {
    throw ValueError("oracle: parameter '" + name + "' is missing");
  }
  return n->value.at(name);
}

/// NaN and infinities are texts.
double to_double(const json& j) {
  if (!j.is_string()) return j.get<double>();
  const auto s = j.get<std::string>();
  if (s == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (s == "inf") return std::numeric_limits<double>::infinity();
  if (s == "-inf") return -std::numeric_limits<double>::infinity();
  throw ValueError("oracle: '" + s + "' is not a number");
}

template <class T>
HostArray fill(const json& data, const Shape& shape) {
  HostArray a(dtype_of<T>(), shape);
  auto out = a.span<T>();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const json& v = data.at(i);
    if constexpr (std::is_same_v<T, complex64_t> || std::is_same_v<T, complex128_t>) {
      using Part = typename T::value_type;
      out[i] = T(static_cast<Part>(to_double(v.at(0))), static_cast<Part>(to_double(v.at(1))));
    } else if constexpr (std::is_integral_v<T>) {
      out[i] = v.get<T>();
    } else if constexpr (std::is_same_v<T, double>) {
      out[i] = to_double(v);
    } else {
      out[i] = T(static_cast<float>(to_double(v)));
    }
  }
  return a;
}

HostArray make(const json& data, const Shape& shape, DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return fill<bool>(data, shape);
    case DType::I8:
      return fill<std::int8_t>(data, shape);
    case DType::I16:
      return fill<std::int16_t>(data, shape);
    case DType::I32:
      return fill<std::int32_t>(data, shape);
    case DType::I64:
      return fill<std::int64_t>(data, shape);
    case DType::U8:
      return fill<std::uint8_t>(data, shape);
    case DType::U16:
      return fill<std::uint16_t>(data, shape);
    case DType::U32:
      return fill<std::uint32_t>(data, shape);
    case DType::U64:
      return fill<std::uint64_t>(data, shape);
    case DType::F16:
      return fill<float16_t>(data, shape);
    case DType::BF16:
      return fill<bfloat16_t>(data, shape);
    case DType::F32:
      return fill<float>(data, shape);
    case DType::F64:
      return fill<double>(data, shape);
    case DType::C64:
      return fill<complex64_t>(data, shape);
    case DType::C128:
      return fill<complex128_t>(data, shape);
  }
  throw TypeError("oracle: unknown dtype");
}

CaseValue scalar_value(const json& j) {
  CaseValue v;
  v.scalar = true;
  const auto kind = j.at("scalar").get<std::string>();
  const json data = json::array({j.at("value")});
  const DType dtype = kind == "bool" ? bool_ : kind == "int" ? int64 : kind == "float" ? float64 : complex128;
  v.value = make(data, {}, dtype);
  return v;
}

CaseValue value(const json& j) {
  if (j.contains("scalar")) return scalar_value(j);
  CaseValue v;
  auto shape = j.at("shape").get<Shape>();
  auto dtype = j.at("dtype").get<std::string>();
  v.weak = j.value("weak", false);
  v.key = dtype == "key";
  if (v.key) {
    shape.push_back(2);
    dtype = "uint32";
  }
  v.value = make(j.at("data"), shape, dtype_from_name(dtype));
  return v;
}

Case parse(const json& j) {
  Case c;
  c.id = j.at("id").get<std::string>();
  c.fn = j.at("fn").get<std::string>();
  c.kind = j.at("kind").get<std::string>();
  for (const json& a : j.at("args")) c.args.push_back(value(a));
  c.params = Params(node(j.at("params")));
  if (j.contains("wrt")) c.wrt = j.at("wrt").get<std::vector<std::size_t>>();
  if (j.contains("ct")) {
    for (const json& a : j.at("ct")) c.cts.push_back(value(a).value);
  }
  if (j.contains("tangents")) {
    for (const json& a : j.at("tangents")) c.tangents.push_back(value(a).value);
  }
  for (const json& a : j.at("out")) c.out.push_back(value(a));
  c.rtol = j.at("rtol").get<double>();
  c.zeros = j.value("zeros", false);
  c.atol = j.at("atol").get<double>();
  return c;
}

/// One part of an element: equal, both NaN, or close for the size of the whole element.
bool close(double got, double want, double size, double rtol, double atol) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::abs(got - want) <= atol + rtol * size;
}

std::string element(complex128_t v, bool complex) {
  std::ostringstream out;
  out.precision(17);
  if (complex) {
    out << '(' << v.real() << ", " << v.imag() << ')';
  } else {
    out << v.real();
  }
  return out.str();
}

}  // namespace

std::vector<Case> load(const std::string& group) {
  const auto path = test::source_path("tests/oracle/cases/" + group + ".jsonl");
  std::ifstream in(path);
  if (!in) throw FormatError("oracle: cannot read the cases", std::string(path));
  std::vector<Case> cases;
  for (std::string line; std::getline(in, line);) cases.push_back(parse(json::parse(line)));
  return cases;
}

std::string difference(const HostArray& got, const HostArray& want, double rtol, double atol, bool zeros) {
  if (got.dtype() != want.dtype()) {
    return "dtype " + std::string(dtype_name(got.dtype())) + ", recorded " + std::string(dtype_name(want.dtype()));
  }
  if (got.shape() != want.shape()) return "shape " + to_string(got.shape()) + ", recorded " + to_string(want.shape());
  if (!is_inexact(want.dtype())) {
    return identical(got, want) ? "" : "values " + to_string(got) + ", recorded " + to_string(want);
  }
  const HostArray g = got.astype(complex128), w = want.astype(complex128);
  const auto a = g.span<complex128_t>(), b = w.span<complex128_t>();
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double size = std::isfinite(std::abs(b[i])) ? std::abs(b[i]) : 0.0;
    const bool sign =
        !zeros || b[i].real() != 0 || a[i].real() != 0 || std::signbit(a[i].real()) == std::signbit(b[i].real());
    if (sign && close(a[i].real(), b[i].real(), size, rtol, atol) && close(a[i].imag(), b[i].imag(), size, rtol, atol))
      continue;
    const bool complex = is_complex(want.dtype());
    return "element " + std::to_string(i) + " is " + element(a[i], complex) + ", recorded " + element(b[i], complex);
  }
  return "";
}

bool Params::empty() const { return !node_ || node_->value.empty(); }
bool Params::has(const std::string& name) const {
  return node_ && node_->value.is_object() && node_->value.contains(name) && !node_->value.at(name).is_null();
}
std::int64_t Params::integer(const std::string& name) const { return member(node_, name).get<std::int64_t>(); }
std::int64_t Params::integer(const std::string& name, std::int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}
double Params::real(const std::string& name) const { return to_double(member(node_, name)); }
double Params::real(const std::string& name, double otherwise) const { return has(name) ? real(name) : otherwise; }
std::optional<double> Params::maybe_real(const std::string& name) const {
  return has(name) ? std::optional(real(name)) : std::nullopt;
}
std::vector<double> Params::reals(const std::string& name) const {
  std::vector<double> out;
  for (const json& j : member(node_, name)) out.push_back(to_double(j));
  return out;
}
bool Params::flag(const std::string& name, bool otherwise) const {
  return has(name) ? member(node_, name).get<bool>() : otherwise;
}
std::string Params::text(const std::string& name) const { return member(node_, name).get<std::string>(); }
std::string Params::text(const std::string& name, const std::string& otherwise) const {
  return has(name) ? text(name) : otherwise;
}
DType Params::dtype(const std::string& name) const { return dtype_from_name(text(name)); }
DType Params::dtype(const std::string& name, DType otherwise) const { return has(name) ? dtype(name) : otherwise; }
std::optional<DType> Params::maybe_dtype(const std::string& name) const {
  return has(name) ? std::optional(dtype(name)) : std::nullopt;
}
Dims Params::dims(const std::string& name) const {
  const json& v = member(node_, name);
  return v.is_array() ? v.get<Dims>() : Dims{v.get<std::int64_t>()};
}
std::optional<Dims> Params::maybe_dims(const std::string& name) const {
  return has(name) ? std::optional(dims(name)) : std::nullopt;
}
std::optional<std::int64_t> Params::maybe_integer(const std::string& name) const {
  return has(name) ? std::optional(integer(name)) : std::nullopt;
}
std::vector<std::string> Params::texts(const std::string& name) const {
  return member(node_, name).get<std::vector<std::string>>();
}
std::vector<Dims> Params::lists(const std::string& name) const { return member(node_, name).get<std::vector<Dims>>(); }
bool Params::is_text(const std::string& name) const { return has(name) && member(node_, name).is_string(); }
bool Params::is_list(const std::string& name) const { return has(name) && member(node_, name).is_array(); }
bool Params::is_integer(const std::string& name) const { return has(name) && member(node_, name).is_number_integer(); }
bool Params::is_bool(const std::string& name) const { return has(name) && member(node_, name).is_boolean(); }
Params Params::at(const std::string& name) const { return Params(node(member(node_, name))); }
std::vector<Params> Params::items(const std::string& name) const {
  std::vector<Params> out;
  for (const json& j : member(node_, name)) out.emplace_back(node(j));
  return out;
}
Dims Params::as_list(std::size_t i) const { return node_->value.at(i).get<Dims>(); }
bool Params::is_integer() const { return node_->value.is_number_integer(); }
bool Params::is_text() const { return node_->value.is_string(); }
std::int64_t Params::as_integer() const { return node_->value.get<std::int64_t>(); }
std::string Params::as_text() const { return node_->value.get<std::string>(); }
std::vector<std::optional<std::int64_t>> Params::as_optional_integers() const {
  std::vector<std::optional<std::int64_t>> out;
  for (const json& j : node_->value) {
    out.push_back(j.is_null() ? std::nullopt : std::optional(j.get<std::int64_t>()));
  }
  return out;
}

}  // namespace tessera::oracle
