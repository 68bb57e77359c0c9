// SPDX-License-Identifier: Apache-2.0
// Attributes as text.
#include <cstring>

#include "base/strings.h"
#include "hlo/bytecode/bytecode_values.h"

namespace tessera::hlo {

namespace {
constexpr char kHex[] = "0123456789ABCDEF";
constexpr std::size_t kMostIntegers = std::size_t{1} << 16;

bool is_plain_name(std::string_view s) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '$'; };
  if (s.empty() || !letter(s[0])) return false;
  for (char c : s) {
    if (!inner(c)) return false;
  }
  return true;
}

std::int64_t integer_at(std::string_view bytes, std::size_t i, std::size_t width, bool is_signed) {
  std::uint64_t v = 0;
  std::memcpy(&v, bytes.data() + i * width, width);
  auto shift = static_cast<int>(64 - 8 * width);
  if (!is_signed) return static_cast<std::int64_t>(v);
  return static_cast<std::int64_t>(v << shift) >> shift;
}
}  // namespace

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || u < 0x20 || u == 0x7F) {
      out += '\\';
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string hex_text(std::string_view bytes) {
  std::string out(bytes.size() * 2 + 4, '"');
  out[1] = '0';
  out[2] = 'x';
  char* to = out.data() + 3;
  for (char c : bytes) {
    auto u = static_cast<unsigned char>(c);
    *to++ = kHex[u >> 4];
    *to++ = kHex[u & 15];
  }
  return out;
}

std::vector<std::int64_t> BytecodeValues::integers(const AttrNode& a) {
  const TypeNode& t = type(a.type);
  bool shaped = a.kind == AttrNode::Kind::Elements && t.kind == TypeNode::Kind::Tensor;
  if (!shaped && a.kind != AttrNode::Kind::Integers) fail(a, "expected a list of integers");
  const TypeNode& e = shaped ? type(t.element) : t;
  if (e.kind != TypeNode::Kind::Integer && e.kind != TypeNode::Kind::Unsigned) fail(a, "expected a list of integers");
  auto width = static_cast<std::size_t>((e.width + 7) / 8);
  std::size_t count = shaped ? 1 : a.text.size() / width;
  for (auto n : t.shape) {
    if (n < 0 || (n > 0 && count > kMostIntegers / static_cast<std::size_t>(n))) fail(a, "the list is too long");
    count *= static_cast<std::size_t>(n);
  }
  if (count > kMostIntegers) fail(a, "the list is too long");
  std::vector<std::int64_t> out(count);
  bool packed = e.width == 1 && shaped && a.text.size() == (count + 7) / 8 && a.text.size() != count;
  bool all = e.width == 1 && shaped && a.text == "\xff";
  bool one = a.text.size() == width && count != 1;
  if (!packed && !all && !one && a.text.size() != count * width) {
    fail(a, str(a.text.size(), " bytes for ", count, " elements of type ", e.text));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (all || packed) {
      out[i] = all || (static_cast<unsigned char>(a.text[i / 8]) >> (i % 8) & 1) != 0;
    } else {
      out[i] = integer_at(a.text, one ? 0 : i, width, e.kind == TypeNode::Kind::Integer && e.width > 1);
    }
  }
  return out;
}

std::string BytecodeValues::printed_integer(const AttrNode& a) {
  const TypeNode& t = type(a.type);
  if (t.kind == TypeNode::Kind::Unsigned) return str(static_cast<std::uint64_t>(a.integer), " : ", t.text);
  return str(a.integer, " : ", t.text);
}

std::string BytecodeValues::printed_elements(const AttrNode& a) {
  const TypeNode& t = type(a.type);
  if (t.kind != TypeNode::Kind::Tensor) fail(a, str("elements of type ", t.text.substr(0, 60)));
  if (a.text.empty()) return str("dense<> : ", t.text);
  spend(2 * a.text.size());
  return str("dense<", hex_text(a.text), "> : ", t.text);
}

std::string BytecodeValues::printed_integers(const AttrNode& a) {
  const TypeNode& t = type(a.type);
  std::string out = str("array<", t.text);
  const char* separator = ": ";
  for (auto v : integers(a)) {
    out += t.width == 1 ? str(separator, v != 0 ? "true" : "false") : str(separator, v);
    separator = ", ";
  }
  return out + ">";
}

std::string BytecodeValues::printed_items(const AttrNode& a) {
  bool dict = a.kind == AttrNode::Kind::Dict;
  std::string out = dict ? "{" : "[";
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (i > 0) out += ", ";
    if (dict) {
      const std::string& name = attr(a.items[i]).text;
      out += is_plain_name(name) ? name : quoted(name);
      ++i;
      if (attr(a.items[i]).kind == AttrNode::Kind::Unit) continue;
      out += " = ";
    }
    out += text(a.items[i]);
    bound(out);
  }
  return out += dict ? '}' : ']';
}

std::string BytecodeValues::printed(const AttrNode& a) {
  using Kind = AttrNode::Kind;
  switch (a.kind) {
    case Kind::Unit:
      return "unit";
    case Kind::Bool:
      return a.integer != 0 ? "true" : "false";
    case Kind::Integer:
      return printed_integer(a);
    case Kind::Float: {
      const TypeNode& t = type(a.type);
      std::string digits;
      for (int shift = (t.width - 1) / 4 * 4; shift >= 0; shift -= 4) digits += kHex[a.integer >> shift & 15];
      return str("0x", digits, " : ", t.text);
    }
    case Kind::String:
      return quoted(a.text);
    case Kind::Symbol:
      return str("@", is_plain_name(a.text) ? a.text : quoted(a.text));
    case Kind::Array:
    case Kind::Dict:
      return printed_items(a);
    case Kind::Type:
      return type(a.type).text;
    case Kind::Elements:
      return printed_elements(a);
    case Kind::Integers:
      return printed_integers(a);
    case Kind::Word:
      return str("#stablehlo<", a.name, " ", a.text, ">");
    case Kind::Text:
      return a.text;
    case Kind::Part:
      return str("#", a.name, "<", a.text, ">");
    default:
      return "loc(unknown)";
  }
}

}  // namespace tessera::hlo
