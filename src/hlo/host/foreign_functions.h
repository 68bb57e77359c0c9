// SPDX-License-Identifier: Apache-2.0
// Functions of other libraries that modules call by a target's name (jax.ffi).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hlo/text/ast.h"
#include "ops/control/calls.h"
#include "tessera/host_array.h"

namespace tessera::hlo {

/// An attribute of a call, as its function reads it.
struct ForeignAttribute {
  enum class Kind : std::uint8_t { Scalar, Array, String, Dictionary };
  std::string name;
  Kind kind = Kind::Scalar;
  HostArray elements;                    ///< of a scalar or an array
  std::string text;                      ///< of a string
  std::vector<ForeignAttribute> fields;  ///< of a dictionary
};

/// A call of a target that the library does not know itself.
struct ForeignCall {
  std::string target;
  std::vector<ForeignAttribute> attributes;
  ir::Types results;
  std::vector<Dims> in_layouts, out_layouts;                 ///< dimensions from minor to major; empty: row-major
  std::vector<std::pair<std::size_t, std::size_t>> aliases;  ///< results that are to begin as a copy of an operand
};
/// Gives the function of a call; a null one where there is no such target. Throws where the target cannot be called so.
using ForeignFunctions = std::function<ops::HostFunction(const ForeignCall& call)>;

/// From now on modules that are read may call these; null: they may not. Thread-safe.
void set_foreign_functions(ForeignFunctions functions);
/// What was set; empty where nothing was.
ForeignFunctions foreign_functions();

}  // namespace tessera::hlo
