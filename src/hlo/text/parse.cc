// SPDX-License-Identifier: Apache-2.0
// Tokens, types and numbers.
#include "hlo/text/parse.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/strings.h"
#include "hlo/text/literals.h"
#include "hlo/text/parse_common.h"

namespace tessera::hlo {

namespace {
bool is_suffix(char c) { return is_word(c) || c == '-'; }
}  // namespace

void Parser::fail(const std::string& what) {
  skip_space();
  std::string_view rest = slice(at_, end_);
  std::string seen =
      at_ >= end_ ? "the end" : str("\"", rest.substr(0, rest.find_first_of(" \n\t,")).substr(0, 24), "\"");
  source_.fail(at_, str(what, ", got ", seen));
}

void Parser::skip_space() {
  while (at_ < end_) {
    char c = look();
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && look(1) == '/') {
      while (at_ < end_ && look() != '\n') ++at_;
    } else {
      return;
    }
  }
}

bool Parser::at_end() {
  skip_space();
  return at_ >= end_;
}
Offset Parser::position() {
  skip_space();
  return at_;
}
Offset Parser::closing_quote() {
  expect("\"");
  while (at_ < end_ && look() != '"') ++at_;
  expect("\"");
  return at_ - 1;
}
bool Parser::peek(std::string_view token) {
  skip_space();
  if (slice(at_, end_).substr(0, token.size()) != token) return false;
  if (!is_word(token.back())) return true;
  auto next = static_cast<Offset>(token.size());
  return !is_word(look(next));  // "cond" is not the start of "condition"
}
bool Parser::accept(std::string_view token) {
  if (!peek(token)) return false;
  at_ += static_cast<Offset>(token.size());
  return true;
}
void Parser::expect(std::string_view token) {
  if (!accept(token)) fail(str("expected \"", token, "\""));
}

std::string_view Parser::word() {
  skip_space();
  Offset begin = at_;
  if (!is_letter(look())) return {};
  while (at_ < end_ && is_word(look())) ++at_;
  return slice(begin, at_);
}

std::string Parser::string() {
  if (!peek("\"")) fail("expected a string");
  ++at_;
  std::string out;
  while (true) {
    if (at_ >= end_) fail("a string does not end");
    char c = source_.text()[at_++];
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    char e = look();
    ++at_;
    auto hex = [](char h) {
      return is_digit(h) ? h - '0' : h >= 'a' && h <= 'f' ? h - 'a' + 10 : h >= 'A' && h <= 'F' ? h - 'A' + 10 : -1;
    };
    if (e == 'n') {
      out += '\n';
    } else if (e == 't') {
      out += '\t';
    } else if (hex(e) >= 0 && hex(look()) >= 0) {
      out += static_cast<char>(hex(e) * 16 + hex(look()));
      ++at_;
    } else {
      out += e;
    }
  }
}

bool Parser::at_integer() {
  skip_space();
  return is_digit(look()) || (look() == '-' && is_digit(look(1)));
}
std::int64_t Parser::integer() {
  if (!at_integer()) fail("expected an integer");
  std::int64_t out = 0;
  auto text = slice(at_, end_);
  auto [ptr, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) fail("the integer does not fit 64 bits");
  at_ += static_cast<Offset>(ptr - text.data());
  return out;
}

std::string_view Parser::value_name() {
  if (!peek("%")) fail("expected a value");
  Offset begin = at_++;
  while (at_ < end_ && is_suffix(look())) ++at_;
  if (at_ == begin + 1) fail("expected a value's name");
  if (look() == '#') {
    ++at_;
    while (at_ < end_ && is_digit(look())) ++at_;
  }
  return slice(begin, at_);
}

std::string Parser::symbol() {
  expect("@");
  if (look() == '"') return string();
  Offset begin = at_;
  while (at_ < end_ && is_suffix(look())) ++at_;
  std::string out(slice(begin, at_));
  if (out.empty()) fail("expected a symbol's name");
  return out;
}

