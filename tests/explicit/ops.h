// SPDX-License-Identifier: Apache-2.0
// From the names of recorded operations to the library's own functions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "explicit/explicit_case.h"

namespace tessera::test {

/// One recorded call: operands, parameters under JAX's argument names, and the placement that is asked for.
struct Call {
  Arrays in;
  const json& params;
  ShardingArg out = {};

  const Array& x(std::size_t i = 0) const { return in.at(i); }
  PlaceOptions place() const { return {.out_sharding = out}; }
  bool has(const char* name) const { return params.contains(name) && !params[name].is_null(); }
  std::int64_t integer(const char* name) const { return params.at(name).get<std::int64_t>(); }
  std::int64_t integer(const char* name, std::int64_t otherwise) const { return has(name) ? integer(name) : otherwise; }
  std::optional<std::int64_t> maybe_integer(const char* name) const {
    return has(name) ? std::optional(integer(name)) : std::nullopt;
  }
  bool flag(const char* name) const { return has(name) && params.at(name).get<bool>(); }
  Dims dims(const char* name) const { return to_dims(params.at(name)); }
  MaybeDims maybe_dims(const char* name) const { return to_maybe_dims(params, name); }
  DType dtype(const char* name) const { return to_dtype(params.at(name)); }
  DType dtype(const char* name, DType otherwise) const { return has(name) ? dtype(name) : otherwise; }
};
using Function = std::function<Arrays(const Call&)>;
using Table = std::map<std::string, Function>;

/// All operations.
const Table& operations();
/// The operation of this name. Throws `std::out_of_range` naming it.
const Function& operation(const std::string& name);

// Each adds one part.
void add_elementwise(Table& t);
void add_shapes(Table& t);
void add_indexing(Table& t);
void add_reductions(Table& t);
void add_products(Table& t);
void add_creation(Table& t);
void add_transforms(Table& t);
void add_control(Table& t);

// --- adapters --------------------------------------------------------------------------------------------------------
inline Function unary(Array (*f)(const Operand&)) {
  return [f](const Call& c) { return Arrays{f(c.x())}; };
}
inline Function binary(Array (*f)(const Operand&, const Operand&)) {
  return [f](const Call& c) { return Arrays{f(c.x(), c.x(1))}; };
}
inline Function ternary(Array (*f)(const Operand&, const Operand&, const Operand&)) {
  return [f](const Call& c) { return Arrays{f(c.x(), c.x(1), c.x(2))}; };
}
/// A function with one result.
inline Function one(std::function<Array(const Call&)> f) {
  return [f = std::move(f)](const Call& c) { return Arrays{f(c)}; };
}

/// A function of a call's operands, to which the call applies a transformation.
using Body = std::function<Arrays(const Arrays&)>;
/// The functions that cases name as bodies; "reshard" moves to the placement `params["reshard"]`.
Body body_of(const std::string& name, const json& params);

// Transformations of a function with the call's parameters, applied to the call's operands.
Arrays in_auto_axes(const Body& f, const Call& c);
Arrays in_explicit_axes(const Body& f, const Call& c);
/// `shard_map` with the call's placement as `out_specs`.
Arrays in_map(const Body& f, const Call& c);
Arrays vmapped(const Body& f, const Call& c);
/// `jit` with the call's placement as `out_shardings`.
Arrays jitted(const Body& f, const Call& c);

}  // namespace tessera::test
