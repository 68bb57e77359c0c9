# SPDX-License-Identifier: Apache-2.0
"""An encoder of Flax Linen with logical axes, dropout and batches over a (4, 2) mesh, trained with AdamW."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from _results import store

RULES = (("batch", "data"), ("hidden", "model"), ("heads", "model"), ("embed", None))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        y = nn.LayerNorm()(x)
        y = nn.MultiHeadDotProductAttention(
            num_heads=4, kernel_init=nn.with_logical_partitioning(nn.initializers.xavier_uniform(), ("embed", "heads", None)),
            out_kernel_init=nn.with_logical_partitioning(nn.initializers.xavier_uniform(), ("heads", None, "embed")))(y, y)
        x = x + nn.Dropout(0.1, deterministic=not train)(y)
        y = nn.Dense(64, kernel_init=nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "hidden")))(nn.LayerNorm()(x))
        y = nn.with_logical_constraint(nn.gelu(y), ("batch", None, "hidden"))
        y = nn.Dense(32, kernel_init=nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("hidden", "embed")))(y)
        return x + y


class Encoder(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        for _ in range(2):
            x = nn.remat(Block, static_argnums=2)()(x, train)
        return nn.Dense(10)(x.mean(1))


mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
model, optimizer = Encoder(), optax.adamw(3e-3)
numbers = np.random.default_rng(0)
x = jax.device_put(numbers.normal(size=(16, 12, 32)).astype(np.float32), NamedSharding(mesh, P("data", None, None)))
labels = jax.device_put(numbers.integers(0, 10, size=16), NamedSharding(mesh, P("data")))


def create(key, x):
    return TrainState.create(apply_fn=model.apply, params=model.init(key, x)["params"], tx=optimizer)


with mesh, nn.logical_axis_rules(RULES):
    specs = nn.get_partition_spec(jax.eval_shape(create, jax.random.key(0), x))
    shardings = nn.logical_to_mesh_sharding(specs, mesh, RULES)
    state = jax.jit(create, out_shardings=shardings)(jax.random.key(0), x)

    @jax.jit
    def step(state, x, labels, key):
        def loss(params):
            logits = state.apply_fn({"params": params}, x, train=True, rngs={"dropout": key})
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
        value, gradient = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=gradient), value

    losses = []
    for i in range(6):
        state, value = step(state, x, labels, jax.random.fold_in(jax.random.key(1), i))
        losses.append(value)
    logits = jax.jit(lambda s, x: s.apply_fn({"params": s.params}, x))(state, x)
    store(losses=losses, logits=logits, steps=state.step)
