// SPDX-License-Identifier: Apache-2.0
#include "io/arrow_column.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "core/strided_copy.h"
#include "tessera/error.h"
#include "tessera/host_array.h"

namespace tessera::io {

namespace {

struct FormatRow {
  const char* format;
  DType dtype;
};
constexpr FormatRow kFormats[] = {{"b", bool_},  {"c", int8},    {"s", int16},   {"i", int32},
                                  {"l", int64},  {"C", uint8},   {"S", uint16},  {"I", uint32},
                                  {"L", uint64}, {"e", float16}, {"f", float32}, {"g", float64}};

// Formats that arrays do not have, by how they begin, with what their producers can do. The first that fits holds.
struct RefusedRow {
  std::string_view prefix;
  const char* name;
  const char* way_out;
};
constexpr const char kToInteger[] = "cast it to an integer type";
constexpr const char kEncode[] = "encode it as numbers, or leave it out (options.columns of a table)";
constexpr const char kToFixedSize[] = "cast it to a fixed-size list";
constexpr RefusedRow kRefused[] = {{"n", "null", "cast it to a type that has values"},
                                   {"u", "string", kEncode},
                                   {"U", "large string", kEncode},
                                   {"vu", "string view", kEncode},
                                   {"z", "binary", kEncode},
                                   {"Z", "large binary", kEncode},
                                   {"vz", "binary view", kEncode},
                                   {"w:", "fixed-size binary", kEncode},
                                   {"d:", "decimal", "cast it to float64 or int64"},
                                   {"td", "date", kToInteger},
                                   {"tt", "time", kToInteger},
                                   {"ts", "timestamp", kToInteger},
                                   {"tD", "duration", kToInteger},
                                   {"ti", "interval", kToInteger},
                                   {"+l", "list", kToFixedSize},
                                   {"+L", "large list", kToFixedSize},
                                   {"+vl", "list view", kToFixedSize},
                                   {"+vL", "large list view", kToFixedSize},
                                   {"+s", "struct", "flatten it into columns"},
                                   {"+m", "map", kEncode},
                                   {"+u", "union", kEncode},
                                   {"+r", "run-end encoded", "decode it"}};

// Nested lists beyond this are no data of anyone's: a schema may be its own child.
constexpr std::size_t kMostLevels = 32;

[[noreturn]] void fail(const ArrowPlace& where, const std::string& what) {
  throw ValueError(str(where.function, ": ", where.column, " ", what));
}

[[noreturn]] void refuse(const ArrowPlace& where, std::string_view format) {
  const char* name = "of a type that is unknown here";
  const char* way_out = kEncode;
  for (const RefusedRow& row : kRefused) {
    if (!format.starts_with(row.prefix)) continue;
    name = row.name;
    way_out = row.way_out;
    break;
  }
  throw TypeError(str(where.function, ": ", where.column, " has format \"", format, "\" (", name,
                      "); expected bool, integers, float16, float32, float64 or fixed-size lists of these: ", way_out));
}

std::int64_t list_size(const ArrowPlace& where, std::string_view format) {
  const std::string_view digits = format.substr(3);
  std::int64_t n = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size() || n < 0) {
    fail(where, str("has format \"", format, "\"; expected \"+w:\" and a length"));
  }
  return n;
}

// Of `a`, which is not negative, as b is: the product, or a failure that names the lengths.
std::int64_t times(const ArrowPlace& where, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) fail(where, str("has ", a, " times ", b, " elements, more than 2^63 - 1"));
  return out;
}

// The number of bits that are not set.
std::int64_t count_clear(const std::uint8_t* bits, std::int64_t first, std::int64_t n) {
  std::int64_t set = 0;
  const std::int64_t end = first + n;
  std::int64_t i = first;
  for (; i < end && i % 8 != 0; ++i) set += (bits[i / 8] >> (i % 8)) & 1;
  for (; end - i >= 64; i += 64) {
    std::uint64_t word = 0;
    std::memcpy(&word, bits + i / 8, sizeof word);
    set += std::popcount(word);
  }
  for (; i < end; ++i) set += (bits[i / 8] >> (i % 8)) & 1;
  return n - set;
}

