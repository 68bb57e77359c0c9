# SPDX-License-Identifier: Apache-2.0
"""Element-wise functions of lax over their dtypes, edge shapes, special values, and derivatives."""
import numpy as np

from inputs import COMPLEX, FLOATS, INTS, SIGNED, UNSIGNED, distinct, full_range, np_dtype, uniform

G = "elementwise"
FC = FLOATS + COMPLEX
# name: (dtypes, low, high, tolerance, how often differentiable)
UNARY = {
    "neg": (INTS + FC, -9, 9, "exact", 1), "sign": (INTS + FC, -9, 9, "arith", 1), "floor": (FLOATS, -9, 9, "exact", 0),
    "ceil": (FLOATS, -9, 9, "exact", 0), "is_finite": (FLOATS, -9, 9, "exact", 0), "exp": (FC, -3, 3, "trans", 2),
    "exp2": (FC, -3, 3, "trans", 2), "expm1": (FC, -2, 2, "trans", 2), "log": (FC, 0.1, 9, "trans", 2),
    "log1p": (FC, -0.8, 5, "trans", 2), "sqrt": (FC, 0.1, 9, "arith", 2), "rsqrt": (FC, 0.1, 9, "trans", 2),
    "cbrt": (FLOATS, 0.1, 9, "trans", 2), "sin": (FC, -6, 6, "trans", 2), "cos": (FC, -6, 6, "trans", 2),
    "tan": (FC, -1.3, 1.3, "trans", 2), "asin": (FC, -0.9, 0.9, "trans", 2), "acos": (FC, -0.9, 0.9, "trans", 2),
    "atan": (FC, -4, 4, "trans", 2), "sinh": (FC, -3, 3, "trans", 2), "cosh": (FC, -3, 3, "trans", 2),
    "tanh": (FC, -3, 3, "trans", 2), "asinh": (FC, -4, 4, "trans", 2), "acosh": (FC, 1.2, 6, "trans", 2),
    "atanh": (FC, -0.9, 0.9, "trans", 2), "logistic": (FC, -5, 5, "trans", 2), "erf": (FLOATS, -2.5, 2.5, "trans", 2),
    "erfc": (FLOATS, -2, 2.5, "trans", 2), "erf_inv": (FLOATS, -0.9, 0.9, "special", 2),
    "lgamma": (FLOATS, 0.3, 7, "special", 2), "digamma": (FLOATS, 0.3, 7, "special", 1),
    "bessel_i0e": (FLOATS, -9, 9, "special", 1), "bessel_i1e": (FLOATS, -9, 9, "special", 1),
    "abs": (SIGNED + FC, -9, 9, "arith", 1), "square": (INTS + FC, -5, 5, "arith", 2),
    "reciprocal": (FC, 0.3, 4, "arith", 2), "real": (COMPLEX, -2, 2, "exact", 1), "imag": (COMPLEX, -2, 2, "exact", 1),
    "conj": (COMPLEX, -2, 2, "exact", 1), "bitwise_not": (["bool"] + INTS, 0, 2, "exact", 0),
    "population_count": (INTS, 0, 2, "exact", 0), "clz": (INTS, 0, 2, "exact", 0),
}
BITS = {"bitwise_not", "population_count", "clz", "bitwise_and", "bitwise_or", "bitwise_xor"}
BINARY = {
    "add": (INTS + FC, -9, 9, "arith", 1), "sub": (INTS + FC, -9, 9, "arith", 1), "mul": (INTS + FC, -9, 9, "arith", 2),
    "max": (["bool"] + INTS + FLOATS, -9, 9, "exact", 1), "min": (["bool"] + INTS + FLOATS, -9, 9, "exact", 1),
    "atan2": (FLOATS, -3, 3, "trans", 2), "nextafter": (FLOATS, 0.5, 3, "exact", 0),
    "bitwise_and": (["bool"] + INTS, 0, 2, "exact", 0), "bitwise_or": (["bool"] + INTS, 0, 2, "exact", 0),
    "bitwise_xor": (["bool"] + INTS, 0, 2, "exact", 0),
    **{n: (["bool"] + INTS + FLOATS, -3, 3, "exact", 0) for n in ("ge", "gt", "le", "lt")},
    **{n: (["bool"] + INTS + FC, -2, 2, "exact", 0) for n in ("eq", "ne")},
}
SPECIALS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 1e30, -1e30, 1e-30]
SPECIAL_FINE = {"sin", "cos", "tan"}  # huge arguments need exact range reduction: those have their own case


