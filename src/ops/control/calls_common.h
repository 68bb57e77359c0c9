// SPDX-License-Identifier: Apache-2.0
// What the ops that call sub-graphs share.
#pragma once

#include "ops/control/calls.h"
#include "ops/control/control.h"
#include "ops/define_op.h"
#include "ops/transform/interpret.h"

namespace tessera::ops {

Types infer_call(const char* name, TypeSpan in, const Call& p);
/// Zeros in place of those empty `values` whose `like` is inexact.
Values filled(ValueSpan values, ValueSpan like);
/// Throws `TypeError` unless a rule gave values of these types.
void check_results(const char* op, const std::string& what, ValueSpan got, TypeSpan want, bool may_be_empty);

template <class Rule>
ir::Opaque opaque(Rule rule, const std::string& name) {
  return {std::make_shared<const Rule>(std::move(rule)), name};
}
template <class Rule>
const Rule& rule_of(const Call& p) {
  return *static_cast<const Rule*>(p.rule.object.get());
}

/// A body for samples: (f32[4], f32[4], i32[4]) -> (f32[4], i32[4], f32[4]).
GraphPtr sample_body();
Types sample_types();

}  // namespace tessera::ops
