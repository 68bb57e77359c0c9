// SPDX-License-Identifier: Apache-2.0
// A cursor over the text of a graph: words, literals and punctuation, with errors that name the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::ir {

class OpDef;
/// The op of this name, or null. Layers that know ops by name give it.
using OpLookup = const OpDef* (*)(std::string_view name);

/// How constants are printed: `Short` elides those of more than 16 elements, and such text cannot be read again.
enum class TextForm : std::uint8_t { Short, Full };

/// A name as it is where it consists of letters, digits, '_' and, but for its end, ':'; else quoted.
std::string name_text(const std::string& name);
/// In double quotes; quotes, backslashes and line breaks are escaped.
std::string quoted_text(const std::string& text);

class TextReader {
 public:
  TextReader(std::string_view text, OpLookup find) : text_(text), find_(find) {}

  /// Takes `token` if it is next, after blanks and line breaks.
  bool accept(std::string_view token);
  bool peek(std::string_view token);
  void expect(std::string_view token);
  /// Letters, digits and '_'; empty where there are none.
  std::string_view word();
  /// A word that begins on this line; empty where there is none.
  std::string_view word_on_line();
  /// What `name_text` writes.
  std::string name();
  std::string quoted();
  std::int64_t integer();
  /// Everything up to one of these characters.
  std::string_view until(std::string_view stops);
  bool at_end();
  const OpDef& op(std::string_view name) const;

  /// Throws `ValueError`: "graph text, line 3: expected …, found …".
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  void skip_blanks(bool lines);

  std::string_view text_;
  OpLookup find_;
  std::size_t at_ = 0;
};

}  // namespace tessera::ir
