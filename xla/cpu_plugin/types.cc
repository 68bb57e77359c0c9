// SPDX-License-Identifier: Apache-2.0
#include "types.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "xla/shape_util.h"

namespace xla_cpu {

namespace {
struct Pair {
  PJRT_Buffer_Type buffer;
  xla::PrimitiveType primitive;
};
constexpr Pair kTypes[] = {
    {PJRT_Buffer_Type_PRED, xla::PRED},
    {PJRT_Buffer_Type_S1, xla::S1},
    {PJRT_Buffer_Type_S2, xla::S2},
    {PJRT_Buffer_Type_S4, xla::S4},
    {PJRT_Buffer_Type_S8, xla::S8},
    {PJRT_Buffer_Type_S16, xla::S16},
    {PJRT_Buffer_Type_S32, xla::S32},
    {PJRT_Buffer_Type_S64, xla::S64},
    {PJRT_Buffer_Type_U1, xla::U1},
    {PJRT_Buffer_Type_U2, xla::U2},
    {PJRT_Buffer_Type_U4, xla::U4},
    {PJRT_Buffer_Type_U8, xla::U8},
    {PJRT_Buffer_Type_U16, xla::U16},
    {PJRT_Buffer_Type_U32, xla::U32},
    {PJRT_Buffer_Type_U64, xla::U64},
    {PJRT_Buffer_Type_F16, xla::F16},
    {PJRT_Buffer_Type_F32, xla::F32},
    {PJRT_Buffer_Type_F64, xla::F64},
    {PJRT_Buffer_Type_BF16, xla::BF16},
    {PJRT_Buffer_Type_C64, xla::C64},
    {PJRT_Buffer_Type_C128, xla::C128},
    {PJRT_Buffer_Type_F4E2M1FN, xla::F4E2M1FN},
    {PJRT_Buffer_Type_F8E3M4, xla::F8E3M4},
    {PJRT_Buffer_Type_F8E4M3, xla::F8E4M3},
    {PJRT_Buffer_Type_F8E4M3FN, xla::F8E4M3FN},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, xla::F8E4M3B11FNUZ},
    {PJRT_Buffer_Type_F8E4M3FNUZ, xla::F8E4M3FNUZ},
    {PJRT_Buffer_Type_F8E5M2, xla::F8E5M2},
    {PJRT_Buffer_Type_F8E5M2FNUZ, xla::F8E5M2FNUZ},
    {PJRT_Buffer_Type_F8E8M0FNU, xla::F8E8M0FNU},
    {PJRT_Buffer_Type_TOKEN, xla::TOKEN},
};

// From minor to major: dimensions by their strides. Those of one element may lie anywhere.
std::vector<std::int64_t> order_of(const PJRT_Buffer_MemoryLayout_Strides& strides, xla::PrimitiveType type,
                                   absl::Span<const std::int64_t> dims) {
  if (strides.num_byte_strides != dims.size()) {
    refuse(
        absl::StrCat("a memory layout with ", strides.num_byte_strides, " strides for ", dims.size(), " dimensions"));
  }
  std::vector<std::int64_t> order(dims.size());
  std::iota(order.rbegin(), order.rend(), 0);
  auto stride = [&](std::int64_t d) { return dims[d] == 1 ? 0 : strides.byte_strides[d]; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return stride(a) < stride(b); });
  std::int64_t dense = xla::ShapeUtil::ByteSizeOfPrimitiveType(type);
  for (auto d : order) {
    if (dims[d] > 1 && stride(d) != dense) unsupported("a memory layout whose strides are not dense");
    dense *= dims[d];
  }
  return order;
}

// Whether `order` names every dimension once.
bool is_order(absl::Span<const std::int64_t> order, std::size_t rank) {
  std::vector<bool> seen(rank);
  for (auto d : order) {
    if (d < 0 || d >= static_cast<std::int64_t>(rank) || seen[d]) return false;
    seen[d] = true;
  }
  return order.size() == rank;
}
}  // namespace

xla::PrimitiveType primitive_type(PJRT_Buffer_Type type) {
  for (const auto& pair : kTypes) {
    if (pair.buffer == type) return pair.primitive;
  }
  unsupported(absl::StrCat("buffers of the API's element type ", static_cast<int>(type)));
}

PJRT_Buffer_Type buffer_type(xla::PrimitiveType type) {
  for (const auto& pair : kTypes) {
    if (pair.primitive == type) return pair.buffer;
  }
  return PJRT_Buffer_Type_INVALID;
}

std::optional<xla::Layout> layout_of(const PJRT_Buffer_MemoryLayout* layout, xla::PrimitiveType type,
                                     absl::Span<const std::int64_t> dims) {
  if (layout == nullptr) return std::nullopt;
  if (layout->type == PJRT_Buffer_MemoryLayout_Type_Strides) return xla::Layout(order_of(layout->strides, type, dims));
  if (layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled) {
    refuse(absl::StrCat("a memory layout of the unknown type ", static_cast<int>(layout->type)));
  }
  const auto& tiled = layout->tiled;
  absl::Span<const std::int64_t> order(tiled.minor_to_major, tiled.minor_to_major_size);
  if (!is_order(order, dims.size())) {
    refuse(absl::StrCat("a memory layout that is no order of ", dims.size(), " dimensions"));
  }
  std::vector<xla::Tile> tiles;
  const std::int64_t* at = tiled.tile_dims;
  for (std::size_t i = 0; i < tiled.num_tiles; ++i) {
    tiles.emplace_back(absl::Span<const std::int64_t>(at, tiled.tile_dim_sizes[i]));
    at += tiled.tile_dim_sizes[i];
  }
  return xla::Layout(order, tiles);
}

xla::Shape shape_of(PJRT_Buffer_Type type, const std::int64_t* dims, std::size_t num_dims,
                    const PJRT_Buffer_MemoryLayout* layout) {
  absl::Span<const std::int64_t> sizes(dims, num_dims);
  xla::PrimitiveType element = primitive_type(type);
  xla::Shape shape = value(xla::ShapeUtil::MakeValidatedShape(element, sizes));
  if (auto order = layout_of(layout, element, sizes)) *shape.mutable_layout() = *std::move(order);
  return shape;
}

}  // namespace xla_cpu
