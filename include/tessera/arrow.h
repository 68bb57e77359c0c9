// SPDX-License-Identifier: Apache-2.0
// Apache Arrow, both ways: columns of pyarrow, Polars, DuckDB, pandas and Arrow's own libraries become Arrays, under a
// sharding or on one device, and arrays become columns. What a Parquet, Feather or CSV reader of theirs has read is
// handed over by its memory. Optional: `tessera/tessera.h` leaves it out, and nothing here needs Arrow's libraries: the
// border is the Arrow C data interface (https://arrow.apache.org/docs/format/CDataInterface.html) and its streams
// (https://arrow.apache.org/docs/format/CStreamInterface.html), whose three structs are defined below.
//
//   ts::Array prices = ts::from_arrow(&array, &schema);                      // takes both; shares the column's memory
//   auto columns = ts::from_arrow_table(&stream, rows_sharding);             // each device gets its rows of all
//   batches ts::to_arrow(prices, &array, &schema, "price");                          // whoever gets them releases them
//
// Elements: bool (packed into bits: copied), int8 to int64, uint8 to uint64, float16, float32, float64, and fixed-size
// lists of these at any depth, whose lengths are further dimensions. Others (strings, dates, decimals, dictionaries,
// lists of any length) are refused by errors that say what the producer can cast them to. Arrow has neither bfloat16
// nor complex dtypes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/array.h"
#include "tessera/loc.h"
#include "tessera/sharding.h"

// As the specification gives them; the guards are its own, so that headers of Arrow's may stand beside this one.
extern "C" {
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

/// The type of a column, by Arrow's C data interface.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

/// The elements of a column, by Arrow's C data interface.
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

/// Columns of one type that come one after the other, by Arrow's C stream interface.
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
#endif  // ARROW_C_STREAM_INTERFACE
}

