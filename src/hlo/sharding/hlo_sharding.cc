// SPDX-License-Identifier: Apache-2.0
#include "hlo/sharding/hlo_sharding.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/strings.h"
#include "hlo/sharding/manual_devices.h"
#include "tessera/error.h"

namespace tessera::hlo {

using sharding::Digit;

namespace {
constexpr std::int64_t kMostDevices = 1 << 16;

// Spaces may stand between all words.
class HloReader {
 public:
  explicit HloReader(std::string_view text) : text_(text) {}

  bool peek(std::string_view token) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (text_.substr(at_, token.size()) != token) return false;
    auto next = at_ + token.size();
    return !is_name(token.back()) || next >= text_.size() || !is_name(text_[next]);
  }
  bool accept(std::string_view token) {
    if (!peek(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(str("\"", token, "\""));
  }
  // From 0 to what devices and their parts can be.
  std::int64_t number() {
    peek(" ");
    std::int64_t n = 0;
    auto r = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (r.ec != std::errc() || n < 0 || n > kMostDevices) fail(str("a number from 0 to ", kMostDevices));
    at_ = static_cast<std::size_t>(r.ptr - text_.data());
    return n;
  }
  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> out;
    do {
      out.push_back(number());
    } while (accept(","));
    return out;
  }
  Dims dims(std::string_view close) {
    Dims out;
    for (auto n : numbers()) out.push_back(n);
    expect(close);
    return out;
  }
  // A list of {key=value …}, in braces that may nest; strings in it may hold braces.
  void skip_braces() {
    expect("{");
    int open = 1;
    bool quoted = false;
    for (; at_ < text_.size() && open > 0; ++at_) {
      char c = text_[at_];
      if (c == '"') quoted = !quoted;
      if (quoted && c == '\\') ++at_;
      if (!quoted) open += c == '{' ? 1 : c == '}' ? -1 : 0;
    }
    if (open > 0) fail("\"}\"");
  }
  bool at_end() {
    peek(" ");
    return at_ >= text_.size();
  }
  [[noreturn]] void fail(const std::string& expected) const {
    auto column = std::min(at_, text_.size()) + 1;
    throw FormatError(str("sharding \"", text_.substr(0, 200), "\", column ", column, ": expected ", expected), "", 1,
                      static_cast<std::int64_t>(column));
  }

 private:
  static bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }
  std::string_view text_;
  std::size_t at_ = 0;
};

TileAssignment tiles_from(HloReader& in) {
  Dims dims = in.dims("]");
  try {
    if (!in.accept("<=")) return TileAssignment::from_list(std::move(dims), in.numbers());
    in.expect("[");
    Dims reshape = in.dims("]"), perm;
    for (std::size_t i = 0; i < reshape.size(); ++i) perm.push_back(static_cast<std::int64_t>(i));
    if (in.accept("T")) {
      in.expect("(");
      perm = in.dims(")");
    }
    return {std::move(dims), std::move(reshape), std::move(perm)};
  } catch (const ValueError& e) {
    in.fail(str("tiles that hold every device once (", e.what(), ")"));
  }
}

std::vector<HloSharding::Last> last_dims(HloReader& in) {
  std::vector<HloSharding::Last> out;
  if (in.accept("last_tile_dim_replicate")) return {HloSharding::Last::Replicated};
  if (!in.accept("last_tile_dims")) return out;
  in.expect("=");
  in.expect("{");
  do {
    if (in.accept("replicated")) {
      out.push_back(HloSharding::Last::Replicated);
    } else if (in.accept("manual")) {
      out.push_back(HloSharding::Last::Manual);
    } else if (in.accept("unreduced")) {
      out.push_back(HloSharding::Last::Unreduced);
    } else {
      in.fail("replicated, manual or unreduced");
    }
  } while (in.accept(","));
  in.expect("}");
  return out;
}

HloSharding one_sharding(HloReader& in) {
  using Kind = HloSharding::Kind;
  HloSharding s;
  if (in.accept("replicated")) {
    s.kind = Kind::Replicated;
  } else if (in.accept("manual")) {
    s.kind = Kind::Manual;
  } else if (in.accept("unreduced")) {
    s.kind = Kind::Unreduced;
  } else if (in.accept("unknown")) {
    s.kind = Kind::Unknown;
  } else if (in.accept("maximal")) {
    s.kind = Kind::Maximal;
    in.expect("device");
    in.expect("=");
    s.device = in.number();
  } else if (in.accept("devices")) {
    s.kind = Kind::Tiled;
    in.expect("=");
    in.expect("[");
    s.tiles = tiles_from(in);
    s.last = last_dims(in);
    if (s.last.size() > s.tiles->dims().size()) in.fail("no more last dimensions than the tiles have");
  } else {
    in.fail("replicated, manual, unreduced, unknown, maximal or devices");
  }
  if (in.accept("shard_as") || in.accept("shard_like")) in.number();
  if (in.accept("metadata")) {
    in.expect("=");
    in.skip_braces();
  }
  in.expect("}");
  return s;
}
}  // namespace

