# SPDX-License-Identifier: Apache-2.0
"""jax.debug.inspect_array_sharding: a callback that is given the sharding of a value when its program is compiled."""
import ctypes
import itertools
import weakref

from . import _host_callbacks, _native

_numbers = itertools.count(1)
_callbacks = weakref.WeakValueDictionary()  # JAX keeps each as long as the module that asks


@_native.ShardingCallback
def _call(number, data, size, error, error_size):
    try:
        from jaxlib import xla_client

        function = _callbacks.get(number)
        if function is not None:  # else the module is another process's
            op_sharding = xla_client.OpSharding()
            op_sharding.ParseFromString(ctypes.string_at(data, size))
            function(xla_client.HloSharding.from_proto(op_sharding))
        return 0
    except BaseException as e:  # whoever compiles the program gets it
        return _host_callbacks.give_error(e, error, error_size)


class _Client:
    """jaxlib's xla_client for jax._src.debugging: numbers callbacks where XLA has their addresses."""

    def __init__(self, xla_client):
        self._xla_client = xla_client

    def __getattr__(self, name):
        return getattr(self._xla_client, name)

    def encode_inspect_sharding_callback(self, callback):
        if _host_callbacks.is_jax_own_lowering():
            return self._xla_client.encode_inspect_sharding_callback(callback)
        number = next(_numbers)
        _callbacks[number] = callback
        return f"tessera:{number}"


def install() -> None:
    """From now on shardings are inspected in programs for Tessera."""
    from jax._src import debugging

    if isinstance(debugging.xc, _Client):
        return
    _native.library().tessera_set_sharding_callback(_call)
    debugging.xc = _Client(debugging.xc)
