# SPDX-License-Identifier: Apache-2.0
"""The functions that cases name: JAX's own, forms that need other arguments, and small programs."""
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import programs

SPACES = {"lax": lax, "jnp": jnp, "nn": jax.nn, "random": jax.random, "linalg": jnp.linalg, "fft": jnp.fft,
          "special": jax.scipy.special, "slinalg": jax.scipy.linalg}
DTYPE_PARAMS = {"dtype", "new_dtype", "preferred_element_type", "index_dtype"}


def decode(params):
    """JSON parameters as JAX takes them: tuples for lists, dtypes for their names."""
    def plain(v):
        return tuple(plain(x) for x in v) if isinstance(v, list) else v
    infinities = {"inf": np.inf, "-inf": -np.inf}
    return {k: infinities[v] if k in ("ord", "p") and v in ("inf", "-inf") else jnp.dtype(v) if k in DTYPE_PARAMS and v is not None else plain(v) for k, v in params.items()}


def make_index(items, arrays):
    def one(item):
        if item == "newaxis":
            return None
        if item == "...":
            return Ellipsis
        if isinstance(item, dict):
            return slice(*item["slice"]) if "slice" in item else arrays[item["array"]]
        return item
    return tuple(one(i) for i in items)


def index_get(x, *arrays, index, mode=None, fill_value=None):
    if mode is None:
        return x[make_index(index, arrays)]
    return x.at[make_index(index, arrays)].get(mode=mode, fill_value=fill_value)


def index_update(method):
    def f(x, *rest, index, mode=None):
        *arrays, y = rest
        return getattr(x.at[make_index(index, arrays)], method)(y, mode=mode)
    return f


def gather(x, indices, dimension_numbers, slice_sizes, mode=None, fill_value=None):
    return lax.gather(x, indices, lax.GatherDimensionNumbers(**decode(dimension_numbers)), slice_sizes, mode=mode,
                      fill_value=fill_value)


def ragged_dot_general(lhs, rhs, group_sizes, dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions, **params):
    numbers = lax.RaggedDotDimensionNumbers(dimension_numbers, lhs_ragged_dimensions, rhs_group_dimensions)
    return lax.ragged_dot_general(lhs, rhs, group_sizes, numbers, **params)


def scatter(name):
    def f(x, indices, updates, dimension_numbers, mode=None):
        return getattr(lax, name)(x, indices, updates, lax.ScatterDimensionNumbers(**decode(dimension_numbers)), mode=mode)
    return f


REDUCERS = {"add": lax.add, "mul": lax.mul, "max": lax.max, "min": lax.min}


def reduce_window(x, init, computation, **params):
    # The gradient is known for JAX's own reducers with a constant start only.
    return lax.reduce_window(x, np.asarray(init), REDUCERS[computation], **params)


def binary_operator(op):
    return getattr(operator, op)


SPECIAL = {
    "index.get": index_get,
    **{f"index.{m}": index_update(m) for m in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")},
    "lax.gather": gather,
    **{f"lax.{n}": scatter(n) for n in ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")},
    "lax.reduce_window": reduce_window,
    "lax.ragged_dot_general": ragged_dot_general,
    "lax.concatenate": lambda *xs, dimension: lax.concatenate(xs, dimension),
    "lax.sort": lambda *xs, **p: lax.sort(xs if len(xs) > 1 else xs[0], **p),
    "lax.round": lambda x, rounding_method: lax.round(x, lax.RoundingMethod[rounding_method]),
    "lax.dynamic_slice": lambda x, *i, slice_sizes: lax.dynamic_slice(x, i, slice_sizes),
    "lax.dynamic_update_slice": lambda x, u, *i: lax.dynamic_update_slice(x, u, i),
    "lax.pad": lambda x, v, padding_config: lax.pad(x, v, padding_config),
    "lax.fft": lambda x, fft_type, fft_lengths: lax.fft(x, lax.FftType[fft_type], fft_lengths),
    "jnp.concatenate": lambda *xs, **p: jnp.concatenate(xs, **p),
    "jnp.stack": lambda *xs, **p: jnp.stack(xs, **p),
    "jnp.vstack": lambda *xs: jnp.vstack(xs),
    "jnp.hstack": lambda *xs: jnp.hstack(xs),
    "jnp.dstack": lambda *xs: jnp.dstack(xs),
    "jnp.column_stack": lambda *xs: jnp.column_stack(xs),
    "lax.approx_max_k": lambda x, k: lax.approx_max_k(x, k, recall_target=1.0),
    "lax.approx_min_k": lambda x, k: lax.approx_min_k(x, k, recall_target=1.0),
    "jnp.indices": lambda dimensions: jnp.indices(dimensions),
    "jnp.insert": lambda x, values, obj, axis=None: jnp.insert(x, np.array(obj) if isinstance(obj, tuple) else obj, values, axis=axis),
    "jnp.delete": lambda x, obj, axis=None: jnp.delete(x, np.array(obj), axis=axis),
    "jnp.fill_diagonal": lambda x, v: jnp.fill_diagonal(x, v, inplace=False),
    "jnp.put_along_axis": lambda x, i, v, axis: jnp.put_along_axis(x, i, v, axis, inplace=False),
    "jnp.average": lambda x, w=None, **p: jnp.average(x, weights=w, **p),
    "jnp.bincount": lambda x, w=None, **p: jnp.bincount(x, w, **p),
    "jnp.trapezoid": lambda y, x=None, **p: jnp.trapezoid(y, x, **p),
    "jnp.gradient": lambda f, *h, **p: jnp.gradient(f, *h, **p),
    "nn.dot_product_attention": lambda q, k, v, bias=None, mask=None, **p: jax.nn.dot_product_attention(q, k, v, bias, mask, **p),
    "random.choice": lambda k, a, prob=None, **p: jax.random.choice(k, a, p=prob, **p),
    "random.ball": lambda k, d, p=2, **kw: jax.random.ball(k, d, p, **kw),
    "jnp.einsum": lambda *xs, subscripts, **p: jnp.einsum(subscripts, *xs, **p),
    "jnp.where": lambda c, x, y: jnp.where(c, x, y),
    "random.key": lambda seed: jax.random.key(seed),
    **{f"operator.{o}": binary_operator(o) for o in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift", "eq", "ne",
        "lt", "le", "gt", "ge", "matmul", "neg", "invert")},
}


def lookup(name):
    if name in SPECIAL:
        return SPECIAL[name]
    space, _, rest = name.partition(".")
    if space == "initializers":
        return lambda k, shape, dtype="float32", **p: getattr(jax.nn.initializers, rest)(**p)(k, shape, dtype)
    if space == "program":
        return getattr(programs, rest)
    return operator.attrgetter(rest)(SPACES[space])
