// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>

#include "base/hash.h"
#include "base/strings.h"
#include "sharding/gspmd_state.h"
#include "tessera/error.h"

namespace tessera {

namespace sharding {

std::vector<Digit> iota_digits(const Dims& reshape, const Dims& perm) {
  auto strides = axis_strides(reshape);
  std::vector<Digit> out;
  for (auto p : perm) out.push_back({reshape[static_cast<std::size_t>(p)], strides[static_cast<std::size_t>(p)]});
  return out;
}

namespace {

// Reshape dimensions and permutation of digits that are a permutation of row-major ones.
std::pair<Dims, Dims> iota_form(const std::vector<Digit>& digits) {
  std::vector<std::size_t> order(digits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](auto a, auto b) { return digits[a].stride > digits[b].stride; });
  Dims reshape, perm(digits.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    reshape.push_back(digits[order[k]].size);
    perm[order[k]] = static_cast<std::int64_t>(k);
  }
  if (reshape.empty()) return {{1}, {0}};
  return {reshape, perm};
}

}  // namespace

std::optional<std::vector<Digit>> find_digits(const std::vector<std::int64_t>& list) {
  if (list.empty() || list[0] != 0) return std::nullopt;
  std::vector<Digit> digits;  // fastest first
  std::vector<std::int64_t> rest = list;
  while (rest.size() > 1) {
    std::int64_t stride = rest[1];
    std::size_t run = 2;
    while (run < rest.size() && rest[run] == static_cast<std::int64_t>(run) * stride) ++run;
    if (stride < 1 || rest.size() % run != 0) return std::nullopt;
    std::vector<std::int64_t> heads;
    for (std::size_t i = 0; i < rest.size(); ++i) {
      if (rest[i] != rest[i - i % run] + static_cast<std::int64_t>(i % run) * stride) return std::nullopt;
      if (i % run == 0) heads.push_back(rest[i]);
    }
    digits.push_back({static_cast<std::int64_t>(run), stride});
    rest = std::move(heads);
  }
  std::ranges::reverse(digits);
  // A bijection onto 0..n-1: sorted by stride, every stride is the product of the smaller sizes.
  auto sorted = digits;
  std::ranges::sort(sorted, {}, &Digit::stride);
  std::int64_t expected = 1;
  for (const Digit& d : sorted) {
    if (d.stride != expected) return std::nullopt;
    expected *= d.size;
  }
  return digits;
}

Dims tiled_dims(const TileAssignment& t, std::int64_t ndim) {
  Dims out;
  if (t.is_tiled()) out.assign(t.dims().begin(), t.dims().begin() + t.tiled_rank());
  out.resize(static_cast<std::size_t>(ndim), 1);
  return out;
}

}  // namespace sharding

using sharding::canonical;
using sharding::Digit;

namespace {

void check_dims(const Dims& dims, bool replicate_last) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1) {
      throw ValueError(
          str("TileAssignment: dims[", i, "] = ", dims[i], " in ", base::list_text(dims), "; expected at least 1"));
    }
  }
  size_of(dims);
  if (dims.empty() && replicate_last) {
    throw ValueError("TileAssignment: replicate_last needs at least one tile dimension; got dims = []");
  }
}

}  // namespace

TileAssignment::TileAssignment(Dims dims, bool replicate_last, const Loc&)
    : replicate_last_(replicate_last), dims_(std::move(dims)) {
  check_dims(dims_, replicate_last);
  reshape_ = {size_of(dims_)};
  perm_ = {0};
}

TileAssignment::TileAssignment(Dims dims, Dims reshape, Dims perm, bool replicate_last, const Loc&)
    : TileAssignment(std::move(dims), replicate_last) {
  check_dims(reshape, false);
  if (size_of(reshape) != size_of(dims_)) {
    throw ValueError(str("TileAssignment: dims = ", base::list_text(dims_), " have ", size_of(dims_),
                         " tiles but reshape = ", base::list_text(reshape), " has ", size_of(reshape),
                         " devices; expected the same number"));
  }
  Dims sorted = perm;
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < std::max(sorted.size(), reshape.size()); ++i) {
    if (sorted.size() != reshape.size() || sorted[i] != static_cast<std::int64_t>(i)) {
      throw ValueError(str("TileAssignment: perm = ", base::list_text(perm), "; expected a permutation of the ",
                           reshape.size(), " reshape dimensions"));
    }
  }
  std::tie(reshape_, perm_) = sharding::iota_form(canonical(sharding::iota_digits(reshape, perm)));
}

TileAssignment TileAssignment::from_list(Dims dims, std::vector<std::int64_t> devices, bool replicate_last,
                                         const Loc&) {
  TileAssignment t(std::move(dims), replicate_last);
  auto n = static_cast<std::size_t>(size_of(t.dims_));
  if (devices.size() != n) {
    throw ValueError(str("TileAssignment: devices has ", devices.size(), " entries; expected ", n,
                         ", the product of dims = ", base::list_text(t.dims_)));
  }
  std::vector<bool> seen(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto d = devices[i];
    if (d < 0 || d >= static_cast<std::int64_t>(n)) {
      throw ValueError(str("TileAssignment: devices[", i, "] = ", d, "; expected 0..", n - 1));
    }
    if (seen[static_cast<std::size_t>(d)]) {
      throw ValueError(str("TileAssignment: devices[", i, "] repeats ", d, "; expected every device once"));
    }
    seen[static_cast<std::size_t>(d)] = true;
  }
  if (auto digits = sharding::find_digits(devices)) {
    std::tie(t.reshape_, t.perm_) = sharding::iota_form(canonical(*digits));
  } else {
    t.reshape_.clear();
    t.perm_.clear();
    t.list_ = std::move(devices);
  }
  return t;
}

