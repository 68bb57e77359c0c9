# SPDX-License-Identifier: Apache-2.0
"""Small programs over several functions. tests/oracle states each one again in C++."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


# --- factorizations, reported in forms that no choice of sign changes --------------------------------------
def _t(a):
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def svd_forms(a):
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    return s, (u * s[..., None, :].astype(u.dtype)) @ vh, _t(u) @ u, vh @ _t(vh)


def svd_full_forms(a):
    u, s, vh = jnp.linalg.svd(a, full_matrices=True)
    return s, _t(u) @ u, _t(vh) @ vh


def eigh_forms(a):
    w, v = jnp.linalg.eigh(a)
    return w, (v * w[..., None, :].astype(v.dtype)) @ _t(v), _t(v) @ v


def eigh_power(a):
    w, v = jnp.linalg.eigh((a + _t(a)) / 2)
    return (v * jnp.sin(w)[..., None, :]) @ _t(v)


def qr_forms(a):
    q, r = jnp.linalg.qr(a)
    return q @ r, _t(q) @ q, jnp.abs(r)


def qr_projector(a):
    q, r = jnp.linalg.qr(a)
    return q @ _t(q), jnp.abs(jnp.diagonal(r, axis1=-2, axis2=-1))


def lu_forms(a):
    lu, pivots, perm = lax.linalg.lu(a)
    return lu, pivots, perm


# --- control flow --------------------------------------------------------------------------------------------
def cond_branch(flag, x):
    return lax.cond(flag, lambda v: jnp.sin(v) * 2, lambda v: v * v, x)


def cond_closure(flag, x, y):
    return lax.cond(flag, lambda: x * y, lambda: x - y)


def switch_branch(i, x):
    return lax.switch(i, [lambda v: v + 1, lambda v: v * 3, lambda v: jnp.exp(v)], x)


def while_double(x, limit):
    return lax.while_loop(lambda c: jnp.sum(c[0]) < limit, lambda c: (c[0] * 2, c[1] + 1), (x, 0))


def while_jvp(x):
    return lax.while_loop(lambda c: c[1] < 4, lambda c: (jnp.sin(c[0]) + c[0], c[1] + 1), (x, 0))[0]


def collatz(n):
    step = lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1)
    return lax.while_loop(lambda c: c[0] != 1, step, (n, 0))[1]


def fori_power(x):
    return lax.fori_loop(0, 5, lambda i, v: v * 1.1 + jnp.sin(v) * i, x)


def fori_dynamic(n, x):
    return lax.fori_loop(0, n, lambda i, v: v + x[i] * v, jnp.ones((), x.dtype))


def scan_cumulative(x):
    return lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(x.shape[1:], x.dtype), x)


def scan_reverse(x):
    return lax.scan(lambda c, v: (c * 0.5 + v, c - v), jnp.ones(x.shape[1:], x.dtype), x, reverse=True)


def scan_rnn(w, h, x):
    def step(h, v):
        h = jnp.tanh(h @ w + v)
        return h, jnp.sum(h)
    return lax.scan(step, h, x)


def scan_length(x):
    return lax.scan(lambda c, _: (c * c - 0.5, c), x, None, length=6)


def scan_two(a, b):
    def step(c, v):
        x, y = v
        return (c[0] + x * y, c[1] * 0.9 + y), c[0] * c[1]
    return lax.scan(step, (jnp.zeros((), a.dtype), jnp.ones((), a.dtype)), (a, b))


def scan_nested(x):
    def outer(c, row):
        inner, _ = lax.scan(lambda d, v: (jnp.sin(d) + v, d), c, row)
        return inner, inner * c
    return lax.scan(outer, jnp.zeros((), x.dtype), x)


def scan_cond(x):
    step = lambda c, v: (lax.cond(v > 0, lambda: c + v, lambda: c * 0.5), c)
    return lax.scan(step, jnp.ones((), x.dtype), x)


def map_rows(x):
    return lax.map(lambda r: jnp.sum(r * r) + r[0], x)


def associative_sum(x):
    return lax.associative_scan(jnp.add, x)


def associative_product_reverse(x):
    return lax.associative_scan(jnp.multiply, x, reverse=True)


def associative_max_axis1(x):
    return lax.associative_scan(jnp.maximum, x, axis=1)


def associative_affine(a, b):
    return lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b))


def associative_matmul(x):
    return lax.associative_scan(lambda p, q: jnp.matmul(p, q), x)


def custom_stop(x):
    return x * lax.stop_gradient(jnp.sin(x))


def checkpoint_block(x):
    return jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)) * v)(x)


def vmap_scan(x):
    return jax.vmap(lambda r: lax.scan(lambda c, v: (c + v * v, c), jnp.zeros((), x.dtype), r))(x)


def vmap_cond(flags, x):
    return jax.vmap(lambda p, v: lax.cond(p, jnp.sin, jnp.cos, v))(flags, x)


def vmap_while(n):
    return jax.vmap(collatz)(n)


def jacobian_rev(x):
    return jax.jacrev(lambda v: jnp.sin(v) * jnp.sum(v))(x)


def jacobian_fwd(x):
    return jax.jacfwd(lambda v: jnp.sin(v) * jnp.sum(v))(x)


def hessian(x):
    return jax.hessian(lambda v: jnp.sum(v**3) + jnp.prod(v))(x)


# --- layers and optimizers, by their formulas ---------------------------------------------------------------
def layer_norm(x, gain, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    var = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * gain + bias


def attention(q, k, v):
    w = q @ jnp.swapaxes(k, -1, -2) / jnp.sqrt(jnp.float32(q.shape[-1]))
    mask = jnp.tril(jnp.ones((q.shape[-2], k.shape[-2]), bool))
    return jax.nn.softmax(jnp.where(mask, w, -1e9), axis=-1) @ v


def cross_entropy(logits, labels):
    logp = jax.nn.log_softmax(logits, axis=-1)
    return -jnp.take_along_axis(logp, labels[..., None], axis=-1).mean()


def mlp(w1, b1, w2, x):
    return jnp.sum(jnp.tanh(x @ w1 + b1) @ w2)


def sgd_momentum(p, m, g):
    m = 0.9 * m + g
    return p - 0.1 * m, m


def adam(p, m, v, t, g):
    t = t + 1
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v, t


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def max_pool_overlap(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def avg_pool(x):
    total = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")
    return total / lax.reduce_window(jnp.ones_like(x), 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


# --- random numbers: keys that travel through programs --------------------------------------------------------
def split_chain(key):
    a, b = jax.random.split(key)
    c = jax.random.fold_in(b, 7)
    return jax.random.bits(a, (3,)), jax.random.bits(c, (3,)), jax.random.split(c, 3)


def vmap_uniform(key):
    return jax.vmap(lambda k: jax.random.uniform(k, (3,)))(jax.random.split(key, 4))


def scan_normal(key):
    def step(k, _):
        k, sub = jax.random.split(k)
        return k, jax.random.normal(sub, (2,))
    return lax.scan(step, key, None, length=3)


def block(a, b, c, d):
    return jnp.block([[a, b], [c, d]])


def cov_weights(x, fweights, aweights, ddof):
    return jnp.cov(x, fweights=fweights, aweights=aweights, ddof=ddof)


def histogram_edges(x, edges, density):
    return jnp.histogram(x, edges, density=density)


def histogram_weights(x, weights, bins, density):
    return jnp.histogram(x, bins, weights=weights, density=density)


def diff_ends(x, prepend, append):
    return jnp.diff(x, prepend=prepend, append=append)


def select(c1, c2, x, y, otherwise):
    return jnp.select([c1, c2], [x, y], otherwise)


def choose(which, *choices, mode):
    return jnp.choose(which, choices, mode=mode)


def lexsort(*keys):
    return jnp.lexsort(keys)


def partition_forms(x, kth):
    y = jnp.partition(x, kth)
    return jnp.sort(y[:kth]), y[kth]


def ravel_multi_index(*indices, dims, mode):
    return jnp.ravel_multi_index(indices, dims, mode)


def ix(*vectors):
    return jnp.ix_(*vectors)


def multi_dot(*arrays):
    return jnp.linalg.multi_dot(arrays)


def cho_solve(a, b):
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b)


def lu_solve(a, b):
    return jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b)


def reduce_pairs(x):
    def better(a, b):
        wins = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
        return jnp.where(wins, b[0], a[0]), jnp.where(wins, b[1], a[1])
    return lax.reduce((x, lax.broadcasted_iota(jnp.int32, x.shape, 1)), (jnp.float32(-1e30), jnp.int32(0)), better, (1,))


def reduce_window_product(x):
    return lax.reduce_window(x, np.float32(1), lambda a, b: a * b, (2, 2), (1, 1), "VALID")


# --- options of reductions, segments, schedules ------------------------------------------------------------
def reduce_where(x, mask, name, axis=None, keepdims=False, initial=None):
    options = {} if initial is None else {"initial": initial}
    return getattr(jnp, name)(x, axis=axis, keepdims=keepdims, where=mask, **options)


def logsumexp_where(x, mask, axis=None, keepdims=False):
    return jax.nn.logsumexp(x, axis=axis, keepdims=keepdims, where=mask)


def logsumexp_b(x, b, axis=None, keepdims=False):
    return jax.nn.logsumexp(x, axis=axis, b=b, keepdims=keepdims)


def logsumexp_sign(x, b, mask, axis=None, keepdims=False):
    return jax.nn.logsumexp(x, axis=axis, b=b, keepdims=keepdims, where=mask, return_sign=True)


def segment(x, ids, name, num_segments, bucket_size=None):
    return getattr(jax.ops, "segment_" + name)(x, ids, num_segments, bucket_size=bucket_size)


def schedule(steps, name, values):
    """The formulas of optax, over a vector of steps, as float32."""
    i = steps.astype(jnp.float32)
    if name == "constant":
        y = jnp.full_like(i, values[0])
    elif name in ("linear", "polynomial"):
        first, last, *rest = values
        power, (count, begin) = (1.0, rest) if name == "linear" else (rest[0], rest[1:])
        y = (first - last) * (1 - jnp.clip(i - begin, 0, count) / count) ** power + last
    elif name == "piecewise":
        y = jnp.full_like(i, values[0])
        for boundary, scale in zip(values[1::2], values[2::2]):
            below = jnp.maximum(0.0, jnp.sign(boundary - i))
            y = y * below + (1 - below) * scale * y
    elif name in ("exponential", "staircase"):
        first, count, rate, begin, *last = values
        p = (i - begin) / count
        p = jnp.floor(p) if name == "staircase" else p
        y = jnp.where(i - begin <= 0, first, first * rate**p)
        y = jnp.maximum(y, last[0]) if last else y
    elif name == "cosine":
        first, count, alpha, exponent = values
        y = first * ((1 - alpha) * (0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(i, count) / count))) ** exponent + alpha)
    else:
        first, peak, warmup, count, last = values
        alpha, rest = last / peak, count - warmup
        decay = peak * ((1 - alpha) * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(i - warmup, rest) / rest)) + alpha)
        y = jnp.where(i < warmup, (first - peak) * (1 - jnp.clip(i, 0, warmup) / warmup) + peak, decay)
    return y.astype(jnp.float32)
