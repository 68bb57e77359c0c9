#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times collectives over processes beside plain MPI and JAX (gloo), each in turn, several rounds, and prints a table of
the smallest times. Where no Python with JAX is named, that column stays empty.

usage: side_by_side.py [--rounds N] [--mpi openmpi|mpich] [--ranks 2 4] [--jax PYTHON]
"""
import argparse
import os
import pathlib
import subprocess

BUILD = pathlib.Path("build/bench")
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
OPS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]


def lines(command: list[str]) -> dict[tuple[str, int], float]:
    text = subprocess.run(command, env=ENVIRONMENT, check=True, timeout=900, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return {(row[0], int(row[1])): float(row[2]) for row in rows if len(row) == 3}


def best(kept: dict, new: dict) -> None:
    for key, value in new.items():
        kept[key] = min(value, kept.get(key, value))


def cell(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def compare(mpi: str, ranks: int, rounds: int, jax: str | None) -> None:
    run = [f"mpirun.{mpi}", "-n", str(ranks)]
    plain: dict = {}
    ours: dict = {}
    for _ in range(rounds):
        best(plain, lines([*run, str(BUILD / f"plain_mpi_{mpi}")]))
        best(ours, lines([*run, str(BUILD / "mpi_bench"), "transport"]))
        best(ours, lines([*run, str(BUILD / "mpi_bench"), "programs"]))
    if jax:
        best(ours, lines([jax, "bench/mpi/jax_collectives.py", str(ranks)]))
    print(f"\n{mpi}, {ranks} ranks, microseconds\n")
    print("| collective | bytes | plain MPI | transport | ratio | compiled program | JAX, gloo |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for op in OPS:
        for name, size in sorted(plain):
            if name != op:
                continue
            t, p = ours[op, size], plain[op, size]
            print(f"| {op} | {size:,} | {cell(p)} | {cell(t)} | {t / p:.2f} | {cell(ours.get(('program.' + op, size)))} |"
                  f" {cell(ours.get(('jax.' + op, size)))} |", flush=True)
    if ranks == 4:
        step = lines([*run, str(BUILD / "mpi_bench"), "step"])
        for (_, sent), us in step.items():
            print(f"\nGPT step on {ranks} processes x 2 devices: {us / 1000:.0f} ms, {sent:,} bytes sent by a process")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mpi", choices=["openmpi", "mpich"], default="openmpi")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--jax")
    options = parser.parse_args()
    for ranks in options.ranks:
        compare(options.mpi, ranks, options.rounds, options.jax)


main()
