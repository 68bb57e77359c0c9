// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tessera::runtime {

/// Writes the trace that TESSERA_TRACE asks for now, and not only when the program ends. Nothing where none is asked
/// for. Throws `ValueError` naming the path and the reason. All of this file is defined in src/engines.cc.
void write_trace();

/// Keeps the steps that programs of every client run from now on. Returns the trace's number; traces may overlap.
/// Throws `ValueError` where `path` cannot be written.
std::int64_t begin_trace(const std::string& path);

/// Waits for the programs that were called so far, writes the trace to its path as a Chrome trace with one row a
/// device, and forgets it. Throws `ValueError` naming the path and the reason, or for a number of no trace.
void end_trace(std::int64_t trace);

}  // namespace tessera::runtime
