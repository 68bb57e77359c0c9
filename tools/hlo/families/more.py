# SPDX-License-Identifier: Apache-2.0
"""A sweep: many public functions, each on an ordinary argument."""
import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from record import rand

ONE = ["abs", "absolute", "angle", "arccos", "arcsinh", "arctan", "argsort", "around", "atleast_2d", "average", "cbrt", "ceil",
       "conj", "cosh", "count_nonzero", "cumprod", "cumulative_sum", "deg2rad", "degrees", "diff", "ediff1d", "exp2", "expm1", "fabs", "fix",
       "flatnonzero", "fliplr", "flipud", "floor", "frexp", "hanning", "i0", "iscomplexobj", "isfinite", "isinf", "isnan",
       "isneginf", "isposinf", "log10", "log1p", "log2", "logical_not", "matrix_transpose", "max", "modf", "nan_to_num", "nancumsum", "nanprod",
       "nanvar", "negative", "positive", "rad2deg", "ravel", "real", "reciprocal", "rint", "rot90", "sign", "signbit", "sinc",
       "sort_complex", "spacing", "square", "squeeze", "std", "tan", "trace", "trunc", "tril", "unwrap", "vsplit2", "unstack"]
TWO = ["add", "arctan2", "copysign", "divide", "divmod", "equal", "float_power", "floor_divide", "fmax", "fmin", "fmod", "greater",
       "heaviside", "hypot", "isclose", "ldexp2", "less_equal", "logaddexp", "logaddexp2", "logical_and", "logical_xor", "maximum",
       "minimum", "mod", "multiply", "nextafter", "not_equal", "power2", "remainder", "subtract", "true_divide", "matmul", "dot",
       "inner", "vecdot", "tensordot", "allclose", "array_equal", "column_stack2", "append", "union1d2", "polyadd", "polymul"]
INTS = ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm", "left_shift", "right_shift", "floor_divide", "mod", "divmod", "power", "remainder"]