// What holds for every array, whatever its type.
void check_array(const ArrowPlace& where, const ArrowArray& a, std::int64_t buffers, std::int64_t children) {
  if (a.release == nullptr) fail(where, "was released or moved; expected an array that is alive");
  std::int64_t end = 0;
  if (a.length < 0 || a.offset < 0 || __builtin_add_overflow(a.length, a.offset, &end)) {
    fail(where,
         str("has length ", a.length, " and offset ", a.offset, "; expected both at least 0, and a sum below 2^63"));
  }
  if (a.null_count < -1 || a.null_count > a.length) {
    fail(where,
         str("has ", a.null_count, " nulls among ", a.length, " values; expected -1 (not counted) to ", a.length));
  }
  if (a.n_buffers != buffers || a.buffers == nullptr) {
    fail(where, str("has ", a.n_buffers, " buffers", a.buffers == nullptr ? " at a null pointer" : "", "; expected ",
                    buffers, " for its format"));
  }
  if (a.n_children != children || (children > 0 && a.children == nullptr)) {
    fail(where,
         str("has ", a.n_children, " children", children > 0 && a.children == nullptr ? " at a null pointer" : "",
             "; expected ", children, " for its format"));
  }
  for (std::int64_t i = 0; i < children; ++i) {
    if (a.children[i] == nullptr) fail(where, str("has a null pointer for child ", i));
  }
}

}  // namespace

ArrowPlace::ArrowPlace(const char* function_name, const std::string& name)
    : function(function_name), column(name.empty() ? "the column" : str("column \"", name, "\"")) {}

Shape ArrowType::shape(std::int64_t rows) const {
  Shape out{rows};
  out.insert(out.end(), inner.begin(), inner.end());
  return out;
}

const char* arrow_format(DType dtype) {
  for (const FormatRow& row : kFormats) {
    if (row.dtype == dtype) return row.format;
  }
  return nullptr;
}

ArrowType arrow_type(const ArrowPlace& where, const ArrowSchema& schema) {
  ArrowType type;
  const ArrowSchema* s = &schema;
  for (;; s = s->children[0]) {
    if (s->format == nullptr) fail(where, "has no format string; expected a schema of Arrow's C data interface");
    const std::string_view format = s->format;
    if (s->dictionary != nullptr) {
      throw TypeError(str(where.function, ": ", where.column, " is dictionary-encoded (indices of format \"", format,
                          "\"); expected plain values: decode it, or hand over its indices"));
    }
    if (!format.starts_with("+w:")) break;
    if (type.inner.size() == kMostLevels) fail(where, str("has more than ", kMostLevels, " levels of lists"));
    type.inner.push_back(list_size(where, format));
    if (s->n_children != 1 || s->children == nullptr || s->children[0] == nullptr) {
      fail(where, str("has ", s->n_children, " children in its schema of format \"", format, "\"; expected 1"));
    }
  }
  const std::string_view format = s->format;
  const auto* row = std::ranges::find_if(kFormats, [&](const FormatRow& r) { return format == r.format; });
  if (row == std::end(kFormats)) refuse(where, format);
  type.dtype = row->dtype;
  type.packed = row->dtype == bool_;
  return type;
}

namespace {
template <class T>
void check_struct(const char* function, const char* what, const T* given) {
  if (given == nullptr) throw ValueError(str(function, ": ", what, " is null; expected a struct of Arrow's"));
  if (given->release == nullptr) {
    throw ValueError(str(function, ": ", what, " was released or moved; expected one that is alive"));
  }
}
}  // namespace

void check_alive(const char* function, const char* what, const ArrowSchema* schema) {
  check_struct(function, what, schema);
}
void check_alive(const char* function, const char* what, const ArrowArray* array) {
  check_struct(function, what, array);
}
void check_alive(const char* function, const char* what, const ArrowArrayStream* stream) {
  check_struct(function, what, stream);
}

