# SPDX-License-Identifier: Apache-2.0
"""Runs recorded StableHLO modules with the command line and compares the results with the recorded ones.

    python tools/hlo/run_modules.py modules [--binary build/bin/tessera] [--report file] [--match text] [--only outcome]

<modules>/<name>/ holds program.mlir, inputs.npz and outputs.npz (jax_modules.py, record.py --raw). Each module runs in
a process of its own with a limit of time and memory. Outcomes: agree, accepted (accepted.toml says why), differ,
refused, crashed, timed out. The report has a line for each that does not agree; --only runs those of an earlier report
with that outcome. The exit status is 0 when all agree or are accepted.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib

import numpy as np

from values import difference, program_tolerance, tolerance_of

HERE = os.path.dirname(os.path.abspath(__file__))


class Module:
    def __init__(self, folder, name):
        self.name, self.folder = name, os.path.join(folder, name)
        with open(self.path("program.mlir")) as f:
            self.text = f.read()
        self.test, results = "", []
        if os.path.exists(self.path("meta.json")):
            with open(self.path("meta.json")) as f:
                meta = json.load(f)
            self.test, results = meta["test"], meta["results"]
        self.tolerance = max([program_tolerance(self.text), *map(tolerance_of, results)])
        if os.path.exists(self.path("tolerance")):
            with open(self.path("tolerance")) as f:
                self.tolerance = float(f.read())

    def path(self, file):
        return os.path.join(self.folder, file)


def numbered(path, prefix):
    with np.load(path) as npz:
        return [npz[f"{prefix}{i}"] for i in range(len(npz.files))]


def compare(module, path, factor):
    got, want = numbered(path, "out"), numbered(module.path("outputs.npz"), "out")
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    with np.errstate(all="ignore"):
        for i, (g, w) in enumerate(zip(got, want)):
            if d := difference(g, w, module.tolerance * factor):
                return f"out{i}: {d}"
    return ""


def outcome(o, module, scratch, factor=1.0):
    """(outcome, reason)."""
    out = os.path.join(scratch, f"{module.name}.npz")
    command = [o.binary, "run", module.path("program.mlir"), "--inputs", module.path("inputs.npz"), "--outputs", out,
               "--max-memory", o.max_memory]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, errors="replace", timeout=o.limit)
    except subprocess.TimeoutExpired:
        return "timed out", f"after {o.limit:g} s"
    said = " ".join(done.stderr.split())
    if done.returncode < 0 or done.returncode > 128:
        return "crashed", f"status {done.returncode}: {said[:300]}"
    if done.returncode != 0:
        return "refused", said[:300]
    try:
        wrong = compare(module, out, factor)
    finally:
        os.remove(out)
    return ("differ", wrong) if wrong else ("agree", "")


class Accepted:
    """What differs, or is refused, for a reason that is no fault; an entry holds for what all of its patterns find."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.entries = tomllib.load(f)["accepted"]
        self.used = collections.Counter()

    def why(self, module, result, reason):
        for entry in self.entries:
            against = {"test": module.test or module.name, "program": module.text, "says": reason}
            if entry["outcome"] == result and all(re.search(entry[k], v) for k, v in against.items() if k in entry):
                self.used[entry["reason"]] += 1
                return entry
        return None


def judge(o, accepted, module, scratch):
    result, reason = outcome(o, module, scratch)
    if result == "agree":
        return result, reason
    entry = accepted.why(module, result, reason)
    if entry is None:
        return result, reason
    if "factor" in entry:  # accepted as far as it goes: within a wider tolerance
        result, reason = outcome(o, module, scratch, entry["factor"])
        if result != "agree":
            return result, reason
    return "accepted", entry["reason"]


def chosen(o):
    names = sorted(n for n in os.listdir(o.folder) if os.path.exists(os.path.join(o.folder, n, "outputs.npz")))
    if o.only:
        with open(o.report) as f:
            before = [line.rstrip("\n").split("\t") for line in f]
        wanted = {row[0] for row in before if len(row) > 1 and row[1] in o.only.split(",")}
        names = [n for n in names if n in wanted]
    return names


def run_all(o):
    """Rows of (name, outcome, test, reason)."""
    accepted = Accepted(os.path.join(HERE, "accepted.toml"))

    def one(name):
        module = Module(o.folder, name)
        if o.match and not re.search(o.match, f"{name} {module.test}"):
            return None
        return (name, *judge(o, accepted, module, scratch), module.test)

    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        rows = [row for row in pool.map(one, chosen(o)) if row]
    return [(name, result, test, reason) for name, result, reason, test in rows], accepted.used


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder")
    ap.add_argument("--binary", default=os.path.join(HERE, "../../build/bin/tessera"))
    ap.add_argument("--report", default="build/jax-modules.tsv")
    ap.add_argument("--match", default="")
    ap.add_argument("--only", help="outcomes of the earlier report, as differ,crashed")
    ap.add_argument("--limit", type=float, default=60, help="seconds for each module")
    ap.add_argument("--max-memory", default="4G")
    ap.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    o = ap.parse_args()
    begin = time.monotonic()
    rows, used = run_all(o)
    counts = collections.Counter(row[1] for row in rows)
    os.makedirs(os.path.dirname(os.path.abspath(o.report)), exist_ok=True)
    with open(o.report, "w") as f:
        f.writelines("\t".join(row) + "\n" for row in rows if row[1] != "agree")
    for row in rows:
        if row[1] not in ("agree", "accepted"):
            print("\t".join(row)[:300])
    for reason, n in used.most_common():
        print(f"accepted {n}: {reason}")
    print(f"{len(rows)} modules in {time.monotonic() - begin:.0f} s: " +
          ", ".join(f"{n} {what}" for what, n in counts.most_common()))
    sys.exit(0 if rows and set(counts) <= {"agree", "accepted"} else 1)


if __name__ == "__main__":
    main()
