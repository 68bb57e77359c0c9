// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tessera::io {

/// All bytes. Throws `ValueError` naming `function` and the path.
std::string read_file(const char* function, const std::string& path);
/// To a new file that then takes the old one's place.
void write_file(const char* function, const std::string& path, const std::string& bytes);

}  // namespace tessera::io
