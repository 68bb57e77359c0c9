# SPDX-License-Identifier: Apache-2.0
"""Arrays as the recordings keep them, how far two may lie apart, and whether they do."""
import re

import numpy as np

# Types that NumPy lacks are stored as wider ones.
NARROW = {"bfloat16": np.float32, "int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8}

DEFAULT_TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-10, "complex64": 2e-5,
                     "complex128": 1e-10}
NARROWEST = 0.13  # floats of 8 bits and fewer
MLIR_FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


def plain(x):
    """An array of a NumPy dtype."""
    if str(getattr(x, "dtype", "")).startswith("key<"):
        import jax
        x = jax.random.key_data(x)
    if str(getattr(x, "dtype", "")) in ("float0", "[('float0', 'V')]"):
        return np.zeros(np.shape(x), np.bool_)
    x = np.asarray(x)
    name = x.dtype.name
    if name in NARROW:
        return x.astype(NARROW[name])
    if name.startswith("float") and name not in ("float16", "float32", "float64"):
        return x.astype(np.float32)
    return x


def tolerance_of(name):
    return DEFAULT_TOLERANCE.get(name, NARROWEST if name.startswith("float") else 0.0)


def default_tolerance(outs):
    return max((tolerance_of(getattr(o, "dtype", np.dtype("int32")).name) for o in outs), default=0.0)


def program_tolerance(text):
    """The tolerance of the shortest float that a module's text computes with: results may be wider than it."""
    found = set(re.findall(r"[<x](f\d+\w*|bf16)[>,]", text))
    return max((tolerance_of(MLIR_FLOATS.get(f, "float8")) for f in found), default=0.0)


def difference(got, want, tolerance):
    """Where two arrays differ, or ""."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if not np.issubdtype(want.dtype, np.inexact):
        bad = got != want
    else:
        bad = ~np.isclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not bad.any():
        return ""
    i = int(np.argmax(bad.ravel()))
    return (f"{np.count_nonzero(bad)} of {bad.size} elements differ; element {i} is {got.ravel()[i]}, "
            f"expected {want.ravel()[i]}")
