// SPDX-License-Identifier: Apache-2.0
// A plan's collectives in program order: one row for each source line, one block for each collective, as high as its
// bytes.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "pictures/page.h"

namespace tessera::pictures {

namespace {

constexpr double kRow = 40, kHead = 26, kLabels = 230, kRight = 100;

// Steps side by side: as wide as fits, but never too narrow to be hit.
double slot_width(std::size_t steps) {
  constexpr double kRoom = 720;
  return std::clamp(kRoom / static_cast<double>(std::max<std::size_t>(steps, 1)), 7.0, 64.0);
}

std::string tooltip(const CommStep& s) {
  return str(s.op, " over ", join(s.axes, ","), " of ", s.value, ": ", grouped(total_bytes(s)), " bytes per device");
}

}  // namespace

std::string timeline_svg(const CommPlan& plan, const std::vector<LineOfPlan>& lines, const std::string& prefix) {
  const auto& steps = plan.steps();
  const double slot = slot_width(steps.size());
  const double width = kLabels + slot * static_cast<double>(steps.size()) + kRight;
  const double height = kHead + kRow * static_cast<double>(lines.size()) + 8;
  std::int64_t most = 1;
  for (const CommStep& s : steps) most = std::max(most, total_bytes(s));
  std::string out = str("<svg class=\"timeline\" width=\"", number(width), "\" height=\"", number(height),
                        "\" viewBox=\"0 0 ", number(width), " ", number(height),
                        "\" role=\"img\" aria-label=\"collectives in program order by source line\">\n");
  out += str("<text class=\"muted\" x=\"", number(kLabels), "\" y=\"16\">program order →</text>\n");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const LineOfPlan& line = lines[i];
    const double top = kHead + kRow * static_cast<double>(i);
    const double base = top + kRow - 5;
    if (i % 2 == 0) {
      out += str("<rect class=\"lane\" x=\"0\" y=\"", number(top), "\" width=\"", number(width), "\" height=\"",
                 number(kRow), "\"/>\n");
    }
    constexpr std::size_t kMostLetters = 30;
    std::string name = line.where;
    if (name.size() > kMostLetters) name = str(name.substr(0, kMostLetters - 1), "…");
    out += str("<text class=\"where\" x=\"10\" y=\"", number(top + kRow / 2 + 4), "\">", escaped(name), "<title>",
               escaped(line.label), "</title></text>\n");
    for (const std::size_t k : line.steps) {
      const CommStep& s = steps[k];
      // By the square root, so that small collectives beside large ones are seen.
      const double h =
          std::max(4.0, (kRow - 10) * std::sqrt(static_cast<double>(total_bytes(s)) / static_cast<double>(most)));
      out += str("<rect class=\"block op-", escaped(s.op), "\" data-step=\"", prefix, k, "\" data-op=\"", escaped(s.op),
                 "\" x=\"", number(kLabels + slot * static_cast<double>(k) + 1), "\" y=\"", number(base - h),
                 "\" width=\"", number(slot - 2), "\" height=\"", number(h), "\" rx=\"2\"><title>", escaped(tooltip(s)),
                 "</title></rect>\n");
    }
    out += str("<text class=\"muted\" x=\"", number(width - 8), "\" y=\"", number(top + kRow / 2 + 4),
               "\" text-anchor=\"end\">", short_bytes(line.bytes), "</text>\n");
  }
  return out + "</svg>\n";
}

}  // namespace tessera::pictures
