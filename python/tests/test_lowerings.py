# SPDX-License-Identifier: Apache-2.0
"""What JAX lowers in another way for Tessera than for XLA's CPU backend."""
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import buffer_callback
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import tessera


def mesh(*sizes):
    return jax.make_mesh(sizes, ("x", "y")[: len(sizes)], axis_types=(AxisType.Auto,) * len(sizes))


def test_buffers_of_callbacks_are_memory():
    seen = []

    def scaled(ctx, out, x, *, by):
        seen.append((ctx.stage, x.shape, x.dtype, x.writeable, out.writeable))
        np.asarray(out)[...] = np.asarray(x) * np.asarray(by)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    f = buffer_callback.buffer_callback(scaled, jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="sequential")
    np.testing.assert_array_equal(jax.jit(lambda v: f(v, by=jnp.float32(3)))(x), 3 * x)
    assert seen == [(buffer_callback.ExecutionStage.EXECUTE, (2, 3), np.float32, False, True)]
    rows = buffer_callback.buffer_callback(scaled, jax.ShapeDtypeStruct((3,), np.float32), vmap_method="sequential")
    np.testing.assert_array_equal(jax.vmap(lambda v: rows(v, by=jnp.float32(2)))(x), 2 * x)


def test_an_alias_is_the_same_memory():
    def add_one(ctx, out, x):
        assert np.asarray(out).ctypes.data == np.asarray(x).ctypes.data
        np.asarray(out)[...] += 1

    x = jnp.arange(4, dtype=jnp.int32)
    f = buffer_callback.buffer_callback(add_one, jax.ShapeDtypeStruct(x.shape, x.dtype), input_output_aliases={0: 0})
    np.testing.assert_array_equal(f(x), [1, 2, 3, 4])
    np.testing.assert_array_equal(x, [0, 1, 2, 3])


def test_a_callback_that_returns_something_is_an_error():
    f = buffer_callback.buffer_callback(lambda ctx, out: 1, jax.ShapeDtypeStruct((), np.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="must not return any values"):
        jax.block_until_ready(f())


def test_custom_partitioning_is_its_function():
    def never(*args):
        raise AssertionError("the partitioner is Tessera's")

    @custom_partitioning
    def rows(x):
        return jnp.cumsum(x, axis=1)

    rows.def_partition(infer_sharding_from_operands=never, partition=never, sharding_rule="i j -> i j")
    x = jax.device_put(np.arange(32, dtype=np.float32).reshape(8, 4), NamedSharding(mesh(8), P("x")))
    np.testing.assert_array_equal(jax.jit(rows)(x), np.cumsum(x, axis=1))
    assert len(tessera.comm_plan(rows, x)) == 0  # rows stay where they are


def test_the_persistent_cache_does_not_mix_functions_up(tmp_path):
    def adding(step):
        def f(x):
            return x + jax.pure_callback(lambda v: np.asarray(v) + np.float32(step), jax.ShapeDtypeStruct((), np.float32), x)

        return jax.jit(f)

    config, cache = jax._src.config, jax._src.compilation_cache
    with config.compilation_cache_dir(str(tmp_path)), config.persistent_cache_min_compile_time_secs(0), \
            config.persistent_cache_min_entry_size_bytes(0):
        cache.reset_cache()
        assert adding(1)(jnp.float32(1)) == 3
        assert adding(2)(jnp.float32(1)) == 4
        jax.clear_caches()
        assert adding(3)(jnp.float32(1)) == 5
    cache.reset_cache()
