# SPDX-License-Identifier: Apache-2.0
"""Idioms of array programs, as people write them: shifts, blocks, windows, signals, pictures, losses, caches.

None has a bound: the table compares them with XLA's collectives, and their values with those of one device.
"""
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from program import Arg, program

XY = P("x", "y")
SQUARE = Arg((1024, 1024), XY)
ROWS = Arg((1024, 256), P(("x", "y")))
LONG = Arg((1 << 18,), P(("x", "y")))
IMAGES = Arg((8, 64, 64, 16), P(None, "x", "y"))
TOKENS = Arg((8, 512, 256), P("x", "y"))


def idiom(name, *args, out=XY, **more):
    return program(f"idiom-{name}", "idioms", *args, out=out, **more)


@idiom("diff", SQUARE, out=None)
def _(x):
    return jnp.diff(x, axis=0)


@idiom("gradient", SQUARE, out=(XY, XY))
def _(x):
    return tuple(jnp.gradient(x))


@idiom("pad-wrap", SQUARE, out=None)
def _(x):
    return jnp.pad(x, 2, mode="wrap")


@idiom("pad-reflect", SQUARE, out=None)
def _(x):
    return jnp.pad(x, 2, mode="reflect")


@idiom("pad-edge", SQUARE, out=None)
def _(x):
    return jnp.pad(x, 2, mode="edge")


@idiom("roll-two", SQUARE)
def _(x):
    return jnp.roll(x, (3, -5), (0, 1))


@idiom("upwind", SQUARE)
def _(u):
    return u.at[1:].add(-0.1 * (u[1:] - u[:-1]))


@idiom("boundary-rows", SQUARE)
def _(u):
    return u.at[0].set(0.0).at[-1].set(1.0).at[:, 0].set(u[:, 1]).at[:, -1].set(u[:, -2])


@idiom("leapfrog", SQUARE, SQUARE)
def _(u, before):
    inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    return u.at[1:-1, 1:-1].set(2 * u[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.1 * inner)


@idiom("red-black", SQUARE)
def _(u):
    around = jnp.pad(u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:], 1) / 4
    i = jnp.arange(1024)
    return jnp.where((i[:, None] + i) % 2 == 0, around, u)


@idiom("every-second", SQUARE)
def _(x):
    return x.at[::2].multiply(2.0)


@idiom("even-odd", SQUARE)
def _(x):
    return jnp.stack([x[::2], x[1::2]], 1).reshape(1024, 1024)


@idiom("interleave", SQUARE, SQUARE, out=None)
def _(a, b):
    return jnp.stack([a, b], 1).reshape(2048, 1024)


@idiom("repeat", SQUARE, out=None)
def _(x):
    return jnp.repeat(x, 2, axis=0)


@idiom("tile", SQUARE, out=None)
def _(x):
    return jnp.tile(x, (2, 1))


@idiom("mean-pool", SQUARE, out=None)
def _(x):
    return x.reshape(256, 4, 256, 4).mean((1, 3))


@idiom("patches", IMAGES, out=None)
def _(x):
    return x.reshape(8, 8, 8, 8, 8, 16).transpose(0, 1, 3, 2, 4, 5).reshape(8, 64, 1024)


@idiom("pixel-shuffle", IMAGES, out=None)
def _(x):
    return x.reshape(8, 64, 64, 2, 2, 4).transpose(0, 1, 3, 2, 4, 5).reshape(8, 128, 128, 4)


@idiom("average-pool", IMAGES, out=None)
def _(x):
    return lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4


@idiom("upsample", IMAGES, out=None)
def _(x):
    return jnp.repeat(jnp.repeat(x, 2, 1), 2, 2)


@idiom("resize-bilinear", IMAGES, out=None)
def _(x):
    return jax.image.resize(x, (8, 128, 128, 16), "bilinear")


@idiom("sobel", Arg((2048, 2048), XY), out=None)
def _(x):
    k = jnp.array([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]])
    return lax.conv(x[None, None], k[None, None], (1, 1), "SAME")[0, 0]


@idiom("convolve-1d", LONG, out=None)
def _(x):
    return jnp.convolve(x, jnp.ones(17) / 17, mode="same")


@idiom("moving-average", LONG, out=None)
def _(x):
    c = jnp.cumsum(x)
    return (c[16:] - c[:-16]) / 16


@idiom("polynomial-blocks", LONG, out=None)
def _(x):
    return x.reshape(-1, 64) @ jnp.ones((64, 8))


@idiom("normalise-columns", SQUARE)
def _(x):
    return (x - x.mean(0)) / x.std(0)


@idiom("covariance", ROWS, out=P())
def _(x):
    return jnp.cov(x, rowvar=False)


