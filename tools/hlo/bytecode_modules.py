# SPDX-License-Identifier: Apache-2.0
"""Turns recorded StableHLO modules into portable artifacts and checks that the command line reads both as one program.

    python tools/hlo/bytecode_modules.py modules [--versions current,1.8.0,1.0.0] [--binary build/bin/tessera]

<modules>/<name>/program.mlir is written by jaxlib as an artifact of each version. `tessera run --write` writes the
program that it reads from the text and from the artifact; these must be equal. Where jaxlib changes the program as it
writes the artifact (it lowers CHLO), jaxlib's own reading of the artifact takes the text's place. Outcomes: same,
same as jaxlib reads it, refused alike, unwritten (the version lacks an operation, or jaxlib refuses the text), differ.
The report has a line for each module that differs; the exit status is 0 when none does.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"

from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

HERE = os.path.dirname(os.path.abspath(__file__))


def artifact_of(text, version):
    """The module as an artifact; None where the version lacks something that it has, or jaxlib cannot read the text."""
    with mlir.make_ir_context():
        try:
            module = ir.Module.parse(text)
            return _jax.mlir.serialize_portable_artifact(module, version, True)
        except Exception:  # of types that differ between releases of jaxlib
            return None


def text_of(artifact):
    with mlir.make_ir_context():
        return str(_jax.mlir.deserialize_portable_artifact(artifact))


def read(o, content, scratch, name):
    """What the command line writes of a program, or the reason why it refuses it."""
    path, out = os.path.join(scratch, name), os.path.join(scratch, name + ".out")
    with open(path, "wb") as f:
        f.write(content)
    command = [o.binary, "run", path, "--write", out, "--max-memory", o.max_memory]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, errors="replace", timeout=o.limit)
        status, said = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        status, said = 0, ""  # written before it ran
    os.remove(path)
    if status < 0 or status > 128:
        return f"crashed: status {status}"
    if os.path.exists(out):
        with open(out) as f:
            text = f.read()
        os.remove(out)
        return text
    # Without the place, and without the line that the operation comes from.
    said = re.sub(r"\S*" + re.escape(name) + r"(, as text)?(:\d+:\d+)?", "module", " ".join(said.split()))
    return "refused: " + re.sub(r" \(\S*:\d+\)", "", said)[:400]


def first_difference(a, b):
    for left, right in zip(a.splitlines(), b.splitlines()):
        if left != right:
            return f"{left.strip()[:200]} | {right.strip()[:200]}"
    return "one is longer"


def check(o, name, text, artifacts, scratch):
    """Rows of (name, version, outcome, reason)."""
    rows, want = [], read(o, text.encode(), scratch, f"{name}.mlir")
    for version, artifact in artifacts.items():
        if artifact is None:
            rows.append((name, version, "unwritten", ""))
            continue
        got = read(o, artifact, scratch, f"{name}.{version}.mlirbc")
        if got == want and not got.startswith("crashed"):
            rows.append((name, version, "refused alike" if got.startswith("refused") else "same", ""))
            continue
        again = read(o, text_of(artifact).encode(), scratch, f"{name}.{version}.mlir")
        alike = got == again and not got.startswith("crashed")
        rows.append((name, version, "same as jaxlib reads it" if alike else "differ",
                     "" if alike else first_difference(again, got)))
    return rows


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder")
    ap.add_argument("--binary", default=os.path.join(HERE, "../../build/bin/tessera"))
    ap.add_argument("--versions", default="current,1.8.0,1.0.0")
    ap.add_argument("--report", default="build/bytecode-modules.tsv")
    ap.add_argument("--match", default="", help="of the modules' names")
    ap.add_argument("--every", type=int, default=1, help="one module in so many")
    ap.add_argument("--limit", type=float, default=60, help="seconds for each program")
    ap.add_argument("--max-memory", default="4G")
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    o = ap.parse_args()
    versions = [stablehlo.get_current_version() if v == "current" else v for v in o.versions.split(",")]
    names = sorted(n for n in os.listdir(o.folder) if os.path.exists(os.path.join(o.folder, n, "program.mlir")))
    names = [n for n in names if re.search(o.match, n)][::o.every]
    counts, rows = collections.Counter(), []

    def one(name):
        with open(os.path.join(o.folder, name, "program.mlir")) as f:
            text = f.read()
        return check(o, name, text, {v: artifact_of(text, v) for v in versions}, scratch)

    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for i, found in enumerate(pool.map(one, names)):
            counts.update((row[1], row[2]) for row in found)
            rows += [row for row in found if row[2] == "differ"]
            if i % 500 == 499:
                print(f"{i + 1} of {len(names)}: {len(rows)} differ", flush=True)
    os.makedirs(os.path.dirname(o.report) or ".", exist_ok=True)
    with open(o.report, "w") as f:
        f.writelines("\t".join(row) + "\n" for row in rows)
    for (version, outcome), n in sorted(counts.items()):
        print(f"{version}: {n} {outcome}")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
