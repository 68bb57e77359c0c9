// SPDX-License-Identifier: Apache-2.0
// What a module's text says, before it means anything: operations with operands by name, attributes, types, regions.
// Positions are offsets into the text; `Source` turns them into lines and columns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/dtype.h"
#include "tessera/host_array.h"
#include "tessera/shape.h"

namespace tessera::hlo {

/// Element types of the text. Those that Tessera has no dtype for are computed in a wider one and rounded
/// (hlo/import/narrow.h).
enum class Elem : std::uint8_t {
  Bool,
  I2,
  I4,
  I8,
  I16,
  I32,
  I64,
  U2,
  U4,
  U8,
  U16,
  U32,
  U64,
  F4E2M1FN,
  F6E2M3FN,
  F6E3M2FN,
  F8E3M4,
  F8E4M3,
  F8E4M3FN,
  F8E4M3FNUZ,
  F8E4M3B11FNUZ,
  F8E5M2,
  F8E5M2FNUZ,
  F8E8M0FNU,
  F16,
  BF16,
  F32,
  F64,
  C64,
  C128,
};
/// "f32", "ui8", "complex<f32>", "i1".
std::string to_string(Elem e);
/// The one that this is the name of.
std::optional<Elem> elem_named(std::string_view name);
/// Dtype that holds it: F32 for narrow floats, I8 and U8 for narrow integers.
DType storage(Elem e);
bool is_narrow_int(Elem e);
bool is_narrow_float(Elem e);
/// Bits of one element.
int bit_width(Elem e);
Elem elem_of(DType t);

struct AstType {
  enum class Kind : std::uint8_t { Tensor, Token, Tuple };
  Kind kind = Kind::Tensor;
  Elem elem = Elem::F32;
  Shape shape;
  std::vector<AstType> parts;  ///< of a tuple
  bool operator==(const AstType&) const = default;
};
std::string to_string(const AstType& t);

using Offset = std::uint32_t;

/// A stretch of the text.
struct Raw {
  Offset begin = 0;
  Offset end = 0;
};

struct AstField;
struct AstAttr {
  enum class Kind : std::uint8_t {
    Unit,
    Bool,
    Int,
    Float,
    String,
    Symbol,  ///< @name
    Word,    ///< bare word: EQ, DEFAULT
    Array,   ///< `[…]`, `array<…>`, `{"x", "y"}`; also the parts of `[0] x [1] -> [2]` (Chain)
    Chain,
    Dict,
    Type,
    Dense,     ///< elements in `raw`, of type `type`
    Resource,  ///< elements named `text`, of type `type`
    Dialect,   ///< `#name<…>` or a bare `<…>`: `raw` is what stands inside
  };
  Kind kind = Kind::Unit;
  Offset pos = 0;
  std::int64_t integer = 0;
  double number = 0;
  std::string text;
  Raw raw;
  AstType type;
  std::vector<AstAttr> items;
  std::vector<AstField> fields;

  /// Field of a Dict, or null.
  const AstAttr* find(std::string_view name) const;
};
struct AstField {
  std::string name;
  AstAttr value;
};

struct AstOp;
struct AstArg {
  std::string_view name;  ///< "%arg0"
  AstType type;
  AstAttr attrs;  ///< Dict
};
/// A region of one block; `present` tells an empty one from none.
struct AstRegion {
  std::vector<AstArg> args;
  std::vector<AstOp> ops;
};

struct AstResult {
  std::string_view name;  ///< "%0"
  std::int64_t count = 1;
};

struct AstOp {
  std::string_view name;  ///< "stablehlo.add"
  Offset pos = 0;
  std::vector<AstResult> results;
  std::vector<std::string_view> operands;  ///< "%0", "%0#1"
  AstAttr attrs;                           ///< Dict: everything that has a name
  std::vector<AstAttr> words;              ///< in order: what stands without a name
  std::vector<AstRegion> regions;
  std::vector<AstType> operand_types;  ///< empty where the text leaves them out
  std::vector<AstType> result_types;
  Raw location;  ///< what stands inside `loc(…)`; empty where there is none

  const AstAttr* find(std::string_view attr) const { return attrs.find(attr); }
};

struct AstFunction {
  std::string name;
  Offset pos = 0;
  bool is_private = false;
  std::vector<AstType> result_types;
  std::vector<AstAttr> result_attrs;  ///< Dicts
  AstAttr attrs;
  AstRegion body;  ///< its args are the function's
  bool has_body = false;
};

/// The text and where its lines begin.
class Source {
 public:
  /// Throws `FormatError` for texts of 2 GB or more.
  Source(std::string text, std::string name);
  std::string_view text() const { return text_; }
  const std::string& name() const { return name_; }
  std::int64_t line(Offset pos) const;
  std::int64_t column(Offset pos) const;
  /// Throws `FormatError`: "file:3:14: what".
  [[noreturn]] void fail(Offset pos, const std::string& what) const;
  /// "file:3:14".
  std::string where(Offset pos) const;

 private:
  std::string text_;
  std::string name_;
  std::vector<Offset> lines_;
};

struct AstModule {
  std::string name;
  AstAttr attrs;
  std::vector<AstFunction> functions;
  std::vector<AstOp> others;  ///< sdy.mesh and the like
  /// `{-# dialect_resources … #-}`: name -> the string with its hexadecimal digits.
  std::map<std::string, Raw, std::less<>> resources;
  /// `#loc3 = loc(…)`: "#loc3" -> what stands inside.
  std::unordered_map<std::string_view, Raw> locations;
};

}  // namespace tessera::hlo
