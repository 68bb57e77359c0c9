#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests and examples on the devices of a PJRT plugin in place of the native engine's, and prints counts.

Usage: tools/xla/test.py BUILD PLUGIN [--only NAME[/GROUP]] [--jobs COUNT] [--devices COUNT] [--seconds COUNT] [--logs FOLDER] [--accepted FILE]

BUILD is the folder of the build. The recorded operations run group by group, the large ones in parts, COUNT processes at a time (the number
of cores). Where there are fewer than eight devices, what needs as many is left out, and named. A process that takes longer than --seconds is
ended, and counts as wrong; --logs names a folder for what each prints. What differs must be in FILE (tools/xla/accepted.txt): lines of three parts with two spaces or
more between them, a pattern of the case, a pattern of its message, and the reason. Lines that nothing matches are named.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
# Programs; those with groups run once for each, whose test is this one.
PROGRAMS = {
    "engine": "tests/pjrt_engine_test",
    "annotations": "tests/annotation_cases_test",
    "collectives": "tests/collectives_test",
    "operations": "tests/oracle_oracle_test",
    "first": "examples/first",
    "digits": "examples/digits",
}
GROUPS = {"operations": "Groups/Oracle.AgreesWithRecordedResults/"}
CASES = HERE.parent.parent / "tests/oracle/cases"
PART = 150  # cases at most of a group that one process runs
DEVICES = 8
# With fewer: the engine's own tests on one device, and the recorded operations.
FEW = ("PjrtOneDevice.*:PjrtEngine.GivesDonatedMemoryAway:PjrtEngine.HasEveryDtype:PjrtEngine.RunsOnManyThreads:PjrtLog.*:"
       "PjrtHost.DecomposesWhat*:LoweredForXla.M*:LoweredForXla.KeepsWhat*:Cache.*")
COUNTS = re.compile(r"^(?:oracle \w+: \d+/\d+|random programs: .*|.*cases? .*agree.*|losses of .*)$", re.MULTILINE)


# The last that a test program prints of its tests, unless it is cut off.
ENDED = re.compile(r"^\[==========\] \d+ tests? from .* ran", re.MULTILINE)


class Task(NamedTuple):
    name: str
    command: list[str]
    env: dict[str, str]
    is_test: bool


class Outcome(NamedTuple):
    task: Task
    status: int
    text: str
    seconds: float


def failures(text: str) -> list[tuple[str, str]]:
    """Case and message of each failure that a test program prints: "case: message" after `Failed`, or the value of an
    expression that should be empty with the case's name in quotes, or what was printed, exceptions too."""
    out = []
    for block in re.split(r"^(?:\S+:\d+|unknown file): Failure$", text, flags=re.MULTILINE)[1:]:
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


