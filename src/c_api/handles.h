// SPDX-License-Identifier: Apache-2.0
// What stands behind the handles of tessera/c_api.h, and how its functions take arguments: everything that a caller can
// give wrongly is a `ValueError` with the function's and the argument's name, and every exception becomes a value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "tessera/array.h"
#include "tessera/c_api.h"
#include "tessera/comm_plan.h"
#include "tessera/device.h"
#include "tessera/dtype.h"
#include "tessera/error.h"
#include "tessera/mesh.h"
#include "tessera/sharding.h"
#include "tessera/stablehlo.h"

struct tessera_error {
  tessera_error_kind kind;
  std::string message;
};
struct tessera_string {
  std::string text;
};
struct tessera_client {
  tessera::Client client;
};
struct tessera_mesh {
  tessera::Mesh mesh;
};
struct tessera_sharding {
  tessera::ShardingPtr sharding;
};
struct tessera_array {
  tessera::Array array;
};
struct tessera_program {
  tessera::StablehloProgram program;
  tessera::Client client;  // whose devices it runs on
};
struct tessera_plan {
  tessera::CommPlan plan;
  std::vector<std::string> axes;  // of each step
};

namespace tessera::c_api {

/// The exception that is being handled, as a value; also where there is no memory for one.
tessera_error* current_error() noexcept;

/// Runs `f`; null, or what it threw.
template <class F>
tessera_error* guarded(F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (...) {
    return current_error();
  }
}

/// A pointer that must not be null.
template <class T>
T& need(const char* function, const char* name, T* given) {
  if (given == nullptr) throw ValueError(str(function, ": ", name, " is null; expected a pointer to what it names"));
  return *given;
}
/// Where a handle goes; null until `f` has made it.
template <class T, class F>
tessera_error* make(const char* function, const char* name, T** out, F&& f) noexcept {
  if (out != nullptr) *out = nullptr;
  return guarded([&] {
    need(function, name, out);
    *out = std::make_unique<T>(T{f()}).release();
  });
}
inline tessera_error* make_text(const char* function, tessera_string** out, auto&& f) noexcept {
  return make<tessera_string>(function, "text", out, [&] { return tessera_string{f()}; });
}

/// Larger than any struct of this interface will be: what is above was never set.
inline constexpr std::size_t kLargestStruct = 4096;
template <class T>
void check_size(const char* function, const char* name, const T& given) {
  if (given.struct_size >= sizeof(T) && given.struct_size <= kLargestStruct) return;
  throw ValueError(str(function, ": ", name, ".struct_size = ", given.struct_size, "; expected ", sizeof(T),
                       " or more, the sizeof of the struct"));
}
/// A struct that the caller gives. One of a later version may set what this library knows: nothing else.
template <class T>
T read_struct(const char* function, const char* name, const T* given) {
  check_size(function, name, need(function, name, given));
  const auto* bytes = reinterpret_cast<const char*>(given);
  if (std::any_of(bytes + sizeof(T), bytes + given->struct_size, [](char b) { return b != 0; })) {
    throw ValueError(str(function, ": ", name, " has fields that version ", TESSERA_C_API_VERSION,
                         " of this library's C interface does not know; expected zeros there, or a newer library"));
  }
  T out;
  std::memcpy(&out, given, sizeof(T));
  return out;
}
/// Optional: null has the defaults.
template <class T>
T read_options(const char* function, const T* given) {
  return given == nullptr ? T{} : read_struct(function, "options", given);
}
/// A struct that the caller wants filled, with zeros in what this library does not know.
template <class T>
void write_struct(const char* function, const char* name, T* out, T value) {
  check_size(function, name, need(function, name, out));
  const std::size_t size = out->struct_size;
  value.struct_size = size;
  std::memcpy(out, &value, sizeof(T));
  std::memset(reinterpret_cast<char*>(out) + sizeof(T), 0, size - sizeof(T));
}

/// A list of the caller's. More than `most` elements are a number that was never set.
template <class T>
std::span<const T> list(const char* function, const char* name, const T* given, std::size_t count, std::size_t most) {
  if (count > most)
    throw ValueError(str(function, ": ", name, " has ", count, " elements; expected ", most, " at most"));
  if (count > 0) need(function, name, given);
  return {given, count};
}
inline constexpr std::size_t kMostDims = 256;
inline constexpr std::size_t kMostArrays = std::size_t{1} << 20;
inline Shape shape_of(const char* function, const std::int64_t* shape, std::size_t rank) {
  const auto extents = list(function, "shape", shape, rank, kMostDims);
  return {extents.begin(), extents.end()};
}
/// Writes a list into the caller's memory; see the opening comment of tessera/c_api.h.
void check_room(const char* function, const char* name, const void* out, std::size_t capacity, std::size_t size);
template <class T, class Range>
void give_list(const char* function, const char* name, const Range& values, T* out, std::size_t capacity,
               std::size_t* count) {
  need(function, "count", count) = values.size();
  if (capacity == 0) return;
  check_room(function, name, out, capacity, values.size());
  std::copy(values.begin(), values.end(), out);
}

/// Text of the caller's, which ends with a null byte.
inline std::string text_of(const char* function, const char* name, const char* given) {
  return std::string(&need(function, name, given));
}
/// "x,y" as names; null has none.
std::vector<std::string> names_in(const char* text);

DType dtype_of(const char* function, tessera_dtype dtype);

}  // namespace tessera::c_api
