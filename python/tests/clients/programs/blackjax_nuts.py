# SPDX-License-Identifier: Apache-2.0
"""BlackJAX: window adaptation and NUTS, one chain per device. Few steps: roundings grow from each to the next."""
import blackjax
import jax

jax.config.update("jax_enable_x64", True)  # trajectories would part by roundings otherwise

import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from _results import store

mesh = jax.make_mesh((8,), ("chains",), axis_types=(AxisType.Auto,))


def log_density(x):
    return -0.5 * jnp.sum((x["a"] / jnp.array([1.0, 3.0])) ** 2) - 0.5 * (x["b"] - x["a"][0] ** 2) ** 2


def chain(key, start):
    warm, run = jax.random.split(key)
    (state, parameters), _ = blackjax.window_adaptation(blackjax.nuts, log_density).run(warm, start, num_steps=20)
    kernel = blackjax.nuts(log_density, **parameters)

    def step(state, key):
        state, info = kernel.step(key, state)
        return state, (state.position, info.acceptance_rate)

    return jax.lax.scan(step, state, jax.random.split(run, 12))[1]


keys = jax.device_put(jax.random.split(jax.random.key(0), 8), NamedSharding(mesh, P("chains")))
start = jax.device_put({"a": jnp.ones((8, 2)), "b": jnp.arange(8.0)}, NamedSharding(mesh, P("chains")))
positions, rates = jax.jit(jax.vmap(chain))(keys, start)
store(a=positions["a"], b=positions["b"], rates=rates)