def tasks_of(build: pathlib.Path, plugin: str, only: str | None, devices: int) -> list[Task]:
    env = dict(os.environ, TESSERA_TEST_PLUGIN=plugin, TESSERA_ENGINE=f"pjrt:{plugin}", TESSERA_CPU_DEVICES=str(devices),
               TF_CPP_MIN_LOG_LEVEL=os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"))
    beside = {name: value for name, value in env.items() if name != "TESSERA_ENGINE"}
    out = []
    for name, program in PROGRAMS.items():
        command = [str(build / program)]
        if test := GROUPS.get(name):
            listed = subprocess.run([*command, "--gtest_list_tests"], env=beside, capture_output=True, text=True, check=True)
            groups = re.findall(rf"^  {test.partition('.')[2]}(\w+)", listed.stdout, re.MULTILINE)
            out += [task for group in groups for task in
                    parts_of(Task(f"{name}/{group}", [*command, f"--gtest_filter={test}{group}"], env, True), group)]
        else:  # the engine's own test runs the native engine beside the plugin
            out.append(Task(name, command, beside if name == "engine" else env, program.startswith("tests/")))
    if devices < DEVICES:
        out = [task._replace(command=[*task.command, f"--gtest_filter={FEW}"]) if task.name == "engine" else task for task in out
               if task.name == "engine" or "/" in task.name]
        print(f"{devices} devices: annotations, collectives, examples and the engine's tests on {DEVICES} are left out")
    return [task for task in out if only is None or task.name == only or task.name.startswith(f"{only}/")]


def parts_of(task: Task, group: str) -> list[Task]:
    """Of a group of many cases several, so that no process is the last for long."""
    with open(CASES / f"{group}.jsonl", "rb") as file:
        parts = -(-sum(1 for _ in file) // PART)
    if parts <= 1:
        return [task]
    return [task._replace(name=f"{task.name}/{k}", env=dict(task.env, TESSERA_CASE_PART=f"{k}/{parts}")) for k in range(1, parts + 1)]


def outcome_of(task: Task, seconds: float | None, logs: pathlib.Path | None) -> Outcome:
    begin = time.monotonic()
    process = subprocess.Popen(task.command, env=task.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        text += f"\nended after {seconds:g} s"
    if logs is not None:
        (logs / f"{task.name.replace('/', '_')}.log").write_text(text)
    return Outcome(task, process.returncode, text, time.monotonic() - begin)


class Report:
    """What differs, of what is accepted."""

    def __init__(self, accepted: list[tuple[str, str, str]]):
        self.accepted = accepted
        self.used: set[tuple[str, str, str]] = set()
        self.agree = self.let_pass = self.wrong = self.cases = self.cases_agree = 0

    def add(self, run: Outcome) -> None:
        found = failures(run.text)
        known, unknown = [], []
        for case, message in found:
            match = next((a for a in self.accepted if re.search(a[0], case) and re.search(a[1], message)), None)
            if match:
                self.used.add(match)
                known.append((case, match[2]))
            else:
                unknown.append((case, message))
        cut_off = run.task.is_test and not ENDED.search(run.text)
        if run.status not in (0, 1) or (run.status == 1 and not found) or cut_off:
            unknown.append((run.task.command[0], f"exit status {run.status}: {run.text[-2000:]}"))
        print(f"{run.task.name}: {len(known)} accepted, {len(unknown)} wrong, {run.seconds:.0f} s")
        for line in COUNTS.findall(run.text):
            print(f"  {line[:200]}")
            if counts := re.match(r"oracle \w+: (\d+)/(\d+)", line):
                self.cases_agree += int(counts[1])
                self.cases += int(counts[2])
        for case, reason in known:
            print(f"  known {case}: {reason}")
        for case, message in unknown:
            print(f"  WRONG {case}: {message[:400]}")
        sys.stdout.flush()
        self.agree += not unknown
        self.let_pass += len(known)
        self.wrong += len(unknown)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("plugin", type=pathlib.Path)
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--devices", type=int, default=DEVICES)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--logs", type=pathlib.Path)
    parser.add_argument("--accepted", type=pathlib.Path, default=HERE / "accepted.txt")
    o = parser.parse_args()
    tasks = tasks_of(o.build, str(o.plugin.resolve()), o.only, o.devices)
    if not tasks:
        parser.error(f"--only {o.only}: expected one of {', '.join(PROGRAMS)}, or operations/GROUP")
    if o.logs is not None:
        o.logs.mkdir(parents=True, exist_ok=True)
    report = Report(accepted_lines(o.accepted))
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for run in pool.map(lambda task: outcome_of(task, o.seconds, o.logs), tasks):
            report.add(run)
    if o.only is None:
        for line in report.accepted:
            if line not in report.used:
                print(f"nothing differs any more: {'  '.join(line)}")
    if report.cases:
        print(f"recorded operations: {report.cases_agree} of {report.cases} agree")
    print(f"{report.agree} programs agree, {report.let_pass} cases are accepted as {o.accepted.name} says, {report.wrong} differ")
    return 0 if report.wrong == 0 else 1


sys.exit(main())
