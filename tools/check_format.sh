#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fails where a C++ file is not in the house format; `make format` rewrites them.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z '*.h' '*.cc' | xargs -0 -n 16 -P "${JOBS:-$(nproc)}" clang-format-14 --dry-run -Werror --style=file
echo "format: $(git ls-files '*.h' '*.cc' | wc -l) files as clang-format writes them"
