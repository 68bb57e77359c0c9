// SPDX-License-Identifier: Apache-2.0
// MLIR text to AST. Takes what JAX 0.10.2 and XLA print (pretty and generic forms).
//
// The text is untrusted: nesting deeper than kMaxDepth is refused, and what is built is bounded by the text's length.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "hlo/text/ast.h"

namespace tessera::hlo {

inline constexpr int kMaxDepth = 200;
/// What aliases may expand to beyond the length of the text: parts of attributes and types.
inline constexpr std::int64_t kMaxAliased = std::int64_t{1} << 18;

/// A number as the text spells it.
struct Literal {
  Offset pos = 0;
  std::string_view text;
  bool negative = false;
  bool hex = false;
  bool whole = true;            ///< neither a point nor an exponent
  bool fits = true;             ///< a whole one's digits are `magnitude`
  std::uint64_t magnitude = 0;  ///< of whole ones
  double value = 0;             ///< of decimal ones, without the sign; infinite beyond the largest double
};

class Parser {
 public:
  explicit Parser(const Source& source) : source_(source), end_(static_cast<Offset>(source.text().size())) {}
  /// Over a stretch of the text alone.
  Parser(const Source& source, Raw raw) : source_(source), at_(raw.begin), end_(raw.end) {}

  AstModule module();
  AstAttr attribute();
  AstAttr word_attribute(AstAttr a);
  AstType type();

  // --- shards, for attributes that importers look into
  bool at_end();
  bool accept(std::string_view token);
  void expect(std::string_view token);
  bool peek(std::string_view token);
  /// Bare word, or "" when there is none here.
  std::string_view word();
  std::string string();
  std::int64_t integer();
  bool at_integer();
  Literal literal();
  Offset position();
  /// Skips the string that begins here; gives the offset of its last quote.
  Offset closing_quote();
  /// Skips brackets with everything between them; gives what stands inside. "->" does not close.
  Raw balanced(char open, char close);
  [[noreturn]] void fail(const std::string& what);

 private:
  friend class Deeper;

  void skip_space();
  char look(Offset ahead = 0) const { return at_ + ahead < end_ ? source_.text()[at_ + ahead] : '\0'; }
  std::string_view slice(Offset begin, Offset end) const { return source_.text().substr(begin, end - begin); }
  std::string_view value_name();
  std::string symbol();
  void skip_string();
  Raw location();

  AstType tensor_type();
  Elem element_type();
  std::vector<AstType> type_list();
  std::vector<AstType> types_or_group();

  AstAttr dict();
  AstAttr braces();
  AstAttr array();
  AstAttr dense_array();
  AstAttr elements(AstAttr a);
  AstAttr number(bool typed);
  AstAttr chain(const AstAttr& first);
  AstAttr hash_attribute();

  void module_op(AstModule& m);
  void take(AstModule& m, AstOp op);
  void resources(AstModule& m);
  void aliases(AstModule& m);
  void alias();
  void location_alias(AstModule& m);
  bool at_location_alias() const;
  void spend(std::int64_t parts);
  AstFunction function();
  AstFunction generic_function(AstOp op);

  AstRegion region(std::vector<AstArg> args);
  void block_label(AstRegion& r);
  std::vector<AstArg> block_args();
  AstOp operation();
  void results(AstOp& op);
  void operands(AstOp& op);
  void merge_dict(AstOp& op, AstAttr dict);
  void generic(AstOp& op);
  void pretty(AstOp& op);
  void reduce(AstOp& op);
  void while_loop(AstOp& op);
  void manual_computation(AstOp& op);
  bool item(AstOp& op);
  void parenthesized(AstOp& op);
  bool named_or_plain_attribute(AstOp& op);
  void signature(AstOp& op);

  // What `#name` or `!name` stands for. Each use is a copy, so what they name together is bounded.
  struct Alias {
    AstAttr value;
    AstType type;
    std::int64_t parts = 0;
  };

  const Source& source_;
  Offset at_ = 0;
  Offset end_ = 0;
  int depth_ = 0;
  std::map<std::string, Alias, std::less<>> aliases_;
  std::map<Offset, Offset> alias_ends_;  // by where a definition begins
  std::int64_t aliased_ = 0;
};

}  // namespace tessera::hlo
