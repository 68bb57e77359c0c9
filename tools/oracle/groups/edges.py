# SPDX-License-Identifier: Apache-2.0
"""Element-wise functions and reductions at the edges of their dtypes: zeros of both signs (compared with their signs),
infinities, NaN, largest, smallest, huge and tiny numbers, division by zero, extremes of integers. Left out: subnormal
numbers, which XLA's CPU flushes in most places; gcd and lcm, whose loop does not end in JAX for the least integer; powers
of integers, of whose exponents JAX reads six bits."""
import itertools

import numpy as np

from inputs import UNSIGNED, Scalar, np_dtype

G = "edges"
FLOATS = ["bfloat16", "float32", "float64"]
INTS = ["int8", "int32", "int64", "uint8", "uint32"]

UNARY = {
    "exact": """lax.neg lax.sign lax.floor lax.ceil lax.abs lax.is_finite jnp.round jnp.trunc jnp.rint jnp.sign
        jnp.abs jnp.fabs jnp.isnan jnp.isinf jnp.isposinf jnp.isneginf jnp.signbit jnp.nan_to_num jnp.positive
        jnp.modf jnp.frexp nn.relu nn.relu6 nn.hard_tanh""",
    "arith": """jnp.square jnp.reciprocal lax.sqrt lax.rsqrt lax.cbrt jnp.deg2rad jnp.rad2deg nn.soft_sign
        nn.hard_sigmoid""",
    "trans": """lax.exp lax.exp2 lax.expm1 lax.log lax.log1p jnp.log2 jnp.log10 lax.asin lax.acos lax.atan lax.sinh
        lax.cosh lax.tanh lax.asinh lax.acosh lax.atanh lax.logistic lax.erf lax.erfc nn.sigmoid nn.softplus
        nn.log_sigmoid nn.elu nn.celu nn.selu""",
    "special": """lax.erf_inv lax.lgamma lax.digamma lax.bessel_i0e lax.bessel_i1e special.i0e special.i1e special.i0
        special.i1 jnp.i0 special.entr special.ndtr special.log_ndtr special.ndtri special.expit special.logit
        special.gammaln special.gamma special.erfinv nn.silu nn.gelu nn.mish nn.squareplus nn.log1mexp""",
}
INT_UNARY = """lax.neg lax.sign lax.abs jnp.square jnp.positive lax.bitwise_not lax.population_count lax.clz jnp.sign
    jnp.abs jnp.round jnp.floor jnp.ceil jnp.trunc""".split()
BINARY = {
    "exact": """jnp.maximum jnp.minimum jnp.fmax jnp.fmin jnp.copysign lax.max lax.min jnp.greater jnp.less_equal
        jnp.equal jnp.not_equal jnp.heaviside""",
    "arith": """jnp.add jnp.subtract jnp.multiply jnp.divide jnp.floor_divide jnp.remainder jnp.fmod jnp.divmod lax.rem
        operator.floordiv operator.mod""",
    "trans": "jnp.power jnp.float_power jnp.hypot jnp.logaddexp jnp.logaddexp2 jnp.arctan2 special.xlogy special.xlog1py",
}
INT_BINARY = """jnp.add jnp.subtract jnp.multiply jnp.divide jnp.floor_divide jnp.remainder jnp.fmod jnp.divmod lax.div
    lax.rem jnp.maximum jnp.minimum jnp.left_shift jnp.right_shift jnp.greater operator.mod
    operator.floordiv""".split()


def edges_of(dtype):
    f = {"float16": (6e-5, 65504.0), "bfloat16": (1.2e-38, 3.3895314e38), "float32": (1.1754944e-38, 3.4028235e38),
         "float64": (2.2250738585072014e-308, 1.7976931348623157e308)}[dtype]
    tiny, largest = f
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 3.5, largest, -largest, tiny, -tiny, 100, -100,
              1e-3, -1e-3, largest**0.5, tiny**0.5]
    return np.array(values, dtype=np.float64).astype(np_dtype(dtype))


def integers_of(dtype):
    info = np.iinfo(dtype)
    values = [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1] + ([] if dtype in UNSIGNED else [-1, -2, -3])
    return np.array(values, dtype=dtype)


def pairs(values):
    a, b = zip(*itertools.product(values, values))
    return np.array(a, dtype=values.dtype), np.array(b, dtype=values.dtype)


def record(rec):
    with np.errstate(all="ignore"):
        elementwise(rec)
        scalars(rec)
        reductions(rec)
        along(rec)
        converts(rec)


