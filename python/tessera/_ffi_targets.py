# SPDX-License-Identifier: Apache-2.0
"""jax.ffi: handlers that other libraries have registered for JAX's CPU backend."""
import ctypes

from . import _native

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype = ctypes.c_char_p
_name.argtypes = [ctypes.py_object]


@_native.FfiTargets
def _find(name, target):
    from jaxlib import xla_client

    handlers = xla_client.custom_call_targets("Host").get(name.decode())
    if not isinstance(handlers, dict):  # a function of before the FFI
        return 0
    for stage, capsule in handlers.items():
        setattr(target.contents, stage, _pointer(capsule, _name(capsule)))
    return 1


def install() -> None:
    """From now on programs for Tessera may call them. What was registered so far waits in jaxlib for XLA's CPU client,
    which hands it on where it is made; so does this."""
    from jaxlib import xla_client

    xla_client.register_custom_call_handler("cpu", xla_client._xla.register_custom_call_target)
    _native.library().tessera_set_ffi_targets(_find)
