#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests, examples and the benchmark's compute workloads on the NVIDIA GPUs of this machine, the workloads beside JAX on the same
GPUs. Where there is no GPU it prints that, and succeeds.

Usage: tools/xla/test_cuda.py BUILD [--plugin PATH] [--rounds COUNT] [--no-bench]

BUILD is the folder of the build. The plugin and JAX are the packages jax-cuda13-pjrt and jax of a Python that TESSERA_CUDA_PYTHON names,
else of a virtual environment that is made in BUILD/cuda-venv (3 GB from PyPI the first time).
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = ["jax[cuda13]==0.10.2", "numpy"]
WORKLOADS = ["matmul_1024_f32_1dev", "matmul_1024_f32_alldev", "matmul_1024_bf16_1dev", "gelu_64MB_alldev",
             "softmax_8192x1024_alldev", "layernorm_8192x1024_alldev", "sum_64MB_all_axes_alldev",
             "conv_32x32x32x64_3x3_alldev", "sort_1M_f32_1dev", "gather_rows_65536x256_1dev", "random_normal_4M_alldev"]
TRAINING = ["gpt_step_alldev"]  # on a mesh of N / 2 x 2 devices
# Where the plugin's file and the libraries that it loads are.
PLACES = """
import pathlib, site, sys
folders = [pathlib.Path(p) for p in [*site.getsitepackages(), site.getusersitepackages(), *sys.path] if p]
plugins = [f for d in folders for f in sorted(d.glob("jax_plugins/xla_cuda1[0-9]/*.so"), reverse=True) if "plugin" in f.name]
print(plugins[0] if plugins else "")
print(":".join(sorted({str(f) for d in folders for f in d.glob("nvidia/**/lib") if f.is_dir()})))
"""


def gpus() -> int:
    """How many there are: as the driver lists them, else by their device files."""
    if smi := shutil.which("nvidia-smi"):
        listed = subprocess.run([smi, "-L"], capture_output=True, text=True)
        if listed.returncode == 0:
            return len(re.findall(r"^GPU \d+:", listed.stdout, re.MULTILINE))
    return sum(1 for f in pathlib.Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", f.name))


def python_with_jax(build: pathlib.Path) -> str:
    if given := os.environ.get("TESSERA_CUDA_PYTHON"):
        return given
    python = build / "cuda-venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
    if subprocess.run([str(python), "-c", "import jax, jax_plugins.xla_cuda13"], capture_output=True).returncode != 0:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return str(python)


def plugin_of(python: str) -> tuple[str, str]:
    """The plugin's path, empty where there is none, and the path of the libraries that it loads."""
    plugin, libraries = subprocess.run([python, "-c", PLACES], capture_output=True, text=True, check=True).stdout.split("\n")[:2]
    return plugin, libraries


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--plugin", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-bench", action="store_true")
    o = parser.parse_args()
    count = gpus()
    if count == 0:
        print("make test-cuda: this machine has no NVIDIA GPU (nvidia-smi lists none, and there is no /dev/nvidia0): "
              "nothing was run")
        return 0
    python = python_with_jax(o.build)
    found, libraries = plugin_of(python)
    plugin = o.plugin or found
    if not plugin:
        print(f"make test-cuda: {python} has no package jax-cuda13-pjrt, and --plugin names no plugin", file=sys.stderr)
        return 1
    env = dict(os.environ, LD_LIBRARY_PATH=":".join(p for p in (libraries, os.environ.get("LD_LIBRARY_PATH", "")) if p))
    print(f"{count} GPUs, {plugin}", flush=True)
    # One process at a time: each takes most of the GPUs' memory.
    tests = subprocess.run([sys.executable, str(HERE / "test.py"), str(o.build), plugin, "--devices", str(count), "--jobs", "1",
                            "--accepted", str(HERE / "accepted_cuda.txt")], env=env)
    if o.no_bench:
        return tests.returncode
    out = o.build / "cuda"
    out.mkdir(exist_ok=True)
    names = WORKLOADS + (TRAINING if count > 1 and count % 2 == 0 else [])
    table = subprocess.run([sys.executable, str(ROOT / "bench/side_by_side.py"), "--only", ",".join(names), "--rounds", str(o.rounds),
                            "--devices", str(count), "--binary", str(o.build / "bin/tessera"), "--out", str(out), "--no-targets"],
                           env=dict(env, TESSERA_ENGINE=f"pjrt:{plugin}", JAX_PLATFORMS="cuda", TESSERA_BENCH_PYTHON=python))
    return tests.returncode or table.returncode


if __name__ == "__main__":
    sys.exit(main())
