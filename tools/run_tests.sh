#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds one preset, runs its tests (further arguments go to ctest) and closes with the counts of test cases:
# `N passed, N failed`. Where the arguments are `-L quick`, or another label of tests, only those are built. The release
# preset running everything also writes build/spec-report.txt.
set -uo pipefail
cd "$(dirname "$0")/.."

preset=$1
shift
: "${CCACHE_BASEDIR:=$PWD}" "${CCACHE_NOHASHDIR:=1}" "${CCACHE_SLOPPINESS:=pch_defines,time_macros}"
export CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_SLOPPINESS  # as in the Makefile
build=build
[ "$preset" = release ] || build=build/$preset
jobs=${JOBS:-$(nproc)}

targets=()
[[ $# -lt 2 || "$1" != -L || ! "$2" =~ ^(quick|full|long)$ ]] || targets=(--target "tests_$2")
cmake --preset "$preset" && cmake --build --preset "$preset" -j "$jobs" "${targets[@]}" || exit 1
rm -rf "$build/test-results"
mkdir "$build/test-results"

report=()
if [ "$preset" = release ] && [ $# -eq 0 ]; then
  rm -rf "$build/spec-report.d"
  report=(env TESSERA_SPEC_REPORT_DIR="$PWD/$build/spec-report.d")
  # A long suite is part of `make test-long`, programs of several processes of `make test-mpi`.
  set -- -LE 'long|mpi'
fi
"${report[@]}" ctest --preset "$preset" -j "$jobs" --no-tests=error \
  --output-junit "$PWD/$build/test-results/ctest.xml" "$@"
status=$?

if [ ${#report[@]} -gt 0 ]; then
  python3 tools/spec_report.py "$build/spec-report.d" "$build/spec-report.txt" || status=1
fi
python3 tools/test_summary.py "$build" || status=1
exit $status
