#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tessera beside JAX: runs both sides of every workload in turn, checks that they compute the same, prints a table and
writes build/bench.json and a plot.

    side_by_side.py [--only NAME,NAME] [--rounds 5] [--budget 0.5] [--record] [--devices 8] [--no-targets] [--together]

Each round runs, workload by workload, `tessera bench` and then `jax_peer.py`, each in a process of its own and never
at the same time, with 8 virtual devices (--devices), or N for NAME@N. A ratio is the peer's median over all rounds divided by ours: above
1 Tessera is faster. The share is the limit's median in our time's, both taken in turn in our processes; best: the least
of all in the least. TESSERA_BENCH_PYTHON names a Python that has JAX; without it a virtual environment is made under .cache/.

On other devices than the CPU's (TESSERA_ENGINE and JAX_PLATFORMS name them) targets and record mean nothing: --no-targets. Where starting
takes long, as on a GPU, --together runs all workloads of a side and round in one process.

Fails where results differ, where a workload misses its target (bench/targets.json) or where its ratio fell below that of
bench/record.json by more than both spreads. --record writes that file anew, and the table and plot of docs/performance.md.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
JAX = "jax==0.10.2"
# Targets that ask for instructions of the CPU; without them the workload must not be behind the peer.
NEEDS = {"matmul_1024_bf16_1dev": "avx512bf16"}
COLUMNS = "{:<36} {:>12} {:>12} {:>9} {:>7} {:>12} {:>7} {:>7}  {}"


def peer_python() -> str:
    """The Python of the environment with the peer, made where there is none."""
    given = os.environ.get("TESSERA_BENCH_PYTHON")
    if given:
        return given
    python = ROOT / ".cache/bench-venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
    if subprocess.run([str(python), "-c", "import jax"], capture_output=True).returncode != 0:
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", JAX, "numpy"], check=True)
    return str(python)


