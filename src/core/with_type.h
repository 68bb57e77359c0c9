// SPDX-License-Identifier: Apache-2.0
// From a dtype to the C++ type of its elements.
#pragma once

#include <cstdint>

#include "tessera/dtype.h"

namespace tessera::core {

/// `f.template operator()<T>()` with the C++ type of the elements of `t`; bools are bytes.
template <class F>
decltype(auto) with_type(DType t, const F& f) {
  switch (t) {
    case DType::I8:
      return f.template operator()<std::int8_t>();
    case DType::I16:
      return f.template operator()<std::int16_t>();
    case DType::I32:
      return f.template operator()<std::int32_t>();
    case DType::I64:
      return f.template operator()<std::int64_t>();
    case DType::U16:
      return f.template operator()<std::uint16_t>();
    case DType::U32:
      return f.template operator()<std::uint32_t>();
    case DType::U64:
      return f.template operator()<std::uint64_t>();
    case DType::F16:
      return f.template operator()<float16_t>();
    case DType::BF16:
      return f.template operator()<bfloat16_t>();
    case DType::F32:
      return f.template operator()<float>();
    case DType::F64:
      return f.template operator()<double>();
    case DType::C64:
      return f.template operator()<complex64_t>();
    case DType::C128:
      return f.template operator()<complex128_t>();
    default:
      return f.template operator()<std::uint8_t>();
  }
}

}  // namespace tessera::core
