#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs of JAX are made of, one by one, on Tessera beside XLA:CPU: where is the peer faster?

Usage: bench/jax/idioms.py [--devices 1,8] [--rounds 2] [--only WORD,WORD] [--json FILE]

Prints a table, the programs that Tessera is slowest at first: microseconds of the fastest call of all rounds, their
ratio, the first call (tracing and compiling included) and the memory that a side's process had by then. With 8 devices
the arguments are split as `idioms_list.py` says. Run it with a Python that has JAX; TESSERA_PJRT_LIBRARY names the
plugin. Processes may have --memory GB each, so that what grows without bound fails, and the machine does not.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def time_here(devices: int, only: list[str]) -> None:
    """Times the programs in this process; prints a line of JSON for each."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding

    from idioms_list import programs

    mesh = Mesh(np.array(jax.devices()[:devices]), ("x",))
    for program in programs():
        if only and not any(word in program.name for word in only):
            continue
        try:
            args = [jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(program.args, program.specs)]
            function = jax.jit(program.function)
            begin = time.perf_counter()
            jax.block_until_ready(function(*args))
            first = time.perf_counter() - begin
            runs, end = [], time.perf_counter() + 0.4
            while len(runs) < 5 or (time.perf_counter() < end and len(runs) < 200):
                begin = time.perf_counter()
                jax.block_until_ready(function(*args))
                runs.append(time.perf_counter() - begin)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            result = {"call": min(runs) * 1e6, "first": first * 1e3, "memory": memory}
        except Exception as error:  # noqa: BLE001: whatever a side cannot do is a row of the table
            result = {"error": f"{type(error).__name__}: {str(error)[:80]}"}
        print(json.dumps({"name": program.name, **result}), flush=True)


def time_side(backend: str, devices: int, args) -> dict:
    env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}")
    env.pop("TESSERA_JAX", None)
    if backend == "tessera":
        env.update(TESSERA_JAX="cpu", TESSERA_CPU_DEVICES=str(devices), PYTHONPATH=str(ROOT / "python"))
    command = [sys.executable, __file__, "--here", "--devices", str(devices), "--only", args.only]
    limit = args.memory << 30
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0:
        last = rows[-1]["name"] if rows else "nothing"
        print(f"{backend}, {devices} devices: ended with {done.returncode} after {last}", file=sys.stderr)
    return {row.pop("name"): row for row in rows}


def print_table(devices: int, own: dict, peer: dict) -> None:
    def slowness(name: str) -> float:
        a, b = own.get(name, {}).get("call"), peer.get(name, {}).get("call")
        return a / b if a and b else float("inf") if b else 0

    def cell(row: dict, key: str) -> str:
        return f"{row[key]:.0f}" if key in row else "-"

    print(f"\n{devices} devices: program; us of Tessera and XLA:CPU, their ratio; first call, ms; memory, MB")
    for name in sorted(own | peer, key=slowness, reverse=True):
        a, b = own.get(name, {}), peer.get(name, {})
        print(f"{name:24} {cell(a, 'call'):>9} {cell(b, 'call'):>9} {slowness(name):6.2f}   "
              f"{cell(a, 'first'):>6} {cell(b, 'first'):>6}   {cell(a, 'memory'):>6} {cell(b, 'memory'):>6}  "
              f"{a.get('error', '')} {b.get('error', '')}".rstrip(), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--devices", default="1,8")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--memory", type=int, default=16)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        time_here(int(args.devices), [word for word in args.only.split(",") if word])
        return 0
    record = {}
    for devices in map(int, args.devices.split(",")):
        best = {"xla": {}, "tessera": {}}
        for _ in range(args.rounds):
            for backend, seen in best.items():
                for name, row in time_side(backend, devices, args).items():
                    if name not in seen or row.get("call", 0) < seen[name].get("call", 0):
                        seen[name] = row
        record[devices] = best
        print_table(devices, best["tessera"], best["xla"])
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(record, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
