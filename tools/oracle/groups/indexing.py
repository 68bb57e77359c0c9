# SPDX-License-Identifier: Apache-2.0
"""gather, scatter, take and indexed updates."""
import numpy as np

from inputs import COMPLEX, FLOATS, INTS, Scalar, distinct, np_dtype, uniform

G = "indexing"
I = np.int32


def x(shape, dtype="float32", tag=""):
    return distinct("index" + tag + str(shape), shape, dtype)


def idx(values, dtype="int32"):
    return np.array(values, dtype)


def record(rec):
    gathers(rec)
    scatters(rec)
    takes(rec)
    basic_index(rec)
    array_index(rec)
    updates(rec)
    modes(rec)
    masks(rec)


def both(rec, fn, args, params, wrt=None, note="", tol="exact"):
    rec.case(G, fn, args, params, tol=tol, note=note)
    rec.case(G, fn, args, params, "vjp", wrt, "reduce", note=note)


# operand shape, indices, offset_dims, collapsed, start_index_map, slice_sizes, batching dims (operand, indices)
GATHERS = [
    ((5,), [[0], [3], [4]], [], [0], [0], [1], [], []), ((4, 5), [[1, 2], [3, 0]], [], [0, 1], [0, 1], [1, 1], [], []),
    ((4, 5), [[2], [0], [2]], [1], [0], [0], [1, 5], [], []), ((4, 5), [[1], [3]], [0], [1], [1], [4, 1], [], []),
    ((4, 5), [[1, 1], [2, 2]], [1, 2], [], [0, 1], [2, 3], [], []), ((4, 5), [[1, 3], [4, 0]], [1], [0], [1, 0], [1, 2], [], []),
    ((3, 4, 5), [[[0, 1]], [[2, 3]]], [2], [0, 1], [0, 1], [1, 1, 5], [], []), ((2, 4), [[[1], [3]], [[0], [2]]], [], [1], [1], [1, 1], [0], [0]),
    ((5,), [[7], [-1], [2]], [], [0], [0], [1], [], []), ((4, 5), [[3, 4], [-1, -1]], [1, 2], [], [0, 1], [2, 3], [], []),
    ((4, 5), np.zeros((0, 1), np.int32), [1], [0], [0], [1, 5], [], []), ((6,), [2], [0], [], [0], [3], [], []),
]


def in_bounds(shape, i, start_dims, sizes):
    """Whether every slice lies inside: elsewhere the default mode promises nothing."""
    last = np.array([shape[d] - sizes[d] for d in start_dims])
    return bool(np.all((i >= 0) & (i <= last)))


def gather_params(offset, collapsed, start, sizes, ob, ib, mode=None, **kw):
    return {"dimension_numbers": {"offset_dims": offset, "collapsed_slice_dims": collapsed, "start_index_map": start,
                                  "operand_batching_dims": ob, "start_indices_batching_dims": ib},
            "slice_sizes": sizes, "mode": mode, **kw}


def gathers(rec):
    for shape, i, *dims in GATHERS:
        for mode in ("clip", "fill", "promise_in_bounds", None):
            i = idx(i)
            if mode in ("promise_in_bounds", None) and not in_bounds(shape, i, dims[2], dims[3]):
                continue
            params = gather_params(*dims, mode=mode)
            rec.case(G, "lax.gather", [x(shape), i], params, tol="exact", note=str(mode))
            if mode in ("clip", "fill"):
                rec.case(G, "lax.gather", [x(shape), i], params, "vjp", tol="reduce", note=str(mode))
    for dtype in ["bool"] + INTS + FLOATS + COMPLEX:
        a = uniform("gd" + dtype, (4, 3), dtype, -9, 9)
        rec.case(G, "lax.gather", [a, idx([[2], [9], [0]])], gather_params([1], [0], [0], [1, 3], [], [], "fill"), tol="exact")
    for dtype in ("int8", "uint8", "int64", "uint32"):
        rec.case(G, "lax.gather", [x((5, 2)), idx([[4], [1], [7]], dtype)], gather_params([1], [0], [0], [1, 2], [], [], "clip"), tol="exact")
    rec.case(G, "lax.gather", [x((5,)), idx([[9], [1]])], gather_params([], [0], [0], [1], [], [], "fill", fill_value=-7), tol="exact")


