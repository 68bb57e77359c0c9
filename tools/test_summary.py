#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up the test cases of one ctest run: prints `N passed, N failed`; fails where one failed or left no result.

usage: test_summary.py BUILD_FOLDER [the arguments that ctest had]
"""
import json
import pathlib
import subprocess
import sys


def main() -> int:
    build = pathlib.Path(sys.argv[1])
    listing = subprocess.run(
        ["ctest", "--show-only=json-v1", *sys.argv[2:]], cwd=build, check=True, capture_output=True, text=True
    )
    passed = failed = skipped = 0
    for test in json.loads(listing.stdout)["tests"]:
        try:
            result = json.loads((build / "test-results" / f"{test['name']}.json").read_text())
        except (OSError, ValueError):
            print(f"{test['name']}: ended without a result (crash or time-out)")
            failed += 1
            continue
        for suite in result["testsuites"]:
            for case in suite["testsuite"]:
                if case.get("failures"):
                    print(f"failed: {test['name']} {suite['name']}.{case['name']}")
                    failed += 1
                elif case["result"] == "SKIPPED":
                    skipped += 1
                elif case["status"] == "RUN":
                    passed += 1
    note = f", {skipped} skipped" if skipped else ""
    print(f"{passed} passed, {failed} failed{note}")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
