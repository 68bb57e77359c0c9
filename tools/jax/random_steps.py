# SPDX-License-Identifier: Apache-2.0
"""The steps of random programs: each draws its operands and parameters, or gives None where there are no fitting ones.

A step is `(rng, values, mesh) -> (text, operands, function)`: what it does in words, numbers of values, and the JAX
function of them. Results stay of a size near one, so that a relative tolerance means something."""
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

STEPS = {}


def step(function):
    STEPS[function.__name__] = function
    return function


def random_spec(rng, mesh, dims) -> P:
    """Splits dimensions evenly by random axes of the mesh, each used at most once."""
    names = list(mesh.axis_names)
    rng.shuffle(names)
    spec = [()] * len(dims)
    for name in names[: rng.integers(len(names) + 1)]:
        fits = [d for d, n in enumerate(dims) if n % (mesh.shape[name] * math.prod(mesh.shape[a] for a in spec[d])) == 0]
        if fits:
            spec[fits[rng.integers(len(fits))]] += (name,)
    return P(*(s if len(s) > 1 else s[0] if s else None for s in spec))


def floating(v) -> bool:
    return jnp.issubdtype(v.dtype, jnp.floating)


def pick(rng, values, want=lambda v: True):
    """The number of a fitting value, later ones more often; None without one."""
    fits = [i for i, v in enumerate(values) if want(v)]
    return None if not fits else fits[max(rng.integers(len(fits)), rng.integers(len(fits)))]


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


UNARY = {"tanh": jnp.tanh, "sin": jnp.sin, "abs": jnp.abs, "sigmoid": jax.nn.sigmoid, "gelu": jax.nn.gelu,
         "sqrt": lambda x: jnp.sqrt(jnp.abs(x) + 0.5), "log1p": lambda x: jnp.log1p(jnp.abs(x)), "neg": jnp.negative,
         "relu": jax.nn.relu, "affine": lambda x: x * 0.5 + 1, "erf": lax.erf, "clip": lambda x: jnp.clip(x, -1, 1),
         "rsqrt": lambda x: lax.rsqrt(x * x + 1), "to_bfloat16": lambda x: x.astype(jnp.bfloat16),
         "to_float32": lambda x: x.astype(jnp.float32)}
BINARY = {"add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply, "divide": lambda a, b: a / (jnp.abs(b) + 1),
          "maximum": jnp.maximum, "minimum": jnp.minimum, "arctan2": jnp.arctan2, "logaddexp": jnp.logaddexp,
          "where": lambda a, b: jnp.where(b > 0.1, a, b * 2)}
REDUCE = {"sum": lambda x, a, k: jnp.sum(x, a, keepdims=k) / 4, "mean": lambda x, a, k: jnp.mean(x, a, keepdims=k),
          "max": lambda x, a, k: jnp.max(x, a, keepdims=k), "min": lambda x, a, k: jnp.min(x, a, keepdims=k),
          "std": lambda x, a, k: jnp.std(x, a, keepdims=k), "any": lambda x, a, k: jnp.any(x > 1, a, keepdims=k),
          "logsumexp": lambda x, a, k: jax.nn.logsumexp(x, a, keepdims=k)}


@step
def unary(rng, values, mesh):
    i = pick(rng, values, floating)
    name = list(UNARY)[rng.integers(len(UNARY))]
    return None if i is None else (f" {name}", [i], UNARY[name])


@step
def binary(rng, values, mesh):
    i = pick(rng, values, floating)
    if i is None:
        return None

    def fits(v):
        try:
            return floating(v) and math.prod(jnp.broadcast_shapes(v.shape, values[i].shape)) <= 1 << 14
        except ValueError:
            return False

    j = pick(rng, values, fits)
    name = list(BINARY)[rng.integers(len(BINARY))]
    return f" {name}", [i, j], BINARY[name]


@step
def reduce(rng, values, mesh):
    i = pick(rng, values, lambda v: floating(v) and v.shape)
    if i is None:
        return None
    rank = len(values[i].shape)
    axes = tuple(int(a) for a in rng.permutation(rank)[: rng.integers(1, rank + 1)])
    name, keep = list(REDUCE)[rng.integers(len(REDUCE))], bool(rng.integers(2))
    return f" {name} {axes} keepdims={keep}", [i], lambda x: REDUCE[name](x, axes, keep)


@step
def arg_reduce(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and v.dtype != bool)
    if i is None:
        return None
    axis = int(rng.integers(len(values[i].shape)))
    return f" argmax {axis}", [i], lambda x: jnp.argmax(x, axis)


@step
def transpose(rng, values, mesh):
    i = pick(rng, values, lambda v: len(v.shape) > 1)
    if i is None:
        return None
    order = tuple(int(d) for d in rng.permutation(len(values[i].shape)))
    return f" {order}", [i], lambda x: jnp.transpose(x, order)


