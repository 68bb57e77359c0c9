#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The recipes of packaging/: Conan (from PyPI, into build/conan) packs what is in build/ and a program is built with the
# package and run; vcpkg's port is read by CMake with vcpkg's functions replaced, for vcpkg itself is on no package index.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

version=$(sed -n 's/.*TESSERA_VERSION "\(.*\)".*/\1/p' include/tessera/version.h)
python3 - "$version" <<'EOF'
import json
import pathlib
import sys

port = json.loads(pathlib.Path("packaging/vcpkg/tessera/vcpkg.json").read_text())
names = [d if isinstance(d, str) else d["name"] for d in port["dependencies"]]
assert port["version"] == sys.argv[1], f"packaging/vcpkg: version {port['version']}, expected {sys.argv[1]}"
assert names == sorted(names) and len(names) == len(set(names)), "packaging/vcpkg: dependencies are not sorted, or come twice"
EOF
cat >"$scratch/port.cmake" <<'EOF'
function(vcpkg_cmake_configure)
  cmake_parse_arguments(given "" "SOURCE_PATH" "OPTIONS" ${ARGN})
  if(NOT EXISTS "${given_SOURCE_PATH}/CMakeLists.txt" OR given_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vcpkg_cmake_configure: ${ARGN}")
  endif()
  file(STRINGS "${given_SOURCE_PATH}/CMakeLists.txt" options REGEX "^ *option\\(")
  foreach(option IN LISTS given_OPTIONS)
    string(REGEX REPLACE "^-D(.*)=.*$" "\\1" name "${option}")
    if(NOT options MATCHES "option\\(${name} ")
      message(FATAL_ERROR "the project has no option ${name}")
    endif()
  endforeach()
endfunction()
function(vcpkg_cmake_install)
endfunction()
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(given "" "PACKAGE_NAME;CONFIG_PATH" "" ${ARGN})
  if(given_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "vcpkg_cmake_config_fixup: ${ARGN}")
  endif()
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(given "" "" "FILE_LIST" ${ARGN})
  foreach(file IN LISTS given_FILE_LIST)
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "vcpkg_install_copyright: there is no ${file}")
    endif()
  endforeach()
endfunction()
include(${PORT})
EOF
cmake -DCURRENT_PACKAGES_DIR="$scratch" -DPORT="$PWD/packaging/vcpkg/tessera/portfile.cmake" -P "$scratch/port.cmake"
echo "vcpkg: the port of version $version can be read"

[ -x build/conan/bin/conan ] || { python3 -m venv build/conan && build/conan/bin/pip install -q 'conan>=2,<3'; }
export CONAN_HOME="$scratch/conan"
build/conan/bin/conan profile detect >"$scratch/log" 2>&1
sed -i 's/^compiler.cppstd=.*/compiler.cppstd=20/' "$CONAN_HOME/profiles/default"
cp -r packaging/conan/test_package "$scratch/test_package"
build/conan/bin/conan export-pkg packaging/conan -tf "$scratch/test_package" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
grep -q '^the sum over 8 devices is 2016$' "$scratch/log" || { cat "$scratch/log"; exit 1; }
echo "conan: the package of version $version is made, and a program built with it runs"