TileAssignment TileAssignment::replicated() {
  TileAssignment t;
  t.kind_ = Kind::Replicated;
  return t;
}
TileAssignment TileAssignment::maximal(std::int64_t device, const Loc&) {
  if (device < 0) throw ValueError(str("TileAssignment::maximal: device = ", device, "; expected 0 or more"));
  TileAssignment t;
  t.kind_ = Kind::Maximal;
  t.maximal_ = device;
  return t;
}
TileAssignment TileAssignment::manual() {
  TileAssignment t;
  t.kind_ = Kind::Manual;
  return t;
}

std::int64_t TileAssignment::num_devices() const { return is_tiled() ? size_of(dims_) : 1; }

std::vector<std::int64_t> TileAssignment::to_list() const {
  if (!is_tiled()) return {};
  if (!list_.empty()) return list_;
  std::vector<std::int64_t> out{0};
  for (const Digit& d : sharding::iota_digits(reshape_, perm_)) {
    std::vector<std::int64_t> next;
    next.reserve(out.size() * static_cast<std::size_t>(d.size));
    for (auto o : out) {
      for (std::int64_t i = 0; i < d.size; ++i) next.push_back(o + i * d.stride);
    }
    out = std::move(next);
  }
  return out;
}

namespace {
std::string special_text(const TileAssignment& t) {
  if (t.kind() == TileAssignment::Kind::Replicated) return "{replicated}";
  if (t.kind() == TileAssignment::Kind::Manual) return "{manual}";
  return str("{maximal device=", t.maximal_device(), "}");
}
std::string tiles_text(const TileAssignment& t, const std::string& devices) {
  return str("{devices=[", join(t.dims(), ","), "]", devices, t.replicate_last() ? " last_tile_dim_replicate}" : "}");
}
}  // namespace

std::string TileAssignment::text() const {
  if (!is_tiled()) return special_text(*this);
  if (!is_iota()) return explicit_text();
  std::string devices = str("<=[", join(reshape_, ","), "]");
  if (reshape_.size() > 1) devices += str("T(", join(perm_, ","), ")");
  return tiles_text(*this, devices);
}
std::string TileAssignment::explicit_text() const {
  return is_tiled() ? tiles_text(*this, join(to_list(), ",")) : special_text(*this);
}
std::size_t TileAssignment::hash() const {
  std::size_t h = base::hash_mix(static_cast<std::size_t>(kind_), static_cast<std::size_t>(maximal_));
  h = base::hash_mix(h, replicate_last_ ? 1 : 0);
  return base::hash_range(base::hash_range(base::hash_range(base::hash_range(h, dims_), reshape_), perm_), list_);
}

namespace {

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail(str("\"", word, "\""));
  }
  void spaces() {
    while (take(" ")) {
    }
  }
  std::int64_t number() {
    std::int64_t v = 0;
    auto r = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (r.ec != std::errc()) fail("a number");
    at_ = static_cast<std::size_t>(r.ptr - text_.data());
    return v;
  }
  Dims numbers(std::string_view end) {
    Dims out;
    if (take(end)) return out;
    do {
      out.push_back(number());
    } while (take(","));
    expect(end);
    return out;
  }
  Dims bare_numbers() {
    Dims out{number()};
    while (take(",")) out.push_back(number());
    return out;
  }
  bool at_end() const { return at_ == text_.size(); }
  [[noreturn]] void fail(const std::string& expected) const {
    throw FormatError(str("TileAssignment::parse: column ", at_ + 1, " of \"", text_, "\": expected ", expected), "", 1,
                      static_cast<std::int64_t>(at_ + 1));
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

TileAssignment parse_tiles(TextReader& in) {
  Dims dims = in.numbers("]");
  std::optional<Dims> reshape, perm;
  std::vector<std::int64_t> list;
  if (in.take("<=[")) {
    reshape = in.numbers("]");
    if (in.take("T(")) {
      perm = in.numbers(")");
    } else {
      perm = Dims{};
      for (std::size_t i = 0; i < reshape->size(); ++i) perm->push_back(static_cast<std::int64_t>(i));
    }
  } else {
    list = in.bare_numbers();
  }
  in.spaces();
  bool replicate = in.take("last_tile_dim_replicate") || in.take("last_tile_dims={replicated}");
  in.spaces();
  in.expect("}");
  try {
    if (reshape) return TileAssignment(std::move(dims), std::move(*reshape), std::move(*perm), replicate);
    return TileAssignment::from_list(std::move(dims), std::move(list), replicate);
  } catch (const ValueError& e) {
    in.fail(str("a valid tile assignment (", e.what(), ")"));
  }
}

}  // namespace

TileAssignment TileAssignment::parse(std::string_view text, const Loc&) {
  TextReader in(text);
  in.expect("{");
  std::optional<TileAssignment> out;
  if (in.take("replicated}")) {
    out = replicated();
  } else if (in.take("manual}")) {
    out = manual();
  } else if (in.take("maximal device=")) {
    std::int64_t device = in.number();
    if (device < 0) in.fail("a device number of 0 or more");
    out = maximal(device);
    in.expect("}");
  } else {
    in.expect("devices=[");
    out = parse_tiles(in);
  }
  if (!in.at_end()) in.fail("the end of the text");
  return *out;
}

}  // namespace tessera
