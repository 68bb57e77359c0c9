# SPDX-License-Identifier: Apache-2.0
"""Programs of scientific computing: Fourier transforms, linear algebra, partial differential equations."""
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from arrays import ALL, COLUMNS, EDGES, SHARD, SQUARE, XY
from collectives import all_gather, all_reduce, all_to_all
from program import Arg, program

# Fourier transforms: complex64 blocks have 2 * SHARD bytes.

TRANSPOSES = "all-to-alls: rows whole, columns whole, back to blocks"
THREE_TRANSPOSES = all_to_all(2 * SHARD, 2) + all_to_all(2 * SHARD, 8) + all_to_all(2 * SHARD, 4)


@program("fft", "Fourier", Arg((1024, 1024), XY, "complex"), out=XY, bound=2 * all_to_all(2 * SHARD, 4),
         why="an all-to-all that makes the columns whole, and one back")
def _(x):
    return jnp.fft.fft(x, axis=0)


@program("fft2", "Fourier", Arg((1024, 1024), XY, "complex"), out=XY, bound=THREE_TRANSPOSES, why=TRANSPOSES)
def _(x):
    return jnp.fft.fft2(x)


@program("fft2-slabs", "Fourier", Arg((1024, 1024), ALL, "complex"), out=ALL, bound=2 * all_to_all(2 * SHARD, 8),
         why="an all-to-all that makes the columns whole, and one back")
def _(x):
    return jnp.fft.fft2(x)