# operand shape, indices, updates shape, update_window_dims, inserted, scatter_dims_to_operand_dims
SCATTERS = [
    ((5,), [[0], [3], [4]], (3,), [], [0], [0]), ((4, 5), [[2], [0]], (2, 5), [1], [0], [0]), ((4, 5), [[1], [3]], (4, 2), [0], [1], [1]),
    ((4, 5), [[1, 1], [0, 2]], (2, 2, 3), [1, 2], [], [0, 1]), ((5,), [[7], [-1], [2]], (3,), [], [0], [0]),
    ((4, 5), [[3, 4], [-1, 0], [0, 0]], (3, 2, 3), [1, 2], [], [0, 1]), ((6,), [2], (3,), [0], [], [0]),
    ((4, 5), [[1, 2], [3, 0]], (2,), [], [0, 1], [0, 1]),
]


def scatters(rec):
    for shape, i, ushape, window, inserted, dims in SCATTERS:
        for name in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"):
            for mode in ("clip", "fill"):
                if name in ("scatter", "scatter_sub") and len(i) == 3 and mode == "clip" and len(shape) == 2:
                    continue  # overlapping windows: the winner is not defined
                dn = {"update_window_dims": window, "inserted_window_dims": inserted, "scatter_dims_to_operand_dims": dims}
                params = {"dimension_numbers": dn, "mode": mode}
                rec.case(G, "lax." + name, [x(shape), idx(i), x(ushape, tag="u")], params, tol="reduce", note=mode)
                if name in ("scatter", "scatter_add") and mode == "fill" or name == "scatter_add":
                    rec.case(G, "lax." + name, [x(shape), idx(i), x(ushape, tag="u")], params, "vjp", tol="reduce", note=mode)
    dn = {"update_window_dims": [], "inserted_window_dims": [0], "scatter_dims_to_operand_dims": [0]}
    for name in ("scatter_add", "scatter_mul", "scatter_max", "scatter_min"):
        for dtype in INTS + FLOATS + (COMPLEX if name in ("scatter_add", "scatter_mul") else []):
            a, u = uniform("sa" + dtype, (4,), dtype, 0, 5), uniform("su" + dtype, (5,), dtype, 0, 5)
            rec.case(G, "lax." + name, [a, idx([[1], [1], [3], [0], [1]]), u], {"dimension_numbers": dn, "mode": "clip"}, tol="reduce")
    rec.case(G, "lax.scatter_add", [x((4,)), np.zeros((0, 1), np.int32), np.zeros((0,), np.float32)], {"dimension_numbers": dn}, tol="exact")


def takes(rec):
    for axis, i in ((0, [2, 0, 3]), (1, [[1, -1], [0, 4]]), (None, [7, 19, 0]), (0, 2)):
        both(rec, "jnp.take", [x((4, 5)), idx(i)], {"axis": axis}, note=str(axis))
    for mode in ("clip", "fill", "wrap"):
        both(rec, "jnp.take", [x((4, 3)), idx([5, -1, -6, 1])], {"axis": 0, "mode": mode}, note=mode)
    rec.case(G, "jnp.take", [x((4, 3), "int32"), idx([5, -1])], {"axis": 0}, tol="exact")
    rec.case(G, "jnp.take", [x((4, 3)), idx([])], {"axis": 1}, tol="exact")
    both(rec, "jnp.take_along_axis", [x((3, 4)), idx([[0, 3], [1, 1], [2, -1]])], {"axis": 1})
    both(rec, "jnp.take_along_axis", [x((3, 4)), idx([[2, 0, 1, 2]])], {"axis": 0})
    rec.case(G, "jnp.take_along_axis", [x((3, 4)), idx([[9, 0], [1, -7], [2, 2]])], {"axis": 1}, tol="exact", note="out of range")
    rec.case(G, "jnp.take_along_axis", [x((5,)), idx([4, 0, 0])], {"axis": None}, tol="exact")
    rec.case(G, "jnp.take_along_axis", [x((3, 4), "int8"), idx([[0], [1], [2]], "uint8")], {"axis": 1}, tol="exact")


def sl(*v):
    return {"slice": list(v)}


