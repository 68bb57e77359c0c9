// SPDX-License-Identifier: Apache-2.0
// What public operations take: an Array or a scalar, together with the caller's line.
#pragma once

#include "tessera/array.h"
#include "tessera/loc.h"

namespace tessera {

/// Converts from an Array or a scalar where a function is called, and so records the caller's line:
///   Array tanh(const Operand& x);     tanh(a); tanh(0.5);
class Operand {
 public:
  // NOLINTBEGIN(google-explicit-constructor): the conversion is the point
  Operand(const Array& a, const Loc& loc = Loc::current()) : array_(a), loc_(loc) {}
  template <Number T>
  Operand(T v, const Loc& loc = Loc::current()) : array_(Array(v)), loc_(loc) {}
  Operand(const HostArray& v, const Loc& loc = Loc::current()) : array_(Array(v)), loc_(loc) {}
  // NOLINTEND(google-explicit-constructor)

  const Array& array() const { return array_; }
  const Loc& loc() const { return loc_; }

 private:
  Array array_;
  Loc loc_;
};

}  // namespace tessera
