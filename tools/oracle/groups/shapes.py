# SPDX-License-Identifier: Apache-2.0
"""Functions that move elements."""
import numpy as np

from inputs import COMPLEX, FLOATS, INTS, np_dtype, uniform

G = "shapes"
SWEEP = ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "complex64", "complex128"]


def x(shape, dtype="float32", tag=""):
    return uniform("shapes" + tag, shape, dtype, -9, 9)


def both(rec, fn, args, params, kinds=("value", "vjp"), **kw):
    for kind in kinds:
        rec.case(G, fn, args, params, kind, tol=kw.pop("tol", "exact") if kind == "value" else "arith", **kw)


def record(rec):
    for dtype in INTS + FLOATS + COMPLEX:
        rec.case(G, "lax.iota", [], {"dtype": dtype, "size": 5}, tol="exact")
        rec.case(G, "lax.broadcasted_iota", [], {"dtype": dtype, "shape": [2, 3], "dimension": 1}, tol="exact")
    rec.case(G, "lax.broadcasted_iota", [], {"dtype": "int32", "shape": [3, 0, 2], "dimension": 0}, tol="exact")
    layout(rec)
    padding(rec)
    slices(rec)
    joins(rec)
    dtype_sweep(rec)


def dtype_sweep(rec):
    for dtype in SWEEP:
        a = x((2, 3), dtype)
        rec.case(G, "lax.transpose", [a], {"permutation": [1, 0]}, tol="exact")
        rec.case(G, "lax.broadcast_in_dim", [a], {"shape": [2, 4, 3], "broadcast_dimensions": [0, 2]}, tol="exact")
        rec.case(G, "lax.reshape", [a], {"new_sizes": [3, 2]}, tol="exact")
        rec.case(G, "lax.rev", [a], {"dimensions": [1]}, tol="exact")
        rec.case(G, "lax.pad", [a, np.ones((), np_dtype(dtype))], {"padding_config": [[1, 0, 1], [-1, 2, 0]]}, tol="exact")
        rec.case(G, "lax.slice", [a], {"start_indices": [0, 1], "limit_indices": [2, 3]}, tol="exact")
        rec.case(G, "lax.concatenate", [a, a], {"dimension": 0}, tol="exact")
        rec.case(G, "lax.dynamic_slice", [a, np.int32(1), np.int32(1)], {"slice_sizes": [1, 2]}, tol="exact")
        rec.case(G, "lax.dynamic_update_slice", [a, x((1, 2), dtype, "u"), np.int32(1), np.int32(0)], tol="exact")
        rec.case(G, "jnp.tile", [a], {"reps": [2, 2]}, tol="exact")
        rec.case(G, "jnp.roll", [a], {"shift": 1, "axis": 1}, tol="exact")


