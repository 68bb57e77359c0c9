// SPDX-License-Identifier: Apache-2.0
// Reductions by a reducer that the program gives, along split dimensions: shards reduce what they have, and then what
// all have found is reduced. The reducer is associative, and nothing is known of start values: each is taken once a
// result, in front.
#pragma once

#include <optional>

#include "ir/op_def.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

/// (numbers, whether there are any) twice -> the same once: the reducer's result where both are there, else the one
/// that is. Numbers that are not there are neutral, whatever they are.
GraphPtr reducer_of_present(const ir::Graph& body);
/// Whether each float that the body gives is one that it takes, so that no grouping rounds otherwise.
bool picks_floats(const ir::Graph& body);

std::optional<ir::Division> divide_reduce(ir::Builder& b, const ir::DivideArgs& a, const Reduce& p);
/// Windows that are running reductions; nothing for others.
std::optional<ir::Division> divide_running_window(ir::Builder& b, const ir::DivideArgs& a, const ReduceWindow& p);

}  // namespace tessera::ops
