// SPDX-License-Identifier: Apache-2.0
// Looking up, and what the dialect `builtin` encodes.
#include "hlo/bytecode/bytecode_values.h"

#include "base/strings.h"

namespace tessera::hlo {

namespace {
constexpr int kDeepest = 100;                            // attributes within attributes
constexpr std::size_t kFreeText = std::size_t{1} << 24;  // characters for files of any size
constexpr std::size_t kTextPerByte = 64;
}  // namespace

// Counts how deep attributes and types are nested.
struct BytecodeValues::Deeper {
  explicit Deeper(BytecodeValues& v, std::size_t offset) : values(v) {
    if (values.depth_ >= kDeepest) values.source_.fail(offset, "attributes or types are nested too deeply");
    ++values.depth_;
  }
  ~Deeper() { --values.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  BytecodeValues& values;
};

BytecodeValues::BytecodeValues(const BytecodeSource& source, const BytecodeTables& tables)
    : source_(source),
      tables_(tables),
      nowhere_(source, {}),
      types_(tables.types.size()),
      attrs_(tables.attributes.size()),
      budget_(kFreeText + kTextPerByte * source.bytes.size()) {}

void BytecodeValues::spend(std::size_t characters) {
  spent_ += characters;
  if (spent_ > budget_) source_.fail(0, str("the program's text would have more than ", budget_, " characters"));
}

const TypeNode& BytecodeValues::type(std::uint64_t i, const ByteCursor& at) {
  if (i >= types_.size()) at.fail(str("there is no type ", i, "; there are ", types_.size()));
  auto& slot = types_[static_cast<std::size_t>(i)];
  if (slot.decoded) return slot.node;
  const EncodedEntry& e = tables_.types[static_cast<std::size_t>(i)];
  Deeper guard(*this, e.range.begin);
  if (slot.busy) source_.fail(e.range.begin, "a type within itself");
  slot.busy = true;
  decode(slot.node, e);
  spend(slot.node.text.size());
  slot.decoded = true;
  return slot.node;
}

const AttrNode& BytecodeValues::attr(std::uint64_t i, const ByteCursor& at) {
  if (i >= attrs_.size()) at.fail(str("there is no attribute ", i, "; there are ", attrs_.size()));
  auto& slot = attrs_[static_cast<std::size_t>(i)];
  if (slot.decoded) return slot.node;
  const EncodedEntry& e = tables_.attributes[static_cast<std::size_t>(i)];
  Deeper guard(*this, e.range.begin);
  if (slot.busy) source_.fail(e.range.begin, "an attribute within itself");
  slot.busy = true;
  slot.node.offset = e.range.begin;
  decode(slot.node, e);
  spend(slot.node.text.size());
  slot.decoded = true;
  return slot.node;
}

const std::string& BytecodeValues::text(std::uint32_t i) {
  const AttrNode& a = attr(i);
  auto& slot = attrs_[i];
  if (slot.printed) return slot.text;
  Deeper guard(*this, a.offset);
  slot.text = printed(a);
  spend(slot.text.size());
  slot.printed = true;
  return slot.text;
}

const std::string& BytecodeValues::inside(std::uint32_t i) {
  const AttrNode& a = attr(i);
  return a.kind == AttrNode::Kind::Part ? a.text : text(i);
}

std::uint32_t BytecodeValues::type_number(ByteCursor& c) {
  std::uint64_t i = c.varint();
  type(i, c);
  return static_cast<std::uint32_t>(i);
}
std::uint32_t BytecodeValues::attr_number(ByteCursor& c) {
  std::uint64_t i = c.varint();
  if (i >= attrs_.size()) c.fail(str("there is no attribute ", i, "; there are ", attrs_.size()));
  return static_cast<std::uint32_t>(i);
}

void BytecodeValues::decode(TypeNode& to, const EncodedEntry& e) {
  ByteCursor c(source_, e.range);
  if (!e.custom) {
    to.text = std::string(c.c_string());
  } else if (e.dialect == "builtin") {
    builtin_type(to, c);
  } else if (e.dialect == "vhlo") {
    vhlo_type(to, c);
  } else if (e.dialect == "stablehlo" && c.varint() == 0) {
    to.text = "!stablehlo.token";  // Shardy's regions keep it, which VHLO does not reach
  } else {
    c.fail(str("types of the dialect \"", e.dialect.substr(0, 40), "\" are not read"));
  }
  if (!c.at_end()) c.fail("data behind a type");
}

void BytecodeValues::decode(AttrNode& to, const EncodedEntry& e) {
  ByteCursor c(source_, e.range);
  if (!e.custom) {
    to.kind = AttrNode::Kind::Text;
    to.text = std::string(c.c_string());
  } else if (e.dialect == "builtin") {
    builtin_attr(to, c);
  } else if (e.dialect == "vhlo") {
    vhlo_attr(to, c);
  } else if (e.dialect == "sdy") {
    sdy_attr(to, c);
  } else {
    std::string hint = e.dialect == "stablehlo" ? "; write the module as a portable artifact" : "";
    c.fail(str("attributes of the dialect \"", e.dialect.substr(0, 40), "\" are not read", hint));
  }
  if (!c.at_end()) c.fail("data behind an attribute");
}

// --- types ---------------------------------------------------------------------------------------------------------

void BytecodeValues::number_type(TypeNode& to, TypeNode::Kind kind, int width, std::string_view text) {
  to.kind = kind;
  to.width = width;
  to.text = std::string(text);
}

void BytecodeValues::tensor_type(TypeNode& to, ByteCursor& c, bool encoded) {
  std::string encoding;
  if (encoded) encoding = str(", ", text(attr_number(c)));
  to.kind = TypeNode::Kind::Tensor;
  std::size_t rank = c.count();
  to.text = "tensor<";
  for (std::size_t i = 0; i < rank; ++i) {
    to.shape.push_back(c.signed_varint());
    to.text += to.shape.back() < 0 ? "?x" : str(to.shape.back(), "x");
  }
  to.element = type_number(c);
  to.text += str(type(to.element).text, encoding, ">");
}

std::string BytecodeValues::type_list(ByteCursor& c) {
  std::string out;
  for (std::size_t n = c.count(); n > 0; --n) {
    if (!out.empty()) out += ", ";
    out += type(type_number(c)).text;
    bound(out);
  }
  return out;
}

void BytecodeValues::function_type(TypeNode& to, ByteCursor& c) {
  std::string in = type_list(c), out = type_list(c);
  to.text = str("(", in, ") -> (", out, ")");
}

void BytecodeValues::builtin_type(TypeNode& to, ByteCursor& c) {
  using Kind = TypeNode::Kind;
  std::uint64_t code = c.varint();
  switch (code) {
    case 0: {
      std::uint64_t v = c.varint(), width = v >> 2;
      if (width == 0 || width > 64) c.fail(str("integers of ", width, " bits"));
      static constexpr const char* kSigns[] = {"i", "si", "ui", ""};
      if ((v & 3) == 3) c.fail("a bad kind of integer");
      return number_type(to, (v & 3) == 2 ? Kind::Unsigned : Kind::Integer, static_cast<int>(width),
                         str(kSigns[v & 3], width));
    }
    case 1:
      return number_type(to, Kind::Index, 64, "index");
    case 2:
      return function_type(to, c);
    case 3:
      return number_type(to, Kind::Float, 16, "bf16");
    case 4:
      return number_type(to, Kind::Float, 16, "f16");
    case 5:
      return number_type(to, Kind::Float, 32, "f32");
    case 6:
      return number_type(to, Kind::Float, 64, "f64");
    case 9:
      to.text = str("complex<", type(type_number(c)).text, ">");
      return;
    case 12:
      return number_type(to, Kind::None, 0, "none");
    case 13:
      return tensor_type(to, c, false);
    case 14:
      return tensor_type(to, c, true);
    case 15:
      to.text = str("tuple<", type_list(c), ">");
      return;
    default:
      c.fail(str("builtin types of code ", code, " are not read"));
  }
}

// --- attributes ----------------------------------------------------------------------------------------------------

std::uint64_t BytecodeValues::read_bits(ByteCursor& c, int width) {
  return width <= 8 ? c.byte() : static_cast<std::uint64_t>(c.signed_varint());
}

void BytecodeValues::read_integer(AttrNode& to, ByteCursor& c) {
  to.kind = AttrNode::Kind::Integer;
  to.type = type_number(c);
  const TypeNode& t = type(to.type);
  using Kind = TypeNode::Kind;
  if (t.kind != Kind::Integer && t.kind != Kind::Unsigned && t.kind != Kind::Index) {
    c.fail(str("an integer of type ", t.text.substr(0, 60)));
  }
  std::uint64_t high = read_bits(c, t.width) << (64 - t.width);
  to.integer = t.kind == Kind::Unsigned ? static_cast<std::int64_t>(high >> (64 - t.width))
                                        : static_cast<std::int64_t>(high) >> (64 - t.width);
  if (t.kind == Kind::Integer && t.width == 1) {
    to.kind = AttrNode::Kind::Bool;
    to.integer &= 1;
  }
}

void BytecodeValues::read_float(AttrNode& to, ByteCursor& c) {
  to.kind = AttrNode::Kind::Float;
  to.type = type_number(c);
  const TypeNode& t = type(to.type);
  if (t.kind != TypeNode::Kind::Float) c.fail(str("a float of type ", t.text.substr(0, 60)));
  std::uint64_t high = read_bits(c, t.width) << (64 - t.width);
  to.integer = static_cast<std::int64_t>(high >> (64 - t.width));
}

void BytecodeValues::read_list(AttrNode& to, ByteCursor& c) {
  to.kind = AttrNode::Kind::Array;
  for (std::size_t n = c.count(); n > 0; --n) to.items.push_back(attr_number(c));
}

void BytecodeValues::read_dict(AttrNode& to, ByteCursor& c) {
  to.kind = AttrNode::Kind::Dict;
  for (std::size_t n = c.count(); n > 0; --n) {
    to.items.push_back(attr_number(c));
    if (attr(to.items.back()).kind != AttrNode::Kind::String) c.fail("the name of an attribute is no string");
    to.items.push_back(attr_number(c));
  }
}

void BytecodeValues::builtin_attr(AttrNode& to, ByteCursor& c) {
  using Kind = AttrNode::Kind;
  std::uint64_t code = c.varint();
  switch (code) {
    case 0:
      return read_list(to, c);
    case 1:
      return read_dict(to, c);
    case 2:
    case 3:
      to.kind = Kind::String;
      to.text = std::string(tables_.string(c));
      if (code == 3) to.type = type_number(c);
      return;
    case 4:
    case 5:
      to.kind = Kind::Symbol;
      to.text = attr(attr_number(c)).text;
      for (std::size_t n = code == 5 ? c.count() : 0; n > 0; --n) {
        to.text += str("::", attr(attr_number(c)).text);
        bound(to.text);
      }
      return;
    case 6:
      to.kind = Kind::Type;
      to.type = type_number(c);
      return;
    case 7:
      return;
    case 8:
      return read_integer(to, c);
    case 9:
      return read_float(to, c);
    case 17:
    case 18:
      return builtin_elements(to, c, code);
    default:
      return location(to, c, code);
  }
}

void BytecodeValues::builtin_elements(AttrNode& to, ByteCursor& c, std::uint64_t code) {
  using Kind = AttrNode::Kind;
  to.type = type_number(c);
  to.kind = code == 17 ? Kind::Integers : Kind::Elements;
  if (code == 17) c.varint();  // how many: the bytes say it too
  to.text = std::string(c.bytes(c.varint()));
}

void BytecodeValues::location(AttrNode& to, ByteCursor& c, std::uint64_t code) {
  using Kind = AttrNode::Kind;
  switch (code) {
    case 10:
      to.kind = Kind::CallSite;
      to.items = {attr_number(c)};
      to.items.push_back(attr_number(c));
      return;
    case 11:
      to.kind = Kind::FileLine;
      to.text = attr(attr_number(c)).text;
      to.integer = static_cast<std::int64_t>(c.varint() & 0xFFFFFFFF);
      c.varint();  // the column
      return;
    case 12:
    case 13:
      read_list(to, c);
      to.kind = Kind::Fused;
      if (code == 13) attr_number(c);  // data about it
      return;
    case 14:
      to.kind = Kind::NameLoc;
      to.text = attr(attr_number(c)).text;
      to.items = {attr_number(c)};
      return;
    case 15:
      to.kind = Kind::UnknownLoc;
      return;
    case 22: {  // from a line and column to others
      to.kind = Kind::FileLine;
      to.text = attr(attr_number(c)).text;
      std::size_t n = c.count();
      for (std::size_t i = 0; i < n; ++i) {
        std::uint64_t v = c.varint();
        if (i == 0) to.integer = static_cast<std::int64_t>(v & 0xFFFFFFFF);
      }
      return;
    }
    default:
      c.fail(str("builtin attributes of code ", code, " are not read"));
  }
}

}  // namespace tessera::hlo