namespace tessera {

/// How columns are read.
struct ArrowOptions {
  /// What stands in the place of nulls, in every column that has some; without it nulls are an error. It has to be a
  /// value of the column's dtype: 0 or 1 for bool, no NaN for integers.
  std::optional<double> null_value = std::nullopt;
  /// True always copies; false throws `ValueError` where a copy is needed.
  std::optional<bool> copy = std::nullopt;
  /// Of tables: the columns to read, others may be of any type. Empty: all.
  std::vector<std::string> columns = {};
};

/// A column as an array on the default device, uncommitted: of shape (rows,), and (rows, n, ...) for fixed-size lists.
/// Takes both structs, as Arrow's own importers do: the schema is released before this returns, the array when nothing
/// reads its memory any more, on whatever thread that is. Where this throws, the caller still has both.
///
/// The memory is shared where it is aligned to 64 bytes (as Arrow's allocators align; a slice may not be), is of no
/// bools and has no nulls; else the elements are copied. Shared memory must not be written to while the array, or one
/// made of it, lives. Offsets, lengths, counts and pointers are checked; the interface has no sizes of buffers, so that
/// these have to be as long as the lengths say. Throws `ValueError` for nulls without `null_value`, with their count,
/// for a `null_value` that is no value of the dtype, and for structs that are null, released or malformed; `TypeError`
/// for elements that Tessera lacks, with the format string.
Array from_arrow(ArrowArray* array, ArrowSchema* schema, const ArrowOptions& options = {},
                 const Loc& loc = Loc::current());
/// The same under a sharding, committed: each device of this process gets its shard, straight from the column's memory,
/// and nothing is sent. Each process hands over the whole column and reads its devices' rows of it, and the bits of all
/// nulls. The memory is shared where every device holds the whole. Throws as `device_put` of a `HostArray`, too.
Array from_arrow(ArrowArray* array, ArrowSchema* schema, const ShardingPtr& sharding, const ArrowOptions& options = {},
                 const Loc& loc = Loc::current());

/// The chunks of a stream one after the other along dimension 0 (a `ChunkedArray` of pyarrow); without chunks an empty
/// array. The stream is read to its end, which keeps all its chunks until their elements are copied, and is released,
/// also where this throws. The memory of a single chunk is shared as above. Throws as above, and `ValueError` with the
/// stream's own message where it fails.
Array from_arrow(ArrowArrayStream* stream, const ArrowOptions& options = {}, const Loc& loc = Loc::current());
/// The same under a sharding, committed. A chunk's elements are read by the devices whose shards they are in.
Array from_arrow(ArrowArrayStream* stream, const ShardingPtr& sharding, const ArrowOptions& options = {},
                 const Loc& loc = Loc::current());

/// Columns by name: the fields of a struct, as record batches are. Takes both structs as `from_arrow` does; columns
/// share memory each for itself, and those that are not read are released. A null row is a null of every column. Throws
/// as `from_arrow`, naming the column; `TypeError` for a type other than a struct, `ValueError` for columns that are
/// missing, and for names that two columns have.
std::map<std::string, Array> from_arrow_table(ArrowArray* array, ArrowSchema* schema, const ArrowOptions& options = {},
                                              const Loc& loc = Loc::current());
/// The same with every column under one sharding, committed: one that names dimension 0 fits columns of any rank.
std::map<std::string, Array> from_arrow_table(ArrowArray* array, ArrowSchema* schema, const ShardingPtr& sharding,
                                              const ArrowOptions& options = {}, const Loc& loc = Loc::current());
/// The columns that have a sharding here, each under its own, committed; `options.columns` has to be empty.
std::map<std::string, Array> from_arrow_table(ArrowArray* array, ArrowSchema* schema,
                                              const std::map<std::string, ShardingPtr>& shardings,
                                              const ArrowOptions& options = {}, const Loc& loc = Loc::current());
/// The record batches of a stream (a table, a reader of files) one after the other along dimension 0. The stream is
/// read to its end and released, also where this throws. Throws as `from_arrow` of a stream, too.
std::map<std::string, Array> from_arrow_table(ArrowArrayStream* stream, const ArrowOptions& options = {},
                                              const Loc& loc = Loc::current());
/// The same with every column under one sharding, committed.
std::map<std::string, Array> from_arrow_table(ArrowArrayStream* stream, const ShardingPtr& sharding,
                                              const ArrowOptions& options = {}, const Loc& loc = Loc::current());
/// The columns that have a sharding here, each under its own, committed.
std::map<std::string, Array> from_arrow_table(ArrowArrayStream* stream,
                                              const std::map<std::string, ShardingPtr>& shardings,
                                              const ArrowOptions& options = {}, const Loc& loc = Loc::current());

/// The value of an array whose devices all hold the whole of it (one device, or replicated) as a column without nulls:
/// elements of rank 1, fixed-size lists of higher rank. Waits for the computation. Writes both structs, which the
/// consumer releases, each for itself. The memory is the array's own and outlives it, also its deletion and donation;
/// bools are packed into bits, memory of an accelerator is copied to the host, and `copy` gives memory that is the
/// consumer's alone. Throws `ValueError` for a null struct, an array of rank 0 (reshape it) and one of several shards
/// (take `addressable_shards()[i].value()`, or the gathered `host()`), `TypeError` for bfloat16 and complex dtypes,
/// `ConcretizationError` for a traced array, `DeletedArrayError`, and what the computation threw. Where it throws,
/// nothing is written.
void to_arrow(const Array& x, ArrowArray* array, ArrowSchema* schema, const std::string& name = "", bool copy = false,
              const Loc& loc = Loc::current());
/// Arrays of the same number of rows as a struct with a field for each: what pyarrow takes as a record batch. Throws as
/// `to_arrow`, naming the column, and `ValueError` for columns of different lengths.
void to_arrow_table(const std::map<std::string, Array>& columns, ArrowArray* array, ArrowSchema* schema,
                    bool copy = false, const Loc& loc = Loc::current());

}  // namespace tessera