def cases(r):
    x, y = rand((4, 4)), rand((4, 4), seed=1)
    for n in ONE:
        f = getattr(jnp, n, None)
        if f is not None:
            r.case(n, lambda x: f(x), 5 if n == "hanning" else x, tol=1e-4)
    for n in TWO:
        f = getattr(jnp, n, None)
        if f is not None:
            r.case(f"two_{n}", lambda x, y: f(x, y), x[0] if n.startswith("poly") else x, y[0] if n.startswith("poly") else y, tol=1e-4)
    i, j = np.abs(rand((6,), "int32")) + 1, np.abs(rand((6,), "int32", 1)) + 1
    for n in INTS:
        r.case(f"ints_{n}", lambda x, y: getattr(jnp, n)(x, y), i, j)
        r.case(f"ints_u8_{n}", lambda x, y: getattr(jnp, n)(x, y), i.astype("uint8"), j.astype("uint8"))
    r.case("polyfit", lambda x, y: jnp.polyfit(x, y, 2), rand((6,)), rand((6,), seed=1), tol=5e-3)
    r.case("roots", lambda p: jnp.roots(p, strip_zeros=False), np.array([1., -3., 2., 0.5], np.float32), tol=1e-3)
    r.case("windows", lambda: (jnp.bartlett(5), jnp.blackman(5), jnp.hamming(5), jnp.kaiser(5, 2.0)), tol=1e-4)
    r.case("packbits", lambda x: (jnp.packbits(x), jnp.unpackbits(jnp.packbits(x))), rand((12,), "bool"))
    r.case("set_ops", lambda x, y: (jnp.isin(x, y), jnp.union1d(x, y, size=8), jnp.intersect1d(x, y, size=4), jnp.setdiff1d(x, y, size=5)), rand((6,), "int32"), rand((6,), "int32", 1))
    r.case("partition", lambda x: (jnp.partition(x, 2), jnp.argpartition(x, 2)), x)
    r.case("histogram2d", lambda x, y: (jnp.histogram2d(x, y, 3), jnp.histogramdd(jnp.stack([x, y], 1), 2)), rand((9,)), rand((9,), seed=1))
    r.case("apply_vectorize", jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()"), x, y)
    r.case("where_nan_grad", jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0).sum()), x)
    r.case("bf16_reduce", lambda x: (x.sum(), x.mean(0), x.var(), jnp.cumsum(x, 1), x.max(), jax.nn.softmax(x)), x.astype(jnp.bfloat16), tol=4e-2)
    r.case("f16_reduce", lambda x: (x.sum(), x.mean(0), jnp.cumsum(x, 1), x @ x, jnp.linalg.norm(x)), x.astype("float16"), tol=1e-2)
    r.case("f64_misc", lambda x: (x @ x, jnp.sin(x).sum(), jnp.sort(x), jnp.linalg.det(x), jax.nn.gelu(x), jnp.cumsum(x), jnp.var(x)), x.astype("float64"), x64=True, tol=1e-9)
    r.case("i64_misc", lambda x: (x.sum(), x * x, x // 3, jnp.sort(x), jnp.cumsum(x), x.max(), jnp.argmax(x), x.astype("float64") / 2), rand((5,), "int64"), x64=True)
    r.case("c128_misc", lambda x: (x @ x, jnp.exp(x), x.sum(), jnp.abs(x), jnp.linalg.inv(x)), rand((3, 3), "complex128"), x64=True, tol=1e-9)
    for n in ("bessel_jn2", "betaln", "beta", "gamma", "gammainc", "gammaincc", "kl_div", "rel_entr", "logsumexp2", "multigammaln2", "poch",
              "xlog1py", "xlogy", "zeta2", "factorial2", "comb2"):
        f = getattr(jsp.special, n, None)
        if f is not None:
            r.case(f"special_{n}", lambda a, b: f(a, b) if n not in ("gamma",) else f(a), np.abs(x[0]) + 0.5, np.abs(y[0]) + 0.5, tol=5e-4)
    for n in ("bernoulli", "spence", "exp1", "expi", "fresnel", "i1e", "log_ndtr", "logit", "ndtri", "polygamma1", "sici", "softmax", "log_softmax", "gammasgn", "entr", "erfcx", "hyp1f12"):
        f = getattr(jsp.special, n, None)
        if f is not None:
            r.case(f"special_{n}", lambda a: f(a), rand((6,), low=0.1, high=0.9) if n != "bernoulli" else 5, tol=5e-4)
    r.case("sph_harm", lambda t: jsp.special.lpmn_values(2, 2, t, True) if hasattr(jsp.special, "lpmn_values") else t, rand((3,), low=-.9, high=.9), tol=1e-3)
    r.case("bessel_jn", lambda z: jsp.special.bessel_jn(z, v=3), rand((3,), low=0.5, high=3.), tol=1e-3)
    r.case("hyp1f1", lambda x: jsp.special.hyp1f1(1.0, 2.0, x), rand((3,), low=0.1, high=1.0), tol=1e-3)
    r.case("multigammaln", lambda a: jsp.special.multigammaln(a, 2), rand((3,), low=2., high=4.), tol=1e-3)
    r.case("ndimage", lambda x: jsp.ndimage.map_coordinates(x, [jnp.array([0.5, 1.2]), jnp.array([1., 2.])], 1, mode="nearest"), x)
    r.case("spatial", lambda q: jsp.spatial.transform.Rotation.from_quat(q).as_matrix() if hasattr(jsp, "spatial") else q, rand((4,)), tol=1e-4)
    r.case("cluster", lambda x, c: jsp.cluster.vq.vq(x, c) if hasattr(jsp, "cluster") else x, rand((6, 2)), rand((3, 2)))
    r.case("integrate", lambda x: jsp.integrate.trapezoid(x), x)
    r.case("interpolate", lambda x: jsp.interpolate.RegularGridInterpolator((jnp.arange(4.), jnp.arange(4.)), x)(jnp.array([[0.5, 1.5]])) if hasattr(jsp, "interpolate") else x, x)
    r.case("stats_more", lambda x: (jsp.stats.mode(jnp.round(x)), jsp.stats.rankdata(x[0]), jsp.stats.sem(x), jsp.stats.norm.ppf(jnp.clip(jnp.abs(x) / 3, .1, .9)), jsp.stats.bernoulli.logpmf(jnp.round(jnp.abs(x[0]) / 2), .3)), x, tol=1e-3)
    r.case("ops_segment_more", lambda x: (jax.ops.segment_sum(x, jnp.array([0, 0, 2, 1]), 3), jax.ops.segment_sum(x, jnp.array([0, 0, 1, 2]), 3, indices_are_sorted=True)), x)
    r.case("lax_misc", lambda x: (lax.reduce_precision(x, 5, 10), lax.nextafter(x, x + 1), lax.rsqrt(jnp.abs(x)), lax.integer_pow(x, -3), lax.exp2(x), lax.square(x), lax.erf_inv(x / 3), lax.tile(x, (2, 1)) if hasattr(lax, "tile") else x, lax.split(x, (1, 3))), x, tol=1e-4)
    r.case("lax_cum", lambda x: (lax.cumsum(x, 0, reverse=True), lax.cumlogsumexp(x, 1), lax.cummax(x, 1, reverse=True)), x)
    r.case("lax_dyn", lambda x, k: (lax.dynamic_slice_in_dim(x, k, 2, 1), lax.dynamic_update_slice_in_dim(x, x[:, :1], k, 1), lax.index_in_dim(x, 1), lax.index_take(x, (jnp.array([0, 1]),), (0,)) if hasattr(lax, "index_take") else x), x, np.int32(1))
    r.case("lax_sortkv", lambda x, y: (lax.sort_key_val(x, y), lax.sort_key_val(x, y, dimension=0)), x, y)
    r.case("lax_argmax", lambda x: (lax.argmax(x, 1, "int32"), lax.argmin(x, 0, "uint8"), lax.argmax(x.astype("int32"), 0, "int16")), x)
    r.case("rng_shapes", lambda k: (jax.random.uniform(k, ()), jax.random.normal(k, (0, 3)), jax.random.normal(k, (1,)), jax.random.bits(k, (2, 1, 3), "uint32")), jax.random.key(9), tol=1e-5)
    r.case("rng_old_key", lambda k: (jax.random.normal(jax.random.split(k, 2)[1], (3,)), jax.random.fold_in(k, 3)), jax.random.PRNGKey(3), tol=1e-5)
    r.case("custom_derivatives", jax.grad(lambda x: jnp.sum(jax.nn.relu(x) ** 2 + jax.nn.logsumexp(x, 1)[:, None] + jnp.linalg.norm(x))), x, tol=1e-4)
    r.case("grad_of_while", jax.jvp and (lambda x: jax.jvp(lambda v: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, v))[1], (x,), (x,))), x)
    r.case("grad_of_sort", jax.grad(lambda x: jnp.sum(jnp.sort(x, 0)[1] ** 2 + jnp.median(x))), x, tol=1e-4)
    r.case("grad_cumprod", jax.grad(lambda x: jnp.sum(jnp.cumprod(x, 1)) + jnp.sum(lax.cumlogsumexp(x, 1)) + jnp.prod(x)), x, tol=1e-3)
    r.case("vmap_misc", jax.vmap(lambda a: (jnp.sort(a), a @ a, jnp.argmax(a), lax.dynamic_slice(a, (1,), (2,)), jnp.fft.fft(a), jnp.cumsum(a), jnp.searchsorted(jnp.sort(a), 0.0))), x, tol=1e-4)
    r.case("map_conv_vmap", jax.vmap(lambda a, k: lax.conv(a, k, (1, 1), "SAME")), rand((3, 1, 2, 5, 5)), rand((3, 2, 2, 3, 3)), tol=1e-4)
    r.case("big_reduce", lambda x: (x.sum(), x.max(0), jnp.sort(x.ravel())[:5]), rand((300, 300)), tol=1e-3)
    r.case("big_loop", lambda x: lax.fori_loop(0, 2000, lambda i, v: v + jnp.sin(v) * 1e-3, x), rand((8,)), tol=1e-3)
    r.case("long_scan", lambda x: lax.scan(lambda c, a: (c * 0.99 + a, c), 0.0, x), rand((3000,)), tol=1e-3)
    r.case("game_of_life", lambda g: lax.fori_loop(0, 4, lambda i, g: (lambda n: ((n == 3) | ((n == 2) & (g == 1))).astype("int32"))(sum(jnp.roll(g, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0))), g), (rand((8, 8), "int32") > 2).astype("int32"))
    r.case("kalman", lambda f, q: lax.scan(lambda c, z: (lambda p: (f @ c[0] + 0.1 * z, f @ p @ f.T + q))(c[1]) and ((f @ c[0] + 0.1 * z, f @ c[1] @ f.T + q), c[0]), (jnp.ones(3), jnp.eye(3)), rand((5, 3))), rand((3, 3)) * .4, np.eye(3, dtype="float32"), tol=1e-3)
    r.case("viterbi", lambda t, e: lax.scan(lambda s, o: (jnp.max(s[:, None] + t, 0) + o, jnp.argmax(s[:, None] + t, 0)), jnp.zeros(4), e), x, rand((6, 4)))
    r.case("sinkhorn", lambda c: lax.fori_loop(0, 10, lambda i, uv: (1 / (jnp.exp(-c) @ uv[1]), 1 / (jnp.exp(-c).T @ (1 / (jnp.exp(-c) @ uv[1])))), (jnp.ones(4), jnp.ones(4))), np.abs(x), tol=1e-3)
