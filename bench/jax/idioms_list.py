# SPDX-License-Identifier: Apache-2.0
"""The programs of idioms.py, with their arguments and how these are split."""
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P


class Program(NamedTuple):
    name: str
    function: Callable
    args: list
    specs: list


def conv(x, w, strides=(1, 1), groups=1):
    return lax.conv_general_dilated(x, w, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                    feature_group_count=groups)


def conv3d(x, w):
    return lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))


def midpoint_steps(y):
    return lax.fori_loop(0, 100, lambda _, y: y + 0.01 * jnp.sin(y + 0.005 * jnp.sin(y)), y)


def forces(p):
    d = p[None] - p[:, None]
    return (d / ((d**2).sum(-1, keepdims=True) + 0.1) ** 1.5).sum(1)


def sums_of_clusters(p, centers):
    nearest = jnp.argmin(((p[:, None] - centers[None]) ** 2).sum(-1), 1)
    return jax.ops.segment_sum(p, nearest, 16)


def life(g):
    n = sum(jnp.roll(g, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return jnp.where((n == 3) | ((g == 1) & (n == 2)), 1, 0)


def group_norm(x):
    y = x.reshape(16, 56, 56, 8, 8)
    mean, var = y.mean((1, 2, 4), keepdims=True), y.var((1, 2, 4), keepdims=True)
    return ((y - mean) / jnp.sqrt(var + 1e-5)).reshape(x.shape)


def rotate(x, c, s):
    a, b = x[..., :32], x[..., 32:]
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def rnn(x, w, u):
    def step(h, t):
        h = jnp.tanh(t @ w + h @ u)
        return h, h

    return lax.scan(step, jnp.zeros((x.shape[1], u.shape[0])), x)[1]


def lstm(x, w):
    def step(carry, t):
        h, s = carry
        i, g, o, f = jnp.split(jnp.concatenate([t, h], -1) @ w, 4, -1)
        s = jax.nn.sigmoid(f) * s + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(s)
        return (h, s), h

    return lax.scan(step, (jnp.zeros((x.shape[1], 128)),) * 2, x)[1]


def programs() -> Iterator[Program]:
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    def integers(below, *shape):
        return rng.integers(0, below, shape).astype(np.int32)

    matrix = normal(4096, 1024)
    yield Program("cumsum axis1", lambda x: jnp.cumsum(x, 1), [matrix], [P("x")])
    yield Program("cumsum axis0", lambda x: jnp.cumsum(x, 0), [matrix], [P(None, "x")])
    yield Program("cummax axis1", lambda x: lax.cummax(x, 1), [matrix], [P("x")])
    yield Program("cumlogsumexp axis1", lambda x: lax.cumlogsumexp(x, 1), [normal(1024, 512)], [P("x")])
    yield Program("cumprod axis1", lambda x: jnp.cumprod(x, 1), [matrix], [P("x")])
    yield Program("assoc_scan",
                  lambda x: lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x), axis=1)[1],
                  [normal(512, 1024)], [P("x")])
    yield Program("sort axis1", lambda x: jnp.sort(x, 1), [matrix], [P("x")])
    yield Program("sort axis0", lambda x: jnp.sort(x, 0), [matrix], [P(None, "x")])
    yield Program("argsort axis1", lambda x: jnp.argsort(x, 1), [normal(1024, 1024)], [P("x")])
    yield Program("top_k 8", lambda x: lax.top_k(x, 8), [matrix], [P("x")])
    yield Program("argmax axis1", lambda x: jnp.argmax(x, 1), [matrix], [P("x")])
    yield Program("argmax axis0", lambda x: jnp.argmax(x, 0), [matrix], [P(None, "x")])
    yield Program("sum axis0", lambda x: jnp.sum(x, 0), [matrix], [P(None, "x")])
    yield Program("sum axis1", lambda x: jnp.sum(x, 1), [matrix], [P("x")])
    yield Program("max axis0", lambda x: jnp.max(x, 0), [matrix], [P(None, "x")])
    yield Program("var axis0", lambda x: jnp.var(x, 0), [matrix], [P(None, "x")])
    yield Program("median", lambda x: jnp.median(x, 1), [normal(512, 1024)], [P("x")])
    yield Program("rfft", lambda x: jnp.fft.rfft(x), [matrix], [P("x")])
    yield Program("irfft",
                  lambda x: jnp.fft.irfft(x),
                  [(normal(2048, 513) + 1j * normal(2048, 513)).astype(np.complex64)], [P("x")])
    yield Program("fft 1000", lambda x: jnp.fft.fft(x), [normal(2048, 1000).astype(np.complex64)], [P("x")])
    yield Program("fft2", lambda x: jnp.fft.fft2(x), [normal(16, 256, 256).astype(np.complex64)], [P("x")])
    yield Program("batched mm 32", lambda a, b: a @ b, [normal(8192, 32, 32), normal(8192, 32, 32)], [P("x"), P("x")])
    yield Program("batched mm 8", lambda a, b: a @ b, [normal(65536, 8, 8), normal(65536, 8, 8)], [P("x"), P("x")])
    yield Program("batched mm 4x4 vec",
                  lambda a, b: jnp.einsum("bij,bj->bi", a, b),
                  [normal(262144, 4, 4), normal(262144, 4)], [P("x"), P("x")])
    yield Program("matvec", lambda a, b: a @ b, [normal(4096, 4096), normal(4096)], [P("x"), P()])
    yield Program("vecmat", lambda a, b: b @ a, [normal(4096, 4096), normal(4096)], [P(None, "x"), P()])
    yield Program("mm tall", lambda a, b: a @ b, [normal(65536, 64), normal(64, 64)], [P("x"), P()])
    yield Program("mm int32", lambda a, b: a @ b, [integers(9, 512, 512), integers(9, 512, 512)], [P("x"), P()])
    yield Program("mm bf16",
                  lambda a, b: a @ b,
                  [jnp.asarray(normal(1024, 1024), jnp.bfloat16) for _ in range(2)], [P("x"), P()])
    yield Program("outer", lambda a, b: jnp.outer(a, b), [normal(4096), normal(4096)], [P("x"), P()])
    yield Program("einsum 3d",
                  lambda a, b: jnp.einsum("bhqd,bhkd->bhqk", a, b),
                  [normal(8, 16, 256, 64), normal(8, 16, 256, 64)], [P("x"), P("x")])
    yield Program("attention",
                  lambda q, k, v: jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k)), v),
                  [normal(8, 8, 256, 64), normal(8, 8, 256, 64), normal(8, 8, 256, 64)], [P("x")] * 3)
    yield Program("transpose f32", lambda x: x.T + 0, [normal(2048, 2048)], [P("x")])
    yield Program("transpose 0213", lambda x: x.transpose(0, 2, 1, 3) + 0, [normal(16, 128, 32, 64)], [P("x")])
    yield Program("transpose bf16", lambda x: x.T * 1, [jnp.asarray(normal(2048, 2048), jnp.bfloat16)], [P("x")])
    yield Program("reverse", lambda x: x[:, ::-1] + 0, [matrix], [P("x")])
    yield Program("concat", lambda x, y: jnp.concatenate([x, y], 1), [matrix, matrix], [P("x"), P("x")])
    yield Program("stack", lambda x, y: jnp.stack([x, y], -1), [matrix, matrix], [P("x"), P("x")])
    yield Program("pad", lambda x: jnp.pad(x, ((0, 0), (1, 1))), [matrix], [P("x")])
    yield Program("tile", lambda x: jnp.tile(x, (1, 4)), [normal(1024, 1024)], [P("x")])
    yield Program("repeat", lambda x: jnp.repeat(x, 4, 1), [normal(1024, 1024)], [P("x")])
    yield Program("strided slice", lambda x: x[:, ::2] * 2, [matrix], [P("x")])
    yield Program("where", lambda x: jnp.where(x > 0, x, 0.1 * x), [matrix], [P("x")])
    yield Program("gather rows", lambda x, i: x[i], [normal(65536, 64), integers(65536, 65536)], [P(), P("x")])
    yield Program("gather elems", lambda x, i: x[i], [normal(1 << 20), integers(1 << 20, 1 << 20)], [P(), P("x")])
    yield Program("take_along",
                  lambda x, i: jnp.take_along_axis(x, i, 1),
                  [normal(2048, 512), integers(512, 2048, 512)], [P("x"), P("x")])
    yield Program("scatter-add rows",
                  lambda x, i, u: x.at[i].add(u),
                  [normal(8192, 64), integers(8192, 32768), normal(32768, 64)], [P(), P(), P()])
    yield Program("scatter-add elems",
                  lambda i, u: jnp.zeros(1 << 16).at[i].add(u),
                  [integers(1 << 16, 1 << 20), normal(1 << 20)], [P(), P()])
    yield Program("scatter set",
                  lambda x, i, u: x.at[i].set(u),
                  [normal(1 << 20), integers(1 << 20, 1 << 18), normal(1 << 18)], [P(), P(), P()])
    yield Program("segment_sum",
                  lambda u, i: jax.ops.segment_sum(u, i, 1024),
                  [normal(1 << 17, 16), integers(1024, 1 << 17)], [P(), P()])
    yield Program("bincount", lambda i: jnp.bincount(i, length=1024), [integers(1024, 1 << 20)], [P()])
    yield Program("histogram", lambda u: jnp.histogram(u, bins=64)[0], [normal(1 << 18)], [P()])
    yield Program("searchsorted",
                  lambda a, v: jnp.searchsorted(a, v),
                  [np.sort(normal(1 << 16)), normal(1 << 16)], [P(), P("x")])
    yield Program("unique size", lambda i: jnp.unique(i, size=1024), [integers(1024, 1 << 16)], [P()])
    yield Program("one_hot mm",
                  lambda i, w: jax.nn.one_hot(i, 1024) @ w,
                  [integers(1024, 4096), normal(1024, 256)], [P("x"), P()])
    yield Program("dyn slice",
                  lambda x, i: lax.dynamic_slice(x, (i, 0), (1024, 1024)),
                  [matrix, np.int32(77)], [P(None, "x"), P()])
    yield Program("dus",
                  lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)),
                  [matrix, normal(16, 1024), np.int32(77)], [P(None, "x"), P(None, "x"), P()])
    yield Program("exp", lambda x: jnp.exp(x), [matrix], [P("x")])
    yield Program("log1p", lambda x: jnp.log1p(x * x), [matrix], [P("x")])
    yield Program("sin", lambda x: jnp.sin(x), [matrix], [P("x")])
    yield Program("pow", lambda x: jnp.abs(x) ** 1.7, [matrix], [P("x")])
    yield Program("erf", lambda x: lax.erf(x), [matrix], [P("x")])
    yield Program("lgamma", lambda x: lax.lgamma(x), [normal(1024, 1024)], [P("x")])
    yield Program("digamma", lambda x: lax.digamma(x), [normal(1024, 1024)], [P("x")])
    yield Program("erfinv", lambda x: lax.erf_inv(x * 0.1), [normal(1024, 1024)], [P("x")])
    yield Program("atan2", lambda x: jnp.arctan2(x, x + 1), [matrix], [P("x")])
    yield Program("int div", lambda x: x // 7, [integers(1 << 20, 4096, 1024)], [P("x")])
    yield Program("int mod", lambda x: x % 13, [integers(1 << 20, 4096, 1024)], [P("x")])
    yield Program("float mod", lambda x: jnp.mod(x, 0.7), [matrix], [P("x")])
    yield Program("floor/round", lambda x: jnp.round(x) + jnp.floor(x), [matrix], [P("x")])
    yield Program("bf16 ew", lambda x: x * 2 + 1, [jnp.asarray(matrix, jnp.bfloat16)], [P("x")])
    yield Program("f16 ew tanh", lambda x: jnp.tanh(x), [jnp.asarray(matrix, jnp.float16)], [P("x")])
    yield Program("astype i32", lambda x: x.astype(jnp.int32), [matrix], [P("x")])
    yield Program("bits uniform",
                  lambda k: jax.random.uniform(jax.random.wrap_key_data(k), (4 << 20,)),
                  [np.array([1, 2], np.uint32)], [P()])
    yield Program("randint",
                  lambda k: jax.random.randint(jax.random.wrap_key_data(k), (1 << 20,), 0, 1000),
                  [np.array([1, 2], np.uint32)], [P()])
    yield Program("permutation",
                  lambda k: jax.random.permutation(jax.random.wrap_key_data(k), 1 << 17),
                  [np.array([1, 2], np.uint32)], [P()])
    yield Program("categorical",
                  lambda k, l: jax.random.categorical(jax.random.wrap_key_data(k), l),
                  [np.array([1, 2], np.uint32), normal(4096, 256)], [P(), P("x")])
    yield Program("gamma",
                  lambda k: jax.random.gamma(jax.random.wrap_key_data(k), 2.0, (1 << 16,)),
                  [np.array([1, 2], np.uint32)], [P()])
    yield Program("dropout",
                  lambda k, x: jnp.where(jax.random.bernoulli(jax.random.wrap_key_data(k), 0.9, x.shape), x / 0.9, 0),
                  [np.array([1, 2], np.uint32), matrix], [P(), P("x")])
    yield Program("maxpool",
                  lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
                  [normal(16, 128, 128, 32)], [P("x")])
    yield Program("maxpool grad",
                  jax.grad(lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID").sum()),
                  [normal(16, 64, 64, 32)], [P("x")])
    yield Program("avgpool 3x3",
                  lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"),
                  [normal(16, 64, 64, 32)], [P("x")])
    yield Program("conv 7x7 s2",
                  lambda x, w: conv(x, w, (2, 2)),
                  [normal(16, 112, 112, 3), normal(7, 7, 3, 64)], [P("x"), P()])
    yield Program("conv 1x1", lambda x, w: conv(x, w), [normal(16, 28, 28, 256), normal(1, 1, 256, 64)], [P("x"), P()])
    yield Program("depthwise",
                  lambda x, w: conv(x, w, groups=64),
                  [normal(16, 56, 56, 64), normal(3, 3, 1, 64)], [P("x"), P()])
    yield Program("conv1d",
                  lambda x, w: lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NHC", "HIO", "NHC")),
                  [normal(16, 1024, 64), normal(5, 64, 64)], [P("x"), P()])
    yield Program("conv grads",
                  lambda x, w: jax.grad(lambda x, w: (conv(x, w) ** 2).sum(), (0, 1))(x, w),
                  [normal(16, 28, 28, 64), normal(3, 3, 64, 64)], [P("x"), P()])
    yield Program("conv NCHW",
                  lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
                  [normal(16, 64, 28, 28), normal(64, 64, 3, 3)], [P("x"), P()])
    yield Program("conv3d", conv3d, [normal(8, 16, 32, 32, 8), normal(3, 3, 3, 8, 16)], [P("x"), P()])
    positive = (lambda a: a @ a.T + 512 * np.eye(512, dtype=np.float32))(normal(512, 512))
    yield Program("cholesky 512", jnp.linalg.cholesky, [positive], [P()])
    yield Program("cholesky batch", jnp.linalg.cholesky, [np.stack([positive[:32, :32]] * 1024)], [P("x")])
    yield Program("solve batch",
                  jnp.linalg.solve,
                  [np.stack([positive[:16, :16]] * 2048), normal(2048, 16, 1)], [P("x"), P("x")])
    yield Program("solve 512", jnp.linalg.solve, [positive, normal(512, 8)], [P(), P()])
    yield Program("inv 512", jnp.linalg.inv, [positive], [P()])
    yield Program("det batch", jnp.linalg.det, [np.stack([positive[:8, :8]] * 4096)], [P("x")])
    yield Program("qr 512", lambda a: jnp.linalg.qr(a), [normal(512, 512)], [P()])
    yield Program("svd 256", lambda a: jnp.linalg.svd(a), [normal(256, 256)], [P()])
    yield Program("eigh 256", lambda a: jnp.linalg.eigh(a + a.T), [normal(256, 256)], [P()])
    yield Program("trisolve",
                  lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
                  [np.tril(positive), normal(512, 512)], [P(), P()])
    yield Program("expm", lambda a: jax.scipy.linalg.expm(a * 0.01), [normal(128, 128)], [P()])
    yield Program("rnn scan 128",
                  rnn,
                  [normal(128, 64, 128), normal(128, 128) * 0.1, normal(128, 128) * 0.1], [P(None, "x"), P(), P()])
    yield Program("lstm grad",
                  jax.grad(lambda w, x: lstm(x, w).sum()),
                  [normal(256, 512) * 0.1, normal(64, 64, 128)], [P(), P(None, "x")])
    yield Program("fori 1000 small",
                  lambda x: lax.fori_loop(0, 1000, lambda i, v: jnp.sin(v) * 0.9 + 0.1, x),
                  [normal(64)], [P("x")])
    yield Program("while 1000 scalar",
                  lambda x: lax.while_loop(lambda c: c[0] < 1000, lambda c: (c[0] + 1, c[1] * 0.999 + 1), (0, x)),
                  [np.float32(1)], [P()])
    yield Program("ode rk4", midpoint_steps, [normal(1 << 16)], [P("x")])
    yield Program("nbody 1024", forces, [normal(1024, 3)], [P("x")])
    yield Program("pairwise dist",
                  lambda a, b: jnp.sqrt(((a[:, None] - b[None]) ** 2).sum(-1)),
                  [normal(1024, 16), normal(1024, 16)], [P("x"), P()])
    yield Program("kmeans step", sums_of_clusters, [normal(16384, 8), normal(16, 8)], [P("x"), P()])
    yield Program("game of life", life, [integers(2, 2048, 2048)], [P("x")])
    yield Program("jacobi conv",
                  lambda x: lax.conv_general_dilated(x[None, None], jnp.ones((1, 1, 3, 3)) / 9, (1, 1), "SAME")[0, 0],
                  [normal(2048, 2048)], [P("x")])
    yield Program("logsumexp ax0", lambda x: jax.nn.logsumexp(x, 0), [matrix], [P(None, "x")])
    yield Program("softmax ax0", lambda x: jax.nn.softmax(x, 0), [matrix], [P(None, "x")])
    yield Program("batchnorm",
                  lambda x: (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-05),
                  [normal(16, 56, 56, 64)], [P("x")])
    yield Program("groupnorm", group_norm, [normal(16, 56, 56, 64)], [P("x")])
    yield Program("rope", rotate, [normal(8, 256, 8, 64), normal(256, 1, 32), normal(256, 1, 32)], [P("x"), P(), P()])
    yield Program("cross entropy grad",
                  jax.grad(lambda l, t: -jnp.take_along_axis(jax.nn.log_softmax(l), t[:, None], 1).mean()),
                  [normal(4096, 1024), integers(1024, 4096)], [P("x"), P("x")])
    yield Program("embedding grad",
                  jax.grad(lambda e, i: (e[i] ** 2).sum()),
                  [normal(8192, 128), integers(8192, 8192)], [P(), P("x")])
    yield Program("vmap jac",
                  jax.vmap(jax.jacfwd(lambda v: jnp.tanh(v @ v.reshape(-1, 1)) * v)),
                  [normal(2048, 16)], [P("x")])
    yield Program("hessian", jax.hessian(lambda v: (jnp.sin(v) ** 2).sum() * v.sum()), [normal(128)], [P()])
