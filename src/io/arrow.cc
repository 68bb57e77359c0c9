// SPDX-License-Identifier: Apache-2.0
#include "tessera/arrow.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "array/array_impl.h"
#include "base/report/log.h"
#include "base/strings.h"
#include "io/array_to_fill.h"
#include "io/arrow_column.h"
#include "io/input.h"
#include "sharding/fits.h"
#include "tessera/error.h"
#include "tessera/host_array.h"

namespace tessera {

namespace {

using io::ArrowColumn;
using io::ArrowPlace;

constexpr const char kFromArrow[] = "from_arrow";
constexpr const char kFromTable[] = "from_arrow_table";
constexpr std::uintptr_t kSharedAlignment = 64;  // of every HostArray

// A struct of the interface that is released at the end: moved here, as the specification moves them.
template <class T>
struct Held {
  T value{};
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (value.release != nullptr) value.release(&value);
  }
  void take(T* from) noexcept {
    value = *from;
    from->release = nullptr;
  }
};

template <class T>
void release_struct(T* given) {
  if (given->release != nullptr) given->release(given);
}

// Memory that an array shares, and the struct that it is of. Nothing is taken before all columns are made.
struct Shared {
  std::shared_ptr<Held<ArrowArray>> owner;
  ArrowArray* from;
};

struct Wanted {
  std::string name;
  std::size_t field = 0;
  ShardingPtr sharding;
};

enum class Kind { Column, Table };

// What a call reads: one column, or fields of a struct.
class Import {
 public:
  Import(Kind kind, const ArrowOptions& options)
      : kind_(kind), function_(kind == Kind::Table ? kFromTable : kFromArrow), options_(options) {
    if (kind == Kind::Column && !options.columns.empty()) {
      throw ValueError(str(kFromArrow, ": options.columns has ", options.columns.size(),
                           " names; expected none for a single column (from_arrow_table reads tables)"));
    }
  }

  const char* function() const { return function_; }

  // One sharding for all, or none: the default device.
  void plan(const ArrowSchema& schema, const ShardingPtr& sharding, bool committed) {
    committed_ = committed;
    const ShardingPtr at = committed ? sharding : arrays::default_sharding();
    if (!at) throw ValueError(str(function_, ": sharding is null; expected a Sharding"));
    if (kind_ == Kind::Column) {
      add({schema.name == nullptr ? "" : schema.name, 0, at}, schema);
      return;
    }
    const auto fields = fields_of(schema);
    if (options_.columns.empty()) {
      for (const auto& [name, field] : fields) add({name, field, at}, *schema.children[field]);
    }
    for (const std::string& name : options_.columns) find(schema, fields, name, at);
  }

  void plan(const ArrowSchema& schema, const std::map<std::string, ShardingPtr>& shardings) {
    committed_ = true;
    if (!options_.columns.empty()) {
      throw ValueError(str(function_, ": options.columns has ", options_.columns.size(),
                           " names beside shardings by name; expected one of the two"));
    }
    const auto fields = fields_of(schema);
    for (const auto& [name, sharding] : shardings) {
      if (!sharding) throw ValueError(str(function_, ": shardings[\"", name, "\"] is null; expected a Sharding"));
      find(schema, fields, name, sharding);
    }
  }

  // The arrays by name, from batches that stay as they are where this throws. What they share is moved out of them.
  std::map<std::string, Array> read(std::span<ArrowArray* const> batches) {
    for (ArrowArray* batch : batches) add_batch(*batch);
    const auto nulls = null_values();
    std::map<std::string, Array> out;
    std::vector<Shared> shared;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      out[wanted_[i].name] = make(i, batches, nulls[i], shared);
    }
    for (const Shared& s : shared) s.owner->take(s.from);
    return out;
  }

 private:
  std::map<std::string, std::size_t> fields_of(const ArrowSchema& schema) const {
    const std::string format = schema.format == nullptr ? "" : schema.format;
    if (format != "+s") {
      throw TypeError(str(function_, ": schema has format \"", format,
                          "\"; expected \"+s\", a struct of columns: from_arrow takes single columns"));
    }
    if (schema.n_children < 0 || (schema.n_children > 0 && schema.children == nullptr)) {
      throw ValueError(str(function_, ": schema has ", schema.n_children, " children",
                           schema.children == nullptr ? " at a null pointer" : "", "; expected one for each column"));
    }
    fields_ = schema.n_children;
    std::map<std::string, std::size_t> out;
    for (std::size_t i = 0; i < static_cast<std::size_t>(schema.n_children); ++i) {
      const ArrowSchema* child = schema.children[i];
      if (child == nullptr) throw ValueError(str(function_, ": schema has a null pointer for child ", i));
      const std::string name = child->name == nullptr ? "" : child->name;
      if (!out.emplace(name, i).second) {
        throw ValueError(str(function_, ": schema has two columns of the name \"", name, "\" (", out[name], " and ", i,
                             "); expected each name once: rename one"));
      }
    }
    return out;
  }

