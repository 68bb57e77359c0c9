#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes several C++ sources as one, whose headers are read once.

Usage: tools/unite_sources.py OUT SOURCE...

What stands in unnamed namespaces goes to a namespace of its file, so that equal names of two files do not meet. Messages
name the sources and their lines.
"""
import pathlib
import re
import sys


def main():
    out, *sources = map(pathlib.Path, sys.argv[1:])
    parts = []
    for source in sources:
        text = re.sub(r"^namespace \{", f"namespace of_{source.stem} {{", source.read_text(), flags=re.MULTILINE)
        parts.append(f'#line 1 "{source.resolve()}"\n{text}\n')
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(parts))


if __name__ == "__main__":
    main()
