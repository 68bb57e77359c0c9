# SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys

import jax
import pytest


@pytest.mark.skipif(not jax.__version__.startswith("0.10."), reason="the pictures show what JAX 0.10 calls shardings")
def test_pictures_show_what_is_printed():
    tool = pathlib.Path(__file__).resolve().parents[2] / "tools/jax/draw_explainer.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
