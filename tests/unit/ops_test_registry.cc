// SPDX-License-Identifier: Apache-2.0
// What the tables over all ops promise.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "ops/ops.h"
#include "ops/reduce/reduction.h"

namespace tessera::ops {
namespace {

TEST(OpRegistry, StablehloNamesAreUniqueAndHaveAnArity) {
  std::set<std::string_view> seen;
  for (const ir::OpDef* op : all()) {
    const char* name = op->traits().stablehlo;
    if (name == nullptr) continue;
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_TRUE(op->traits().elementwise) << op->name();
    for (const auto& s : op->samples()) {
      EXPECT_EQ(static_cast<int>(s.in.size()), op->traits().arity) << op->name();
      EXPECT_FALSE(s.attrs && op->remaps()) << op->name();
    }
  }
  EXPECT_GT(seen.size(), 50U);
}

TEST(OpRegistry, EveryKernelNamesAnOp) {
#define TESSERA_EW(kernel, arity, op) EXPECT_TRUE(std::string_view(op).empty() || find(op) != nullptr) << op;
#include "engines/cpu/kernels/elementwise/ew_kernels.def"
}

TEST(OpRegistry, TheNamedTraitsAreThoseOfTheirKind) {
  for (const ir::OpDef* op : all()) {
    const ir::Traits& t = op->traits();
    // What is computed again must not be seen from outside.
    EXPECT_FALSE((t.cheap || t.view) && (t.effect || t.collective)) << op->name();
    EXPECT_FALSE(t.view && t.elementwise) << op->name();
    // Sums and products depend on the order, one of the elements does not.
    EXPECT_TRUE(!t.reduction || t.collective || t.exact == picks(*t.reduction)) << op->name();
  }
}

}  // namespace
}  // namespace tessera::ops
