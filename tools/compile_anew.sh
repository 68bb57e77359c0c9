#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a compile command after deleting what it is to write. A compiler cache that finds an older precompiled header in
# the place of the new one takes it for an input, no longer looks at the headers, and may answer with yet another one.
# And it compares the headers themselves, not their preprocessed text: a precompiled header whose headers differ in
# comments only is another one to the compiler, which would read the changed header a second time.
for ((i = 1; i < $#; ++i)); do
  [ "${!i}" != -o ] || { next=$((i + 1)); rm -f "${!next}"; }
done
CCACHE_DEPEND=1 exec "$@"
