# SPDX-License-Identifier: Apache-2.0
"""Programs as people write them with NumPy: several reductions, broadcasts and masks in one function."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand


def masked(r):
    for name, shape, axis in (("rows", (7, 11), 1), ("columns", (7, 11), 0), ("cube", (3, 5, 7), (0, 2)), ("all", (5, 9), None)):
        m, x = rand(shape, "bool"), rand(shape)
        for ddof in (0, 1):
            for keep in (False, True):
                for f in ("std", "var"):
                    r.case(f"{f}_{name}_ddof{ddof}_{'kept' if keep else 'dropped'}",
                           lambda x, m: getattr(jnp, f)(x, axis, where=m, ddof=ddof, keepdims=keep), x, m, tol=1e-4, kept=(f == "std") == (ddof == 0))
        r.case(f"mean_where_{name}", lambda x, m: jnp.mean(x, axis, where=m), x, m, tol=1e-4)
        r.case(f"extremes_where_{name}", lambda x, m: (jnp.max(x, axis, where=m, initial=-9.0), jnp.min(x, axis, where=m, initial=9.0), jnp.any(x > 1, axis, where=m), jnp.prod(x, axis, where=m)), x, m, tol=1e-3)
        r.case(f"nan_{name}", lambda x, m: [getattr(jnp, f)(jnp.where(m, x, jnp.nan), axis) for f in ("nanmean", "nanstd", "nanvar", "nansum", "nanmax", "nanmin", "nanprod")], x, m, tol=1e-3)
        r.case(f"logsumexp_where_{name}", lambda x, m: (jax.nn.logsumexp(x, axis, where=m), jax.nn.softmax(x, axis if axis is not None else (0, 1), where=m)), x, m, tol=1e-4)
    x, m = rand((6, 11), "float64"), rand((6, 11), "bool")
    r.case("std_where_f64", lambda x, m: (jnp.std(x, 1, where=m), jnp.var(x, 0, where=m, ddof=1, keepdims=True)), x, m, x64=True)
    h = x.astype(jnp.bfloat16)
    r.case("std_where_bf16", lambda x, m: (jnp.std(x, 1, where=m), jnp.mean(x, 0, where=m)), h, m, tol=5e-2)
    r.case("masked_fill_mean", lambda x, m: jnp.where(m, x, (jnp.sum(x * m, 1, keepdims=True) / jnp.sum(m, 1, keepdims=True))), rand((6, 11)), m, tol=1e-4)
    r.case("grad_std_where", jax.grad(lambda x, m: jnp.sum(jnp.std(x, 1, where=m) ** 2 + jnp.mean(x, 1, where=m))), rand((6, 11)), m, tol=1e-3)


def normalised(r):
    for dtype, x64, tol in (("float32", False, 1e-4), ("float64", True, 1e-9), ("bfloat16", False, 6e-2)):
        x = rand((9, 14), dtype)
        n = {"float32": "f32", "float64": "f64", "bfloat16": "bf16"}[dtype]
        c = lambda name, f, *a: r.case(f"{name}_{n}", f, *a, tol=tol, x64=x64)
        c("zscore", lambda x: (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1e-3), x)
        c("zscore_expanded", lambda x: (x - x.mean(1)[:, None]) / (x.std(1)[:, None] + 1e-3), x)
        c("minmax", lambda x: (x - x.min(0)) / (x.max(0) - x.min(0)), x)
        c("unit_rows", lambda x: x / jnp.linalg.norm(x, axis=1, keepdims=True), x)
        c("both_ways", lambda x: x / x.sum(1, keepdims=True).clip(1) - x.mean(0) * x.std(1)[:, None], x)
        c("softmax_entropy", lambda x: -(jax.nn.softmax(x) * jax.nn.log_softmax(x)).sum(1), x)
        c("kept_and_dropped", lambda x: (jnp.exp(x).sum(1) - (x - (x.sum(1, keepdims=True) / jnp.exp(x).sum(1, keepdims=True))).sum(1)) / (jnp.exp(x).sum(1) - jnp.zeros(9, x.dtype)), x)
        c("cosine", lambda x: (lambda u: u @ u.T)(x / jnp.sqrt((x * x).sum(1))[:, None]), x)
        c("distances", lambda x: jnp.sqrt(jnp.maximum(((x[:, None] - x[None]) ** 2).sum(-1), 1e-3)), x)
        c("kernel_rows", lambda x: (lambda k: k / k.sum(1, keepdims=True))(jnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1) / 14)), x)
        c("moments", lambda x: (lambda d: (d ** 3).mean(1) / ((d ** 2).mean(1) ** 1.5))(x - x.mean(1, keepdims=True)), x)
        c("weighted", lambda x: jnp.average(x, axis=1, weights=jnp.abs(x) + 0.5), x)
        c("sinkhorn", lambda x: lax.fori_loop(0, 4, lambda _, k: (lambda a: a / a.sum(0))(k / k.sum(1, keepdims=True)), jnp.exp(x)), x)
        c("running", lambda x: (jnp.cumsum(x, 1) / jnp.arange(1, 15, dtype=x.dtype), jnp.cumsum(x, 0)[-1] - x.sum(0)), x)
        c("gradient", jax.grad(lambda x: jnp.sum(jnp.log(jnp.exp(x - x.max(1, keepdims=True)).sum(1)) * x.mean(1))), x)
    x = rand((40, 3))
    r.case("cov_corr", lambda x: (jnp.cov(x.T), jnp.corrcoef(x.T), jnp.cov(x.T, bias=True)), x, tol=1e-4)
    r.case("whiten", lambda x: (lambda d: jnp.abs(jnp.linalg.solve(jnp.linalg.cholesky(d.T @ d / 40), d.T)))(x - x.mean(0)), x, tol=1e-3)
    r.case("regression", lambda x: jnp.linalg.lstsq(jnp.stack([jnp.ones(40), x[:, 0]], 1), x[:, 1])[0], x, tol=1e-3)
    r.case("ridge", lambda x: jnp.linalg.solve(x.T @ x + 0.1 * jnp.eye(3), x.T @ x.sum(1)), x, tol=1e-3)


def orders(r):
    x, i = rand((7, 12)), rand((50,), "int32")
    for m in ("linear", "lower", "higher", "nearest", "midpoint"):
        r.case(f"quantile_{m}", lambda x: (jnp.quantile(x, jnp.array([.1, .5, .77]), axis=1, method=m), jnp.percentile(x, 30, method=m)), x)
    r.case("quantile_f64", lambda x: (jnp.quantile(x, 0.3, axis=0, keepdims=True), jnp.nanquantile(x, jnp.array([.2, .9]))), x.astype("float64"), x64=True)
    r.case("medians", lambda x: (jnp.median(x, 0), jnp.median(x, 1, keepdims=True), jnp.nanmedian(jnp.where(x > 0, x, jnp.nan), 1), jnp.median(jnp.abs(x - jnp.median(x)))), x)
    r.case("histograms", lambda x: (jnp.histogram(x, 6), jnp.histogram(x, jnp.array([-2., -1., 0., 1.5])), jnp.histogram(x, 5, (-1, 1), density=True)), x)
    r.case("counts", lambda i: (jnp.bincount(i + 7, length=16), jnp.bincount(i + 7, weights=i * 0.5, length=16), jnp.digitize(i, jnp.array([-3, 0, 4]))), i)
    r.case("unique_counts", lambda i: jnp.unique(i, size=16, return_counts=True, return_inverse=True, fill_value=99), i)
    r.case("ranks", lambda x: (jnp.argsort(jnp.argsort(x, 1), 1), jnp.sort(x, 1)[:, ::-1], jnp.lexsort((x[0], jnp.round(x[1])))), x)
    r.case("sorted_pairs", lambda x: lax.sort((jnp.round(x), x, jnp.arange(84).reshape(7, 12)), num_keys=2), x)
    r.case("top", lambda x: (lax.top_k(x, 3), jnp.take_along_axis(x, jnp.argsort(x, 1)[:, -4:], 1).mean(1)), x)
    r.case("searches", lambda x: (jnp.searchsorted(jnp.sort(x[0]), x), jnp.interp(x[1], jnp.sort(x[0]), jnp.sort(x[2]))), x, tol=1e-3)
    r.case("winsorised", lambda x: jnp.clip(x, jnp.quantile(x, .1, axis=1, keepdims=True), jnp.quantile(x, .9, axis=1, keepdims=True)).mean(1), x)
    r.case("partitions", lambda x: (jnp.sort(jnp.partition(x, 4, 1)[:, :4], 1), jnp.partition(x, 4, 1)[:, 4]), x)
    r.case("compress", lambda x: (jnp.nonzero(x > 0, size=40, fill_value=-1), jnp.extract(x > 0, x, size=40), jnp.argwhere(x > 1.5, size=9)), x)
    seg = np.abs(rand((20,), "int32")) % 5
    for f in ("sum", "max", "min", "prod"):
        r.case(f"segment_{f}", lambda x, s: getattr(jax.ops, f"segment_{f}")(x, s, 6), rand((20, 3)), seg, tol=1e-4)
    r.case("segment_softmax", lambda x, s: (lambda e: e / jax.ops.segment_sum(e, s, 5)[s])(jnp.exp(x - jax.ops.segment_max(x, s, 5)[s])), rand((20, 3)), seg, tol=1e-4)
    r.case("segment_std", lambda x, s: (lambda n, m: jnp.sqrt(jax.ops.segment_sum((x - m[s]) ** 2, s, 5) / jnp.maximum(n, 1)[:, None]))(jax.ops.segment_sum(jnp.ones(20), s, 5), jax.ops.segment_sum(x, s, 5) / jnp.maximum(jax.ops.segment_sum(jnp.ones(20), s, 5), 1)[:, None]), rand((20, 3)), seg, tol=1e-4)


def signals(r):
    x, k = rand((64,)), rand((9,))
    r.case("fft_convolution", lambda x, k: jnp.fft.irfft(jnp.fft.rfft(x, 72) * jnp.fft.rfft(k, 72), 72), x, k, tol=1e-4)
    r.case("fft_convolution_2d", lambda x, k: jnp.fft.irfft2(jnp.fft.rfft2(x, (12, 12)) * jnp.fft.rfft2(k, (12, 12)), (12, 12)), rand((9, 9)), rand((3, 3)), tol=1e-4)
    r.case("convolve", lambda x, k: [jnp.convolve(x, k, m) for m in ("full", "same", "valid")] + [jnp.correlate(x, k, m) for m in ("full", "same")], x, k, tol=1e-4)
    r.case("autocorrelation", lambda x: (lambda s: jnp.fft.irfft(s * jnp.conj(s))[:20])(jnp.fft.rfft(x - x.mean(), 128)), x, tol=2e-3)
    r.case("power", lambda x: 10 * jnp.log10(jnp.abs(jnp.fft.fft(x * jnp.hanning(64))) ** 2 + 1e-2), x, tol=1e-3)
    r.case("frames", lambda x: jnp.abs(jnp.fft.rfft(x[jnp.arange(7)[:, None] * 8 + jnp.arange(16)] * jnp.hamming(16), axis=1)).mean(0), x, tol=1e-4)
    r.case("moving", lambda x: (jnp.convolve(x, jnp.ones(5) / 5, "valid"), lax.reduce_window(x, -jnp.inf, lax.max, (5,), (1,), "VALID"), (jnp.cumsum(x)[5:] - jnp.cumsum(x)[:-5]) / 5), x, tol=1e-4)
    r.case("differences", lambda x: (jnp.diff(x, 2), jnp.gradient(x), jnp.trapezoid(x, dx=.1), jnp.unwrap(x * 3), jnp.ediff1d(x)), x, tol=1e-4)
    r.case("pads", lambda x: [jnp.pad(x, 3, m) for m in ("edge", "reflect", "symmetric", "wrap", "mean", "maximum", "linear_ramp", "constant")], rand((5, 6)), tol=1e-4)
    r.case("image", lambda x: (jax.image.resize(x, (9, 5), "linear"), jax.image.resize(x, (4, 12), "nearest"), lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID")), rand((6, 8)), tol=1e-4)
    r.case("stencil", lambda x: lax.fori_loop(0, 5, lambda _, u: u + .1 * (jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u), x), rand((8, 8)), tol=1e-4)
    r.case("life", lambda x: lax.fori_loop(0, 3, lambda _, g: (lambda n: ((n == 3) | (g & (n == 2))))(sum(jnp.roll(g, (a, b), (0, 1)).astype(int) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))), x), rand((9, 9), "bool"))
    r.case("mandelbrot", lambda c: lax.fori_loop(0, 12, lambda _, s: (lambda z: (jnp.where(jnp.abs(z) > 2, 2 + 0j, z * z + c), s[1] + (jnp.abs(z) <= 2)))(s[0]), (jnp.zeros_like(c), jnp.zeros(c.shape, int)))[1], (np.linspace(-2, .6, 9)[None] + 1j * np.linspace(-1.1, 1.3, 8)[:, None]).astype("complex64"))
    for n, (spec, *shapes) in enumerate((("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 3)), ("ii->i", (5, 5)), ("ij->", (3, 4)), ("i,j,k->ijk", (2,), (3,), (4,)), ("ijk,kl,lj->i", (3, 4, 5), (5, 2), (2, 4)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)), ("...ij,...kj->...ik", (2, 3, 4), (2, 5, 4)), ("ij,ij,ij->j", (4, 3), (4, 3), (4, 3)), ("iji->j", (3, 4, 3)))):
        r.case(f"einsum_{n}", lambda *a: jnp.einsum(spec, *a), *(rand(s, seed=i) for i, s in enumerate(shapes)), tol=1e-4)
        r.case(f"einsum_bf16_{n}", lambda *a: jnp.einsum(spec, *a, preferred_element_type=jnp.float32), *(rand(s, "bfloat16", seed=i) for i, s in enumerate(shapes)), tol=2e-2, kept=n % 3 == 1)


def loops(r):
    x, a = rand((6,)), rand((6, 6)) + 6 * np.eye(6, dtype=np.float32)
    r.case("power_iteration", lambda a: lax.while_loop(lambda s: (s[0] < 40) & (s[2] > 1e-6), lambda s: (lambda w: (s[0] + 1, w, jnp.abs(w - s[1]).max()))((lambda v: v / jnp.linalg.norm(v))(a @ s[1])), (0, jnp.ones(6) / 6 ** .5, 1.0))[1:2], a @ a.T, tol=1e-3)
    r.case("newton", lambda x: lax.while_loop(lambda s: jnp.any(jnp.abs(s[1]) > 1e-5) & (s[2] < 30), lambda s: (lambda d: (s[0] - d, d, s[2] + 1))((s[0] ** 3 - x) / (3 * s[0] ** 2)), (jnp.ones(6), jnp.ones(6), 0))[0], np.abs(x) + 1, tol=1e-4)
    r.case("conjugate_gradient", lambda a, b: jax.scipy.sparse.linalg.cg(a, b, maxiter=12)[0], a @ a.T, x, tol=1e-3)
    r.case("collatz", lambda n: jax.vmap(lambda n: lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))[1])(n), np.arange(1, 20, dtype=np.int32))
    r.case("gcd_loop", lambda a, b: lax.while_loop(lambda s: s[1] != 0, lambda s: (s[1], s[0] % s[1]), (a, b))[0], np.int32(462), np.int32(1071))
    r.case("kmeans", lambda x, c: lax.fori_loop(0, 5, lambda _, c: (lambda o: (o.T @ x) / jnp.maximum(o.sum(0), 1)[:, None])(jax.nn.one_hot(jnp.argmin(((x[:, None] - c) ** 2).sum(-1), 1), 3)), c), rand((30, 2)), rand((3, 2)), tol=1e-3)
    r.case("pagerank", lambda m: lax.scan(lambda p, _: (.85 * (m / jnp.maximum(m.sum(0), 1)) @ p + .15 / 8, p.sum()), jnp.ones(8) / 8, None, length=20), rand((8, 8), "bool").astype("float32"), tol=1e-4)
    r.case("kalman", lambda z: lax.scan(lambda s, z: (lambda m, p: (lambda k: ((m + k * (z - m), (1 - k) * p), (m, p)))(p / (p + .5)))(s[0], s[1] + .1), (0.0, 1.0), z), rand((12,)), tol=1e-4)
    r.case("viterbi", lambda t, e: lax.scan(lambda s, e: (lambda m: (m.max(0) + e, m.argmax(0)))(s[:, None] + t), jnp.zeros(4), e), rand((4, 4)), rand((9, 4)), tol=1e-4)
    r.case("hmm", lambda t, e: lax.scan(lambda s, e: (lambda v: (v, jax.nn.logsumexp(v)))(jax.nn.logsumexp(s[:, None] + jax.nn.log_softmax(t), axis=0) + e), jnp.zeros(4), e, reverse=True), rand((4, 4)), rand((9, 4)), tol=1e-3)
    r.case("linear_recurrence", lambda a, b: lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (a, b), axis=1), rand((3, 13)), rand((3, 13), seed=1), tol=1e-3)
    r.case("dynamic_rows", lambda x: lax.fori_loop(0, 4, lambda i, x: lax.dynamic_update_slice(x, (lax.dynamic_slice(x, (i, 0), (1, 5)) - x.mean(0)) * 2, (i + 1, 0)), x), rand((5, 5)), tol=1e-3)
    r.case("switches", lambda i, x: jax.vmap(lambda i, x: lax.switch(i, [jnp.sum, jnp.max, lambda x: x.mean() * 2, lambda x: jnp.std(x)], x))(i, x), np.array([3, 0, 2, 1, 9, -1], np.int32), rand((6, 5)), tol=1e-4)
    r.case("rk4", lambda y: lax.scan(lambda y, _: (lambda f: (lambda k1: (lambda k2: (lambda k3: (lambda k4: (y + .05 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y))(f(y + .05 * k3)))(f(y + .025 * k2)))(f(y + .025 * k1)))(f(y)))(lambda y: jnp.stack([y[1], -jnp.sin(y[0])])), y, None, length=15), np.array([1., .2], np.float32), tol=1e-4)
    r.case("hessian", jax.hessian(lambda x: jnp.sum(jnp.exp(x) * x[::-1]) + jnp.std(x)), x, tol=1e-3)
    r.case("jacobians", lambda x: (jax.jacfwd(lambda x: x / x.sum())(x), jax.jacrev(lambda x: jax.nn.softmax(x))(x)), np.abs(x) + 1, tol=1e-4)
    r.case("scan_f64", lambda x: lax.scan(lambda c, a: (c * .9 + a, (c - a) / (1 + jnp.abs(c).sum())), jnp.zeros(4), x), rand((7, 4), "float64"), x64=True)


def samples(r):
    k = jax.random.key(3)
    for name, f in {
            "uniform": lambda k: jax.random.uniform(k, (40,), minval=-1, maxval=3), "normal": lambda k: jax.random.normal(k, (5, 8)),
            "categorical": lambda k: jax.random.categorical(k, jnp.arange(12.).reshape(3, 4) / 4, shape=(6, 3)), "permutation": lambda k: jax.random.permutation(k, 20),
            "choice": lambda k: jax.random.choice(k, 9, (12,), p=jnp.arange(9.) / 36), "subset": lambda k: jax.random.choice(k, 9, (5,), replace=False),
            "dirichlet": lambda k: jax.random.dirichlet(k, jnp.array([1., 2., 3.]), (4,)), "multivariate": lambda k: jax.random.multivariate_normal(k, jnp.zeros(3), jnp.eye(3) * 2 + .3, (5,)),
            "split_sum": lambda k: jax.vmap(lambda k: jax.random.normal(k, (7,)).std())(jax.random.split(k, 6)), "bootstrap": lambda k: (lambda x: x[jax.random.randint(k, (8, 20), 0, 20)].mean(1))(jnp.linspace(0., 1., 20)),
            "dropout": lambda k: jnp.where(jax.random.bernoulli(k, .7, (6, 9)), jnp.ones((6, 9)) / .7, 0).mean(1), "gumbel_max": lambda k: jnp.argmax(jax.random.gumbel(k, (9, 5)) + jnp.arange(5.), 1),
            "metropolis": lambda k: lax.scan(lambda s, k: (lambda p, u: (lambda n: (n, n))(jnp.where(jnp.log(u) < (s ** 2 - p ** 2) / 2, p, s)))(s + jax.random.normal(jax.random.fold_in(k, 0)), jax.random.uniform(jax.random.fold_in(k, 1))), 0.0, jax.random.split(k, 15))[1],
            "pi": lambda k: (jax.random.uniform(k, (500, 2)) ** 2).sum(1).__lt__(1).mean() * 4, "bf16": lambda k: jax.random.normal(k, (20,), jnp.bfloat16)}.items():
        r.case(f"sample_{name}", f, k, tol=2e-2 if name == "bf16" else 1e-4)
    r.case("sample_f64", lambda k: (jax.random.normal(k, (9,), "float64"), jax.random.gamma(k, 2.5, (5,), "float64")), k, x64=True, tol=1e-6)


def cases(r):
    for part in (masked, normalised, orders, signals, loops, samples):
        part(r)
