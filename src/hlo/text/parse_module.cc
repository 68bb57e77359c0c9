// SPDX-License-Identifier: Apache-2.0
// Functions and modules.
#include <utility>

#include "base/strings.h"
#include "hlo/text/parse.h"
#include "hlo/text/parse_common.h"

namespace tessera::hlo {

// Right after "func.func".
AstFunction Parser::function() {
  AstFunction f;
  f.pos = position();
  f.attrs = empty_dict();
  if (accept("private")) {
    f.is_private = true;
  } else if (!accept("public")) {
    accept("nested");
  }
  f.name = symbol();
  std::vector<AstArg> args;
  if (peek("(")) {
    Offset begin = at_;
    ++at_;
    bool named = peek("%") || peek(")");
    at_ = begin;
    if (named) {
      args = block_args();
    } else {
      for (auto& t : types_or_group()) args.push_back({{}, t, {}});
    }
  }
  if (accept("->")) {
    if (accept("(")) {
      while (!accept(")")) {
        f.result_types.push_back(type());
        f.result_attrs.push_back(peek("{") ? dict() : empty_dict());
        if (!accept(",") && !peek(")")) fail("expected \",\" or \")\" between results");
      }
    } else {
      f.result_types.push_back(type());
      f.result_attrs.push_back(empty_dict());
    }
  }
  if (accept("attributes")) f.attrs = dict();
  if (peek("{")) {
    f.has_body = true;
    f.body = region(std::move(args));
  } else {
    f.body.args = std::move(args);
  }
  location();
  return f;
}

AstFunction Parser::generic_function(AstOp op) {
  AstFunction f;
  f.pos = op.pos;
  const AstAttr* name = op.find("sym_name");
  const AstAttr* signature = op.find("function_type");
  if (name == nullptr || signature == nullptr || signature->items.size() != 2) {
    source_.fail(op.pos, "func.func needs sym_name and function_type");
  }
  f.name = name->text;
  const AstAttr* visibility = op.find("sym_visibility");
  f.is_private = visibility != nullptr && visibility->text == "private";
  for (const auto& t : signature->items[1].items) {
    f.result_types.push_back(t.type);
    f.result_attrs.push_back(empty_dict());
  }
  if (const AstAttr* a = op.find("res_attrs")) {
    for (std::size_t i = 0; i < a->items.size() && i < f.result_attrs.size(); ++i) f.result_attrs[i] = a->items[i];
  }
  if (op.regions.size() == 1) {
    f.has_body = true;
    f.body = std::move(op.regions[0]);
  }
  if (const AstAttr* a = op.find("arg_attrs")) {
    for (std::size_t i = 0; i < a->items.size() && i < f.body.args.size(); ++i) f.body.args[i].attrs = a->items[i];
  }
  f.attrs = std::move(op.attrs);
  return f;
}

void Parser::take(AstModule& m, AstOp op) {
  if (op.name == "func.func") {
    m.functions.push_back(generic_function(std::move(op)));
    return;
  }
  if (op.name != "builtin.module" && op.name != "module") {
    m.others.push_back(std::move(op));
    return;
  }
  for (auto& f : op.attrs.fields) m.attrs.fields.push_back(std::move(f));
  if (const AstAttr* name = m.attrs.find("sym_name")) m.name = name->text;
  if (op.regions.size() != 1) source_.fail(op.pos, "a module has one region");
  for (auto& inner : op.regions[0].ops) take(m, std::move(inner));
}

// One thing at the module's level; `module @name attributes {…} {` opens another.
void Parser::module_op(AstModule& m) {
  Deeper guard(*this);
  if (accept("func.func") || accept("func")) {
    m.functions.push_back(function());
    return;
  }
  if (!accept("module") && !accept("builtin.module")) {
    take(m, operation());
    return;
  }
  if (peek("@")) m.name = symbol();
  if (accept("attributes")) {
    for (auto& f : dict().fields) m.attrs.fields.push_back(std::move(f));
  }
  expect("{");
  while (!accept("}")) {
    if (at_end()) fail("the module does not end");
    module_op(m);
  }
  location();
}

namespace {
std::int64_t parts_of(const AstType& t) {
  std::int64_t n = 1;
  for (const auto& p : t.parts) n += parts_of(p);
  return n;
}
std::int64_t parts_of(const AstAttr& a) {
  std::int64_t n = parts_of(a.type);
  for (const auto& i : a.items) n += parts_of(i);
  for (const auto& f : a.fields) n += parts_of(f.value);
  return n;
}
}  // namespace

// Aliases of aliases grow exponentially with the text: what they add up to is bounded by its length.
void Parser::spend(std::int64_t parts) {
  aliased_ += parts;
  if (aliased_ > kMaxAliased + static_cast<std::int64_t>(end_)) {
    fail(str("the aliases of this module expand to more than ", kMaxAliased, " parts beyond its length"));
  }
}

// #name = attribute, !name = type, on a line of their own.
void Parser::alias() {
  Offset begin = at_++;
  while (at_ < end_ && is_word(look())) ++at_;
  std::string name(slice(begin, at_));
  expect("=");
  Alias a;
  if (name[0] == '!') {
    a.type = type();
    a.parts = parts_of(a.type);
  } else {
    a.value = attribute();
    a.parts = parts_of(a.value);
  }
  if (!aliases_.emplace(name, std::move(a)).second) {
    source_.fail(begin, str("alias \"", name.substr(0, 40), "\" is defined twice"));
  }
  alias_ends_[begin] = at_;
}

// #loc3 = loc(…), kept as it stands.
void Parser::location_alias(AstModule& m) {
  Offset begin = at_;
  at_ += 4;
  while (is_digit(look())) ++at_;
  std::string_view name = slice(begin, at_);
  if (accept("=") && accept("loc")) m.locations.emplace(name, balanced('(', ')'));
}

// Whether `#loc` or `#loc12` begins here.
bool Parser::at_location_alias() const {
  if (slice(at_, end_).substr(0, 4) != "#loc") return false;
  Offset i = 4;
  while (is_digit(look(i))) ++i;
  return !is_word(look(i));
}

// An alias may stand behind what uses it (JAX prints locations so), so they are collected first.
void Parser::aliases(AstModule& m) {
  Offset begin = position();
  while (at_ < end_) {
    Offset here = at_;
    if (at_location_alias()) {
      location_alias(m);
    } else if (look() == '#' || look() == '!') {
      alias();
    }
    auto line_end = source_.text().find('\n', here);
    at_ = line_end < end_ ? static_cast<Offset>(line_end + 1) : end_;
  }
  at_ = begin;
}

// {-# dialect_resources: { builtin: { name: "0x…" } }, external_resources: { … } #-}
void Parser::resources(AstModule& m) {
  expect("{-#");
  while (!accept("#-}")) {
    if (at_end()) fail("the resources do not end");
    std::string key = peek("\"") ? string() : std::string(word());
    if (key.empty()) {
      ++at_;  // punctuation between the parts
      continue;
    }
    if (!accept(":")) continue;
    if (!peek("\"")) continue;
    Raw raw;
    raw.begin = at_ + 1;
    at_ = raw.begin;
    while (at_ < end_ && look() != '"') ++at_;
    raw.end = at_;
    expect("\"");
    m.resources[key] = raw;
  }
}

AstModule Parser::module() {
  AstModule m;
  m.attrs = empty_dict();
  aliases(m);
  while (!at_end()) {
    if (peek("{-#")) {
      resources(m);
    } else if (auto it = alias_ends_.find(at_); it != alias_ends_.end()) {
      at_ = it->second;
    } else if (look() == '#' || look() == '!') {  // a location
      while (at_ < end_ && look() != '\n') ++at_;
    } else {
      module_op(m);
    }
  }
  return m;
}

}  // namespace tessera::hlo
