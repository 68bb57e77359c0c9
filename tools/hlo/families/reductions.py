# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand


def cases(r):
    x = rand((4, 5, 6))
    for n in ("sum", "prod", "max", "min", "mean", "var", "std", "argmax", "argmin", "any", "all", "ptp", "median"):
        f = getattr(jnp, n)
        r.case(n, lambda x: (f(x), f(x, 1), f(x, -1, keepdims=True)) + (() if "arg" in n else (f(x, (0, 2)),)), x)
    for d in ("int32", "int8", "uint16", "bool", "float16", "bfloat16", "complex64"):
        names = ("sum", "prod", "max", "min", "any", "all", "mean") if d != "complex64" else ("sum", "prod", "mean", "max")
        y = rand((4, 5), d)
        r.case(f"dtypes_{d}", lambda x: [getattr(jnp, n)(x, 1) for n in names], y)
        if d != "complex64":
            r.case(f"arg_{d}", lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 1)), y)
    r.case("bitwise", lambda x: (lax.reduce_and(x, (0,)), lax.reduce_or(x, (1,)), lax.reduce_xor(x, (0, 1))), rand((4, 5), "int32"))
    r.case("nan", lambda x: (jnp.nansum(x), jnp.nanmax(x, 0), jnp.nanmin(x, 0), jnp.nanmean(x, 1), jnp.nanstd(x), jnp.nanargmax(x, 1),
           jnp.max(x), jnp.argmax(x, 0), jnp.argmin(x)), np.where(rand((4, 5)) > 1, np.nan, rand((4, 5))).astype(np.float32))
    r.case("reduce_init", lambda x: (lax.reduce(x, 3.0, lax.add, (0,)), lax.reduce(x, -0.5, lax.max, (1, 2)), lax.reduce(x, 2.0, lax.mul, ())), x)
    r.case("reduce_custom", lambda x: lax.reduce(x, 0.0, lambda a, b: jnp.sqrt(a * a + b * b), (0, 1)), x)
    r.case("reduce_pair", lambda x, y: lax.reduce((x, y), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)), x, x * 0.5 + 1)
    r.case("reduce_argmax_like", lambda x: lax.reduce((x, lax.broadcasted_iota("int32", x.shape, 1)), (-jnp.inf, np.int32(0)),
           lambda a, b: (jnp.where(a[0] >= b[0], a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])), (1,)), x)
    r.case("logsumexp", lambda x: (jax.nn.logsumexp(x), jax.nn.logsumexp(x, 1), jax.nn.softmax(x), jax.nn.log_softmax(x, 0)), x)
    r.case("norms", lambda x: (jnp.linalg.norm(x[0]), jnp.linalg.norm(x, axis=1), jnp.linalg.norm(x[0], 1), jnp.linalg.norm(x[0], jnp.inf)), x)
    for n in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
        f = getattr(lax, n)
        r.case(n, lambda x: (f(x, 1), f(x, 0, reverse=True)), x)
    r.case("cumsum_int", lambda x: (jnp.cumsum(x), jnp.cumprod(x[0])), rand((3, 4), "int32"))
    r.case("windows", lambda x: (lax.reduce_window(x, 0.0, lax.add, (2, 2, 1), (1, 2, 1), "VALID"),
           lax.reduce_window(x, -jnp.inf, lax.max, (2, 3, 3), (2, 1, 2), "SAME"), lax.reduce_window(x, jnp.inf, lax.min, (1, 2, 2), (1, 1, 1), ((0, 0), (1, 2), (0, 1)))), x)
    r.case("window_dilated", lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2, 2), (1, 1, 1), ((1, 1), (0, 0), (2, 0)), (2, 1, 1), (1, 2, 1)), x)
    r.case("window_custom", lambda x: (lax.reduce_window(x, 1.0, lax.mul, (2, 2, 2), (1, 1, 1), "VALID"),
           lax.reduce_window(x, 1.5, lax.add, (2, 2, 2), (1, 1, 1), "SAME"), lax.reduce_window(x.astype("int32"), 0, lax.bitwise_or, (2, 2, 2), (1, 1, 1), "VALID")), x)
    r.case("window_pair", lambda x: lax.reduce_window((x, x * 2), (0.0, -jnp.inf), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (2, 2, 2), (1, 2, 1), "VALID"), x)
    r.case("max_pool_grad", jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID") ** 2).sum()), x)
    r.case("min_pool_grad", jax.grad(lambda x: (lax.reduce_window(x, jnp.inf, lax.min, (1, 3, 3), (1, 1, 1), "SAME") ** 2).sum()), x)
    r.case("avg_pool_grad", jax.grad(lambda x: (lax.reduce_window(x, 0.0, lax.add, (1, 2, 2), (1, 1, 2), "VALID") ** 2).sum()), x)
    r.case("max_pool_jvp", lambda x: jax.jvp(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 1, 1), "VALID"), (x,), (x * 0.1,)), x)
    r.case("select_and_scatter", lambda x, s: lax._select_and_scatter(x, lax.ge, (1, 2, 2), (1, 2, 2), ((0, 0),) * 3, s, 1.0, lax.add) if hasattr(lax, "_select_and_scatter") else x, x[:, :4], rand((4, 2, 3)))
    r.case("sort", lambda x: (jnp.sort(x), jnp.sort(x, 0), jnp.argsort(x), jnp.sort(x, descending=True), jnp.argsort(x, 0, descending=True)), x)
    r.case("sort_nan", lambda x: (jnp.sort(x), jnp.argsort(x)), np.array([3, np.nan, -0.0, 0.0, -np.inf, np.inf, -np.nan, 1, -1, 0.0], np.float32))
    r.case("sort_keys", lambda x, y: (lax.sort((x, y), num_keys=2), lax.sort((x, y), num_keys=1), lax.sort((x, y, x + 1), dimension=0, num_keys=2, is_stable=False)), rand((4, 9), "int32"), rand((4, 9), "int32", 2))
    for d in ("int8", "uint32", "bool", "float16", "bfloat16", "complex64"):
        r.case(f"sort_{d}", lambda x: (jnp.sort(x), jnp.argsort(x, 0)), rand((5, 7), d))
    r.case("lexsort", lambda x, y: jnp.lexsort((x, y)), rand((12,), "int32"), rand((12,), "int32", 3))
    r.case("topk", lambda x: (lax.top_k(x, 3), lax.top_k(x[0, 0].astype("int32"), 2)), x)
    r.case("approx_topk", lambda x: (lax.approx_max_k(x, 2), lax.approx_min_k(x, 3)), x)
    r.case("unique", lambda x: jnp.unique(x, size=5, return_index=True, return_inverse=True, return_counts=True), rand((12,), "int32"))
    r.case("searchsorted", lambda a, v: (jnp.searchsorted(a, v), jnp.searchsorted(a, v, side="right"), jnp.digitize(v, a)), np.sort(rand((9,))), rand((5,), seed=1))
    r.case("histogram", lambda x: (jnp.histogram(x, 5), jnp.bincount(x.astype("int32") + 3, length=6)), rand((30,)))
    r.case("quantile", lambda x: (jnp.quantile(x, 0.3), jnp.percentile(x, np.array([25., 75.]), 1), jnp.median(x, 0)), x)
    r.case("cov", lambda x: (jnp.cov(x), jnp.corrcoef(x)), rand((3, 8)))
    r.case("nonzero", lambda x: (jnp.nonzero(x > 0, size=6), jnp.argwhere(x > 0, size=4), jnp.count_nonzero(x > 0)), rand((3, 4)))
    r.case("segment", lambda x, i: (jax.ops.segment_sum(x, i, 4), jax.ops.segment_max(x, i, 4), jax.ops.segment_min(x, i, 4), jax.ops.segment_prod(x, i, 4)), rand((9,)), np.abs(rand((9,), "int32")) % 4)
    r.case("associative_scan", lambda x: (lax.associative_scan(jnp.add, x), lax.associative_scan(jnp.multiply, x, reverse=True, axis=1)), x)
    r.case("numpy_more", lambda x: (jnp.diff(x), jnp.gradient(x[0, 0]), jnp.interp(x[0, 0], jnp.arange(4.), jnp.arange(4.) ** 2), jnp.trapezoid(x), jnp.convolve(x[0, 0], x[0, 1]), jnp.correlate(x[0, 0], x[0, 1][:3]), jnp.polyval(x[0, 0], 2.0), jnp.vander(x[0, 0][:3]), jnp.kron(x[0, :2], x[0, :2]), jnp.outer(x[0, 0], x[0, 1]), jnp.inner(x[0], x[1]), jnp.cross(x[0, :, :3], x[1, :, :3])), x)
