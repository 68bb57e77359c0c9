# SPDX-License-Identifier: Apache-2.0
"""Shardings that a program asks for while it is compiled, and values that are sharded alike."""
import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.shard_alike import shard_alike
from jax.sharding import NamedSharding, PartitionSpec as P
from tessera import _inspect_sharding


@pytest.fixture
def x(mesh):
    return jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), NamedSharding(mesh, P("x", "y")))


def test_propagated_shardings_are_reported(mesh, x):
    seen = []

    @jax.jit
    def f(x):
        y = x @ x.T
        jax.debug.inspect_array_sharding(y, callback=seen.append)

        def body(c, row):
            jax.debug.inspect_array_sharding(row, callback=seen.append)
            return c + row.sum(), None

        return y, jax.lax.scan(body, 0.0, x.T)[0]

    with jax.set_mesh(mesh):
        y, total = f(x)
        f(x)  # compiled already
    assert [s.spec for s in seen] == [P("x"), P("x")] and y.sharding.is_equivalent_to(seen[0], 2)
    assert total == np.asarray(x).sum()
    np.testing.assert_array_equal(y, np.asarray(x) @ np.asarray(x).T)


def test_what_the_callback_throws_is_thrown(mesh, x):
    def refuse(sharding):
        raise ValueError(f"not {sharding.spec}")

    def f(x):
        jax.debug.inspect_array_sharding(x, callback=refuse)
        return x + 1

    with pytest.raises(jax.errors.JaxRuntimeError, match=r"inspect_array_sharding: ValueError: not .*'x', 'y'"):
        jax.jit(f).lower(x).compile()


def test_callbacks_live_as_long_as_the_program(x):
    def f(x):
        jax.debug.inspect_array_sharding(x, callback=lambda s: None)
        return x * 2

    compiled = jax.jit(f).lower(x).compile()
    assert len(_inspect_sharding._callbacks) > 0
    del compiled, f
    jax.clear_caches()
    gc.collect()
    assert len(_inspect_sharding._callbacks) == 0


def test_values_sharded_alike(mesh, x):
    @jax.jit
    def f(x):
        y = x @ x.T
        return shard_alike(y, jnp.arange(64.0).reshape(8, 8))

    for out in f(x):
        assert out.sharding.is_equivalent_to(NamedSharding(mesh, P("x")), 2)
