# SPDX-License-Identifier: Apache-2.0
"""An MLP and a GRU of Equinox, trained with batches and weights over a (4, 2) mesh."""
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from _results import store

mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
numbers = np.random.default_rng(0)


class Model(eqx.Module):
    cell: eqx.nn.GRUCell
    mlp: eqx.nn.MLP
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(8, 16, key=a)
        self.mlp = eqx.nn.MLP(16, "scalar", 32, 2, activation=jax.nn.gelu, key=b)
        self.dropout = eqx.nn.Dropout(0.2)

    def __call__(self, xs, key):
        state, _ = jax.lax.scan(lambda c, x: (self.cell(x, c), None), jnp.zeros(16), xs)
        return self.mlp(self.dropout(state, key=key))


def split(x):
    return NamedSharding(mesh, P("model") if x.ndim and x.shape[0] % 2 == 0 else P())


x = jax.device_put(numbers.normal(size=(32, 6, 8)).astype(np.float32), NamedSharding(mesh, P("data")))
y = jax.device_put(np.asarray(x)[:, :, 0].sum(1), NamedSharding(mesh, P("data")))
model = eqx.filter_jit(Model)(jax.random.key(0))
arrays, rest = eqx.partition(model, eqx.is_array)
model = eqx.combine(jax.device_put(arrays, jax.tree.map(split, arrays)), rest)
optimizer = optax.adam(1e-2)
state = optimizer.init(eqx.filter(model, eqx.is_array))


@eqx.filter_jit(donate="all-except-first")
def step(batch, model, state, key):
    x, y = batch

    @eqx.filter_value_and_grad
    def loss(model):
        keys = jax.random.split(key, x.shape[0])
        return jnp.mean((jax.vmap(model)(x, keys) - y) ** 2)

    value, gradient = loss(model)
    updates, state = optimizer.update(gradient, state, model)
    model = eqx.error_if(eqx.apply_updates(model, updates), ~jnp.isfinite(value), "the loss is not finite")
    return model, state, value


losses = []
for i in range(12):
    model, state, value = step((x, y), model, state, jax.random.fold_in(jax.random.key(1), i))
    losses.append(value)
assert losses[-1] < losses[0]
evaluated = eqx.filter_jit(jax.vmap(eqx.nn.inference_mode(model), in_axes=(0, None)))(x, jax.random.key(2))
store(losses=losses, evaluated=evaluated, weight=model.mlp.layers[0].weight)
