#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches XLA's C++ client for the CPU: two libraries and their headers, out of the pinned tensorflow-cpu wheel on PyPI.

Usage: tools/xla/fetch.py FOLDER

Nothing is done where they are there already. 270 MB to load, 1.0 GB on disk. TESSERA_XLA_WHEEL names the wheel where it
has been loaded before.
"""
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import urllib.request
import zipfile

PACKAGE = "tensorflow-cpu"
WHEEL = "tensorflow_cpu-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl"
SHA256 = "2b847d217b02ee7731ed91431daf3250daa0196c3c94614d23be27232e6e5b6c"
WANTED = (
    "tensorflow/libtensorflow_cc.so.2",
    "tensorflow/libtensorflow_framework.so.2",
    "tensorflow/THIRD_PARTY_NOTICES.txt",
    *(f"tensorflow/include/{folder}/" for folder in (
        "Eigen", "absl", "external/farmhash_archive", "external/highwayhash", "google", "ml_dtypes", "tsl", "unsupported",
        "xla")),
)


def default_index() -> str:
    """The index that pip asks where nothing else is set."""
    from pip._internal.models.index import PyPI

    return PyPI.simple_url


def address() -> str:
    index = (os.environ.get("PIP_INDEX_URL") or default_index()).rstrip("/")
    ask = urllib.request.Request(f"{index}/{PACKAGE}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(ask, timeout=120) as answer:
        files = json.load(answer)["files"]
    found = [f["url"] for f in files if f["filename"] == WHEEL]
    if not found:
        raise OSError(f"{index} has no {WHEEL}")
    return found[0]


def load(into: pathlib.Path) -> None:
    with urllib.request.urlopen(address(), timeout=120) as answer, into.open("wb") as out:
        shutil.copyfileobj(answer, out, 1 << 20)


def checked(wheel: pathlib.Path) -> pathlib.Path:
    with wheel.open("rb") as f:
        found = hashlib.file_digest(f, "sha256").hexdigest()
    if found != SHA256:
        raise OSError(f"{wheel} is another file than {WHEEL}: its SHA-256 is {found}")
    return wheel


def unpack(wheel: pathlib.Path, folder: pathlib.Path) -> None:
    """What is complete gets its name last, so that a run which was cut off is taken up from the start."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory(dir=folder) as place:
        archive.extractall(place, [name for name in archive.namelist() if name.startswith(WANTED)])
        shutil.rmtree(folder / "tensorflow", ignore_errors=True)
        os.rename(pathlib.Path(place) / "tensorflow", folder / "tensorflow")
    (folder / "wheel").write_text(f"{SHA256}\n")


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    stamp = folder / "wheel"
    if stamp.is_file() and stamp.read_text().strip() == SHA256:
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    if given := os.environ.get("TESSERA_XLA_WHEEL"):
        unpack(checked(pathlib.Path(given)), folder)
        return 0
    print(f"tools/xla/fetch.py: fetching {WHEEL}, 270 MB", flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        wheel = pathlib.Path(place) / WHEEL
        load(wheel)
        unpack(checked(wheel), folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as e:
        print(f"tools/xla/fetch.py: {e}", file=sys.stderr)
        sys.exit(1)
