// SPDX-License-Identifier: Apache-2.0
// A flatbuffer begins with the offset of its root table. A table begins with the distance back to its layout, which
// holds its own size, the table's, and for each field where in the table it lies; 0 where it is left out. A field that
// is a vector is the offset to its length and bytes.
#include "hlo/bytecode/exported_file.h"

#include "hlo/bytecode/bytecode.h"

namespace tessera::hlo {

namespace {
constexpr std::size_t kModuleField = 13;  // mlir_module_serialized

// The little-endian number of `size` bytes at `at`; nothing beyond the end.
std::optional<std::uint64_t> number_at(std::string_view bytes, std::uint64_t at, std::size_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return std::nullopt;
  std::uint64_t v = 0;
  for (std::size_t i = size; i-- > 0;) v = v << 8 | static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(at) + i]);
  return v;
}
}  // namespace

std::optional<ByteRange> exported_program(std::string_view bytes) {
  auto table = number_at(bytes, 0, 4);
  auto back = table ? number_at(bytes, *table, 4) : std::nullopt;
  if (!back) return std::nullopt;
  // The distance has a sign; wrapped around, what it leads to is beyond the end.
  auto layout = static_cast<std::uint64_t>(static_cast<std::int64_t>(*table) -
                                           static_cast<std::int32_t>(static_cast<std::uint32_t>(*back)));
  auto layout_size = number_at(bytes, layout, 2);
  constexpr std::uint64_t kSlot = 4 + 2 * kModuleField;
  if (!layout_size || *layout_size < kSlot + 2) return std::nullopt;
  auto slot = number_at(bytes, layout + kSlot, 2);
  if (!slot || *slot == 0) return std::nullopt;
  auto to_vector = number_at(bytes, *table + *slot, 4);
  if (!to_vector) return std::nullopt;
  std::uint64_t vector = *table + *slot + *to_vector;
  auto size = number_at(bytes, vector, 4);
  if (!size || *size > bytes.size() - vector - 4) return std::nullopt;
  ByteRange out{static_cast<std::size_t>(vector) + 4, static_cast<std::size_t>(vector + 4 + *size)};
  if (!is_bytecode(bytes.substr(out.begin, out.end - out.begin))) return std::nullopt;
  return out;
}

bool is_exported(std::string_view bytes) { return exported_program(bytes).has_value(); }

}  // namespace tessera::hlo
