// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tessera::runtime {

/// Writes the trace that TESSERA_TRACE asks for now, and not only when the program ends. Nothing where none is asked
/// for. Throws `ValueError` naming the path and the reason. Defined in src/engines.cc.
void write_trace();

}  // namespace tessera::runtime
