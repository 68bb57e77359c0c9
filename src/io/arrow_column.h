// SPDX-License-Identifier: Apache-2.0
// Columns of the Arrow C data interface as places in memory: what a schema says of the elements, and where the chunks'
// elements and nulls are. The structs come from other libraries: nothing of them is believed but that buffers are as
// long as lengths say, which the interface leaves open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/arrow.h"
#include "tessera/dtype.h"
#include "tessera/shape.h"

namespace tessera::io {

/// The names of a message: the function and the column.
struct ArrowPlace {
  const char* function;
  std::string column;  ///< "column \"x\"", or "the column"

  ArrowPlace(const char* function_name, const std::string& name);
};

/// The elements of a row: `inner` is () for plain columns.
struct ArrowType {
  DType dtype = DType::F32;
  bool packed = false;  ///< eight to a byte
  Shape inner;

  Shape shape(std::int64_t rows) const;
};

/// The type that a schema describes. Throws `TypeError` naming the format for types that arrays do not have,
/// `ValueError` for malformed schemas.
ArrowType arrow_type(const ArrowPlace& where, const ArrowSchema& schema);
/// The format string of a dtype; null where Arrow has none.
const char* arrow_format(DType dtype);
/// Throws `ValueError` naming `what` for a struct that is null or was released.
void check_alive(const char* function, const char* what, const ArrowSchema* schema);
void check_alive(const char* function, const char* what, const ArrowArray* array);
void check_alive(const char* function, const char* what, const ArrowArrayStream* stream);
/// Throws `ValueError` for a malformed struct array, or one that has not this many fields.
void check_table(const char* function, const ArrowArray& table, std::int64_t fields);

/// Bits that say which elements there are: one for every `per` elements, the first at bit `first`.
struct ArrowValidity {
  const std::uint8_t* bits = nullptr;
  std::int64_t first = 0;
  std::int64_t per = 1;
};

/// Rows that follow each other in memory.
struct ArrowChunk {
  const char* data = nullptr;
  std::int64_t first = 0;  ///< packed: the bit of the first element; else 0
  std::int64_t rows = 0;
  std::vector<ArrowValidity> nulls;  ///< of what has nulls
};

/// A column in one or more chunks.
class ArrowColumn {
 public:
  ArrowColumn(ArrowPlace where, ArrowType type) : where_(std::move(where)), type_(std::move(type)) {}
  /// Adds the rows of a column that stands alone. Throws `ValueError` for what is malformed, and for nulls where there
  /// is no `null_value`, with their number.
  void add(const ArrowArray& array, bool nulls_have_value);
  /// Adds the rows of a field of a struct that `check_table` has seen: the struct's own offset, length and nulls hold
  /// for its fields.
  void add_field(const ArrowArray& parent, std::size_t field, bool nulls_have_value);

  const ArrowPlace& where() const { return where_; }
  const ArrowType& type() const { return type_; }
  Shape shape() const { return type_.shape(rows_); }
  /// Chunks that have rows.
  const std::vector<ArrowChunk>& chunks() const { return chunks_; }
  bool has_nulls() const;
  /// Copies the block of `shape` that begins at `start` to row-major memory; `null` is one element, or null where there
  /// are no nulls.
  void copy_block(const Dims& start, const Shape& shape, char* to, const void* null) const;

 private:
  void add_rows(const ArrowArray& array, std::int64_t from, std::int64_t rows, ArrowChunk chunk, bool nulls_have_value);
  void add_nulls(const ArrowArray& array, std::int64_t from, std::int64_t n, std::int64_t per, const char* of,
                 ArrowChunk& chunk, bool nulls_have_value) const;

  ArrowPlace where_;
  ArrowType type_;
  std::vector<ArrowChunk> chunks_;
  std::int64_t rows_ = 0;
};

}  // namespace tessera::io
