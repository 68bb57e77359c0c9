# SPDX-License-Identifier: Apache-2.0
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tessera.jax
from jax.sharding import NamedSharding, PartitionSpec as P
from tessera import _xla
from tessera.check import difference, hlo_collectives


def placed(mesh, x, *spec):
    return jax.device_put(x, NamedSharding(mesh, P(*spec)))


@pytest.fixture
def xla_adds_one(monkeypatch):
    """XLA gets other arguments than Tessera."""
    argument = _xla.Twin.argument
    monkeypatch.setattr(_xla.Twin, "argument", lambda self, x: argument(self, x) + 1)


def test_runs_on_both(mesh, numbers):
    a = placed(mesh, numbers.normal(size=(8, 8)).astype(np.float32), "x", "y")
    report = tessera.jax.check(lambda a: a @ a.T, a)
    (result,) = report.results
    assert all("Tessera" in d.client.platform_version for d in result.tessera.devices())
    assert not any("Tessera" in d.client.platform_version for d in result.xla.devices())
    np.testing.assert_allclose(np.asarray(result.xla), np.asarray(a) @ np.asarray(a).T, rtol=1e-5)
    assert report.same_values and 0 <= result.difference < 1e-5


def test_counts_collectives_of_both(mesh):
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x"))
    def f(a):
        return jax.lax.ppermute(jax.lax.psum(a, "y"), "x", [(i, (i + 1) % 4) for i in range(4)])

    report = tessera.jax.check(f, placed(mesh, np.ones((8, 8), np.float32), "x", "y"))
    assert report.collectives == {"all_reduce": (1, 1), "collective_permute": (1, 1)}
    assert report.same_collectives and report.plan.count("all_reduce") == 1
    assert "all-reduce(" in report.hlo


def test_compares_shardings(mesh):
    a = placed(mesh, np.ones((8, 8), np.float32), "x", "y")
    constrained = jax.jit(lambda a: a.T, out_shardings=NamedSharding(mesh, P("y", None)))
    (result,) = tessera.jax.check(constrained, a).results
    assert result.same_sharding
    assert result.xla_sharding == result.tessera_sharding == "2x1 on 8 devices"


def test_devices_of_a_part_of_the_mesh(mesh):
    small = jax.sharding.Mesh(np.asarray(jax.devices()[4:6]), ("z",))
    (result,) = tessera.jax.check(jnp.cumsum, placed(small, np.arange(8.0), "z")).results
    assert {d.id for d in result.xla.devices()} == {d.id for d in result.tessera.devices()} == {4, 5}


def test_values_that_differ(mesh, xla_adds_one):
    with pytest.raises(tessera.jax.Mismatch, match=r"1 of 2 results differ") as raised:
        tessera.jax.check(lambda a: {"sum": a.sum(), "shape": jnp.ones(a.shape)}, placed(mesh, np.ones((8, 8)), "x"))
    (bad,) = raised.value.report.differing
    assert bad.path == "['sum']" and bad.difference == 0.5
    assert "differs" in str(raised.value)
    assert isinstance(raised.value, AssertionError)


def test_report_only(xla_adds_one):
    report = tessera.jax.check(lambda a: a, np.arange(4), report_only=True)
    assert not report.same_values and report.differing[0].tolerance == 0


def test_rtol(xla_adds_one):
    assert tessera.jax.check(lambda a: a, np.float32(999), rtol=1e-3).same_values
    with pytest.raises(tessera.jax.Mismatch):
        tessera.jax.check(lambda a: a, np.float32(999), rtol=9e-4)
    with pytest.raises(ValueError, match="rtol = -1; expected 0 or more"):
        tessera.jax.check(lambda a: a, np.float32(1), rtol=-1)


def test_static_named_and_donated_arguments(mesh):
    @functools.partial(jax.jit, static_argnums=1, static_argnames="power", donate_argnums=0)
    def f(a, n, *, power, plus):
        return a**power * n + plus

    a = placed(mesh, np.arange(16, dtype=np.float32), "x")
    (result,) = tessera.jax.check(f, a, 3, power=2, plus=np.float32(1)).results
    np.testing.assert_array_equal(np.asarray(result.xla), np.arange(16.0) ** 2 * 3 + 1)
    assert a.is_deleted()


def test_callbacks_are_called_on_both():
    calls = []

    def f(a):
        return jax.pure_callback(lambda x: calls.append(1) or np.asarray(x) * 2, jax.ShapeDtypeStruct((4,), np.int32), a)

    (result,) = tessera.jax.check(f, np.arange(4, dtype=np.int32)).results
    assert len(calls) == 2 and list(np.asarray(result.xla)) == [0, 2, 4, 6]
    # and later programs are Tessera's again
    assert list(jax.jit(f)(np.arange(4, dtype=np.int32))) == [0, 2, 4, 6] and len(calls) == 3


def test_pmap():
    report = tessera.jax.check(jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i"), np.arange(8.0))
    assert report.collectives == {"all_reduce": (1, 1)} and report.same_shardings


def test_random_keys(mesh):
    keys = jax.device_put(jax.random.split(jax.random.key(0), 8), NamedSharding(mesh, P("x")))
    report = tessera.jax.check(lambda k, one: (jax.vmap(jax.random.normal)(k), jax.random.split(one)), keys,
                               jax.random.key(1))
    assert [r.difference == 0 for r in report.results][1] and report.same_values


def test_refuses_references():
    with pytest.raises(TypeError, match="is a reference"):
        tessera.jax.check(lambda r: r[...], jax.new_ref(jnp.zeros(3)))


def test_difference():
    assert difference(np.float32([1, 2]), np.float32([1, 4])) == 1
    assert difference(np.float32([0, 0]), np.float32([0, 3])) == 3
    assert difference(np.float32([np.nan, np.inf]), np.float32([np.nan, np.inf])) == 0
    assert difference(np.float32([np.nan]), np.float32([1])) == np.inf
    assert difference(np.float32([np.inf]), np.float32([-np.inf])) == np.inf
    assert difference(np.float32([1]), np.float64([1])) == np.inf
    assert difference(np.ones(3), np.ones((3, 1))) == np.inf
    assert difference(np.int32([5]), np.int32([6])) == 1
    assert difference(np.complex64([1j]), np.complex64([-1j])) == 2
    assert difference(jnp.bfloat16(1), jnp.bfloat16(1)) == 0
    assert difference(np.zeros((0, 2)), np.zeros((0, 2))) == 0


def test_hlo_collectives():
    text = """  %a = f32[2]{0} all-reduce(f32[2]{0} %p), replica_groups={}
  %b = (f32[2]{0}, f32[4]{0}) all-gather-start(%a), dimensions={0}
  %c = f32[4]{0} all-gather-done(%b)
  ROOT %d = (f32[4]{0}, s32[]) all-reduce(%c, %e), to_apply=%sum"""
    assert hlo_collectives(text) == {"all_reduce": 2, "all_gather": 1}
