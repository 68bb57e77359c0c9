# SPDX-License-Identifier: Apache-2.0
"""Puts Tessera in the place of JAX's CPU backend: `import tessera.jax` before the first array is made. `check` compares
a program with XLA:CPU."""
import jax as _jax

from . import _backend

_backend.replace_cpu()

from .check import Mismatch, Report, check  # noqa: E402  needs the backend that was just replaced


def devices(count: int | None = None):
    """JAX's CPU devices, after making them `count` where that is given. Arrays of before keep the devices that they
    are on and cannot be combined with new ones; compiled functions are compiled again. Raises `ValueError` for a count
    below 1."""
    if count is None:
        return _jax.devices("cpu")
    if count < 1:
        raise ValueError(f"tessera.jax.devices: count = {count}; expected 1 or more")
    from jax._src import api, xla_bridge

    if xla_bridge._backends and len(_jax.devices("cpu")) != count:
        api.clear_backends()
    _jax.config.update("jax_num_cpu_devices", count)
    return _jax.devices("cpu")
