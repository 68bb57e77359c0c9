// SPDX-License-Identifier: Apache-2.0
// Meshes and shardings as SVG.
#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "pictures/page.h"
#include "sharding/placement.h"
#include "tessera/error.h"
#include "tessera/pictures.h"

namespace tessera {

namespace {

using pictures::escaped;
using pictures::number;

constexpr const char kFont[] = "font-family=\"system-ui,sans-serif\"";

// Colours that differ between neighbours: steps of the golden angle around the wheel.
std::string colour(std::int64_t i) { return str("hsl(", (i * 137 + 205) % 360, ",62%,", i % 2 == 0 ? 80 : 72, "%)"); }

std::string label(double x, double y, const std::string& text, double size, const char* anchor = "middle",
                  const char* fill = "#1d2430") {
  return str("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\" font-size=\"",
             number(size), "\" ", kFont, " fill=\"", fill, "\">", escaped(text), "</text>\n");
}

std::string box(double x, double y, double w, double h, const std::string& fill, const std::string& title) {
  return str("<rect x=\"", number(x), "\" y=\"", number(y), "\" width=\"", number(w), "\" height=\"", number(h),
             "\" rx=\"3\" fill=\"", fill, "\" stroke=\"#5b6675\"><title>", escaped(title), "</title></rect>\n");
}

std::string svg(double width, double height, const std::string& title, const std::string& body) {
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(width), "\" height=\"", number(height),
             "\" viewBox=\"0 0 ", number(width), " ", number(height), "\" role=\"img\" aria-label=\"", escaped(title),
             "\">\n", body, "</svg>\n");
}

constexpr const char kMargin[] = "#6b7686";

// "0,1,2" or "0…7 (8)", as long as fits the width.
std::string device_list(const std::vector<std::int64_t>& ids, double width, double size) {
  const std::string all = join(ids, ",");
  const auto fits = [&](const std::string& s) { return static_cast<double>(s.size()) * size * 0.6 <= width; };
  if (ids.size() <= 4 || fits(all)) return fits(all) ? all : "";
  const std::string shortened = str(ids.front(), "…", ids.back(), " (", ids.size(), ")");
  return fits(shortened) ? shortened : "";
}

struct Rectangle {
  std::pair<std::int64_t, std::int64_t> rows, columns;
  std::vector<std::int64_t> devices;
};

std::vector<Rectangle> rectangles(const ShardingPtr& sharding, const Shape& shape) {
  const auto place = sharding::placement(sharding, shape);
  std::vector<Rectangle> out;
  for (const Index& index : place->tile_index) {
    Rectangle r;
    r.rows = shape.size() == 2 ? index[0].resolve(shape[0]) : std::pair<std::int64_t, std::int64_t>{0, 1};
    r.columns = index.back().resolve(shape.back());
    out.push_back(std::move(r));
  }
  for (std::size_t p = 0; p < place->devices->size(); ++p) {
    out[static_cast<std::size_t>(place->tile_of[p])].devices.push_back(place->devices->devices[p].id());
  }
  return out;
}

}  // namespace

std::string sharding_svg(const ShardingPtr& sharding, const Shape& shape, const Loc&) {
  if (!sharding) throw ValueError("sharding_svg: sharding is null; expected a Sharding");
  if (shape.empty() || shape.size() > 2) {
    throw ValueError(str("sharding_svg: global_shape = ", shape, " has rank ", shape.size(), "; expected 1 or 2"));
  }
  constexpr double kLeft = 84, kTop = 24, kSize = 12;
  const double extent0 = shape.size() == 2 ? static_cast<double>(shape[0]) : 1;
  const double extent1 = static_cast<double>(shape.back());
  // In proportion, as far as the letters allow.
  const double ratio = extent0 > 0 ? extent1 / extent0 : 1;
  const double width = shape.size() == 1 ? 380 : std::clamp(170 * ratio, 150.0, 380.0);
  const double height = shape.size() == 1 ? 48 : std::clamp(width / std::max(ratio, 1e-9), 64.0, 170.0);
  const double sx = width / std::max(extent1, 1.0);
  const double sy = height / std::max(extent0, 1.0);
  std::string body;
  std::int64_t i = 0;
  for (const Rectangle& r : rectangles(sharding, shape)) {
    const double x = kLeft + static_cast<double>(r.columns.first) * sx;
    const double y = kTop + static_cast<double>(r.rows.first) * sy;
    const double w = static_cast<double>(r.columns.second - r.columns.first) * sx;
    const double h = static_cast<double>(r.rows.second - r.rows.first) * sy;
    const std::string rows = shape.size() == 2 ? str(r.rows.first, ":", r.rows.second, ", ") : "";
    if (w > 0 && h > 0) {
      body += box(x, y, w, h, colour(i),
                  str("[", rows, r.columns.first, ":", r.columns.second, "] on ", join(r.devices, ",")));
      const std::string ids = device_list(r.devices, w - 6, kSize);
      if (h >= kSize + 4 && !ids.empty()) body += label(x + w / 2, y + h / 2 + kSize * 0.35, ids, kSize);
    }
    ++i;
  }
  body += label(kLeft + width / 2, kTop - 8, str(shape.back(), shape.size() == 1 ? " elements" : " columns"), kSize,
                "middle", kMargin);
  if (shape.size() == 2) body += label(kLeft - 6, kTop + height / 2, str(shape[0], " rows"), kSize, "end", kMargin);
  return svg(kLeft + width + 10, kTop + height + 10,
             str("the shards of ", to_string(shape), " under ", sharding->text()), body);
}

