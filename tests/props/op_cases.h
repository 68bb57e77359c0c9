// SPDX-License-Identifier: Apache-2.0
// What the properties of ops share: operands for an op's samples, and the ops that have a rule.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/define_op.h"

namespace tessera::ops {

using ir::AnySample;
using ir::OpDef;

/// The op's name, its attributes, the types, the seed.
std::string label(const OpDef& op, const AnySample& s, unsigned seed);
/// Three ranges of floats, so that each function meets its domain in one of them; small integers, which are legal
/// indices, and negative ones where nothing is indexed.
HostArray operand(const OpDef& op, const ir::Type& type, unsigned seed);
std::vector<HostArray> operands(const OpDef& op, const Types& types, unsigned seed);
/// What results of these dtypes may differ by.
double tolerance(const std::vector<HostArray>& results);

/// Ops with a reference to compare with, and with a rule.
std::vector<const OpDef*> comparable(const char* rule);
std::string test_name(const testing::TestParamInfo<const OpDef*>& info);

class OpRules : public testing::TestWithParam<const OpDef*> {
 protected:
  const OpDef& op() const { return *GetParam(); }
};

}  // namespace tessera::ops
