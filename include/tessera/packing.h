// SPDX-License-Identifier: Apache-2.0
// NumPy's packing of bits into bytes, writing through masks and flat indices, and trimming.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera {

/// Which bit of a byte is first.
enum class BitOrder { Big, Little };
/// Eight elements along `axis` (of the flattened array without one) become a byte: 1 where they are not zero; zeros
/// fill the last one up. `Big`: the first is the highest bit. uint8. Throws `TypeError` for other than integers and
/// bools.
Array packbits(const Operand& x, std::optional<std::int64_t> axis = std::nullopt, BitOrder order = BitOrder::Big);
/// The inverse: eight uint8 elements of 0 or 1 for each byte; with `count` that many along the axis, truncated or
/// padded with zeros; a negative count drops that many from the end. Throws `TypeError` for other than uint8.
Array unpackbits(const Operand& x, std::optional<std::int64_t> axis = std::nullopt,
                 std::optional<std::int64_t> count = std::nullopt, BitOrder order = BitOrder::Big);

/// x with the k-th element where `mask` is not zero replaced by values[k]; values repeat. A new array. Throws
/// `ValueError` where sizes of x and mask differ and where there are no values.
Array place(const Operand& x, const Operand& mask, const Operand& values);
/// Indices outside: `FromEnd` counts negative ones from the end, then takes the nearest index; `Clip` takes the
/// nearest; `Wrap` counts around.
enum class PutMode { FromEnd, Clip, Wrap };
/// x with its element at flat index indices[k], in row-major order, replaced by values[k]; values repeat. A new array.
Array put(const Operand& x, const Operand& indices, const Operand& values, PutMode mode = PutMode::FromEnd);
/// x without the zeros at the front (`trim` has an f) and back (a b) of every axis of `axes` (of all without them): the
/// smallest block that holds all else. Reads x, so throws `ConcretizationError` under a trace.
Array trim_zeros(const Operand& x, const std::string& trim = "fb", const std::optional<Dims>& axes = std::nullopt);

}  // namespace tessera
