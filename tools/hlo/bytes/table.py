#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes per device: Tessera's plan beside the collectives of XLA's compiled program, and values beside one device's.

    python tools/hlo/bytes/table.py [--tessera build/bin/tessera] [--only NAME[,NAME]] [--plans] [--markdown FILE]

JAX lowers each program once, for 8 devices; `tessera run` gets the module, XLA:CPU compiles it, and the bytes that the
busiest device receives are counted for both by one rule (collectives.py). `bound` is what the best algorithm known to us
sends it, where that was derived. Marks: `> XLA`, `> 1.25 bound`, `differs` (values from those on one device). The exit status is 0 unless values
differ, a side fails, or a program that known.toml does not name has more bytes than XLA's.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import tomllib

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # XLA's advice on shardings
# LLVM's passes come after the partitioner's, and take most of the time.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_llvm_disable_expensive_passes=true"
os.environ.pop("TESSERA_JAX", None)
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))

import jax  # noqa: E402
import numpy as np  # noqa: E402

import arrays  # noqa: E402, F401
import idioms  # noqa: E402, F401
import networks  # noqa: E402, F401
import solvers  # noqa: E402, F401
import collectives  # noqa: E402
from program import PROGRAMS, Program  # noqa: E402
from values import difference, plain  # noqa: E402


@dataclasses.dataclass
class Measured:
    """A program's line: bytes of both sides, what they consist of, and what is wrong."""
    program: Program
    tessera: int | None = None
    xla: int | None = None
    plan: str = ""
    collectives: list = dataclasses.field(default_factory=list)
    wrong: str = ""

    @property
    def more_than_xla(self) -> bool:
        return self.tessera is not None and self.xla is not None and self.tessera > self.xla

    @property
    def beyond_bound(self) -> bool:
        bound = self.program.bound
        return self.tessera is not None and bound is not None and self.tessera > 1.25 * bound

    @property
    def marks(self) -> str:
        return ", ".join(["> XLA"] * self.more_than_xla + ["> 1.25 bound"] * self.beyond_bound +
                         [self.wrong.split("\n")[0][:80]] * bool(self.wrong))


def plan_bytes(text, loop):
    """The total of a plan as `tessera run --comm-plan` prints it; `loop` is how often steps run whose times it does not know."""
    steps = re.findall(r"^[a-z_]+  .*?  +(\d+)  +(\d+|\?)  ", text, re.M)
    total = re.search(r"^total: (\d+) bytes per device in (\d+) steps?", text, re.M)
    parsed = [(int(size), None if times == "?" else int(times)) for size, times in steps]
    known = sum(size * (1 if times is None else times) for size, times in parsed)
    if "no communication" not in text and (known, len(steps)) != tuple(map(int, total.groups())):
        raise ValueError(f"a plan that is not read: {text}")
    if loop is None and any(times is None for _, times in parsed):
        raise ValueError("the plan has steps in loops of unknown length, and the program does not name it")
    return sum(size * (loop if times is None else times) for size, times in parsed)


def run_tessera(tessera, module, arguments, limit):
    """The plan's text and the results."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: os.path.join(folder, name) for name in ("program.mlir", "inputs.npz", "outputs.npz")}
        pathlib.Path(paths["program.mlir"]).write_text(module)
        np.savez(paths["inputs.npz"], **{f"arg{i}": np.asarray(a) for i, a in enumerate(arguments)})
        done = subprocess.run([tessera, "run", paths["program.mlir"], "--inputs", paths["inputs.npz"], "--comm-plan",
                               "--outputs", paths["outputs.npz"]], capture_output=True, text=True, timeout=limit)
        if done.returncode != 0:
            raise RuntimeError(f"tessera: {(done.stderr.strip() or done.stdout.strip() or 'no message')[:2000]}")
        with np.load(paths["outputs.npz"]) as outputs:
            return done.stdout, [outputs[f"out{i}"] for i in range(len(outputs.files))]


def reference(program, values):
    """The results on one device, leaves in order."""
    jitted, _ = program.jitted(program.mesh_of(jax.devices()[:1]))
    return jax.tree.map(np.asarray, jitted(*values))


def scaled_difference(got, want, rtol):
    """Where arrays differ by more than `rtol` times the largest element, or ""."""
    if not np.issubdtype(want.dtype, np.inexact):
        return difference(got, want, 0)
    largest = np.max(np.abs(want), where=np.isfinite(want), initial=0) or 1
    return difference(got / largest, want / largest, rtol)


def value_differences(program, want, leaves):
    """What of Tessera's results differs from `want`, those on one device."""
    got, want = program.canonical(jax.tree.unflatten(jax.tree.structure(want), leaves)), program.canonical(want)
    pairs = zip(jax.tree_util.tree_leaves_with_path(want), jax.tree.leaves(got), strict=True)
    off = [(jax.tree_util.keystr(path), scaled_difference(plain(g), plain(w), program.rtol)) for (path, w), g in pairs]
    return [f"differs: result{path}: {d}" for path, d in off if d]


