# SPDX-License-Identifier: Apache-2.0
"""Tessera in the place of JAX's CPU backend, with 8 devices, for every test here."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402  after the choice of its platform
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import tessera.jax  # noqa: E402
from jax.sharding import AxisType  # noqa: E402

tessera.jax.devices(8)


@pytest.fixture
def mesh():
    """8 devices as (4, 2), axes "x" and "y"."""
    return jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


@pytest.fixture
def numbers():
    """A generator of random numbers, the same for every run."""
    return np.random.default_rng(0)
