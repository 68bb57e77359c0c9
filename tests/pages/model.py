# SPDX-License-Identifier: Apache-2.0
"""The program of the pages that tests/pages/check_pages.py clicks through: a step of a two-layer network. Prints it as StableHLO.

usage: python model.py [before] > training_step.mlir    (with JAX)
"""
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def forward(p, x):
    hidden = jax.nn.relu(x @ p["up"])
    scale = jax.lax.rsqrt(jnp.mean(hidden**2, axis=-1, keepdims=True) + 1e-5)
    return (hidden * scale) @ p["down"]


def loss(p, x, y):
    error = forward(p, x) - y
    return jnp.mean(error**2)


def step(p, x, y):
    value, g = jax.value_and_grad(loss)(p, x, y)
    return jax.tree.map(lambda w, d: w - 0.1 * d, p, g), value


def main() -> None:
    # Before: the first matrix is split along its rows, so that every product needs all of it.
    up = P("model", None) if "before" in sys.argv else P(None, "model")
    put = lambda shape, spec: jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, spec))
    p = {"up": put((256, 1024), up), "down": put((1024, 256), P("model", None))}
    x, y = put((512, 256), P("data")), put((512, 256), P("data"))
    text = jax.jit(step).lower(p, x, y).as_text(debug_info=True)
    print(text.replace(os.path.dirname(os.path.abspath(__file__)) + "/", "tests/pages/"))


if __name__ == "__main__":
    main()
