// SPDX-License-Identifier: Apache-2.0
// Element types and layouts of the C API as XLA's.
#pragma once

#include <optional>

#include "absl/types/span.h"
#include "guard.h"
#include "xla/layout.h"
#include "xla/shape.h"
#include "xla/xla_data.pb.h"

namespace xla_cpu {

/// Throws for a type that XLA does not have.
xla::PrimitiveType primitive_type(PJRT_Buffer_Type type);
PJRT_Buffer_Type buffer_type(xla::PrimitiveType type);

/// Nothing where `layout` is null. Throws for strides that are no order of the dimensions.
std::optional<xla::Layout> layout_of(const PJRT_Buffer_MemoryLayout* layout, xla::PrimitiveType type,
                                     absl::Span<const std::int64_t> dims);
/// Row-major where no layout is given.
xla::Shape shape_of(PJRT_Buffer_Type type, const std::int64_t* dims, std::size_t num_dims,
                    const PJRT_Buffer_MemoryLayout* layout);

}  // namespace xla_cpu
