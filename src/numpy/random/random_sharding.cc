// SPDX-License-Identifier: Apache-2.0
#include "tessera/random_sharding.h"

#include "tessera/explicit_sharding.h"

namespace tessera::random {

using detail::placed_as;

Array bits(const Operand& key, const Shape& shape, const PlaceOptions& o) { return bits(key, shape, uint32, o); }
Array uniform(const Operand& key, const Shape& shape, const PlaceOptions& o) {
  return uniform(key, shape, float32, 0.0, 1.0, o);
}
Array uniform(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return uniform(key, shape, dtype, 0.0, 1.0, o);
}
Array normal(const Operand& key, const Shape& shape, const PlaceOptions& o) { return normal(key, shape, float32, o); }
Array bits(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::bits", [&] { return bits(key, shape, dtype); });
}
Array uniform(const Operand& key, const Shape& shape, DType dtype, const Operand& minval, const Operand& maxval,
              const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::uniform", [&] { return uniform(key, shape, dtype, minval, maxval); });
}
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval, DType dtype,
              const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::randint", [&] { return randint(key, shape, minval, maxval, dtype); });
}
Array normal(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::normal", [&] { return normal(key, shape, dtype); });
}
Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, const Shape& shape, DType dtype,
                       const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::truncated_normal",
                   [&] { return truncated_normal(key, lower, upper, shape, dtype); });
}
Array bernoulli(const Operand& key, const Operand& p, const MaybeDims& shape, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::bernoulli", [&] { return bernoulli(key, p, shape); });
}
Array gumbel(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::gumbel", [&] { return gumbel(key, shape, dtype); });
}
Array exponential(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::exponential", [&] { return exponential(key, shape, dtype); });
}
Array laplace(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::laplace", [&] { return laplace(key, shape, dtype); });
}
Array logistic(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::logistic", [&] { return logistic(key, shape, dtype); });
}
Array cauchy(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::cauchy", [&] { return cauchy(key, shape, dtype); });
}
Array rademacher(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::rademacher", [&] { return rademacher(key, shape, dtype); });
}
Array categorical(const Operand& key, const Operand& logits, std::int64_t axis, const MaybeDims& shape,
                  const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::categorical", [&] { return categorical(key, logits, axis, shape); });
}
Array permutation(const Operand& key, std::int64_t n, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::permutation", [&] { return permutation(key, n); });
}
Array permutation(const Operand& key, const Array& x, std::int64_t axis, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::permutation", [&] { return permutation(key, x, axis); });
}
Array choice(const Operand& key, std::int64_t n, const Shape& shape, bool replace, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::choice", [&] { return choice(key, n, shape, replace); });
}
Array gamma(const Operand& key, const Operand& a, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::gamma", [&] { return gamma(key, a, shape, dtype); });
}
Array loggamma(const Operand& key, const Operand& a, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::loggamma", [&] { return loggamma(key, a, shape, dtype); });
}
Array beta(const Operand& key, const Operand& a, const Operand& b, const MaybeShape& shape, DType dtype,
           const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::beta", [&] { return beta(key, a, b, shape, dtype); });
}
Array dirichlet(const Operand& key, const Operand& alpha, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::dirichlet", [&] { return dirichlet(key, alpha, shape, dtype); });
}
Array chisquare(const Operand& key, const Operand& df, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::chisquare", [&] { return chisquare(key, df, shape, dtype); });
}
Array f(const Operand& key, const Operand& dfnum, const Operand& dfden, const MaybeShape& shape, DType dtype,
        const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::f", [&] { return f(key, dfnum, dfden, shape, dtype); });
}
Array t(const Operand& key, const Operand& df, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::t", [&] { return t(key, df, shape, dtype); });
}
Array poisson(const Operand& key, const Operand& lam, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::poisson", [&] { return poisson(key, lam, shape, dtype); });
}
Array binomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape, DType dtype,
               const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::binomial", [&] { return binomial(key, n, p, shape, dtype); });
}
Array multinomial(const Operand& key, const Operand& n, const Operand& p, const MaybeShape& shape, DType dtype,
                  const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::multinomial", [&] { return multinomial(key, n, p, shape, dtype); });
}
Array geometric(const Operand& key, const Operand& p, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::geometric", [&] { return geometric(key, p, shape, dtype); });
}
Array pareto(const Operand& key, const Operand& b, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::pareto", [&] { return pareto(key, b, shape, dtype); });
}
Array rayleigh(const Operand& key, const Operand& scale, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::rayleigh", [&] { return rayleigh(key, scale, shape, dtype); });
}
Array lognormal(const Operand& key, const Operand& sigma, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::lognormal", [&] { return lognormal(key, sigma, shape, dtype); });
}
Array wald(const Operand& key, const Operand& mean, const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::wald", [&] { return wald(key, mean, shape, dtype); });
}
Array weibull_min(const Operand& key, const Operand& scale, const Operand& concentration, const Shape& shape,
                  DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::weibull_min",
                   [&] { return weibull_min(key, scale, concentration, shape, dtype); });
}
Array triangular(const Operand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const MaybeShape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::triangular",
                   [&] { return triangular(key, left, mode, right, shape, dtype); });
}
Array maxwell(const Operand& key, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::maxwell", [&] { return maxwell(key, shape, dtype); });
}
Array double_sided_maxwell(const Operand& key, const Operand& loc, const Operand& scale, const Shape& shape,
                           DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::double_sided_maxwell",
                   [&] { return double_sided_maxwell(key, loc, scale, shape, dtype); });
}
Array generalized_normal(const Operand& key, const Operand& p, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::generalized_normal",
                   [&] { return generalized_normal(key, p, shape, dtype); });
}
Array ball(const Operand& key, std::int64_t d, double p, const Shape& shape, DType dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::ball", [&] { return ball(key, d, p, shape, dtype); });
}
Array orthogonal(const Operand& key, std::int64_t n, const Shape& shape, DType dtype, std::optional<std::int64_t> m,
                 const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::orthogonal", [&] { return orthogonal(key, n, shape, dtype, m); });
}
Array multivariate_normal(const Operand& key, const Operand& mean, const Operand& cov, const MaybeShape& shape,
                          std::optional<DType> dtype, const PlaceOptions& o) {
  return placed_as(o.out_sharding, "random::multivariate_normal",
                   [&] { return multivariate_normal(key, mean, cov, shape, dtype); });
}

}  // namespace tessera::random