@step
def reshape(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape)
    if i is None:
        return None
    shape = list(values[i].shape)
    d = int(rng.integers(len(shape)))
    if rng.integers(2) and len(shape) > 1:
        d = min(d, len(shape) - 2)
        shape[d: d + 2] = [shape[d] * shape[d + 1]]
    else:
        first = int(rng.choice(divisors(shape[d])))
        shape[d: d + 1] = [first, shape[d] // first]
    return f" {shape}", [i], lambda x: jnp.reshape(x, shape)


@step
def matmul(rng, values, mesh):
    i = pick(rng, values, lambda v: floating(v) and len(v.shape) > 1)
    if i is None:
        return None
    j = pick(rng, values, lambda v: floating(v) and len(v.shape) == 2 and values[i].shape[-1] in v.shape)
    if j is None:
        return None
    turned, k = values[j].shape[0] != values[i].shape[-1], values[i].shape[-1]
    return " b.T" * turned, [i, j], lambda a, b: a @ (b.T if turned else b) / math.sqrt(k)


@step
def einsum(rng, values, mesh):
    i = pick(rng, values, lambda v: floating(v) and len(v.shape) == 3)
    if i is None:
        return None
    j = pick(rng, values, lambda v: floating(v) and len(v.shape) == 3 and v.shape[0] == values[i].shape[0] and
             v.shape[2] == values[i].shape[2])
    form = ["bik,bjk->bij", "bik,bjk->ij", "bik,bjk->kbij", "bik,bjk->jb"][rng.integers(4)]
    k = values[i].shape[2]
    return f" {form}", [i, j], lambda a, b: jnp.einsum(form, a, b) / k


@step
def concatenate(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape)
    if i is None:
        return None
    axis = int(rng.integers(len(values[i].shape)))
    without = lambda s: (*s[:axis], *s[axis + 1:])
    j = pick(rng, values, lambda v: len(v.shape) == len(values[i].shape) and v.dtype == values[i].dtype and
             without(v.shape) == without(values[i].shape))
    return f" {axis}", [i, j], lambda a, b: jnp.concatenate([a, b], axis)


@step
def slicing(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape)
    if i is None:
        return None
    cuts = []
    for n in values[i].shape:
        first = int(rng.integers(0, max(n // 2, 1)))
        last = int(rng.integers(first + 1, n + 1))
        cuts.append(slice(first, last, int(rng.choice([1, 1, 2]))) if rng.integers(2) else slice(None))
    return f" {[(c.start, c.stop, c.step) for c in cuts]}", [i], lambda x: x[tuple(cuts)]


@step
def dynamic_slicing(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and floating(v))
    if i is None:
        return None
    axis = int(rng.integers(len(values[i].shape)))
    n = values[i].shape[axis]
    size = int(rng.choice(divisors(n)))
    update = bool(rng.integers(2))

    def function(x):
        at = jnp.sum(jnp.abs(x) > 0.7).astype(jnp.int32) % n  # exact, so the same on both sides
        part = lax.dynamic_slice_in_dim(x, at, size, axis)
        return lax.dynamic_update_slice_in_dim(x, jnp.tanh(part), (at + 1) % n, axis) if update else part

    return f" {axis}, {size}{' and update' * update}", [i], function


@step
def pad(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and floating(v))
    if i is None:
        return None
    how = tuple((int(rng.integers(-1 if n > 3 else 0, 3)), int(rng.integers(0, 3)), int(rng.integers(0, 2)))
                if rng.integers(2) else (0, 0, 0) for n in values[i].shape)
    return f" {how}", [i], lambda x: lax.pad(x, jnp.asarray(0.25, x.dtype), how)


@step
def gather(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape)
    if i is None:
        return None
    axis = int(rng.integers(len(values[i].shape)))
    n = values[i].shape[axis]
    j = pick(rng, values, lambda v: v.dtype == jnp.int32 and v.shape and math.prod(v.shape) <= 64)
    if j is not None and rng.integers(2):
        return f" {axis} by a value", [i, j], lambda x, at: jnp.take(x, jnp.abs(at) % n, axis)
    at = [int(k) for k in rng.integers(0, n, size=rng.choice([4, 8]))]
    return f" {axis}, {at}", [i], lambda x: jnp.take(x, jnp.asarray(at), axis)


@step
def scatter(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and floating(v))
    if i is None:
        return None
    n = values[i].shape[0]
    at = [int(k) for k in rng.integers(0, n, size=4)]
    kind = ["add", "max", "min"][rng.integers(3)]
    return f" {kind} {at}", [i], lambda x: getattr(x.at[jnp.asarray(at)], kind)(jnp.asarray(0.5, x.dtype) * jnp.tanh(x[:1]))


@step
def cumulate(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and floating(v))
    if i is None:
        return None
    axis, reverse = int(rng.integers(len(values[i].shape))), bool(rng.integers(2))
    name = ["cumsum", "cummax", "cumlogsumexp"][rng.integers(3)]
    return f" {name} {axis} reverse={reverse}", [i], lambda x: getattr(lax, name)(x, axis, reverse=reverse)


@step
def sort(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and v.dtype != bool)
    if i is None:
        return None
    axis = int(rng.integers(len(values[i].shape)))
    return f" {axis}", [i], lambda x: jnp.sort(x, axis)


@step
def top_k(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and v.dtype != bool and v.shape[-1] >= 2)
    return None if i is None else (" 2", [i], lambda x: lax.top_k(x, 2)[0])


@step
def softmax(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and floating(v))
    if i is None:
        return None
    axis = int(rng.integers(len(values[i].shape)))
    return f" {axis}", [i], lambda x: jax.nn.softmax(x, axis)


@step
def layer_norm(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape and floating(v) and v.shape[-1] > 1)
    return None if i is None else ("", [i], lambda x: jax.nn.standardize(x, epsilon=0.1))


@step
def convolution(rng, values, mesh):
    i = pick(rng, values, lambda v: len(v.shape) == 3 and floating(v))
    if i is None:
        return None
    features, width = values[i].shape[1], int(rng.choice([1, 2, 3]))
    stride, padding = int(rng.choice([1, 2])), str(rng.choice(["SAME", "VALID"]))
    if values[i].shape[2] < width:
        return None
    kernel = (rng.normal(size=(4, features, width)) / math.sqrt(features * width)).tolist()
    return (f" width {width}, stride {stride}, {padding}", [i],
            lambda x: lax.conv_general_dilated(x, jnp.asarray(kernel, x.dtype), (stride,), padding))


@step
def pooling(rng, values, mesh):
    i = pick(rng, values, lambda v: len(v.shape) > 1 and floating(v) and v.shape[-1] >= 2)
    if i is None:
        return None
    window = (1,) * (len(values[i].shape) - 1) + (2,)
    strides = (1,) * (len(values[i].shape) - 1) + (int(rng.choice([1, 2])),)
    most = bool(rng.integers(2))
    return (f" {'max' if most else 'sum'} strides {strides}", [i],
            lambda x: lax.reduce_window(x, np.array(-np.inf if most else 0, x.dtype), lax.max if most else lax.add, window,
                                        strides, "SAME"))


@step
def roll(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape)
    if i is None:
        return None
    axis, by = int(rng.integers(len(values[i].shape))), int(rng.integers(-5, 6))
    return f" {by} along {axis}", [i], lambda x: jnp.roll(x, by, axis)


@step
def flip(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape)
    if i is None:
        return None
    axis = int(rng.integers(len(values[i].shape)))
    return f" {axis}", [i], lambda x: jnp.flip(x, axis)


@step
def scan(rng, values, mesh):
    i = pick(rng, values, lambda v: len(v.shape) > 1 and floating(v) and v.shape[0] <= 16)
    if i is None:
        return None
    last = bool(rng.integers(2))

    def function(x):
        carry, ys = lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), jnp.zeros_like(x[0]), x)
        return carry if last else ys

    return " carry" if last else " outputs", [i], function


@step
def loop(rng, values, mesh):
    i = pick(rng, values, floating)
    times = int(rng.integers(1, 4))
    return None if i is None else (f" {times} times", [i], lambda x: lax.fori_loop(0, times, lambda k, v: jnp.sin(v) + 0.1 * k, x))


@step
def condition(rng, values, mesh):
    i = pick(rng, values, floating)
    if i is None:
        return None
    return "", [i], lambda x: lax.cond(jnp.sum(x > 0.5) % 2 == 0, lambda v: jnp.flip(v), lambda v: v * 2 - 1, x)


@step
def constrain(rng, values, mesh):
    i = pick(rng, values, lambda v: v.shape)
    if i is None:
        return None
    spec = random_spec(rng, mesh, values[i].shape)
    return f" {spec}", [i], lambda x: lax.with_sharding_constraint(x, NamedSharding(mesh, spec))


@step
def mapped(rng, values, mesh):
    """A shard_map with a collective along one axis, on which dimension 0 is split."""
    axis = mesh.axis_names[rng.integers(len(mesh.axis_names))]
    n = mesh.shape[axis]
    i = pick(rng, values, lambda v: v.shape and floating(v) and v.shape[0] % (n * n) == 0)
    if i is None:
        return None
    ring = [(k, (k + 1) % n) for k in range(n)]
    collectives = {"psum": (lambda x: lax.psum(x, axis) / n, P()),
                   "pmean": (lambda x: lax.pmean(jnp.square(x), axis), P()),
                   "all_gather": (lambda x: lax.all_gather(x, axis, tiled=True), P(axis)),
                   "psum_scatter": (lambda x: lax.psum_scatter(x, axis, tiled=True), P(axis)),
                   "ppermute": (lambda x: lax.ppermute(x, axis, ring), P(axis)),
                   "all_to_all": (lambda x: lax.all_to_all(x, axis, 0, 0, tiled=True), P(axis)),
                   "axis_index": (lambda x: x * (lax.axis_index(axis) + 1).astype(x.dtype) / n, P(axis))}
    name = list(collectives)[rng.integers(len(collectives))]
    body, out = collectives[name]
    return f" {name} along {axis}", [i], jax.shard_map(body, mesh=mesh, in_specs=P(axis), out_specs=out)
