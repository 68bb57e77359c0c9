// SPDX-License-Identifier: Apache-2.0
// The pictures of the examples as SVG: curves, and fields of numbers as coloured cells.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace plot {

/// One line of `curves`: y over first, first + step, …
struct Curve {
  std::string name;
  std::vector<float> y;
  double step = 1, first = 0;
};

/// One picture of `fields`: rows x columns values, row-major.
struct Field {
  std::string title;
  std::int64_t rows, columns;
  std::vector<float> values;
};

inline void write(const std::string& path, const std::string& svg) {
  std::ofstream out(path);
  out << svg;
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

inline std::string text(double x, double y, const std::string& words, const std::string& more = "") {
  std::ostringstream s;
  s << "<text x=\"" << x << "\" y=\"" << y << "\" " << more << ">" << words << "</text>\n";
  return s.str();
}

inline std::string head(int width, int height, const std::string& title) {
  std::ostringstream s;
  s << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " " << height << "\" width=\"" << width
    << "\" height=\"" << height << "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"" << width
    << "\" height=\"" << height << "\" fill=\"white\"/>\n"
    << text(width / 2, 20, title, "text-anchor=\"middle\" font-size=\"14\"");
  return s.str();
}

/// 1, 2 or 5 times a power of ten, so that `range` has about `parts` of it.
inline double tick(double range, int parts) {
  double power = std::pow(10.0, std::floor(std::log10(range / parts)));
  double digit = range / parts / power;
  return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/// Lines over a common x, linear axes, a legend. `log_y` takes logarithms of y, which must be positive.
inline void curves(const std::string& path, const std::string& title, const std::string& x_label,
                   const std::string& y_label, const std::vector<Curve>& lines, bool log_y = false) {
  const std::vector<std::string> colours{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e"};
  const double left = 60, top = 54, wide = 520, high = 240;
  auto scaled = [&](float y) { return log_y ? std::log10(static_cast<double>(y)) : static_cast<double>(y); };
  double x_max = 0, low = 1e300, up = -1e300;
  for (const auto& c : lines) {
    x_max = std::max(x_max, c.first + c.step * static_cast<double>(c.y.size() - 1));
    for (float y : c.y) low = std::min(low, scaled(y)), up = std::max(up, scaled(y));
  }
  if (!log_y) low = std::min(low, 0.0);
  auto px = [&](double x) { return left + wide * x / x_max; };
  auto py = [&](double y) { return top + high * (up - y) / (up - low); };
  std::ostringstream s;
  s.precision(4);
  s << head(600, 340, title);
  const double dy = log_y ? std::max(1.0, tick(up - low, 6)) : tick(up - low, 5);
  for (double y = std::ceil(low / dy) * dy; y <= up + 1e-9; y += dy) {
    std::ostringstream label;
    if (log_y) label << "1e" << std::lround(y);
    if (!log_y) label << std::round(y / dy) * dy;
    s << "<path d=\"M" << left << " " << py(y) << "h" << wide << "\" stroke=\"#ddd\"/>\n"
      << text(left - 6, py(y) + 4, label.str(), "text-anchor=\"end\"");
  }
  const double dx = tick(x_max, 6);
  for (double x = 0; x <= x_max * (1 + 1e-9); x += dx) {
    std::ostringstream label;
    label << x;
    s << text(px(x), top + high + 16, label.str(), "text-anchor=\"middle\"");
  }
  s << "<rect x=\"" << left << "\" y=\"" << top << "\" width=\"" << wide << "\" height=\"" << high
    << "\" fill=\"none\" stroke=\"#888\"/>\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& colour = colours[i % colours.size()];
    s << "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"" << colour << "\" points=\"";
    for (std::size_t j = 0; j < lines[i].y.size(); ++j) {
      s << px(lines[i].first + lines[i].step * static_cast<double>(j)) << "," << py(scaled(lines[i].y[j])) << " ";
    }
    s << "\"/>\n"
      << text(left + wide * (static_cast<double>(i) + 0.5) / static_cast<double>(lines.size()), top - 10, lines[i].name,
              "text-anchor=\"middle\" fill=\"" + colour + "\"");
  }
  s << text(left + wide / 2, 332, x_label, "text-anchor=\"middle\"")
    << text(0, 0, y_label,
            "text-anchor=\"middle\" transform=\"translate(14 " + std::to_string(top + high / 2) + ") rotate(-90)\"")
    << "</svg>\n";
  write(path, s.str());
}

/// A level of 0 … 1 as a colour from dark violet over red to light yellow.
inline std::string colour(double level) {
  const double stops[5][3] = {{10, 8, 34}, {87, 16, 110}, {188, 55, 84}, {249, 142, 9}, {252, 255, 164}};
  const double at = std::clamp(level, 0.0, 1.0) * 4;
  const auto i = std::min(static_cast<int>(at), 3);
  std::ostringstream s;
  s << "rgb(";
  for (int c = 0; c < 3; ++c) {
    s << (c > 0 ? "," : "") << std::lround(stops[i][c] + (at - i) * (stops[i + 1][c] - stops[i][c]));
  }
  s << ")";
  return s.str();
}

/// Fields side by side in one scale of colours, from `low` to `high` in 32 levels. Equal neighbours in a row are one
/// rectangle, and each level one path, which keeps the files small.
inline void fields(const std::string& path, const std::string& title, const std::vector<Field>& all, double low,
                   double high) {
  constexpr int levels = 32, side = 200, gap = 16;
  const int width = gap + (side + gap) * static_cast<int>(all.size());
  std::ostringstream s;
  s << head(width, side + 74, title);
  for (std::size_t f = 0; f < all.size(); ++f) {
    const Field& field = all[f];
    std::vector<std::ostringstream> paths(levels);
    auto level = [&](std::int64_t r, std::int64_t c) {
      double v =
          (static_cast<double>(field.values[static_cast<std::size_t>(r * field.columns + c)]) - low) / (high - low);
      return std::clamp(static_cast<int>(v * levels), 0, levels - 1);
    };
    for (std::int64_t r = 0; r < field.rows; ++r) {
      for (std::int64_t c = 0, end = 0; c < field.columns; c = end) {
        while (end < field.columns && level(r, end) == level(r, c)) ++end;
        paths[static_cast<std::size_t>(level(r, c))] << "M" << c << " " << r << "h" << end - c << "v1h" << c - end;
      }
    }
    const double x = gap + (side + gap) * static_cast<double>(f);
    s << text(x + side / 2.0, 44, field.title, "text-anchor=\"middle\"") << "<g transform=\"translate(" << x
      << " 54) scale(" << static_cast<double>(side) / static_cast<double>(field.columns) << " "
      << static_cast<double>(side) / static_cast<double>(field.rows) << ")\" shape-rendering=\"crispEdges\">\n";
    for (int i = 0; i < levels; ++i) {
      const std::string d = paths[static_cast<std::size_t>(i)].str();
      if (!d.empty()) s << "<path fill=\"" << colour((i + 0.5) / levels) << "\" d=\"" << d << "\"/>\n";
    }
    s << "</g>\n";
  }
  s << "</svg>\n";
  write(path, s.str());
}

}  // namespace plot
