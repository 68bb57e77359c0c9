# SPDX-License-Identifier: Apache-2.0
"""First values of parameters, and functions of jax.lax that are formulas over its primitives."""
import numpy as np

from inputs import FLOATS, INTS, full_range, key, uniform


def record(rec):
    initializers(rec)
    lax_formulas(rec)


def initializers(rec):
    g = "initializers"
    case = lambda fn, p, tol="special", note="": rec.case(g, "initializers." + fn, [key(5)], p, tol=tol, note=note or str(p.get("shape")))
    for fn in ("uniform", "normal", "truncated_normal"):
        case(fn, {"shape": [3, 4]})
        case(fn, {"shape": [5], "dtype": "float64"})
    case("uniform", {"shape": [2, 3], "scale": 2.5})
    case("normal", {"shape": [2, 3], "stddev": 0.5})
    case("truncated_normal", {"shape": [2, 3], "stddev": 0.5, "lower": -1.0, "upper": 0.5})
    for family in ("glorot", "lecun", "he", "xavier", "kaiming"):
        for kind in ("uniform", "normal"):
            case(f"{family}_{kind}", {"shape": [4, 6]})
            case(f"{family}_{kind}", {"shape": [3, 3, 2, 5]})
    case("he_normal", {"shape": [4, 6], "dtype": "bfloat16"})
    case("glorot_uniform", {"shape": [4, 6], "in_axis": 1, "out_axis": 0}, note="axes")
    case("lecun_normal", {"shape": [2, 4, 6], "batch_axis": 0}, note="batch")
    for mode in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        for distribution in ("truncated_normal", "normal", "uniform"):
            case("variance_scaling", {"shape": [3, 5], "scale": 1.5, "mode": mode, "distribution": distribution},
                 note=f"{mode}-{distribution}")
    for shape in ([4, 4], [3, 5], [5, 3], [2, 2, 3]):
        case("orthogonal", {"shape": shape}, tol="linalg")
    case("orthogonal", {"shape": [3, 5], "column_axis": 0, "scale": 2.0}, tol="linalg", note="axis")
    for shape in ([3, 2, 4], [4, 3, 3, 3], [3, 1, 2, 2, 2]):
        case("delta_orthogonal", {"shape": shape}, tol="linalg")


# Shapes, contracted and batch dimensions of both sides, the ragged one, that of groups, and group sizes.
RAGGED = [((7, 3), (3, 3, 4), [[1], [1]], [[], []], [0], [0], [2, 4, 1]),
          ((7, 3), (3, 4, 3), [[1], [0]], [[], []], [0], [2], [2, 0, 3]),  # groups last, rows behind them
          ((2, 7, 3), (2, 3, 3, 4), [[2], [2]], [[0], [0]], [1], [1], [[2, 4, 1], [0, 3, 4]]),
          ((7, 3, 2), (3, 2, 3, 4), [[1], [2]], [[2], [1]], [0], [0], [5, 1, 1]),
          ((2, 6, 3), (3, 3, 4), [[2], [1]], [[], []], [1], [0], [[1, 2, 3], [3, 3, 0]]),  # a free dimension outside
          ((2, 3, 5, 4), (3, 2, 4, 3, 2), [[3], [2]], [[1, 0], [3, 1]], [2], [0], [[[2, 1, 2], [0, 5, 0]], [[1, 1, 1], [2, 2, 1]], [[0, 0, 0], [3, 0, 2]]]),
          ((7, 3), (7, 4), [[0], [0]], [[], []], [0], [], [2, 4, 1]),
          ((3, 8), (4, 8), [[1], [1]], [[], []], [1], [], [3, 0, 2, 1]),
          ((2, 7, 3), (7, 4, 2), [[1], [0]], [[0], [2]], [1], [], [[2, 4, 1], [1, 1, 1]]),
          ((2, 5, 3), (5, 2, 4), [[0, 1], [1, 0]], [[], []], [1], [], [[2, 3], [4, 1]]),  # a contracted dimension outside
          ((3, 2, 4), (3, 4, 5), [[2], [1]], [[0], [0]], [0], [], [2, 1])]


def ragged_products(case):
    for dtype in ("float32", "float64"):
        for lhs, rhs, contract, batch, ragged, group, sizes in RAGGED:
            args = [uniform("ragged general l", lhs, dtype), uniform("ragged general r", rhs, dtype), np.array(sizes, np.int32)]
            p = {"dimension_numbers": [contract, batch], "lhs_ragged_dimensions": ragged, "rhs_group_dimensions": group}
            for kind in ("value", "vjp"):
                case("ragged_dot_general", args, p, kind=kind, tol="reduce", note=str(sizes), may_fail=kind == "vjp")
    lhs, rhs, contract, batch, ragged, group, sizes = RAGGED[0]
    args = [uniform("ragged general l", lhs, "bfloat16"), uniform("ragged general r", rhs, "bfloat16"), np.array(sizes, np.uint8)]
    case("ragged_dot_general", args, {"dimension_numbers": [contract, batch], "lhs_ragged_dimensions": ragged,
                                      "rhs_group_dimensions": group, "preferred_element_type": "float32"}, tol="reduce")


def lax_formulas(rec):
    g = "extras"
    case = lambda fn, args, p=None, **k: rec.case(g, "lax." + fn, args, p, **k)
    keys = np.array([3, 1, 2, 1, 0], np.int32)
    case("sort_key_val", [keys, uniform("skv", (5,), "float32")])
    case("sort_key_val", [uniform("skv2", (3, 4), "float32"), np.arange(12, dtype=np.int32).reshape(3, 4)], {"dimension": 0})
    x = uniform("approx", (3, 8), "float32")
    case("approx_max_k", [x], {"k": 3})
    case("approx_min_k", [x], {"k": 3})
    for dtype in INTS:
        case("mulhi", [full_range("mulhi a", (16,), dtype), full_range("mulhi b", (16,), dtype)], tol="exact")
    for dtype in ("float32", "bfloat16", "float64"):
        lhs, rhs = uniform("ragged l", (7, 3), dtype), uniform("ragged r", (3, 3, 4), dtype)
        for sizes in ([2, 4, 1], [0, 3, 2], [7, 0, 0]):
            for kind in ("value", "vjp"):
                case("ragged_dot", [lhs, rhs, np.array(sizes, np.int32)], kind=kind, tol="reduce", note=str(sizes))
    ragged_products(case)
    for dtype in FLOATS:
        image = uniform("patches", (2, 3, 6, 5), dtype)
        case("conv_general_dilated_patches", [image],
             {"filter_shape": [2, 3], "window_strides": [1, 2], "padding": "SAME"})
    image = uniform("patches", (2, 3, 6, 5), "float32")
    for kind in ("value", "vjp"):
        case("conv_general_dilated_patches", [image],
             {"filter_shape": [3, 2], "window_strides": [2, 1], "padding": [[1, 0], [0, 2]], "rhs_dilation": [1, 2]},
             kind=kind)
    case("conv_general_dilated_patches", [uniform("patches last", (2, 6, 5, 3), "float32")],
         {"filter_shape": [2, 2], "window_strides": [1, 1], "padding": "VALID",
          "dimension_numbers": ["NHWC", "HWIO", "NHWC"]})
    case("conv_general_dilated_patches", [uniform("patches 1d", (2, 4, 9), "float32")],
         {"filter_shape": [3], "window_strides": [2], "padding": "VALID"})
