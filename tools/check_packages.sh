#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of `make packages` in a root that has a Debian and nothing else, and there builds
# and runs the README's first program: with CMake, against the static and against the shared library, and with pkg-config;
# and a program in C. Then runs the command line, and a program under each MPI whose module is packaged. Needs mmdebstrap,
# a Debian mirror and root (tools/setup.sh --packages).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=/dev/null
. /etc/os-release
scratch=$(mktemp -d)
root=$scratch/root
clean_up() {
  for folder in proc sys; do
    ! mountpoint -q "$root/$folder" || umount "$root/$folder"
  done
  rm -rf --one-file-system "$scratch"
}
trap clean_up EXIT

mmdebstrap --quiet --variant=minbase --include=g++,cmake,ninja-build,pkg-config,openmpi-bin,mpich "$VERSION_CODENAME" "$root"
mkdir "$root/trial"
cp build/packages/*.deb "$root/trial"
cp examples/first.cc "$root/trial"
python3 tools/doc_snippets.py --block c docs/interop.md "$root/trial/sum.c"
cat >"$root/trial/processes.cc" <<'EOT'
#include <tessera/tessera.h>

#include <cstdio>

namespace ts = tessera;

int main() {
  ts::distributed::initialize({.devices = 2});
  auto mesh = ts::make_mesh({std::ssize(ts::devices())}, {"x"});
  ts::Array x = ts::device_put(ts::arange(8, ts::DType::F32).host(), ts::NamedSharding(mesh, ts::P("x")));
  auto total = ts::sum(x).item<float>();
  if (total != 28) return 1;
  std::printf("%d devices\n", static_cast<int>(mesh.size()));
}
EOT
cat >"$root/trial/CMakeLists.txt" <<'EOT'
cmake_minimum_required(VERSION 3.25)
project(First LANGUAGES CXX)
find_package(Tessera REQUIRED)
foreach(kind tessera shared)
  add_executable(first_${kind} first.cc)
  target_link_libraries(first_${kind} PRIVATE Tessera::${kind})
endforeach()
EOT
cat >"$root/trial/steps.sh" <<'EOT'
set -euo pipefail
cd /trial
export DEBIAN_FRONTEND=noninteractive
apt-get update >install.log 2>&1 || { cat install.log; exit 1; }
apt-get install -y --no-install-recommends ./*.deb >install.log 2>&1 || { cat install.log; exit 1; }
cmake -G Ninja -S . -B build >/dev/null
cmake --build build
g++ -std=c++20 first.cc -o build/first_pkg_config $(pkg-config --cflags --libs tessera)
for kind in tessera shared pkg_config; do
  build/first_$kind >$kind.txt
  cmp tessera.txt $kind.txt
done
cat tessera.txt
ldd build/first_shared | grep -q 'libtessera[.]so[.]' || { echo 'the shared library is not the one that is loaded'; exit 1; }
if ldd build/first_tessera | grep -q libtessera; then echo 'the static library is not the one that is linked'; exit 1; fi
gcc -std=c99 -pedantic-errors -Wall -Werror sum.c -o build/sum $(pkg-config --cflags --libs tessera-shared)
build/sum
g++ -std=c++20 processes.cc -o build/processes $(pkg-config --cflags --libs tessera-shared)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
for mpi in openmpi mpich; do
  [ "$(mpirun.$mpi -n 2 build/processes | sort -u)" = '4 devices' ] || { echo "no program of two processes under $mpi"; exit 1; }
done
tessera --version
dpkg-query -W -f '${Package} ${Version} ${Installed-Size} KiB\n' '*tessera*'
EOT
# MPI reads both.
mount -t proc proc "$root/proc"
mount --bind /sys "$root/sys"
chroot "$root" bash /trial/steps.sh
echo "packages: the README's program builds and runs from them in a clean Debian root"
