# SPDX-License-Identifier: Apache-2.0
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tessera
from jax.sharding import NamedSharding, PartitionSpec as P


def energy(a):
    b = a @ a.T
    return b.sum()


def events(path, kind):
    return [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == kind]


@pytest.fixture
def a(mesh):
    return jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("x", "y")))


def test_steps_and_collectives_by_device(a, tmp_path):
    program = jax.jit(energy)
    program(a)  # compiled, and not in the trace
    with tessera.trace(tmp_path / "calls.json"):
        program(a)
    assert [e["args"]["name"] for e in events(tmp_path / "calls.json", "M")] == [f"device {d}" for d in range(8)]
    steps = events(tmp_path / "calls.json", "X")
    assert {e["tid"] for e in steps} == set(range(8))
    plan = tessera.comm_plan(program, a)
    received = [e["args"]["received"] for e in steps if e["tid"] == 0 and "received" in e["args"]]
    assert sum(received) == plan.bytes_per_device and len(received) == len(plan)
    line = energy.__code__.co_firstlineno + 1
    assert any(e["args"]["at"] == f"test_trace.py:{line}" for e in steps)
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in steps)


def test_waits_for_what_was_called(tmp_path):
    program = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda i, v: jnp.tanh(v @ v), x))
    x = jnp.full((64, 64), 0.01)
    program.lower(x).compile()
    with tessera.trace(tmp_path / "loop.json"):
        program(x)  # its result is not waited for
    assert sum("dot_general" in e["name"] for e in events(tmp_path / "loop.json", "X")) >= 200


def test_only_what_runs_inside(a, tmp_path):
    program = jax.jit(energy)
    program(a).block_until_ready()
    with tessera.trace(tmp_path / "outer.json"):
        program(a)
        with tessera.trace(tmp_path / "inner.json"):
            program(a)
    program(a).block_until_ready()
    inner, outer = (len(events(tmp_path / f"{name}.json", "X")) for name in ("inner", "outer"))
    assert outer == 2 * inner > 0
    with tessera.trace(tmp_path / "empty.json"):
        pass
    assert json.loads((tmp_path / "empty.json").read_text())["traceEvents"] == []


def test_written_where_the_body_fails(a, tmp_path):
    with pytest.raises(ZeroDivisionError), tessera.trace(tmp_path / "failed.json"):
        jax.jit(energy)(a)
        1 / 0
    assert events(tmp_path / "failed.json", "X")


def test_says_where_it_cannot_write(tmp_path):
    with pytest.raises(RuntimeError, match="missing"), tessera.trace(tmp_path / "missing" / "trace.json"):
        pytest.fail("ran")