def values(name, shape, dtype, lo, hi):
    if name in BITS and dtype in INTS:
        return full_range(name + dtype + str(shape), shape, dtype)
    return uniform(name + dtype + str(shape), shape, dtype, lo, hi)


def record(rec):
    for name, (dtypes, lo, hi, tol, order) in UNARY.items():
        fn = "lax." + name
        for dtype in dtypes:
            rec.case(G, fn, [values(name, (7,), dtype, lo, hi)], tol=tol)
        edge = next(d for d in ("float32", "complex64", "int32") if d in dtypes)
        for shape in ((), (0,), (1,), (3, 0, 2), (3, 5)):
            rec.case(G, fn, [values(name, shape, edge, lo, hi)], tol=tol)
        unary_specials(rec, name, fn, dtypes, tol)
        if order:
            derivatives(rec, fn, [d for d in dtypes if d in FC], lambda d: [values(name, (5,), d, lo, hi)], order, tol)
    rounding(rec)
    binaries(rec)
    powers(rec)
    divisions(rec)
    shifts(rec)
    special_functions(rec)
    selects(rec)


def unary_specials(rec, name, fn, dtypes, tol):
    keep = [v for v in SPECIALS if name not in SPECIAL_FINE or abs(v) < 10 or not np.isfinite(v)]
    for dtype in ("float32", "float64", "float16"):
        if dtype in dtypes:
            with np.errstate(over="ignore"):
                rec.case(G, fn, [np.array(keep).astype(dtype)], tol=tol, note="special")
    if name in SPECIAL_FINE and name != "tan":
        rec.case(G, fn, [np.array([100.0, -1000.0, 12345.678], np.float32)], tol=tol, note="large")
    if "int32" in dtypes:
        rec.case(G, fn, [np.array([-(2**31), 2**31 - 1, 0, -1], np.int32)], tol=tol, note="extremes")


def derivatives(rec, fn, dtypes, make, order, tol, params=None, wrt=None):
    loose = {"exact": "arith", "arith": "trans", "trans": "trans", "special": "special"}[tol]
    for dtype in dtypes:
        if dtype in ("float32", "float64", "bfloat16", "float16", "complex64"):
            rec.case(G, fn, make(dtype), params, "vjp", wrt, loose)
    for dtype in ("float32", "float64", "complex64"):
        if dtype in dtypes:
            rec.case(G, fn, make(dtype), params, "jvp", wrt, loose)
            if order > 1 and dtype != "complex64":
                rec.case(G, fn, make(dtype), params, "grad2", wrt, "special")


def rounding(rec):
    ties = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 3.2, -3.7, np.nan, np.inf])
    for method in ("AWAY_FROM_ZERO", "TO_NEAREST_EVEN"):
        for dtype in FLOATS:
            rec.case(G, "lax.round", [ties.astype(np_dtype(dtype))], {"rounding_method": method}, tol="exact")


def binaries(rec):
    for name, (dtypes, lo, hi, tol, order) in BINARY.items():
        fn = "lax." + name
        make = lambda d, s=(7,): [values(name + "a", s, d, lo, hi) if name not in BITS else values(name, s, d, lo, hi),
                                  uniform(name + "b" + d + str(s), s, d, lo, hi) if name not in BITS or d == "bool"
                                  else full_range(name + "b" + d, s, d)]
        for dtype in dtypes:
            rec.case(G, fn, make(dtype), tol=tol)
        edge = "float32" if "float32" in dtypes else "int32"
        for shape in ((), (0,), (1,), (2, 3, 3)):
            rec.case(G, fn, make(edge, shape), tol=tol)
        if edge == "float32" and name != "nextafter":
            grid = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0])
            a, b = (v.ravel() for v in np.meshgrid(grid, grid))
            for dtype in ("float32", "float64"):
                rec.case(G, fn, [a.astype(dtype), b.astype(dtype)], tol=tol, note="special")
        if order:
            pair = lambda d: [distinct(name + "a", (5,), d), distinct(name + "b", (5,), d, 0.29)]
            derivatives(rec, fn, [d for d in dtypes if d in FC], pair, order, tol)
    rec.case(G, "lax.nextafter", [np.array([1, -1, 2, np.inf, np.nan, 1], np.float32),
                                  np.array([2, -2, 2, 0, 1, -5], np.float32)], tol="exact", note="special")
    for dtype in ("int8", "int32", "int64", "uint8", "uint32", "uint64"):
        for name in ("add", "sub", "mul"):
            rec.case(G, "lax." + name, [full_range(name + "p", (6,), dtype), full_range(name + "q", (6,), dtype)],
                     tol="exact", note="wraps")
    rec.case(G, "lax.complex", [uniform("re", (5,), "float32"), uniform("im", (5,), "float32")], tol="exact")
    rec.case(G, "lax.complex", [uniform("re", (5,), "float64"), uniform("im", (5,), "float64")], tol="exact")
    rec.case(G, "lax.complex", [uniform("re", (5,), "float32"), uniform("im", (5,), "float32")], kind="vjp", tol="exact")


