// SPDX-License-Identifier: Apache-2.0
// Which requirements of the specification a run has shown. A test names them in its first line:
//
//   TEST(ShardShape, DividesByMeshAxes) {
//     TESSERA_SPEC("G5", "G6");
//     ...
//   }
//
// and when it ends without a failure and was not skipped, one line per requirement goes to a fragment file in the
// folder that TESSERA_SPEC_REPORT_DIR names: `requirement G5: ShardShape.DividesByMeshAxes passed`.
// `tools/spec_report.py` merges the fragments. Nothing is written where the variable is not set.
#pragma once

#include <initializer_list>
#include <set>
#include <string>

namespace tessera::test {

/// Notes that the running test shows `ids`; called through TESSERA_SPEC.
void record_requirements(std::initializer_list<const char*> ids);
/// The same for ids that are read from recorded cases.
void record_requirements(const std::set<std::string>& ids);

/// Notes that the running test has compared `total` recorded cases of `file` (relative to the spec folder) and that
/// `passed` of them agreed. Written when the test ends without a failure: `cases collectives/cases.jsonl: 522/522`.
void record_cases(const std::string& file, int passed, int total);

}  // namespace tessera::test

#define TESSERA_SPEC(...) ::tessera::test::record_requirements({__VA_ARGS__})
