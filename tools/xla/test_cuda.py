#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests, examples and the benchmark's compute workloads on the NVIDIA GPUs of this machine, the workloads beside JAX on the same
GPUs. Where there is no GPU it prints that, and succeeds.

Usage: tools/xla/test_cuda.py BUILD [--plugin PATH] [--only NAME[/GROUP]] [--jobs COUNT] [--seconds COUNT] [--rounds COUNT]
                              [--no-tests] [--no-bench]

BUILD is the folder of the build; --only, --jobs and --seconds are those of tools/xla/test.py. The recorded results are those of float32,
so the tests run without TF32, which the workloads have on both sides, as it is the GPU's default. The plugin and JAX are the packages jax-cuda13-pjrt and jax of a Python that TESSERA_CUDA_PYTHON names,
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
PACKAGES = ["jax[cuda13]==0.11.2", "numpy"]
WORKLOADS = ["dispatch_jit_1dev", "dispatch_eager_alldev", "matmul_1024_f32_1dev", "matmul_1024_f32_alldev", "matmul_1024_bf16_1dev", "gelu_64MB_alldev",
             "softmax_8192x1024_alldev", "layernorm_8192x1024_alldev", "sum_64MB_all_axes_alldev",
             "conv_32x32x32x64_3x3_alldev", "sort_1M_f32_1dev", "gather_rows_65536x256_1dev", "random_normal_4M_alldev"]
TRAINING = ["gpt_step_alldev"]  # on a mesh of N / 2 x 2 devices, or of one
# Several processes share the GPUs, products and convolutions keep all bits of float32, and nothing is tuned for one run.
PLAIN = {"TESSERA_PJRT_OPTIONS": "preallocate:false", "NVIDIA_TF32_OVERRIDE": "0",
         "XLA_FLAGS": "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"}
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
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-tests", action="store_true")
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
    out = o.build / "cuda"
    out.mkdir(exist_ok=True)
    failed = 0
    if not o.no_tests:
        flags = " ".join(f for f in (os.environ.get("XLA_FLAGS", ""), PLAIN["XLA_FLAGS"]) if f)
        command = [sys.executable, str(HERE / "test.py"), str(o.build), plugin, "--devices", str(count), "--jobs", str(o.jobs),
                   "--seconds", str(o.seconds), "--logs", str(out / "logs"), "--accepted", str(HERE / "accepted_cuda.txt")]
        failed = subprocess.run(command + (["--only", o.only] if o.only else []), env={**env, **PLAIN, "XLA_FLAGS": flags}).returncode
    if o.no_bench:
        return failed
    names = WORKLOADS + (TRAINING if count == 1 or count % 2 == 0 else [])
    table = subprocess.run([sys.executable, str(ROOT / "bench/side_by_side.py"), "--only", ",".join(names), "--rounds", str(o.rounds),
                            "--devices", str(count), "--binary", str(o.build / "bin/tessera"), "--out", str(out), "--no-targets", "--together"],
                           env=dict(env, TESSERA_ENGINE=f"pjrt:{plugin}", JAX_PLATFORMS="cuda", TESSERA_BENCH_PYTHON=python,
                                    TF_CPP_MIN_LOG_LEVEL=os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")))
    return failed or table.returncode


if __name__ == "__main__":
    sys.exit(main())
