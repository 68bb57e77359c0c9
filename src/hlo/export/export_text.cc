// SPDX-License-Identifier: Apache-2.0
// Types, constants, shardings as MLIR prints them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/strings.h"
#include "hlo/export/export.h"
#include "hlo/text/ast.h"
#include "tessera/sharding.h"

namespace tessera::hlo {

namespace {
// Lists longer than this are written as bytes.
constexpr std::int64_t kLongList = 64;

std::string hex_bytes(const HostArray& a) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "\"0x";
  const auto* bytes = static_cast<const unsigned char*>(a.data());
  for (std::int64_t i = 0; i < a.nbytes(); ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out + "\"";
}

// Decimal digits where they say the number exactly, else its bits.
std::string float_text(DType t, const unsigned char* at) {
  std::uint64_t bits = 0;
  auto size = dtype_size(t);
  std::memcpy(&bits, at, static_cast<std::size_t>(size));
  double value = t == DType::F64   ? std::bit_cast<double>(bits)
                 : t == DType::F32 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
                 : t == DType::F16 ? static_cast<double>(detail::half_to_float(static_cast<std::uint16_t>(bits)))
                                   : static_cast<double>(detail::bf16_to_float(static_cast<std::uint16_t>(bits)));
  char text[64];
  if (std::isfinite(value)) {
    for (int digits : {6, 8, 16}) {
      std::snprintf(text, sizeof text, "%.*e", digits, value);
      double back = std::strtod(text, nullptr);
      if (t == DType::F64 ? back == value : static_cast<float>(back) == static_cast<float>(value)) return text;
    }
  }
  std::snprintf(text, sizeof text, "0x%0*llX", static_cast<int>(size) * 2, static_cast<unsigned long long>(bits));
  return text;
}

std::string element_text(const HostArray& a, std::int64_t i) {
  auto size = dtype_size(a.dtype());
  const auto* at = static_cast<const unsigned char*>(a.data()) + i * static_cast<std::int64_t>(size);
  if (is_bool(a.dtype())) return *at != 0 ? "true" : "false";
  if (is_float(a.dtype())) return float_text(a.dtype(), at);
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(size));
  if (!is_signed_int(a.dtype())) return std::to_string(bits);
  int unused = 64 - static_cast<int>(size) * 8;
  return std::to_string(static_cast<std::int64_t>(bits << unused) >> unused);
}

bool all_equal(const HostArray& a) {
  const auto* bytes = static_cast<const unsigned char*>(a.data());
  auto size = static_cast<std::int64_t>(dtype_size(a.dtype()));
  return std::memcmp(bytes, bytes + size, static_cast<std::size_t>(a.nbytes() - size)) == 0;
}

void list_level(const HostArray& a, std::size_t d, std::int64_t& at, std::string& out) {
  if (d == a.shape().size()) {
    out += element_text(a, at++);
    return;
  }
  out += '[';
  for (std::int64_t k = 0; k < a.shape()[d]; ++k) {
    if (k > 0) out += ", ";
    list_level(a, d + 1, at, out);
  }
  out += ']';
}

std::string axes_text(const std::vector<ir::SubAxis>& axes) {
  std::vector<std::string> out;
  for (const auto& a : axes) {
    out.push_back(a.size == 0 ? str("\"", a.name, "\"") : str("\"", a.name, "\":(", a.pre_size, ")", a.size));
  }
  return join(out);
}
}  // namespace

std::string dense_text(const HostArray& a) {
  if (a.size() == 0) return "dense<>";
  if (is_complex(a.dtype())) return str("dense<", hex_bytes(a), ">");
  if (all_equal(a)) return str("dense<", element_text(a, 0), ">");
  if (a.size() > kLongList && !is_bool(a.dtype())) return str("dense<", hex_bytes(a), ">");
  std::string out;
  std::int64_t at = 0;
  list_level(a, 0, at, out);
  return str("dense<", out, ">");
}

std::string array_text(const Dims& d) { return d.empty() ? "array<i64>" : str("array<i64: ", join(d), ">"); }

