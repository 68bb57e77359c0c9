// SPDX-License-Identifier: Apache-2.0
// Random values as jax.random: a key (uint32[2]) is a value, every draw is a pure function of its key, and the results
// do not depend on how arrays are sharded: every device draws the bits of its own shard without communication; loops of
// rejection samplers agree by an all-reduce, shuffles sort and gather. Bits come from Threefry-2x32 (Salmon et al., SC
// 2011) over each element's flat index, as JAX's partitionable form; keys, bits, integers and uniform floats equal
// JAX's bit by bit. Throws `TypeError` for a key of another type and for a dtype that a distribution lacks.
#pragma once

#include <optional>
#include <vector>

#include "tessera/array.h"
#include "tessera/operand.h"
#include "tessera/sharding_arg.h"

namespace tessera::random {

/// A key from a seed: its upper and lower 32 bits; the upper word is 0 for seeds that fit int32, as JAX without 64-bit
/// mode.
Array key(std::int64_t seed, const Loc& loc = Loc::current());
/// `num` new keys, shape (num, 2). Throws `ValueError` for a negative count.
Array split(const Operand& key, std::int64_t num = 2);
/// Rows of `split` as separate keys.
std::vector<Array> split_keys(const Operand& key, std::int64_t num = 2);
/// A key for `data` (the index of a step, of a layer) under this key. Throws `TypeError` unless it is an integer
/// scalar.
Array fold_in(const Operand& key, const Operand& data);
/// Uniform bits as uint8, uint16, uint32 or uint64.
Array bits(const Operand& key, const Shape& shape = {}, DType dtype = uint32);
/// Uniform floats in [minval, maxval); bounds broadcast to `shape`.
Array uniform(const Operand& key, const Shape& shape = {}, DType dtype = float32, const Operand& minval = 0.0,
              const Operand& maxval = 1.0);
/// Integers in [minval, maxval), minval where that is empty; bounds are integers and broadcast to `shape`.
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              DType dtype = int32);
/// Standard normal floats; a complex dtype has independent parts of variance 1/2.
Array normal(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// Standard normal floats conditioned on the open interval (lower, upper).
Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, const Shape& shape = {},
                       DType dtype = float32);
