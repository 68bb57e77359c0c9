# SPDX-License-Identifier: Apache-2.0
"""Options of reductions (`where`, `initial`, factors), reductions over segments, learning rate schedules."""
import numpy as np

from inputs import uniform

G = "options"


def record(rec):
    masks(rec)
    segments(rec)
    schedules(rec)


def masks(rec):
    start = {"sum": 1.5, "prod": 1.5, "max": -2.0, "min": 2.0, "nansum": 1.5, "nanprod": 1.5, "nanmax": -2.0, "nanmin": 2.0}
    names = list(start) + ["mean", "var", "std", "nanmean", "nanvar", "nanstd", "any", "all"]
    for name in names:
        for dtype in ("float32", "float64", "bfloat16", "int32", "complex64"):
            if dtype == "complex64" and name.lstrip("na") in ("max", "min", "var", "std"):
                continue
            x = uniform("where" + name + dtype, (3, 4), dtype, -3, 3)
            if name.startswith("nan") and dtype != "int32":
                x[1, 2] = x[0, 0] = np.nan
            for shape, params in (((3, 4), {"axis": 1}), ((4,), {"axis": 0, "keepdims": True}), ((3, 1), {})):
                mask = uniform("mask" + name + str(shape), shape, "bool")
                p = {"name": name, **params, **({"initial": start[name]} if name in start and dtype != "int32" else {})}
                if name in start and dtype == "int32":
                    p["initial"] = int(start[name])
                rec.case(G, "program.reduce_where", [x, mask], p, tol="reduce", may_fail=True)
            if dtype == "float32" and name not in ("any", "all", "prod", "nanprod"):
                p = {"name": name, "axis": 1, **({"initial": start[name]} if name in start else {})}
                rec.case(G, "program.reduce_where", [uniform("wg", (3, 4), dtype, -3, 3), uniform("wgm", (3, 4), "bool")],
                         p, "vjp", wrt=[0], tol="reduce")
    for dtype in ("float32", "float64"):
        x, b = uniform("lse" + dtype, (3, 4), dtype, -3, 3), uniform("lseb" + dtype, (3, 4), dtype, -1, 2)
        mask = uniform("lsem", (3, 4), "bool")
        for params in ({"axis": 1}, {"axis": 0, "keepdims": True}, {}):
            rec.case(G, "program.logsumexp_where", [x, mask], params, tol="reduce")
            rec.case(G, "program.logsumexp_b", [x, b], params, tol="reduce")
            rec.case(G, "program.logsumexp_sign", [x, b, mask], params, tol="reduce")
        rec.case(G, "program.logsumexp_b", [x, np.abs(b)], {"axis": 1}, "vjp", tol="reduce")


def segments(rec):
    ids = np.array([2, 0, 2, -1, 5, 3, 0, 2], np.int32)
    for name in ("sum", "prod", "max", "min"):
        for dtype in ("float32", "bfloat16", "int32", "uint8", "float64"):
            x = uniform("segment" + name + dtype, (8, 2), dtype, -3, 3)
            for count in (4, 6):
                for bucket in (None, 3):
                    rec.case(G, "program.segment", [x, ids], {"name": name, "num_segments": count, "bucket_size": bucket},
                             tol="reduce")
        rec.case(G, "program.segment", [uniform("segment" + name, (8,), "float32", 0.5, 2), ids],
                 {"name": name, "num_segments": 5, "bucket_size": None}, "vjp", wrt=[0], tol="reduce", may_fail=True)


def schedules(rec):
    steps = np.array([0, 1, 5, 9, 10, 11, 49, 50, 99, 100, 120], np.int32)
    for name, values in (("constant", [0.1]), ("linear", [0.1, 0.01, 50, 5]), ("polynomial", [0.1, 0.01, 2.0, 50, 5]),
                         ("piecewise", [0.3, 10, 0.5, 50, 0.1]), ("exponential", [0.3, 10, 0.9, 2]),
                         ("staircase", [0.3, 10, 0.9, 2, 0.2]), ("cosine", [0.3, 100, 0.1, 1.0]),
                         ("warmup_cosine", [0.01, 0.3, 10, 100, 0.03])):
        rec.case(G, "program.schedule", [steps], {"name": name, "values": values}, tol="trans")
