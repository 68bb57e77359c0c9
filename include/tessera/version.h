// SPDX-License-Identifier: Apache-2.0
// The version of the library. The build reads it here.
#pragma once

/// Of the headers. Until 1.0 a minor version may change what programs see, and the shared library's soname has both
/// of them.
#define TESSERA_VERSION_MAJOR 0
#define TESSERA_VERSION_MINOR 1
#define TESSERA_VERSION_PATCH 0
/// As text.
#define TESSERA_VERSION "0.1.0"

namespace tessera {

/// Of the library that the program runs with: "0.1.0".
const char* version();

}  // namespace tessera
