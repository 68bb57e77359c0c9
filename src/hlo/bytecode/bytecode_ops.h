// SPDX-License-Identifier: Apache-2.0
// Operations of a bytecode file: the names of their properties, and VHLO's properties as StableHLO's attributes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hlo/bytecode/bytecode_values.h"

namespace tessera::hlo {

struct PropertyName {
  std::string_view name;
  bool optional = false;
};
/// In the order of their encoding; null for an operation that is not known.
const std::vector<PropertyName>* property_names(const std::string& op);

/// A property or attribute of an operation.
struct BytecodeField {
  std::string_view name;
  std::uint32_t attr = 0;
};

/// "name = value, name = value" as `stablehlo.<op>` has them, of a VHLO operation of any version. What has its default
/// value is left out.
std::string stablehlo_attributes(BytecodeValues& values, std::string_view op, const std::vector<BytecodeField>& fields,
                                 const ByteCursor& at);

}  // namespace tessera::hlo
