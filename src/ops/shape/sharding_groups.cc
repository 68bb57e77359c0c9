// SPDX-License-Identifier: Apache-2.0
#include "ops/shape/sharding_groups.h"

#include <cstring>

#include "ops/define_op.h"

namespace tessera::ops {

// With an effect, so that a member that nobody reads still counts.
TESSERA_DEFINE_OP(sharding_group, ShardingGroup,
                  {
                      .name = "sharding_group",
                      .traits = {.linearity = Linearity::Joint, .effect = true, .exact = true},
                      .infer =
                          [](TypeSpan in, const ShardingGroup&) {
                            check_count("sharding_group", in, 1);
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const ShardingGroup& p) {
                            return Batched{{b.add1(def::sharding_group, {a.in[0]}, attrs(p))}, {true}};
                          },
                      .jvp = linear,
                      .transpose = [](Builder&, const TransposeArgs& t,
                                      const ShardingGroup&) { return Values{t.ct[0]}; },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const ShardingGroup&) {
                            auto bytes = out[0].size() * dtype_size(out[0].dtype);
                            if (bytes > 0) std::memcpy(out[0].data, in[0].data, at(bytes));
                          },
                      .samples = Never{"needs a mesh; tested with the partitioner"},
                  });

TESSERA_DEFINE_OP(inspect_sharding, InspectSharding,
                  {
                      .name = "inspect_sharding",
                      .traits = {.effect = true},
                      .infer =
                          [](TypeSpan in, const InspectSharding&) {
                            check_count("inspect_sharding", in, 1);
                            return Types{};
                          },
                      .factors =
                          [](TypeSpan in, TypeSpan, const InspectSharding&) {
                            FactorRule r;
                            auto& dims = r.operands.emplace_back();
                            for (auto extent : in[0].shape) dims.push_back({r.add(extent)});
                            return r;
                          },
                      .remap = by_default,
                      .batch =
                          [](Builder& b, const BatchArgs& a, const InspectSharding& p) {
                            b.add(def::inspect_sharding, {a.in[0]}, attrs(p));
                            return Batched{};
                          },
                      .jvp = Never{"there is no result"},
                      .transpose = Never{"there is no result"},
                      .reference = [](ViewSpan, ViewSpan, const InspectSharding&) {},
                      .samples = Never{"has an effect and no result"},
                  });

}  // namespace tessera::ops
