# SPDX-License-Identifier: Apache-2.0
"""Functions of jax.numpy that compose others."""
import numpy as np

from inputs import FLOATS, INTS, Scalar, distinct, np_dtype, uniform

G = "numpy"


def x(shape, dtype="float32", tag="", lo=-3, hi=3):
    return uniform("np" + tag + str(shape), shape, dtype, lo, hi)


def record(rec):
    constructors(rec)
    rounding(rec)
    elementwise(rec)
    triangles(rec)
    calculus(rec)


def constructors(rec):
    case = lambda fn, p, *args, tol="arith": rec.case(G, "jnp." + fn, list(args), p, tol=tol)
    for dtype in (None, "int8", "int64", "uint32", "float16", "bfloat16", "float32", "float64", "complex64"):
        case("arange", {"dtype": dtype}, Scalar(5))
        case("ones", {"shape": [2, 3], "dtype": dtype})
        case("zeros", {"shape": [2], "dtype": dtype})
        case("eye", {"N": 3, "dtype": dtype})
    for args in ((2, 7), (2, 9, 3), (5, 0, -2), (0, 0), (0.0, 1.0, 0.25), (3.5,), (1, 4, 0.5)):
        case("arange", {}, *[Scalar(a) for a in args])
    for p in ({"num": 5}, {"num": 1}, {"num": 4, "endpoint": False}, {"num": 0}, {"num": 3, "dtype": "int32"}, {"num": 5, "dtype": "float64"}):
        case("linspace", p, Scalar(-1.5), Scalar(2.25), tol="trans")
    case("linspace", {"num": 3}, Scalar(0), Scalar(10), tol="trans")
    case("linspace", {"num": 3, "axis": 1}, x((2,)), x((2,), tag="b"), tol="trans")
    case("logspace", {"num": 4}, Scalar(0.0), Scalar(2.0), tol="special")
    case("geomspace", {"num": 4}, Scalar(1.0), Scalar(100.0), tol="special")
    for value in (True, 3, 2.5):
        rec.case(G, "jnp.full", [], {"shape": [2, 2], "fill_value": value}, tol="exact")
    rec.case(G, "jnp.full", [], {"shape": [1], "fill_value": 4.0, "dtype": "complex64"}, tol="exact")
    rec.case(G, "jnp.full", [], {"shape": [3], "fill_value": 2.5, "dtype": "int32"}, tol="exact")
    case("full_like", {"fill_value": 2}, x((2, 3), "float16"))
    case("ones_like", {}, x((2, 3), "int8"))
    case("zeros_like", {}, x((2, 3), "complex64"))
    case("ones_like", {"dtype": "float64"}, x((2, 3), "int8"))
    case("eye", {"N": 3, "M": 4, "k": 1})
    case("eye", {"N": 3, "M": 2, "k": -1})
    case("identity", {"n": 3})
    case("tri", {"N": 3, "M": 4, "k": -1})
    for v in (True, 3, 2.5, 1 + 2j):
        case("asarray", {}, Scalar(v))
    case("asarray", {"dtype": "bfloat16"}, Scalar(2.5))


def rounding(rec):
    ties = np.array([-2.5, -1.5, 0.5, 1.25, 2.345, 1e6, np.nan], np.float64)
    for dtype in FLOATS:
        with np.errstate(over="ignore"):
            t = ties.astype(np_dtype(dtype))
        for fn in ("round", "rint", "trunc", "floor", "ceil"):
            rec.case(G, "jnp." + fn, [t], tol="exact")
    rec.case(G, "jnp.round", [ties.astype(np.float32)], {"decimals": 1}, tol="arith")
    rec.case(G, "jnp.round", [np.array([123.0, 155.0], np.float32)], {"decimals": -1}, tol="arith")
    for dtype in INTS + FLOATS:
        rec.case(G, "jnp.clip", [x((6,), dtype, lo=0, hi=9), Scalar(2), Scalar(5)], tol="exact")
    a = distinct("clip", (5,), "float32")
    rec.case(G, "jnp.clip", [a, Scalar(-0.3), Scalar(0.6)], kind="vjp", tol="exact")
    rec.case(G, "jnp.clip", [a], {"min": 0.1}, tol="exact")
    rec.case(G, "jnp.clip", [a], {"max": 0.1}, tol="exact")


