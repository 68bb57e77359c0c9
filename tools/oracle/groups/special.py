# SPDX-License-Identifier: Apache-2.0
"""Special functions and the element-wise functions that NumPy composes. Subnormal numbers are left out: XLA's CPU code
flushes them to zero."""
import numpy as np

from groups.library import F, Group, x


def record(rec):
    special(rec)
    elementary(rec)


def special(rec):
    g = Group(rec, "special", "special", "special")
    a, b = x((6,), lo=0.2, hi=4), x((6,), tag="b", lo=0.2, hi=4)
    u = x((6,), lo=0.05, hi=0.95)
    g("gammasgn", x((6,)), grad=False)
    for dtype in ("float32", "float64"):
        for fn, v in (("entr", a), ("logit", u), ("expit", x((6,))), ("ndtr", x((6,))), ("log_ndtr", x((6,))), ("ndtri", u),
                      ("gamma", a), ("gammaln", a), ("factorial", a), ("i0", x((6,))), ("i0e", x((6,))), ("i1", x((6,))), ("i1e", x((6,))),
                      ("erfcx", x((6,))), ("digamma", a), ("erfinv", u)):
            g(fn, v.astype(dtype))
        for fn in ("xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln", "boxcox", "boxcox1p", "poch"):
            g(fn, a.astype(dtype), b.astype(dtype), tol="linalg")
        g("spence", (a * 1.2).astype(dtype), grad=False)
        g("comb", (a + 3).astype(dtype), a.astype(dtype), grad=False, tol="linalg")
        g("gammainc", a.astype(dtype), b.astype(dtype), grad=False, tol="linalg")
        g("gammaincc", a.astype(dtype), b.astype(dtype), grad=False, tol="linalg")
        g("betainc", a.astype(dtype), b.astype(dtype), u.astype(dtype), grad=False, tol="linalg")
        g("multigammaln", (a + 2).astype(dtype), d=3)
    edges = np.array([0, -1, 1, np.inf, -np.inf, np.nan, 30, -30], F)
    for fn in ("entr", "logit", "ndtr", "log_ndtr", "ndtri", "gamma", "gammasgn", "factorial", "erfcx", "spence"):
        g(fn, edges, grad=False, note="edges")
    for fn in ("xlogy", "xlog1py", "rel_entr", "kl_div", "boxcox", "poch"):
        g(fn, edges, np.array([0, 0, 2, 1, 1, 1, 0, np.nan], F), grad=False, note="edges")
    g("comb", np.array([5, 3, -1, 4], F), np.array([2, 4, 1, 0], F), grad=False)
    g("comb", np.array([5, 3], F), np.array([2, 4], F), repetition=True, grad=False, tol="linalg")
    g("xlogy", np.array([1, 2], np.int32), np.array([3, 4], np.int32), grad=False)


def elementary(rec):
    g = Group(rec, "special", "jnp", "trans")
    a, b = x((6,)), x((6,), tag="b")
    e = np.array([0, -0.0, 1, -2.5, np.inf, -np.inf, np.nan, 1e-30, 3e38, 0.75], F)
    for fn in ("fabs", "deg2rad", "rad2deg", "sinc", "i0"):
        g(fn, a)
        g(fn, x((3,), "int32"), grad=False)
    for fn in ("signbit", "isposinf", "isneginf", "spacing", "isreal"):
        g(fn, e, grad=False, note="edges")
    for dtype in ("float16", "bfloat16", "float64"):
        for fn in ("signbit", "sinc", "frexp", "modf"):
            g(fn, x((5,), dtype), grad=False)
    g("iscomplex", np.array([1, 2j, 3 + 1j], np.complex64), grad=False)
    for deg in (False, True):
        g("angle", x((4,), "complex64"), deg=deg, grad=False)
        g("angle", x((3,), "int32"), deg=deg, grad=False)
    for fn in ("hypot", "logaddexp", "logaddexp2", "fmax", "fmin", "float_power", "copysign"):
        g(fn, np.abs(a) + F(0.1), np.abs(b) + F(0.1))
        g(fn, x((3,), "int32", lo=1), x((3,), "int32", "b", 1), grad=False)
        g(fn, e, e[::-1].copy(), grad=False, note="edges")
    for fn in ("logaddexp", "hypot"):
        g(fn, np.array([1, 2, 0], F), np.array([1, -2, 0], F), note="ties")
    g("logaddexp", x((4,), "complex64"), x((4,), "complex64", "b"), grad=False)
    g("heaviside", e, F(0.5), grad=False)
    g("frexp", e, grad=False, note="edges")
    g("frexp", a * 100, grad=False)
    g("ldexp", a, np.array([0, 3, -2, 1, 5, -7], np.int32))
    g("modf", e, grad=False, note="edges", tol="exact")
    g("divmod", a * 3, b, grad=False)
    g("divmod", x((5,), "int32", lo=-9, hi=9), np.array([2, -3, 4, -5, 1], np.int32), grad=False)
    for dtype in ("int32", "uint8", "int64"):
        g("gcd", x((6,), dtype, "g", 0, 40), x((6,), dtype, "h", 0, 40), grad=False)
        g("lcm", x((6,), dtype, "g", 0, 11), x((6,), dtype, "h", 0, 11), grad=False)
    g("bitwise_count", x((5,), "int32", lo=-200, hi=200), grad=False)
    g("bitwise_count", x((5,), "uint8", lo=0, hi=200), grad=False)
    c = np.array([1, 1.0001, np.nan, np.inf, -np.inf], F)
    for p in ({}, {"equal_nan": True}, {"rtol": 1e-3}, {"atol": 0.5}):
        g("isclose", c, np.array([1, 1, np.nan, np.inf, np.inf], F), grad=False, **p)
        g("allclose", c, c, grad=False, **p)
    g("array_equal", c, c, grad=False)
    g("array_equal", c, c, equal_nan=True, grad=False)
    g("array_equal", c, c[:3], grad=False)
    g("array_equiv", np.ones((2, 1), F), np.ones((3,), F), grad=False)
    g("nan_to_num", e, nan=1.0, posinf=5.0, neginf=-6.0)
    g("nan_to_num", np.array([np.nan, np.inf], np.float16), grad=False)
    g("nan_to_num", np.array([complex(np.nan, 1), complex(np.inf, -np.inf)], np.complex64), grad=False)
    g("sort_complex", x((5,)), grad=False)
    g("program.select", x((3, 1), "bool"), x((4,), "bool"), x((3, 4)), x((3, 4), tag="c"), F(9))
    for mode in ("clip", "wrap"):
        g("program.choose", np.array([0, 2, 5, -1], np.int32), x((4,)), x((4,), tag="c"), F(1), mode=mode)
    g("positive", a)
    g("arccosh", np.abs(a) + F(1.1))
    g("arctanh", a / 4)
