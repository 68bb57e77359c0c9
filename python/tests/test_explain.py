# SPDX-License-Identifier: Apache-2.0
import jax
import numpy as np
import pytest
import tessera
from jax.sharding import NamedSharding, PartitionSpec as P
from tessera.explain import parse_bytes


@pytest.fixture
def a(mesh):
    return jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("x", "y")))


def energy(a):
    b = a @ a.T
    return b.sum()


def test_plan_names_lines(a):
    plan = tessera.comm_plan(energy, a)
    assert plan.devices == 8 and len(plan) == plan.count("all_gather") + plan.count("all_reduce") == 2
    first = next(iter(plan))
    assert (first.op, first.axes, first.value) == ("all_gather", ("x",), "f32[8,8]")
    assert first.bytes == 96  # three blocks of 2x4 of the other rows
    line = energy.__code__.co_firstlineno + 1
    assert first.file == __file__ and first.line == line and f"test_explain.py:{line}" in str(plan)
    assert str(plan).endswith(f"total: {plan.bytes_per_device:,} bytes per device in 2 collectives on 8 devices")
    assert f"<td>dot_general at test_explain.py:{line}</td>" in plan._repr_html_()


def test_plan_of_types_and_of_lowered_programs(a):
    described = jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding)
    assert str(tessera.comm_plan(energy, described)) == str(tessera.comm_plan(jax.jit(energy).lower(a)))


def test_plan_of_what_is_no_function():
    with pytest.raises(TypeError, match="function = 'energy'; expected a function"):
        tessera.comm_plan("energy")


def test_budget(a, comm_budget):
    needed = tessera.comm_plan(energy, a).bytes_per_device
    with comm_budget(needed):
        assert jax.jit(energy)(a) == 512
    with comm_budget("1 MB"), comm_budget(needed - 1), comm_budget("1 GB"):  # the smallest holds
        with pytest.raises(Exception, match="all_gather"):
            jax.jit(energy)(a)
    assert jax.jit(energy)(a) == 512


def test_parse_bytes():
    assert [parse_bytes(x) for x in (4096, "4096", "1 MB", "1.5 KiB", "2gib")] == [4096, 4096, 10**6, 1536, 2**31]
    for wrong in ("1 XB", "", -1, "MB"):
        with pytest.raises(ValueError, match="is no amount of bytes"):
            parse_bytes(wrong)


def test_show(mesh, capsys):
    text = tessera.show(jax.device_put(np.zeros((4, 4)), NamedSharding(mesh, P("y", None))))
    assert capsys.readouterr().out == text + "\n"
    lines = text.splitlines()
    assert len(lines) == 6 and lines[0].startswith("float64[4,4]" if jax.config.jax_enable_x64 else "float32[4,4]")
    assert lines[2].strip("| ") == "0,2,4,6" and lines[4].strip("| ") == "1,3,5,7"