namespace {

constexpr std::int64_t kMostPositions = 16;
constexpr std::int64_t kMostGrids = 8;

std::string axis_name(const Mesh& m, std::int64_t axis) {
  return m.has_names() ? m.axis_names()[static_cast<std::size_t>(axis)] : str("axis ", axis);
}

// Positions along the axes before the last two: "z=1, w=0".
std::string grid_title(const Mesh& m, std::int64_t grid) {
  std::string out;
  for (std::int64_t axis = m.ndim() - 3; axis >= 0; --axis) {
    const std::int64_t extent = m.mesh_shape()[static_cast<std::size_t>(axis)];
    out = str(axis_name(m, axis), "=", grid % extent, out.empty() ? "" : ", ") + out;
    grid /= extent;
  }
  return out;
}

}  // namespace

std::string mesh_svg(const Mesh& m, const Loc&) {
  constexpr double kCell = 58, kHeight = 34, kLeft = 76, kTop = 26, kSize = 12;
  const std::int64_t n = m.ndim();
  if (m.empty()) return svg(kLeft, kTop, "an empty mesh", "");
  const std::int64_t rows = n > 1 ? m.mesh_shape()[static_cast<std::size_t>(n - 2)] : 1;
  const std::int64_t columns = n > 0 ? m.mesh_shape()[static_cast<std::size_t>(n - 1)] : 1;
  const std::int64_t grids = static_cast<std::int64_t>(m.devices_flat().size()) / (rows * columns);
  const std::int64_t drawn_rows = std::min(rows, kMostPositions);
  const std::int64_t drawn_columns = std::min(columns, kMostPositions);
  const std::int64_t drawn_grids = std::min(grids, kMostGrids);
  const double title = n > 2 ? 20 : 0;
  const double grid_height = title + kTop + static_cast<double>(drawn_rows) * kHeight + 14;
  std::string body;
  for (std::int64_t g = 0; g < drawn_grids; ++g) {
    const double top = static_cast<double>(g) * grid_height + title + kTop;
    if (n > 2) body += label(kLeft, top - kTop - 4, grid_title(m, g), kSize + 1, "start");
    for (std::int64_t c = 0; n > 0 && c < drawn_columns; ++c) {
      body += label(kLeft + (static_cast<double>(c) + 0.5) * kCell, top - 8, str(axis_name(m, n - 1), "=", c), kSize,
                    "middle", kMargin);
    }
    for (std::int64_t r = 0; r < drawn_rows; ++r) {
      const double y = top + static_cast<double>(r) * kHeight;
      if (n > 1) body += label(kLeft - 8, y + kHeight * 0.62, str(axis_name(m, n - 2), "=", r), kSize, "end", kMargin);
      for (std::int64_t c = 0; c < drawn_columns; ++c) {
        const Device& d = m.devices_flat()[static_cast<std::size_t>((g * rows + r) * columns + c)];
        const double x = kLeft + static_cast<double>(c) * kCell;
        body += box(x + 1, y + 1, kCell - 2, kHeight - 2, colour(d.process_index()), to_string(d));
        body += label(x + kCell / 2, y + kHeight * 0.62, str(d.platform(), " ", d.id()), kSize);
      }
    }
  }
  double height = static_cast<double>(drawn_grids) * grid_height;
  if (drawn_rows < rows || drawn_columns < columns || drawn_grids < grids) {
    body += label(kLeft, height + 10, str("the first of ", m.devices_flat().size(), " devices are drawn"), kSize,
                  "start", kMargin);
    height += 20;
  }
  return svg(kLeft + static_cast<double>(drawn_columns) * kCell + 12, height, to_string(m), body);
}

}  // namespace tessera
