// SPDX-License-Identifier: Apache-2.0
// Recorded programs with collectives (tests/spec/collectives/*.jsonl): reading them, and running their bodies through
// the public functions. The format is described in section 7 of the specification of collectives.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::test {

/// The lines of tests/spec/collectives/<name>.
std::vector<nlohmann::json> collective_cases(const std::string& name);

/// {"dtype", "shape", "data"}; zeros where there is no data.
HostArray host_array(const nlohmann::json& j);
std::vector<Array> arrays(const nlohmann::json& list);
PartitionSpec partition_spec(const nlohmann::json& j);
SpecTree spec_list(const nlohmann::json& list);
AxisNames axis_names(const nlohmann::json& j);

/// One operation on arrays.
std::vector<Array> collective_call(const std::string& op, const std::vector<Array>& x, const nlohmann::json& params);
/// The case's body: its one operation, or its steps; with `rank_reduce`, on blocks without their leading unit
/// dimensions.
std::vector<Array> case_body(const nlohmann::json& c, const std::vector<Array>& blocks);

/// Empty when `got` agrees with what was recorded, within the tolerance of its dtype.
std::string case_difference(const std::vector<Array>& got, const nlohmann::json& expected);

}  // namespace tessera::test
