#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random sharded JAX programs on XLA:CPU and on Tessera, compared by `tessera.jax.check`.

Usage: tools/jax/random_programs.py [--count 300] [--seed 0] [--steps 8] [--out FILE] [--quiet]

A program is a function of its seed: up to --steps operations on arrays of random shapes, evenly split over one of four
meshes of 8 devices; one in four is a gradient. Run it with the Python that has JAX; the plugin is the one that
TESSERA_PJRT_LIBRARY names, or the package's. Prints each program whose values or shardings differ, with its steps, the
first of them whose values differ when every step's value is returned, and how far both sides are from what XLA computes
of unsplit arguments; then how the collectives compare. --out writes a line of JSON per program. Ends with 1 where values
differ or a side fails.

Programs run in a process that is replaced when one ends it, or takes more than --limit seconds; such a program is run
once more by JAX alone, and where that process ends so too, the fault is XLA's.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # XLA's advice on shardings
ALONE = "--alone" in sys.argv  # without Tessera in the process
if ALONE:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ.pop("TESSERA_JAX", None)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P  # noqa: E402

from random_steps import STEPS, random_spec  # noqa: E402

if not ALONE:
    import tessera.jax
    from tessera.check import difference

MESHES = [((8,), ("x",)), ((4, 2), ("x", "y")), ((2, 4), ("x", "y")), ((2, 2, 2), ("x", "y", "z"))]
SIZES = (1, 2, 4, 6, 8, 8, 16, 16, 24, 32)


class Program:
    """A program and its arguments, drawn from a seed."""

    def __init__(self, seed: int, steps: int):
        rng = np.random.default_rng(seed)
        shape, names = MESHES[rng.integers(len(MESHES))]
        self.mesh = jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names))
        self.args, structs = [], []
        for _ in range(rng.integers(1, 4)):
            dims = tuple(int(rng.choice(SIZES)) for _ in range(rng.choice([1, 2, 2, 3, 3, 4])))
            dtype = rng.choice(["float32", "float32", "float32", "bfloat16", "int32"])
            x = rng.normal(size=dims) if dtype != "int32" else rng.integers(-5, 6, size=dims)
            self.args.append(jax.device_put(jnp.asarray(x, dtype), NamedSharding(self.mesh, random_spec(rng, self.mesh, dims))))
            structs.append(jax.ShapeDtypeStruct(dims, dtype))
        self.steps = []  # (text, operands, function)
        kinds = list(STEPS)
        wanted = int(rng.integers(2, steps + 1))
        for _ in range(60 * wanted):
            if len(self.steps) == wanted:
                break
            kind = kinds[rng.integers(len(kinds))]
            drawn = STEPS[kind](rng, structs, self.mesh)
            if drawn is None or None in drawn[1]:  # nothing that the step could take
                continue
            text, operands, function = drawn
            result = jax.eval_shape(function, *(structs[i] for i in operands))
            if result.size == 0 or result.size > 1 << 16:
                continue
            self.steps.append((f"v{len(structs)} = {kind}{text}  # of {', '.join(f'v{i}' for i in operands)}: "
                               f"{result.dtype}{list(result.shape)}", operands, function))
            structs.append(result)
        # XLA leaves out roundings to bfloat16 within fusions, whatever the dtype of the result.
        self.rtol = 0.15 if any(v.dtype == jnp.bfloat16 for v in structs) else None
        floats = [i for i, a in enumerate(self.args) if jnp.issubdtype(a.dtype, jnp.floating)]
        self.gradient = floats if floats and rng.integers(4) == 0 else []

    def values(self, *args):
        env = list(args)
        for _, operands, function in self.steps:
            env.append(function(*(env[i] for i in operands)))
        return env

    def last(self, *args):
        """The last two values, or the gradient of a sum of all floating ones."""
        if not self.gradient:
            return self.values(*args)[-2:]

        def loss(*some):
            full = list(args)
            for i, x in zip(self.gradient, some):
                full[i] = x
            return sum(jnp.sum(jnp.sin(v.astype(jnp.float32))) for v in self.values(*full)
                       if jnp.issubdtype(v.dtype, jnp.floating))

        return jax.grad(loss, argnums=tuple(range(len(self.gradient))))(*(args[i] for i in self.gradient))

    def __str__(self):
        lines = [f"v{i}: {a.dtype}{list(a.shape)} {a.sharding.spec}" for i, a in enumerate(self.args)]
        head = f"mesh {dict(self.mesh.shape)}" + (f", gradient by {self.gradient}" if self.gradient else "")
        return "\n".join("    " + line for line in [head, *lines, *(text for text, _, _ in self.steps)])


def first_difference(program: Program) -> str:
    """The first step whose value differs where all values are returned."""
    report = tessera.jax.check(program.values, *program.args, rtol=program.rtol, report_only=True)
    texts = ["an argument"] * len(program.args) + [text for text, _, _ in program.steps]
    for result, text in zip(report.results, texts):
        if not result.agrees:
            return f"{text}: off by {result.difference:.2g}"
    return "none, where all values are returned"


def against_whole(program: Program, report) -> str:
    """How far both are from what XLA computes of unsplit arguments."""
    args = [jax.device_put(np.asarray(a), NamedSharding(program.mesh, P())) for a in program.args]
    whole = tessera.jax.check(program.last, *args, report_only=True).results
    parts = [f"{side} {max(difference(w.xla, getattr(r, name)) for w, r in zip(whole, report.results)):.2g}"
             for side, name in (("XLA:CPU", "xla"), ("Tessera", "tessera"))]
    return f"off from XLA:CPU's values for unsplit arguments: {', '.join(parts)}"


