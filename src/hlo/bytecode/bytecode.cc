// SPDX-License-Identifier: Apache-2.0
// Operations and regions, written as they are read.
#include "hlo/bytecode/bytecode.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "hlo/bytecode/bytecode_ops.h"
#include "hlo/bytecode/exported_file.h"
#include "tessera/error.h"

namespace tessera::hlo {

namespace {
// Which parts of an operation its encoding has.
enum OpParts : std::uint8_t {
  kHasAttributes = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseOrders = 32,
  kHasProperties = 64,
};
constexpr std::string_view kCast = "builtin.unrealized_conversion_cast";
constexpr int kDeepestRegion = 90;  // less than the reader of text takes

class ProgramText {
 public:
  ProgramText(const BytecodeSource& source, const BytecodeTables& tables)
      : source_(source), tables_(tables), values_(source, tables), located_(tables.attributes.size(), false) {}

  std::string text() {
    ByteCursor c(source_, tables_.operations);
    out_.reserve(source_.bytes.size() * 12);
    scopes_.emplace_back();
    bool has_arguments = false;
    std::uint64_t n = c.flagged(has_arguments);
    if (has_arguments) c.fail("the file's block has arguments");
    for (; n > 0; --n) operation(c, "");
    if (!c.at_end()) c.fail("data behind the last operation");
    locations();
    return std::move(out_);
  }

 private:
  // A value as text names it: %3, or %3#1 of several results.
  struct Value {
    std::uint32_t name = 0;  // 0: not defined yet
    std::int32_t part = -1;
    std::uint32_t type = 0;
  };
  // Values that an isolated region sees, by number.
  struct Scope {
    std::vector<Value> values;
    std::size_t next = 0;
  };
  struct Op {
    const BytecodeOpName* name = nullptr;
    std::uint32_t location = 0;
    std::vector<BytecodeField> fields;      // properties
    std::vector<BytecodeField> attributes;  // what anyone may have added
    std::vector<std::uint32_t> results;
    std::vector<Value> operands;
    std::size_t regions = 0;
    bool isolated = false;
  };

  Op header(ByteCursor& c) {
    Op op;
    std::uint64_t name = c.varint();
    if (name >= tables_.ops.size()) c.fail(str("there is no operation's name ", name));
    op.name = &tables_.ops[static_cast<std::size_t>(name)];
    const auto* known = property_names(op.name->name);
    if (known == nullptr)
      c.fail(str("the operation \"", op.name->name.substr(0, 60), "\" is not read", hint(*op.name)));
    std::uint8_t parts = c.byte();
    op.location = values_.attr_number(c);
    if ((parts & kHasAttributes) != 0) attributes(op, *known, values_.attr_number(c));
    if ((parts & kHasProperties) != 0) properties(op, *known, c);
    if ((parts & kHasResults) != 0) {
      for (std::size_t n = c.count(); n > 0; --n) op.results.push_back(values_.type_number(c));
    }
    if ((parts & kHasOperands) != 0) {
      for (std::size_t n = c.count(); n > 0; --n) op.operands.push_back(operand(c));
    }
    if ((parts & kHasSuccessors) != 0) c.fail(str(op.name->name, ": branches between blocks are not supported"));
    if ((parts & kHasUseOrders) != 0) use_orders(c, op.results.size());
    if ((parts & kHasRegions) != 0) op.regions = static_cast<std::size_t>(c.flagged(op.isolated));
    return op;
  }

  static std::string hint(const BytecodeOpName& op) {
    bool plain = op.name.starts_with("stablehlo.") || op.name.starts_with("func.");
    return plain ? "; write the module as a portable artifact" : "";
  }

  // Old files hold the properties among the attributes.
  void attributes(Op& op, const std::vector<PropertyName>& known, std::uint32_t dict) {
    const AttrNode& d = values_.attr(dict);
    if (d.kind != AttrNode::Kind::Dict) values_.fail(d, "expected the attributes of an operation");
    for (std::size_t i = 0; i + 1 < d.items.size(); i += 2) {
      BytecodeField f{values_.attr(d.items[i]).text, d.items[i + 1]};
      bool own = std::any_of(known.begin(), known.end(), [&](const PropertyName& p) { return p.name == f.name; });
      (own ? op.fields : op.attributes).push_back(f);
      if (op.fields.size() > known.size()) values_.fail(d, "a property stands here twice");
    }
  }

  void properties(Op& op, const std::vector<PropertyName>& known, ByteCursor& c) {
    if (!op.name->registered) return attributes(op, known, values_.attr_number(c));
    std::uint64_t i = c.varint();
    if (i >= tables_.properties.size()) c.fail(str("there are no properties ", i));
    ByteCursor p(source_, tables_.properties[static_cast<std::size_t>(i)]);
    for (const auto& name : known) {
      if (!name.optional) {
        op.fields.push_back({name.name, values_.attr_number(p)});
        continue;
      }
      bool has = false;
      std::uint64_t a = p.at_end() ? 0 : p.flagged(has);
      if (!has) continue;
      values_.attr(a, p);
      op.fields.push_back({name.name, static_cast<std::uint32_t>(a)});
    }
    if (!p.at_end()) p.fail(str(op.name->name, " has more properties than are known"));
  }