def powers(rec):
    for dtype in FC:
        make = lambda d: [uniform("pow-a" + d, (6,), d, 0.2, 3), uniform("pow-b" + d, (6,), d, -2, 2)]
        rec.case(G, "lax.pow", make(dtype), tol="trans")
        if dtype in ("float32", "float64", "complex64"):
            derivatives(rec, "lax.pow", [dtype], make, 2, "trans")
    for dtype in INTS:
        rec.case(G, "jnp.power", [uniform("ipow" + dtype, (6,), dtype, -5, 6), uniform("e" + dtype, (6,), dtype, 0, 6)],
                 tol="exact")
    rec.case(G, "lax.pow", [uniform("fip", (6,), "float32"), np.array([0, 1, 2, 3, -1, -2], np.int32)], tol="trans")
    grid = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, -2.0, 2.0, 0.5])
    a, b = (v.ravel() for v in np.meshgrid(grid, grid))
    rec.case(G, "lax.pow", [a.astype(np.float32), b.astype(np.float32)], tol="trans", note="special")
    for y in (-3, -1, 0, 1, 2, 3, 5, 8):
        for dtype in ("float32", "float64", "bfloat16", "complex64") + (("int32", "uint8") if y >= 0 else ()):
            x = uniform(f"integer_pow{y}{dtype}", (5,), dtype, -2 if dtype != "uint8" else 0, 3)
            rec.case(G, "lax.integer_pow", [x], {"y": y}, tol="trans")
            if dtype in ("float32", "complex64"):
                rec.case(G, "lax.integer_pow", [x], {"y": y}, "vjp", tol="trans")
        rec.case(G, "lax.integer_pow", [uniform(f"ip2{y}", (4,), "float32", 0.5, 2)], {"y": y}, "grad2", tol="special")


def divisions(rec):
    for name in ("div", "rem"):
        for dtype in INTS + FLOATS + (COMPLEX if name == "div" else []):
            a, b = uniform(name + "n" + dtype, (9,), dtype, -20, 20), uniform(name + "d" + dtype, (9,), dtype, 1, 6)
            if dtype not in UNSIGNED:
                b = b * np.where(np.arange(9) % 2, 1, -1).astype(b.dtype)
            tol = "exact" if name == "rem" and dtype in FLOATS else "arith"
            rec.case(G, "lax." + name, [a, b], tol=tol)
        make = lambda d: [uniform(name + "gn", (5,), d, -20, 20), uniform(name + "gd", (5,), d, 1.5, 6)]
        derivatives(rec, "lax." + name, ["float32", "float64"] + (["complex64"] if name == "div" else []), make,
                    2 if name == "div" else 1, "arith")
        grid = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0])
        a, b = (v.ravel() for v in np.meshgrid(grid, grid))
        rec.case(G, "lax." + name, [a.astype(np.float32), b.astype(np.float32)], tol="arith", note="special")
        for dtype in ("int32", "uint32", "int8", "int64"):
            low = np.iinfo(dtype).min
            rec.case(G, "lax." + name, [np.array([low, 7, -7 if low else 7, 0], dtype), np.array([-1 if low else 1, 0, 0, 0], dtype)],
                     tol="exact", note="by-zero")


