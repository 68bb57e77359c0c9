// SPDX-License-Identifier: Apache-2.0
// Parts of HTML pages and SVG drawings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm_plan.h"

namespace tessera::pictures {

/// Text for elements and attributes.
std::string escaped(std::string_view text);
/// "1,048,576".
std::string grouped(std::int64_t n);
/// "1.05 MB": three digits, decimal units as links are rated.
std::string short_bytes(std::int64_t n);
/// A coordinate with at most one decimal.
std::string number(double v);

/// Bytes of a step in one call; unknown counts count once.
std::int64_t total_bytes(const CommStep& step);
/// "first.cc:15", or the equation where the line is unknown.
std::string where(const CommStep& step);

/// What the page's style sheet and its script are.
std::string_view style();
std::string_view script();

/// The steps of one plan that a user's line causes.
struct LineOfPlan {
  std::string where;
  std::string label;  ///< of the scopes around it
  std::string file;
  std::uint32_t line = 0;
  std::int64_t bytes = 0;
  std::vector<std::size_t> steps;
};
/// In the order in which the program reaches them.
std::vector<LineOfPlan> lines_of(const CommPlan& plan);
/// The lines of a file around `line`, which is the second value's index; none where the file cannot be read.
std::vector<std::string> quoted(const std::string& file, std::uint32_t line, std::uint32_t around);

/// The collectives in program order, one row for each line; `prefix` tells the plans of a page apart.
std::string timeline_svg(const CommPlan& plan, const std::vector<LineOfPlan>& lines, const std::string& prefix);

}  // namespace tessera::pictures
