// SPDX-License-Identifier: Apache-2.0
// The programs of recorded collectives: a case's body under its maps, its values and its derivatives.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::test {

using LeafFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

/// Where the programs run. By default: meshes of the client's first devices, arguments and results as they are.
struct CaseRun {
  std::function<Mesh(const Shape& sizes, const AxisNames& names)> mesh = first_devices;
  /// What the program is given for inputs, and what is compared of its results.
  LeafFunction place = [](const std::vector<Array>& x) { return x; };
  LeafFunction read = [](const std::vector<Array>& x) { return x; };
  bool compiled = false;  ///< under jit

  static Mesh first_devices(const Shape& sizes, const AxisNames& names);
};

/// The case's body under its maps.
LeafFunction case_program(const nlohmann::json& c, const CaseRun& run = {});
/// What the case's values differ in from those recorded; empty for agreement.
std::string wrong_values(const nlohmann::json& c, const CaseRun& run);
/// The same of its derivatives: cotangents of the inputs, or tangents of the results.
std::string wrong_derivatives(const nlohmann::json& c, const CaseRun& run);

}  // namespace tessera::test
