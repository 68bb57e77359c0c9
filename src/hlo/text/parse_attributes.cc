// SPDX-License-Identifier: Apache-2.0
// Attributes.
#include <set>

#include "base/strings.h"
#include "hlo/text/literals.h"
#include "hlo/text/parse_common.h"

namespace tessera::hlo {

AstAttr Parser::dict() {
  Deeper guard(*this);
  AstAttr a;
  a.kind = AstAttr::Kind::Dict;
  a.pos = position();
  expect("{");
  while (!accept("}")) {
    AstField f;
    f.name = peek("\"") ? string() : std::string(word());
    if (f.name.empty()) fail("expected an attribute's name");
    if (accept("=")) f.value = attribute();
    a.fields.push_back(std::move(f));
    if (!accept(",") && !peek("}")) fail("expected \",\" or \"}\" between attributes");
  }
  if (a.fields.size() < 2) return a;
  std::set<std::string_view> names;
  for (const auto& f : a.fields) {
    if (names.insert(f.name).second) continue;
    source_.fail(a.pos, str("attribute \"", f.name.substr(0, 60), "\" stands here twice"));
  }
  return a;
}

// A dictionary, or a set of strings: {"x", "y"}.
AstAttr Parser::braces() {
  Offset begin = position();
  expect("{");
  bool set = false;
  if (peek("\"")) {
    string();
    if (accept(":")) {  // a sub-axis: "x":(1)2
      set = true;
    } else {
      set = peek(",") || peek("}");
    }
  }
  at_ = begin;
  if (!set) return dict();
  AstAttr a;
  a.pos = begin;
  a.kind = AstAttr::Kind::Array;
  a.raw = balanced('{', '}');
  Parser inner(source_, a.raw);
  while (!inner.at_end()) {
    AstAttr s;
    s.kind = AstAttr::Kind::String;
    s.pos = inner.position();
    s.text = inner.string();
    if (inner.accept(":")) {
      s.raw.begin = inner.position();
      inner.balanced('(', ')');
      inner.integer();
      s.raw.end = inner.at_;
    }
    a.items.push_back(std::move(s));
    if (!inner.accept(",") && !inner.at_end()) inner.fail("expected \",\"");
  }
  return a;
}

AstAttr Parser::array() {
  Deeper guard(*this);
  AstAttr a;
  a.kind = AstAttr::Kind::Array;
  a.pos = position();
  expect("[");
  a.raw.begin = at_;
  while (!accept("]")) {
    a.items.push_back(attribute());
    if (!accept(",") && !peek("]")) fail("expected \",\" or \"]\"");
  }
  a.raw.end = at_ - 1;
  return a;
}

// array<i64: 1, 2>, after the word.
AstAttr Parser::dense_array() {
  AstAttr a;
  a.kind = AstAttr::Kind::Array;
  a.pos = at_;
  expect("<");
  a.type = type();
  bool scalar = a.type.kind == AstType::Kind::Tensor && a.type.shape.empty();
  if (!scalar || is_complex(storage(a.type.elem))) source_.fail(a.pos, "an array of neither integers nor floats");
  if (accept(":")) {
    do {
      AstAttr item;
      item.pos = position();
      if (accept("true") || accept("false")) {
        item.kind = AstAttr::Kind::Bool;
        item.integer = source_.text()[at_ - 2] == 'u';  // "true" ends in "ue"
      } else {
        Literal n = literal();
        bool whole = !is_float(storage(a.type.elem));
        item.kind = whole ? AstAttr::Kind::Int : AstAttr::Kind::Float;
        if (whole) item.integer = to_integer(source_, n, a.type.elem);
        item.number = whole ? static_cast<double>(item.integer) : to_float(source_, n, a.type.elem);
      }
      a.items.push_back(std::move(item));
    } while (accept(","));
  }
  expect(">");
  return a;
}

// dense<…> : type, after the word; elements are looked at when they are wanted.
AstAttr Parser::elements(AstAttr a) {
  a.raw = balanced('<', '>');
  if (a.kind == AstAttr::Kind::Resource) {
    Parser inner(source_, a.raw);
    a.text = std::string(inner.word());
    if (!inner.at_end()) inner.fail("expected the name of a resource");
  }
  if (accept(":")) {
    a.type = type();
  } else {
    fail("expected the type of the elements");
  }
  return a;
}

AstAttr Parser::hash_attribute() {
  AstAttr a;
  a.pos = position();
  expect("#");
  Offset begin = at_;
  while (at_ < end_ && is_word(look())) ++at_;
  a.text = std::string(slice(begin, at_));
  a.kind = AstAttr::Kind::Dialect;
  if (look() == '<') {
    a.raw = balanced('<', '>');
    return a;
  }
  auto it = aliases_.find(str("#", a.text));
  if (it == aliases_.end()) source_.fail(a.pos, str("unknown attribute \"#", a.text.substr(0, 40), "\""));
  spend(it->second.parts);
  return it->second.value;
}

// [0] x [1] -> [2]: what dot_general and convolution print.
AstAttr Parser::chain(const AstAttr& first) {
  AstAttr out;
  while (true) {
    Offset before = at_;
    if (!((accept("->") || accept("x")) && peek("["))) {
      at_ = before;
      break;
    }
    if (out.items.empty()) {
      out.kind = AstAttr::Kind::Chain;
      out.pos = first.pos;
      out.items.push_back(first);
    }
    out.items.push_back(array());
  }
  return out.items.empty() ? first : out;
}

AstAttr Parser::attribute() {
  Deeper guard(*this);
  AstAttr a;
  a.pos = position();
  char c = look();
  if (c == '"') {
    a.kind = AstAttr::Kind::String;
    a.text = string();
    if (accept(":")) a.type = type();
    return a;
  }
  if (c == '[') return chain(array());
  if (c == '{') return braces();
  if (c == '#') return hash_attribute();
  if (c == '@') {
    a.kind = AstAttr::Kind::Symbol;
    a.text = symbol();
    while (accept("::")) a.text += str("::", symbol());
    return a;
  }
  if (c == '<') {
    a.kind = AstAttr::Kind::Dialect;
    a.raw = balanced('<', '>');
    return a;
  }
  if (c == '(') {  // a function type
    a.kind = AstAttr::Kind::Type;
    AstAttr in, out;
    for (auto& t : types_or_group()) in.items.emplace_back().type = std::move(t);
    if (accept("->")) {
      for (auto& t : types_or_group()) out.items.emplace_back().type = std::move(t);
    }
    a.items = {std::move(in), std::move(out)};
    return a;
  }
  if (at_integer()) return number(true);
  if (peek("tensor") || peek("tuple") || c == '!') {
    a.kind = AstAttr::Kind::Type;
    a.type = type();
    return a;
  }
  if (c == '-' || !is_letter(c)) fail("expected an attribute");
  return word_attribute(std::move(a));
}

// An attribute that begins with a word: true, dense<…>, array<…>.
AstAttr Parser::word_attribute(AstAttr a) {
  auto w = word();
  if (w == "true" || w == "false") {
    a.kind = AstAttr::Kind::Bool;
    a.integer = w == "true";
    return a;
  }
  if (w == "dense" && peek("<")) {
    a.kind = AstAttr::Kind::Dense;
    return elements(std::move(a));
  }
  if (w == "dense_resource" && peek("<")) {
    a.kind = AstAttr::Kind::Resource;
    return elements(std::move(a));
  }
  if (w == "array" && peek("<")) return dense_array();
  if (w == "unit") return a;
  if (w == "loc") {
    balanced('(', ')');
    return a;
  }
  a.kind = AstAttr::Kind::Word;
  a.text = std::string(w);
  if (peek("<")) a.raw = balanced('<', '>');
  return a;
}

}  // namespace tessera::hlo
