# SPDX-License-Identifier: Apache-2.0
"""jax.nn, layers and optimizer formulas."""
import numpy as np

from inputs import FLOATS, distinct, uniform

G = "nn"


def x(shape, dtype="float32", tag="", lo=-3, hi=3):
    return uniform("nn" + tag + str(shape), shape, dtype, lo, hi)


ACTIVATIONS = [("relu", {}), ("relu6", {}), ("gelu", {"approximate": True}), ("gelu", {"approximate": False}), ("silu", {}), ("swish", {}),
               ("elu", {}), ("elu", {"alpha": 0.5}), ("selu", {}), ("celu", {}), ("leaky_relu", {}), ("leaky_relu", {"negative_slope": 0.2}),
               ("softplus", {}), ("sigmoid", {}), ("log_sigmoid", {}), ("soft_sign", {}), ("hard_tanh", {}), ("hard_sigmoid", {}),
               ("hard_silu", {}), ("mish", {}), ("squareplus", {})]


def record(rec):
    for name, params in ACTIVATIONS:
        fn = "nn." + name
        for dtype in FLOATS:
            rec.case(G, fn, [x((7,), dtype)], params, tol="special")
        for dtype in ("float32", "float64"):
            rec.case(G, fn, [distinct(name, (6,), dtype, 0.7)], params, "vjp", tol="special")
        rec.case(G, fn, [distinct(name, (6,), "float32", 0.7)], params, "grad2", tol="special")
        rec.case(G, fn, [x((), tag="0")], params, tol="special")
    rec.case(G, "nn.relu", [np.zeros((2,), np.float32)], kind="vjp", tol="exact", note="kink")
    rec.case(G, "nn.softplus", [np.array([-200, 200, 0], np.float32)], tol="special", note="large")
    for name in ("softmax", "log_softmax", "logsumexp", "standardize", "glu"):
        fn = "nn." + name
        for dtype in FLOATS:
            rec.case(G, fn, [x((3, 4), dtype)], tol="special")
        for axis in (0, -1):  # JAX's standardize subtracts nearly equal numbers
            rec.case(G, fn, [x((2, 4, 2))], {"axis": axis}, tol="linalg" if name == "standardize" else "special")
        for dtype in ("float32", "float64"):
            rec.case(G, fn, [x((3, 4), dtype)], kind="vjp", tol="reduce")
        rec.case(G, fn, [x((3, 4), "float64")], kind="grad2", tol="reduce")
        if name != "glu":
            rec.case(G, fn, [np.array([[1000, 1, -1000], [0, 0, 0]], np.float32)], tol="special", note="large")
    rec.case(G, "nn.softmax", [np.array([-np.inf, 0, 1], np.float32)], tol="special", note="masked")
    for i, p in (([0, 2, 1], {"num_classes": 4}), ([[0], [5]], {"num_classes": 3}), ([-1, 1], {"num_classes": 2}), (1, {"num_classes": 3, "dtype": "int32"}),
                 ([0, 1], {"num_classes": 3, "axis": 0})):
        rec.case(G, "nn.one_hot", [np.array(i, np.int32)], p, tol="exact")
    layers(rec)


def layers(rec):
    for dtype in ("float32", "bfloat16"):
        args = [x((3, 6), dtype), x((6,), dtype, "g"), x((6,), dtype, "b")]
        for kind in ("value", "vjp", "jvp"):
            rec.case(G, "program.layer_norm", args, kind=kind, tol="reduce")
    q, k, v = (x((2, 4, 3), tag=t) for t in "qkv")
    for kind in ("value", "vjp", "grad2"):
        rec.case(G, "program.attention", [q, k, v], kind=kind, tol="reduce")
        rec.case(G, "program.mlp", [x((3, 4)), x((4,)), x((4, 2)), x((5, 3), tag="x")], kind=kind, tol="reduce")
        rec.case(G, "program.cross_entropy", [x((4, 5)), np.array([0, 3, 4, 1], np.int32)], kind=kind, tol="reduce")
    p, m, g = (x((4,), tag=t) for t in "pmg")
    rec.case(G, "program.sgd_momentum", [p, m, g], tol="trans")
    rec.case(G, "program.adam", [p, m, np.abs(m), np.float32(3), g], tol="trans")
    rec.case(G, "program.adam", [p, m * 0, m * 0, np.float32(0), g], tol="trans")
