#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the test cases of one ctest run: prints `N passed, N failed`; fails where one failed or none ran.

usage: test_summary.py BUILD_FOLDER

Reads test-results/ of the build folder: ctest.xml says how every test program ended, and NAME.json what GoogleTest ran
in it. A program without such a file (an example, or one that crashed) counts as one case.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as xml


def cases(result: dict):
    """(name, state) of every case that GoogleTest ran."""
    for suite in result["testsuites"]:
        for case in suite["testsuite"]:
            if case["status"] != "RUN":
                continue
            state = "failed" if case.get("failures") else "skipped" if case["result"] == "SKIPPED" else "passed"
            yield f"{suite['name']}.{case['name']}", state


def main() -> int:
    results = pathlib.Path(sys.argv[1]) / "test-results"
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for program in xml.parse(results / "ctest.xml").getroot().iter("testcase"):
        name = program.get("name")
        ended_well = program.get("status") == "run"
        detail = results / f"{name}.json"
        states = dict(cases(json.loads(detail.read_text()))) if detail.exists() and detail.stat().st_size else {}
        skipped = program.find("skipped")
        if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
            print(f"skipped: {name}: {(program.findtext('system-out') or '').strip()}")
            states = {name: "skipped"}
        elif not states or (not ended_well and "failed" not in states.values()):
            states[name] = "passed" if ended_well else "failed"
        for case, state in states.items():
            count[state] += 1
            if state == "failed":
                print(f"failed: {name}" if case == name else f"failed: {name} {case}")
    note = f", {count['skipped']} skipped" if count["skipped"] else ""
    print(f"{count['passed']} passed, {count['failed']} failed{note}")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