void check_table(const char* function, const ArrowArray& table, std::int64_t fields) {
  ArrowPlace where(function, "");
  where.column = "the table";
  check_array(where, table, 1, fields);
}

void ArrowColumn::add(const ArrowArray& array, bool nulls_have_value) {
  add_rows(array, 0, array.length, {}, nulls_have_value);
}

void ArrowColumn::add_field(const ArrowArray& parent, std::size_t field, bool nulls_have_value) {
  ArrowChunk chunk;
  add_nulls(parent, 0, parent.length, size_of(type_.inner), " in rows of its table that are null", chunk,
            nulls_have_value);
  const ArrowArray& child = *parent.children[field];
  if (child.length < parent.offset + parent.length) {
    fail(where_, str("has ", child.length, " rows; expected at least the ", parent.offset + parent.length,
                     " of its table (offset ", parent.offset, ", length ", parent.length, ")"));
  }
  add_rows(child, parent.offset, parent.length, std::move(chunk), nulls_have_value);
}

// Rows `from` and the next ones of an array, counted from its own offset.
void ArrowColumn::add_rows(const ArrowArray& array, std::int64_t from, std::int64_t rows, ArrowChunk chunk,
                           bool nulls_have_value) {
  const ArrowArray* a = &array;
  std::int64_t at = from;  // of the values of `a`
  std::int64_t n = rows;
  for (std::size_t level = 0;; ++level) {
    const bool list = level < type_.inner.size();
    check_array(where_, *a, list ? 1 : 2, list ? 1 : 0);
    const std::int64_t end = a->offset + at + n;  // at most offset + length, which was checked
    std::int64_t per = 1;
    for (std::size_t d = level; d < type_.inner.size(); ++d) per = times(where_, per, type_.inner[d]);
    add_nulls(*a, at, n, per, level == 0 ? "" : " in its lists", chunk, nulls_have_value);
    at += a->offset;
    if (!list) break;
    const std::int64_t size = type_.inner[level];
    const ArrowArray& child = *a->children[0];
    const std::int64_t wanted = times(where_, end, size);
    if (child.length < wanted) {
      fail(where_, str("has lists of ", size, " over ", child.length, " values; expected at least ", wanted,
                       " (offset ", a->offset, ", length ", a->length, ")"));
    }
    at = times(where_, at, size);
    n = times(where_, n, size);
    a = &child;
  }
  const std::int64_t item = dtype_size(type_.dtype);
  times(where_, at + n, item);
  if (n > 0 && a->buffers[1] == nullptr) fail(where_, str("has no memory; expected ", n, " values"));
  if (n > 0) chunk.data = static_cast<const char*>(a->buffers[1]) + (type_.packed ? 0 : at * item);
  chunk.first = type_.packed ? at : 0;
  chunk.rows = rows;
  if (__builtin_add_overflow(rows_, rows, &rows_)) fail(where_, "has more than 2^63 - 1 rows");
  if (rows > 0) chunks_.push_back(std::move(chunk));
}

void ArrowColumn::add_nulls(const ArrowArray& a, std::int64_t from, std::int64_t n, std::int64_t per, const char* of,
                            ArrowChunk& chunk, bool nulls_have_value) const {
  const auto* bits = static_cast<const std::uint8_t*>(a.buffers[0]);
  if (bits == nullptr && a.null_count > 0) {
    fail(where_, str("has ", a.null_count, " nulls", of, " but no bits that say which they are"));
  }
  if (bits == nullptr || a.null_count == 0 || n == 0) return;
  const std::int64_t nulls = count_clear(bits, a.offset + from, n);
  if (nulls == 0) return;
  if (!nulls_have_value) {
    fail(where_, str("has ", nulls, nulls == 1 ? " null" : " nulls", of, " among ", n,
                     " values; expected none: name options.null_value, which takes their place, or fill or drop them "
                     "first"));
  }
  if (per > 0) chunk.nulls.push_back({bits, a.offset + from, per});
}

bool ArrowColumn::has_nulls() const {
  return std::ranges::any_of(chunks_, [](const ArrowChunk& c) { return !c.nulls.empty(); });
}