  // In which order a value's uses are listed: of no meaning for the program.
  static void use_orders(ByteCursor& c, std::size_t values) {
    for (std::size_t n = values > 1 ? c.count() : 1; n > 0; --n) {
      if (values > 1) c.varint();
      bool pairs = false;
      for (std::uint64_t k = c.flagged(pairs); k > 0; --k) c.varint();
    }
  }

  Value operand(ByteCursor& c) {
    const auto& values = scopes_.back().values;
    std::uint64_t i = c.varint();
    if (i >= values.size() || values[static_cast<std::size_t>(i)].name == 0) {
      c.fail(str("value ", i, " is not defined here"));
    }
    return values[static_cast<std::size_t>(i)];
  }

  void define(const ByteCursor& c, Value v) {
    Scope& s = scopes_.back();
    if (s.next >= s.values.size()) c.fail("more values than the region says");
    s.values[s.next++] = v;
  }

  void operation(ByteCursor& c, std::string_view parent) {
    Op op = header(c);
    std::string_view name = op.name->name;
    if (name == kCast) return cast(op, c);
    std::string text_name = name.starts_with("vhlo.") ? upgraded(name.substr(5), parent) : std::string(name);
    std::uint32_t id = ++names_;
    if (op.results.size() == 1) add("%", id, " = ");
    if (op.results.size() > 1) add("%", id, ":", op.results.size(), " = ");
    add("\"", text_name, "\"(");
    list(op.operands, [&](const Value& v) { put(v); });
    out_ += ')';
    fields(op, c);
    if (op.regions > 0) regions(op, c, text_name);
    discardable(op);
    out_ += " : (";
    list(op.operands, [&](const Value& v) { emit(values_.type(v.type).text); });
    out_ += ") -> (";
    list(op.results, [&](std::uint32_t t) { emit(values_.type(t).text); });
    out_ += ')';
    location(op.location);
    out_ += '\n';
    // The file's own block has no values.
    for (std::size_t i = 0; i < op.results.size() && scopes_.size() > 1; ++i) {
      define(c, {id, op.results.size() == 1 ? -1 : static_cast<std::int32_t>(i), op.results[i]});
    }
  }

  // Between VHLO's types and those of other dialects' operations: the same types as text.
  void cast(const Op& op, const ByteCursor& c) {
    if (op.operands.size() != op.results.size() || op.regions > 0) c.fail(str("a bad ", kCast));
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      Value v = op.operands[i];
      if (values_.type(v.type).text != values_.type(op.results[i]).text) c.fail(str(kCast, " between other types"));
      v.type = op.results[i];
      define(c, v);
    }
  }

  // "add_v1" as "stablehlo.add"; functions are of the dialect `func`.
  static std::string upgraded(std::string_view name, std::string_view parent) {
    name = name.substr(0, name.rfind("_v"));
    bool of_func = name == "func" || name == "call" || (name == "return" && parent == "func.func");
    return str(of_func ? "func." : "stablehlo.", name);
  }

