// SPDX-License-Identifier: Apache-2.0
// Reading of MLIR bytecode's numbers, strings and sections. Nothing is read beyond the end: what would be is a
// `FormatError` with the byte's offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::hlo {

/// The bytes of a file, and its name for messages. Does not own the bytes.
struct BytecodeSource {
  std::string_view bytes;
  std::string name;
  std::string_view producer;  ///< who wrote the file, once that is read

  /// Throws `FormatError`: "file: byte 12: what".
  [[noreturn]] void fail(std::size_t offset, const std::string& what) const;
};

/// A stretch of the file, by offsets.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A position in a stretch of the file.
class ByteCursor {
 public:
  ByteCursor(const BytecodeSource& source, ByteRange range) : source_(&source), at_(range.begin), end_(range.end) {}

  std::size_t offset() const { return at_; }
  std::size_t remaining() const { return end_ - at_; }
  bool at_end() const { return at_ == end_; }
  [[noreturn]] void fail(const std::string& what) const { source_->fail(at_, what); }

  std::uint8_t byte();
  /// A number of one to nine bytes: the zeros at the low end of the first byte count the bytes that follow.
  std::uint64_t varint();
  /// As `varint`, with the sign in the lowest bit.
  std::int64_t signed_varint();
  /// As `varint`, without its lowest bit, which goes to `flag`.
  std::uint64_t flagged(bool& flag);
  /// A count of things that take at least one byte each: never more than there are bytes left.
  std::size_t count();
  /// The next `n` bytes.
  std::string_view bytes(std::uint64_t n);
  /// A stretch of `n` bytes, for a cursor of its own.
  ByteRange range(std::uint64_t n);
  /// Bytes up to a zero, which is skipped.
  std::string_view c_string();
  /// A section: its number goes to `id`, the cursor behind it.
  ByteRange section(std::uint8_t& id);

 private:
  std::uint64_t long_varint(std::uint8_t first);
  void align(std::uint64_t alignment);

  const BytecodeSource* source_;
  std::size_t at_;
  std::size_t end_;
};

inline std::uint8_t ByteCursor::byte() {
  if (at_ == end_) fail("the data ends in the middle of something");
  return static_cast<std::uint8_t>(source_->bytes[at_++]);
}
inline std::uint64_t ByteCursor::varint() {
  std::uint8_t first = byte();
  return (first & 1) != 0 ? first >> 1 : long_varint(first);
}
inline std::int64_t ByteCursor::signed_varint() {
  std::uint64_t v = varint();
  return static_cast<std::int64_t>((v >> 1) ^ (std::uint64_t{0} - (v & 1)));
}
inline std::uint64_t ByteCursor::flagged(bool& flag) {
  std::uint64_t v = varint();
  flag = (v & 1) != 0;
  return v >> 1;
}

}  // namespace tessera::hlo
