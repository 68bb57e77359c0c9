// SPDX-License-Identifier: Apache-2.0
// Special functions of one to three numbers in double precision. Outside a function's domain the answer is NaN.
#pragma once

namespace tessera::core {

/// log|gamma(x)|; unlike std::lgamma it touches no global.
double log_gamma(double x);
/// Logarithmic derivative of gamma; NaN at 0 and the negative integers.
double digamma(double x);
/// n-th derivative of digamma, for integers n >= 0.
double polygamma(double n, double x);
/// Hurwitz's zeta: sum over k >= 0 of (q + k)^-x.
double zeta(double x, double q);

double erf_inv(double x);

/// exp(-|x|) I0(x) and exp(-|x|) I1(x), modified Bessel functions of the first kind.
double bessel_i0e(double x);
double bessel_i1e(double x);

/// Regularised incomplete gamma functions: igamma + igammac = 1.
double igamma(double a, double x);
double igammac(double a, double x);
/// Derivative of `igamma` by a.
double igamma_grad_a(double a, double x);
/// Derivative by a of a sample x of Gamma(a, 1), its quantile held: -(dP/da) / (dP/dx).
double random_gamma_grad(double a, double x);

/// Regularised incomplete beta function.
double betainc(double a, double b, double x);

}  // namespace tessera::core
