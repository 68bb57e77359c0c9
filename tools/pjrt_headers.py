#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches the headers of the PJRT C API and of XLA's FFI, some 200 KB, out of a wheel on PyPI that has them.

Usage: tools/pjrt_headers.py FOLDER

Only the bytes of these files are asked for, not the whole wheel. Nothing is done where they are there already.
"""
import hashlib
import io
import json
import os
import pathlib
import sys
import urllib.request
import zipfile

PACKAGE = "tensorflow-cpu"
WHEEL = "tensorflow_cpu-2.22.0rc0-cp312-cp312-manylinux_2_27_x86_64.whl"
FILES = {
    "xla/pjrt/c/pjrt_c_api.h":
        "ddedb2e7b4df1d19a8d15c23e41298a3f41d48076707bd563d672f6a95736213",
    "xla/pjrt/c/pjrt_c_api_ffi_extension.h":
        "62686e8b557bbb2996defa39bdd4c6e671489d0aa2f9545872dd122bd269a3f1",
    "xla/pjrt/c/pjrt_c_api_layouts_extension.h":
        "266b6d31805a1f9f7ffc4230d5d464cd694b7c670148cdf0752c1539ad83f47a",
    "xla/pjrt/c/pjrt_c_api_shardings_extension.h":
        "89589df0e56c3e8db8ca33a1cc8806175f94e71c1be9ceaa4a5dd99e2632bab2",
    "xla/ffi/api/c_api.h":
        "9847993912aa1aadb2dac4af16eeb9d8bae3f470905b519977d1d09b3f37eedf",
}


class Remote(io.RawIOBase):
    """A file behind HTTP, read by ranges."""

    def __init__(self, url: str, size: int):
        self.url, self.size, self.at = url, size, 0

    def seekable(self):
        return True

    def readable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def tell(self):
        return self.at

    def readinto(self, into):
        n = min(len(into), self.size - self.at)
        if n <= 0:
            return 0
        ask = urllib.request.Request(self.url, headers={"Range": f"bytes={self.at}-{self.at + n - 1}"})
        with urllib.request.urlopen(ask, timeout=120) as answer:
            if answer.status != 206:
                raise OSError(f"{self.url}: the server does not serve ranges (status {answer.status})")
            data = answer.read()
        into[: len(data)] = data
        self.at += len(data)
        return len(data)


def default_index() -> str:
    """The index that pip asks where nothing else is set."""
    from pip._internal.models.index import PyPI

    return PyPI.simple_url


def wheel() -> zipfile.ZipFile:
    index = (os.environ.get("PIP_INDEX_URL") or default_index()).rstrip("/")
    ask = urllib.request.Request(f"{index}/{PACKAGE}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(ask, timeout=120) as answer:
        files = json.load(answer)["files"]
    found = [f for f in files if f["filename"] == WHEEL]
    if not found:
        raise OSError(f"{index} has no {WHEEL}")
    return zipfile.ZipFile(io.BufferedReader(Remote(found[0]["url"], found[0]["size"]), 1 << 16))


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])

    def there(name: str) -> bool:
        path = folder / name
        return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == FILES[name]

    missing = [name for name in FILES if not there(name)]
    if not missing:
        return 0
    print(f"tools/pjrt_headers.py: fetching {len(missing)} headers out of {WHEEL}")
    with wheel() as archive:
        for name in missing:
            data = archive.read(f"tensorflow/include/{name}")
            if hashlib.sha256(data).hexdigest() != FILES[name]:
                print(f"tools/pjrt_headers.py: {name} is another file than the one this was written for", file=sys.stderr)
                return 1
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
