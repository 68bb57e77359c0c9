// SPDX-License-Identifier: Apache-2.0
// Special functions as jax.scipy.special: element-wise, on floats (integers are converted). lgamma, digamma, polygamma,
// zeta, the incomplete gamma and beta functions, erf and their like are in ops.h.
#pragma once

#include <optional>

#include "tessera/array.h"
#include "tessera/numpy.h"
#include "tessera/operand.h"

namespace tessera::special {

/// x log(y) and x log1p(y), 0 where x is 0.
Array xlogy(const Operand& x, const Operand& y);
Array xlog1py(const Operand& x, const Operand& y);
/// -x log(x); -inf below 0.
Array entr(const Operand& x);
/// x log(x / y), and x log(x / y) - x + y.
Array rel_entr(const Operand& x, const Operand& y);
Array kl_div(const Operand& x, const Operand& y);
/// log(x / (1 - x)), and its inverse.
Array logit(const Operand& x);
Array expit(const Operand& x);

/// The normal distribution function, its logarithm and its inverse. `TypeError` unless float32 or float64.
Array ndtr(const Operand& x);
Array log_ndtr(const Operand& x);
Array ndtri(const Operand& p);

Array gamma(const Operand& x);
/// Sign of gamma.
Array gammasgn(const Operand& x);
Array gammaln(const Operand& x);
Array multigammaln(const Operand& a, std::int64_t d);
Array gammainc(const Operand& a, const Operand& x);
Array gammaincc(const Operand& a, const Operand& x);
Array beta(const Operand& a, const Operand& b);
Array betaln(const Operand& a, const Operand& b);
/// gamma(z + m) / gamma(z).
Array poch(const Operand& z, const Operand& m);
Array factorial(const Operand& n);
/// Binomial coefficient; with `repetition` that of n + k - 1.
Array comb(const Operand& n, const Operand& k, bool repetition = false);
Array boxcox(const Operand& x, const Operand& lambda);
Array boxcox1p(const Operand& x, const Operand& lambda);
/// exp(x^2) erfc(x).
Array erfcx(const Operand& x);
/// Modified Bessel functions, and those scaled by exp(-|x|).
Array i0(const Operand& x);
Array i0e(const Operand& x);
Array i1(const Operand& x);
Array i1e(const Operand& x);
/// Dilogarithm of 1 - x. `TypeError` unless float32 or float64.
Array spence(const Operand& x);

}  // namespace tessera::special