// From its first quote to behind its last.
void Parser::skip_string() {
  Offset begin = at_++;
  while (look() != '"') {
    at_ += look() == '\\' ? 2 : 1;
    if (at_ >= end_) source_.fail(begin, "a string does not end");
  }
  ++at_;
}

Raw Parser::balanced(char open, char close) {
  skip_space();
  Offset begin = at_;
  if (look() != open) fail(str("expected \"", open, "\""));
  std::string closers;
  while (at_ < end_) {
    char c = look();
    if (c == '"') {
      skip_string();
      continue;
    }
    ++at_;
    if (c == '-' && look() == '>') {
      ++at_;
    } else if (c == '<' || c == '(' || c == '[' || c == '{') {
      closers += c == '<' ? '>' : c == '(' ? ')' : c == '[' ? ']' : '}';
      if (closers.size() > static_cast<std::size_t>(kMaxDepth)) fail("nested too deeply");
    } else if (c == '>' || c == ')' || c == ']' || c == '}') {
      if (closers.empty() || closers.back() != c) fail(str("\"", c, "\" closes nothing"));
      closers.pop_back();
      if (closers.empty()) {
        if (c != close) fail("brackets do not match");
        return {begin + 1, at_ - 1};
      }
    }
  }
  source_.fail(begin, str("\"", open, "\" is never closed"));
}

Raw Parser::location() {
  Raw out;
  while (accept("loc")) out = balanced('(', ')');
  return out;
}

// --- types ---------------------------------------------------------------------------------------------------------

Elem Parser::element_type() {
  Offset begin = position();
  auto name = word();
  if (name == "complex") {
    expect("<");
    auto part = word();
    expect(">");
    if (part == "f32") return Elem::C64;
    if (part == "f64") return Elem::C128;
    source_.fail(begin, str("complex<", part, "> is not an element type; expected f32 or f64"));
  }
  if (auto e = elem_named(name)) return *e;
  if (name == "index") return Elem::I64;  // in attributes: layouts, and shapes
  source_.fail(begin, str("unknown element type \"", name.substr(0, 40), "\""));
}

AstType Parser::tensor_type() {
  AstType t;
  expect("<");
  while (true) {
    skip_space();
    if (look() == '?') source_.fail(at_, "dynamic dimensions are not supported: lower the function for fixed shapes");
    if (look() == '*') source_.fail(at_, "unranked tensors are not supported");
    if (look() == '!') source_.fail(at_, "quantized and other dialects' element types are not supported");
    if (!is_digit(look())) break;
    std::int64_t n = integer();
    if (look() != 'x') fail("expected \"x\" after a dimension");
    ++at_;
    t.shape.push_back(n);
    if (t.shape.size() > 64) fail("more than 64 dimensions");
  }
  t.elem = element_type();
  if (accept(",")) {  // an encoding (bounded dimensions, type extensions)
    int open = 1;
    while (at_ < end_ && open > 0) {
      char c = look();
      if (c == '"') {
        string();
        continue;
      }
      if (c == '<') ++open;
      if (c == '>') --open;
      if (open > 0) ++at_;
    }
  }
  expect(">");
  std::int64_t n = 1;
  for (auto d : t.shape) {
    if (d > 0 && n > (std::int64_t{1} << 46) / d) fail("the tensor has too many elements");
    n *= d;
  }
  return t;
}

AstType Parser::type() {
  Deeper guard(*this);
  if (accept("tensor")) return tensor_type();
  AstType t;
  if (accept("!stablehlo.token") || accept("!mhlo.token")) {
    t.kind = AstType::Kind::Token;
    return t;
  }
  if (accept("tuple") || accept("!stablehlo.future")) {  // a future is the tuple of what it will be
    t.kind = AstType::Kind::Tuple;
    expect("<");
    while (!accept(">")) {
      t.parts.push_back(type());
      if (!accept(",") && !peek(">")) fail("expected \",\" or \">\" in a type of several");
    }
    return t;
  }
  if (peek("!")) {
    Offset begin = at_++;
    auto name = word();
    auto it = aliases_.find(str("!", name));
    if (it == aliases_.end()) source_.fail(begin, str("unknown type \"!", name.substr(0, 40), "\""));
    spend(it->second.parts);
    return it->second.type;
  }
  if (is_letter(look())) {
    t.elem = element_type();
    return t;
  }
  fail("expected a type");
}