@program("fft-convolution", "Fourier", Arg((1024, 1024), ALL), Arg((1024, 1024), ALL), out=ALL,
         bound=3 * all_to_all(1024 * 513 * 8 // 8, 8), why="an all-to-all of each half spectrum")
def _(x, k):
    return jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.fft.rfft2(k), s=(1024, 1024))


@program("poisson-by-fft", "Fourier", SQUARE, out=XY, bound=2 * (all_to_all(SHARD, 2) + all_to_all(2 * SHARD, 8)),
         why="all-to-alls: rows whole, columns whole; the same back")
def _(f):
    k = 2 * jnp.pi * jnp.fft.fftfreq(1024)
    symbol = 2 * jnp.cos(k)[:, None] + 2 * jnp.cos(k)[None] - 4
    spectrum = jnp.fft.fft2(f) / jnp.where(symbol == 0, 1, symbol)
    return jnp.fft.ifft2(jnp.where(symbol == 0, 0, spectrum)).real


# Linear algebra

MATRIX = Arg((512, 512), XY, scale=1.0)
DEFINITE = Arg((512, 512), XY, "definite")
BLOCK = 128 * 256 * 4


@program("cholesky", "linear algebra", DEFINITE, out=XY, bound=(all_gather(BLOCK, 2) + all_gather(BLOCK, 4)) // 2,
         why="of the factor's triangle a block row and a block column")
def _(a):
    return jnp.linalg.cholesky(a)


@program("cholesky-rows", "linear algebra", Arg((1024, 1024), ALL, "definite"), out=ALL,
         bound=(all_gather(4 * BLOCK, 2) + all_gather(4 * BLOCK, 4)) // 2, why="as above, by blocks")
def _(a):
    return lax.linalg.cholesky(a, symmetrize_input=False)


@program("cholesky-batched", "linear algebra", Arg((16, 128, 128), ALL, "definite"), out=ALL, bound=0, why="one device has each")
def _(a):
    return jnp.linalg.cholesky(a)


def without_signs(results):
    """Columns of orthogonal factors are determined but for their signs."""
    return jax.tree.map(abs, results)


@program("qr-tall", "linear algebra", Arg((8192, 64), ALL), out=(ALL, P()), bound=3 * (64 * 65 // 2) * 4, rtol=1e-3,
         why="TSQR: a triangle in each of log2(p) rounds", canonical=without_signs)
def _(a):
    return tuple(jnp.linalg.qr(a))


@program("qr", "linear algebra", Arg((1024, 1024), XY), out=(XY, XY), rtol=1e-3, canonical=without_signs)
def _(a):
    return tuple(jnp.linalg.qr(a))


@program("lu", "linear algebra", MATRIX, out=(XY, P()), bound=all_gather(BLOCK, 2) + all_gather(BLOCK, 4), rtol=1e-3,
         why="a block row and a block column of the factors")
def _(a):
    lu, pivots, _ = lax.linalg.lu(a)
    return lu, pivots


@program("triangular_solve", "linear algebra", Arg((512, 512), P("x"), "lower"), Arg((512, 1024), P(None, "y")), out=P(None, "y"),
         bound=all_gather(128 * 512 * 4, 4), why="the rows of the matrix that a device has not")
def _(l, b):
    return lax.linalg.triangular_solve(l, b, left_side=True, lower=True)


@program("triangular_solve-blocks", "linear algebra", Arg((1024, 1024), XY, "lower"), Arg((1024, 64), XY), out=XY,
         bound=all_gather(4 * BLOCK, 2) // 2 + all_gather(256 * 32 * 4, 4),
         why="of the triangle the rest of a device's rows, of the result the other rows")
def _(l, b):
    return lax.linalg.triangular_solve(l, b, left_side=True, lower=True)


@program("solve", "linear algebra", DEFINITE, Arg((512, 64), P("x")), out=P("x"), rtol=1e-3,
         bound=all_gather(BLOCK, 2) + all_gather(BLOCK, 4), why="a block row and a block column of the factors")
def _(a, b):
    return jnp.linalg.solve(a, b)


@program("eigh", "linear algebra", DEFINITE, out=(P(), XY), rtol=1e-2, canonical=lambda r: r[0])
def _(a):
    return tuple(jnp.linalg.eigh(a))


@program("svd", "linear algebra", Arg((1024, 128), ALL), out=(ALL, P(), P()), bound=3 * (128 * 129 // 2) * 4, rtol=1e-3,
         why="TSQR's triangles, then all of a small matrix", canonical=without_signs)
def _(a):
    return tuple(jnp.linalg.svd(a, full_matrices=False))


@program("conjugate-gradients", "linear algebra", Arg((1024, 1024), P("x"), "definite"), Arg((1024,), P("x")), out=P("x"), loop=10,
         bound=10 * (all_gather(256 * 4, 4) + 2 * all_reduce(4, 4)) + all_reduce(4, 4),
         why="of each of 10 steps the direction and two sums")
def _(a, b):
    def step(state, _):
        x, r, d, rr = state
        ad = a @ d
        alpha = rr / (d @ ad)
        x, r = x + alpha * d, r - alpha * ad
        new = r @ r
        return (x, r, r + new / rr * d, new), None

    return lax.scan(step, (jnp.zeros_like(b), b, b, b @ b), None, length=10)[0][0]


@program("power-iteration", "linear algebra", Arg((1024, 1024), XY, "definite"), Arg((1024,), P("y"), "uniform"), out=P("y"), loop=10,
         bound=10 * (all_reduce(256 * 4, 2) + 256 * 4 + all_reduce(4, 2)),
         why="of each of 10 steps the product's sum, the way back to y, and a norm")
def _(a, v):
    def step(v, _):
        w = a @ v
        return w / jnp.linalg.norm(w), None

    return lax.scan(step, v, None, length=10)[0]


# Partial differential equations, 20 steps each

NEIGHBOURS = "edges of the neighbours in each step"


def laplacian(u):
    return (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)) - 4 * u


PERIODIC_EDGES = (2 * COLUMNS + 2 * 256) * 4


@program("heat-2d", "PDE", SQUARE, out=XY, loop=20, bound=20 * EDGES, why=NEIGHBOURS)
def _(u):
    def step(_, u):
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        return u.at[1:-1, 1:-1].add(0.2 * inner)

    return lax.fori_loop(0, 20, step, u)


@program("wave-2d", "PDE", SQUARE, SQUARE, out=(XY, XY), loop=20, bound=20 * PERIODIC_EDGES, why=NEIGHBOURS)
def _(u, before):
    def step(_, state):
        u, before = state
        return 2 * u - before + 0.2 * laplacian(u), u

    return lax.fori_loop(0, 20, step, (u, before))


@program("jacobi", "PDE", SQUARE, SQUARE, out=(XY, P()), loop=20, bound=20 * (EDGES + all_reduce(4, 8)),
         why="edges of the neighbours and a norm in each step")
def _(u, f):
    def step(u, _):
        padded = jnp.pad(u, 1)
        new = 0.25 * (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - f)
        return new, jnp.sum((new - u) ** 2)

    u, changes = lax.scan(step, u, None, length=20)
    return u, changes


@program("heat-by-convolution", "PDE", Arg((1, 1024, 1024, 1), P(None, "x", "y")), out=P(None, "x", "y"),
         loop=20, bound=20 * (EDGES + 2 * 4), why="edges and corners of the neighbours in each step")
def _(u):
    kernel = jnp.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], jnp.float32)[:, :, None, None]

    def step(_, u):
        return u + 0.2 * lax.conv_general_dilated(u, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    return lax.fori_loop(0, 20, step, u)


@program("advection-3d", "PDE", Arg((128, 128, 64), XY), out=XY, loop=20, bound=20 * (64 * 64 * 4 + 32 * 64 * 4),
         why="one face of two neighbours in each step")
def _(u):
    def step(_, u):
        return u - 0.1 * (3 * u - jnp.roll(u, 1, 0) - jnp.roll(u, 1, 1) - jnp.roll(u, 1, 2))

    return lax.fori_loop(0, 20, step, u)
