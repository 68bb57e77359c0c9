// SPDX-License-Identifier: Apache-2.0
// Values of options, read strictly: every error names the option and the value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/error.h"

namespace tessera::cli {

/// An option's value is none: the command ends with status 2, as for options that there are not.
class OptionError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// "4G", "512M", "100K", or bytes: at least 1.
std::int64_t bytes_value(const std::string& option, const std::string& text);
/// Seconds above 0, as "90" or "0.5".
double seconds_value(const std::string& option, const std::string& text);
/// Non-negative integers between 'x', ',', blanks and parentheses: "8x16", "(8, 16)", "()".
std::vector<std::int64_t> extents_value(const std::string& what, const std::string& text);
/// Names and sizes of axes, 1 to `most` positions in all: "x=4,y=2".
std::vector<std::pair<std::string, std::int64_t>> mesh_value(const std::string& what, const std::string& text,
                                                             std::int64_t most);
/// All of `digits`. Throws `OptionError` naming `what` and `text` where it is no integer below 2^63.
std::int64_t integer_value(const std::string& what, const std::string& text, const std::string& digits);

/// A file that an option names; an empty path is none.
struct NamedPath {
  std::string option, path;
  bool written = false;
};
/// Throws `ValueError` where a file to be written cannot be, `OptionError` where it is another option's file.
void check_paths(const std::vector<NamedPath>& paths);

}  // namespace tessera::cli
