# SPDX-License-Identifier: Apache-2.0
"""Deterministic inputs: every element is a hash of a name and its position, so cases never depend on each other."""
import zlib

import ml_dtypes
import numpy as np

BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
ALL = BOOL + INTS + FLOATS + COMPLEX


def np_dtype(name):
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def hash32(count, seed):
    """MurmurHash3's 32-bit finalizer of (i + seed * golden ratio)."""
    h = (np.arange(count, dtype=np.uint64) + np.uint64((seed * 0x9E3779B9) & 0xFFFFFFFF)).astype(np.uint32)
    h ^= h >> 16
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> 13
    h *= np.uint32(0xC2B2AE35)
    return h ^ (h >> 16)


def unit(count, seed):
    """Doubles in [0, 1) with 53 random bits."""
    hi, lo = hash32(count, seed).astype(np.uint64), hash32(count, seed ^ 0x5BD1E995).astype(np.uint64)
    return ((hi << np.uint64(21)) ^ (lo >> np.uint64(11))).astype(np.float64) / 2.0**53


def seed_of(text):
    return zlib.crc32(text.encode())


def uniform(name, shape, dtype, lo=-2.0, hi=2.0):
    """Values in [lo, hi) (integers: lo..hi-1; bool: coin flips; complex: both parts)."""
    count, seed, dt = int(np.prod(shape)), seed_of(name), np_dtype(dtype)
    u = unit(count, seed)
    if dtype == "bool":
        return (u < 0.5).reshape(shape)
    if dtype in COMPLEX:
        v = unit(count, seed ^ 0x12345)
        return ((lo + (hi - lo) * u) + 1j * (lo + (hi - lo) * v)).astype(dt).reshape(shape)
    if dtype in INTS:
        if dtype in UNSIGNED:
            lo = max(lo, 0)
        return np.array([int(np.floor(lo + (hi - lo) * x)) for x in u], dtype=dt).reshape(shape)
    return (lo + (hi - lo) * u).astype(dt).reshape(shape)


def full_range(name, shape, dtype):
    """Integers over all bit patterns."""
    count, seed = int(np.prod(shape)), seed_of(name)
    bits = hash32(count, seed).astype(np.uint64) << np.uint64(32) | hash32(count, seed ^ 0x777).astype(np.uint64)
    return bits.astype(np.uint64).astype(np_dtype(dtype)).reshape(shape)


def distinct(name, shape, dtype, step=0.37):
    """Values with clear gaps in shuffled order: no ties, no kinks near them."""
    count = int(np.prod(shape))
    order = np.argsort(hash32(count, seed_of(name)), kind="stable")
    v = (np.argsort(order, kind="stable") - count / 2 + 0.25) * step
    if dtype in COMPLEX:
        v = v + 1j * v[::-1]
    if dtype in INTS:
        v = np.argsort(order, kind="stable")
    return v.astype(np_dtype(dtype)).reshape(shape)


class Scalar:
    """A scalar written in the program: a Python bool, int, float or complex (weakly typed except bool)."""

    def __init__(self, value):
        self.value = value


class WeakArray:
    """An array whose type is weak, as arithmetic on Python scalars gives it."""

    def __init__(self, value):
        self.value = value


class Key:
    """A Threefry key, given by its two words."""

    def __init__(self, data):
        self.data = np.asarray(data, np.uint32)


def key(seed):
    return Key([(seed >> 32) & 0xFFFFFFFF, seed & 0xFFFFFFFF])
