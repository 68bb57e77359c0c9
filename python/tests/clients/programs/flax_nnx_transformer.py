# SPDX-License-Identifier: Apache-2.0
"""A transformer of Flax NNX, data x model parallel on a (4, 2) mesh, trained with Adam."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from _results import store

WIDTH, HEADS, LENGTH, VOCABULARY, LAYERS, BATCH = 32, 4, 16, 64, 2, 8


def split(init, *spec):
    return nnx.with_partitioning(init, spec)


class Block(nnx.Module):
    def __init__(self, rngs):
        dense, zeros = nnx.initializers.lecun_normal(), nnx.initializers.zeros_init()
        self.norm1 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.norm2 = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs, kernel_init=split(dense, None, "model"),
                             bias_init=split(zeros, "model"))
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs, kernel_init=split(dense, "model", None))

    def __call__(self, x):
        x = x + self.attention(self.norm1(x), mask=nnx.make_causal_mask(jnp.ones(x.shape[:2])))
        return x + self.down(nnx.gelu(self.up(self.norm2(x))))


class Transformer(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs,
                               embedding_init=split(nnx.initializers.normal(0.5), "model", None))
        self.blocks = nnx.List([Block(rngs) for _ in range(LAYERS)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.embed.attend(self.norm(x))


mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
tokens = jax.device_put(np.random.default_rng(0).integers(0, VOCABULARY, size=(BATCH, LENGTH)),
                        NamedSharding(mesh, P("data", None)))


@nnx.jit
def create():
    model = Transformer(nnx.Rngs(0))
    state = nnx.state(model)
    nnx.update(model, jax.lax.with_sharding_constraint(state, nnx.get_named_sharding(state, mesh)))
    return model


with jax.set_mesh(mesh):
    model = create()
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, tokens):
        def loss(model):
            return optax.softmax_cross_entropy_with_integer_labels(model(tokens[:, :-1]), tokens[:, 1:]).mean()
        value, gradient = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradient)
        return value

    losses = [step(model, optimizer, tokens) for _ in range(6)]
    up = model.blocks[0].up.kernel[...]
    assert len({str(s.index) for s in up.addressable_shards}) == 2, up.sharding
    store(losses=losses, logits=model(tokens), up=up)