  template <class... Ts>
  void add(const Ts&... parts) {
    (base::append_any(out_, parts), ...);
  }
  template <class T, class F>
  void list(const std::vector<T>& items, const F& put_one) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += ", ";
      put_one(items[i]);
    }
  }
  // Appends what the file may repeat at the cost of a byte or two.
  void emit(std::string_view text) {
    out_ += text;
    values_.spend(text.size());
  }
  void put(const Value& v) {
    add("%", v.name);
    if (v.part >= 0) add("#", v.part);
  }

  void fields(const Op& op, const ByteCursor& c) {
    if (op.fields.empty()) return;
    std::string_view name = op.name->name;
    std::string text;
    if (name.starts_with("vhlo.")) {
      name.remove_prefix(5);
      text = stablehlo_attributes(values_, name.substr(0, name.rfind("_v")), op.fields, c);
    } else {
      for (const auto& f : op.fields) {
        text += str(text.empty() ? "" : ", ", f.name, " = ", values_.text(f.attr));
        values_.spend(text.size());
      }
    }
    if (!text.empty()) add(" <{", text, "}>");
  }

  void discardable(const Op& op) {
    if (op.attributes.empty()) return;
    out_ += " {";
    list(op.attributes, [&](const BytecodeField& f) {
      out_ += quoted(f.name);
      if (values_.attr(f.attr).kind == AttrNode::Kind::Unit) return;
      out_ += " = ";
      emit(values_.text(f.attr));
    });
    out_ += '}';
  }

  void regions(const Op& op, ByteCursor& c, std::string_view parent) {
    if (++depth_ > kDeepestRegion) c.fail("regions are nested too deeply");
    if (op.isolated) scopes_.emplace_back();
    bool apart = op.isolated && tables_.version >= kRegionSections;
    std::uint8_t id = kOperationsSection;
    ByteCursor own(source_, apart ? c.section(id) : ByteRange{});
    if (id != kOperationsSection) c.fail("expected a section of operations");
    out_ += " (";
    for (std::size_t i = 0; i < op.regions; ++i) {
      if (i > 0) out_ += ", ";
      region(apart ? own : c, parent);
    }
    out_ += ')';
    if (apart && !own.at_end()) own.fail("data behind the last region");
    if (op.isolated) scopes_.pop_back();
    --depth_;
  }

  void region(ByteCursor& c, std::string_view parent) {
    out_ += "{\n";
    std::uint64_t blocks = c.varint();
    if (blocks > 1) c.fail("regions of several blocks are not supported");
    if (blocks == 1) {
      std::size_t n = c.count(), before = scopes_.back().values.size();
      std::size_t next = std::exchange(scopes_.back().next, before);
      scopes_.back().values.resize(before + n);
      block(c, parent);
      scopes_.back().values.resize(before);
      scopes_.back().next = next;
    }
    out_ += '}';
  }

  void block(ByteCursor& c, std::string_view parent) {
    bool has_arguments = false;
    std::uint64_t n = c.flagged(has_arguments);
    if (has_arguments) arguments(c);
    for (; n > 0; --n) operation(c, parent);
  }

  void arguments(ByteCursor& c) {
    std::size_t n = c.count();
    out_ += "^bb0(";
    for (std::size_t i = 0; i < n; ++i) {
      bool located = true;
      std::uint64_t type = tables_.version >= kNoUnknownLocations ? c.flagged(located) : c.varint();
      if (i > 0) out_ += ", ";
      Value v{++names_, -1, static_cast<std::uint32_t>(type)};
      add("%", v.name, ": ");
      emit(values_.type(type, c).text);
      if (located) values_.attr_number(c);
      define(c, v);
    }
    out_ += "):\n";
    if (tables_.version >= kUseListOrders && c.byte() != 0) use_orders(c, n);
  }

  // --- locations, each once at the end

  // Null for one that says nothing, or of a kind that is not known: no reason to refuse a program.
  const AttrNode* place(std::uint32_t i) {
    try {
      const AttrNode& a = values_.attr(i);
      return a.kind == AttrNode::Kind::UnknownLoc ? nullptr : &a;
    } catch (const FormatError&) {
      return nullptr;
    }
  }

  void location(std::uint32_t i) {
    if (place(i) == nullptr) return;
    add(" loc(#loc", i, ")");
    reach(i);
  }
  void reach(std::uint32_t i) {
    if (located_[i]) return;
    located_[i] = true;
    reached_.push_back(i);
  }
  std::string location_reference(std::uint32_t i) {
    reach(i);
    return str("#loc", i);
  }

  void locations() {
    for (std::size_t k = 0; k < reached_.size(); ++k) {  // grows
      std::size_t begin = out_.size();
      add("#loc", reached_[k], " = loc(");
      const AttrNode* a = place(reached_[k]);
      if (a != nullptr) {
        put(*a);
      } else {
        out_ += "unknown";
      }
      out_ += ")\n";
      values_.spend(out_.size() - begin);
    }
  }

  void put(const AttrNode& a) {
    switch (a.kind) {
      case AttrNode::Kind::FileLine:
        return add(quoted(a.text), ":", a.integer, ":0");
      case AttrNode::Kind::NameLoc:
        return add(quoted(a.text), "(", location_reference(a.items[0]), ")");
      case AttrNode::Kind::CallSite:
        return add("callsite(", location_reference(a.items[0]), " at ", location_reference(a.items[1]), ")");
      case AttrNode::Kind::Fused:
        out_ += "fused[";
        list(a.items, [&](std::uint32_t i) { out_ += location_reference(i); });
        out_ += ']';
        return;
      default:
        out_ += "unknown";
    }
  }

  const BytecodeSource& source_;
  const BytecodeTables& tables_;
  BytecodeValues values_;
  std::string out_;
  std::vector<Scope> scopes_;
  std::uint32_t names_ = 0;
  int depth_ = 0;
  std::vector<bool> located_;
  std::vector<std::uint32_t> reached_;
};
}  // namespace

bool is_bytecode(std::string_view bytes) { return bytes.starts_with(kBytecodeMagic); }

std::string text_of_bytecode(std::string_view bytes, const std::string& name) {
  BytecodeSource source{bytes, name, {}};
  if (auto program = exported_program(bytes)) {
    source.bytes = bytes.substr(program->begin, program->end - program->begin);
  }
  BytecodeTables tables = read_tables(source);
  return ProgramText(source, tables).text();
}

}  // namespace tessera::hlo
