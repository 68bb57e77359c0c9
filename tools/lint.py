#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy with .clang-tidy over the sources, warnings as errors.

  tools/lint.py              all of src/ and cli/, as the `lint` preset groups them: headers are read once a group
  tools/lint.py --changed    those that differ from main, or from what is committed
  tools/lint.py FILE...

What had no finding is remembered in build/lint/clean by what the preprocessor makes of it, and not read again.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/lint"
TIDY = "clang-tidy-19"
# What is counted although it was silenced in system headers.
CHATTER = re.compile(r"^(\d+ (warnings?|errors?).* generated\.|\[\d+/\d+\] Processing file.*)$")


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def sources(arguments: list[str]) -> list[str] | None:
    """The files asked for, relative to the root; None for all."""
    if not arguments:
        return None
    if arguments != ["--changed"]:
        return [os.path.relpath(a, ROOT) for a in arguments]
    merge_base = subprocess.run(["git", "merge-base", "HEAD", "main"], cwd=ROOT, capture_output=True, text=True)
    base = merge_base.stdout.strip() or "HEAD"
    return output("git", "diff", "--name-only", "--diff-filter=d", base, "--", "src/*.cc", "cli/*.cc").split()


def preprocessed(entry: dict) -> bytes:
    command = [word for word in shlex.split(entry["command"]) if not word.endswith("/ccache")]
    command[command.index("-o") + 1] = "-"
    # With comments: some of them tell clang-tidy what is meant.
    return subprocess.run([*command, "-E", "-C"], cwd=entry["directory"], check=True, capture_output=True).stdout


def lint(entry: dict, rules: bytes) -> tuple[bool, str]:
    key = hashlib.sha256(rules + entry["command"].encode() + preprocessed(entry)).hexdigest()
    clean = BUILD / "clean" / key
    if clean.exists():
        return True, ""
    done = subprocess.run([TIDY, "--quiet", "-p", str(BUILD), entry["file"]], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        clean.touch()
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode == 0, "\n".join(line for line in lines if not CHATTER.match(line))


def main() -> int:
    if not shutil.which(TIDY):
        print(f"tools/lint.py: no {TIDY} (tools/setup.sh --checks installs it)", file=sys.stderr)
        return 1
    chosen = sources(sys.argv[1:])
    output("cmake", "--preset", "lint", f"-DCMAKE_UNITY_BUILD={'ON' if chosen is None else 'OFF'}")
    (BUILD / "clean").mkdir(exist_ok=True)
    entries = json.loads((BUILD / "compile_commands.json").read_text())
    if chosen is not None:
        entries = [e for e in entries if os.path.relpath(e["file"], ROOT) in chosen]
    rules = (output(TIDY, "--version") + (ROOT / ".clang-tidy").read_text()).encode()
    findings = 0
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS") or os.cpu_count() or 1)) as pool:
        for clean, text in pool.map(lambda e: lint(e, rules), entries):
            findings += not clean
            if text:
                print(text, flush=True)
    print(f"lint: {len(entries)} compilations, " + (f"{findings} with findings" if findings else "no findings"))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
