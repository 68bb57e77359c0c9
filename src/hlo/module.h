// SPDX-License-Identifier: Apache-2.0
// A StableHLO module read.
#pragma once

#include <string>

#include "ir/module.h"

namespace tessera::hlo {

struct ImportOptions {
  std::string name = "module";  ///< of the file, for messages
  std::int64_t max_memory = 0;  ///< bytes that one value may need; 0: no bound
  std::int64_t max_equations = 1 << 20;
};

/// Of text, bytecode, or an exported function of JAX. Throws `FormatError` with line and column (or the byte) for what
/// is no module or breaks a rule of the specification, `UnimplementedError` for what Tessera cannot run,
/// `ResourceExhaustedError` for what goes beyond the bounds.
ir::Module import_module(const std::string& text, const ImportOptions& options = {});

}  // namespace tessera::hlo
