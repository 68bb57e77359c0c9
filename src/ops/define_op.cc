// SPDX-License-Identifier: Apache-2.0
#include "ops/define_op.h"

#include <cmath>
#include <cstring>

namespace tessera::ops {

void bad_operand(std::string_view op, std::size_t operand, const std::string& what) {
  throw ValueError(str("[", op, "] operand ", operand, ": ", what));
}
void bad_attr(std::string_view op, std::string_view attr, const std::string& what) {
  throw ValueError(str("[", op, "] ", attr, ": ", what));
}
void check_count(std::string_view op, TypeSpan in, std::size_t expected) {
  if (in.size() != expected) throw ValueError(str("[", op, "] ", in.size(), " operands; expected ", expected));
}
void check_axes(std::string_view op, std::string_view attr, const Dims& axes, std::int64_t rank) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank) {
      bad_attr(op, attr, str("axis ", axes[i], " in ", base::tuple_text(axes), "; expected 0..", rank - 1));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[i] == axes[j]) bad_attr(op, attr, str("axis ", axes[i], " appears twice in ", base::tuple_text(axes)));
    }
  }
}

void check_kind(std::string_view op, TypeSpan in, std::size_t operand, bool legal, std::string_view kinds) {
  if (legal) return;
  throw TypeError(
      str("[", op, "] operand ", operand, " has dtype ", dtype_name(in[operand].dtype), "; expected ", kinds));
}
void check_same_dtype(std::string_view op, TypeSpan in, std::size_t from) {
  for (std::size_t i = from; i < in.size(); ++i) {
    if (in[i].dtype != in[from].dtype) {
      throw TypeError(str("[", op, "] operand ", i, " has dtype ", dtype_name(in[i].dtype), "; expected ",
                          dtype_name(in[from].dtype), " as operand ", from));
    }
  }
}

Value with_batch(const BatchArgs& args, std::size_t i) {
  Value x = args.in[i];
  if (args.batched[i]) return x;
  Shape shape = x.shape();
  shape.insert(shape.begin(), args.size);
  Dims dims;
  for (std::int64_t d = 0; d < x.rank(); ++d) dims.push_back(d + 1);
  return broadcast_in_dim(x, shape, dims);
}
Dims shifted(const Dims& axes, std::int64_t by) {
  Dims out = axes;
  for (auto& a : out) a += by;
  return out;
}

Wide wide_kind(DType t) {
  if (is_bool(t)) return Wide::Bool;
  if (is_signed_int(t)) return Wide::Int;
  if (is_unsigned_int(t)) return Wide::Uint;
  return is_complex(t) ? Wide::Complex : Wide::Float;
}

double load_float(const View& v, std::int64_t i) {
  switch (v.dtype) {
    case DType::F16:
      return v.as<float16_t>()[i];
    case DType::BF16:
      return v.as<bfloat16_t>()[i];
    case DType::F32:
      return v.as<float>()[i];
    default:
      return v.as<double>()[i];
  }
}
std::int64_t load_int(const View& v, std::int64_t i) {
  switch (v.dtype) {
    case DType::I8:
      return v.as<std::int8_t>()[i];
    case DType::I16:
      return v.as<std::int16_t>()[i];
    case DType::I32:
      return v.as<std::int32_t>()[i];
    case DType::I64:
      return v.as<std::int64_t>()[i];
    case DType::Bool:
      return v.as<std::uint8_t>()[i];
    default:
      return static_cast<std::int64_t>(load_uint(v, i));
  }
}
std::uint64_t load_uint(const View& v, std::int64_t i) {
  switch (v.dtype) {
    case DType::U8:
      return v.as<std::uint8_t>()[i];
    case DType::U16:
      return v.as<std::uint16_t>()[i];
    case DType::U32:
      return v.as<std::uint32_t>()[i];
    case DType::U64:
      return v.as<std::uint64_t>()[i];
    default:
      return static_cast<std::uint64_t>(load_int(v, i));
  }
}
complexd load_complex(const View& v, std::int64_t i) {
  if (v.dtype == DType::C64) return v.as<complex64_t>()[i];
  if (v.dtype == DType::C128) return v.as<complex128_t>()[i];
  return {load_float(v, i), 0.0};
}
bool load_bool(const View& v, std::int64_t i) { return v.as<std::uint8_t>()[i] != 0; }

void store_float(const View& v, std::int64_t i, double x) {
  switch (v.dtype) {
    case DType::F16:
      v.as<float16_t>()[i] = float16_t(static_cast<float>(x));
      break;
    case DType::BF16:
      v.as<bfloat16_t>()[i] = bfloat16_t(static_cast<float>(x));
      break;
    case DType::F32:
      v.as<float>()[i] = static_cast<float>(x);
      break;
    default:
      v.as<double>()[i] = x;
  }
}
void store_int(const View& v, std::int64_t i, std::int64_t x) {
  switch (dtype_size(v.dtype)) {
    case 1:
      v.as<std::int8_t>()[i] = static_cast<std::int8_t>(x);
      break;
    case 2:
      v.as<std::int16_t>()[i] = static_cast<std::int16_t>(x);
      break;
    case 4:
      v.as<std::int32_t>()[i] = static_cast<std::int32_t>(x);
      break;
    default:
      v.as<std::int64_t>()[i] = x;
  }
}
void store_uint(const View& v, std::int64_t i, std::uint64_t x) { store_int(v, i, static_cast<std::int64_t>(x)); }
void store_complex(const View& v, std::int64_t i, complexd x) {
  if (v.dtype == DType::C64) {
    v.as<complex64_t>()[i] = {static_cast<float>(x.real()), static_cast<float>(x.imag())};
  } else {
    v.as<complex128_t>()[i] = x;
  }
}
void store_bool(const View& v, std::int64_t i, bool x) { v.as<std::uint8_t>()[i] = x ? 1 : 0; }
std::uint64_t load_bits(const View& v, std::int64_t i) {
  std::uint64_t x = 0;
  auto n = dtype_size(v.dtype);
  std::memcpy(&x, static_cast<const char*>(v.data) + i * n, at(n));
  return x;
}
void store_bits(const View& v, std::int64_t i, std::uint64_t x) {
  auto n = dtype_size(v.dtype);
  std::memcpy(static_cast<char*>(v.data) + i * n, &x, at(n));
}
void copy_element(const View& to, std::int64_t i, const View& from, std::int64_t j) {
  auto n = dtype_size(to.dtype);
  std::memcpy(static_cast<char*>(to.data) + i * n, static_cast<const char*>(from.data) + j * n, at(n));
}

Dims row_strides(const Shape& shape) {
  Dims out(shape.size());
  std::int64_t n = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    out[d] = n;
    n *= shape[d];
  }
  return out;
}

void for_each_position(const Shape& shape, const std::function<void(const Dims&)>& body) {
  for (auto extent : shape) {
    if (extent == 0) return;
  }
  Dims position(shape.size(), 0);
  for (;;) {
    body(position);
    std::size_t d = shape.size();
    while (d > 0 && ++position[d - 1] == shape[d - 1]) position[--d] = 0;
    if (d == 0) return;
  }
}

std::int64_t flat(const Dims& position, const Dims& strides) {
  std::int64_t n = 0;
  for (std::size_t d = 0; d < position.size(); ++d) n += position[d] * strides[d];
  return n;
}

}  // namespace tessera::ops
