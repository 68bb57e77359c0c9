// SPDX-License-Identifier: Apache-2.0
// The wire format of protocol buffers, as far as small messages of other programs need it
// (https://protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tessera::protobuf {

enum class Kind { Number, Bytes, Fixed };

struct Field {
  std::uint64_t number = 0;
  Kind kind = Kind::Number;
  std::uint64_t value = 0;  ///< of a number
  std::string_view bytes;   ///< of a message, string, packed list or fixed number
  std::size_t offset = 0;   ///< of these bytes in the whole message
};

/// Calls `f` for each field of `message`, whose bytes begin at `offset` of what the caller reads. Throws `FormatError`
/// that begins with `what` and names the byte, for fields and numbers that do not end and for groups.
void each_field(std::string_view message, std::size_t offset, const char* what,
                const std::function<void(const Field&)>& f);
/// Each number of a repeated field, packed or not.
void each_number(const Field& field, const char* what, const std::function<void(std::uint64_t)>& f);

void put_varint(std::string& to, std::uint64_t n);
void put_number(std::string& to, std::uint64_t field, std::uint64_t n);
void put_bytes(std::string& to, std::uint64_t field, std::string_view bytes);
/// A packed list; nothing for an empty one.
void put_numbers(std::string& to, std::uint64_t field, std::span<const std::int64_t> list);

}  // namespace tessera::protobuf