std::vector<AstType> Parser::type_list() {
  std::vector<AstType> out;
  do {
    out.push_back(type());
  } while (accept(","));
  return out;
}

std::vector<AstType> Parser::types_or_group() {
  if (!accept("(")) return {type()};
  std::vector<AstType> out;
  if (accept(")")) return out;
  out = type_list();
  expect(")");
  return out;
}

// --- numbers -------------------------------------------------------------------------------------------------------

namespace {
// Whether a decimal number that no double holds is too large, and not too small.
bool is_huge(std::string_view text) {
  std::int64_t exponent = 0;
  auto e = text.find_first_of("eE");
  if (e != std::string_view::npos) {
    auto digits = text.substr(e + 1);
    bool below = digits[0] == '-';
    if (digits[0] == '-' || digits[0] == '+') digits.remove_prefix(1);
    for (char c : digits) exponent = std::min<std::int64_t>(exponent * 10 + (c - '0'), std::int64_t{1} << 40);
    if (below) exponent = -exponent;
  }
  text = text.substr(0, e);
  auto point = std::min(text.find('.'), text.size());
  auto first = text.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  return exponent + static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) > 0;
}

double decimal(std::string_view text) {
  double out = 0;
  auto [ptr, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) out = is_huge(text) ? std::numeric_limits<double>::infinity() : 0;
  return out;
}
}  // namespace

Literal Parser::literal() {
  Literal n;
  n.pos = position();
  n.negative = look() == '-';
  if (n.negative) ++at_;
  Offset begin = at_;
  n.hex = look() == '0' && (look(1) == 'x' || look(1) == 'X');
  if (n.hex) at_ += 2;
  auto rest = slice(at_, end_);
  auto [ptr, error] = std::from_chars(rest.data(), rest.data() + rest.size(), n.magnitude, n.hex ? 16 : 10);
  if (error == std::errc::invalid_argument) fail(n.hex ? "expected hexadecimal digits" : "expected a number");
  n.fits = error == std::errc();
  at_ += static_cast<Offset>(ptr - rest.data());
  if (!n.hex) {
    if (look() == '.') {
      n.whole = false;
      ++at_;
      while (is_digit(look())) ++at_;
    }
    Offset sign = look(1) == '+' || look(1) == '-' ? 2 : 1;
    if ((look() == 'e' || look() == 'E') && is_digit(look(sign))) {
      n.whole = false;
      at_ += sign;
      while (is_digit(look())) ++at_;
    }
    n.value = decimal(slice(begin, at_));
  }
  n.text = slice(n.pos, at_);
  return n;
}

// Without a type an integer has 64 bits and a float is a double.
AstAttr Parser::number(bool typed) {
  Literal n = literal();
  AstAttr a;
  a.pos = n.pos;
  a.kind = n.whole ? AstAttr::Kind::Int : AstAttr::Kind::Float;
  bool has_type = typed && accept(":");
  bool index = has_type && peek("index");
  a.type.elem = n.whole ? Elem::I64 : Elem::F64;
  if (has_type) a.type = type();
  Elem e = a.type.elem;
  bool scalar = !has_type || (a.type.kind == AstType::Kind::Tensor && a.type.shape.empty());
  if (!scalar || is_complex(storage(e))) source_.fail(n.pos, "a number of a type that is no integer and no float");
  if (is_float(storage(e))) {
    a.kind = AstAttr::Kind::Float;
    a.number = to_float(source_, n, e);
    return a;
  }
  a.integer = to_integer(source_, n, e);
  if ((index || !has_type) && !n.negative && a.integer < 0) source_.fail(n.pos, "the integer does not fit 64 bits");
  a.number = static_cast<double>(a.integer);
  return a;
}

}  // namespace tessera::hlo
