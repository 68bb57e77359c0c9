// SPDX-License-Identifier: Apache-2.0
// A flatbuffer begins with the offset of its root table. A table begins with the distance back to its layout, which
// holds its own size, the table's, and for each field where in the table it lies; 0 where it is left out. A field that
// is a vector is the offset to its length and bytes.
#include "hlo/bytecode/exported_file.h"

#include <algorithm>

#include "base/strings.h"
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

// Where the program's bytecode lies, or would lie if the bytes went on.
struct Found {
  std::uint64_t begin = 0;
  std::optional<std::uint64_t> end;  // nothing where not even its length is there
};

std::optional<Found> find_program(std::string_view bytes) {
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
  Found out{vector + 4, std::nullopt};
  if (size) out.end = vector + 4 + *size;
  return out;
}
}  // namespace

std::optional<ByteRange> exported_program(std::string_view bytes) {
  auto found = find_program(bytes);
  if (!found || !found->end || *found->end > bytes.size()) return std::nullopt;
  ByteRange out{static_cast<std::size_t>(found->begin), static_cast<std::size_t>(*found->end)};
  if (!is_bytecode(bytes.substr(out.begin, out.end - out.begin))) return std::nullopt;
  return out;
}

bool is_exported(std::string_view bytes) { return exported_program(bytes).has_value(); }

void check_whole_export(std::string_view bytes, const std::string& name) {
  // The first number is the place of a table near the beginning; the characters of a text are no such number.
  auto table = number_at(bytes, 0, 4);
  if (!table || *table > (1 << 16)) return;
  const std::size_t size = bytes.size();
  const std::string seems = str("the file looks like one of jax.export, truncated at byte ", size);
  const BytecodeSource source{bytes, name, {}};
  auto found = find_program(bytes);
  if (!found) {
    // The table and its layout are within the first bytes of a whole file.
    constexpr std::size_t kHead = 256;
    if (*table >= 4 && size < kHead) source.fail(size, str(seems, ": its table of contents is not whole"));
    return;
  }
  if (found->end && *found->end <= size) return;
  const auto begin = static_cast<std::size_t>(std::min<std::uint64_t>(found->begin, size));
  const std::string_view there = bytes.substr(begin, kBytecodeMagic.size());
  if (!kBytecodeMagic.starts_with(there)) return;
  source.fail(size, found->end ? str(seems, ": the program in it ends at byte ", *found->end)
                               : str(seems, ": the program in it begins at byte ", found->begin));
}

}  // namespace tessera::hlo
