// SPDX-License-Identifier: Apache-2.0
// Element types of PJRT, and those of Tessera that hold them.
#pragma once

#include <cstdint>
#include <string>

#include "hlo/text/ast.h"
#include "ir/module.h"
#include "tessera/dtype.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tessera::pjrt {

using ElementType = hlo::Elem;

/// Throws `UnimplementedError` for tokens and types that Tessera does not have.
ElementType element_type(PJRT_Buffer_Type t);
PJRT_Buffer_Type buffer_type(ElementType e);
/// Of an argument or result of a module.
ElementType element_type(const ir::Port& port, DType dtype);

/// Bytes of an element in buffers of PJRT's callers, who give each a byte at least.
std::int64_t host_size(ElementType e);
/// Whether Tessera holds elements in another form than PJRT's callers.
bool is_narrow(ElementType e);
/// `n` elements from the callers' form to Tessera's, and back. Of narrow types only.
void widen(ElementType e, const void* from, void* to, std::int64_t n);
void narrow(ElementType e, const void* from, void* to, std::int64_t n);

}  // namespace tessera::pjrt
