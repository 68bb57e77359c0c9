#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DLPack between Tessera and Python libraries in one process: NumPy, and JAX and PyTorch where they are installed.

usage: check_dlpack.py LIBRARY    (build/interop/libtessera_dlpack_module.so)
"""
import ctypes
import gc
import importlib.util
import sys
import weakref

import numpy as np

pythonapi = ctypes.pythonapi
pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
pythonapi.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
pythonapi.PyCapsule_New.restype = ctypes.py_object
pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# Capsules keep the pointer to their name.
USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}


class Given:
    """A tensor of Tessera's, as Python libraries take it."""

    def __init__(self, tensor: int, name: bytes = b"dltensor"):
        self.tensor, self.name = tensor, name

    def __dlpack__(self, **_):
        return pythonapi.PyCapsule_New(self.tensor, self.name, None)

    def __dlpack_device__(self):
        return 1, 0


class Library:
    def __init__(self, path: str):
        self.lib = ctypes.CDLL(path)
        self.lib.dlpack_error.restype = ctypes.c_char_p
        self.lib.dlpack_through.restype = ctypes.c_void_p
        self.lib.dlpack_through.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.lib.dlpack_through_versioned.restype = ctypes.c_void_p
        self.lib.dlpack_through_versioned.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.lib.dlpack_sum.restype = ctypes.c_double
        self.lib.dlpack_sum.argtypes = [ctypes.c_void_p, ctypes.c_int]

    def call(self, function, array, flag, name=b"dltensor"):
        capsule = array.__dlpack__() if name == b"dltensor" else array.__dlpack__(max_version=(1, 0))
        result = function(pythonapi.PyCapsule_GetPointer(capsule, name), flag)
        if error := self.lib.dlpack_error().decode():
            raise ValueError(error)
        pythonapi.PyCapsule_SetName(capsule, USED[name])  # the tensor is Tessera's now
        return result

    def through(self, array, copy=False) -> Given:
        return Given(self.call(self.lib.dlpack_through, array, int(copy)))

    def through_versioned(self, array, copy=False) -> Given:
        name = b"dltensor_versioned"
        return Given(self.call(self.lib.dlpack_through_versioned, array, int(copy), name), name)

    def sum(self, array, split=False) -> float:
        return self.call(self.lib.dlpack_sum, array, int(split))


def aligned(shape, dtype) -> np.ndarray:
    """NumPy aligns to 16 bytes; Tessera shares memory that is aligned to 64."""
    n = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(n + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + n].view(dtype).reshape(shape)


def address(a) -> int:
    return a.__array_interface__["data"][0]


def check_numpy(lib: Library) -> int:
    checks = 0
    for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
                  "float64", "complex64", "complex128"):
        a = aligned((8, 3), dtype)
        a[...] = np.arange(24).reshape(8, 3) % 2 if dtype == "bool" else np.arange(24).reshape(8, 3)
        back = np.from_dlpack(lib.through(a))
        assert back.dtype == a.dtype and np.array_equal(back, a), dtype
        assert address(back) == address(a), f"{dtype}: the memory is shared both ways"
        copied = np.from_dlpack(lib.through(a, copy=True))
        assert address(copied) != address(a) and np.array_equal(copied, a), dtype
        assert lib.sum(a) == lib.sum(a, split=True) == float(a.astype("float64" if "complex" not in dtype else dtype).sum().real)
        checks += 1
    # Strided, transposed, reversed and empty arrays, and rank 0.
    a = np.arange(24.0).reshape(4, 6)
    for b in (a.T, a[::2, 1::2], a[::-1], a[:0], np.array(3.0), np.lib.stride_tricks.as_strided(np.arange(3.0), (2, 3), (0, 8))):
        assert np.array_equal(np.from_dlpack(lib.through(b)), b), b
        checks += 1
    # The memory lives as long as somebody reads it, and no longer.
    class Owner(np.ndarray):
        pass
    owner = aligned((64,), "float32").view(Owner)
    owner[:] = 7
    gone = weakref.ref(owner)
    back = np.from_dlpack(lib.through(owner))
    del owner
    gc.collect()
    assert gone() is not None and back.sum() == 448
    del back
    gc.collect()
    assert gone() is None, "the deleter was called"
    return checks + 1


def check_other(lib: Library, name: str, make, read) -> int:
    checks = 0
    for dtype in ("int8", "int32", "uint8", "float16", "bfloat16", "float32"):
        a = make(dtype)
        back = read(lib.through(a))
        assert str(back.dtype).endswith(dtype) and (back == a).all(), (name, dtype)
        assert lib.sum(a) == lib.sum(a, split=True) == 28, (name, dtype)
        checks += 1
    return checks


def check_torch(lib: Library) -> int:
    import torch
    checks = check_other(lib, "PyTorch", lambda t: torch.arange(8).to(getattr(torch, t)), torch.from_dlpack)
    for dtype in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16",
                  "float32", "float64", "complex64", "complex128"):
        a = torch.arange(24).reshape(8, 3).to(getattr(torch, dtype))
        assert a.data_ptr() % 64 == 0, "PyTorch aligns as Tessera does"
        for through in (lib.through, lib.through_versioned):
            back = torch.from_dlpack(through(a))
            assert back.dtype == a.dtype and torch.equal(back, a), dtype
            assert back.data_ptr() == a.data_ptr(), f"{dtype}: the memory is shared both ways"
            copied = torch.from_dlpack(through(a, copy=True))
            assert copied.data_ptr() != a.data_ptr() and torch.equal(copied, a), dtype
        checks += 1
    a = torch.arange(24.0).reshape(4, 6)
    for b in (a.T, a[::2, 1::2], a[1:], a[:0], torch.tensor(3.0), torch.arange(3.0).expand(2, 3)):
        assert torch.equal(torch.from_dlpack(lib.through(b)), b), b
        assert torch.equal(torch.from_dlpack(lib.through_versioned(b)), b), b
        checks += 1
    # The storage lives as long as somebody reads it.
    owner = torch.full((64,), 7.0)
    gone = weakref.ref(owner.untyped_storage())
    back = torch.from_dlpack(lib.through(owner))
    del owner
    gc.collect()
    assert back.sum() == 448
    del back
    gc.collect()
    assert gone() is None, "the deleter was called"
    return checks + 1


def main() -> int:
    lib = Library(sys.argv[1])
    done = {"NumPy": check_numpy(lib)}
    if importlib.util.find_spec("jax"):
        import jax
        import jax.numpy as jnp
        done["JAX"] = check_other(lib, "JAX", lambda t: jnp.arange(8).astype(t), jax.dlpack.from_dlpack)
    if importlib.util.find_spec("torch"):
        done["PyTorch"] = check_torch(lib)
    print("dlpack: " + ", ".join(f"{n} cases with {name}" for name, n in done.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
