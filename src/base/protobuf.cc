// SPDX-License-Identifier: Apache-2.0
#include "base/protobuf.h"

#include "base/strings.h"
#include "tessera/error.h"

namespace tessera::protobuf {

namespace {
enum Wire : std::uint64_t { kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5 };

class Cursor {
 public:
  Cursor(std::string_view bytes, std::size_t offset, const char* what) : bytes_(bytes), offset_(offset), what_(what) {}

  bool at_end() const { return at_ == bytes_.size(); }
  std::size_t offset() const { return offset_ + at_; }

  std::uint64_t varint() {
    std::uint64_t out = 0;
    for (int shift = 0; shift < 64 && !at_end(); shift += 7) {
      auto byte = static_cast<unsigned char>(bytes_[at_++]);
      out |= static_cast<std::uint64_t>(byte & 127U) << shift;
      if (byte < 128) return out;
    }
    fail("a number that does not end");
  }
  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - at_) fail("a field that does not end");
    auto out = bytes_.substr(at_, static_cast<std::size_t>(n));
    at_ += out.size();
    return out;
  }
  [[noreturn]] void fail(const char* problem) const {
    throw FormatError(str(what_, ": ", problem, " at byte ", offset()), "", 0, 0);
  }

 private:
  std::string_view bytes_;
  std::size_t offset_;
  std::size_t at_ = 0;
  const char* what_;
};
}  // namespace

void each_field(std::string_view message, std::size_t offset, const char* what,
                const std::function<void(const Field&)>& f) {
  Cursor in(message, offset, what);
  while (!in.at_end()) {
    std::uint64_t tag = in.varint();
    Field field;
    field.number = tag >> 3;
    switch (tag & 7U) {
      case kVarint:
        field.value = in.varint();
        break;
      case kLength: {
        std::uint64_t n = in.varint();
        field.kind = Kind::Bytes;
        field.offset = in.offset();
        field.bytes = in.take(n);
        break;
      }
      case kEightBytes:
      case kFourBytes:
        field.kind = Kind::Fixed;
        field.offset = in.offset();
        field.bytes = in.take((tag & 7U) == kEightBytes ? 8 : 4);
        break;
      default:
        in.fail("a field of an unknown kind");
    }
    f(field);
  }
}

void each_number(const Field& field, const char* what, const std::function<void(std::uint64_t)>& f) {
  if (field.kind == Kind::Number) return f(field.value);
  if (field.kind != Kind::Bytes) return;
  for (Cursor in(field.bytes, field.offset, what); !in.at_end();) f(in.varint());
}

void put_varint(std::string& to, std::uint64_t n) {
  for (; n >= 128; n >>= 7) to += static_cast<char>(n | 128U);
  to += static_cast<char>(n);
}

void put_number(std::string& to, std::uint64_t field, std::uint64_t n) {
  put_varint(to, field << 3 | kVarint);
  put_varint(to, n);
}

void put_bytes(std::string& to, std::uint64_t field, std::string_view bytes) {
  put_varint(to, field << 3 | kLength);
  put_varint(to, bytes.size());
  to += bytes;
}

void put_numbers(std::string& to, std::uint64_t field, std::span<const std::int64_t> list) {
  if (list.empty()) return;
  std::string packed;
  for (auto n : list) put_varint(packed, static_cast<std::uint64_t>(n));
  put_bytes(to, field, packed);
}

}  // namespace tessera::protobuf
