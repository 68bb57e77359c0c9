# SPDX-License-Identifier: Apache-2.0
"""The library's plain C functions (pjrt/python_api.h)."""
import ctypes
import functools
import json
import os

from . import _library


class HostArray(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32),
                ("dtype", ctypes.c_int32), ("narrow", ctypes.c_char_p)]


HostCallback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(HostArray), ctypes.c_int32,
                                ctypes.POINTER(HostArray), ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)


ShardingCallback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                    ctypes.c_int32)


class FfiTarget(ctypes.Structure):
    _fields_ = [(stage, ctypes.c_void_p) for stage in ("instantiate", "prepare", "initialize", "execute")]


FfiTargets = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(FfiTarget))


@functools.cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(_library.path())
    lib.tessera_comm_plan.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64]
    lib.tessera_comm_plan.restype = ctypes.c_char_p
    lib.tessera_set_host_callback.argtypes = [HostCallback]
    lib.tessera_set_host_callback.restype = None
    lib.tessera_set_sharding_callback.argtypes = [ShardingCallback]
    lib.tessera_set_sharding_callback.restype = None
    lib.tessera_set_ffi_targets.argtypes = [FfiTargets]
    lib.tessera_set_ffi_targets.restype = None
    lib.tessera_set_comm_budget.argtypes = [ctypes.c_int64]
    lib.tessera_set_comm_budget.restype = ctypes.c_int64
    lib.tessera_begin_trace.argtypes = [ctypes.c_char_p]
    lib.tessera_begin_trace.restype = ctypes.c_char_p
    lib.tessera_end_trace.argtypes = [ctypes.c_int64]
    lib.tessera_end_trace.restype = ctypes.c_char_p
    return lib


def _answer(text: bytes) -> dict:
    answer = json.loads(text)
    if "error" in answer:
        raise RuntimeError(f"tessera: {answer['error']}")
    return answer


def comm_plan(module: bytes, devices: int) -> dict:
    """Raises `RuntimeError` with the library's reason where the module cannot be read or partitioned."""
    return _answer(library().tessera_comm_plan(module, len(module), devices))


def begin_trace(path: str) -> int:
    """The number of the new trace. Raises `RuntimeError` where the file cannot be written."""
    return _answer(library().tessera_begin_trace(os.fsencode(path)))["trace"]


def end_trace(trace: int) -> None:
    """Raises `RuntimeError` where the file cannot be written."""
    _answer(library().tessera_end_trace(trace))
