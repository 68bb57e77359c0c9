// SPDX-License-Identifier: Apache-2.0
// Scalar special functions that the C library lacks or gives in a form that is not thread-safe.
#pragma once

namespace tessera::kernels {

double lgamma_of(double x);
float lgamma_of(float x);
/// Logarithmic derivative of gamma; NaN at 0 and the negative integers.
double digamma_of(double x);
float digamma_of(float x);

}  // namespace tessera::kernels
