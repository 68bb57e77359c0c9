#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes build/oracle-venv with the JAX that the recorded cases come from, and what JAX's own tests and the recorded
# networks import. Tests never need it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python3 -m venv "$root/build/oracle-venv"
"$root/build/oracle-venv/bin/pip" install --quiet "jax==0.10.2" "jaxlib==0.10.2" "numpy>=2,<3" \
  flax optax absl-py hypothesis pytest scipy
echo "$root/build/oracle-venv/bin/python"
