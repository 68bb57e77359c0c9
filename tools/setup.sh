#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the build needs and Debian has, through apt-get; does nothing where everything is there.
#
#   tools/setup.sh           what building and testing needs
#   tools/setup.sh --checks  what the format and lint checks need
#   tools/setup.sh --mpi     what programs of many processes need beside that: both MPIs, which can be installed together
#   tools/setup.sh --docs    what the documentation site needs
#   tools/setup.sh --pages   what clicks through pages in a browser
#   tools/setup.sh --packages  what makes Debian packages, and the clean root that they are tried in
#   tools/setup.sh --bench   what the side-by-side benchmark needs (the peer itself comes from PyPI)
set -euo pipefail

packages=(g++ cmake ninja-build ccache mold pkg-config
          libgtest-dev libdnnl-dev libhwy-dev libsleef-dev libopenblas-pthread-dev liblapacke-dev libeigen3-dev
          nlohmann-json3-dev libdlpack-dev libboost-dev libboost-math-dev libzip-dev zlib1g-dev libxbyak-dev libcli11-dev libmimalloc-dev
          libcpp-httplib-dev python3 python3-cffi)
# Pinned: another clang-format writes other lines, and clang-tidy before 16 cannot read C++20 as g++ 12 does.
[ "${1:-}" != --checks ] || packages=(ninja-build cmake g++ python3 clang-format-14 clang-tidy-19)
[ "${1:-}" != --mpi ] || packages=(libopenmpi-dev openmpi-bin libmpich-dev mpich)
[ "${1:-}" != --docs ] || packages=(doxygen python3)
[ "${1:-}" != --pages ] || packages=(chromium chromium-driver fonts-dejavu-core python3 python3-selenium)
[ "${1:-}" != --packages ] || packages=(dpkg-dev file cmake mmdebstrap)
[ "${1:-}" != --bench ] || packages=(python3 python3-venv)

if ! command -v dpkg-query >/dev/null; then
  echo "tools/setup.sh: not a Debian system; install the equivalents of: ${packages[*]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "tools/setup.sh: as root, run: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "tools/setup.sh: installing ${missing[*]}"
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}")
# Package lists may be missing or old on a fresh machine: fetch them only where the first try fails.
"${install[@]}" </dev/null || { "${as_root[@]}" apt-get update </dev/null && "${install[@]}" </dev/null; }
