# SPDX-License-Identifier: Apache-2.0
"""What JAX imports when it looks for plugins."""
import os

from tessera import _backend


def initialize():
    place = os.environ.get("TESSERA_JAX")
    try:
        if place not in (None, "", "cpu"):
            raise ValueError(f"TESSERA_JAX = {place!r}; expected cpu, or nothing")
        _backend.register()
        if place == "cpu":
            _backend.replace_cpu()
    except Exception as error:
        # JAX logs what plugins throw, and goes on with its own CPU backend: not what was asked for.
        if place:
            _backend.refuse_cpu(error)
        raise
