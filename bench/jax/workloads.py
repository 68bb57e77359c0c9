# SPDX-License-Identifier: Apache-2.0
"""Plain JAX programs, timed: prints one JSON object of seconds by name. Run by side_by_side.py, once for each backend."""
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


def best(f, budget=1.0, least=3):
    """Seconds of the fastest call of `f`, which waits for its results."""
    times, end = [], time.perf_counter() + budget
    while len(times) < least or time.perf_counter() < end:
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def rate(f, wait, calls):
    """Seconds of one of many calls that are not waited for one by one."""
    def run():
        for _ in range(calls):
            out = f()
        wait(out)
    return best(run) / calls


LAYERS, WIDTH, HEADS = 4, 128, 4


def initial():
    """Weights of a small language model with pre-norm blocks, and Adam's two moments."""
    key = np.random.default_rng(0)
    normal = lambda *shape: key.normal(0, shape[0] ** -0.5, shape).astype(np.float32)
    blocks = [{"qkv": normal(WIDTH, 3 * WIDTH), "out": normal(WIDTH, WIDTH), "up": normal(WIDTH, 4 * WIDTH),
               "down": normal(4 * WIDTH, WIDTH)} for _ in range(LAYERS)]
    weights = {"embed": normal(256, WIDTH), "blocks": blocks, "logits": normal(WIDTH, 256)}
    zeros = jax.tree.map(np.zeros_like, weights)
    return weights, zeros, zeros


def norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def loss(weights, tokens):
    x = weights["embed"][tokens[:, :-1]]
    rows, length, _ = x.shape
    for w in weights["blocks"]:
        q, k, v = jnp.split((norm(x) @ w["qkv"]).reshape(rows, length, HEADS, -1), 3, -1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(rows, length, WIDTH) @ w["out"]
        x = x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]
    chosen = jnp.take_along_axis(jax.nn.log_softmax(norm(x) @ weights["logits"]), tokens[:, 1:, None], -1)
    return -chosen.mean()


def train_step(state, tokens):
    weights, mean, square = state
    value, grads = jax.value_and_grad(loss)(weights, tokens)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)
    weights = jax.tree.map(lambda w, m, s: w - 1e-3 * m / (jnp.sqrt(s) + 1e-8), weights, mean, square)
    return (weights, mean, square), value


def main() -> None:
    devices, names = int(sys.argv[1]), sys.argv[2].split(",")
    assert len(jax.devices()) == devices, jax.devices()
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, P("x"))
    out = {}

    def collective(elements):
        f = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()))
        x = jax.device_put(np.ones((devices, elements), np.float32), split)
        f(x).block_until_ready()
        return best(lambda: f(x).block_until_ready())

    if "dispatch" in names:
        f = jax.jit(lambda x: x + 1)
        x = jax.device_put(np.ones((devices, 32), np.float32), split)
        f(x).block_until_ready()
        out["dispatch"] = rate(lambda: f(x), lambda r: r.block_until_ready(), 200)
    if "psum_1k" in names:
        out["psum_1k"] = collective(256)
    if "psum_16m" in names:
        out["psum_16m"] = collective(4 << 20)
    if "train" in names:
        tokens = jax.device_put(np.random.default_rng(0).integers(0, 256, (devices, 65)), split)
        state = jax.tree.map(lambda w: jax.device_put(w, NamedSharding(mesh, P())), initial())
        start = time.perf_counter()
        lowered = jax.jit(train_step).lower(state, tokens)
        traced = time.perf_counter()
        step = lowered.compile()
        out["compile"] = time.perf_counter() - traced
        state, value = step(state, tokens)
        value.block_until_ready()
        out["first_step"] = time.perf_counter() - start
        out["step"] = best(lambda: step(state, tokens)[1].block_until_ready(), 2.0)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
