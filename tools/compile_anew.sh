#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a compile command after deleting what it is to write. A compiler cache that finds an older precompiled header in
# the place of the new one takes it for an input, no longer looks at the headers, and may answer with yet another one.
for ((i = 1; i < $#; ++i)); do
  [ "${!i}" != -o ] || { next=$((i + 1)); rm -f "${!next}"; }
done
exec "$@"
