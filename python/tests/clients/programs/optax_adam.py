# SPDX-License-Identifier: Apache-2.0
"""Optax alone: clipped Adam with a schedule, accumulated gradients and an average of weights, on eight devices."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from _results import store

mesh = jax.make_mesh((8,), ("batch",), axis_types=(AxisType.Auto,))
numbers = np.random.default_rng(0)
x = jax.device_put(numbers.normal(size=(64, 16)).astype(np.float32), NamedSharding(mesh, P("batch")))
y = jax.device_put(np.sin(np.asarray(x).sum(1)), NamedSharding(mesh, P("batch")))
params = {"w1": numbers.normal(size=(16, 32)).astype(np.float32) / 4, "b1": np.zeros(32, np.float32),
          "w2": numbers.normal(size=32).astype(np.float32) / 6}
params = jax.device_put(params, NamedSharding(mesh, P()))
optimizer = optax.MultiSteps(optax.chain(
    optax.clip_by_global_norm(1.0), optax.scale_by_adam(), optax.add_decayed_weights(1e-3),
    optax.scale_by_learning_rate(optax.warmup_cosine_decay_schedule(0, 1e-2, 3, 20))), every_k_schedule=2)
average = optax.ema(0.9)


def loss(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y) ** 2)


@jax.jit
def step(params, state, mean, x, y):
    value, gradient = jax.value_and_grad(loss)(params, x, y)
    updates, state = optimizer.update(gradient, state, params)
    params = optax.apply_updates(params, updates)
    averaged, mean = average.update(params, mean)
    return params, state, mean, averaged, value


state, mean, losses = optimizer.init(params), average.init(params), []
for _ in range(20):
    params, state, mean, averaged, value = step(params, state, mean, x, y)
    losses.append(value)
assert losses[-1] < losses[0]
# A second order method: its line search is a loop that ends by its data.
lbfgs = optax.lbfgs()
value_and_grad = optax.value_and_grad_from_state(lambda p: loss(p, x, y))


@jax.jit
def minimize(params):
    def iterate(carry, _):
        params, state = carry
        value, gradient = value_and_grad(params, state=state)
        updates, state = lbfgs.update(gradient, state, params, value=value, grad=gradient, value_fn=lambda p: loss(p, x, y))
        return (optax.apply_updates(params, updates), state), value

    return jax.lax.scan(iterate, (params, lbfgs.init(params)), length=5)[1]


store(losses=losses, minimized=minimize(params), **averaged)
