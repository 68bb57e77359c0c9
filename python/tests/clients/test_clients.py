# SPDX-License-Identifier: Apache-2.0
"""Libraries on top of JAX, unchanged: their results on Tessera are those on XLA:CPU."""
import importlib.util

import numpy as np
import pytest

from .conftest import run

PROGRAMS = {  # libraries, and how far results may be apart, relative to the largest
    "flax_nnx_transformer": ("flax optax", 1e-4),
    "flax_linen_transformer": ("flax optax", 1e-4),
    "optax_adam": ("optax", 1e-4),
    "equinox_mlp": ("equinox optax", 1e-4),
    "numpyro_nuts": ("numpyro", 1e-6),
    "blackjax_nuts": ("blackjax", 1e-6),
    "diffrax_solve": ("diffrax", 1e-6),
}


def need(libraries: str) -> None:
    for name in libraries.split():
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize("program", PROGRAMS)
def test_agrees_with_xla(program, agree):
    libraries, rtol = PROGRAMS[program]
    need(libraries)
    for name, x in agree(program, rtol).items():
        assert np.all(np.isfinite(x)), name


@pytest.mark.parametrize("saved_on,restored_on", [("tessera", "tessera"), ("xla", "tessera"), ("tessera", "xla")])
def test_orbax_restores_8_devices_on_64(saved_on, restored_on, tmp_path):
    need("orbax.checkpoint")
    saved = run("orbax_checkpoint", saved_on, tmp_path, "save", tmp_path / "checkpoint", devices=8)
    restored = run("orbax_checkpoint", restored_on, tmp_path, "restore", tmp_path / "checkpoint", devices=64)
    assert saved.pop("devices") == 8 and restored.pop("devices") == 64
    np.testing.assert_allclose(restored.pop("total"), saved.pop("total"), rtol=1e-5)
    for name, x in saved.items():
        np.testing.assert_array_equal(restored[name], x)