std::string matrix_text(const std::vector<Dims>& rows) {
  std::size_t width = 0;
  for (const auto& r : rows) width = std::max(width, r.size());
  std::string type = str(" : tensor<", rows.size(), "x", rows.empty() ? 2 : width, "xi64>");
  if (rows.empty()) return "dense<>" + type;
  bool same = std::all_of(rows.begin(), rows.end(), [&](const Dims& r) {
    return r.size() == width && std::all_of(r.begin(), r.end(), [&](auto v) { return v == rows[0][0]; });
  });
  if (same && width > 0) return str("dense<", rows[0][0], ">", type);
  std::vector<std::string> out;
  for (const auto& r : rows) {
    Dims row = r;
    row.resize(width, -1);
    out.push_back(str("[", join(row), "]"));
  }
  return str("dense<[", join(out), "]>", type);
}

std::string tensor_text(const ir::Type& t) {
  return to_string(AstType{AstType::Kind::Tensor, elem_of(t.dtype), t.shape, {}});
}

std::string tensor_text(const Shape& shape, const std::string& element) {
  std::string dims;
  for (auto d : shape) dims += str(d, "x");
  return str("tensor<", dims, element, ">");
}

std::string to_string(const ir::NamedMesh& m) {
  std::vector<std::string> axes;
  for (std::size_t i = 0; i < m.axes.size(); ++i) axes.push_back(str("\"", m.axes[i], "\"=", m.sizes[i]));
  std::string ids = m.device_ids.empty() ? "" : str(", device_ids=[", join(m.device_ids), "]");
  return str("sdy.mesh @", m.name, " = <[", join(axes), "]", ids, ">");
}
std::string to_string(const ir::AxisSharding& s) {
  std::vector<std::string> dims;
  for (const auto& d : s.dims) {
    std::string axes = axes_text(d.axes);
    if (d.open) axes += axes.empty() ? "?" : ", ?";
    dims.push_back(str("{", axes, "}", d.priority > 0 ? str("p", d.priority) : std::string()));
  }
  std::string rest;
  if (!s.replicated.empty()) rest += str(", replicated={", axes_text(s.replicated), "}");
  if (!s.unreduced.empty()) rest += str(", unreduced={", axes_text(s.unreduced), "}");
  return str("<@", s.mesh, ", [", join(dims), "]", rest, ">");
}

std::string hlo_sharding_text(const Dims& mesh_sizes, const std::vector<Dims>& dims, const Dims& manual) {
  Dims tiles, permutation;
  std::vector<bool> used(mesh_sizes.size(), false);
  auto take = [&](std::int64_t a) {
    used[static_cast<std::size_t>(a)] = true;
    permutation.push_back(a);
    return mesh_sizes[static_cast<std::size_t>(a)];
  };
  bool cut = false;
  for (const auto& d : dims) {
    std::int64_t n = 1;
    for (auto a : d) {
      if (a >= 0) n *= take(a);
    }
    cut = cut || n > 1;
    tiles.push_back(n);
  }
  if (!cut && manual.empty()) return "{replicated}";
  std::int64_t free = 1, mine = 1;
  for (std::size_t a = 0; a < mesh_sizes.size(); ++a) {
    bool is_manual = std::find(manual.begin(), manual.end(), static_cast<std::int64_t>(a)) != manual.end();
    if (!used[a] && !is_manual) free *= take(static_cast<std::int64_t>(a));
  }
  for (auto a : manual) mine *= take(a);
  if (!cut && free == 1) return "{manual}";
  if (free > 1) tiles.push_back(free);
  if (mine > 1) tiles.push_back(mine);
  std::string text = TileAssignment(tiles, mesh_sizes, permutation).text();
  if (free == 1 && mine == 1) return text;
  text.pop_back();
  if (mine == 1) return text + " last_tile_dim_replicate}";
  return str(text, " last_tile_dims={", free > 1 ? "replicated, " : "", "manual}}");
}

}  // namespace tessera::hlo
