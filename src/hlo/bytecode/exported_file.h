// SPDX-License-Identifier: Apache-2.0
// Files that jax.export writes: a flatbuffer with the program's bytecode as one of its fields.
#pragma once

#include <optional>
#include <string_view>

#include "hlo/bytecode/byte_cursor.h"

namespace tessera::hlo {

/// Where the program's bytecode lies in the bytes of an exported function; nothing where these are something else.
std::optional<ByteRange> exported_program(std::string_view bytes);

}  // namespace tessera::hlo
