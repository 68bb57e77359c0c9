#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy with .clang-tidy over the sources, warnings as errors.
#
#   tools/lint.sh              every file of src/ and cli/
#   tools/lint.sh --changed    those that differ from main, or from what is committed
#   tools/lint.sh FILE...
set -uo pipefail
cd "$(dirname "$0")/.."

tidy=clang-tidy-19
if ! command -v $tidy >/dev/null; then
  echo "tools/lint.sh: no $tidy (tools/setup.sh --checks installs it)" >&2
  exit 1
fi

case "${1:-}" in
  "") mapfile -t files < <(git ls-files 'src/*.cc' 'cli/*.cc') ;;
  --changed)
    base=$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
    mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'cli/*.cc') ;;
  *) files=("$@") ;;
esac
[ ${#files[@]} -gt 0 ] || { echo "lint: nothing to read"; exit 0; }

# stderr also counts what was silenced in system headers.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" $tidy --quiet -p build \
  2> >(grep -vE '^([0-9]+ (warnings?|errors?).* generated\.|\[[0-9]+/[0-9]+\] Processing file.*)$' >&2)
status=$?
if [ $status -ne 0 ]; then
  echo "lint: clang-tidy has findings"
  exit 1
fi
echo "lint: ${#files[@]} files, no findings"
