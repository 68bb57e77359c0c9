// SPDX-License-Identifier: Apache-2.0
// The tables of a bytecode file: strings, dialects, names of operations, where each attribute, type and set of
// properties is encoded, and the operations themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hlo/bytecode/byte_cursor.h"

namespace tessera::hlo {

/// Where an attribute or a type is encoded: in its dialect's own way, or as text with a zero at its end.
struct EncodedEntry {
  std::string_view dialect;
  bool custom = false;
  ByteRange range;
};

struct BytecodeOpName {
  std::string name;  ///< "vhlo.add_v1"
  /// Known to the writer: its properties are in the table of properties, else they are an attribute.
  bool registered = true;
};

struct BytecodeTables {
  std::uint64_t version = 0;
  std::vector<std::string_view> strings;
  std::vector<std::string_view> dialects;
  std::vector<BytecodeOpName> ops;
  std::vector<EncodedEntry> attributes;
  std::vector<EncodedEntry> types;
  std::vector<ByteRange> properties;
  ByteRange operations;

  /// The string whose number stands at the cursor.
  std::string_view string(ByteCursor& c) const;
  /// String number `i`; the cursor is for messages.
  std::string_view string(std::uint64_t i, const ByteCursor& c) const;
};

inline constexpr std::uint8_t kOperationsSection = 4;
// What versions of the format brought.
inline constexpr std::uint64_t kDialectVersions = 1, kRegionSections = 2, kUseListOrders = 3, kNoUnknownLocations = 4,
                               kProperties = 5, kNewestBytecode = 6;

/// Reads the tables; `source.producer` is set. Throws `FormatError` for files of another format or version.
BytecodeTables read_tables(BytecodeSource& source);

}  // namespace tessera::hlo
