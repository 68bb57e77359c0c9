// SPDX-License-Identifier: Apache-2.0
// MLIR bytecode read natively: StableHLO's portable artifacts (dialect VHLO, all versions since 0.9), with Shardy's
// dialect as it is, and files of jax.export that hold one. The program becomes text in MLIR's generic form, which the
// one reader of text takes: from there on both are the same.
#pragma once

#include <string>
#include <string_view>

namespace tessera::hlo {

inline constexpr std::string_view kBytecodeMagic = "ML\xefR";

/// Whether the bytes are MLIR bytecode.
bool is_bytecode(std::string_view bytes);

/// Whether the bytes are an exported function of JAX: a flatbuffer with bytecode inside.
bool is_exported(std::string_view bytes);
/// Throws `FormatError` where the bytes begin as an exported function of JAX and end before its program does.
void check_whole_export(std::string_view bytes, const std::string& name);

/// The program as text. Takes bytecode and exported functions; `name` is used in messages. Throws `FormatError` (a
/// `ValueError`) naming the byte, for what is cut off, damaged, or of a version, dialect, operation, attribute or type
/// that is not known.
std::string text_of_bytecode(std::string_view bytes, const std::string& name = "module");

}  // namespace tessera::hlo
