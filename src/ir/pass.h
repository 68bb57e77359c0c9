// SPDX-License-Identifier: Apache-2.0
// The end of a pass over graphs: what it made is verified where faults are looked for.
#pragma once

#include "ir/graph.h"

namespace tessera::ir {

/// True in builds with assertions, in the verification mode (`Config::verify`), and where the environment has
/// TESSERA_VERIFY_PASSES with a value other than 0, as our tests do. Elsewhere a pass costs what it does.
bool verifies_passes();

/// `g`, which the pass of this name made. Verifies it where `verifies_passes`; throws `InternalError`
/// "after <pass>: verify: …".
GraphPtr after_pass(const char* pass, GraphPtr g);

}  // namespace tessera::ir