def layout(rec):
    for shape, out, dims in (((), (3,), ()), ((3,), (2, 3), (1,)), ((3,), (3, 2), (0,)), ((1, 3), (4, 3), (0, 1)),
                             ((2, 1), (2, 5, 3), (0, 2)), ((0,), (2, 0), (1,)), ((2, 3), (2, 3), (0, 1))):
        both(rec, "lax.broadcast_in_dim", [x(shape)], {"shape": list(out), "broadcast_dimensions": list(dims)})
    both(rec, "jnp.broadcast_to", [x((3, 1))], {"shape": [2, 3, 4]})
    rec.case(G, "lax.broadcast", [x((2,))], {"sizes": [3, 1]}, tol="exact")
    for shape, new in (((6,), (2, 3)), ((2, 3), (6,)), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0)), ((2, 3, 4), (4, 6))):
        both(rec, "lax.reshape", [x(shape)], {"new_sizes": list(new)})
    rec.case(G, "lax.reshape", [x((2, 3))], {"new_sizes": [6], "dimensions": [1, 0]}, tol="exact")
    both(rec, "jnp.reshape", [x((2, 3, 4))], {"shape": [4, -1]})
    both(rec, "jnp.ravel", [x((2, 3))], {})
    for shape, perm in (((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4, 5), (0, 2, 1, 3)), ((), ()), ((3, 0), (1, 0))):
        both(rec, "lax.transpose", [x(shape)], {"permutation": list(perm)})
    rec.case(G, "jnp.transpose", [x((2, 3, 4))], {}, tol="exact")
    rec.case(G, "jnp.swapaxes", [x((2, 3, 4))], {"axis1": 0, "axis2": -1}, tol="exact")
    rec.case(G, "jnp.moveaxis", [x((2, 3, 4))], {"source": 0, "destination": -1}, tol="exact")
    rec.case(G, "jnp.moveaxis", [x((2, 3, 4))], {"source": [0, 1], "destination": [-1, 0]}, tol="exact")
    both(rec, "lax.squeeze", [x((1, 3, 1))], {"dimensions": [0, 2]})
    both(rec, "lax.squeeze", [x((1, 3, 1))], {"dimensions": [-1]})
    rec.case(G, "jnp.squeeze", [x((1, 3, 1))], {}, tol="exact")
    both(rec, "lax.expand_dims", [x((3,))], {"dimensions": [0, 2]})
    both(rec, "jnp.expand_dims", [x((3, 2))], {"axis": -1})
    both(rec, "lax.rev", [x((3, 4))], {"dimensions": [0, 1]})
    both(rec, "jnp.flip", [x((3, 4))], {"axis": 0})
    rec.case(G, "jnp.flip", [x((3, 4))], {}, tol="exact")
    for shift, axis in ((2, 0), (-1, 1), ([1, 2], [0, 1]), (3, None)):
        both(rec, "jnp.roll", [x((3, 4))], {"shift": shift, "axis": axis})
    both(rec, "jnp.rot90", [x((2, 3))], {}, kinds=("value",))
    for d in ("diagonal", "trace"):
        both(rec, "jnp." + d, [x((3, 4))], {"offset": 1}, tol="arith")
    rec.case(G, "jnp.diagonal", [x((2, 3, 4))], {"axis1": 1, "axis2": 2}, tol="exact")


def padding(rec):
    z = np.float32(7.5)
    for shape, config in (((4,), [[1, 2, 0]]), ((4,), [[-1, 2, 0]]), ((4,), [[0, 0, 2]]), ((5,), [[-2, -1, 1]]),
                          ((2, 3), [[1, 0, 1], [-1, 1, 2]]), ((0,), [[2, 1, 0]]), ((3, 0), [[0, 0, 0], [1, 1, 3]]), ((1,), [[-1, 0, 0]])):
        both(rec, "lax.pad", [x(shape), z], {"padding_config": config})
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        rec.case(G, "jnp.pad", [x((3, 4))], {"pad_width": [[1, 2], [2, 1]], "mode": mode}, tol="exact")
    both(rec, "jnp.pad", [x((3,))], {"pad_width": 2})
    rec.case(G, "jnp.pad", [x((3,))], {"pad_width": [[1, 2]], "mode": "constant", "constant_values": 4.0}, tol="exact")