BASIC = [[0], [-1], [sl(1, 3, None)], [sl(None, None, 2)], [sl(None, None, -1)], [sl(3, 0, -2)], [1, 2], [sl(None, None, None), 1], ["...", 0],
         ["newaxis", 1], [sl(-3, None, None), sl(None, -1, None)], [sl(2, 2, None)], [sl(None, 100, None)], [0, "newaxis", sl(1, None, 2)], ["..."], []]


def basic_index(rec):
    for n, index in enumerate(BASIC):
        both(rec, "index.get", [x((4, 5))], {"index": index}, note=str(n))
    both(rec, "index.get", [x((2, 3, 4))], {"index": [1, "...", sl(None, None, -2)]})
    rec.case(G, "index.get", [x((4, 5)), I(2)], {"index": [{"array": 0}]}, tol="exact", note="traced")
    rec.case(G, "index.get", [x((4, 5)), I(-1), I(3)], {"index": [{"array": 0}, {"array": 1}]}, tol="exact", note="traced")


# (shape, index items, index arrays)
ARRAYS = [
    ((4, 5), [{"array": 0}], [[2, 0, -1]]), ((4, 5), [{"array": 0}, {"array": 1}], [[0, 1, 3], [4, -5, 2]]),
    ((4, 5), [sl(None, None, None), {"array": 0}], [[[0, 1], [2, 4]]]), ((3, 4, 5), [{"array": 0}, sl(1, 3, None), {"array": 1}], [[0, 2], [1, 4]]),
    ((3, 4, 5), [sl(None, None, None), {"array": 0}, {"array": 1}], [[0, 2], [1, 4]]), ((4, 5), [{"array": 0}, 2], [[1, 1, 3]]),
    ((4, 5), ["newaxis", {"array": 0}], [[1, 2]]), ((4, 5), [{"array": 0}, {"array": 1}], [[[0], [1]], [[2, 3, 4]]]),
    ((4, 5), [{"array": 0}], [[7, -9, 1]]), ((4, 5), [{"array": 0}, sl(None, None, 2)], [[3, 0]]), ((6,), [{"array": 0}], [[]]),
]


def array_index(rec):
    for n, (shape, index, arrays) in enumerate(ARRAYS):
        args = [x(shape)] + [idx(a) for a in arrays]
        if n != 8:  # the default mode promises nothing outside
            both(rec, "index.get", args, {"index": index}, note=f"arrays{n}")
        if n == 8:
            both(rec, "index.get", args, {"index": index, "mode": "fill"}, note="fill")
    rec.case(G, "index.get", [x((4, 5), "int32"), idx([9, 1])], {"index": [{"array": 0}], "mode": "fill"}, tol="exact")


def updates(rec):
    for method in ("set", "add", "subtract", "multiply", "min", "max"):
        for n, index in enumerate(BASIC[:14]):
            y = np.empty((4, 5))[eval_index(index, [])]
            rec.case(G, "index." + method, [x((4, 5)), x(y.shape, tag="y")], {"index": index}, tol="reduce", note=str(n))
        for n, (shape, index, arrays) in enumerate(ARRAYS):
            if n == 8:
                y_shape = (3, 5)
            else:
                y_shape = np.empty(shape)[eval_index(index, [np.array(a, int) for a in arrays])].shape
            if method in ("set", "add"):
                args = [x(shape)] + [idx(a) for a in arrays] + [x(y_shape, tag="y")]
                unique = n != 5 or method == "add"
                if unique:
                    both(rec, "index." + method, args, {"index": index}, note=f"arrays{n}", tol="reduce")
        dup = [x((4,)), idx([1, 1, 3, 1]), x((4,), tag="d") + np.float32(0.1)]
        if method != "set":
            rec.case(G, "index." + method, dup, {"index": [{"array": 0}]}, tol="reduce", note="repeated")
        if method in ("set", "add", "multiply"):
            unique = [x((4,)), idx([2, 0, 3]), x((3,), tag="d")]
            if method != "multiply":
                rec.case(G, "index." + method, unique, {"index": [{"array": 0}]}, "jvp", tol="reduce")
            rec.case(G, "index." + method, [x((4, 5)), x((5,), tag="y")], {"index": [1]}, "vjp", tol="reduce")
        rec.case(G, "index." + method, [x((4, 3)), Scalar(2.5)], {"index": [1]}, tol="reduce", note="scalar")
        rec.case(G, "index." + method, [x((4, 3)), idx([2, 8, -1]), Scalar(2)], {"index": [{"array": 0}], "mode": "drop"}, tol="reduce",
                 note="drop")
        for dtype in ("int8", "uint32", "bfloat16", "float64"):
            rec.case(G, "index." + method, [uniform("u" + dtype, (5,), dtype, 0, 9), np.array(3, np_dtype(dtype))],
                     {"index": [sl(1, 4, None)]}, tol="reduce")
    rec.case(G, "index.set", [x((4,), "int32"), np.float32(2.75)], {"index": [1]}, tol="exact", note="cast")


