# SPDX-License-Identifier: Apache-2.0
"""Reductions, cumulative functions and windows."""
import numpy as np

from inputs import COMPLEX, FLOATS, INTS, distinct, full_range, np_dtype, uniform

G = "reductions"


def record(rec):
    reduces(rec)
    numpy_reduces(rec)
    arg_reduces(rec)
    cumulative(rec)
    windows(rec)
    pooling(rec)


def reduces(rec):
    for name, dtypes in (("reduce_sum", INTS + FLOATS + COMPLEX), ("reduce_prod", INTS + FLOATS + COMPLEX),
                         ("reduce_max", ["bool"] + INTS + FLOATS), ("reduce_min", ["bool"] + INTS + FLOATS),
                         ("reduce_and", ["bool"] + INTS), ("reduce_or", ["bool"] + INTS), ("reduce_xor", ["bool"] + INTS)):
        fn = "lax." + name
        lo, hi = (0.5, 2) if name == "reduce_prod" else (-9, 9)
        for dtype in dtypes:
            a = uniform(name + dtype, (3, 5), dtype, lo, hi) if "and" not in name and "or" not in name else full_range(name, (3, 5), dtype)
            rec.case(G, fn, [a], {"axes": [1]}, tol="reduce")
            rec.case(G, fn, [a], {"axes": [0, 1]}, tol="reduce")
        edge = "float32" if "float32" in dtypes else "int32"
        for shape, axes in (((), []), ((3,), []), ((1,), [0]), ((0,), [0]), ((2, 0, 3), [1]), ((2, 0, 3), [0]), ((2, 3, 4), [0, 2])):
            a = uniform(name, shape, edge, lo, hi)
            rec.case(G, fn, [a], {"axes": axes}, tol="reduce")
        if edge == "float32":
            for dtype in ("float32", "float64"):
                a = distinct(name, (3, 4), dtype)
                rec.case(G, fn, [a], {"axes": [1]}, "vjp", tol="reduce")
                rec.case(G, fn, [a], {"axes": [0, 1]}, "jvp", tol="reduce")
            if name == "reduce_prod":
                rec.case(G, fn, [np.array([[2.0, 0, 3], [0, 0, 5]], np.float32)], {"axes": [1]}, "vjp", tol="reduce", note="zeros")
                rec.case(G, fn, [uniform("rp2", (4,), "float32", 0.5, 2)], {"axes": [0]}, "grad2", tol="reduce")
            rec.case(G, fn, [np.array([[1, np.nan, 2], [np.inf, 1, -np.inf], [np.inf, 2, 1]], np.float32)], {"axes": [1]},
                     tol="reduce", note="special")
    for name in ("reduce_max", "reduce_min"):
        rec.case(G, "lax." + name, [np.array([2, 5, 5, 1, 5, 1], np.float32)], {"axes": [0]}, "vjp", tol="reduce", note="ties")


def numpy_reduces(rec):
    for name in ("sum", "prod", "max", "min", "mean", "any", "all"):
        fn = "jnp." + name
        for dtype in ["bool"] + INTS + FLOATS + COMPLEX:
            if name in ("max", "min") and dtype in COMPLEX:
                continue
            a = uniform("np" + name + dtype, (2, 3), dtype, 0, 3)
            rec.case(G, fn, [a], {}, tol="reduce")
        a = uniform("np" + name, (2, 3, 4), "float32", -3, 3)
        rec.case(G, fn, [a], {"axis": -1, "keepdims": True}, tol="reduce")
        rec.case(G, fn, [a], {"axis": [0, 2]}, tol="reduce")
        rec.case(G, fn, [uniform("np", (), "float32")], {}, tol="reduce")
        if name not in ("max", "min", "any", "all"):
            rec.case(G, fn, [uniform("npi", (4,), "int8", -100, 100)], {"dtype": "float32"}, tol="reduce")
        if name not in ("any", "all"):
            rec.case(G, fn, [a], {"axis": 1}, "vjp", tol="reduce")
    for name in ("var", "std"):
        for dtype in ["int32"] + FLOATS + ["complex64"]:
            rec.case(G, "jnp." + name, [uniform(name + dtype, (3, 4), dtype, -3, 3)], {"axis": 0}, tol="reduce")
        a = uniform(name, (3, 5), "float32", -3, 3)
        rec.case(G, "jnp." + name, [a], {"ddof": 1, "keepdims": True}, tol="reduce")
        rec.case(G, "jnp." + name, [a], {"axis": 1}, "vjp", tol="reduce")
    a = np.array([[1, np.nan, 2], [4, 5, np.nan]], np.float32)
    for name in ("nansum", "nanmax", "nanmin", "nanmean"):
        rec.case(G, "jnp." + name, [a], {"axis": 1}, tol="reduce", may_fail=True)
    rec.case(G, "jnp.count_nonzero", [uniform("cnz", (3, 4), "int32", 0, 2)], {"axis": 1}, tol="exact")
    rec.case(G, "jnp.ptp", [uniform("ptp", (3, 4), "float32")], {"axis": 1}, tol="arith")
    rec.case(G, "jnp.average", [uniform("avg", (3, 4), "float32")], {"axis": 0}, tol="reduce")