  void find(const ArrowSchema& schema, const std::map<std::string, std::size_t>& fields, const std::string& name,
            const ShardingPtr& sharding) {
    const auto field = fields.find(name);
    if (field == fields.end()) {
      std::vector<std::string> names;
      for (const auto& f : fields) names.push_back(f.first);
      io::fail_missing(function_, "the table", name, names);
    }
    add({name, field->second, sharding}, *schema.children[field->second]);
  }

  void add(Wanted wanted, const ArrowSchema& schema) {
    ArrowPlace where(function_, wanted.name);
    io::ArrowType type = io::arrow_type(where, schema);
    columns_.emplace_back(std::move(where), std::move(type));
    wanted_.push_back(std::move(wanted));
  }

  void add_batch(const ArrowArray& batch) {
    const bool nulls_have_value = options_.null_value.has_value();
    if (kind_ == Kind::Column) {
      columns_[0].add(batch, nulls_have_value);
      return;
    }
    io::check_table(function_, batch, fields_);
    std::set<const ArrowArray*> children;
    for (std::int64_t i = 0; i < fields_; ++i) {
      if (!children.insert(batch.children[i]).second) {
        throw ValueError(str(function_, ": the table has the same array for two columns, the second of which is ", i,
                             "; expected an array for each, which can be released"));
      }
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i].add_field(batch, wanted_[i].field, nulls_have_value);
  }

  // One element of each column that has nulls.
  std::vector<HostArray> null_values() const {
    std::vector<HostArray> out(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!columns_[i].has_nulls()) continue;
      const DType dtype = columns_[i].type().dtype;
      const double value = options_.null_value.value_or(0);
      // Where conversions saturate, the bounds are those of the next power of two.
      const HostArray narrow = HostArray::scalar(value).astype(dtype);
      const double back = narrow.astype(float64).span<double>()[0];
      const bool fits = is_float(dtype) ? !std::isfinite(value) || std::isfinite(back)
                                        : back == value && std::abs(value) < std::ldexp(1.0, 63);
      if (!fits) {
        throw ValueError(str(function_, ": options.null_value = ", value, "; expected a value of ", dtype_name(dtype),
                             ", of which ", columns_[i].where().column, " has nulls"));
      }
      out[i] = narrow;
    }
    return out;
  }

  Array make(std::size_t i, std::span<ArrowArray* const> batches, const HostArray& null,
             std::vector<Shared>& shared) const {
    const ArrowColumn& column = columns_[i];
    const DType dtype = column.type().dtype;
    const Shape shape = column.shape();
    const ShardingPtr& sharding = wanted_[i].sharding;
    const std::string argument =
        str(kind_ == Kind::Table ? "the sharding of " : "sharding, of ", column.where().column);
    sharding::check_fits(function_, argument, *sharding, shape);
    const bool whole = sharding::placement(sharding, shape)->num_tiles == 1;
    const std::string hindrance = size_of(shape) == 0 ? "" : hindrance_of(column, whole);
    if (options_.copy == false && !hindrance.empty()) {
      throw ValueError(str(function_, ": options.copy is false, but ", column.where().column, " ", hindrance,
                           "; leave copy out to let it be copied"));
    }
    if (!options_.copy.value_or(false) && size_of(shape) > 0 && hindrance.empty()) {
      auto owner = std::make_shared<Held<ArrowArray>>();
      std::shared_ptr<void> storage(owner, const_cast<char*>(column.chunks()[0].data));
      shared.push_back({std::move(owner), source(i, batches)});
      return arrays::place(HostArray(dtype, shape, std::move(storage)), sharding, committed_, /*adopt=*/true);
    }
    if (whole && !options_.copy && !hindrance.empty()) {
      base::log(LogLevel::Debug, function_, str(": ", column.where().column, " is copied, as it ", hindrance));
    }
    const io::ArrayToFill array(ir::Type{dtype, shape}, sharding, committed_);
    for (const io::BlockMemory& b : array.blocks()) column.copy_block(b.start, b.shape, b.to, null.data());
    return array.finish();
  }

  // Why a column's memory cannot be an array's; empty where it can.
  static std::string hindrance_of(const ArrowColumn& column, bool whole) {
    if (!whole) return "is split by its sharding";
    if (column.type().packed) return "has bools, eight to a byte";
    if (column.has_nulls()) return "has nulls";
    if (column.chunks().size() > 1) return str("is in ", column.chunks().size(), " chunks");
    if (reinterpret_cast<std::uintptr_t>(column.chunks()[0].data) % kSharedAlignment != 0) {
      return "begins at an address that is no multiple of 64";
    }
    return "";
  }

  // The struct of the one batch that has rows.
  ArrowArray* source(std::size_t i, std::span<ArrowArray* const> batches) const {
    ArrowArray* batch = *std::ranges::find_if(batches, [](const ArrowArray* b) { return b->length > 0; });
    return kind_ == Kind::Table ? batch->children[wanted_[i].field] : batch;
  }

  Kind kind_;
  const char* function_;
  ArrowOptions options_;
  bool committed_ = false;
  mutable std::int64_t fields_ = 0;
  std::vector<Wanted> wanted_;
  std::vector<ArrowColumn> columns_;
};