def checked(seed: int, steps: int, quiet: bool) -> dict:
    """What `check` finds of a program; "text" is for the reader."""
    program = Program(seed, steps)
    record = {"seed": seed, "steps": len(program.steps)}
    try:
        report = tessera.jax.check(program.last, *program.args, rtol=program.rtol, report_only=True)
    except Exception as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        return record | {"error": line, "text": f"seed {seed}: {type(error).__name__}: {line[:300]}\n{program}"}
    record |= {"values": report.same_values, "shardings": report.same_shardings, "collectives": report.collectives,
               "differences": [r.difference for r in report.results]}
    if not report.same_values or not (report.same_shardings or quiet):
        record["text"] = f"seed {seed}:\n{report}\n{program}"
    if not report.same_values:
        record["text"] += (f"\n    first difference: {first_difference(program)}\n"
                           f"    {against_whole(program, report)}")
    return record


def work(seeds: range, steps: int, quiet: bool) -> None:
    """In a process of its own: a line for each program."""
    if ALONE:
        for seed in seeds:
            program = Program(seed, steps)
            jax.block_until_ready(jax.jit(program.last)(*program.args))
        return
    tessera.jax.devices(8)
    for seed in seeds:
        print(json.dumps(checked(seed, steps, quiet)), flush=True)
        if seed % 50 == 49:
            jax.clear_caches()  # compiled programs are kept otherwise


class Worker:
    """A process that runs programs, and what it writes on its error output."""

    def __init__(self, seeds: range, args, *more: str):
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--work", "--seed", str(seeds.start), "--count", str(len(seeds)),
             "--steps", str(args.steps), *["--quiet"] * args.quiet, *more],
            stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.limit = args.limit
        self.slow = False

    def line(self) -> str:
        """The next line; "" where there is none any more."""
        timer = threading.Timer(self.limit, self.stop)
        timer.start()
        try:
            return self.process.stdout.readline()
        finally:
            timer.cancel()

    def stop(self) -> None:
        self.slow = True
        self.process.kill()

    def end(self) -> str | None:
        """How it ended, with the last line of a fatal error; None: well."""
        code = self.process.wait()
        if code == 0:
            return None
        self.errors.seek(0)
        written = self.errors.read()
        fatal = re.findall(r"^F\d{4} .*", written, re.M) or written.strip().splitlines()
        how = (f"no answer in {self.limit} s" if self.slow else
               signal.Signals(-code).name if code < 0 else f"exit status {code}")
        return f"{how}{': ' + fatal[-1][:300] if fatal else ''}"


def records(args):
    """Of all programs, whatever they do to the process that runs them."""
    end = args.seed + args.count
    seed = args.seed
    while seed < end:
        worker = Worker(range(seed, end), args)
        while line := worker.line():
            record = json.loads(line)
            yield record
            seed = record["seed"] + 1
        how = worker.end()
        if how is None and seed < end:
            how = "it wrote nothing"
        if seed == end:
            break
        alone = Worker(range(seed, seed + 1), args, "--alone")
        alone.line()
        again = alone.end()
        culprit = "XLA:CPU" if again else "Tessera, or XLA:CPU beside it"
        text = f"seed {seed}: {culprit} ended the process: {how}" + (f"; by JAX alone: {again}" if again else "")
        yield {"seed": seed, "ended": culprit, "error": how, "text": text}
        seed += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--limit", type=int, default=300, help="seconds for a program")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--quiet", action="store_true", help="only the closing lines")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(range(args.seed, args.seed + args.count), args.steps, args.quiet)
        return 0
    out = args.out.open("w") if args.out else None
    outcome = collections.Counter()
    totals, fewer, more = (collections.Counter() for _ in range(3))
    start = time.monotonic()
    for record in records(args):
        if text := record.pop("text", None):
            print(text, flush=True)
        if out:
            out.write(json.dumps(record) + "\n")
            out.flush()
        outcome["ended " + record.get("ended", "")] += "ended" in record
        outcome["failed"] += "error" in record
        outcome["values"] += record.get("values", False)
        outcome["shardings"] += record.get("shardings", False)
        pairs = record.get("collectives", {})
        outcome["collectives"] += "error" not in record and all(xla == ours for xla, ours in pairs.values())
        for kind, (xla, ours) in pairs.items():
            totals[kind, "xla"] += xla
            totals[kind, "tessera"] += ours
            fewer[kind] += ours < xla
            more[kind] += ours > xla
    print(f"{args.count} programs in {time.monotonic() - start:.0f} s: values agree in {outcome['values']}, shardings in "
          f"{outcome['shardings']}, counts of collectives in {outcome['collectives']}; {outcome['failed']} failed, in "
          f"{outcome['ended XLA:CPU']} of them XLA:CPU ended the process")
    print(f"{'collective':20} {'XLA:CPU':>8} {'Tessera':>8} {'programs with fewer here':>25} {'with more':>10}")
    for kind in sorted({k for k, _ in totals}):
        print(f"{kind:20} {totals[kind, 'xla']:8} {totals[kind, 'tessera']:8} {fewer[kind]:25} {more[kind]:10}")
    return int(outcome["values"] != args.count)


if __name__ == "__main__":
    sys.exit(main())
