# SPDX-License-Identifier: Apache-2.0
"""sort, argsort, top_k, searchsorted and order statistics."""
import numpy as np

from inputs import COMPLEX, FLOATS, INTS, distinct, full_range, uniform

G = "sorting"


def record(rec):
    nan = np.array([3, np.nan, -1, np.inf, -0.0, 0.0, -np.inf, np.nan, 2], np.float32)
    for dtype in ["bool"] + INTS + FLOATS + COMPLEX:
        a = full_range("s" + dtype, (3, 7), dtype) if dtype in INTS else uniform("s" + dtype, (3, 7), dtype, -9, 9)
        rec.case(G, "lax.sort", [a], {"dimension": 1}, tol="exact")
        rec.case(G, "jnp.sort", [a], {"axis": 0}, tol="exact")
        rec.case(G, "jnp.argsort", [a], {"axis": -1}, tol="exact")
    small = uniform("ties", (9,), "int32", 0, 3)
    for shape in ((1,), (0,), (2, 0), (33,), (2, 3, 4)):
        rec.case(G, "lax.sort", [distinct("e", shape, "float32")], {"dimension": 0}, tol="exact")
        rec.case(G, "jnp.argsort", [distinct("e", shape, "float32")], {}, tol="exact")
    rec.case(G, "jnp.sort", [nan], {}, tol="exact", note="special")
    rec.case(G, "jnp.argsort", [nan], {}, tol="exact", note="special")
    rec.case(G, "jnp.sort", [nan.astype(np.float64)], {"descending": True}, tol="exact", note="special")
    rec.case(G, "jnp.sort", [np.array([1 + 2j, 1 - 1j, complex(np.nan, 0), -1 + 5j, 0], np.complex64)], {}, tol="exact", note="special")
    for d in (False, True):
        rec.case(G, "jnp.argsort", [small], {"stable": True, "descending": d}, tol="exact", note=f"ties{d}")
        rec.case(G, "jnp.sort", [distinct("d", (2, 5), "float32")], {"descending": d}, tol="exact")
    second = np.arange(9, dtype=np.float32)
    rec.case(G, "lax.sort", [small, second], {"dimension": 0, "is_stable": True, "num_keys": 1}, tol="exact")
    rec.case(G, "lax.sort", [small, -second], {"dimension": 0, "num_keys": 2}, tol="exact")
    rec.case(G, "lax.sort", [small.reshape(3, 3), second.reshape(3, 3), second.astype(np.int8).reshape(3, 3)],
             {"dimension": 0, "is_stable": True, "num_keys": 1}, tol="exact")
    rec.case(G, "lax.sort", [nan, np.arange(9, dtype=np.int32)], {"dimension": 0, "is_stable": True, "num_keys": 1}, tol="exact", note="special")
    for kind in ("vjp", "jvp"):
        rec.case(G, "lax.sort", [distinct("g", (3, 4), "float32")], {"dimension": 1}, kind, tol="reduce")
        rec.case(G, "lax.sort", [distinct("g", (5,), "float32"), uniform("h", (5,), "float32")], {"dimension": 0, "num_keys": 1}, kind,
                 tol="reduce")
        rec.case(G, "lax.top_k", [distinct("g", (3, 6), "float32")], {"k": 2}, kind, tol="reduce")
    rec.case(G, "jnp.sort", [distinct("g", (3, 4), "float32")], {"axis": 0}, "vjp", tol="reduce")
    rec.case(G, "lax.sort_key_val", [small, second], {"dimension": 0}, tol="exact")
    for dtype in INTS + FLOATS:
        rec.case(G, "lax.top_k", [uniform("k" + dtype, (2, 6), dtype, -9, 9)], {"k": 3}, tol="exact")
    for k in (0, 1, 5):
        rec.case(G, "lax.top_k", [distinct("k", (5,), "float32")], {"k": k}, tol="exact")
    rec.case(G, "lax.top_k", [np.array([1, 3, 3, 2, 3], np.int32)], {"k": 4}, tol="exact", note="ties")
    rec.case(G, "lax.top_k", [np.array([1, np.nan, 3, np.inf], np.float32)], {"k": 2}, tol="exact", note="special")
    grid = np.array([-1.5, 0, 0, 1.25, 3], np.float32)
    q = np.array([[-2, 0, 0.5], [3, 9, 1.25]], np.float32)
    for side in ("left", "right"):
        rec.case(G, "jnp.searchsorted", [grid, q], {"side": side}, tol="exact")
        rec.case(G, "jnp.searchsorted", [grid.astype(np.int32), np.int32(0)], {"side": side}, tol="exact")
        rec.case(G, "jnp.digitize", [q, grid], {"right": side == "right"}, tol="exact")
    rec.case(G, "jnp.searchsorted", [grid, np.array([np.nan, 0], np.float32)], {}, tol="exact", note="special")
    rec.case(G, "jnp.searchsorted", [np.zeros((0,), np.float32), q], {}, tol="exact", note="empty")
    statistics(rec)


def statistics(rec):
    a = distinct("stat", (3, 5), "float32")
    for p in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
        rec.case(G, "jnp.median", [a], p, tol="arith")
    rec.case(G, "jnp.median", [np.array([1, 4, 2, 9], np.int32)], {}, tol="arith")
    rec.case(G, "jnp.median", [np.array([1, np.nan, 2], np.float32)], {}, tol="arith", note="special")
    for method in ("linear", "lower", "higher", "nearest", "midpoint"):
        rec.case(G, "jnp.quantile", [a, np.array([0, 0.3, 0.5, 1], np.float32)], {"axis": 1, "method": method}, tol="trans")
    rec.case(G, "jnp.quantile", [a, np.float32(0.4)], {}, tol="trans")
    rec.case(G, "jnp.quantile", [a.astype(np.float64), np.float64(0.4)], {"axis": 0}, tol="trans")
    rec.case(G, "jnp.percentile", [a, np.float32(35)], {"axis": 0}, tol="trans")
    rec.case(G, "jnp.quantile", [a, np.float32(0.4)], {"axis": 1}, "vjp", wrt=[0], tol="trans")
    rec.case(G, "jnp.median", [a], {"axis": 1}, "vjp", tol="trans")
    v = uniform("hist", (20,), "float32", 0, 5)
    rec.case(G, "jnp.histogram", [v], {"bins": 5, "range": [0.0, 5.0]}, tol="arith")
    rec.case(G, "jnp.bincount", [uniform("bin", (12,), "int32", 0, 5)], {"length": 6}, tol="exact")
    rec.case(G, "jnp.unique", [uniform("bin", (12,), "int32", 0, 5)], {"size": 6, "fill_value": -1}, tol="exact")
    rec.case(G, "jnp.nonzero", [uniform("nz", (9,), "int32", 0, 2)], {"size": 6, "fill_value": -1}, tol="exact")
