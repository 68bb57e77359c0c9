#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the built library into a scratch folder, then builds and runs a small program against it in both ways that
# users have: find_package(Tessera) and pkg-config; and a program in C against the shared library.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install build --prefix "$scratch/prefix" >/dev/null
mkdir "$scratch/consumer"
cp examples/first.cc "$scratch/consumer/main.cc"
cat >"$scratch/consumer/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(Consumer LANGUAGES CXX)
find_package(Tessera 0.1 REQUIRED)
add_executable(consumer main.cc)
target_link_libraries(consumer PRIVATE Tessera::tessera)
EOF
cmake -G Ninja -S "$scratch/consumer" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/build" >"$scratch/log" || { cat "$scratch/log"; exit 1; }
"$scratch/build/consumer" >"$scratch/by_cmake"

export PKG_CONFIG_PATH="$scratch/prefix/lib/pkgconfig:$scratch/prefix/lib/$(c++ -print-multiarch)/pkgconfig"
# shellcheck disable=SC2046  # the flags are words
c++ -std=c++20 "$scratch/consumer/main.cc" -o "$scratch/by_hand" $(pkg-config --cflags --libs tessera)
"$scratch/by_hand" >"$scratch/by_pkg_config"

python3 tools/doc_snippets.py --block c docs/interop.md "$scratch/consumer/sum.c"
# shellcheck disable=SC2046
cc -std=c99 -pedantic-errors -Wall -Werror "$scratch/consumer/sum.c" -o "$scratch/in_c" $(pkg-config --cflags --libs tessera-shared) \
  -Wl,-rpath,"$(pkg-config --variable=libdir tessera-shared)"
"$scratch/in_c"

cmp "$scratch/by_cmake" "$scratch/by_pkg_config"
echo "install: find_package(Tessera) and pkg-config both build the first program, and it prints:"
cat "$scratch/by_cmake"
