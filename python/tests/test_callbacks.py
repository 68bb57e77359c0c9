# SPDX-License-Identifier: Apache-2.0
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec as P

FOUR = jax.ShapeDtypeStruct((4,), np.float32)


def test_functions_do_not_see_the_callers_mesh():
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))

    def on_host(x):
        assert jax.sharding.get_abstract_mesh().empty
        return x + 1  # a program of JAX, of one device

    with jax.set_mesh(mesh):
        x = jax.device_put(np.arange(4, dtype=np.float32), P("x"))
        y = jax.shard_map(lambda b: jax.pure_callback(on_host, jax.ShapeDtypeStruct((2,), np.float32), b), in_specs=P("x"),
                          out_specs=P("x"))(x)
    np.testing.assert_array_equal(y, [1, 2, 3, 4])


def test_functions_are_not_traced_with_their_caller():
    def traced(x):
        # a constant of the program, computed as it is traced
        table = jax.pure_callback(lambda v: np.asarray(jnp.sin(v) * 2), FOUR, np.arange(4, dtype=np.float32))
        return x + table

    with jax.ensure_compile_time_eval():
        jax.jit(traced)(jnp.zeros(4))
    np.testing.assert_allclose(jax.jit(traced)(jnp.zeros(4)), 2 * np.sin(np.arange(4.0)), rtol=1e-6)


def test_callbacks_within_callbacks():
    def inner(x):
        return np.asarray(x) + 1

    def outer(x):
        return jax.jit(lambda v: jax.pure_callback(inner, FOUR, v) * 2)(x)

    np.testing.assert_array_equal(jax.jit(lambda v: jax.pure_callback(outer, FOUR, v))(jnp.arange(4.0)), [2, 4, 6, 8])


def test_threads_are_used_again():
    names = set()

    def on_host(x):
        names.add(threading.get_ident())
        return np.asarray(x)

    f = jax.jit(lambda v: jax.pure_callback(on_host, FOUR, v))
    for _ in range(20):
        f(jnp.arange(4.0)).block_until_ready()
    assert len(names) == 1 and threading.get_ident() not in names


def test_errors_reach_the_caller():
    def on_host(x):
        raise KeyError("of the callback")

    with pytest.raises(Exception, match="KeyError: 'of the callback'"):
        jax.jit(lambda v: jax.pure_callback(on_host, FOUR, v))(jnp.arange(4.0)).block_until_ready()
