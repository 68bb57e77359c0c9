// SPDX-License-Identifier: Apache-2.0
// What drawings look like on a terminal.
#pragma once

#include <cstddef>
#include <string>

namespace tessera::cli {

/// Columns of the terminal that standard output is; of anything else `fallback`.
std::size_t terminal_width(std::size_t fallback);
/// Whether standard output is a terminal that shows colours, and the user wants them (NO_COLOR).
bool shows_colours();
/// A drawing of `visualize_array_sharding` or `visualize_mesh` whose cells have a background: equal cells the same.
std::string coloured(const std::string& drawing);
/// Characters of its longest line.
std::size_t width_of(const std::string& drawing);

}  // namespace tessera::cli
