#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives Doxygen a public header whose opening comment is the description of the file. Lines keep their numbers.

usage: header_filter.py HEADER.h
"""
import pathlib
import sys


def filtered(path: pathlib.Path) -> str:
    lines = path.read_text().split("\n")
    if lines[0].startswith("// SPDX"):
        # The comment goes up to `#pragma once`, and blank lines around its code blocks make them Markdown's.
        lines[0] = f"/// @file tessera/{path.name}"
        for i in range(1, len(lines)):
            if not lines[i].startswith("//"):
                break
            lines[i] = "///" + lines[i][2:].replace("   ", "      ", 1) if lines[i].startswith("//   ") else "///" + lines[i][2:]
    return "\n".join(lines).replace("@main", "\\@main")


if __name__ == "__main__":
    sys.stdout.write(filtered(pathlib.Path(sys.argv[1])))