namespace {

constexpr std::int64_t kWord = 64;  // bits

bool all_set(const std::uint8_t* bits) {
  std::uint64_t word = 0;
  std::memcpy(&word, bits, sizeof word);
  return ~word == 0;
}

// Bits `first` and the next `n` as bytes.
void unpack(const std::uint8_t* bits, std::int64_t first, std::int64_t n, char* to) {
  auto one = [&](std::int64_t i) { to[i] = static_cast<char>((bits[(first + i) / 8] >> ((first + i) % 8)) & 1); };
  std::int64_t i = 0;
  for (; i < n && (first + i) % 8 != 0; ++i) one(i);
  for (; n - i >= 8; i += 8) {
    const unsigned byte = bits[(first + i) / 8];
    for (unsigned k = 0; k < 8; ++k) to[i + k] = static_cast<char>((byte >> k) & 1U);
  }
  for (; i < n; ++i) one(i);
}

// Elements `from` and the next `n` of a chunk, whose rows lie one after the other.
void copy_elements(const ArrowChunk& chunk, const ArrowType& type, std::int64_t from, std::int64_t n, char* to,
                   const void* null) {
  if (n == 0) return;
  const auto item = static_cast<std::size_t>(dtype_size(type.dtype));
  if (type.packed) {
    const auto* bits = reinterpret_cast<const std::uint8_t*>(chunk.data);
    unpack(bits, chunk.first + from, n, to);
  } else {
    std::memcpy(to, chunk.data + static_cast<std::size_t>(from) * item, static_cast<std::size_t>(n) * item);
  }
  for (const ArrowValidity& v : chunk.nulls) {
    for (std::int64_t b = from / v.per; b * v.per < from + n; ++b) {
      const std::int64_t bit = v.first + b;
      if (bit % 8 == 0 && (b + kWord) * v.per <= from + n && all_set(v.bits + bit / 8)) {
        b += kWord - 1;
        continue;
      }
      if (((v.bits[bit / 8] >> (bit % 8)) & 1) != 0) continue;
      const std::int64_t first = std::max(b * v.per, from);
      const std::int64_t last = std::min((b + 1) * v.per, from + n);
      for (std::int64_t i = first; i < last; ++i)
        std::memcpy(to + static_cast<std::size_t>(i - from) * item, null, item);
    }
  }
}

}  // namespace

void ArrowColumn::copy_block(const Dims& start, const Shape& shape, char* to, const void* null) const {
  if (size_of(shape) == 0) return;
  const std::int64_t item = dtype_size(type_.dtype);
  const std::int64_t inner = size_of(type_.inner);
  const std::int64_t block_row = size_of(shape) / shape[0];
  std::int64_t first = 0;  // row of the chunk in the column
  for (const ArrowChunk& c : chunks_) {
    const std::int64_t from = std::max(first, start[0]);
    const std::int64_t rows = std::min(first + c.rows, start[0] + shape[0]) - from;
    const std::int64_t row = from - first;  // in the chunk
    first += c.rows;
    if (rows <= 0) continue;
    char* at = to + (from - start[0]) * block_row * item;
    if (block_row == inner) {
      copy_elements(c, type_, row * inner, rows * inner, at, null);
      continue;
    }
    // A part of every row. What is packed or has nulls is read in whole rows first.
    HostArray aside;
    const char* source = c.data + row * inner * item;
    if (type_.packed || !c.nulls.empty()) {
      aside = HostArray(type_.dtype, type_.shape(rows));
      copy_elements(c, type_, row * inner, rows * inner, static_cast<char*>(aside.data()), null);
      source = static_cast<const char*>(aside.data());
    }
    const Dims strides = core::contiguous_strides(type_.shape(rows), item);
    for (std::size_t d = 1; d < start.size(); ++d) source += start[d] * strides[d];
    Shape part = shape;
    part[0] = rows;
    core::copy_strided(at, core::contiguous_strides(part, item), source, strides, part, item);
  }
}

}  // namespace tessera::io