HloShardings parse_hlo_shardings(std::string_view text) {
  // A message begins with the tag of a field; an empty one is no sharding that anybody writes.
  if (!text.empty() && text[0] > 0 && text[0] < ' ') return parse_serialized_hlo_shardings(text);
  HloReader in(text);
  HloShardings out;
  in.expect("{");
  out.tuple = in.peek("{") || in.peek("}");
  if (!out.tuple) {
    out.parts.push_back(one_sharding(in));
  } else if (!in.accept("}")) {
    do {
      in.expect("{");
      out.parts.push_back(one_sharding(in));
    } while (in.accept(","));
    in.expect("}");
  }
  if (!in.at_end()) in.fail("the end");
  return out;
}

HloSharding parse_hlo_sharding(std::string_view text) {
  HloShardings all = parse_hlo_shardings(text);
  if (all.tuple) throw FormatError(str("sharding \"", text.substr(0, 200), "\": expected one, not a tuple"), "", 1, 1);
  return std::move(all.parts[0]);
}

std::optional<GridTiles> grid_tiles(std::string_view text, std::int64_t n) {
  using Kind = HloSharding::Kind;
  HloShardings all = parse_hlo_shardings(text);
  if (all.tuple) return std::nullopt;
  const HloSharding& s = all.parts[0];
  GridTiles out;
  if (s.kind == Kind::Manual) out.manual = {{n, 1}};
  if (s.kind == Kind::Unreduced) out.unreduced = {{n, 1}};
  if (s.kind == Kind::Unknown || s.kind == Kind::Maximal) return std::nullopt;
  if (s.kind != Kind::Tiled) return out;
  const TileAssignment& t = *s.tiles;
  if (!t.is_iota() || t.num_devices() != n) return std::nullopt;
  Dims strides = strides_of(t.reshape_dims());
  std::vector<Digit> digits;
  for (auto p : t.transpose_perm()) {
    digits.push_back({t.reshape_dims()[static_cast<std::size_t>(p)], strides[static_cast<std::size_t>(p)]});
  }
  auto by_dim = sharding::cut_digits(sharding::canonical(digits), t.dims());
  if (!by_dim) return std::nullopt;
  std::size_t rank = s.tiled_rank();
  for (std::size_t d = 0; d < by_dim->size(); ++d) {
    auto& list = (*by_dim)[d];
    if (d < rank) {
      out.dims.push_back(std::move(list));
      continue;
    }
    auto& counted = s.last[d - rank] == HloSharding::Last::Manual ? out.manual : out.unreduced;
    if (s.last[d - rank] != HloSharding::Last::Replicated) counted.insert(counted.end(), list.begin(), list.end());
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
    see(t.unreduced);
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
