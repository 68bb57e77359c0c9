#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the steps of a trace (TESSERA_TRACE=file.json, tessera run --trace) took, those that took longest first.

    trace_summary.py file.json [--calls 10] [--bandwidth 20] [--top 30]

--calls divides everything by the number of calls that the trace covers. `cpu` is the time of the calling thread: with
TESSERA_THREADS=1 all of the work. `memory` is the share of the step's time that reading its operands and writing its
results once would take at --bandwidth GB/s. The last line adds up library calls (products, convolutions, decompositions)
and steps for which `memory` is at least 80 %.
"""
import argparse
import collections
import json

LIBRARY = ("dot_general", "conv_general", "cholesky", "eigh", "svd", "qr", "lu", "triangular_solve")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trace")
    parser.add_argument("--calls", type=float, default=1)
    parser.add_argument("--bandwidth", type=float, default=20, help="GB/s of memory")
    parser.add_argument("--top", type=int, default=30)
    args = parser.parse_args()
    with open(args.trace, encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    steps = collections.defaultdict(lambda: [0, 0.0, 0.0, 0])
    for e in events:
        moved = e["args"].get("step")  # on one of the step's rows, of which each device has one
        if moved is None:
            continue
        s = steps[e["name"]]
        s[0] += 1
        s[1] += e["dur"]
        s[2] += e["tdur"]
        s[3] += moved["read"] + moved["written"]
    total = sum(s[2] for s in steps.values()) or 1.0
    at_limit = 0.0
    print(f"{'ms':>9} {'cpu ms':>9} {'share':>6} {'times':>7} {'MB':>9} {'memory':>7}  step")
    for i, (name, (count, wall, cpu, size)) in enumerate(sorted(steps.items(), key=lambda kv: -kv[1][2])):
        memory = size / (args.bandwidth * 1e3) / wall if wall else 0.0
        if name.startswith(LIBRARY) or memory >= 0.8:
            at_limit += cpu
        if i < args.top:
            print(f"{wall / 1e3 / args.calls:9.3f} {cpu / 1e3 / args.calls:9.3f} {cpu / total:6.1%} {count / args.calls:7.1f} "
                  f"{size / 1e6 / args.calls:9.2f} {min(memory, 1):7.0%}  {name[:110]}")
    print(f"{total / 1e3 / args.calls:.3f} ms of CPU time; {at_limit / total:.0%} of it in library calls or at the memory limit")


if __name__ == "__main__":
    main()
