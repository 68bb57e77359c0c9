# SPDX-License-Identifier: Apache-2.0
"""Programs as users write them, each in a process of its own on XLA:CPU and on Tessera in its place."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
PACKAGE = HERE.parents[1]


def run(program: str, backend: str, out: pathlib.Path, *arguments, devices: int = 8) -> dict:
    """Runs programs/<program>.py, which stores its results in the file of its first argument. Returns them by name."""
    env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}",
               PYTHONPATH=os.pathsep.join([str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    env.pop("TESSERA_JAX", None)
    if backend == "tessera":
        env["TESSERA_JAX"] = "cpu"
    file = out / f"{program}-{backend}-{devices}.npz"
    done = subprocess.run([sys.executable, str(HERE / "programs" / f"{program}.py"), str(file), *map(str, arguments)],
                          env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{program} on {backend} ended with {done.returncode}:\n{done.stderr[-4000:]}"
    with np.load(file) as results:
        assert ("Tessera" in str(results["platform"])) == (backend == "tessera")
        return {name: results[name] for name in results if name != "platform"}


@pytest.fixture
def agree(tmp_path):
    """`agree(program, rtol)`: its results on both, which must be equal up to `rtol`. Returns Tessera's."""
    def both(program, rtol, *arguments, devices=8):
        theirs = run(program, "xla", tmp_path, *arguments, devices=devices)
        ours = run(program, "tessera", tmp_path, *arguments, devices=devices)
        assert theirs.keys() == ours.keys() and ours
        for name, wanted in theirs.items():
            np.testing.assert_allclose(ours[name], wanted, rtol=rtol, atol=rtol * np.abs(wanted).max(initial=0), err_msg=name)
        return ours
    return both
