#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `tessera launch` over one mpirun: a training whose ranks are killed at random goes on with those that are left,
or with as many as before and then with the bits of the undisturbed run; what it says and gives back otherwise.

usage: check_launch.py TESSERA MPIRUN LANGUAGE_MODEL [SEED]
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

LONGEST = 200
STEPS = 40
tessera, mpirun, model = (os.path.abspath(path) for path in sys.argv[1:4])
seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
chance = random.Random(seed)
breaches: list[str] = []
folder = pathlib.Path(tempfile.mkdtemp(prefix="check_launch-"))


def processes(*words: str) -> list[int]:
    """Those of which every word is in the command line."""
    out = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if all(word.encode() in command for word in words):
            out.append(int(entry.name))
    return out


def launch(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen([tessera, "launch", "--mpirun", mpirun, *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def finish(what: str, child: subprocess.Popen, code: int, *told: str) -> str:
    try:
        text, _ = child.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        child.kill()
        text, _ = child.communicate()
        breaches.append(f"{what}: no end after {LONGEST} s")
    if child.returncode != code:
        breaches.append(f"{what}: exit status {child.returncode}, expected {code}:\n{text}")
    for line in told:
        if line not in text:
            breaches.append(f"{what}: '{line}' is not in:\n{text}")
    return text


def none_left(what: str, *words: str) -> None:
    for _ in range(100):
        alive = processes(*words)
        if not alive:
            return
        time.sleep(0.1)
    breaches.append(f"{what}: processes {alive} are left")


def train(where: pathlib.Path, ranks: int, *options: str) -> subprocess.Popen:
    return launch("-n", str(ranks), *options, "--", model, "train", str(where), str(STEPS))


def newest(where: pathlib.Path) -> int:
    return max((int(p.name[5:]) for p in where.glob("step_*")), default=0)


def kill_at(where: pathlib.Path, child: subprocess.Popen, step: int, number: int) -> bool:
    """One rank, some milliseconds after the checkpoint of this step; False where the training ended before."""
    while newest(where) < step:
        if child.poll() is not None:
            return False
        time.sleep(0.005)
    time.sleep(chance.random() * 0.2)
    ranks = [pid for pid in processes(model, str(where)) if os.readlink(f"/proc/{pid}/exe") == model]
    if not ranks:
        return False
    os.kill(chance.choice(ranks), number)
    return True


def tensors(where: pathlib.Path) -> dict[str, bytes]:
    """The files of the last checkpoint, but for the index, which names the processes' files."""
    last = where / f"step_{STEPS:08d}"
    return {p.name: p.read_bytes() for p in last.iterdir() if p.suffix == ".safetensors"}


def main() -> None:
    begin = time.monotonic()
    undisturbed = folder / "undisturbed"
    finish("undisturbed", train(undisturbed, 3), 0, f"3 processes: steps 0 to {STEPS}, loss")

    fewer = folder / "fewer"
    child = train(fewer, 3, "--restarts", "2")
    killed = kill_at(fewer, child, 8, signal.SIGKILL) + kill_at(fewer, child, 20, signal.SIGKILL)
    text = finish("fewer ranks", child, 0, "was killed by signal 9", f"restart {killed} of 2, on {3 - killed} of",
                  f"{3 - killed} processes: steps ")
    if killed == 0 or f"steps 0 to {STEPS}" in text:
        breaches.append(f"fewer ranks: {killed} kills, and the training began again:\n{text}")
    none_left("fewer ranks", model, str(fewer))

    same = folder / "same"
    child = train(same, 3, "--restarts", "3", "--replace")
    killed = sum(kill_at(same, child, step, signal.SIGKILL) for step in (4, 16, 28))
    finish("as many ranks", child, 0, f"restart {killed} of 3, on 3 of 3 ranks", "3 processes: steps ")
    if killed == 0 or tensors(same) != tensors(undisturbed):
        breaches.append(f"as many ranks: {killed} kills, and not the bits of the undisturbed run")
    none_left("as many ranks", model, str(same))

    stopped = folder / "ended"
    child = train(stopped, 2, "--restarts", "2")
    while newest(stopped) < 4 and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    finish("ended by a signal", child, 128 + signal.SIGTERM, "ended by signal 15")
    none_left("ended by a signal", model, str(stopped))

    orphaned = folder / "orphaned"
    child = train(orphaned, 2)
    while newest(orphaned) < 4 and child.poll() is None:
        time.sleep(0.01)
    child.kill()
    child.communicate()
    none_left("the launcher is killed", model, str(orphaned))

    shell = ["--", "/bin/sh", "-c"]
    finish("a program that fails", launch("-n", "2", "--restarts", "1", *shell, "exit 3"), 3, "exit status 3",
           "restart 1 of 1, on 2 of 2 ranks", "1 of 1 restarts used")
    # A rank that MPI aborts because another one is gone may end before that one is told of.
    rank = '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ]'
    finish("an abort before the kill", launch("-n", "2", "--restarts", "1", *shell, f"{rank} || kill -6 $$; sleep 0.1; kill -9 $$"),
           137, "rank 0 was killed by signal 9", "restart 1 of 1, on 1 of 2 ranks")
    finish("too few", launch("-n", "2", "--min", "2", "--restarts", "1", *shell, "kill -9 $$"), 137, "fewer than --min 2")
    finish("no program", launch("-n", "2", "--restarts", "9", "--", "/nowhere/program"), 127,
           "could not start the program: No such file or directory")
    finish("wrong option", launch("-n", "2", "--restarts", "9", "--mpirun-option=--no-such-option", *shell, "exit 0"), 1,
           "started no rank")
    finish("a program that ends", launch("-n", "2", "--restarts", "1", *shell, "exit 0"), 0)
    print(f"seed {seed}: {time.monotonic() - begin:.0f} s")


main()
subprocess.run(["rm", "-rf", str(folder)], check=False)
for breach in breaches:
    print(breach, file=sys.stderr)
print(f"{len(breaches)} breaches (seed {seed})")
sys.exit(1 if breaches else 0)
