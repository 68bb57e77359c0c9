// SPDX-License-Identifier: Apache-2.0
// Operations and regions.
//
// Pretty forms are read by one loose grammar: after the operation's name come operands, words, `key = value` pairs,
// bracketed lists and attribute dictionaries in any order, then a colon and types. Only operations with regions in
// their pretty form need rules of their own.
#include <utility>

#include "base/strings.h"
#include "hlo/text/parse.h"
#include "hlo/text/parse_common.h"

namespace tessera::hlo {

namespace {
std::int64_t result_count(const AstOp& op) {
  std::int64_t n = 0;
  for (const auto& r : op.results) n += r.count;
  return n;
}
}  // namespace

void Parser::results(AstOp& op) {
  if (!peek("%")) return;
  do {
    AstResult r;
    r.name = value_name();
    if (accept(":")) r.count = integer();
    if (r.count < 1 || r.count > 1 << 20) fail("a bad count of results");
    op.results.push_back(r);
  } while (accept(","));
  expect("=");
}

void Parser::operands(AstOp& op) {
  expect("(");
  while (!accept(")")) {
    op.operands.push_back(value_name());
    if (!accept(",") && !peek(")")) fail("expected \",\" or \")\" between operands");
  }
}

void Parser::merge_dict(AstOp& op, AstAttr d) {
  for (auto& f : d.fields) op.attrs.fields.push_back(std::move(f));
}

AstOp Parser::operation() {
  Deeper guard(*this);
  AstOp op;
  op.attrs = empty_dict();
  results(op);
  op.pos = position();
  if (peek("\"")) {
    at_ = op.pos + 1;
    Offset begin = at_;
    while (at_ < end_ && look() != '"') ++at_;
    op.name = slice(begin, at_);
    expect("\"");
    generic(op);
  } else {
    op.name = word();
    if (op.name.empty()) fail("expected an operation");
    if (op.name == "return") op.name = "func.return";
    if (op.name == "call") op.name = "func.call";
    pretty(op);
  }
  op.location = location();
  auto n = static_cast<std::size_t>(result_count(op));
  if (op.result_types.size() != n && n > 0) {
    source_.fail(op.pos, str(op.name, " names ", n, " results and gives ", op.result_types.size(), " types"));
  }
  return op;
}

void Parser::generic(AstOp& op) {
  operands(op);
  if (accept("[")) fail("successors (branches between blocks) are not supported");
  if (peek("<")) {
    expect("<");
    merge_dict(op, dict());
    expect(">");
  }
  if (peek("(")) {
    expect("(");
    if (!peek("{")) fail("expected a region");
    do {
      op.regions.push_back(region({}));
    } while (accept(","));
    expect(")");
  }
  if (peek("{")) merge_dict(op, dict());
  expect(":");
  op.operand_types = types_or_group();
  expect("->");
  op.result_types = types_or_group();
  if (op.operand_types.size() != op.operands.size()) {
    source_.fail(op.pos,
                 str(op.name, " has ", op.operands.size(), " operands and ", op.operand_types.size(), " types"));
  }
}

// ": types", "(types) -> types", after everything else.
void Parser::signature(AstOp& op) {
  std::vector<AstType> left;
  bool group = peek("(");
  left = group ? types_or_group() : type_list();
  if (accept("->")) {
    op.operand_types = std::move(left);
    op.result_types = types_or_group();
    return;
  }
  auto n = static_cast<std::size_t>(result_count(op));
  if (n == 0) {
    op.operand_types = std::move(left);
  } else if (n == 1 && !left.empty()) {
    op.result_types = {left.back()};  // select prints the type of its predicate first
  } else {
    op.result_types = std::move(left);
  }
}

bool Parser::item(AstOp& op) {
  Deeper guard(*this);
  skip_space();
  char c = look();
  if (c == '%') {
    op.operands.push_back(value_name());
    return true;
  }
  if (c == ',') {
    ++at_;
    return true;
  }
  if (c == '(') {
    parenthesized(op);
    return true;
  }
  if (c == '{') {
    AstAttr d = braces();
    if (d.kind == AstAttr::Kind::Dict) {
      merge_dict(op, std::move(d));
    } else {
      op.words.push_back(std::move(d));
    }
    return true;
  }
  if (c == '[') {
    AstAttr a;
    a.kind = AstAttr::Kind::Dialect;
    a.pos = at_;
    a.raw = balanced('[', ']');
    op.words.push_back(std::move(a));
    return true;
  }
  if (c == ':' || c == '}' || c == ')' || at_ >= end_) return false;
  return named_or_plain_attribute(op);
}

// Operands, or the arguments of a region.
void Parser::parenthesized(AstOp& op) {
  Offset begin = at_;
  ++at_;
  bool args = false;
  if (peek("%")) {
    value_name();
    args = peek(":");
  }
  at_ = begin;
  if (args) {
    auto list = block_args();
    op.regions.push_back(region(std::move(list)));
    return;
  }
  ++at_;
  while (!accept(")")) {
    if (!item(op)) fail("expected operands");
  }
}

// "name = attribute", "attributes {…}", or an attribute alone; false where the operation ends with it.
bool Parser::named_or_plain_attribute(AstOp& op) {
  Offset begin = at_;
  auto w = word();
  if (!w.empty() && peek("=") && !peek("==")) {
    expect("=");
    // "dim = 0 : types": the colon is the operation's.
    AstField f{std::string(w), at_integer() ? number(false) : attribute()};
    op.attrs.fields.push_back(std::move(f));
    return true;
  }
  if (w == "attributes" && peek("{")) {
    merge_dict(op, dict());
    return true;
  }
  at_ = begin;
  AstAttr a = attribute();
  bool typed = a.kind == AstAttr::Kind::Dense || a.kind == AstAttr::Kind::Resource;
  if (typed) op.result_types = {a.type};
  op.words.push_back(std::move(a));
  return !typed;
}

void Parser::pretty(AstOp& op) {
  if (op.name == "stablehlo.reduce") return reduce(op);
  if (op.name == "stablehlo.while") return while_loop(op);
  if (op.name == "sdy.manual_computation") return manual_computation(op);
  if (op.name == "sdy.mesh") {
    AstAttr name;
    name.kind = AstAttr::Kind::Symbol;
    name.text = symbol();
    op.words.push_back(std::move(name));
    expect("=");
    op.words.push_back(attribute());
    if (peek("{")) merge_dict(op, dict());
    return;
  }
  while (item(op)) {
    bool returns = op.name == "func.return" || op.name == "stablehlo.return" || op.name == "sdy.return";
    if (returns && peek("}")) break;
  }
  if (op.result_types.empty() && accept(":")) signature(op);
}

// stablehlo.reduce(%0 init: %1), (%2 init: %3) applies stablehlo.add across dimensions = [0] : types
// … across dimensions = [0] : types reducer(%a: t, %b: t) (%c: t, %d: t) { … }
void Parser::reduce(AstOp& op) {
  std::vector<std::string_view> starts;
  do {
    expect("(");
    op.operands.push_back(value_name());
    expect("init");
    expect(":");
    starts.push_back(value_name());
    expect(")");
  } while (accept(","));
  op.operands.insert(op.operands.end(), starts.begin(), starts.end());
  if (accept("applies")) {
    AstAttr applied;
    applied.kind = AstAttr::Kind::Word;
    applied.pos = position();
    applied.text = std::string(word());
    op.words.push_back(std::move(applied));
  }
  expect("across");
  while (item(op)) {
  }
  expect(":");
  signature(op);
  if (!accept("reducer")) return;
  std::vector<AstArg> left, right;
  while (peek("(")) {
    auto pair = block_args();
    if (pair.size() != 2) fail("expected two arguments in each pair of a reducer");
    left.push_back(std::move(pair[0]));
    right.push_back(std::move(pair[1]));
  }
  left.insert(left.end(), std::make_move_iterator(right.begin()), std::make_move_iterator(right.end()));
  op.regions.push_back(region(std::move(left)));
}

// stablehlo.while(%a = %0, %b = %1) : types attributes {…} cond { … } do { … }
void Parser::while_loop(AstOp& op) {
  std::vector<AstArg> args;
  expect("(");
  while (!accept(")")) {
    AstArg a;
    a.name = value_name();
    expect("=");
    op.operands.push_back(value_name());
    args.push_back(a);
    if (!accept(",") && !peek(")")) fail("expected \",\" or \")\"");
  }
  if (accept(":")) {
    op.result_types = peek("(") ? types_or_group() : type_list();
    op.operand_types = op.result_types;
  }
  if (op.result_types.size() != args.size()) fail("expected one type for each value that the loop carries");
  for (std::size_t i = 0; i < args.size(); ++i) args[i].type = op.result_types[i];
  if (accept("attributes")) merge_dict(op, dict());
  expect("cond");
  op.regions.push_back(region(args));
  expect("do");
  op.regions.push_back(region(std::move(args)));
}

// sdy.manual_computation(%0) in_shardings=[…] out_shardings=[…] manual_axes={…} (%a: t) { … } : types
void Parser::manual_computation(AstOp& op) {
  operands(op);
  for (const char* name : {"in_shardings", "out_shardings", "manual_axes"}) {
    expect(name);
    expect("=");
    AstField f{name, attribute()};
    op.attrs.fields.push_back(std::move(f));
  }
  auto args = block_args();
  op.regions.push_back(region(std::move(args)));
  if (peek("{")) merge_dict(op, dict());
  expect(":");
  signature(op);
}

// --- regions --------------------------------------------------------------------------------------------------------

std::vector<AstArg> Parser::block_args() {
  std::vector<AstArg> out;
  expect("(");
  while (!accept(")")) {
    AstArg a;
    a.name = value_name();
    expect(":");
    a.type = type();
    if (peek("{")) a.attrs = dict();
    location();
    out.push_back(std::move(a));
    if (!accept(",") && !peek(")")) fail("expected \",\" or \")\" between arguments");
  }
  return out;
}

AstRegion Parser::region(std::vector<AstArg> args) {
  Deeper guard(*this);
  AstRegion r;
  r.args = std::move(args);
  expect("{");
  if (peek("^")) {
    ++at_;
    word();
    if (peek("(")) r.args = block_args();
    expect(":");
  }
  while (!accept("}")) {
    if (peek("^")) fail("regions of several blocks are not supported");
    if (at_end()) fail("a region does not end");
    r.ops.push_back(operation());
  }
  return r;
}

}  // namespace tessera::hlo