def slices(rec):
    for shape, start, limit, strides in (((7,), [1], [6], None), ((7,), [1], [7], [2]), ((4, 5), [1, 0], [3, 5], [1, 3]),
                                         ((4,), [2], [2], None), ((3, 0), [0, 0], [2, 0], None), ((9,), [0], [9], [4])):
        both(rec, "lax.slice", [x(shape)], {"start_indices": start, "limit_indices": limit, "strides": strides})
    both(rec, "lax.slice_in_dim", [x((4, 5))], {"start_index": 1, "limit_index": 5, "stride": 2, "axis": 1})
    both(rec, "lax.index_in_dim", [x((4, 5))], {"index": -1, "axis": 0, "keepdims": False})
    for starts in ((1, 2), (-1, 0), (9, 9), (-100, 3)):
        for idx in ("int32", "uint8", "int64"):
            if idx == "uint8" and min(starts) < 0:
                continue
            i = [np.array(s, idx) for s in starts]
            rec.case(G, "lax.dynamic_slice", [x((4, 5)), *i], {"slice_sizes": [2, 3]}, tol="exact", note=str(starts))
            rec.case(G, "lax.dynamic_update_slice", [x((4, 5)), x((2, 3), tag="u"), *i], tol="exact", note=str(starts))
        i = [np.int32(s) for s in starts]
        rec.case(G, "lax.dynamic_slice", [x((4, 5)), *i], {"slice_sizes": [2, 3]}, "vjp", tol="exact", note=str(starts))
        rec.case(G, "lax.dynamic_update_slice", [x((4, 5)), x((2, 3), tag="u"), *i], {}, "vjp", tol="exact", note=str(starts))
    rec.case(G, "lax.dynamic_slice", [x((4,)), np.int32(1)], {"slice_sizes": [0]}, tol="exact")
    rec.case(G, "lax.dynamic_slice_in_dim", [x((4, 5)), np.int32(2)], {"slice_size": 2, "axis": 1}, tol="exact")
    rec.case(G, "lax.dynamic_index_in_dim", [x((4, 5)), np.int32(-1)], {"axis": 0, "keepdims": True}, tol="exact")
    rec.case(G, "lax.dynamic_update_slice_in_dim", [x((4, 5)), x((4, 2), tag="u"), np.int32(2)], {"axis": 1}, tol="exact")
    rec.case(G, "lax.dynamic_update_index_in_dim", [x((4, 5)), x((5,), tag="u"), np.int32(2)], {"axis": 0}, tol="exact")


def joins(rec):
    for shapes, dim in ((((2, 3), (2, 1)), 1), (((3,), (0,), (2,)), 0), (((1, 2), (3, 2), (2, 2)), 0), (((2, 3),), 1)):
        both(rec, "lax.concatenate", [x(s, tag=str(i)) for i, s in enumerate(shapes)], {"dimension": dim})
    both(rec, "jnp.concatenate", [x((2, 3)), x((2, 2), tag="b")], {"axis": -1})
    rec.case(G, "jnp.concatenate", [x((2,)), x((2,), "int32")], {"axis": 0}, tol="exact")
    both(rec, "jnp.stack", [x((2, 3)), x((2, 3), tag="b")], {"axis": 1})
    rec.case(G, "jnp.stack", [x((3,)), x((3,), "int8")], {"axis": 0}, tol="exact")
    rec.case(G, "jnp.vstack", [x((3,)), x((3,), tag="b")], tol="exact")
    rec.case(G, "jnp.hstack", [x((2, 3)), x((2, 1), tag="b")], tol="exact")
    both(rec, "lax.split", [x((5, 2))], {"sizes": [2, 0, 3], "axis": 0})
    both(rec, "jnp.split", [x((6, 2))], {"indices_or_sections": 3, "axis": 0})
    rec.case(G, "jnp.split", [x((2, 7))], {"indices_or_sections": [2, 5], "axis": 1}, tol="exact")
    rec.case(G, "jnp.array_split", [x((7,))], {"indices_or_sections": 3}, tol="exact")
    both(rec, "jnp.tile", [x((2, 3))], {"reps": [2, 1, 2]})
    both(rec, "jnp.repeat", [x((2, 3))], {"repeats": 2, "axis": 1})
    rec.case(G, "jnp.repeat", [x((3,))], {"repeats": 3}, tol="exact")
    rec.case(G, "jnp.meshgrid", [x((2,)), x((3,), tag="b")], {"indexing": "ij"}, tol="exact")
    rec.case(G, "jnp.meshgrid", [x((2,)), x((3,), tag="b")], {}, tol="exact")