def measure(program, tessera, limit):
    line = Measured(program)
    try:
        jitted, types = program.jitted(program.mesh_of(jax.devices()))
        lowered = jitted.lower(*types)
        line.collectives = collectives.read(lowered.compile().as_text())
        line.xla = collectives.busiest(line.collectives)
        values = program.values()
        line.plan, leaves = run_tessera(tessera, lowered.as_text(debug_info=True), jax.tree.leaves(values), limit)
        line.tessera = plan_bytes(line.plan, program.loop)
        line.wrong = "; ".join(value_differences(program, reference(program, values), leaves))
    except Exception as e:  # either side may refuse a program, each in its own way
        line.wrong = f"{type(e).__name__}: {e}"
    return line


def ratio(a, b):
    return "" if a is None or b is None else "1.00" if a == b else f"{a / b:.2f}" if b else "inf"


def rows(lines):
    number = lambda n: "" if n is None else f"{n:,}"
    head = ("program", "Tessera", "XLA", "of XLA", "bound", "of bound", "marks")
    return head, [(l.program.name, number(l.tessera), number(l.xla), ratio(l.tessera, l.xla), number(l.program.bound),
                   ratio(l.tessera, l.program.bound), l.marks) for l in lines]


def table(lines, derivations=False):
    """A table in Markdown that is aligned where it is read as text."""
    head, cells = rows(lines)
    if derivations:
        head, cells = (*head, "the bound is"), [(*c, l.program.why) for c, l in zip(cells, lines)]
    widths = [max(map(len, column)) for column in zip(head, *cells)]
    numbers = range(1, 6)
    rule = ["-" * (w - 1) + ":" if i in numbers else "-" * w for i, w in enumerate(widths)]
    padded = lambda row: [c.rjust(w) if i in numbers else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (padded(head), rule, *map(padded, cells)))


def summarised(lines):
    both = [l for l in lines if l.tessera is not None and l.xla is not None]
    count = lambda test: sum(map(test, both))
    bounded = [l for l in both if l.program.bound is not None]
    return (f"{len(lines)} programs on 8 devices, bytes that the busiest device receives: fewer than XLA's on "
            f"{count(lambda l: l.tessera < l.xla)}, as many on {count(lambda l: l.tessera == l.xla)}, more on "
            f"{count(lambda l: l.more_than_xla)}; within 1.25 of the bound on {sum(not l.beyond_bound for l in bounded)} of "
            f"{len(bounded)}; values agree on {sum(not l.wrong for l in lines)}.")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--tessera", default=str(ROOT / "build/bin/tessera"), help="the command-line tool")
    ap.add_argument("--only", help="names or families, with commas between them")
    ap.add_argument("--plans", action="store_true", help="print both sides' collectives of each program")
    ap.add_argument("--markdown", help="write the table to this file")
    ap.add_argument("--limit", type=float, default=120, help="seconds for a run of Tessera")
    ap.add_argument("--known", type=pathlib.Path, default=HERE / "known.toml", help="programs that may have more bytes than XLA's")
    o = ap.parse_args()
    asked = set(o.only.split(",") if o.only else PROGRAMS)
    programs = [p for p in PROGRAMS.values() if asked & {p.name, p.family}]
    if strange := asked - {w for p in programs for w in (p.name, p.family)}:
        raise SystemExit(f"no program is named {', '.join(sorted(strange))}; there are {', '.join(PROGRAMS)}")
    entries = tomllib.loads(o.known.read_text()).get("known", [])
    known = {name: entry["reason"] for entry in entries for name in entry["programs"]}
    lines = []
    for p in programs:
        begin = time.monotonic()
        lines.append(line := measure(p, o.tessera, o.limit))
        print(f"{p.name}: {line.tessera} and {line.xla}, {line.marks or 'good'} ({time.monotonic() - begin:.1f} s)",
              file=sys.stderr, flush=True)
        if o.plans:
            print(f"== {p.name}\n{line.plan.strip()}\nXLA: {collectives.summary(line.collectives)}")
            for c in line.collectives:
                print(f"  {c.op} {c.value}: {c.bytes_once} bytes to {len(c.receivers)} devices, {c.times or '?'} times, {c.source}")
            if line.wrong:
                print(line.wrong)
        if o.markdown:
            pathlib.Path(o.markdown).write_text(f"{summarised(lines)}\n\n{table(lines, derivations=True)}\n")
    print(f"{table(lines)}\n{summarised(lines)}")
    for l in lines:
        if l.more_than_xla and l.program.name in known:
            print(f"{l.program.name}: known, {known[l.program.name]}")
    bad = [l for l in lines if l.wrong or (l.more_than_xla and l.program.name not in known)]
    for l in bad:
        print(f"{l.program.name}: {l.wrong or 'more bytes than XLA, and known.toml does not name it'}")
    for name in known:
        if name not in PROGRAMS or any(l.program.name == name and not l.more_than_xla for l in lines):
            print(f"known.toml: {name} has no more bytes than XLA any more")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