/// Bool: true with probability p, of `shape` (p's shape unless given).
Array bernoulli(const Operand& key, const Operand& p = 0.5, const MaybeDims& shape = {});
/// Standard Gumbel distribution: -log(-log(u)).
Array gumbel(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// Exponential distribution of rate 1.
Array exponential(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// Standard Laplace distribution, density exp(-|x|) / 2.
Array laplace(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// Standard logistic distribution.
Array logistic(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// Standard Cauchy distribution.
Array cauchy(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// -1 or 1 with equal probability.
Array rademacher(const Operand& key, const Shape& shape = {}, DType dtype = int32);

/// Indices (int32) of categories along `axis` of unnormalized log probabilities (the Gumbel-max trick); `shape` (the
/// logits' without the axis unless given) may have more dimensions in front. Throws `ValueError` where it does not hold
/// the logits' batch.
Array categorical(const Operand& key, const Operand& logits, std::int64_t axis = -1, const MaybeDims& shape = {});
/// 0 … n - 1 (int32) in random order. Throws `ValueError` for a negative n.
Array permutation(const Operand& key, std::int64_t n);
/// The slices of x along `axis` in random order.
Array permutation(const Operand& key, const Array& x, std::int64_t axis = 0);
/// Elements (int32) of 0 … n - 1, with or without replacement. Throws `ValueError` for more draws than n without it.
Array choice(const Operand& key, std::int64_t n, const Shape& shape = {}, bool replace = true);

/// How elements are drawn from an array.
struct ChoiceOptions {
  bool replace = true;
  std::optional<Array> p = std::nullopt;  ///< probabilities, one per slice; uniform unless given
  std::int64_t axis = 0;
  ShardingArg out_sharding = {};  ///< as in `PlaceOptions`
};
/// Slices of `from` along the axis, which `shape` takes the place of. Throws `ValueError` for an empty array, more
/// draws than slices without replacement, and a `p` of another shape.
Array choice(const Operand& key, const Array& from, const Shape& shape, const ChoiceOptions& options = {});

// --- distributions with parameters: parameters broadcast to `shape`, which is theirs where not given. `ValueError`
// where they do not broadcast, `TypeError` for a dtype that is no float. ---------------------------------------------
/// A shape, or none: a scalar, or the broadcast shape of the parameters.
using MaybeShape = MaybeDims;
/// Gamma distribution of shape a and scale 1: density x^(a-1) exp(-x) / gamma(a) (Marsaglia and Tsang, 2000).
/// Differentiable in a by implicit reparametrisation.
Array gamma(const Operand& key, const Operand& a, const MaybeShape& shape = {}, DType dtype = float32);
/// Logarithm of a gamma variate, accurate for small a.
Array loggamma(const Operand& key, const Operand& a, const MaybeShape& shape = {}, DType dtype = float32);
/// Beta distribution: density proportional to x^(a-1) (1-x)^(b-1) on (0, 1).
Array beta(const Operand& key, const Operand& a, const Operand& b, const MaybeShape& shape = {}, DType dtype = float32);
/// Dirichlet distribution: shares that sum to 1 along the last dimension, which `alpha` has and `shape` lacks. Throws
/// `ValueError` for an alpha of rank 0.
Array dirichlet(const Operand& key, const Operand& alpha, const MaybeShape& shape = {}, DType dtype = float32);
/// Chi-square distribution of `df` degrees of freedom.
Array chisquare(const Operand& key, const Operand& df, const MaybeShape& shape = {}, DType dtype = float32);
/// F distribution of `dfnum` and `dfden` degrees of freedom.
Array f(const Operand& key, const Operand& dfnum, const Operand& dfden, const MaybeShape& shape = {},
        DType dtype = float32);
/// Student's t distribution of `df` degrees of freedom.
Array t(const Operand& key, const Operand& df, const MaybeShape& shape = {}, DType dtype = float32);
/// Poisson distribution: counts of events at rate lam, which must be finite, in an integer dtype.
Array poisson(const Operand& key, const Operand& lam, const MaybeShape& shape = {}, DType dtype = int32);
/// Binomial distribution: successes in n trials of probability p, as floats; NaN where n < 0 or p is outside [0, 1].
Array binomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape = {},
               DType dtype = float32);
/// Multinomial distribution: counts of categories (last dimension of p, probabilities) in n trials, as floats. Throws
/// `ValueError` for a p of rank 0.
Array multinomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape = {},
                  DType dtype = float32);
/// Geometric distribution: trials up to and including the first success of probability p.
Array geometric(const Operand& key, const Operand& p, const MaybeShape& shape = {}, DType dtype = int32);
/// Pareto distribution on [1, infinity): density b x^(-b-1).
Array pareto(const Operand& key, const Operand& b, const MaybeShape& shape = {}, DType dtype = float32);
/// Rayleigh distribution of the given scale.
Array rayleigh(const Operand& key, const Operand& scale, const MaybeShape& shape = {}, DType dtype = float32);
/// exp(sigma z) for a standard normal z.
Array lognormal(const Operand& key, const Operand& sigma = 1.0, const MaybeShape& shape = {}, DType dtype = float32);
/// Wald (inverse Gaussian) distribution of the given mean and scale 1.
Array wald(const Operand& key, const Operand& mean, const MaybeShape& shape = {}, DType dtype = float32);
/// Weibull distribution: scale (-log(1 - u))^(1 / concentration).
Array weibull_min(const Operand& key, const Operand& scale, const Operand& concentration, const Shape& shape = {},
                  DType dtype = float32);
/// Triangular distribution on [left, right] with its peak at `mode`.
Array triangular(const Operand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const MaybeShape& shape = {}, DType dtype = float32);
/// Maxwell distribution: the norm of three standard normal values.
Array maxwell(const Operand& key, const Shape& shape = {}, DType dtype = float32);
/// loc + scale s m for a random sign s and a `maxwell` value m. The parameters' shape follows `shape`, as in JAX.
Array double_sided_maxwell(const Operand& key, const Operand& loc, const Operand& scale, const Shape& shape = {},
                           DType dtype = float32);
/// Generalized normal distribution: density proportional to exp(-|x|^p).
Array generalized_normal(const Operand& key, const Operand& p, const Shape& shape = {}, DType dtype = float32);
/// Uniform points of the unit ball of the p-norm in d dimensions, which are the last dimension of the result.
Array ball(const Operand& key, std::int64_t d, double p = 2, const Shape& shape = {}, DType dtype = float32);
/// Uniformly distributed orthogonal (unitary) matrices n x n, or n x m with orthonormal columns or rows; `shape` is
/// that of the batch.
Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape = {}, DType dtype = float32,
                 std::optional<std::int64_t> m = std::nullopt);
/// Normal vectors of mean (…, n) and covariance (…, n, n), by Cholesky's factor; `shape` is that of the batch. Throws
/// `ValueError` for other shapes.
Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& cov, const MaybeShape& shape = {},
                          std::optional<DType> dtype = std::nullopt);

}  // namespace tessera::random
