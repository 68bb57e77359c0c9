// SPDX-License-Identifier: Apache-2.0
#include "values.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"
#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::cli {

namespace {

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool same_file(const std::string& a, const std::string& b) {
  std::error_code none;
  if (std::filesystem::equivalent(a, b, none)) return std::filesystem::is_regular_file(a, none);
  if (std::filesystem::exists(a, none) || std::filesystem::exists(b, none)) return false;
  return std::filesystem::weakly_canonical(a, none) == std::filesystem::weakly_canonical(b, none);
}

}  // namespace

std::int64_t integer_value(const std::string& what, const std::string& text, const std::string& digits) {
  std::int64_t n = 0;
  const char* end = digits.data() + digits.size();
  auto [stop, error] = std::from_chars(digits.data(), end, n);
  if (error == std::errc::result_out_of_range) throw OptionError(str(what, ": \"", text, "\" is too large"));
  if (error != std::errc() || stop != end || !digit(digits[0])) {
    throw OptionError(str(what, ": \"", text, "\"; expected integers, not \"", digits, "\""));
  }
  return n;
}

std::vector<std::pair<std::string, std::int64_t>> mesh_value(const std::string& what, const std::string& text,
                                                             std::int64_t most) {
  auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  std::vector<std::pair<std::string, std::int64_t>> out;
  std::int64_t n = 1;
  for (std::size_t i = 0; i <= text.size();) {
    const std::size_t end = std::min(text.find(',', i), text.size());
    std::string axis = text.substr(i, end - i);
    axis.erase(0, axis.find_first_not_of(' '));
    const auto equals = axis.find('=');
    const bool named = equals != std::string::npos && equals > 0 && !digit(axis[0]) &&
                       std::all_of(axis.begin(), axis.begin() + static_cast<std::ptrdiff_t>(equals), word);
    if (!named) throw OptionError(str(what, ": \"", text, "\"; expected names and sizes, as x=4,y=2"));
    const std::int64_t size = integer_value(what, text, axis.substr(equals + 1));
    const bool fits = size >= 1 && size <= most;
    if (fits) n *= size;
    if (!fits || n > most) throw OptionError(str(what, ": \"", text, "\"; expected 1 to ", most, " devices"));
    out.emplace_back(axis.substr(0, equals), size);
    i = end + 1;
  }
  return out;
}

std::int64_t bytes_value(const std::string& option, const std::string& text) {
  std::size_t digits = 0;
  while (digits < text.size() && digit(text[digits])) ++digits;
  std::int64_t unit = 1;
  std::string_view rest = std::string_view(text).substr(digits);
  constexpr std::string_view kUnits = "KMGT";
  auto power = rest.size() == 1 ? kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(rest[0]))))
                                : std::string_view::npos;
  if (power != std::string_view::npos) unit = std::int64_t{1} << (10 * (power + 1));
  if (digits == 0 || (!rest.empty() && unit == 1)) {
    throw OptionError(str(option, ": \"", text, "\"; expected bytes, as 1000000, 512M or 4G"));
  }
  std::int64_t n = integer_value(option, text, text.substr(0, digits));
  if (n == 0) throw OptionError(str(option, ": \"", text, "\"; expected at least 1 byte"));
  if (__builtin_mul_overflow(n, unit, &n)) throw OptionError(str(option, ": \"", text, "\" is too large"));
  return n;
}

double seconds_value(const std::string& option, const std::string& text) {
  constexpr double kMost = 1e9;
  double n = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, n, std::chars_format::fixed);
  if (error != std::errc() || stop != end || !(n >= 1e-6) || !(n <= kMost)) {
    throw OptionError(str(option, ": \"", text, "\"; expected seconds above 0 and at most ", kMost, ", as 90 or 0.5"));
  }
  return n;
}

std::vector<std::int64_t> extents_value(const std::string& what, const std::string& text) {
  constexpr std::string_view kBetween = "x, ()[]";
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < text.size();) {
    if (kBetween.find(text[i]) != std::string_view::npos) {
      ++i;
      continue;
    }
    std::size_t end = std::min(text.find_first_of(kBetween, i), text.size());
    out.push_back(integer_value(what, text, text.substr(i, end - i)));
    i = end;
  }
  if (out.empty() && text != "()") throw OptionError(str(what, ": \"", text, "\" has no extents; expected as 8x16"));
  return out;
}

void check_paths(const std::vector<NamedPath>& paths) {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const NamedPath& p = paths[i];
    if (!p.written || p.path.empty()) continue;
    for (std::size_t j = 0; j < paths.size(); ++j) {
      if (j == i || paths[j].path.empty() || !same_file(p.path, paths[j].path)) continue;
      throw OptionError(
          str(p.option, ": \"", p.path, "\" is also the file of ", paths[j].option, "; expected a file of its own"));
    }
    base::check_writable(p.option.c_str(), p.path);
  }
}

}  // namespace tessera::cli
