// SPDX-License-Identifier: Apache-2.0
// From the names of recorded functions to the library's own.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/oracle_case.h"
#include "tessera/tessera.h"

namespace tessera::oracle {

using Arrays = std::vector<Array>;
using Function = std::function<Arrays(const Arrays&, const Params&)>;
using Table = std::map<std::string, Function>;

/// Each adds the functions of one part of the library.
void add_ops(Table& t);
void add_elementwise(Table& t);
void add_shapes(Table& t);
void add_indexing(Table& t);
void add_reductions(Table& t);
void add_products(Table& t);
void add_linalg(Table& t);
void add_random(Table& t);
void add_numpy(Table& t);
void add_nn(Table& t);
void add_control(Table& t);
void add_creation(Table& t);
void add_shaping(Table& t);
void add_statistics(Table& t);
void add_calculus(Table& t);
void add_special(Table& t);
void add_sets(Table& t);
void add_packing(Table& t);
void add_extras(Table& t);
void add_options(Table& t);

// --- adapters ---------------------------------------------------------------------------------------
inline Function unary(Array (*f)(const Operand&)) {
  return [f](const Arrays& a, const Params&) { return Arrays{f(a.at(0))}; };
}
inline Function binary(Array (*f)(const Operand&, const Operand&)) {
  return [f](const Arrays& a, const Params&) { return Arrays{f(a.at(0), a.at(1))}; };
}
inline Function ternary(Array (*f)(const Operand&, const Operand&, const Operand&)) {
  return [f](const Arrays& a, const Params&) { return Arrays{f(a.at(0), a.at(1), a.at(2))}; };
}
/// Functions with two results.
inline Function unary2(std::pair<Array, Array> (*f)(const Operand&)) {
  return [f](const Arrays& a, const Params&) {
    const auto [x, y] = f(a.at(0));
    return Arrays{x, y};
  };
}
inline Function binary2(std::pair<Array, Array> (*f)(const Operand&, const Operand&)) {
  return [f](const Arrays& a, const Params&) {
    const auto [x, y] = f(a.at(0), a.at(1));
    return Arrays{x, y};
  };
}
/// A function with one result.
inline Function one(std::function<Array(const Arrays&, const Params&)> f) {
  return [f = std::move(f)](const Arrays& a, const Params& p) { return Arrays{f(a, p)}; };
}
/// The mode that a convolution's `padding` names.
inline lax::PadMode pad_mode(const Params& p) {
  return p.text("padding") == "SAME" ? lax::PadMode::Same : lax::PadMode::Valid;
}

}  // namespace tessera::oracle
