# SPDX-License-Identifier: Apache-2.0
"""Random numbers: keys and bits exactly, distributions within what decision D21 allows."""
import numpy as np

from inputs import FLOATS, INTS, Scalar, distinct, key, uniform

G = "random"
KEYS = [0, 1, 42, 2**32 - 1, 12345]


def record(rec):
    exact(rec)
    distributions(rec)
    structured(rec)


def exact(rec):
    case = lambda fn, k, p, *args, note="": rec.case(G, "random." + fn, [key(k), *args], p, tol="exact", note=note or str(k))
    for seed in (0, 1, 42, -1, 2**31 - 1):
        rec.case(G, "random.key", [Scalar(seed)], note=str(seed))
    for k in KEYS:
        case("split", k, {})
        case("split", k, {"num": 5})
        case("fold_in", k, {}, np.uint32(3))
        case("bits", k, {"shape": [4]})
    case("split", 3, {"num": [2, 3]})
    case("split", 3, {"num": 1})
    case("fold_in", 5, {}, np.int32(-1))
    case("fold_in", 5, {}, Scalar(7))
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        for shape in ([], [1], [0], [3], [7], [2, 3], [8], [33]):
            case("bits", 7, {"shape": shape, "dtype": dtype})
    for dtype in FLOATS:
        for shape in ([], [5], [3, 4]):
            case("uniform", 11, {"shape": shape, "dtype": dtype})
        case("uniform", 12, {"shape": [6], "dtype": dtype, "minval": -2.0, "maxval": 3.0})
    case("uniform", 13, {"shape": [4]})
    case("uniform", 13, {"shape": [2, 3], "minval": 1e-3, "maxval": 1.0})
    for dtype in INTS:
        lo = 0 if dtype.startswith("u") else -5
        case("randint", 14, {"shape": [9], "minval": lo, "maxval": 7, "dtype": dtype})
    case("randint", 15, {"shape": [2, 3], "minval": 0, "maxval": 10})
    case("randint", 15, {"shape": [5], "minval": 0, "maxval": 1})
    case("randint", 15, {"shape": [5], "minval": 3, "maxval": 3}, note="empty range")
    case("randint", 16, {"shape": [5], "minval": 0, "maxval": 2**31 - 1})
    case("randint", 16, {"shape": [5], "minval": -(2**31), "maxval": 2**31 - 1})
    case("randint", 16, {"shape": [5], "minval": 0, "maxval": 256, "dtype": "uint8"}, note="whole range")
    case("bernoulli", 17, {"shape": [20]})
    case("bernoulli", 17, {"p": 0.2, "shape": [20]})
    case("bernoulli", 17, {}, np.array([0.1, 0.5, 0.9, 1.0, 0.0], np.float32))
    for n in (1, 2, 8, 33):
        case("permutation", 18, {}, Scalar(n), note=str(n))
    case("permutation", 18, {}, distinct("perm", (5, 2), "float32"))
    case("permutation", 18, {"axis": 1}, distinct("perm", (2, 5), "float32"))
    case("choice", 19, {"shape": [5]}, Scalar(10))
    case("choice", 19, {"shape": [4], "replace": False}, Scalar(10))
    case("rademacher", 20, {"shape": [6], "dtype": "int32"})


def distributions(rec):
    case = lambda fn, k, p, *args, tol="trans", note="": rec.case(G, "random." + fn, [key(k), *args], p, tol=tol, note=note or str(k))
    near = (5e-7, 1e-7)
    for shape in ([], [5], [3, 4], [0]):
        case("normal", 21, {"shape": shape}, tol=near)
    for dtype in ("float16", "bfloat16", "float64"):
        case("normal", 21, {"shape": [6], "dtype": dtype})
        case("exponential", 26, {"shape": [4], "dtype": dtype})
        case("gumbel", 25, {"shape": [4], "dtype": dtype})
    case("normal", 22, {"shape": [4], "dtype": "complex64"})
    case("truncated_normal", 23, {"lower": -1.0, "upper": 2.0, "shape": [8]}, tol="special")
    case("truncated_normal", 23, {"lower": -0.5, "upper": 0.5, "shape": [3], "dtype": "float64"}, tol="special")
    for shape in ([6], [2, 3]):
        case("gumbel", 24, {"shape": shape})
        case("exponential", 24, {"shape": shape})
        case("laplace", 24, {"shape": shape})
        case("logistic", 24, {"shape": shape})
        case("cauchy", 24, {"shape": shape}, tol="special")
    logits = uniform("logits", (3, 5), "float32", -2, 2)
    case("categorical", 27, {}, logits)
    case("categorical", 27, {"axis": 0}, logits)
    case("categorical", 27, {"shape": [4, 3]}, logits)
    case("categorical", 28, {}, np.array([0.1, -np.inf, 2], np.float32))
    for a in (0.5, 1.0, 3.5):
        case("gamma", 29, {"shape": [4]}, np.float32(a), tol="linalg")
    case("gamma", 29, {}, np.array([0.3, 2, 7], np.float32), tol="linalg")
    case("beta", 30, {}, np.float32(0.7), np.float32(2), tol="linalg")
    case("dirichlet", 31, {}, np.array([0.5, 2, 3], np.float32), tol="linalg")
    case("poisson", 32, {"shape": [5]}, np.float32(3), tol="exact")
    case("t", 33, {"shape": [3]}, np.float32(4), tol="linalg")
    rec.case(G, "random.normal", [key(21)], {"shape": [8, 16]}, tol=near, note="many")


def structured(rec):
    for k in (0, 99):
        for fn in ("split_chain", "vmap_uniform"):
            rec.case(G, "program." + fn, [key(k)], tol="exact", note=str(k))
        rec.case(G, "program.scan_normal", [key(k)], tol=(5e-7, 1e-7), note=str(k))
