// SPDX-License-Identifier: Apache-2.0
#include "hlo/hlo_sharding.h"

#include <algorithm>
#include <utility>

#include "hlo/devices.h"
#include "tessera/error.h"

namespace tessera::hlo {

using sharding::Digit;

TileAssignment parse_tiles(const std::string& text, std::vector<std::string>& kinds) {
  kinds.clear();
  auto at = text.find(" last_tile_dims={");
  if (at == std::string::npos) {
    TileAssignment t = TileAssignment::parse(text);
    if (t.replicate_last()) kinds = {"replicated"};
    return t;
  }
  std::string word;
  for (char ch : text.substr(at + 17)) {
    if (ch >= 'a' && ch <= 'z') {
      word += ch;
    } else if (!word.empty()) {
      kinds.push_back(std::exchange(word, {}));
    }
    if (ch == '}') break;
  }
  return TileAssignment::parse(text.substr(0, at) + "}");
}

std::optional<GridTiles> grid_tiles(const std::string& text, std::int64_t n) {
  std::vector<std::string> kinds;
  std::optional<TileAssignment> t;
  try {
    t = parse_tiles(text, kinds);
  } catch (const FormatError&) {
    return std::nullopt;
  } catch (const ValueError&) {
    return std::nullopt;
  }
  GridTiles out;
  if (t->kind() == TileAssignment::Kind::Manual) {
    out.manual = {{n, 1}};
    return out;
  }
  if (t->kind() == TileAssignment::Kind::Replicated) return out;
  if (!t->is_tiled() || !t->is_iota() || t->num_devices() != n || kinds.size() > t->dims().size()) return std::nullopt;
  Dims strides = strides_of(t->reshape_dims());
  std::vector<Digit> digits;
  for (auto p : t->transpose_perm()) {
    digits.push_back({t->reshape_dims()[static_cast<std::size_t>(p)], strides[static_cast<std::size_t>(p)]});
  }
  auto by_dim = sharding::cut_digits(sharding::canonical(digits), t->dims());
  if (!by_dim) return std::nullopt;
  std::size_t rank = by_dim->size() - kinds.size();
  for (std::size_t d = 0; d < by_dim->size(); ++d) {
    auto& list = (*by_dim)[d];
    if (d < rank) {
      out.dims.push_back(std::move(list));
    } else if (kinds[d - rank] == "manual") {
      out.manual.insert(out.manual.end(), list.begin(), list.end());
    }
  }
  return out;
}

std::optional<Dims> grid_of(const std::vector<GridTiles>& all, std::int64_t n) {
  std::vector<std::vector<std::int64_t>> grids{{n}};
  auto see = [&](const std::vector<Digit>& digits) {
    for (const auto& d : digits) grids.push_back({n / (d.size * d.stride), d.size, d.stride});
  };
  for (const auto& t : all) {
    std::for_each(t.dims.begin(), t.dims.end(), see);
    see(t.manual);
  }
  auto fine = sharding::common_refinement(grids);
  if (!fine) return std::nullopt;
  return Dims(fine->sizes.begin(), fine->sizes.end());
}

Dims axes_of(const std::vector<Digit>& digits, const Dims& grid) {
  Dims strides = strides_of(grid);
  Dims out;
  for (const auto& d : digits) {
    for (std::size_t a = 0; a < grid.size(); ++a) {
      bool inside = grid[a] > 1 && strides[a] >= d.stride && strides[a] < d.stride * d.size;
      if (inside) out.push_back(static_cast<std::int64_t>(a));
    }
  }
  return out;
}

}  // namespace tessera::hlo
