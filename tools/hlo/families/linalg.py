# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from record import rand


def spd(n, dtype="float32", batch=()):
    a = rand((*batch, n, n), dtype)
    return (a @ np.swapaxes(a.conj(), -1, -2) + n * np.eye(n)).astype(dtype)


def cases(r):
    tol = 2e-4
    for d in ("float32", "complex64"):
        a, s, b = rand((5, 5), d) + 3 * np.eye(5, dtype=d), spd(5, d), rand((5, 3), d)
        tall = rand((6, 4), d)
        r.case(f"cholesky_{d}", lambda s: (jnp.linalg.cholesky(s), jsp.linalg.cholesky(s, lower=False), jsp.linalg.cho_factor(s)[0]), s, tol=tol)
        r.case(f"lu_{d}", lambda a: (jsp.linalg.lu(a), jsp.linalg.lu_factor(a), lax.linalg.lu(a)), a, tol=tol)
        r.case(f"solve_{d}", lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.slogdet(a)), a, b, tol=tol)
        r.case(f"qr_{d}", lambda a: (jnp.linalg.qr(a), jnp.linalg.qr(a, mode="r"), jnp.linalg.qr(a.T)), tall, tol=tol)
        r.case(f"qr_full_{d}", lambda a: jnp.linalg.qr(a, mode="complete"), tall, tol=tol)
        r.case(f"svd_values_{d}", lambda a: (jnp.linalg.svd(a, compute_uv=False), jnp.linalg.matrix_rank(a), jnp.linalg.cond(a)), tall, tol=tol)
        r.case(f"svd_{d}", lambda a: jnp.linalg.svd(a, full_matrices=False), tall, tol=tol)
        r.case(f"svd_full_{d}", lambda a: jnp.linalg.svd(a), tall, tol=tol)
        r.case(f"eigh_{d}", lambda s: (jnp.linalg.eigh(s), jnp.linalg.eigvalsh(s)), s, tol=tol)
        r.case(f"eig_{d}", lambda a: (jnp.linalg.eigvals(a), jnp.linalg.eig(a)), a, tol=tol)
        # Schur vectors are unique up to phases, which the processor's BLAS decides.
        r.case(f"schur_{d}", lambda a: (lambda t, u: (u @ t @ u.conj().T, u.conj().T @ u, jnp.tril(t, -2)))(*jsp.linalg.schur(a)), a, tol=tol)
        r.case(f"hessenberg_{d}", lambda a: jsp.linalg.hessenberg(a, calc_q=True), a, tol=tol)
        r.case(f"triangular_{d}", lambda a, b: (jsp.linalg.solve_triangular(a, b), jsp.linalg.solve_triangular(a, b, lower=True, trans=1), jsp.linalg.solve_triangular(a, b, trans=2, unit_diagonal=True), lax.linalg.triangular_solve(a, b.T, left_side=False)), a, b, tol=tol)
        r.case(f"householder_{d}", lambda a: lax.linalg.householder_product(*lax.linalg.geqrf(a)), tall, tol=tol)
        r.case(f"tridiagonal_{d}", lambda s: lax.linalg.tridiagonal(s), s, tol=tol)
        r.case(f"tridiagonal_solve_{d}", lambda b: lax.linalg.tridiagonal_solve(jnp.arange(5.).astype(d), jnp.full(5, 4.0, d), jnp.arange(5.)[::-1].astype(d), b), b, tol=tol)
        r.case(f"pivoted_qr_{d}", lambda a: jsp.linalg.qr(a, pivoting=True, mode="economic"), tall, tol=tol)
    a, s = rand((5, 5)) + 3 * np.eye(5, dtype="float32"), spd(5)
    r.case("f64", lambda a, s: (jnp.linalg.inv(a), jnp.linalg.eigh(s), jnp.linalg.svd(a, compute_uv=False), jnp.linalg.qr(a), jnp.linalg.eig(a)), a.astype("float64"), s.astype("float64"), x64=True, tol=1e-9)
    r.case("batched", lambda a, s: (jnp.linalg.cholesky(s), jnp.linalg.inv(a), jnp.linalg.det(a), jnp.linalg.qr(a), jnp.linalg.svd(a), jnp.linalg.eigh(s), jnp.linalg.eigvals(a)), np.stack([a, a.T, a + 1]), spd(5, batch=(3,)), tol=tol)
    r.case("not_pd", lambda a: jnp.linalg.cholesky(a), -np.eye(3, dtype="float32"))
    r.case("expm", lambda a: jsp.linalg.expm(a * 0.3), a, tol=tol)
    r.case("sqrtm", lambda s: jsp.linalg.sqrtm(s), s, tol=1e-3)
    r.case("polar", lambda a: jsp.linalg.polar(a, method="svd"), a, tol=tol)
    r.case("funcs", lambda a: (jnp.linalg.matrix_power(a, 3), jnp.linalg.multi_dot([a, a, a]), jnp.linalg.norm(a, 2), jnp.linalg.norm(a, "nuc"), jnp.linalg.pinv(a)), a, tol=5e-4)
    r.case("lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0], rand((6, 4)), rand((6, 2)), tol=5e-4)
    r.case("cho_solve", lambda s, b: jsp.linalg.cho_solve(jsp.linalg.cho_factor(s), b), s, rand((5, 2)), tol=tol)
    r.case("lu_solve", lambda a, b: jsp.linalg.lu_solve(jsp.linalg.lu_factor(a), b), a, rand((5, 2)), tol=tol)
    r.case("eigh_tridiagonal", lambda d, e: jsp.linalg.eigh_tridiagonal(d, e, eigvals_only=True), rand((5,)), rand((4,)), tol=1e-3)
    r.case("toeplitz", lambda x: (jsp.linalg.toeplitz(x), jsp.linalg.block_diag(x[None], x[:, None])), rand((4,)))
    r.case("cg", lambda s, b: jsp.sparse.linalg.cg(s, b)[0], s, rand((5,)), tol=1e-3)
    r.case("gmres", lambda s, b: jsp.sparse.linalg.gmres(s, b)[0], s, rand((5,)), tol=1e-3)
    for n, f in (("cholesky", lambda s: jnp.sum(jnp.linalg.cholesky(s) ** 2)), ("inv", lambda s: jnp.sum(jnp.linalg.inv(s))), ("logdet", lambda s: jnp.linalg.slogdet(s)[1]), ("eigvalsh", lambda s: jnp.sum(jnp.linalg.eigvalsh(s) ** 3)), ("svd", lambda s: jnp.sum(jnp.linalg.svd(s, compute_uv=False) ** 3)), ("solve", lambda s: jnp.sum(jnp.linalg.solve(s, jnp.ones(5)))), ("qr", lambda s: jnp.sum(jnp.linalg.qr(s)[1] ** 2)), ("det", jnp.linalg.det), ("expm", lambda s: jnp.sum(jsp.linalg.expm(s * 0.1)))):
        r.case(f"grad_{n}", jax.grad(f), s, tol=3e-3)
    x, z = rand((3, 8)), rand((3, 8), "complex64")
    r.case("fft", lambda z: (jnp.fft.fft(z), jnp.fft.ifft(z), jnp.fft.fft2(z), jnp.fft.ifftn(z), jnp.fft.fft(z, n=5), jnp.fft.fft(z, axis=0)), z, tol=1e-4)
    r.case("rfft", lambda x: (jnp.fft.rfft(x), jnp.fft.rfft2(x), jnp.fft.rfftn(x), jnp.fft.hfft(x), jnp.fft.ihfft(x), jnp.fft.rfft(x, n=7)), x, tol=1e-4)
    r.case("irfft", lambda z: (jnp.fft.irfft(z), jnp.fft.irfft(z, n=13), jnp.fft.irfft2(z), jnp.fft.irfftn(z, s=(3, 9))), z, tol=1e-4)
    r.case("fft_more", lambda x: (jnp.fft.fftshift(x), jnp.fft.ifftshift(x), jnp.fft.fftfreq(8), jnp.fft.rfftfreq(8)), x)
    r.case("fft_f64", lambda x: (jnp.fft.fft(x), jnp.fft.rfft(x)), x.astype("float64"), x64=True, tol=1e-9)
    r.case("fft_grad", jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2)), x, tol=1e-4)
    r.case("dct", lambda x: (jsp.fft.dct(x), jsp.fft.idct(x)), x, tol=1e-4)
    r.case("signal", lambda x: (jsp.signal.convolve(x[0], x[1]), jsp.signal.convolve2d(x, x), jsp.signal.detrend(x), jsp.signal.fftconvolve(x[0], x[1]), jsp.signal.stft(x[0], nperseg=4)), x, tol=1e-4)
