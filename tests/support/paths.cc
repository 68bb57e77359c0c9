// SPDX-License-Identifier: Apache-2.0
#include "tests/support/paths.h"

namespace tessera::test {

std::filesystem::path data_path(const std::filesystem::path& relative_to_tests) {
  return source_path("tests" / relative_to_tests);
}

std::filesystem::path source_path(const std::filesystem::path& relative_to_root) {
  return std::filesystem::path(TESSERA_SOURCE_DIR) / relative_to_root;
}

}  // namespace tessera::test
