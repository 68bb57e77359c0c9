#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fault program under mpirun, in each of its ways, and checks what every process tells. No run may hang.

usage: check_faults.py MPIRUN MPI_FAULTS [RUNS [SEED]]

With RUNS, so many faults of random kinds, ranks and moments instead.
"""
import os
import random
import re
import subprocess
import sys
import time

LONGEST = 60
mpirun, program = sys.argv[1:3]
runs = int(sys.argv[3]) if len(sys.argv) > 3 else 0
seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
mpich = "mpich" in os.path.basename(mpirun)
other = "openmpi" if mpich else "mpich"
own = "mpich" if mpich else "openmpi"
breaches = []


def run(ranks: int, *arguments: str, start: bool = True, threads: int | None = None) -> tuple[int, str, float]:
    environment = {k: v for k, v in os.environ.items() if k != "TESSERA_THREADS" or threads is None}
    if threads:
        environment["TESSERA_THREADS"] = str(threads)
    command = ([mpirun, "-n", str(ranks)] if start else []) + [program, *arguments]
    begin = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        text, _ = child.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        child.kill()
        text, _ = child.communicate()
        breaches.append(f"{' '.join(arguments)}: no end after {LONGEST} s")
    return child.returncode, text, time.monotonic() - begin


def expect(what: str, text: str, pattern: str) -> None:
    if not re.search(pattern, text):
        breaches.append(f"{what}: no line matches '{pattern}' in:\n{text}")


def told(text: str, process: int) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith(f"process {process}: "))


def no_orphans(what: str) -> None:
    for _ in range(50):
        alive = subprocess.run(["pgrep", "-f", f"^{re.escape(program)} "], capture_output=True, text=True).stdout.split()
        if not alive:
            return
        time.sleep(0.1)
    breaches.append(f"{what}: processes {alive} are left")


def check(mode: str, ranks: int, patterns: dict[int, str], clean: bool = True) -> None:
    code, text, seconds = run(ranks, mode)
    what = f"{mode} with {ranks} processes"
    if clean and code != 0:
        breaches.append(f"{what}: exit status {code}:\n{text}")
    if not clean and code == 0:
        breaches.append(f"{what}: exit status 0 though a process was lost:\n{text}")
    for process, pattern in patterns.items():
        expect(f"{what}, process {process}", told(text, process), pattern)
    no_orphans(what)
    print(f"{what}: {seconds:.1f} s", flush=True)


def at_places() -> None:
    for ranks in (2, 4):
        last = ranks - 1
        others = range(last)
        where = r"all_reduce at faults\.cc:\d+ in run \d+ of its program"
        waited = rf"{where}: process \d waited 2 s for process {last} "
        late = {p: waited + r"\(is outside any collective|failed in this step" for p in others}
        check("late", ranks, late | {last: r"which has ended|failed in this step"})
        check("early_exit", ranks, {p: rf"{where}: process {p} waits for process {last}, which has ended" for p in others})
        check("stop", ranks, {p: waited + r"\(does not answer\)|failed in this step" for p in others})
        check("throw", ranks, {p: rf"process {last} failed in this step: this process has had enough" for p in others})
        different = r"exception after [01]\.\d+ s: .*the processes run different programs: process \d waits for process \d in "
        check("other_program", ranks, {p: different for p in range(ranks)})
        array = rf"number 1 \(from 0\): in process \d float32\(\d+,\) under .*make_array_from_callback at faults\.cc:\d+\), "
        check("other_array", ranks, {p: different + ".*" + array for p in range(ranks)})
        # In turn the function of one process, and the memory of all: each error is that of its own step.
        both = r"(?s)(exception after [01]\.\d+ s: [^\n]*this process has had enough.*bytes asked for.*){6}"
        check("under_way", ranks, {p: both for p in range(ranks)})
    check("kill", 4, {}, clean=False)
    check("uncaught", 4, {}, clean=False)

    # Processes share the machine's cores out, unless they are told how many threads to have.
    for ranks in (2, 4):
        _, text, _ = run(ranks, "threads", threads=0)
        counts = [int(n) for n in re.findall(r"process \d: (\d+) threads", text)]
        if len(counts) != ranks or not ranks <= sum(counts) <= max(ranks, len(os.sched_getaffinity(0))):
            breaches.append(f"{ranks} processes have {counts} threads on {len(os.sched_getaffinity(0))} cores:\n{text}")
        shared = {float(n) for n in re.findall(r", (\S+) processes a core", text)}
        if shared != {max(1.0, ranks / len(os.sched_getaffinity(0)))}:
            breaches.append(f"{ranks} processes, of which {shared} are on a core:\n{text}")
        _, text, _ = run(ranks, "threads", threads=3)
        if len(re.findall(r"process \d: 3 threads", text)) != ranks:
            breaches.append(f"{ranks} processes of three threads each tell:\n{text}")

    # Started by nobody, by another mpirun, and with a module that is none or another MPI's.
    _, text, _ = run(1, "alone", start=False)
    expect("alone", text, "refused: .*not started by mpirun.*mpirun.openmpi -n 4 program.*mpirun.mpich -n 4 program")
    _, text, _ = run(1, "alone", own, start=False)
    expect("alone, named", text, "joined 1 processes")
    _, text, _ = run(2, "wrong_mpi", other)
    expect("another MPI", text, f'refused: .*implementation = "{other}", but .* mpirun has started the program')
    modules = os.path.join(os.path.dirname(os.path.dirname(program)), "modules")
    _, text, _ = run(2, "no_module", own, "/nowhere/module.so")
    expect("no module", text, "refused: .*the module of the transport.* is not there \\(looked for /nowhere/module.so\\)")
    _, text, _ = run(2, "no_module", own, program)
    expect("no library", text, "refused: .*cannot be loaded")
    if os.path.exists(f"{modules}/tessera_mpi_{other}.so"):
        _, text, _ = run(2, "wrong_mpi", own, f"{modules}/tessera_mpi_{other}.so")
        expect("another MPI's module", text, "refused: .*was built for .*, but the program runs under")


def at_random() -> None:
    """Every survivor of a fault that MPI outlives tells of it, and ends well."""
    chance = random.Random(seed)
    for i in range(runs):
        mode = chance.choice(["kill", "stop", "throw", "early_exit", "other_program"])
        ranks = chance.randint(2, 4)
        faulty = chance.randrange(ranks)
        arguments = ["random", mode, str(faulty), str(chance.randrange(400))]
        code, text, seconds = run(ranks, *arguments)
        what = f"run {i} of seed {seed}, {ranks} ranks: {' '.join(arguments)}"
        if mode == "kill":
            if code == 0:
                breaches.append(f"{what}: exit status 0:\n{text}")
        else:
            if code != 0:
                breaches.append(f"{what}: exit status {code}:\n{text}")
            for process in set(range(ranks)) - {faulty}:
                expect(f"{what}, process {process}", told(text, process), "exception: ")
        if "is wrong" in text:
            breaches.append(f"{what}:\n{text}")
        no_orphans(what)
        print(f"{what}: {seconds:.1f} s", flush=True)


if runs > 0:
    at_random()
else:
    at_places()
for breach in breaches:
    print(breach, file=sys.stderr)
print(f"{len(breaches)} breaches")
sys.exit(1 if breaches else 0)
