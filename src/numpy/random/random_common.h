// SPDX-License-Identifier: Apache-2.0
// What random distributions with parameters share.
#pragma once

#include <optional>
#include <vector>

#include "program/composite.h"
#include "tessera/random.h"

namespace tessera::program {

/// The shape asked for, or the one that the parameters broadcast to. Throws `ValueError` where they do not.
Shape shape_for(const char* name, const std::optional<Shape>& shape, const std::vector<Shape>& parameters);
/// Throws `TypeError` unless a float dtype.
void check_float(const char* name, DType dtype);

}  // namespace tessera::program
