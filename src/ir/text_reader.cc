// SPDX-License-Identifier: Apache-2.0
#include "ir/text_reader.h"

#include <algorithm>
#include <charconv>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::ir {

namespace {
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }
bool is_name(char c) { return is_word(c) || c == ':'; }
}  // namespace

std::string name_text(const std::string& name) {
  bool plain = !name.empty() && name.back() != ':' && std::all_of(name.begin(), name.end(), is_name);
  return plain ? name : quoted_text(name);
}
std::string quoted_text(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

void TextReader::skip_blanks(bool lines) {
  while (at_ < text_.size() && (text_[at_] == ' ' || (lines && text_[at_] == '\n'))) ++at_;
}
bool TextReader::peek(std::string_view token) {
  skip_blanks(true);
  return text_.substr(at_).starts_with(token);
}
bool TextReader::accept(std::string_view token) {
  bool there = peek(token);
  if (there) at_ += token.size();
  return there;
}
void TextReader::expect(std::string_view token) {
  if (!accept(token)) fail(str("'", token, "'"));
}
std::string_view TextReader::word() {
  skip_blanks(true);
  return word_on_line();
}
std::string_view TextReader::word_on_line() {
  skip_blanks(false);
  std::size_t begin = at_;
  while (at_ < text_.size() && is_word(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}
std::string TextReader::name() {
  if (peek("\"")) return quoted();
  std::size_t begin = at_;
  while (at_ < text_.size() && is_name(text_[at_])) ++at_;
  if (at_ > begin && text_[at_ - 1] == ':') --at_;  // "x: sum"
  if (at_ == begin) fail("a name");
  return std::string(text_.substr(begin, at_ - begin));
}
std::string TextReader::quoted() {
  expect("\"");
  std::string out;
  for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size();
    if (escaped) ++at_;
    out += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
  }
  if (at_ == text_.size()) fail("'\"' at the end of a string");
  ++at_;
  return out;
}
std::int64_t TextReader::integer() {
  skip_blanks(true);
  std::int64_t v = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
  if (error != std::errc()) fail("an integer of 64 bits");
  at_ = static_cast<std::size_t>(end - text_.data());
  return v;
}
std::string_view TextReader::until(std::string_view stops) {
  skip_blanks(true);
  std::size_t begin = at_;
  at_ = std::min(text_.find_first_of(stops, at_), text_.size());
  return text_.substr(begin, at_ - begin);
}
bool TextReader::at_end() {
  skip_blanks(true);
  return at_ == text_.size();
}
const OpDef& TextReader::op(std::string_view name) const {
  const OpDef* found = find_(name);
  if (found == nullptr) fail(str("the name of an op, got '", name, "'"));
  return *found;
}

void TextReader::fail(const std::string& expected) const {
  auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
  std::string_view rest = text_.substr(at_);
  rest = rest.substr(0, std::min<std::size_t>(rest.find('\n'), 40));
  throw ValueError(str("graph text, line ", line, ": expected ", expected, ", found ",
                       at_ == text_.size() ? std::string("the end")
                       : rest.empty()      ? std::string("the end of the line")
                                           : str("'", rest, "'")));
}

}  // namespace tessera::ir
