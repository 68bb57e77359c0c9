// SPDX-License-Identifier: Apache-2.0
// Special functions as jax.scipy.special: element-wise, on floats (integers are converted). lgamma, digamma, polygamma,
// zeta, the incomplete gamma and beta functions, erf and their like are in ops.h.
#pragma once

#include <optional>

#include "tessera/array.h"
#include "tessera/numpy.h"
#include "tessera/operand.h"

namespace tessera::special {

/// x log(y), 0 where x is 0 and y is no NaN.
Array xlogy(const Operand& x, const Operand& y);
/// x log1p(y), 0 where x is 0 and y is no NaN.
Array xlog1py(const Operand& x, const Operand& y);
/// -x log(x): entropy of one probability; 0 at 0, -infinity below.
Array entr(const Operand& x);
/// x log(x / y): relative entropy; 0 where x is 0 and y >= 0, infinity for negative operands and y = 0 < x.
Array rel_entr(const Operand& x, const Operand& y);
/// x log(x / y) - x + y, the elements of the Kullback-Leibler divergence.
Array kl_div(const Operand& x, const Operand& y);
/// log(x / (1 - x)); NaN outside [0, 1].
Array logit(const Operand& x);
/// The logistic sigmoid, the inverse of `logit`.
Array expit(const Operand& x);

/// Cumulative distribution function of the standard normal distribution. `TypeError` unless float32 or float64, as for
/// the two below; formulas of Cephes, as in JAX.
Array ndtr(const Operand& x);
/// Logarithm of `ndtr`, accurate far in the lower tail.
Array log_ndtr(const Operand& x);
/// Inverse of `ndtr`: infinite at 0 and 1.
Array ndtri(const Operand& p);

/// The gamma function; NaN at negative integers.
Array gamma(const Operand& x);
/// Sign of gamma(x); NaN at negative integers.
Array gammasgn(const Operand& x);
/// log |gamma(x)|, as `lgamma`.
Array gammaln(const Operand& x);
/// Logarithm of the multivariate gamma function of order d: d(d-1)/4 log(pi) + sum of gammaln(a - j/2) for j < d.
Array multigammaln(const Operand& a, std::int64_t d);
/// Regularized lower incomplete gamma function, as `igamma`.
Array gammainc(const Operand& a, const Operand& x);
/// Regularized upper incomplete gamma function, as `igammac`.
Array gammaincc(const Operand& a, const Operand& x);
/// gamma(a) gamma(b) / gamma(a + b).
Array beta(const Operand& a, const Operand& b);
/// lgamma(a) + lgamma(b) - lgamma(a + b).
Array betaln(const Operand& a, const Operand& b);
/// Pochhammer symbol gamma(z + m) / gamma(z); 1 for m = 0.
Array poch(const Operand& z, const Operand& m);
/// gamma(n + 1) as a float; 0 below 0.
Array factorial(const Operand& n);
/// Binomial coefficient (n over k) as a float; with `repetition` (n + k - 1 over k). 0 outside 0 <= k <= n.
Array comb(const Operand& n, const Operand& k, bool repetition = false);
/// Box-Cox transform (x^lambda - 1) / lambda; log(x) for lambda = 0.
Array boxcox(const Operand& x, const Operand& lambda);
/// Box-Cox transform of 1 + x, accurate near 0.
Array boxcox1p(const Operand& x, const Operand& lambda);
/// exp(x^2) erfc(x), accurate where erfc vanishes.
Array erfcx(const Operand& x);
/// Modified Bessel function of order 0.
Array i0(const Operand& x);
/// i0(x) exp(-|x|).
Array i0e(const Operand& x);
/// Modified Bessel function of order 1.
Array i1(const Operand& x);
/// i1(x) exp(-|x|).
Array i1e(const Operand& x);
/// Spence's function, the dilogarithm of 1 - x; NaN below 0. `TypeError` unless float32 or float64.
Array spence(const Operand& x);

}  // namespace tessera::special