def arg_reduces(rec):
    for name in ("argmax", "argmin"):
        for dtype in ["bool"] + INTS + FLOATS:
            a = uniform(name + dtype, (3, 5), dtype, -9, 9)
            rec.case(G, "lax." + name, [a], {"axis": 1, "index_dtype": "int32"}, tol="exact")
        rec.case(G, "lax." + name, [a], {"axis": 0, "index_dtype": "uint8"}, tol="exact")
        rec.case(G, "lax." + name, [a], {"axis": 0, "index_dtype": "int64"}, tol="exact")
        rec.case(G, "jnp." + name, [a], {}, tol="exact")
        rec.case(G, "jnp." + name, [a], {"axis": -1, "keepdims": True}, tol="exact")
        rec.case(G, "jnp." + name, [np.array([1, np.nan, 3, np.nan], np.float32)], {}, tol="exact", note="nan")
        rec.case(G, "jnp." + name, [np.array([4, 7, 7, 1, 1], np.int32)], {}, tol="exact", note="ties")
        rec.case(G, "jnp." + name, [np.array([np.inf, np.inf, -np.inf, -np.inf], np.float32)], {}, tol="exact", note="inf")


def cumulative(rec):
    for name, dtypes in (("cumsum", INTS + FLOATS + COMPLEX), ("cumprod", INTS + FLOATS + COMPLEX), ("cummax", INTS + FLOATS),
                         ("cummin", INTS + FLOATS), ("cumlogsumexp", FLOATS)):
        lo, hi = (0.5, 2) if name == "cumprod" else (-4, 4)
        for dtype in dtypes:
            rec.case(G, "lax." + name, [uniform(name + dtype, (2, 6), dtype, lo, hi)], {"axis": 1}, tol="reduce")
        for shape, axis, rev in (((5,), 0, True), ((4, 3), 0, False), ((4, 3), 0, True), ((1,), 0, False), ((0,), 0, False), ((2, 0), 1, False)):
            rec.case(G, "lax." + name, [uniform(name, shape, "float32", lo, hi)], {"axis": axis, "reverse": rev}, tol="reduce")
        for dtype in ("float32", "float64"):
            for rev in (False, True):
                rec.case(G, "lax." + name, [distinct(name, (5,), dtype)], {"axis": 0, "reverse": rev}, "vjp", tol="reduce")
            rec.case(G, "lax." + name, [distinct(name, (5,), dtype)], {"axis": 0}, "jvp", tol="reduce")
    rec.case(G, "jnp.cumsum", [uniform("jc", (2, 3), "int8", -9, 9)], {}, tol="reduce")
    rec.case(G, "jnp.cumsum", [uniform("jc", (2, 3), "float32")], {"axis": 0}, tol="reduce")
    rec.case(G, "jnp.cumprod", [uniform("jc", (2, 3), "float32")], {"axis": 1}, tol="reduce")
    rec.case(G, "jnp.cumsum", [uniform("jc", (4,), "bool")], {}, tol="reduce")


WINDOWS = [((6,), (2,), (1,), "VALID", None, None), ((6,), (3,), (2,), "SAME", None, None), ((7,), (2,), (1,), [[1, 2]], None, [3]),
           ((4, 5), (2, 2), (1, 2), "VALID", None, None), ((4, 5), (2, 3), (2, 1), [[0, 1], [1, 1]], None, None),
           ((5,), (3,), (1,), [[1, 1]], [2], None), ((0,), (2,), (1,), [[1, 1]], None, None), ((4, 4), (2, 2), (1, 1), "SAME", [1, 2], [2, 1])]


def windows(rec):
    for comp, init in (("add", 0), ("max", -np.inf), ("min", np.inf)):
        for shape, size, strides, padding, base, window in WINDOWS:
            params = {"computation": comp, "window_dimensions": list(size), "window_strides": list(strides),
                      "padding": padding, "base_dilation": base, "window_dilation": window}
            a = distinct("win" + comp, shape, "float32")
            rec.case(G, "lax.reduce_window", [a, np.float32(init)], params, tol="reduce")
            if base is None and (comp == "add" or window is None) and a.size:
                rec.case(G, "lax.reduce_window", [a, np.float32(init)], params, "vjp", wrt=[0], tol="reduce")
                rec.case(G, "lax.reduce_window", [a, np.float32(init)], params, "jvp", wrt=[0], tol="reduce")
        for dtype in ("float64", "bfloat16", "int32", "uint8"):
            start = init
            if dtype in INTS and not np.isfinite(init):
                start = np.iinfo(dtype).min if comp == "max" else np.iinfo(dtype).max
            rec.case(G, "lax.reduce_window", [uniform("wi" + dtype, (3, 4), dtype, 0, 4), np.array(start, np_dtype(dtype))],
                     {"computation": comp, "window_dimensions": [2, 2], "window_strides": [1, 1], "padding": "VALID"}, tol="reduce")


def pooling(rec):
    for fn in ("max_pool", "max_pool_overlap", "avg_pool"):
        for dtype in ("float32", "bfloat16"):
            a = distinct(fn, (2, 4, 5, 2), dtype, 0.25)
            rec.case(G, "program." + fn, [a], tol="reduce")
            rec.case(G, "program." + fn, [a], kind="vjp", tol="reduce")
        rec.case(G, "program." + fn, [distinct(fn, (1, 4, 4, 2), "float32")], kind="jvp", tol="reduce")
    rec.case(G, "program.max_pool", [np.ones((1, 4, 4, 1), np.float32)], kind="vjp", tol="reduce", note="ties")
