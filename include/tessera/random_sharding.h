// SPDX-License-Identifier: Apache-2.0
// Random values that are made where they are wanted: the functions of tessera/random.h with one more argument. The
// values are the same, bit by bit, whatever the placement; each device draws its own part.
//
//   random::normal(key, {8, 4}, float32, {.out_sharding = P("x", none)})
#pragma once

#include <optional>

#include "tessera/random.h"
#include "tessera/sharding_arg.h"

namespace tessera::random {

// Each throws as the function without options does, and as placements do (tessera/explicit_sharding.h).
/// Of uint32.
Array bits(const Operand& key, const Shape& shape, const PlaceOptions& options);
/// Of float32, in [0, 1).
Array uniform(const Operand& key, const Shape& shape, const PlaceOptions& options);
/// In [0, 1).
Array uniform(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// Of float32.
Array normal(const Operand& key, const Shape& shape, const PlaceOptions& options);
/// `bits`, placed as `options.out_sharding`.
Array bits(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `uniform`, placed as `options.out_sharding`.
Array uniform(const Operand& key, const Shape& shape, DType dtype, const Operand& minval, const Operand& maxval,
              const PlaceOptions& options);
/// `randint`, placed as `options.out_sharding`.
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval, DType dtype,
              const PlaceOptions& options);
/// `normal`, placed as `options.out_sharding`.
Array normal(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `truncated_normal`, placed as `options.out_sharding`.
Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, const Shape& shape, DType dtype,
                       const PlaceOptions& options);
/// `bernoulli`, placed as `options.out_sharding`.
Array bernoulli(const Operand& key, const Operand& p, const MaybeDims& shape, const PlaceOptions& options);
/// `gumbel`, placed as `options.out_sharding`.
Array gumbel(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `exponential`, placed as `options.out_sharding`.
Array exponential(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `laplace`, placed as `options.out_sharding`.
Array laplace(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `logistic`, placed as `options.out_sharding`.
Array logistic(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `cauchy`, placed as `options.out_sharding`.
Array cauchy(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `rademacher`, placed as `options.out_sharding`.
Array rademacher(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `categorical`, placed as `options.out_sharding`.
Array categorical(const Operand& key, const Operand& logits, std::int64_t axis, const MaybeDims& shape,
                  const PlaceOptions& options);
/// `permutation`, placed as `options.out_sharding`.
Array permutation(const Operand& key, std::int64_t n, const PlaceOptions& options);
/// `permutation`, placed as `options.out_sharding`.
Array permutation(const Operand& key, const Array& x, std::int64_t axis, const PlaceOptions& options);
/// `choice`, placed as `options.out_sharding`.
Array choice(const Operand& key, std::int64_t n, const Shape& shape, bool replace, const PlaceOptions& options);
/// `gamma`, placed as `options.out_sharding`.
Array gamma(const Operand& key, const Operand& a, const MaybeShape& shape, DType dtype, const PlaceOptions& options);
/// `loggamma`, placed as `options.out_sharding`.
Array loggamma(const Operand& key, const Operand& a, const MaybeShape& shape, DType dtype, const PlaceOptions& options);
/// `beta`, placed as `options.out_sharding`.
Array beta(const Operand& key, const Operand& a, const Operand& b, const MaybeShape& shape, DType dtype,
           const PlaceOptions& options);
/// `dirichlet`, placed as `options.out_sharding`.
Array dirichlet(const Operand& key, const Operand& alpha, const MaybeShape& shape, DType dtype,
                const PlaceOptions& options);
/// `chisquare`, placed as `options.out_sharding`.
Array chisquare(const Operand& key, const Operand& df, const MaybeShape& shape, DType dtype,
                const PlaceOptions& options);
/// `f`, placed as `options.out_sharding`.
Array f(const Operand& key, const Operand& dfnum, const Operand& dfden, const MaybeShape& shape, DType dtype,
        const PlaceOptions& options);
/// `t`, placed as `options.out_sharding`.
Array t(const Operand& key, const Operand& df, const MaybeShape& shape, DType dtype, const PlaceOptions& options);
/// `poisson`, placed as `options.out_sharding`.
Array poisson(const Operand& key, const Operand& lam, const MaybeShape& shape, DType dtype,
              const PlaceOptions& options);
/// `binomial`, placed as `options.out_sharding`.
Array binomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape, DType dtype,
               const PlaceOptions& options);
/// `multinomial`, placed as `options.out_sharding`.
Array multinomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape, DType dtype,
                  const PlaceOptions& options);
/// `geometric`, placed as `options.out_sharding`.
Array geometric(const Operand& key, const Operand& p, const MaybeShape& shape, DType dtype,
                const PlaceOptions& options);
/// `pareto`, placed as `options.out_sharding`.
Array pareto(const Operand& key, const Operand& b, const MaybeShape& shape, DType dtype, const PlaceOptions& options);
/// `rayleigh`, placed as `options.out_sharding`.
Array rayleigh(const Operand& key, const Operand& scale, const MaybeShape& shape, DType dtype,
               const PlaceOptions& options);
/// `lognormal`, placed as `options.out_sharding`.
Array lognormal(const Operand& key, const Operand& sigma, const MaybeShape& shape, DType dtype,
                const PlaceOptions& options);
/// `wald`, placed as `options.out_sharding`.
Array wald(const Operand& key, const Operand& mean, const MaybeShape& shape, DType dtype, const PlaceOptions& options);
/// `weibull_min`, placed as `options.out_sharding`.
Array weibull_min(const Operand& key, const Operand& scale, const Operand& concentration, const Shape& shape,
                  DType dtype, const PlaceOptions& options);
/// `triangular`, placed as `options.out_sharding`.
Array triangular(const Operand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const MaybeShape& shape, DType dtype, const PlaceOptions& options);
/// `maxwell`, placed as `options.out_sharding`.
Array maxwell(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `double_sided_maxwell`, placed as `options.out_sharding`.
Array double_sided_maxwell(const Operand& key, const Operand& loc, const Operand& scale, const Shape& shape,
                           DType dtype, const PlaceOptions& options);
/// `generalized_normal`, placed as `options.out_sharding`.
Array generalized_normal(const Operand& key, const Operand& p, const Shape& shape, DType dtype,
                         const PlaceOptions& options);
/// `ball`, placed as `options.out_sharding`.
Array ball(const Operand& key, std::int64_t d, double p, const Shape& shape, DType dtype, const PlaceOptions& options);
/// `orthogonal`, placed as `options.out_sharding`.
Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape, DType dtype, std::optional<std::int64_t> m,
                 const PlaceOptions& options);
/// `multivariate_normal`, placed as `options.out_sharding`.
Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& cov, const MaybeShape& shape,
                          std::optional<DType> dtype, const PlaceOptions& options);

}  // namespace tessera::random
