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
  t["linalg.eigvalsh"] = one([](const Arrays& a, const Params&) { return linalg::eigvalsh(a[0]); });
  t["linalg.svd"] = one([](const Arrays& a, const Params&) { return linalg::svdvals(a[0]); });
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
  t["slinalg.hessenberg"] = [](const Arrays& a, const Params& p) {
    const auto r = linalg::hessenberg(a[0], p.flag("calc_q"));
    return r.q ? Arrays{r.h, *r.q} : Arrays{r.h};
  };
  t["lax.linalg.hessenberg"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::hessenberg_packed(a[0]);
    return Arrays{r.a, r.taus};
  };
  t["lax.linalg.householder_product"] = binary(linalg::householder_product);
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

fft::Norm norm_of(const Params& p) {
  const std::string norm = p.text("norm", "backward");
  return norm == "ortho" ? fft::Norm::Ortho : norm == "forward" ? fft::Norm::Forward : fft::Norm::Backward;
}

void add_fourier(Table& t) {
  const std::map<std::string, Array (*)(const Operand&, const fft::Options&)> lines = {
      {"fft", fft::fft},     {"ifft", fft::ifft}, {"rfft", fft::rfft},
      {"irfft", fft::irfft}, {"hfft", fft::hfft}, {"ihfft", fft::ihfft}};
  for (const auto& [name, f] : lines) {
    t["fft." + name] = one([f = f](const Arrays& a, const Params& p) {
      return f(a[0], {.n = p.maybe_integer("n"), .axis = p.integer("axis", -1), .norm = norm_of(p)});
    });
  }
  auto options = [](const Params& p) {
    return fft::OptionsN{.s = p.maybe_dims("s"), .axes = p.maybe_dims("axes"), .norm = norm_of(p)};
  };
  const std::map<std::string, Array (*)(const Operand&, const fft::OptionsN&)> volumes = {
      {"fftn", fft::fftn}, {"ifftn", fft::ifftn}, {"rfftn", fft::rfftn}, {"irfftn", fft::irfftn}};
  for (const auto& [name, f] : volumes) {
    t["fft." + name] = one([f = f, options](const Arrays& a, const Params& p) { return f(a[0], options(p)); });
  }
  const std::map<std::string, Array (*)(const Operand&, fft::OptionsN)> planes = {
      {"fft2", fft::fft2}, {"ifft2", fft::ifft2}, {"rfft2", fft::rfft2}, {"irfft2", fft::irfft2}};
  for (const auto& [name, f] : planes) {
    t["fft." + name] = one([f = f, options](const Arrays& a, const Params& p) { return f(a[0], options(p)); });
  }
  t["fft.fftfreq"] = one([](const Arrays&, const Params& p) { return fft::fftfreq(p.integer("n"), p.real("d", 1)); });
  t["fft.rfftfreq"] = one([](const Arrays&, const Params& p) { return fft::rfftfreq(p.integer("n"), p.real("d", 1)); });
  t["fft.fftshift"] = one([](const Arrays& a, const Params& p) { return fft::fftshift(a[0], p.maybe_dims("axes")); });
  t["fft.ifftshift"] = one([](const Arrays& a, const Params& p) { return fft::ifftshift(a[0], p.maybe_dims("axes")); });
}

linalg::NormOrder order(const Params& p, const std::string& name) {
  if (!p.has(name)) return {};
  if (!p.is_text(name)) return p.real(name);
  const std::string text = p.text(name);
  return text == "inf"    ? linalg::NormOrder(linalg::infinity)
         : text == "-inf" ? linalg::NormOrder(-linalg::infinity)
         : text == "nuc"  ? linalg::NormOrder("nuc")
                          : linalg::NormOrder("fro");
}

void add_norms(Table& t) {
  auto options = [](const Params& p) {
    return linalg::NormOptions{.order = order(p, "ord"), .axis = p.maybe_dims("axis"), .keepdims = p.flag("keepdims")};
  };
  t["linalg.norm"] = one([options](const Arrays& a, const Params& p) { return linalg::norm(a[0], options(p)); });
  t["linalg.vector_norm"] =
      one([options](const Arrays& a, const Params& p) { return linalg::vector_norm(a[0], options(p)); });
  t["linalg.matrix_norm"] =
      one([options](const Arrays& a, const Params& p) { return linalg::matrix_norm(a[0], options(p)); });
  t["linalg.cond"] = one([](const Arrays& a, const Params& p) { return linalg::cond(a[0], order(p, "p")); });
  t["linalg.pinv"] = one([](const Arrays& a, const Params&) { return linalg::pinv(a[0]); });
  t["linalg.svdvals"] = unary(linalg::svdvals);
  t["linalg.matrix_rank"] = one([](const Arrays& a, const Params&) { return linalg::matrix_rank(a[0]); });
  t["linalg.matrix_power"] =
      one([](const Arrays& a, const Params& p) { return linalg::matrix_power(a[0], p.integer("n")); });
  t["program.multi_dot"] = one([](const Arrays& a, const Params&) { return linalg::multi_dot(a); });
  t["linalg.lstsq"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::lstsq(a[0], a[1]);
    return Arrays{r.x, r.residuals, r.rank, r.s};
  };
  t["linalg.tensorinv"] =
      one([](const Arrays& a, const Params& p) { return linalg::tensorinv(a[0], p.integer("ind", 2)); });
  t["linalg.tensorsolve"] = binary(linalg::tensorsolve);
}

void add_forms(Table& t) {
  t["slinalg.expm"] = unary(linalg::expm);
  t["slinalg.block_diag"] = one([](const Arrays& a, const Params&) { return linalg::block_diag(a); });
  t["slinalg.toeplitz"] = one([](const Arrays& a, const Params&) {
    return linalg::toeplitz(a[0], a.size() > 1 ? std::optional(a[1]) : std::nullopt);
  });
  t["slinalg.hankel"] = one([](const Arrays& a, const Params&) {
    return linalg::hankel(a[0], a.size() > 1 ? std::optional(a[1]) : std::nullopt);
  });
  t["slinalg.circulant"] = unary(linalg::circulant);
  t["slinalg.companion"] = unary(linalg::companion);
  t["slinalg.hilbert"] = one([](const Arrays&, const Params& p) { return linalg::hilbert(p.integer("n")); });
  t["slinalg.dft"] = one([](const Arrays&, const Params& p) { return linalg::dft(p.integer("n")); });
  t["program.cho_solve"] =
      one([](const Arrays& a, const Params&) { return linalg::cho_solve(linalg::cholesky(a[0]), a[1]); });
  t["program.lu_solve"] = one([](const Arrays& a, const Params&) { return linalg::lu_solve(linalg::lu(a[0]), a[1]); });
  t["slinalg.polar"] = [](const Arrays& a, const Params&) {
    const auto r = linalg::polar(a[0]);
    return Arrays{r.unitary, r.positive};
  };
}

}  // namespace

void add_linalg(Table& t) {
  add_decompositions(t);
  add_solvers(t);
  add_fourier(t);
  add_norms(t);
  add_forms(t);
}

}  // namespace tessera::oracle
