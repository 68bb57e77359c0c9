#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merges the fragments that test binaries leave (tests/support/spec_report.h) into one report.

usage: spec_report.py FRAGMENT_FOLDER REPORT_FILE [--missing]

The report has one line per requirement and test that showed it, and one per file of recorded cases. Where several tests
ran the same cases, the line holds the worst of their counts. `--missing` also prints the requirements without a line.
"""
import pathlib
import re
import sys

# How many requirements each page of the specification has.
TOTALS = {"G": 71, "M": 81, "A": 80, "C": 119, "T": 109, "R": 28, "E": 107}
PAGES = {"G": "global arrays", "M": "meshes", "A": "arrays and shardings", "C": "collectives", "T": "annotations",
         "R": "table of global arrays", "E": "explicit sharding"}
REQUIREMENT = re.compile(r"requirement ([A-Z])(\d+): (\S+) passed")
CASES = re.compile(r"cases (\S+): (\d+)/(\d+)")


def main() -> int:
    fragments, report = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    shown, cases, bad = set(), {}, []
    for fragment in sorted(fragments.glob("*.txt")):
        for line in fragment.read_text().splitlines():
            if m := REQUIREMENT.fullmatch(line):
                page, number = m[1], int(m[2])
                if not 1 <= number <= TOTALS.get(page, 0):
                    bad.append(f"{m[3]} names {page}{number}, which the specification does not have")
                shown.add((page, number, m[3]))
            elif m := CASES.fullmatch(line):
                passed, total = int(m[2]), int(m[3])
                seen = cases.setdefault(m[1], (passed, total))
                cases[m[1]] = min(seen, (passed, total), key=lambda c: c[0] / max(c[1], 1))
            else:
                bad.append(f"{fragment.name}: cannot read '{line}'")

    order = list(TOTALS)
    rows = sorted(shown, key=lambda r: (order.index(r[0]) if r[0] in order else len(order), r[1], r[2]))
    lines = [f"requirement {page}{number}: {test} passed" for page, number, test in rows]
    lines += [f"cases {file}: {passed}/{total}" for file, (passed, total) in sorted(cases.items())]
    report.write_text("".join(line + "\n" for line in lines))

    ids = {(page, number) for page, number, _ in shown}
    for page, total in TOTALS.items():
        numbers = {n for p, n in ids if p == page}
        print(f"requirements {page} ({PAGES[page]}): {len(numbers)} of {total} shown")
        if "--missing" in sys.argv:
            print("  missing:", " ".join(f"{page}{n}" for n in range(1, total + 1) if n not in numbers))
    for file, (passed, total) in sorted(cases.items()):
        print(f"cases {file}: {passed}/{total}")
    print(f"{report}: {len(ids)} requirements, {len(lines)} lines")
    for line in bad:
        print(f"spec report: {line}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