def elementwise(rec):
    a, b = x((5,), tag="a"), x((5,), tag="b")
    for fn in ("abs", "negative", "positive", "sign", "square", "exp", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "arcsinh",
               "exp2", "sinc", "deg2rad", "rad2deg", "isnan", "isinf", "isfinite", "signbit", "reciprocal", "conjugate", "real", "imag", "angle"):
        rec.case(G, "jnp." + fn, [a], tol="trans")
    for fn in ("log", "log2", "log10", "log1p", "sqrt", "cbrt"):
        rec.case(G, "jnp." + fn, [np.abs(a) + np.float32(0.1)], tol="trans")
        rec.case(G, "jnp." + fn, [np.abs(a) + np.float32(0.1)], kind="vjp", tol="trans")
    rec.case(G, "jnp.log2", [x((5,), "float64", lo=0.1)], tol="trans")
    for fn in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "arctan2", "hypot", "logaddexp", "logaddexp2",
               "floor_divide", "remainder", "fmod", "copysign", "equal", "greater", "heaviside", "nextafter", "true_divide", "float_power"):
        second = np.abs(b) if fn == "float_power" else b
        first = np.abs(a) if fn == "float_power" else a
        rec.case(G, "jnp." + fn, [first, second], tol="trans")
    for fn in ("hypot", "logaddexp", "arctan2", "maximum", "divide", "multiply", "power", "remainder"):
        rec.case(G, "jnp." + fn, [np.abs(a) + np.float32(0.2), np.abs(b) + np.float32(0.1)], kind="vjp", tol="trans")
    for fn in ("logical_and", "logical_or", "logical_xor"):
        rec.case(G, "jnp." + fn, [x((6,), "int32", lo=0, hi=2), x((6,), "bool")], tol="exact")
    rec.case(G, "jnp.logical_not", [x((6,), "float32")], tol="exact")
    rec.case(G, "jnp.isclose", [np.array([1, 2, np.nan, np.inf], np.float32), np.array([1.000001, 2.1, np.nan, np.inf], np.float32)], tol="exact")
    rec.case(G, "jnp.allclose", [a, a + np.float32(1e-7)], tol="exact")
    rec.case(G, "jnp.nan_to_num", [np.array([np.nan, np.inf, -np.inf, 2], np.float32)], tol="arith")
    rec.case(G, "jnp.gcd", [np.array([12, 18, -4, 0], np.int32), np.array([8, 27, 6, 5], np.int32)], tol="exact")
    rec.case(G, "jnp.where", [x((3, 1), "bool"), x((4,)), Scalar(0.0)], tol="exact", note="broadcast")
    rec.case(G, "jnp.where", [x((3,), "bool"), x((3,), "int8"), x((3,), "float16")], tol="exact", note="promotes")
    rec.case(G, "jnp.where", [x((3,), "bool"), Scalar(1), Scalar(2.5)], tol="exact", note="scalars")
    rec.case(G, "jnp.where", [x((3, 1), "bool"), x((4,)), x((3, 4))], kind="vjp", tol="reduce", note="broadcast")
    rec.case(G, "jnp.add", [x((3, 1)), x((4,))], tol="arith", note="broadcast")
    rec.case(G, "jnp.multiply", [x((3, 1)), x((4,))], kind="vjp", tol="reduce", note="broadcast")
    for fn in ("logsumexp",):
        for p in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
            rec.case(G, "special." + fn, [x((3, 4))], p, tol="trans")
        rec.case(G, "special." + fn, [x((3, 4))], {"axis": 1}, "vjp", tol="trans")
        rec.case(G, "special." + fn, [np.array([-np.inf, -np.inf], np.float32)], {}, tol="trans", note="special")
    for fn in ("xlogy", "xlog1py", "entr", "expit", "logit", "ndtr", "ndtri", "log_ndtr", "gammaln", "factorial"):
        u = x((5,), tag=fn, lo=0.1, hi=0.9)
        rec.case(G, "special." + fn, [u, u * 2] if fn in ("xlogy", "xlog1py") else [u], tol="special")


def triangles(rec):
    for fn in ("tril", "triu"):
        for k in (-1, 0, 2):
            rec.case(G, "jnp." + fn, [x((3, 4))], {"k": k}, tol="exact")
        rec.case(G, "jnp." + fn, [x((2, 3, 3))], tol="exact")
        rec.case(G, "jnp." + fn, [x((3, 3))], kind="vjp", tol="exact")
    rec.case(G, "jnp.diag", [x((3,))], {"k": 1}, tol="exact")
    rec.case(G, "jnp.diag", [x((3, 4))], {"k": -1}, tol="exact")
    rec.case(G, "jnp.diag", [x((3,))], kind="vjp", tol="exact")
    for n in ("atleast_1d", "atleast_2d", "atleast_3d"):
        rec.case(G, "jnp." + n, [x(())], tol="exact")


def calculus(rec):
    rec.case(G, "jnp.diff", [x((3, 5))], {}, tol="arith")
    rec.case(G, "jnp.diff", [x((3, 5))], {"n": 2, "axis": 0}, tol="arith")
    rec.case(G, "jnp.interp", [np.array([-1, 0.5, 1.5, 9], np.float32), np.array([0, 1, 2], np.float32), np.array([1, 3, 2], np.float32)], tol="trans")
    rec.case(G, "jnp.polyval", [x((3,)), x((4,))], tol="reduce")
    rec.case(G, "jnp.cov", [x((3, 5))], tol="reduce")
    rec.case(G, "jnp.corrcoef", [x((3, 5))], tol="reduce")
    rec.case(G, "jnp.trapezoid", [x((5,))], tol="reduce")
    rec.case(G, "jnp.gradient", [x((5,))], tol="arith")
