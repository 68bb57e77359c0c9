# SPDX-License-Identifier: Apache-2.0
"""Python functions inside programs: jax.pure_callback, io_callback, debug.print and what stands on them."""
import ctypes
import itertools
import threading

import numpy as np

from . import _native

_functions = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


def _dtypes():
    import ml_dtypes

    return [np.dtype(t) for t in (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
                                  np.uint64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64,
                                  np.complex128)]


_DTYPES = _dtypes()


def _narrow(name: bytes) -> np.dtype:
    """Of "i4", "ui2", "f8E4M3FN": NumPy's name of an element type that the library holds in a wider one."""
    import ml_dtypes

    text = name.decode()
    if text.startswith("f"):
        bits, _, rest = text[1:].partition("E")
        return np.dtype(getattr(ml_dtypes, f"float{bits}_e{rest.lower()}"))
    return np.dtype(getattr(ml_dtypes, text.replace("ui", "uint") if text.startswith("ui") else text.replace("i", "int")))


def _view(a: _native.HostArray) -> np.ndarray:
    dtype = _DTYPES[a.dtype]
    shape = tuple(a.shape[d] for d in range(a.rank))
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if size == 0:
        return np.empty(shape, dtype)
    return np.frombuffer((ctypes.c_char * size).from_address(a.data), dtype).reshape(shape)


@_native.HostCallback
def _call(number, ins, num_in, outs, num_out, error, error_size):
    try:
        args = [_view(ins[i]).astype(_narrow(ins[i].narrow)) if ins[i].narrow else _view(ins[i]).copy()
                for i in range(num_in)]
        for a in args:
            a.flags.writeable = False
        with _lock:
            function = _functions[number]
        results = function(*args)
        for i in range(num_out):
            to = _view(outs[i])
            to[...] = np.asarray(results[i]).astype(to.dtype) if outs[i].narrow else results[i]
        return 0
    except BaseException as e:  # whoever waits for the program gets it
        text = f"{type(e).__name__}: {e}".encode()[: error_size - 1]
        ctypes.memmove(error, text + b"\0", len(text) + 1)
        return 1


class _Kept:
    """Lets the function go with the module that calls it."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        with _lock:
            _functions.pop(self.number, None)


class _Lowering:
    """jax._src.ffi for jax._src.callback: numbers functions for all programs, and not one by one for each."""

    def __init__(self, ffi):
        self._ffi = ffi

    def __getattr__(self, name):
        return getattr(self._ffi, name)

    def build_ffi_lowering_function(self, target, **options):
        build = self._ffi.build_ffi_lowering_function(target, **options)
        if target not in ("xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback"):
            return build

        def lower(ctx, *operands, index):
            del index  # the place in this list, which the call's number takes the place of
            function = ctx.module_context.host_callbacks.pop()
            with _lock:
                number = next(_numbers)
                _functions[number] = _without_token(function, operands)
            ctx.module_context.add_keepalive(_Kept(number))
            return build(ctx, *operands, index=np.uint64(number))

        return lower


def _without_token(function, operands):
    """The function as the library calls it: without the token, which is no array."""
    if not operands or str(getattr(operands[0], "type", "")) != "!stablehlo.token":
        return function

    def call(*args):
        return function(None, *args)[1:]

    return call


def install() -> None:
    """From now on callbacks are lowered for Tessera."""
    from jax._src import callback

    if isinstance(callback.ffi, _Lowering):
        return
    _native.library().tessera_set_host_callback(_call)
    callback.ffi = _Lowering(callback.ffi)
