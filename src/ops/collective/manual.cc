// SPDX-License-Identifier: Apache-2.0
#include "ops/collective/manual.h"

#include "ops/define_op.h"

namespace tessera::ops {

namespace {

constexpr const char* kLater = "made when a program's maps are opened, after all transformations";

// Dimensions that manual axes cut are whole for the rest.
FactorRule around_manual(TypeSpan in, TypeSpan out, const ManualSpec& p) {
  Dims map;
  for (std::size_t d = 0; d < p.dims.size(); ++d) map.push_back(p.dims[d].empty() ? static_cast<std::int64_t>(d) : -1);
  return FactorRule::mapped(in[0], out[0], map, false);
}

}  // namespace

#define TESSERA_MANUAL(op, Params, moves, rule)                                \
  TESSERA_DEFINE_OP(op, Params,                                                \
                    {                                                          \
                        .name = #op,                                           \
                        .traits = {.collective = true, .exact = moves},        \
                        .infer =                                               \
                            [](TypeSpan in, const Params& p) {                 \
                              return Types{Type{in[0].dtype, p.shape}};        \
                            },                                                 \
                        .factors = rule,                                       \
                        .remap = by_default,                                   \
                        .batch = Never{kLater},                                \
                        .jvp = Never{kLater},                                  \
                        .transpose = Never{kLater},                            \
                        .reference = Never{"it is about positions of a mesh"}, \
                        .samples = Never{"needs a mesh; tested with maps"},    \
                    })
TESSERA_MANUAL(manual_enter, ManualSpec, false, around_manual);
TESSERA_MANUAL(manual_exit, ManualSpec, false, around_manual);
TESSERA_MANUAL(reinterpret, Reinterpret, true, Never{kLater});
TESSERA_MANUAL(group_exchange, GroupExchange, false, Never{kLater});
#undef TESSERA_MANUAL

}  // namespace tessera::ops
