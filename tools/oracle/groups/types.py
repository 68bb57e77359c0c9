# SPDX-License-Identifier: Apache-2.0
"""Conversion between dtypes, promotion of all pairs (weak types included), and bit casts."""
import numpy as np

from inputs import ALL, COMPLEX, FLOATS, INTS, Scalar, UNSIGNED, WeakArray, full_range, np_dtype, uniform

SPECIALS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -1.7, 2.5, 100.25, 127.9, 128.0, 255.5, 300.0, -129.0, 65504.0, 70000.0,
            2147483648.0, -3e9, 1e19, -1e19, 1e30, np.nan, np.inf, -np.inf]
FINE = [0.0, 1.0, -1.0, 0.5, -1.7, 2.5, 100.25, np.nan, np.inf, -np.inf]


def source(dtype):
    if dtype == "bool":
        return np.array([True, False, True])
    if dtype in INTS:
        info = np.iinfo(dtype)
        small = [v for v in (0, 1, 2, 100, 127, 128, 200, 255, 256, 1000, 32768, 65535, 65537, 2**24 + 1, 2**31, 2**32 + 5,
                             2**53 + 1, -1, -2, -100, -129, -32769) if info.min <= v <= info.max]
        return np.array(small + [info.min, info.max], dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype in COMPLEX:
            return np.array([1 + 2j, -0.5 + 0j, 0j, 3e5 - 1e-3j, complex(np.inf, 1)], dtype)
        return np.array(SPECIALS).astype(np_dtype(dtype))


def record(rec):
    for src in ALL:
        for dst in ALL:
            rec.case("convert", "lax.convert_element_type", [source(src)], {"new_dtype": dst}, tol="exact")
    for src, dst in (("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "complex64"), ("float64", "float32")):
        rec.case("convert", "lax.convert_element_type", [uniform("cv" + src, (5,), src)], {"new_dtype": dst}, "vjp", tol="exact")
    for e, m in ((5, 10), (8, 7), (4, 3), (5, 2), (8, 23), (8, 0)):
        x = np.array([1.0009766, 3.14159, -2.71828, 1e-5, 70000.0, 448.5, 0.0, 1e30, np.inf], np.float32)
        rec.case("convert", "lax.reduce_precision", [x], {"exponent_bits": e, "mantissa_bits": m}, tol="exact")
    rec.case("convert", "lax.reduce_precision", [uniform("rp", (5,), "float64")], {"exponent_bits": 8, "mantissa_bits": 7}, tol="exact")
    rec.case("convert", "lax.reduce_precision", [uniform("rp", (5,), "float32")], {"exponent_bits": 8, "mantissa_bits": 7},
             "vjp", tol="exact")
    bitcasts(rec)
    promotions(rec)
    operators(rec)


def bitcasts(rec):
    widths = {}
    for d in INTS + FLOATS:
        widths.setdefault(np_dtype(d).itemsize, []).append(d)
    for group in widths.values():
        for src in group:
            for dst in group:
                x = uniform("bc" + src, (2, 4), src, -5, 5) if src in FLOATS else full_range("bc" + src, (2, 4), src)
                if dst in FLOATS and src in INTS:  # small positive patterns: no NaN payload
                    x = (np.float32([1, 2.5, 3, 4, -5, 6, 7, 8]).astype(np_dtype(dst)).view(np_dtype(src))).reshape(2, 4)
                rec.case("convert", "lax.bitcast_convert_type", [x], {"new_dtype": dst}, tol="exact")
    for src, dst in (("float32", "uint8"), ("int32", "int16"), ("float64", "uint32"), ("int64", "uint16")):
        x = uniform("bw" + src, (2, 3), src, -5, 5)
        rec.case("convert", "lax.bitcast_convert_type", [x], {"new_dtype": dst}, tol="exact")
    rec.case("convert", "lax.bitcast_convert_type", [full_range("bn", (2, 4), "uint8")], {"new_dtype": "uint32"}, tol="exact")
    rec.case("convert", "lax.bitcast_convert_type", [full_range("bn", (3, 2), "uint16")], {"new_dtype": "int32"}, tol="exact")


def operand(dtype, tag):
    return uniform("prom" + dtype + tag, (3,), dtype, 1, 6)


def promotions(rec):
    scalars = {"py_bool": Scalar(True), "py_int": Scalar(3), "py_float": Scalar(2.5), "py_complex": Scalar(1 + 2j)}
    weak = {"weak_i": WeakArray(np.array([1, 2, 3], np.int32)), "weak_f": WeakArray(np.array([1.5, 2, 3], np.float32)),
            "weak_c": WeakArray(np.array([1 + 1j, 2, 3], np.complex64))}
    for a in ALL:
        for b in ALL:
            rec.case("promotion", "operator.add", [operand(a, "l"), operand(b, "r")])
        for name, s in {**scalars, **weak}.items():
            rec.case("promotion", "operator.mul", [operand(a, "l"), s], note=name)
            rec.case("promotion", "operator.add", [s, operand(a, "r")], note=name)
    for n, a in weak.items():
        for m, b in {**weak, **scalars}.items():
            rec.case("promotion", "operator.add", [a, b], note=n + m)


def operators(rec):
    """Python's operators on arrays: the result dtypes of division, powers, shifts and comparisons."""
    for op in ("truediv", "floordiv", "mod"):
        for dtype in INTS + FLOATS:
            a, b = operand(dtype, "n"), operand(dtype, "d")
            if dtype not in UNSIGNED:
                a = a * np.array([1, -1, -1], a.dtype)
                b = b * np.array([1, 1, -1], b.dtype)
            rec.case("promotion", "operator." + op, [a, b])
            rec.case("promotion", "operator." + op, [a, Scalar(2)])
        rec.case("promotion", "operator." + op, [operand("int32", "n"), Scalar(2.5)])
        rec.case("promotion", "operator." + op, [Scalar(7), operand("float32", "n")])
    for dtype in INTS + FLOATS + COMPLEX:
        rec.case("promotion", "operator.pow", [operand(dtype, "b"), Scalar(2)], tol="trans")
        rec.case("promotion", "operator.pow", [operand(dtype, "b"), Scalar(0.5)], tol="trans")
        rec.case("promotion", "operator.eq", [operand(dtype, "b"), operand("int32", "x")])
    for dtype in INTS:
        for op in ("lshift", "rshift"):
            rec.case("promotion", "operator." + op, [operand(dtype, "s"), Scalar(2)])
        for op in ("and_", "or_", "xor"):
            rec.case("promotion", "operator." + op, [operand(dtype, "s"), operand("int32", "y")], may_fail=dtype == "uint64")
        rec.case("promotion", "operator.invert", [operand(dtype, "s")])
        rec.case("promotion", "operator.neg", [operand(dtype, "s")])
        for op in ("lt", "le", "gt", "ge", "ne"):
            rec.case("promotion", "operator." + op, [operand(dtype, "s"), Scalar(3)])
    for fn in ("jnp.sin", "jnp.exp", "jnp.sqrt", "jnp.log"):
        for dtype in ["bool"] + INTS:
            rec.case("promotion", fn, [operand(dtype, "s")], tol="trans")
    rec.case("promotion", "operator.rshift", [np.array([-8, -1, 7], np.int32), Scalar(1)])
    rec.case("promotion", "operator.rshift", [np.array([2**32 - 8, 1, 7], np.uint32), Scalar(1)])
