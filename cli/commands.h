// SPDX-License-Identifier: Apache-2.0
// One function a sub-command: it adds its options and what it does.
#pragma once

namespace CLI {
class App;
}

namespace tessera::cli {

void add_run(CLI::App& app);

}  // namespace tessera::cli
