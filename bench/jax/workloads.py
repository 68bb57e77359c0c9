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
        rows = NamedSharding(mesh, P("x"))
        key = np.random.default_rng(0)
        sizes = [256, 1024, 1024, 256]
        params = [jax.device_put(key.normal(0, n ** -0.5, (n, m)).astype(np.float32), NamedSharding(mesh, P()))
                  for n, m in zip(sizes, sizes[1:])]
        x = jax.device_put(key.normal(size=(64 * devices if devices <= 64 else devices, 256)).astype(np.float32), rows)

        def loss(params, x):
            y = x
            for w in params:
                y = jax.nn.gelu(y @ w)
            return jnp.mean((y - x) ** 2)

        @jax.jit
        def step(params, x):
            value, grads = jax.value_and_grad(loss)(params, x)
            return [w - 0.1 * g for w, g in zip(params, grads)], value

        start = time.perf_counter()
        params, value = step(params, x)
        value.block_until_ready()
        out["first_step"] = time.perf_counter() - start
        out["step"] = best(lambda: step(params, x)[1].block_until_ready(), 2.0)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
