#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains for two steps on two processes with a trace of each, and checks in the traces that processes compute between
the beginning of their exchanges and the ends.

usage: check_overlap.py MPIRUN LANGUAGE_MODEL
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

RANKS = 2
mpirun, model = sys.argv[1:3]


def steps(trace: pathlib.Path) -> list[dict]:
    """Of one of the process's devices, which take part in all steps, in order."""
    rows = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    device = collections.Counter(e["tid"] for e in rows).most_common(1)[0][0]
    return sorted((e for e in rows if e["tid"] == device), key=lambda e: e["ts"])


def overlapped(rows: list[dict]) -> tuple[int, int]:
    """How many exchanges there are, and how many with computation in between."""
    begun: dict[str, list[int]] = {}
    count = good = 0
    for i, row in enumerate(rows):
        what, _, name = row["name"].partition(" ")
        key = name + row["args"]["at"]
        if what == "begin":
            begun.setdefault(key, []).append(i)
        if what == "end":
            first = begun[key].pop(0)
            count += 1
            good += any(not r["name"].startswith(("begin ", "end ")) for r in rows[first + 1:i])
    assert not any(begun.values()), "an exchange has no end"
    return count, good


with tempfile.TemporaryDirectory(prefix="check_overlap-") as folder:
    script = 'TESSERA_TRACE="$1/trace.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" exec "$2" train "$1/checkpoints" 2'
    subprocess.run([mpirun, "-n", str(RANKS), "sh", "-c", script, "sh", folder, model], check=True, timeout=200)
    for rank in range(RANKS):
        count, good = overlapped(steps(pathlib.Path(folder) / f"trace.{rank}"))
        print(f"process {rank}: {count} exchanges, {good} of them beside computation")
        if count < 10 or 2 * good < count:
            sys.exit("expected ten exchanges or more, half of them beside computation")
