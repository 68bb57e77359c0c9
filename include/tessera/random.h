// SPDX-License-Identifier: Apache-2.0
// Random numbers as jax.random: a key (uint32[2]) is a value, every draw is a pure function of its key, and the numbers
// do not depend on how arrays are sharded. Bits come from Threefry-2x32 (Salmon et al., SC 2011) over each element's
// flat index, as JAX's partitionable form; keys, bits, integers and uniform numbers equal JAX's bit by bit.
#pragma once

#include <optional>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"

namespace tessera::random {

/// A key from a seed: its upper and lower 32 bits.
Array key(std::int64_t seed, const Loc& loc = Loc::current());
/// `num` new keys, shape (num, 2).
Array split(const Operand& key, std::int64_t num = 2);
/// Rows of `split` as separate keys.
std::vector<Array> split_keys(const Operand& key, std::int64_t num = 2);
/// A key for `data` (a number of a step, a layer) under this key.
Array fold_in(const Operand& key, const Operand& data);
/// Uniform bits as uint8, uint16, uint32 or uint64.
Array bits(const Operand& key, const Shape& shape = {}, DType dtype = uint32);
/// In [minval, maxval).
Array uniform(const Operand& key, const Shape& shape = {}, DType dtype = float32, const Operand& minval = 0.0,
              const Operand& maxval = 1.0);
/// Integers in [minval, maxval).
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              DType dtype = int32);
Array normal(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// Normal numbers within (lower, upper).
Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, const Shape& shape = {},
                       DType dtype = float32);
/// True with probability p.
Array bernoulli(const Operand& key, const Operand& p = 0.5, const std::optional<Shape>& shape = std::nullopt);
Array gumbel(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array exponential(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array laplace(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array logistic(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array cauchy(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// -1 or 1.
Array rademacher(const Operand& key, const Shape& shape = {}, DType dtype = int32);

/// Numbers of categories along `axis` of unnormalised log probabilities; `shape` may put dimensions in front.
Array categorical(const Operand& key, const Operand& logits, std::int64_t axis = -1,
                  const std::optional<Shape>& shape = std::nullopt);
/// 0 … n-1 shuffled, or the rows of x along `axis` in another order.
Array permutation(const Operand& key, std::int64_t n);
Array permutation(const Operand& key, const Array& x, std::int64_t axis = 0);
/// Elements of 0 … n-1, with or without putting back.
Array choice(const Operand& key, std::int64_t n, const Shape& shape = {}, bool replace = true);

}  // namespace tessera::random