def modes(rec):
    """Indices outside under every mode, reading and writing, at several places of the index."""
    a, out = x((4, 5)), idx([5, -1, 1, -6])
    for index, y_shape in (([{"array": 0}], (4, 5)), ([sl(None, None, None), {"array": 0}], (4, 4)), ([{"array": 0}, sl(1, 3, None)], (4, 2)),
                           ([sl(3, None, -2), {"array": 0}], (2, 4)), ([{"array": 0}, 2], (4,)), ([1, "newaxis", {"array": 0}], (4, 1))):
        for mode in ("clip", "fill", "promise_in_bounds"):
            rec.case(G, "index.get", [a, out], {"index": index, "mode": mode}, tol="exact", note=mode)
        rec.case(G, "index.get", [a, out], {"index": index, "mode": "fill", "fill_value": -7}, tol="exact", note="fill value")
        rec.case(G, "index.get", [a, out], {"index": index, "mode": "fill"}, "vjp", tol="reduce", note="fill")
        for method in ("set", "add", "multiply", "max"):
            for mode in ("clip", "drop", None):
                if method == "set" and mode == "clip":
                    continue  # two updates of one element
                rec.case(G, "index." + method, [a, out, x(y_shape, tag="y")], {"index": index, "mode": mode}, tol="reduce", note=str(mode))
        rec.case(G, "index.add", [a, out, x(y_shape, tag="y")], {"index": index}, "vjp", tol="reduce")
    for method in ("divide", "power"):
        for n, index in enumerate(([1], [sl(1, 3, None), 2], [sl(None, None, -2)])):
            y = np.abs(x(np.empty((4, 5))[eval_index(index, [])].shape, tag="y")) + np.float32(0.5)
            both(rec, "index." + method, [np.abs(a) + np.float32(0.5), y], {"index": index}, note=str(n), tol="arith")
        rec.case(G, "index." + method, [np.abs(a) + np.float32(0.5), idx([2, 0]), np.float32(2.5)], {"index": [{"array": 0}]}, tol="arith")
    for dtype, y in (("int32", np.float32(2.75)), ("uint8", np.int32(200)), ("float16", np.float32(1.5)), ("int8", np.int32(-3))):
        rec.case(G, "index.add", [uniform("cast" + dtype, (4,), dtype, 0, 9), y], {"index": [1]}, tol="exact", note="cast")
        rec.case(G, "index.multiply", [uniform("cast" + dtype, (4,), dtype, 0, 9), idx([2]), y], {"index": [{"array": 0}]}, tol="exact", note="cast")
    for dtype in ("int64", "uint32", "uint8", "int8"):
        rec.case(G, "index.get", [a, idx([3, 0, 2], dtype)], {"index": [{"array": 0}]}, tol="exact")


def masks(rec):
    a = x((4, 5))
    m1, m2 = np.array([True, False, True, False]), uniform("mask", (4, 5), "bool")
    for m in (m1, m2):
        for method in ("set", "add", "multiply", "min"):
            rec.case(G, "index." + method, [a, m, Scalar(2.5)], {"index": [{"array": 0}]}, tol="exact", note="mask")
        rec.case(G, "index.add", [a, m, np.float32(1.5)], {"index": [{"array": 0}]}, "vjp", [0, 2], tol="reduce", note="mask")


def eval_index(items, arrays):
    out = []
    for i in items:
        if isinstance(i, dict):
            out.append(slice(*i["slice"]) if "slice" in i else arrays[i["array"]])
        else:
            out.append(None if i == "newaxis" else Ellipsis if i == "..." else i)
    return tuple(out)
