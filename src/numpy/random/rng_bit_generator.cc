// SPDX-License-Identifier: Apache-2.0
#include "numpy/placed.h"
#include "ops/elementwise/bit_generators.h"
#include "program/graph_fragment.h"
#include "program/promote.h"
#include "tessera/lax.h"
#include "tessera/ops.h"

namespace tessera::lax {

namespace {
void check_key(const ir::Type& key, RngAlgorithm algorithm) {
  const bool narrow = key.dtype == uint32 && key.shape == Shape{4};
  const bool wide = key.dtype == uint64 && key.shape == Shape{2};
  const bool philox = key.dtype == uint64 && key.shape == Shape{3} && algorithm != RngAlgorithm::ThreeFry;
  if (!narrow && !wide && !philox)
    throw TypeError(str("rng_bit_generator: key is ", key, "; expected u32[4] or u64[2] (of Philox u64[3] too)"));
}
}  // namespace

std::pair<Array, Array> rng_bit_generator(const Operand& key, const Shape& shape, const RngBitOptions& o) {
  const ir::Type type = program::type_of(key.array(), "rng_bit_generator");
  check_key(type, o.algorithm);
  if (!is_unsigned_int(o.dtype))
    throw TypeError(str("rng_bit_generator: dtype is ", dtype_name(o.dtype), "; expected an unsigned integer"));
  if (size_of(shape) == 0) return {key.array(), zeros(shape, o.dtype, {.out_sharding = o.out_sharding}, key.loc())};
  const bool narrow = type.dtype == uint32;
  auto draw = [&] {
    return program::graph_fragment(
        "rng_bit_generator", key.loc(), {key.array()}, [&](ir::Builder&, const ir::Values& v) {
          ir::Value state = v[0];
          if (narrow) state = ops::bitcast_convert_type(ops::reshape(state, {2, 2}), uint64);
          auto r = ops::generate_bits(state, shape, dtype_size(o.dtype), o.algorithm == RngAlgorithm::ThreeFry);
          if (narrow) r.state = ops::reshape(ops::bitcast_convert_type(r.state, uint32), {4});
          return ir::Values{r.state, r.bits};
        });
  };
  std::vector<Array> out = draw();
  if (!o.out_sharding.given()) return {out[0], out[1]};
  return {out[0], detail::placed_as(o.out_sharding, "rng_bit_generator", [&] { return draw()[1]; })};
}

}  // namespace tessera::lax
