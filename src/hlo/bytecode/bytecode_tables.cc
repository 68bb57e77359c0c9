// SPDX-License-Identifier: Apache-2.0
#include "hlo/bytecode/bytecode_tables.h"

#include <array>
#include <optional>

#include "base/strings.h"
#include "hlo/bytecode/bytecode.h"

namespace tessera::hlo {

std::string_view BytecodeTables::string(std::uint64_t i, const ByteCursor& c) const {
  if (i >= strings.size()) c.fail(str("there is no string ", i, "; there are ", strings.size()));
  return strings[static_cast<std::size_t>(i)];
}
std::string_view BytecodeTables::string(ByteCursor& c) const {
  std::uint64_t i = c.varint();
  return string(i, c);
}

namespace {
enum class SectionId : std::uint8_t {
  Strings,
  Dialects,
  Entries,
  EntryOffsets,
  Operations,
  Resources,
  ResourceOffsets,
  DialectVersions,
  Properties,
};
constexpr std::size_t kSections = 9;
using Sections = std::array<std::optional<ByteRange>, kSections>;

class TableReader {
 public:
  TableReader(BytecodeSource& source, BytecodeTables& to) : source_(source), to_(to) {}

  void read() {
    ByteCursor c(source_, {kBytecodeMagic.size(), source_.bytes.size()});
    to_.version = c.varint();
    if (to_.version > kNewestBytecode) {
      c.fail(str("bytecode of version ", to_.version, "; versions up to ", kNewestBytecode, " are read"));
    }
    source_.producer = c.c_string();
    sections(c);
    read_strings(need(SectionId::Strings, "strings"));
    if (auto r = find(SectionId::Properties)) read_properties(*r);
    read_dialects(need(SectionId::Dialects, "dialects"));
    read_entries(need(SectionId::EntryOffsets, "offsets"), need(SectionId::Entries, "attributes and types"));
    to_.operations = need(SectionId::Operations, "operations");
  }

 private:
  std::optional<ByteRange> find(SectionId id) const { return sections_[static_cast<std::size_t>(id)]; }
  ByteRange need(SectionId id, const char* what) const {
    auto r = find(id);
    if (!r) source_.fail(source_.bytes.size(), str("the section of ", what, " is missing"));
    return *r;
  }

  void sections(ByteCursor& c) {
    while (!c.at_end()) {
      std::uint8_t id = 0;
      ByteRange r = c.section(id);
      if (id >= kSections) source_.fail(r.begin, str("unknown section ", static_cast<int>(id)));
      if (sections_[id]) source_.fail(r.begin, str("section ", static_cast<int>(id), " stands here twice"));
      sections_[id] = r;
    }
  }

  // Lengths from the last string to the first, then all of them behind each other, each with a zero at its end.
  void read_strings(ByteRange r) {
    ByteCursor c(source_, r);
    to_.strings.resize(c.count());
    std::size_t end = r.end;
    for (std::size_t i = to_.strings.size(); i-- > 0;) {
      std::uint64_t size = c.varint();
      if (size == 0 || c.offset() > end || size > end - c.offset()) c.fail(str("a string of ", size, " bytes"));
      end -= static_cast<std::size_t>(size);
      to_.strings[i] = source_.bytes.substr(end, static_cast<std::size_t>(size) - 1);
    }
    if (c.offset() != end) c.fail("the strings do not fill their section");
  }

  void read_properties(ByteRange r) {
    if (r.begin == r.end) return;
    ByteCursor c(source_, r);
    std::size_t n = c.count();
    to_.properties.reserve(n);
    for (std::size_t i = 0; i < n; ++i) to_.properties.push_back(c.range(c.varint()));
    if (!c.at_end()) c.fail("data behind the properties");
  }

  std::size_t dialect(ByteCursor& c) const {
    std::uint64_t i = c.varint();
    if (i >= to_.dialects.size()) c.fail(str("there is no dialect ", i));
    return static_cast<std::size_t>(i);
  }

  void read_dialects(ByteRange r) {
    ByteCursor c(source_, r);
    std::size_t n = c.count();
    for (std::size_t i = 0; i < n; ++i) {
      bool versioned = false;
      std::uint64_t name = to_.version < kDialectVersions ? c.varint() : c.flagged(versioned);
      to_.dialects.push_back(to_.string(name, c));
      std::uint8_t id = static_cast<std::uint8_t>(SectionId::DialectVersions);
      if (versioned) c.section(id);
      if (id != static_cast<std::uint8_t>(SectionId::DialectVersions)) c.fail("expected the version of a dialect");
    }
    if (to_.version >= kNoUnknownLocations) c.varint();  // how many names there are
    while (!c.at_end()) {
      std::string_view of = to_.dialects[dialect(c)];
      std::size_t names = c.count();
      for (std::size_t i = 0; i < names; ++i) {
        BytecodeOpName op;
        std::uint64_t name = to_.version < kProperties ? c.varint() : c.flagged(op.registered);
        op.name = to_.string(name, c).empty() ? std::string(of) : str(of, ".", to_.string(name, c));
        to_.ops.push_back(std::move(op));
      }
    }
  }

  void read_group(ByteCursor& offsets, std::vector<EncodedEntry>& to, std::size_t& next, ByteCursor& data) const {
    std::string_view of = to_.dialects[dialect(offsets)];
    std::size_t n = offsets.count();
    if (n > to.size() - next) offsets.fail("more attributes or types than there are");
    for (std::size_t i = 0; i < n; ++i, ++next) {
      to[next].dialect = of;
      std::uint64_t size = offsets.flagged(to[next].custom);
      to[next].range = data.range(size);
    }
  }

  void read_entries(ByteRange offsets_range, ByteRange data_range) {
    ByteCursor offsets(source_, offsets_range), data(source_, data_range);
    to_.attributes.resize(offsets.count());
    to_.types.resize(offsets.count());
    for (auto* to : {&to_.attributes, &to_.types}) {
      for (std::size_t next = 0; next < to->size();) read_group(offsets, *to, next, data);
    }
    if (!offsets.at_end()) offsets.fail("data behind the offsets");
  }

  BytecodeSource& source_;
  BytecodeTables& to_;
  Sections sections_;
};
}  // namespace

BytecodeTables read_tables(BytecodeSource& source) {
  BytecodeTables out;
  if (!is_bytecode(source.bytes)) source.fail(0, "this is no MLIR bytecode");
  TableReader(source, out).read();
  return out;
}

}  // namespace tessera::hlo
