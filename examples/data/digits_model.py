#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of the digits in JAX and exports it for `examples/serve.cc`.

    python examples/data/digits_model.py     (JAX 0.10.2; writes beside this file)

digits_model.mlirbc: a portable StableHLO artifact (MLIR bytecode) of images f32[16,64] in 0 … 1 -> probabilities
f32[16,10], with the weights in it and the batch split over eight devices. digits_model.npz: what JAX computes with it for
the last 160 images of digits.npz, which the training does not see.
"""
import os
import pathlib

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

# The artifact names its source lines, without the folder that they were in.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

HERE = pathlib.Path(__file__).parent
BATCH, HIDDEN, HELD_OUT = 16, 32, 160


def logits(weights, images):
    hidden = jax.nn.gelu(images @ weights["up"] + weights["shift"])
    return hidden @ weights["down"]


def loss(weights, images, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits(weights, images)), labels[:, None], 1))


def train(images, labels):
    up, down = jax.random.split(jax.random.key(0))
    weights = {"up": jax.random.normal(up, (64, HIDDEN)) / 8, "shift": jnp.zeros(HIDDEN),
               "down": jax.random.normal(down, (HIDDEN, 10)) / HIDDEN**0.5}
    step = jax.jit(lambda w: jax.tree.map(lambda p, g: p - 0.5 * g, w, jax.grad(loss)(w, images, labels)))
    for _ in range(2000):
        weights = step(weights)
    return weights


def main():
    data = np.load(HERE / "digits.npz")
    images = data["images"].reshape(-1, 64).astype(np.float32) / 16
    labels = data["labels"].astype(np.int32)
    weights = train(images[:-HELD_OUT], labels[:-HELD_OUT])

    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = NamedSharding(mesh, P("data"))
    predict = jax.jit(lambda x: jax.nn.softmax(logits(weights, x)), in_shardings=rows, out_shardings=rows)
    exported = jax.export.export(predict)(jax.ShapeDtypeStruct((BATCH, 64), np.float32))
    (HERE / "digits_model.mlirbc").write_bytes(exported.mlir_module_serialized)

    held_out = images[-HELD_OUT:].reshape(-1, BATCH, 64)
    answers = np.concatenate([np.asarray(predict(x)) for x in held_out])
    np.savez(HERE / "digits_model.npz", probabilities=answers)
    print(f"right: {np.mean(answers.argmax(1) == labels[-HELD_OUT:]):.3f} of {HELD_OUT} held-out images")


main()
