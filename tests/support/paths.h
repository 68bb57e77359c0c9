// SPDX-License-Identifier: Apache-2.0
// Where test data lies, whatever folder a test binary is started from.
#pragma once

#include <filesystem>

namespace tessera::test {

/// Path of a file below `tests/` in the source tree: data_path("oracle/collectives/cases.jsonl").
std::filesystem::path data_path(const std::filesystem::path& relative_to_tests);

/// Path of a file in the source tree: source_path("examples/data/digits.npz").
std::filesystem::path source_path(const std::filesystem::path& relative_to_root);

}  // namespace tessera::test
