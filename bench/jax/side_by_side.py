#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plain JAX programs on Tessera beside XLA:CPU, in alternation; prints a table, best of all rounds.

Usage: bench/jax/side_by_side.py [--rounds 3] [--devices 8,64,512,4096] [--record]

Run it with a Python that has JAX; TESSERA_PJRT_LIBRARY names the plugin. --record writes the table into
docs/performance.md, between the lines that mark it.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAMES = {"dispatch": "cached `jit` call", "psum_1k": "`psum` of 1 KB a device", "psum_16m": "`psum` of 16 MB a device",
         "compile": "compiling the training step", "first_step": "first training step, traced by JAX, compiled and run",
         "step": "training step"}


def run(backend: str, devices: int, names: str, limit: int) -> dict | str:
    env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}")
    env.pop("TESSERA_JAX", None)
    if backend == "tessera":
        env.update(TESSERA_JAX="cpu", PYTHONPATH=str(ROOT / "python"))
    try:
        done = subprocess.run([sys.executable, str(HERE / "workloads.py"), str(devices), names], env=env, timeout=limit,
                              capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return f"none in {limit} s"
    if done.returncode != 0:
        if done.returncode < 0:
            return "aborts"
        errors = re.findall(r"^[\w.]*(?:Error|Exception): (.*)", done.stderr, re.M)  # JAX writes more below it
        return f"fails: {errors[-1][:60]}" if errors else "fails"
    return json.loads(done.stdout.strip().splitlines()[-1])


def text(seconds) -> str:
    if not isinstance(seconds, float):
        return str(seconds)
    for unit, scale in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            break
    return f"{seconds / scale:.3g} {unit}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--devices", default="8,64,512,4096")
    parser.add_argument("--limit", type=int, default=180)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    rows = ["| devices | program | XLA:CPU | Tessera | ratio |", "| --- | --- | --- | --- | --- |"]
    for devices in map(int, args.devices.split(",")):
        names = "dispatch,psum_1k,psum_16m,train" if devices == 8 else "dispatch,psum_1k,train"
        seen = {"xla": {}, "tessera": {}}
        for _ in range(args.rounds if devices <= 64 else 1):
            for backend in seen:
                if isinstance(seen[backend], str):
                    continue
                result = run(backend, devices, names, args.limit)
                if isinstance(result, str):
                    seen[backend] = result
                    continue
                for name, seconds in result.items():
                    seen[backend][name] = min(seconds, seen[backend].get(name, seconds))
        for name, title in NAMES.items():
            pair = [s if isinstance(s, str) else s.get(name) for s in seen.values()]
            if pair[0] is None or pair[1] is None:
                continue
            both = all(isinstance(p, float) for p in pair)
            rows.append(f"| {devices} | {title} | {text(pair[0])} | {text(pair[1])} | "
                        f"{f'{pair[0] / pair[1]:.1f}' if both else ''} |")
            print(rows[-1], flush=True)
    if args.record:
        page = ROOT / "docs/performance.md"
        marked = re.compile(r"(<!-- bench-jax -->\n).*?(<!-- /bench-jax -->)", re.S)
        page.write_text(marked.sub(lambda m: m.group(1) + "\n".join(rows) + "\n" + m.group(2), page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
