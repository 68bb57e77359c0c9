#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes that the compiler finds: the first error of each is one sentence of ours, and few follow.

Every .cc file beside this script is such a mistake and has the sentence in its line `// MESSAGE:`; `// FLAGS:` are its own.
usage: check.py COMPILER INCLUDE_FOLDER
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

MAX_ERRORS = 6


def check(source: pathlib.Path, compiler: str, flags: list[str]) -> str:
    """What is wrong with the answer to one mistake; empty when it is as it should be."""
    want = next(line for line in source.read_text().splitlines() if line.startswith("// MESSAGE:"))
    want = want.removeprefix("// MESSAGE:").strip()
    own = [f for line in source.read_text().splitlines() if line.startswith("// FLAGS:") for f in line.split()[2:]]
    run = subprocess.run([compiler, *flags, *own, "-fsyntax-only", str(source)], capture_output=True, text=True, check=False)
    errors = [line for line in run.stderr.splitlines() if " error: " in line]
    if run.returncode == 0:
        return f"{source.name}: compiles; expected an error with: {want}"
    if not errors or want not in errors[0]:
        return f"{source.name}: expected first: {want}\n" + "\n".join(errors[:5])
    if len(errors) > MAX_ERRORS:
        return f"{source.name}: {len(errors)} errors; expected at most {MAX_ERRORS}\n" + "\n".join(errors[:10])
    return ""


def main() -> int:
    compiler, include = sys.argv[1:]
    sources = sorted(pathlib.Path(__file__).parent.glob("*.cc"))
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder) / "tessera" / "tessera.h"  # found before the real one, with its compiled form
        header.parent.mkdir()
        flags = ["-std=c++20", "-w", f"-I{folder}", f"-I{include}"]
        header.write_text(f'#include "{include}/tessera/tessera.h"\n')
        subprocess.run([compiler, *flags, "-x", "c++-header", str(header), "-o", f"{header}.gch"], check=True)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = [w for w in pool.map(lambda s: check(s, compiler, flags), sources) if w]
    print("\n".join(wrong) or f"{len(sources)} mistakes, each with its sentence")
    return 1 if wrong or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
