#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws a trace that Tessera wrote (TESSERA_TRACE, `tessera run --trace`) as an SVG picture: a row for each device, a
block for each step, blue where devices exchange data, and the arrows between these devices. Perfetto shows more; this is
for pages.

usage: trace_picture.py TRACE.json PICTURE.svg [FIRST [LAST]]     only steps FIRST to LAST, by their order in time
"""
import html
import json
import pathlib
import sys

WIDTH, LABEL, ROW, GAP, TOP = 980, 64, 22, 6, 30


def main() -> int:
    if not 3 <= len(sys.argv) <= 5:
        print(__doc__, file=sys.stderr)
        return 2
    rows = json.loads(pathlib.Path(sys.argv[1]).read_text())["traceEvents"]
    steps = [r for r in rows if r["ph"] == "X"]
    times = sorted({r["ts"] for r in steps})
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    last = int(sys.argv[4]) if len(sys.argv) > 4 else len(times) - 1
    if not 0 <= first <= last < len(times):
        print(f"{sys.argv[1]}: steps {first} to {last} of {len(times)}", file=sys.stderr)
        return 1
    steps = [s for s in steps if times[first] <= s["ts"] <= times[last]]
    begin, end = times[first], max(s["ts"] + s["dur"] for s in steps)
    devices = sorted({(s["pid"], s["tid"]) for s in steps})
    at = {device: TOP + i * (ROW + GAP) for i, device in enumerate(devices)}
    scale = (WIDTH - LABEL - 10) / max(end - begin, 1e-9)

    def x(time: float) -> float:
        return LABEL + (time - begin) * scale

    height = TOP + len(devices) * (ROW + GAP) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="11">',
           '<defs><marker id="head" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto">'
           '<path d="M0 0L6 3L0 6z" fill="#c0392b"/></marker></defs>',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="{LABEL}" y="18">{end - begin:.0f} µs, {len({s["ts"] for s in steps})} steps</text>']
    for (process, device), y in at.items():
        out.append(f'<text x="4" y="{y + 15}">device {device}</text>')
    for s in steps:
        y, moves = at[s["pid"], s["tid"]], "received" in s["args"]
        width = max(s["dur"] * scale, 1)
        title = html.escape(f'{s["name"]}, {s["dur"]:.1f} µs, at {s["args"]["at"]}')
        out.append(f'<rect x="{x(s["ts"]):.1f}" y="{y}" width="{width:.1f}" height="{ROW}" rx="2" stroke="white" '
                   f'fill="{"#7fb3d5" if moves else "#e6d5b8"}"><title>{title}</title></rect>')
        name = s["name"].split(" (")[0].removeprefix("reshard.")
        if len(name) * 6.2 < width:
            out.append(f'<text x="{x(s["ts"]) + 4:.1f}" y="{y + 15}">{html.escape(name)}</text>')
    tails = {r["id"]: r for r in rows if r["ph"] == "s"}
    for head in (r for r in rows if r["ph"] == "f" and begin <= r["ts"] <= end):
        tail = tails[head["id"]]
        ends = [(x(r["ts"]), at[r["pid"], r["tid"]] + ROW / 2) for r in (tail, head)]
        out.append(f'<path d="M{ends[0][0]:.1f} {ends[0][1]}L{ends[1][0]:.1f} {ends[1][1]}" stroke="#c0392b" '
                   'fill="none" marker-end="url(#head)"/>')
    pathlib.Path(sys.argv[2]).write_text("\n".join(out + ["</svg>", ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
