// SPDX-License-Identifier: Apache-2.0
#include "hlo/bytecode/byte_cursor.h"

#include <bit>

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::hlo {

void BytecodeSource::fail(std::size_t offset, const std::string& what) const {
  std::string by = producer.empty() ? "" : str(" (written by ", producer.substr(0, 60), ")");
  throw FormatError(str(name, ": byte ", offset, ": ", what, by), name);
}

std::uint64_t ByteCursor::long_varint(std::uint8_t first) {
  // All zeros: the eight bytes that follow are the number.
  int more = first == 0 ? 8 : std::countr_zero(first);
  std::string_view rest = bytes(static_cast<std::uint64_t>(more));
  std::uint64_t high = 0;
  for (std::size_t i = rest.size(); i-- > 0;) high = high << 8 | static_cast<std::uint8_t>(rest[i]);
  if (more == 8) return high;
  return high << (7 - more) | static_cast<std::uint64_t>(first) >> (more + 1);
}

std::size_t ByteCursor::count() {
  std::uint64_t n = varint();
  if (n > remaining()) fail(str("a count of ", n, " where ", remaining(), " bytes are left"));
  return static_cast<std::size_t>(n);
}

ByteRange ByteCursor::range(std::uint64_t n) {
  if (n > remaining()) fail(str(n, " bytes are wanted, ", remaining(), " are left"));
  ByteRange out{at_, at_ + static_cast<std::size_t>(n)};
  at_ = out.end;
  return out;
}

std::string_view ByteCursor::bytes(std::uint64_t n) {
  ByteRange r = range(n);
  return source_->bytes.substr(r.begin, r.end - r.begin);
}

std::string_view ByteCursor::c_string() {
  std::size_t zero = source_->bytes.substr(at_, remaining()).find('\0');
  if (zero == std::string_view::npos) fail("a string does not end");
  std::string_view out = bytes(zero);
  ++at_;
  return out;
}

void ByteCursor::align(std::uint64_t alignment) {
  constexpr std::uint8_t kPadding = 0xCB;
  if (!std::has_single_bit(alignment)) fail(str("an alignment of ", alignment));
  while (at_ % alignment != 0) {
    if (byte() != kPadding) fail("expected padding before an aligned section");
  }
}

ByteRange ByteCursor::section(std::uint8_t& id) {
  std::uint8_t first = byte();
  id = first & 0x7F;
  std::uint64_t size = varint();
  if ((first & 0x80) != 0) align(varint());
  return range(size);
}

}  // namespace tessera::hlo
