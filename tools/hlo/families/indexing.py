# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from record import rand


def cases(r):
    x, i = rand((6, 5, 4)), np.array([0, 3, 5, 1], np.int32)
    r.case("take", lambda x, i: (x[i], x[:, i], x[i, i], jnp.take(x, i, 1), jnp.take(x, i + 3, 0, mode="clip"), jnp.take(x, i, 0, mode="wrap")), x, i % 5)
    r.case("take_fill", lambda x, i: (x.at[i + 3].get(mode="fill"), x.at[i + 3].get(mode="fill", fill_value=-1), jnp.take(x, i * 4, 0)), x, i)
    r.case("negative", lambda x, i: (x[-i], x[i - 6]), x, i)
    r.case("take_along", lambda x: (jnp.take_along_axis(x, jnp.argsort(x, 1), 1), jnp.take_along_axis(x, jnp.argmax(x, 2, keepdims=True), 2)), x)
    r.case("mixed", lambda x, i: (x[i, 1:3], x[1:3, i % 5, ::2], x[i[:, None], i[None] % 5], x[..., i % 4]), x, i)
    r.case("bool_where", lambda x: jnp.where(x > 0, x, 0)[0], x)
    r.case("set", lambda x, i: (x.at[i].set(0.0), x.at[:, i % 5].set(x[:, :4]), x.at[i, i % 5].set(1.0), x.at[1:3].set(5.0), x.at[0, 0, 0].set(9.0)), x, i)
    r.case("add", lambda x, i: (x.at[i].add(1.0), x.at[i, 0].add(x[:4, 1]), x.at[i * 0].add(2.0)), x, i)
    r.case("mul_min_max", lambda x, i: (x.at[i].multiply(2.0), x.at[i].min(0.5), x.at[i].max(0.5), x.at[i].divide(2.0), x.at[i].power(2.0)), np.abs(x), i)
    r.case("apply", lambda x, i: x.at[i].apply(jnp.sin), x, i)
    r.case("apply_repeat", lambda x, i: x.at[i * 0].apply(lambda v: v * 2 + 1), x, i)
    r.case("subtract", lambda x, i: (x.at[i].subtract(1.0), x.at[i * 0].subtract(x[:4])), x, i)
    r.case("modes", lambda x, i: (x.at[i + 3].set(1.0, mode="drop"), x.at[i + 3].add(1.0, mode="clip"), x.at[i + 3].set(1.0, mode="promise_in_bounds") if False else x.at[i + 3].add(2.0)), x, i)
    r.case("unique_sorted", lambda x: x.at[jnp.array([1, 2, 4])].add(1.0, indices_are_sorted=True, unique_indices=True), x)
    for d in ("int32", "bool", "bfloat16", "complex64", "uint8"):
        r.case(f"scatter_{d}", lambda x, i: (x.at[i].set(x[0]),) + ((x.at[i].add(x[1]),) if d != "bool" else (x.at[i].max(x[1]),)), rand((6, 3), d), i)
    r.case("gather_u8", lambda x, i: x[i], x, i.astype(np.uint8))
    r.case("gather_grad", jax.grad(lambda x, i: (x[i] ** 2).sum()), x, i)
    r.case("scatter_grad", jax.grad(lambda x, i: (x.at[i].multiply(x[0]) ** 2).sum()), x, np.array([0, 3, 1], np.int32))
    r.case("vmapped", lambda x, i: (jax.vmap(lambda a, k: a[k])(x[:4], i % 5), jax.vmap(lambda a, k: a.at[k].add(1.0))(x[:4], i % 5), jax.vmap(lambda a, k: lax.dynamic_slice(a, (k, 0), (2, 2)))(x[:4], i), jax.vmap(lambda a, k: lax.dynamic_update_slice(a, a[:1] * 2, (k, 0)))(x[:4], i)), x, i)
    g = lax.GatherDimensionNumbers(offset_dims=(1, 2), collapsed_slice_dims=(0,), start_index_map=(0, 1))
    r.case("gather_raw", lambda x, i: lax.gather(x, i, g, (1, 2, 4)), x, np.array([[0, 1], [9, 2], [3, -4]], np.int32))
    gb = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,), start_indices_batching_dims=(0,))
    r.case("gather_batch", lambda x, i: lax.gather(x, i, gb, (1, 1, 4)), x, np.array([[0], [1], [9], [3], [2], [-1]], np.int32))
    s = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0, 2), scatter_dims_to_operand_dims=(0, 2))
    r.case("scatter_raw", lambda x, i, u: (lax.scatter_add(x, i, u, s), lax.scatter(x, i, u, s), lax.scatter_mul(x, i, u, s)), x, np.array([[0, 1], [5, 3], [7, 0]], np.int32), rand((3, 5)))
    r.case("scatter_sub_window", lambda x, u, i: lax.scatter_add(x, i, u, lax.ScatterDimensionNumbers((0, 1, 2), (), (0, 1))), x, rand((2, 3, 4)), np.array([1, 2], np.int32))
    r.case("one_hot", lambda i: (jax.nn.one_hot(i, 6), jnp.eye(6)[i]), i)
    r.case("embedding_grad", jax.grad(lambda e, i: jnp.sum(jnp.take(e, i, 0) ** 3)), rand((10, 3)), np.array([[1, 2], [1, 9]], np.int32))
    r.case("choose", lambda i, x: (jnp.choose(i % 3, [x, x * 2, x * 3]), jnp.select([x > 1, x > 0], [x, -x], 0.0), jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2])), np.array([0, 1, 2, 3], np.int32), rand((4,)))
    r.case("put", lambda x, i: (jnp.put(x, i, 7.0, inplace=False), jnp.insert(x[0, 0], 2, 5.0), jnp.delete(x[0, 0], 1)), x, i)
    r.case("permutation_inverse", lambda i: jnp.zeros(4, "int32").at[i].set(jnp.arange(4)), np.array([2, 0, 3, 1], np.int32))
    r.case("compress", lambda x: (jnp.extract(x > 0, x, size=7), jnp.compress(np.array([True, False, True, True, False, True]), x, axis=0)), x)