@idiom("pairwise-distances", ROWS, ROWS, out=P(("x", "y")))
def _(a, b):
    return ((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T)


@idiom("k-means-step", Arg((4096, 64), P(("x", "y"))), Arg((16, 64)), out=P())
def _(x, c):
    near = jnp.argmin(((x[:, None] - c) ** 2).sum(-1), 1)
    return jax.ops.segment_sum(x, near, 16) / jnp.maximum(jax.ops.segment_sum(jnp.ones(4096), near, 16), 1)[:, None]


@idiom("trace-diagonal", SQUARE, out=P())
def _(x):
    return jnp.trace(x), jnp.diagonal(x).max()


@idiom("tril-masked", SQUARE)
def _(x):
    return jnp.tril(x) + jnp.triu(x, 1).T


@idiom("symmetrise", SQUARE)
def _(x):
    return (x + x.T) / 2


@idiom("outer-update", SQUARE, Arg((1024,), P("x")), Arg((1024,), P("y")))
def _(a, u, v):
    return a + 0.1 * jnp.outer(u, v)


@idiom("einsum-chain", SQUARE, SQUARE, SQUARE)
def _(a, b, c):
    return jnp.einsum("ij,jk,kl->il", a, b, c)


@idiom("batched-product", Arg((8, 256, 256), P("x", "y")), Arg((8, 256, 256), P("x", None, "y")), out=P("x", "y"))
def _(a, b):
    return a @ b


@idiom("bincount", Arg((1 << 16,), P(("x", "y")), "ints", 256), out=P())
def _(i):
    return jnp.bincount(i, length=256)


@idiom("quantile", LONG, out=P())
def _(x):
    return jnp.quantile(x, jnp.array([0.1, 0.5, 0.9]))


@idiom("nan-mean", SQUARE, out=P("y"))
def _(x):
    return jnp.nanmean(jnp.where(x > 2, jnp.nan, x), 0)


@idiom("logsumexp-all", SQUARE, out=P())
def _(x):
    return jax.nn.logsumexp(x)


@idiom("clip-by-norm", SQUARE)
def _(x):
    return x * jnp.minimum(1.0, 10.0 / jnp.linalg.norm(x))


@idiom("rotary", Arg((8, 512, 8, 64), P("x", "y")), out=P("x", "y"))
def _(q):
    angle = jnp.arange(512)[:, None] / 10000.0 ** (jnp.arange(32) / 32)
    a, b = jnp.split(q, 2, -1)
    s, c = jnp.sin(angle)[:, None], jnp.cos(angle)[:, None]
    return jnp.concatenate([a * c - b * s, a * s + b * c], -1)


@idiom("cache-update", Arg((8, 1024, 8, 64), P("x", "y")), Arg((8, 1, 8, 64), P("x")), Arg((), P(), "ints", 1024), out=P("x", "y"))
def _(cache, new, i):
    return lax.dynamic_update_slice(cache, new, (0, i, 0, 0))


@idiom("cache-prefill", Arg((8, 1024, 8, 64), P("x", "y")), Arg((8, 512, 8, 64), P("x", "y")), out=P("x", "y"))
def _(cache, new):
    return lax.dynamic_update_slice(cache, new, (0, 0, 0, 0))


@idiom("shifted-labels", Arg((64, 1024), XY, "ints", 100), out=XY)
def _(t):
    return jnp.concatenate([t[:, 1:], jnp.zeros((64, 1), jnp.int32)], 1)


@idiom("masked-loss", Arg((64, 128, 512), P("x", "y")), Arg((64, 128), XY, "ints", 512), out=P())
def _(logits, t):
    ll = jnp.take_along_axis(jax.nn.log_softmax(logits), t[..., None], -1)[..., 0]
    return -(ll * (t > 0)).sum() / (t > 0).sum()


@idiom("top-k-routing", TOKENS, Arg((256, 16)), out=(P("x", "y"), P("x", "y")))
def _(x, w):
    return tuple(lax.top_k(jax.nn.softmax(x @ w), 2))


@idiom("scan-over-split", Arg((64, 256), P("x", "y")), out=P("y"))
def _(x):
    return lax.scan(lambda c, r: (0.9 * c + r, None), jnp.zeros(256), x)[0]


@idiom("map-over-split", Arg((64, 256), P("x", "y")), out=P("x", "y"))
def _(x):
    return lax.map(lambda r: jnp.tanh(r) * 2, x)


@idiom("vmap-of-slices", SQUARE, Arg((1024,), P("x"), "ints", 1000), out=P("x"))
def _(x, i):
    return jax.vmap(lambda r, j: lax.dynamic_slice(r, (j,), (16,)))(x, i)


@idiom("flip-and-add", SQUARE)
def _(x):
    return x + x[::-1, ::-1]


@idiom("block-diagonal", Arg((8, 128, 128), P("x")), out=P("x"))
def _(b):
    return jax.scipy.linalg.block_diag(*b)


@idiom("toeplitz-like", Arg((1024,), P("x")), out=P("x"))
def _(c):
    i = jnp.arange(1024)
    return c[jnp.abs(i[:, None] - i)]


@idiom("checkerboard-sums", SQUARE, out=P())
def _(x):
    return x[::2, ::2].sum() + x[1::2, 1::2].sum() - x[::2, 1::2].sum() - x[1::2, ::2].sum()


@idiom("spectral-norm-step", SQUARE, Arg((1024,), P("y")), out=P("y"))
def _(a, v):
    u = a @ v
    w = a.T @ (u / jnp.linalg.norm(u))
    return w / jnp.linalg.norm(w)


@idiom("dropout", SQUARE)
def _(x):
    return jnp.where(jax.random.bernoulli(jax.random.key(0), 0.9, x.shape), x / 0.9, 0.0)


@idiom("lstm-step", Arg((64, 512), P("x")), Arg((64, 512), P("x")), Arg((64, 512), P("x")), Arg((1024, 2048), P(None, "y"), scale=0.02),
       out=(P("x"), P("x")))
def _(x, h, c, w):
    i, f, g, o = jnp.split(jnp.concatenate([x, h], 1) @ w, 4, 1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


@idiom("group-norm", IMAGES, out=P(None, "x", "y"))
def _(x):
    g = x.reshape(8, 64, 64, 4, 4)
    g = (g - g.mean((1, 2, 4), keepdims=True)) * lax.rsqrt(g.var((1, 2, 4), keepdims=True) + 1e-5)
    return g.reshape(x.shape)


@idiom("halo-of-sums", LONG, out=P(("x", "y")))
def _(x):
    return jnp.concatenate([x[:1], (x[:-2] + x[1:-1] + x[2:]) / 3, x[-1:]])
