// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "ir/derive_sharding.h"
#include "ops/define_op.h"

namespace tessera::ops {

// The identity whose derivative is declared to be zero (jax.lax.stop_gradient).
TESSERA_DEFINE_OP(stop_gradient, NoAttrs,
                  {
                      .name = "stop_gradient",
                      .traits = {.elementwise = true, .exact = true},
                      .infer =
                          [](TypeSpan in, const NoAttrs&) {
                            check_count("stop_gradient", in, 1);
                            return Types{in[0]};
                          },
                      .factors = by_default,
                      .remap = by_default,
                      .batch = by_default,
                      .jvp = [](Builder&, const JvpArgs&, const NoAttrs&) { return Values{Value{}}; },
                      .transpose = Never{"no tangent passes"},
                      .place =
                          [](const ir::PlaceArgs& args, Types& out, const NoAttrs&) {
                            ir::set_sharding(args, out[0], ir::sharding_of(args.in[0], args.mesh));
                          },
                      .reference =
                          [](ViewSpan in, ViewSpan out, const NoAttrs&) {
                            auto bytes = out[0].size() * dtype_size(out[0].dtype);
                            if (bytes > 0) std::memcpy(out[0].data, in[0].data, at(bytes));
                          },
                      // Integers: a float sample would be compared with the derivative that the op denies.
                      .samples =
                          [] {
                            return std::vector<Sample<NoAttrs>>{{{Type{DType::I32, {4, 6}}}}};
                          },
                  });

}  // namespace tessera::ops
