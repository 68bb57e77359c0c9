# SPDX-License-Identifier: Apache-2.0
"""Control flow, associative scans, and transformations inside programs."""
import numpy as np

from inputs import distinct, uniform

G = "control"


def x(shape, dtype="float32", tag=""):
    return uniform("control" + tag, shape, dtype, -1, 1)


def both(rec, fn, args, kinds=("value", "vjp", "jvp"), **kw):
    for kind in kinds:
        rec.case(G, "program." + fn, args, kind=kind, tol="reduce", **kw)


def record(rec):
    for flag in (True, False):
        for dtype in ("float32", "float64"):
            both(rec, "cond_branch", [np.bool_(flag), x((3,), dtype)], ("value", "vjp", "jvp", "grad2"), note=str(flag))
        both(rec, "cond_closure", [np.bool_(flag), x((3,)), x((3,), tag="y")], note=str(flag))
    for i in (0, 1, 2, -4, 9):
        both(rec, "switch_branch", [np.int32(i), x((3,))], note=str(i))
    rec.case(G, "program.switch_branch", [np.int32(1), x((3,), "float64")], kind="grad2", tol="reduce")
    both(rec, "while_double", [np.abs(x((3,))), np.float32(50)], ("value",))
    both(rec, "while_double", [np.abs(x((3,), "float64")), np.float64(50)], ("value",))
    both(rec, "while_jvp", [x((3,))], ("value", "jvp"))
    for n in (1, 7, 27):
        both(rec, "collatz", [np.int32(n)], ("value",), note=str(n))
    both(rec, "fori_power", [x((3,))])
    both(rec, "fori_power", [x((), "float64")], ("value", "vjp", "grad2"))
    both(rec, "fori_dynamic", [np.int32(3), x((5,))], ("value", "jvp"))
    both(rec, "fori_dynamic", [np.int32(0), x((5,))], ("value",))
    for fn in ("scan_cumulative", "scan_reverse"):
        for shape in ((4,), (4, 3), (1, 2), (0, 2)):
            both(rec, fn, [x(shape)], ("value", "vjp") if shape[0] else ("value",))
        both(rec, fn, [x((4,), "float64")], ("jvp", "grad2"))
    both(rec, "scan_rnn", [x((3, 3)), x((2, 3), tag="h"), x((4, 2, 3), tag="x")], ("value", "vjp", "jvp", "grad2"))
    both(rec, "scan_length", [x(())], ("value", "vjp", "jvp", "grad2"))
    both(rec, "scan_length", [np.array([0.3 + 0.2j], np.complex64)], ("value", "vjp"))
    both(rec, "scan_two", [x((5,)), x((5,), tag="b")], ("value", "vjp", "jvp", "grad2"))
    both(rec, "scan_nested", [x((3, 4))], ("value", "vjp", "jvp"))
    both(rec, "scan_cond", [x((6,))], ("value", "vjp"))
    both(rec, "map_rows", [x((4, 3))], ("value", "vjp"))
    for n in (1, 2, 5, 8):
        both(rec, "associative_sum", [x((n,))], ("value", "vjp"))
        both(rec, "associative_product_reverse", [x((n, 2))], ("value",))
        both(rec, "associative_affine", [x((n,)), x((n,), tag="b")], ("value", "vjp"))
    both(rec, "associative_max_axis1", [distinct("am", (2, 5), "float32")], ("value",))
    both(rec, "associative_matmul", [x((5, 2, 2))], ("value", "vjp"))
    both(rec, "custom_stop", [x((3,))], ("value", "vjp", "jvp"))
    both(rec, "checkpoint_block", [x((3,))], ("value", "vjp", "jvp"))
    both(rec, "vmap_scan", [x((2, 3))], ("value", "vjp"))
    both(rec, "vmap_cond", [np.array([True, False, True]), x((3,))], ("value", "vjp"))
    both(rec, "vmap_while", [np.array([1, 6, 27], np.int32)], ("value",))
    for fn in ("jacobian_rev", "jacobian_fwd", "hessian"):
        both(rec, fn, [x((3,))], ("value",))
        both(rec, fn, [x((3,), "float64")], ("value",))
