# SPDX-License-Identifier: Apache-2.0
"""When each step of a JAX program ran, for chrome://tracing and Perfetto."""
import contextlib
import os

from . import _native


@contextlib.contextmanager
def trace(path):
    """Writes the steps and collectives that Tessera runs inside it to `path`, in the trace format of Chrome, which
    https://ui.perfetto.dev opens.

    One row a device. Times are in microseconds since the beginning; a step's `args` have the bytes of its result on the
    device, the bytes that the busiest device receives, and the user's line. Programs of all threads are in it; at the end
    it waits for those that were called. Contexts may be nested. Raises `RuntimeError` where the file cannot be written,
    at the beginning if that is known then."""
    number = _native.begin_trace(os.path.abspath(os.fspath(path)))
    try:
        yield
    finally:
        _native.end_trace(number)
