# SPDX-License-Identifier: Apache-2.0
"""Bits in bytes, writing through masks and flat places, pieces of functions."""
import numpy as np

from inputs import full_range, uniform


def record(rec):
    g = "packing"
    case = lambda fn, args, p=None, note="": rec.case(g, "jnp." + fn, args, p, tol="exact", note=note)
    flags = full_range("packing", (3, 11), "int8") % 2
    for order in ("big", "little"):
        case("packbits", [flags], {"bitorder": order}, note=order)
        for axis in (0, 1, -1):
            case("packbits", [flags], {"axis": axis, "bitorder": order}, note=f"{order} {axis}")
    case("packbits", [flags != 0], {"axis": 1}, note="bool")
    case("packbits", [full_range("packing wide", (16,), "int32")], {}, note="int32")
    data = full_range("packing bytes", (2, 3), "uint8")
    for order in ("big", "little"):
        case("unpackbits", [data], {"bitorder": order}, note=order)
        for axis in (0, 1):
            for count in (None, 5, 30, -3):
                case("unpackbits", [data], {"axis": axis, "count": count, "bitorder": order}, note=f"{order} {axis} {count}")
    x = uniform("place", (3, 4), "float32")
    mask = x > 0
    case("place", [x, mask, np.array([7, 8, 9], np.float32)], {"inplace": False})
    case("place", [x, mask, np.arange(20, dtype=np.float32)], {"inplace": False}, note="more values")
    case("place", [x, ~mask, np.array([1, 2], np.int32)], {"inplace": False}, note="integers")
    places = np.array([0, 5, 11, -1, -12], np.int32)
    outside = np.array([0, 3, 12, 40, -13, -40], np.int32)
    values = np.array([7, 8, 9], np.float32)
    case("put", [x, places, values], {"inplace": False})
    for mode in (None, "clip", "wrap"):
        case("put", [x, outside, np.arange(6, dtype=np.float32)], {"inplace": False, "mode": mode}, note=f"outside {mode}")
        case("put", [np.arange(5, dtype=np.int32), np.array([0, 7, -7, -2], np.int32), np.array([10, 20, 30, 40], np.int32)],
             {"inplace": False, "mode": mode}, note=f"vector {mode}")