def run(command: list[str], names: list[str] | None = None) -> dict:
    """The one line that a side prints, and the memory high-water mark of its process in MB; of several workloads the
    line of each."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if names is not None:
        peak_mb = usage.ru_maxrss / 1024
        missing = {"error": (err.strip().splitlines() or ["no output"])[-1][:200]}
        printed = {line["workload"]: {**line, "peak_mb": peak_mb} for line in lines}
        return {name: printed.get(name, missing) for name in names}
    if process.returncode != 0 or not lines:
        return {"error": (err.strip().splitlines() or ["no output"])[-1][:200]}
    return {**lines[-1], "peak_mb": usage.ru_maxrss / 1024}


def differences(name: str, ours: dict, peers: dict) -> list[str]:
    """What of the results does not agree, as WORKLOADS defines it."""
    a, b = ours.get("check"), peers.get("check")
    if b is None:
        return []
    if a is None or a["count"] != b["count"]:
        return [f"count {a and a['count']} and {b['count']}"]
    tolerance = 1e-2 if "bf16" in name else 1e-5
    found = [f"{key} {a[key]} and {b[key]}" for key in ("sum", "abs") if not abs(a[key] - b[key]) <= tolerance * b["abs"]]
    mean = b["abs"] / max(1, b["count"])
    for x, y in zip(a["first"], b["first"]):
        if not abs(x - y) <= 10 * tolerance * (abs(y) + mean):
            found.append(f"element {x} and {y}")
    for x, y in zip(a.get("losses", []), b.get("losses", [])):
        if not abs(x - y) <= 1e-4 * abs(y):
            found.append(f"loss {x} and {y}")
    return found


def measure(names: list[str], rounds: int, budget: float, binary: str, python: str,
            all_devices: int, together: bool) -> tuple[dict, dict]:
    sides = {n: {"tessera": [], "jax": []} for n in names}
    problems: dict[str, list[str]] = {}
    commands = {
        "tessera": lambda n, devices: [binary, "bench", "--json", "--budget", str(budget), "--devices", devices, *n.split(",")],
        "jax": lambda n, devices: [python, str(ROOT / "bench/jax_peer.py"), "--budget", str(budget), "--devices", devices,
                                   "--only", n],
    }
    for r in range(rounds):
        if together:
            every = {side: run(command(",".join(names), str(all_devices)), names) for side, command in commands.items()}
        for i, name in enumerate(names):
            if sys.stderr.isatty():
                print(f"\rround {r + 1}/{rounds}, {i + 1}/{len(names)} {name:<40}", end="", file=sys.stderr)
            workload, _, devices = name.partition("@")
            if together:
                got = {side: every[side][name] for side in commands}
            else:
                got = {side: run(command(workload, devices or str(all_devices))) for side, command in commands.items()}
            errors = [f"{side}: {g['error']}" for side, g in got.items() if "error" in g]
            errors += [] if errors else differences(name, got["tessera"], got["jax"])
            if errors:
                problems[name] = errors
                continue
            for side, g in got.items():
                sides[name][side].append(g)
    if sys.stderr.isatty():
        print("\r" + " " * 80 + "\r", end="", file=sys.stderr)
    return sides, problems


def row(name: str, sides: dict, target: float) -> dict:
    ours = statistics.median(g["median"] for g in sides["tessera"])
    peers = statistics.median(g["median"] for g in sides["jax"])
    limit = statistics.median(g["limit"] for g in sides["tessera"])
    best = min(g["best_limit"] for g in sides["tessera"]) / min(g["min"] for g in sides["tessera"])
    ratios = [b["median"] / a["median"] for a, b in zip(sides["tessera"], sides["jax"])]
    ratio = peers / ours
    # Targets up to 1.1 allow for the spread of two runs at the same limit.
    slack = 0.97 if target <= 1.1 else 1.0
    at_limit = target <= 1.1 and min(limit / ours, best) >= 0.95
    return {"tessera_us": round(ours, 3), "jax_us": round(peers, 3), "ratio": round(ratio, 3), "target": target,
            "limit_us": round(limit, 4), "share": round(limit / ours, 4), "best_share": round(best, 4),
            "met": ratio >= slack * target or at_limit,
            "spread": round((max(ratios) - min(ratios)) / 2 / ratio, 3),
            "tessera_peak_mb": round(max(g["peak_mb"] for g in sides["tessera"]), 1),
            "jax_peak_mb": round(max(g["peak_mb"] for g in sides["jax"]), 1)}


def print_table(table: dict, geomean: float) -> None:
    print(COLUMNS.format("workload", "Tessera us", "JAX us", "ratio", "target", "limit us", "share", "best", ""))
    for name, w in table.items():
        mark = "" if w["met"] else "MISSES ITS TARGET" if w["ratio"] >= 1 else "BEHIND THE PEER"
        print(COLUMNS.format(name, f"{w['tessera_us']:.1f}", f"{w['jax_us']:.1f}", f"{w['ratio']:.2f}", f"{w['target']:g}",
                             f"{w['limit_us']:.1f}" if w["limit_us"] >= 0.1 else f"{w['limit_us']:.4f}",
                             f"{100 * w['share']:.0f}%", f"{100 * w['best_share']:.0f}%", mark))
    print(summary(table, geomean))


def plot(table: dict) -> str:
    """Bars of the ratios on a logarithmic scale, with a tick at each target."""
    left, unit, step = 250, 150.0, 18
    x = lambda ratio: left + unit * (math.log10(max(ratio, 0.1)) + 1)
    width = int(x(10 ** math.ceil(math.log10(max(w["ratio"] for w in table.values()))))) + 70
    height = step * len(table) + 40
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    power = -1
    while x(10.0**power) < width - 40:
        at = x(10.0**power)
        out.append(f'<line x1="{at}" y1="20" x2="{at}" y2="{height - 16}" stroke="{"black" if power == 0 else "#ddd"}"/>'
                   f'<text x="{at}" y="14" text-anchor="middle">{10.0**power:g}x</text>')
        power += 1
    for i, (name, w) in enumerate(table.items()):
        y = 24 + i * step
        begin, end = sorted((x(1), x(w["ratio"])))
        colour = "#2a7f62" if w["met"] else "#c8553d"
        out.append(f'<text x="{left - 6}" y="{y + 10}" text-anchor="end">{name}</text>'
                   f'<rect x="{begin:.1f}" y="{y}" width="{max(1, end - begin):.1f}" height="12" fill="{colour}"/>'
                   f'<line x1="{x(w["target"]):.1f}" y1="{y - 2}" x2="{x(w["target"]):.1f}" y2="{y + 14}" stroke="#444" stroke-width="2"/>'
                   f'<text x="{end + 4:.1f}" y="{y + 10}">{w["ratio"]:.3g}</text>')
    out.append(f'<text x="{left}" y="{height - 4}">JAX time / Tessera time; the tick is the target</text></svg>')
    return "\n".join(out) + "\n"


def summary(table: dict, geomean: float) -> str:
    met = sum(w["met"] for w in table.values())
    behind = sum(w["ratio"] < 1 for w in table.values())
    return f"{met} of {len(table)} targets met, {behind or 'none'} behind the peer; geometric mean of the ratios {geomean:.1f}"


def markdown(table: dict, geomean: float) -> str:
    """The table of the documentation."""
    out = ["| workload | Tessera µs | JAX µs | ratio | target | limit µs | of the limit | best | met |", "|---|---:|---:|---:|---:|---:|---:|---:|---|"]
    for name, w in table.items():
        limit = f"{w['limit_us']:.0f}" if w["limit_us"] >= 1 else f"{w['limit_us']:.3f}"
        best = f"{100 * w['best_share']:.0f} %" if "best_share" in w else ""  # kept from before there was one
        out.append(f"| {name} | {w['tessera_us']:.1f} | {w['jax_us']:.1f} | {w['ratio']:.2f} | {w['target']:g} | {limit} | "
                   f"{100 * w['share']:.0f} % | {best} | {'yes' if w['met'] else 'no'} |")
    return "\n".join(out) + f"\n\n{summary(table, geomean)}.\n"


def write_docs(table: dict, geomean: float) -> None:
    page = ROOT / "docs/performance.md"
    begin, end = "<!-- table: make bench RECORD=1 -->\n", "<!-- end of table -->\n"
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + markdown(table, geomean) + end + rest.split(end)[1])
    (ROOT / "docs/performance.svg").write_text(plot(table))


def fallen(table: dict, recorded: dict) -> list[str]:
    """Workloads whose ratio is below the recorded one by more than both runs' spreads."""
    out = []
    for name, w in table.items():
        before = recorded.get(name)
        if before and w["ratio"] < before["ratio"] * (1 - before["spread"] - w["spread"]):
            out.append(f"{name}: ratio {w['ratio']} (spread {w['spread']:.0%}), recorded {before['ratio']} "
                       f"(spread {before['spread']:.0%})")
    return out


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds of timed runs a side, workload and round")
    parser.add_argument("--binary", default=str(ROOT / "build/bin/tessera"))
    parser.add_argument("--out", default=str(ROOT / "build"))
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--no-targets", action="store_true", help="print what was measured, and fail for wrong results alone")
    parser.add_argument("--together", action="store_true", help="all workloads of a side and round in one process")
    parser.add_argument("--record", action="store_true", help="keep the figures in bench/record.json and docs/")
    args = parser.parse_args()
    targets = json.loads((ROOT / "bench/targets.json").read_text())
    names = [n for n in args.only.split(",") if n] or list(targets)
    unknown = [n for n in names if n not in targets]
    if args.together and any("@" in n for n in names):
        parser.error("--together: all workloads have the devices of --devices; expected no NAME@N")
    if unknown:
        print(f"no such workload: {', '.join(unknown)}; there are {', '.join(targets)}")
        return 2
    machine = run([args.binary, "bench", "--machine", "--json"])
    print("machine: " + ", ".join(f"{key} {value}" for key, value in machine.items() if key != "peak_mb"))
    for name, instructions in NEEDS.items():
        if instructions not in machine.get("isa", "").split():
            targets[name] = min(1, targets[name])
    sides, problems = measure(names, args.rounds, args.budget, args.binary, peer_python(), args.devices, args.together)
    table = {n: row(n, sides[n], 0 if args.no_targets else targets[n]) for n in names if sides[n]["tessera"]}
    if table:
        geomean = math.exp(statistics.mean(math.log(w["ratio"]) for w in table.values()))
        print_table(table, geomean)
        out = pathlib.Path(args.out)
        result = {"machine": machine, "workloads": table, "geomean_ratio": round(geomean, 3), "rounds": args.rounds}
        out.mkdir(parents=True, exist_ok=True)
        (out / "bench.json").write_text(json.dumps(result, indent=1) + "\n")
        (out / "bench.svg").write_text(plot(table))
    record = ROOT / "bench/record.json"
    recorded = json.loads(record.read_text())["workloads"] if record.exists() else {}
    fell = [] if args.no_targets else fallen(table, recorded)
    for line in fell:
        print(f"fell: {line}")
    for name, what in problems.items():
        print(f"differs: {name}: {'; '.join(what)}")
    if args.record:
        kept = {**recorded, **table}
        kept = {n: kept[n] for n in targets if n in kept}
        mean = math.exp(statistics.mean(math.log(w["ratio"]) for w in kept.values()))
        record.write_text(json.dumps({"machine": machine, "workloads": kept, "geomean_ratio": round(mean, 3)}, indent=1) + "\n")
        write_docs(kept, mean)
    missed = [n for n, w in table.items() if not w["met"]]
    return 1 if problems or fell or missed else 0


if __name__ == "__main__":
    sys.exit(main())
