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
Array bernoulli(const Operand& key, const Operand& p = 0.5, const MaybeDims& shape = {});
Array gumbel(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array exponential(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array laplace(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array logistic(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array cauchy(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// -1 or 1.
Array rademacher(const Operand& key, const Shape& shape = {}, DType dtype = int32);

/// Numbers of categories along `axis` of unnormalised log probabilities; `shape` may put dimensions in front.
Array categorical(const Operand& key, const Operand& logits, std::int64_t axis = -1, const MaybeDims& shape = {});
/// 0 … n-1 shuffled, or the rows of x along `axis` in another order.
Array permutation(const Operand& key, std::int64_t n);
Array permutation(const Operand& key, const Array& x, std::int64_t axis = 0);
/// Elements of 0 … n-1, with or without putting back.
Array choice(const Operand& key, std::int64_t n, const Shape& shape = {}, bool replace = true);

/// Elements (slices along `axis`) of an array, with probabilities `p` where given.
struct ChoiceOptions {
  bool replace = true;
  std::optional<Array> p = std::nullopt;
  std::int64_t axis = 0;
};
Array choice(const Operand& key, const Array& from, const Shape& shape, const ChoiceOptions& options = {});

// --- distributions with parameters: parameters broadcast to `shape`, which is theirs where not given. `ValueError`
// where they do not broadcast, `TypeError` for a dtype that is no float. ---------------------------------------------
using MaybeShape = MaybeDims;
/// With density x^(a-1) exp(-x) / gamma(a), and its logarithm, which is exact for small a. Differentiable in a.
Array gamma(const Operand& key, const Operand& a, const MaybeShape& shape = {}, DType dtype = float32);
Array loggamma(const Operand& key, const Operand& a, const MaybeShape& shape = {}, DType dtype = float32);
Array beta(const Operand& key, const Operand& a, const Operand& b, const MaybeShape& shape = {}, DType dtype = float32);
/// alpha has one more dimension, the last: shares that sum to 1.
Array dirichlet(const Operand& key, const Operand& alpha, const MaybeShape& shape = {}, DType dtype = float32);
Array chisquare(const Operand& key, const Operand& df, const MaybeShape& shape = {}, DType dtype = float32);
Array f(const Operand& key, const Operand& dfnum, const Operand& dfden, const MaybeShape& shape = {},
        DType dtype = float32);
Array t(const Operand& key, const Operand& df, const MaybeShape& shape = {}, DType dtype = float32);
/// Counts of events at rate lam; `lam` must be finite.
Array poisson(const Operand& key, const Operand& lam, const MaybeShape& shape = {}, DType dtype = int32);
/// Successes of n trials, as floats.
Array binomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape = {},
               DType dtype = float32);
/// Counts of categories (last dimension of p) in n trials, as floats.
Array multinomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape = {},
                  DType dtype = float32);
/// Trials up to the first success.
Array geometric(const Operand& key, const Operand& p, const MaybeShape& shape = {}, DType dtype = int32);
Array pareto(const Operand& key, const Operand& b, const MaybeShape& shape = {}, DType dtype = float32);
Array rayleigh(const Operand& key, const Operand& scale, const MaybeShape& shape = {}, DType dtype = float32);
Array lognormal(const Operand& key, const Operand& sigma = 1.0, const MaybeShape& shape = {}, DType dtype = float32);
Array wald(const Operand& key, const Operand& mean, const MaybeShape& shape = {}, DType dtype = float32);
Array weibull_min(const Operand& key, const Operand& scale, const Operand& concentration, const Shape& shape = {},
                  DType dtype = float32);
Array triangular(const Operand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const MaybeShape& shape = {}, DType dtype = float32);
Array maxwell(const Operand& key, const Shape& shape = {}, DType dtype = float32);
Array double_sided_maxwell(const Operand& key, const Operand& loc, const Operand& scale, const Shape& shape = {},
                           DType dtype = float32);
Array generalized_normal(const Operand& key, const Operand& p, const Shape& shape = {}, DType dtype = float32);
/// Points of the unit ball of the p-norm in d dimensions (the last of the result).
Array ball(const Operand& key, std::int64_t d, double p = 2, const Shape& shape = {}, DType dtype = float32);
/// Orthogonal (unitary) matrices, uniformly: n x n, or n x m with orthonormal columns or rows.
Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape = {}, DType dtype = float32,
                 std::optional<std::int64_t> m = std::nullopt);
/// Normal vectors with this mean and covariance; `shape` is that of the batch.
Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& cov, const MaybeShape& shape = {},
                          std::optional<DType> dtype = std::nullopt);

}  // namespace tessera::random
