#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests and examples on the devices of a PJRT plugin in place of the native engine's, and prints counts.

Usage: tools/xla/test.py BUILD PLUGIN [--only NAME] [--accepted FILE]

BUILD is the folder of the build. What differs must be in FILE (tools/xla/accepted.txt): lines of three parts with two spaces or
more between them, a pattern of the case, a pattern of its message, and the reason. Lines that nothing matches are named.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# Programs, and how many cases each prints; the operations' recorded results take twelve minutes.
PROGRAMS = {
    "engine": ["tests/pjrt_engine_test"],
    "annotations": ["tests/annotation_cases_test"],
    "collectives": ["tests/collectives_test"],
    "operations": ["tests/oracle_oracle_test"],
    "first": ["examples/first"],
    "digits": ["examples/digits"],
}
DEVICES = 8


def failures(text: str) -> list[tuple[str, str]]:
    """Case and message of each failure that a test program prints: "case: message" after `Failed`, or the value of an
    expression that should be empty with the case's name in quotes, or what was printed."""
    out = []
    for block in re.split(r"^\S+:\d+: Failure$", text, flags=re.MULTILINE)[1:]:
        block = re.split(r"^(?:\[|oracle )", block, flags=re.MULTILINE)[0].strip()
        failed = re.match(r"Failed\n([^\n]*?): (.*)", block, re.DOTALL)
        which = re.search(r'Which is: "(.*)"$', block, re.MULTILINE)
        names = re.findall(r'^"([^"\n]+)"$', block, re.MULTILINE)
        if failed:
            out.append((failed.group(1), failed.group(2)))
        elif which and names:
            out.append((names[-1], which.group(1)))
        else:
            out.append(("?", block))
    return out


def accepted_lines(path: pathlib.Path) -> list[tuple[str, str, str]]:
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(re.split(r"\s{2,}", line.strip(), maxsplit=2)) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("plugin", type=pathlib.Path)
    parser.add_argument("--only", choices=PROGRAMS)
    parser.add_argument("--accepted", type=pathlib.Path, default=HERE / "accepted.txt")
    o = parser.parse_args()
    plugin = str(o.plugin.resolve())
    accepted = accepted_lines(o.accepted)
    used = set()
    wrong = passed = let_pass = 0
    for name, command in PROGRAMS.items():
        if o.only not in (None, name):
            continue
        env = dict(os.environ, TESSERA_TEST_PLUGIN=plugin, TESSERA_ENGINE=f"pjrt:{plugin}",
                   TESSERA_CPU_DEVICES=str(DEVICES), TF_CPP_MIN_LOG_LEVEL=os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"))
        if name == "engine":
            env.pop("TESSERA_ENGINE")  # it runs the native engine beside the plugin
        begin = time.monotonic()
        run = subprocess.run([str(o.build / command[0])], env=env, capture_output=True, text=True, errors="replace")
        text = run.stdout + run.stderr
        found = failures(text)
        unknown = []
        for case, message in found:
            match = next((a for a in accepted if re.search(a[0], case) and re.search(a[1], message)), None)
            if match:
                used.add(match)
                let_pass += 1
            else:
                unknown.append((case, message))
        if run.returncode != 0 and not found:
            unknown.append((command[0], f"exit status {run.returncode}: {text[-2000:]}"))
        counts = re.findall(r"^(?:oracle \w+: \d+/\d+|random programs: .*|.*cases? .*agree.*|seed \d+, split: .*|losses of .*)$", text,
                            re.MULTILINE)
        print(f"{name}: {len(found) - len(unknown)} accepted, {len(unknown)} wrong, {time.monotonic() - begin:.0f} s")
        for line in counts:
            print(f"  {line[:200]}")
        for case, message in unknown:
            print(f"  WRONG {case}: {message[:400]}")
        wrong += len(unknown)
        passed += 1 if not unknown else 0
    if o.only is None:
        for line in accepted:
            if line not in used:
                print(f"nothing differs any more: {'  '.join(line)}")
    print(f"{passed} programs agree, {let_pass} cases are accepted as {o.accepted.name} says, {wrong} differ")
    return 0 if wrong == 0 else 1


sys.exit(main())