using Columns = std::map<std::string, Array>;

template <class... Where>
Columns import_array(Kind kind, ArrowArray* array, ArrowSchema* schema, const ArrowOptions& options,
                     const Where&... where) {
  Import import(kind, options);
  io::check_alive(import.function(), "schema", schema);
  io::check_alive(import.function(), "array", array);
  import.plan(*schema, where...);
  ArrowArray* const batches[] = {array};
  Columns out = import.read(batches);
  release_struct(array);
  release_struct(schema);
  return out;
}

void check_stream(const char* function, ArrowArrayStream& stream, int code) {
  if (code == 0) return;
  const char* message = stream.get_last_error == nullptr ? nullptr : stream.get_last_error(&stream);
  throw ValueError(str(function, ": the stream failed: ", message == nullptr ? "it gives no message" : message,
                       " (code ", code, ", ", std::strerror(code), ")"));
}

template <class... Where>
Columns import_stream(Kind kind, ArrowArrayStream* given, const ArrowOptions& options, const Where&... where) {
  const char* function = kind == Kind::Table ? kFromTable : kFromArrow;
  io::check_alive(function, "stream", given);
  Held<ArrowArrayStream> stream;
  stream.take(given);
  if (stream.value.get_schema == nullptr || stream.value.get_next == nullptr) {
    throw ValueError(str(function, ": stream has no get_schema or no get_next; expected both functions"));
  }
  Import import(kind, options);
  Held<ArrowSchema> schema;
  check_stream(function, stream.value, stream.value.get_schema(&stream.value, &schema.value));
  io::check_alive(function, "the stream's schema", &schema.value);
  import.plan(schema.value, where...);
  std::vector<std::unique_ptr<Held<ArrowArray>>> held;
  std::vector<ArrowArray*> batches;
  for (;;) {
    auto batch = std::make_unique<Held<ArrowArray>>();
    check_stream(function, stream.value, stream.value.get_next(&stream.value, &batch->value));
    if (batch->value.release == nullptr) break;
    batches.push_back(&batch->value);
    held.push_back(std::move(batch));
  }
  return import.read(batches);
}

Array only(Columns columns) { return std::move(columns.begin()->second); }

}  // namespace

Array from_arrow(ArrowArray* array, ArrowSchema* schema, const ArrowOptions& options, const Loc&) {
  return only(import_array(Kind::Column, array, schema, options, ShardingPtr(), false));
}
Array from_arrow(ArrowArray* array, ArrowSchema* schema, const ShardingPtr& sharding, const ArrowOptions& options,
                 const Loc&) {
  return only(import_array(Kind::Column, array, schema, options, sharding, true));
}
Array from_arrow(ArrowArrayStream* stream, const ArrowOptions& options, const Loc&) {
  return only(import_stream(Kind::Column, stream, options, ShardingPtr(), false));
}
Array from_arrow(ArrowArrayStream* stream, const ShardingPtr& sharding, const ArrowOptions& options, const Loc&) {
  return only(import_stream(Kind::Column, stream, options, sharding, true));
}

Columns from_arrow_table(ArrowArray* array, ArrowSchema* schema, const ArrowOptions& options, const Loc&) {
  return import_array(Kind::Table, array, schema, options, ShardingPtr(), false);
}
Columns from_arrow_table(ArrowArray* array, ArrowSchema* schema, const ShardingPtr& sharding,
                         const ArrowOptions& options, const Loc&) {
  return import_array(Kind::Table, array, schema, options, sharding, true);
}
Columns from_arrow_table(ArrowArray* array, ArrowSchema* schema, const std::map<std::string, ShardingPtr>& shardings,
                         const ArrowOptions& options, const Loc&) {
  return import_array(Kind::Table, array, schema, options, shardings);
}
Columns from_arrow_table(ArrowArrayStream* stream, const ArrowOptions& options, const Loc&) {
  return import_stream(Kind::Table, stream, options, ShardingPtr(), false);
}
Columns from_arrow_table(ArrowArrayStream* stream, const ShardingPtr& sharding, const ArrowOptions& options,
                         const Loc&) {
  return import_stream(Kind::Table, stream, options, sharding, true);
}
Columns from_arrow_table(ArrowArrayStream* stream, const std::map<std::string, ShardingPtr>& shardings,
                         const ArrowOptions& options, const Loc&) {
  return import_stream(Kind::Table, stream, options, shardings);
}

}  // namespace tessera
