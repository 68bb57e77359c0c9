# SPDX-License-Identifier: Apache-2.0
"""What JAX imports when it looks for plugins."""
import os

from tessera import _backend


def initialize():
    _backend.register()
    place = os.environ.get("TESSERA_JAX")
    if place == "cpu":
        _backend.replace_cpu()
    elif place:
        raise ValueError(f"TESSERA_JAX = {place!r}; expected cpu, or nothing")
