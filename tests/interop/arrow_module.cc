// SPDX-License-Identifier: Apache-2.0
// Plain C functions through which tests/interop/check_arrow.py gives columns of pyarrow to Tessera and takes them back.
#include <exception>
#include <map>
#include <string>

#include "tessera/arrow.h"
#include "tessera/tessera.h"

namespace {
namespace ts = tessera;

thread_local std::string error;

template <class F>
auto guarded(const F& f) noexcept -> decltype(f()) {
  error.clear();
  try {
    return f();
  } catch (const std::exception& e) {
    error = e.what();
    return {};
  }
}

ts::ArrowOptions options_of(double null_value) {
  ts::ArrowOptions options;
  if (null_value == null_value) options.null_value = null_value;  // NaN: none
  return options;
}

ts::ShardingPtr over_eight() { return ts::NamedSharding(ts::make_mesh({8}, {"x"}), ts::P("x")).share(); }

// The columns in eight shards, put together again.
std::map<std::string, ts::Array> whole(const std::map<std::string, ts::Array>& columns) {
  std::map<std::string, ts::Array> out;
  for (const auto& [name, x] : columns) out[name] = ts::device_put(x.host());
  return out;
}
}  // namespace

extern "C" {
/// What the last call on this thread has thrown; empty where it has not.
const char* arrow_error() { return error.c_str(); }

/// The column given back, shared where it can be; where `split`, through eight shards.
int arrow_through(ArrowArray* array, ArrowSchema* schema, int split, double null_value, ArrowArray* out,
                  ArrowSchema* out_schema) {
  return guarded([&] {
    ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
    const ts::ArrowOptions options = options_of(null_value);
    ts::Array x = split != 0 ? ts::device_put(ts::from_arrow(array, schema, over_eight(), options).host())
                             : ts::from_arrow(array, schema, options);
    ts::to_arrow(x, out, out_schema);
    return 1;
  });
}

/// A chunked column as one.
int arrow_stream_through(ArrowArrayStream* stream, int split, ArrowArray* out, ArrowSchema* out_schema) {
  return guarded([&] {
    ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
    ts::Array x = split != 0 ? ts::device_put(ts::from_arrow(stream, over_eight()).host()) : ts::from_arrow(stream);
    ts::to_arrow(x, out, out_schema);
    return 1;
  });
}

/// Record batches as one, of the columns named here (separated by commas; empty: all).
int arrow_table_through(ArrowArrayStream* stream, int split, const char* names, ArrowArray* out,
                        ArrowSchema* out_schema) {
  return guarded([&] {
    ts::ClientScope eight(ts::Client::cpu({.devices = 8}));
    ts::ArrowOptions options;
    for (std::string rest = names; !rest.empty();) {
      const std::size_t comma = rest.find(',');
      options.columns.push_back(rest.substr(0, comma));
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
    ts::to_arrow_table(
        split != 0 ? whole(ts::from_arrow_table(stream, over_eight(), options)) : ts::from_arrow_table(stream, options),
        out, out_schema);
    return 1;
  });
}
}
