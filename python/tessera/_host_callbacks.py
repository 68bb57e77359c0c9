# SPDX-License-Identifier: Apache-2.0
"""Python functions inside programs: jax.pure_callback, io_callback, debug.print and what stands on them."""
import contextlib
import ctypes
import functools
import itertools
import queue
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


class _Workers:
    """Threads for calls into Python, as many as there are at the same time. What JAX keeps by thread is that of a fresh
    thread there, as in XLA's callbacks: small programs run on the thread that calls them, which may be tracing or have a
    mesh set."""

    def __init__(self):
        self._idle = queue.LifoQueue()

    def run(self, function):
        """What `function()` gives, or throws."""
        try:
            requests = self._idle.get_nowait()
        except queue.Empty:
            requests = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(requests,), name="tessera-callback", daemon=True).start()
        answers = queue.SimpleQueue()
        requests.put((function, answers))
        result, error = answers.get()
        if error is not None:
            raise error
        return result

    def _serve(self, requests):
        while True:
            function, answers = requests.get()
            try:
                answer = function(), None
            except BaseException as error:
                answer = None, error
            self._idle.put(requests)  # before the answer: who gets it may call again at once
            answers.put(answer)
            del function, answers, answer  # arrays must not live until the next call


_workers = _Workers()


@_native.HostCallback
def _call(number, ins, num_in, outs, num_out, error, error_size):
    try:
        args = [_view(ins[i]).astype(_narrow(ins[i].narrow)) if ins[i].narrow else _view(ins[i]).copy()
                for i in range(num_in)]
        for a in args:
            a.flags.writeable = False
        with _lock:
            function = _functions[number]
        results = _workers.run(lambda: function(*args))
        for i in range(num_out):
            to = _view(outs[i])
            to[...] = np.asarray(results[i]).astype(to.dtype) if outs[i].narrow else results[i]
        return 0
    except BaseException as e:  # whoever waits for the program gets it
        return give_error(e, error, error_size)


def give_error(e: BaseException, to: int, size: int) -> int:
    """Writes the error as C has it: a terminated message in so many bytes at `to`. Returns 1."""
    text = f"{type(e).__name__}: {e}".encode()[: size - 1]
    ctypes.memmove(to, text + b"\0", len(text) + 1)
    return 1


class _Kept:
    """Lets the function go with the module that calls it."""

    def __init__(self, number):
        self.number = number

    def __del__(self):
        with _lock:
            _functions.pop(self.number, None)


def number_of(ctx, function) -> np.uint64:
    """The number by which the module that is lowered calls a function of arrays, which lives as long as the module."""
    with _lock:
        number = next(_numbers)
        _functions[number] = function
    ctx.module_context.add_keepalive(_Kept(number))
    return np.uint64(number)


_TARGETS = ("xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback")
_own = threading.local()


def in_module(text: str) -> bool:
    """Whether a module's text calls Python."""
    return any(target in text for target in _TARGETS)


def is_jax_own_lowering() -> bool:
    return getattr(_own, "active", False)


@contextlib.contextmanager
def jax_own_lowering():
    """Inside it, on this thread, programs are lowered for XLA's own callbacks. What JAX has lowered is forgotten before
    and after, as it is kept by function alone."""
    import jax

    jax.clear_caches()
    _own.active = True
    try:
        yield
    finally:
        _own.active = False
        jax.clear_caches()


class _Lowering:
    """jax._src.ffi for jax._src.callback: numbers functions for all programs, and not one by one for each."""

    def __init__(self, ffi):
        self._ffi = ffi

    def __getattr__(self, name):
        return getattr(self._ffi, name)

    def build_ffi_lowering_function(self, target, **options):
        build = self._ffi.build_ffi_lowering_function(target, **options)
        if target not in _TARGETS or is_jax_own_lowering():
            return build

        def lower(ctx, *operands, index):
            # It stays in the list, too: JAX keeps programs that call Python out of its persistent cache.
            function = ctx.module_context.host_callbacks[int(index)]
            return build(ctx, *operands, index=number_of(ctx, _without_token(function, operands)))

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
    from jax._src import callback, compiler

    if isinstance(callback.ffi, _Lowering):
        return
    _native.library().tessera_set_host_callback(_call)
    callback.ffi = _Lowering(callback.ffi)
    compile_and_load = compiler.backend_compile_and_load

    @functools.wraps(compile_and_load)
    def without_list(backend, module, executable_devices, options, host_callbacks):
        if "Tessera" in backend.platform_version:  # the module calls them by number
            host_callbacks = ()
        return compile_and_load(backend, module, executable_devices, options, host_callbacks)

    compiler.backend_compile_and_load = without_list