def shifts(rec):
    for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
        for dtype in INTS:
            bits = np.iinfo(dtype).bits
            amounts = np.array([0, 1, 3, bits - 1, bits, bits + 5], dtype)
            rec.case(G, "lax." + name, [full_range(name + dtype, (6,), dtype), amounts], tol="exact")


def special_functions(rec):
    for dtype in FLOATS:
        a, x = uniform("ig-a" + dtype, (7,), dtype, 0.3, 5), uniform("ig-x" + dtype, (7,), dtype, 0.2, 6)
        b = uniform("beta-b" + dtype, (7,), dtype, 0.3, 4)
        u = uniform("beta-x" + dtype, (7,), dtype, 0.05, 0.95)
        rec.case(G, "lax.igamma", [a, x], tol="special")
        rec.case(G, "lax.igammac", [a, x], tol="special")
        rec.case(G, "lax.igamma_grad_a", [a, x], tol="special", may_fail=True)
        rec.case(G, "lax.random_gamma_grad", [a, x], tol="special", may_fail=True)
        rec.case(G, "lax.betainc", [a, b, u], tol="special")
    for dtype in ("float32", "float64"):
        q = uniform("zeta-q" + dtype, (6,), dtype, 0.5, 4)
        rec.case(G, "lax.zeta", [uniform("zeta-x" + dtype, (6,), dtype, 1.5, 6), q], tol="special")
        rec.case(G, "lax.polygamma", [np.array([0, 1, 2, 3, 1, 2], dtype), q], tol="special")
        a, x = uniform("ig-a" + dtype, (5,), dtype, 0.3, 5), uniform("ig-x" + dtype, (5,), dtype, 0.2, 6)
        u = uniform("beta-x" + dtype, (5,), dtype, 0.05, 0.95)
        rec.case(G, "lax.igamma", [a, x], kind="vjp", tol="special")
        rec.case(G, "lax.igammac", [a, x], kind="vjp", tol="special")
        rec.case(G, "lax.betainc", [a, x, u], kind="vjp", wrt=[2], tol="special")
        rec.case(G, "lax.polygamma", [np.array([1, 2, 1, 2, 3], dtype), a], kind="vjp", wrt=[1], tol="special")
    edge = np.array([0.0, 1.0, np.inf, np.nan, 2.0], np.float32)
    rec.case(G, "lax.igamma", [edge, edge[::-1].copy()], tol="special", note="special")
    rec.case(G, "lax.igammac", [edge, edge[::-1].copy()], tol="special", note="special")


def selects(rec):
    for dtype in ["bool"] + INTS + FC:
        which = uniform("which" + dtype, (2, 3), "bool")
        a, b = uniform("sa" + dtype, (2, 3), dtype, -9, 9), uniform("sb" + dtype, (2, 3), dtype, -9, 9)
        rec.case(G, "lax.select_n", [which, a, b], tol="exact")
        rec.case(G, "jnp.where", [which, a, b], tol="exact")
    three = [uniform(f"s3{i}", (5,), "float32") for i in range(3)]
    rec.case(G, "lax.select_n", [np.array([0, 2, 1, 2, 0], np.int32), *three], tol="exact")
    rec.case(G, "lax.select_n", [np.array([0, 2, 1, 2, 0], np.int32), *three], kind="vjp", tol="exact")
    rec.case(G, "lax.select_n", [np.bool_(True), three[0], three[1]], tol="exact")
    rec.case(G, "jnp.where", [np.bool_(False), three[0], three[1]], kind="vjp", tol="exact")
    for dtype in INTS + FLOATS:
        lo, hi = np.array(2, np_dtype(dtype)), np.array(5, np_dtype(dtype))
        rec.case(G, "lax.clamp", [lo, uniform("cl" + dtype, (7,), dtype, -3, 9), hi], tol="exact")
    x = distinct("clg", (6,), "float32")
    rec.case(G, "lax.clamp", [np.float32(-0.5), x, np.float32(0.6)], kind="vjp", wrt=[1], tol="exact")
    rec.case(G, "lax.clamp", [x - 1, x * 2, x + 1], tol="exact")
    rec.case(G, "lax.clamp", [np.float32(0), np.array([np.nan, -np.inf, np.inf, 0.5], np.float32), np.float32(1)],
             tol="exact", note="special")
