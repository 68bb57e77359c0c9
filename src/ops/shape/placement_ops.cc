// SPDX-License-Identifier: Apache-2.0
// Ops that change where a value lies, not what it is.
#include <cstring>

#include "ops/define_op.h"
#include "ops/shared_attrs.h"

namespace tessera::ops {

namespace {
void copy_whole(ViewSpan in, ViewSpan out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto bytes = out[i].size() * dtype_size(out[i].dtype);
    if (bytes > 0) std::memcpy(out[i].data, in[i].data, at(bytes));
  }
}
}  // namespace

TESSERA_DEFINE_OP(sharding_constraint, ShardingConstraint,
                  {
                      .name = "sharding_constraint",
                      .traits = {.linearity = Linearity::Joint, .exact = true},
                      .infer =
                          [](TypeSpan in, const ShardingConstraint& p) {
                            check_count("sharding_constraint", in, 1);
                            if (static_cast<std::int64_t>(p.dims.size()) != in[0].rank()) {
                              bad_attr(
                                  "sharding_constraint", "dims",
                                  str(p.dims.size(), " entries for shape ", in[0].shape, "; expected one a dimension"));
                            }
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const ShardingConstraint& p) {
                            ShardingConstraint q = p;
                            q.dims.insert(q.dims.begin(), Dims{-1});
                            return Batched{{b.add1(def::sharding_constraint, {a.in[0]}, attrs(q))}, {true}};
                          },
                      .jvp = linear,
                      .transpose =
                          [](Builder& b, const TransposeArgs& t, const ShardingConstraint& p) {
                            ShardingConstraint q = p;  // the cotangent of a sum is whole for each addend
                            q.unreduced.clear();
                            return Values{b.add1(def::sharding_constraint, {t.ct[0]}, attrs(q))};
                          },
                      .reference = [](ViewSpan in, ViewSpan out, const ShardingConstraint&) { copy_whole(in, out); },
                      .samples = Never{"needs a mesh; tested with the partitioner"},
                  });

// Several operands are values whose sums are completed in one exchange.
TESSERA_DEFINE_OP(reshard, Reshard,
                  {
                      .name = "reshard",
                      .traits = {.linearity = Linearity::Joint, .collective = true},
                      .infer = [](TypeSpan in, const Reshard&) { return Types(in.begin(), in.end()); },
                      .factors = Never{"stands in partitioned graphs only"},
                      .remap = by_default,
                      .batch = Never{"stands in partitioned graphs only"},
                      .jvp = Never{"stands in partitioned graphs only"},
                      .transpose = Never{"stands in partitioned graphs only"},
                      .reference = [](ViewSpan in, ViewSpan out, const Reshard&) { copy_whole(in, out); },
                      .samples = Never{"needs a mesh; tested with the partitioner"},
                  });

}  // namespace tessera::ops
