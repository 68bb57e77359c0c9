// SPDX-License-Identifier: Apache-2.0
// Attributes and types of a bytecode file, decoded when they are first asked for, and as text.
//
// An attribute names others by number, so that few bytes may stand for very long strings: each is made once, and
// what they add up to is bounded by the size of the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hlo/bytecode/bytecode_tables.h"

namespace tessera::hlo {

struct TypeNode {
  enum class Kind : std::uint8_t { Integer, Unsigned, Index, Float, Tensor, None, Other };
  Kind kind = Kind::Other;
  int width = 0;                    ///< bits of a number
  std::uint32_t element = 0;        ///< type of a tensor's elements
  std::vector<std::int64_t> shape;  ///< of a tensor; negative where it is not fixed
  std::string text;                 ///< "tensor<2xf32>"
};

struct AttrNode {
  enum class Kind : std::uint8_t {
    Unit,
    Bool,
    Integer,
    Float,  ///< `integer` is its bits
    String,
    Symbol,
    Array,     ///< `items`
    Dict,      ///< `items`: names and values in turn; names are strings
    Type,      ///< `type`
    Elements,  ///< of type `type`, `text` is their bytes
    Integers,  ///< of type `type`, `text` is their bytes: an array without a shape
    Word,      ///< `text` of the enumeration `name`
    Text,      ///< `text` as it stands
    Part,      ///< of the attribute kind `name`, `text` is what stands inside its brackets
    FileLine,  ///< a file `text`, line `integer`
    CallSite,  ///< `items`: where a function's body is, and where it was called
    NameLoc,   ///< named `text`, with a location in `items`
    Fused,     ///< `items`
    UnknownLoc,
  };
  Kind kind = Kind::Unit;
  std::int64_t integer = 0;
  std::uint32_t type = 0;
  std::string_view name;
  std::string text;
  std::vector<std::uint32_t> items;
  std::size_t offset = 0;  ///< in the file
};

class BytecodeValues {
 public:
  BytecodeValues(const BytecodeSource& source, const BytecodeTables& tables);

  const TypeNode& type(std::uint64_t i, const ByteCursor& at);
  const AttrNode& attr(std::uint64_t i, const ByteCursor& at);
  // Of numbers that were looked up before.
  const TypeNode& type(std::uint32_t i) { return type(i, nowhere_); }
  const AttrNode& attr(std::uint32_t i) { return attr(i, nowhere_); }
  /// The attribute as text: "1 : i64", "#stablehlo<precision HIGH>".
  const std::string& text(std::uint32_t i);
  /// What stands inside `#sdy.sharding<…>` where the attribute stands within another.
  const std::string& inside(std::uint32_t i);
  /// The number that stands at the cursor.
  std::uint32_t type_number(ByteCursor& c);
  std::uint32_t attr_number(ByteCursor& c);

  /// Elements of an attribute that holds a list of integers or truth values; fails for any other, and for lists of more
  /// than 65,536.
  std::vector<std::int64_t> integers(const AttrNode& a);
  [[noreturn]] void fail(const AttrNode& a, const std::string& what) const { source_.fail(a.offset, what); }

  /// Counts text that was made; fails beyond what a file of this size may ask for.
  void spend(std::size_t characters);

 private:
  struct Deeper;

  /// Fails where a text that is being made is already too long.
  void bound(const std::string& text) {
    if (text.size() > budget_) spend(text.size());
  }
  void decode(TypeNode& to, const EncodedEntry& e);
  void decode(AttrNode& to, const EncodedEntry& e);
  void builtin_type(TypeNode& to, ByteCursor& c);
  void vhlo_type(TypeNode& to, ByteCursor& c);
  void number_type(TypeNode& to, TypeNode::Kind kind, int width, std::string_view text);
  void tensor_type(TypeNode& to, ByteCursor& c, bool encoded);
  void function_type(TypeNode& to, ByteCursor& c);
  std::string type_list(ByteCursor& c);

  void builtin_attr(AttrNode& to, ByteCursor& c);
  void location(AttrNode& to, ByteCursor& c, std::uint64_t code);
  void builtin_elements(AttrNode& to, ByteCursor& c, std::uint64_t code);
  void vhlo_attr(AttrNode& to, ByteCursor& c);
  void vhlo_part(AttrNode& to, ByteCursor& c, std::uint64_t code);
  void mesh_part(AttrNode& to, ByteCursor& c, std::uint64_t code);  // meshes and axes of replica groups
  void sdy_attr(AttrNode& to, ByteCursor& c);
  void sdy_sharding(AttrNode& to, ByteCursor& c, std::uint64_t code);
  void sdy_rule(AttrNode& to, ByteCursor& c);
  void read_dict(AttrNode& to, ByteCursor& c);
  void read_list(AttrNode& to, ByteCursor& c);
  void read_integer(AttrNode& to, ByteCursor& c);
  void read_float(AttrNode& to, ByteCursor& c);
  void read_word(AttrNode& to, ByteCursor& c, std::string_view name, std::initializer_list<std::string_view> words);
  std::uint64_t read_bits(ByteCursor& c, int width);
  std::string parts(ByteCursor& c, std::string_view open, std::string_view close);

  std::string printed(const AttrNode& a);
  std::string printed_integer(const AttrNode& a);
  std::string printed_elements(const AttrNode& a);
  std::string printed_integers(const AttrNode& a);
  std::string printed_items(const AttrNode& a);

  template <class Node>
  struct Slot {
    Node node;
    std::string text;
    bool decoded = false;
    bool busy = false;  // being decoded
    bool printed = false;
  };

  const BytecodeSource& source_;
  const BytecodeTables& tables_;
  ByteCursor nowhere_;
  std::vector<Slot<TypeNode>> types_;
  std::vector<Slot<AttrNode>> attrs_;
  std::size_t spent_ = 0;
  std::size_t budget_;
  int depth_ = 0;
};

/// The string between quotes, with what needs it as "\22".
std::string quoted(std::string_view s);
/// "0x…" of the bytes, in quotes.
std::string hex_text(std::string_view bytes);

}  // namespace tessera::hlo
