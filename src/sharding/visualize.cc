// SPDX-License-Identifier: Apache-2.0
#include "tessera/visualize.h"

#include <algorithm>

#include "base/strings.h"
#include "sharding/placement.h"
#include "tessera/error.h"

namespace tessera {

namespace {

using Strings = std::vector<std::string>;
constexpr std::string_view kCut = "…";

// Characters of a UTF-8 text.
std::size_t width_of(std::string_view s) {
  return static_cast<std::size_t>(std::ranges::count_if(s, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string repeat(std::string_view s, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += s;
  return out;
}

std::string centred(const std::string& s, std::size_t width) {
  std::size_t room = width - std::min(width, width_of(s));
  return std::string(room / 2, ' ') + s + std::string(room - room / 2, ' ');
}

std::string clipped(std::string s, std::size_t width) {
  if (width_of(s) <= width) return s;
  // Device lists are ASCII, so bytes are characters here.
  s.resize(width - 1);
  return s + std::string(kCut);
}

// A table with optional labels over its columns and before its rows.
struct Grid {
  std::vector<Strings> cells;
  Strings row_labels;
  Strings column_labels;

  std::string rule(const char* left, const char* middle, const char* right, std::size_t width) const {
    std::string line = repeat("─", width + 2), out = left;
    for (std::size_t c = 0; c < cells[0].size(); ++c) out += (c > 0 ? middle : "") + line;
    return out + right;
  }

  std::string draw(const VisualizeOptions& o) const {
    std::size_t width = static_cast<std::size_t>(o.min_width), margin = 0;
    for (const auto& row : cells) {
      for (const auto& cell : row)
        width = std::max(width, std::min(width_of(cell), static_cast<std::size_t>(o.max_width)));
    }
    for (const auto& l : column_labels) width = std::max(width, width_of(l));
    for (const auto& l : row_labels) margin = std::max(margin, width_of(l) + 1);
    std::string indent(margin, ' '), out;
    if (!column_labels.empty()) {
      out += indent;
      for (const auto& l : column_labels) out += "  " + centred(l, width) + " ";
      out.erase(out.find_last_not_of(' ') + 1);
      out += "\n";
    }
    out += indent + rule("┌", "┬", "┐", width) + "\n";
    for (std::size_t r = 0; r < cells.size(); ++r) {
      if (r > 0) out += indent + rule("├", "┼", "┤", width) + "\n";
      for (std::int64_t line = 0; line < o.height; ++line) {
        bool text = line == (o.height - 1) / 2;
        std::string label = text && !row_labels.empty() ? row_labels[r] : "";
        out += label + std::string(margin - width_of(label), ' ');
        for (const auto& cell : cells[r]) out += "│ " + centred(text ? clipped(cell, width) : "", width) + " ";
        out += "│\n";
      }
    }
    return out + indent + rule("└", "┴", "┘", width) + "\n";
  }
};

void check_options(const VisualizeOptions& o, std::string_view function) {
  auto check = [&](std::int64_t value, std::int64_t least, const char* name) {
    if (value < least) throw ValueError(str(function, ": options.", name, " = ", value, "; expected at least ", least));
  };
  check(o.min_width, 1, "min_width");
  check(o.max_width, o.min_width, "max_width");
  check(o.height, 1, "height");
  check(o.max_cells, 3, "max_cells");
}

// Positions that are drawn; -1 stands for those left out.
std::vector<std::int64_t> drawn(std::int64_t n, std::int64_t limit) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < n; ++i) {
    if (n > limit && i == limit - 2) {
      out.push_back(-1);
      i = n - 1;
    }
    out.push_back(i);
  }
  return out;
}

std::string platform_name(const Device& d) {
  std::string name(d.platform());
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

using Range = std::pair<std::int64_t, std::int64_t>;

// The runs between all boundaries of the shards along one dimension.
std::vector<Range> runs(const std::vector<std::vector<Range>>& shard_grid, std::size_t dim) {
  std::vector<std::int64_t> cuts;
  for (const auto& p : shard_grid) {
    cuts.push_back(p[dim].first);
    cuts.push_back(p[dim].second);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Range> out;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) out.emplace_back(cuts[i], cuts[i + 1]);
  if (out.empty()) out.emplace_back(cuts[0], cuts[0]);  // a dimension without elements
  return out;
}

bool covers(const Range& shard, const Range& run) { return shard.first <= run.first && run.second <= shard.second; }

}  // namespace

std::string visualize_array_sharding(const ShardingPtr& s, const Shape& global_shape, const VisualizeOptions& options,
                                     const Loc&) {
  check_options(options, "visualize_array_sharding");
  if (global_shape.empty() || global_shape.size() > 2) {
    throw ValueError(str("visualize_array_sharding: global_shape = ", global_shape, " has rank ", global_shape.size(),
                         "; expected 1 or 2"));
  }
  auto p = sharding::placement(s, global_shape);
  std::vector<std::vector<Range>> shard_grid;
  for (const Index& index : p->tile_index) {
    std::vector<Range> ranges;
    for (std::size_t d = 0; d < index.size(); ++d) ranges.push_back(index[d].resolve(global_shape[d]));
    if (ranges.size() == 1) ranges.insert(ranges.begin(), Range{0, 1});
    shard_grid.push_back(std::move(ranges));
  }
  auto rows = runs(shard_grid, 0);
  auto columns = runs(shard_grid, 1);
  auto row_numbers = drawn(static_cast<std::int64_t>(rows.size()), options.max_cells);
  auto column_numbers = drawn(static_cast<std::int64_t>(columns.size()), options.max_cells);
  std::string platform = platform_name(p->devices->devices[0]);
  auto holders = [&](std::int64_t r, std::int64_t c) -> std::string {
    if (r < 0 || c < 0) return std::string(kCut);
    std::string ids;
    for (std::size_t i = 0; i < p->devices->size(); ++i) {
      const auto& shard = shard_grid[static_cast<std::size_t>(p->tile_of[i])];
      if (!covers(shard[0], rows[static_cast<std::size_t>(r)]) ||
          !covers(shard[1], columns[static_cast<std::size_t>(c)])) {
        continue;
      }
      ids += str(ids.empty() ? "" : ",", p->devices->devices[i].id());
      if (ids.size() > static_cast<std::size_t>(options.max_width)) break;
    }
    return ids.empty() ? "" : str(platform, " ", ids);
  };
  Grid g;
  for (auto r : row_numbers) {
    auto& row = g.cells.emplace_back();
    for (auto c : column_numbers) row.push_back(holders(r, c));
  }
  return g.draw(options);
}

namespace {

Strings axis_labels(const Mesh& m, std::int64_t axis, const std::vector<std::int64_t>& numbers) {
  Strings out;
  std::string name = m.has_names() ? m.axis_names()[static_cast<std::size_t>(axis)] : str("axis ", axis);
  for (auto i : numbers) out.push_back(i < 0 ? std::string(kCut) : str(name, "=", i));
  return out;
}

// The grid of the last two axes behind `base` positions.
std::string mesh_block(const Mesh& m, std::int64_t base, const VisualizeOptions& options) {
  std::int64_t n = m.ndim();
  std::int64_t height = n > 1 ? m.mesh_shape()[static_cast<std::size_t>(n - 2)] : 1;
  std::int64_t width = n > 0 ? m.mesh_shape()[static_cast<std::size_t>(n - 1)] : 1;
  auto rows = drawn(height, options.max_cells);
  auto columns = drawn(width, options.max_cells);
  Grid g;
  if (n > 1) g.row_labels = axis_labels(m, n - 2, rows);
  if (n > 0) g.column_labels = axis_labels(m, n - 1, columns);
  for (auto r : rows) {
    auto& row = g.cells.emplace_back();
    for (auto c : columns) {
      if (r < 0 || c < 0) {
        row.emplace_back(kCut);
        continue;
      }
      const Device& d = m.devices_flat()[static_cast<std::size_t>((base * height + r) * width + c)];
      std::string text = str(platform_name(d), " ", d.id());
      if (m.is_multi_process()) text += str(" p", d.process_index());
      row.push_back(std::move(text));
    }
  }
  return g.draw(options);
}

}  // namespace

std::string visualize_mesh(const Mesh& m, const VisualizeOptions& options, const Loc&) {
  check_options(options, "visualize_mesh");
  std::string out = to_string(m) + "\n";
  if (m.empty()) return out;
  std::int64_t blocks = 1;
  for (std::int64_t i = 0; i + 2 < m.ndim(); ++i) blocks *= m.mesh_shape()[static_cast<std::size_t>(i)];
  for (auto b : drawn(blocks, options.max_cells)) {
    if (b < 0) {
      out += str(kCut, "\n");
      continue;
    }
    if (m.ndim() > 2) {
      std::string title;
      std::int64_t rest = b;
      for (std::int64_t i = m.ndim() - 3; i >= 0; --i) {
        std::int64_t extent = m.mesh_shape()[static_cast<std::size_t>(i)];
        title = axis_labels(m, i, {rest % extent})[0] + (title.empty() ? "" : ", ") + title;
        rest /= extent;
      }
      out += title + "\n";
    }
    out += mesh_block(m, b, options);
  }
  return out;
}

}  // namespace tessera
