// SPDX-License-Identifier: Apache-2.0
// Nested lists of scalars as arrays.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/strings.h"
#include "tessera/creation.h"
#include "tessera/error.h"
#include "tessera/numpy.h"
#include "tessera/ops.h"

namespace tessera {

namespace {

std::string place_text(const Dims& place) {
  std::string out;
  for (auto i : place) out += str("[", i, "]");
  return out;
}

bool has_arrays(const ArrayLiteral& v) {
  if (v.array().defined()) return true;
  return std::any_of(v.elements().begin(), v.elements().end(), has_arrays);
}

Shape shape_of(const ArrayLiteral& v, Dims& place) {
  if (v.array().defined()) return v.array().shape();
  if (!v.is_list()) return v.value().shape();
  Shape inner;
  for (std::size_t i = 0; i < v.elements().size(); ++i) {
    place.push_back(static_cast<std::int64_t>(i));
    Shape s = shape_of(v.elements()[i], place);
    if (i > 0 && s != inner) {
      Dims first = place;
      first.back() = 0;
      throw ValueError(str("array: the list is ragged: element ", place_text(place), " has shape ", s,
                           "; expected that of element ", place_text(first), ", ", inner));
    }
    inner = std::move(s);
    place.pop_back();
  }
  inner.insert(inner.begin(), static_cast<std::int64_t>(v.elements().size()));
  return inner;
}

bool fits_int32(const HostArray& v) {
  HostArray wide = v.astype(int64);
  for (auto i : wide.span<std::int64_t>()) {
    if (i < std::numeric_limits<std::int32_t>::min() || i > std::numeric_limits<std::int32_t>::max()) return false;
  }
  return true;
}

// The dtype that JAX gives a Python literal; scalars of other C++ types keep theirs.
DType dtype_of_literal(const ArrayLiteral& v) {
  DType t = v.value().dtype();
  if (!v.is_plain() || is_bool(t)) return t;
  if (is_integer(t)) return fits_int32(v.value()) ? int32 : int64;
  return is_complex(t) ? complex64 : float32;
}

void join_dtypes(const ArrayLiteral& v, std::optional<DType>& joined) {
  for (const auto& e : v.elements()) join_dtypes(e, joined);
  if (v.is_list()) return;
  DType t = v.array().defined() ? v.array().dtype() : dtype_of_literal(v);
  joined = joined ? promote_types(*joined, t) : t;
}

void fill(const ArrayLiteral& v, DType dtype, char*& out) {
  for (const auto& e : v.elements()) fill(e, dtype, out);
  if (v.is_list()) return;
  HostArray value = v.value().astype(dtype);
  std::memcpy(out, value.data(), static_cast<std::size_t>(value.nbytes()));
  out += value.nbytes();
}

Array stacked(const ArrayLiteral& v, DType dtype) {
  if (v.array().defined()) return astype(v.array(), dtype);
  if (!v.is_list()) return Array(v.value().astype(dtype));
  std::vector<Array> parts;
  for (const auto& e : v.elements()) parts.push_back(stacked(e, dtype));
  return stack(parts, 0);
}

}  // namespace

Array array(const ArrayLiteral& values, std::optional<DType> dtype, const Loc&) {
  Dims place;
  Shape shape = shape_of(values, place);
  std::optional<DType> joined = dtype;
  if (!joined) join_dtypes(values, joined);
  DType t = joined.value_or(float32);
  if (has_arrays(values)) return stacked(values, t);
  HostArray out(t, shape);
  char* next = static_cast<char*>(out.data());
  fill(values, t, next);
  return Array(out);
}

}  // namespace tessera