def elementwise(rec):
    for tol, names in UNARY.items():
        for name in names.split():
            for dtype in FLOATS[name == "lax.exp2":]:  # XLA's exp2 of bfloat16 has three digits
                rec.case(G, name, [edges_of(dtype)], tol=tol, zeros=True, may_fail=True)
    for name in INT_UNARY:
        for dtype in INTS:
            rec.case(G, name, [integers_of(dtype)], tol="exact", may_fail=True)
    for tol, names in BINARY.items():
        for name in names.split():
            for dtype in FLOATS:
                short = edges_of(dtype)[:14]
                rec.case(G, name, list(pairs(short)), tol=tol, zeros=True, may_fail=True)
    for name in INT_BINARY:
        for dtype in INTS:
            rec.case(G, name, list(pairs(integers_of(dtype))), tol="arith", zeros=True, may_fail=True)
    for dtype in FLOATS:
        x = edges_of(dtype)
        for low, high in ((0.0, 1.0), (-0.0, 0.0), (0.0, -0.0), (-np.inf, np.inf), (np.nan, 1.0)):
            bounds = [np.array(v, dtype=np_dtype(dtype)) for v in (low, high)]
            rec.case(G, "lax.clamp", [bounds[0], x, bounds[1]], tol="exact", zeros=True)


def scalars(rec):
    for dtype in ("int8", "int32", "uint8", "uint32", "int64", "float32", "float64", "bfloat16"):
        x = integers_of(dtype) if dtype in INTS else edges_of(dtype)
        for name in ("operator.mod", "operator.floordiv", "jnp.power", "jnp.remainder", "jnp.floor_divide", "jnp.maximum"):
            for scalar in (0, 2, 0.0, -0.0, 0.5):
                if isinstance(scalar, float) and dtype in INTS and dtype != "int32":
                    continue
                rec.case(G, name, [x, Scalar(scalar)], tol="trans", note=str(scalar), zeros=True, may_fail=True)
    for y in (-2, -1, 0):
        for x in (np.array([0.0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan], np.float32), np.array([0, 1, -1, 2], np.int32)):
            rec.case(G, "jnp.power", [x, Scalar(y)], tol="arith", note=str(y), zeros=True, may_fail=True)
            rec.case(G, "lax.integer_pow", [x], {"y": y}, tol="arith", zeros=True, may_fail=True)


ROWS = [[0.0, -0.0, 0.0], [-0.0, 0.0, -0.0], [-0.0, -0.0, -0.0], [np.nan, 1, 2], [1, np.nan, np.inf], [np.inf, -np.inf, 1],
        [np.nan, np.nan, np.nan], [-np.inf, -np.inf, -np.inf], [np.inf, np.inf, 0.0], [0.0, -1, -0.0], [-0.0, 1, 0.0],
        [1e30, 1e30, -1e30]]


def reductions(rec):
    plain = """jnp.sum jnp.prod jnp.max jnp.min jnp.mean jnp.any jnp.all jnp.nansum jnp.nanprod jnp.nanmax jnp.nanmin
        jnp.nanmean jnp.ptp jnp.median jnp.nanmedian nn.logsumexp jnp.argmax jnp.argmin jnp.nanargmax jnp.nanargmin
        jnp.count_nonzero jnp.var jnp.std jnp.nanvar jnp.nanstd""".split()
    for dtype in ("float32", "float64", "bfloat16"):
        rows = np.array(ROWS, dtype=np.float64).astype(np_dtype(dtype))
        for name in plain:
            rec.case(G, name, [rows], {"axis": 1}, tol="reduce", zeros=True, may_fail=True)
            rec.case(G, name, [rows.T.copy()], {"axis": 0}, tol="reduce", zeros=True, may_fail=True)
    for dtype in INTS:
        rows = np.stack([integers_of(dtype)[i:i + 5] for i in range(4)])
        for name in plain:
            if "arg" not in name or dtype != "int64":  # positions are recorded as int64 there, in JAX's full 64-bit mode
                rec.case(G, name, [rows], {"axis": 1}, tol="reduce", may_fail=True)


def along(rec):
    for dtype in ("float32", "float64", "bfloat16"):
        rows = np.array(ROWS, dtype=np.float64).astype(np_dtype(dtype))
        for name in ("cummax", "cummin", "cumsum", "cumprod", "cumlogsumexp"):
            for reverse in (False, True):
                rec.case(G, "lax." + name, [rows], {"axis": 1, "reverse": reverse}, tol="reduce", zeros=True)
        for name in ("jnp.sort", "jnp.argsort", "nn.softmax", "nn.log_softmax"):
            rec.case(G, name, [rows], {"axis": 1}, tol="reduce", zeros=True)
        rec.case(G, "lax.top_k", [rows], {"k": 2}, tol="exact", zeros=True)
        rec.case(G, "lax.sort", [rows], {"dimension": 1}, tol="exact", zeros=True)


def converts(rec):
    for source in FLOATS + INTS:
        x = edges_of(source) if source in FLOATS else integers_of(source)
        if source in FLOATS:
            x = np.concatenate([x, np.array([300, -300, 70000, -70000, 2.5, -2.5], np.float64).astype(x.dtype)])
        for target in ["bool"] + FLOATS + INTS:
            rec.case(G, "lax.convert_element_type", [x], {"new_dtype": target}, tol="exact", zeros=target in FLOATS)
