// SPDX-License-Identifier: Apache-2.0
#include "oracle/table.h"
#include "tessera/linalg.h"
#include "tessera/numpy.h"

namespace tessera::oracle {

namespace {

/// The adjoint of the last two dimensions.
Array adjoint(const Array& a) { return conj(swapaxes(a, -1, -2)); }
/// Columns scaled: v diag(s).
Array scaled(const Array& v, const Array& s) { return v * astype(expand_dims(s, {-2}), v.dtype()); }

void add_decompositions(Table& t) {
  t["linalg.cholesky"] = unary(linalg::cholesky);
  t["linalg.eigvalsh"] = one([](const Arrays& a, const Params&) { return linalg::eigh(a[0]).eigenvalues; });
  t["linalg.svd"] = one([](const Arrays& a, const Params&) { return linalg::svd(a[0], false).s; });
  t["program.lu_forms"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::lu(a[0]);
    return Arrays{r.lu, r.pivots, r.permutation};
  };
  t["program.svd_forms"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::svd(a[0], false);
    return Arrays{r.s, matmul(scaled(r.u, r.s), r.vh), matmul(adjoint(r.u), r.u), matmul(r.vh, adjoint(r.vh))};
  };
  t["program.svd_full_forms"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::svd(a[0], true);
    return Arrays{r.s, matmul(adjoint(r.u), r.u), matmul(adjoint(r.vh), r.vh)};
  };
  t["program.eigh_forms"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::eigh(a[0]);
    return Arrays{r.eigenvalues, matmul(scaled(r.eigenvectors, r.eigenvalues), adjoint(r.eigenvectors)),
                  matmul(adjoint(r.eigenvectors), r.eigenvectors)};
  };
  t["program.eigh_power"] = one([](const Arrays& a, const Params&) {
    const auto r = linalg::eigh((a[0] + adjoint(a[0])) / 2);
    return matmul(r.eigenvectors * expand_dims(sin(r.eigenvalues), {-2}), adjoint(r.eigenvectors));
  });
  t["program.qr_projector"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::qr(a[0]);
    const Array diagonal = sum(r.r * eye(r.r.shape(-1), std::nullopt, 0, r.r.dtype()), -1);
    return Arrays{matmul(r.q, adjoint(r.q)), abs(diagonal)};
  };
  t["program.qr_forms"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::qr(a[0]);
    return Arrays{matmul(r.q, r.r), matmul(adjoint(r.q), r.q), abs(r.r)};
  };
}

void add_solvers(Table& t) {
  t["lax.linalg.triangular_solve"] = one([](const Arrays& a, const Params& p) {
    return linalg::triangular_solve(a[0], a[1],
                                    {.left_side = p.flag("left_side"),
                                     .lower = p.flag("lower"),
                                     .transpose_a = p.flag("transpose_a"),
                                     .conjugate_a = p.flag("conjugate_a"),
                                     .unit_diagonal = p.flag("unit_diagonal")});
  });
  t["slinalg.solve_triangular"] = one([](const Arrays& a, const Params& p) {
    return linalg::triangular_solve(a[0], a[1], {.lower = p.flag("lower")});
  });
  t["linalg.solve"] = binary(linalg::solve);
  t["linalg.inv"] = unary(linalg::inv);
  t["linalg.det"] = unary(linalg::det);
  t["linalg.slogdet"] = [](const Arrays& a, const Params&) {
    const auto [sign, log] = linalg::slogdet(a[0]);
    return Arrays{sign, log};
  };
}

void add_fourier(Table& t) {
  t["fft.fft"] = one([](const Arrays& a, const Params& p) { return fft::fft(a[0], p.integer("axis", -1)); });
  t["fft.ifft"] = one([](const Arrays& a, const Params& p) { return fft::ifft(a[0], p.integer("axis", -1)); });
  t["fft.rfft"] = one([](const Arrays& a, const Params& p) { return fft::rfft(a[0], p.integer("axis", -1)); });
  t["fft.irfft"] = one([](const Arrays& a, const Params& p) { return fft::irfft(a[0], p.integer("n", -1)); });
  t["fft.fft2"] = unary(fft::fft2);
  t["fft.ifft2"] = unary(fft::ifft2);
}

}  // namespace

void add_linalg(Table& t) {
  add_decompositions(t);
  add_solvers(t);
  add_fourier(t);
}

}  // namespace tessera::oracle
