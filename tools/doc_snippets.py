#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the code blocks of a guide as tests, so that what a reader copies is compiled and run.

usage: doc_snippets.py GUIDE.md OUTPUT.cc
       doc_snippets.py --block LANGUAGE GUIDE.md OUTPUT

Every block that opens with ```cpp is the body of one test, on eight devices; its `assert`s are checked. With --block the
one block of that language is written as it stands: a whole program.
"""
import pathlib
import re
import sys

PRELUDE = """// Made from {guide}; edit that.
#undef NDEBUG
#include <cassert>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/arrow.h"
#include "tessera/dlpack.h"
#include "tessera/eigen.h"
#include "tessera/nd_view.h"
#include "tessera/pictures.h"
#include "tessera/sharded_files.h"
#include "tessera/tessera.h"

namespace ts = tessera;
using ts::P;
using ts::none;

"""


def write_block(language: str, guide: pathlib.Path, output: pathlib.Path) -> None:
    blocks = re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", guide.read_text(), re.S | re.M)
    if len(blocks) != 1:
        sys.exit(f"{guide}: {len(blocks)} blocks of {language}; expected one")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(blocks[0])


def main() -> None:
    if sys.argv[1] == "--block":
        write_block(sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4]))
        return
    guide, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    suite = "".join(word.capitalize() for word in re.split(r"\W+", guide.stem))
    lines = guide.read_text().split("\n")
    text = PRELUDE.format(guide=guide.name)
    start = None
    count = 0
    for number, line in enumerate(lines, 1):
        if start is None and line.strip() == "```cpp":
            start = number
        elif start is not None and line.strip() == "```":
            count += 1
            text += f"TEST({suite}, Line{start}) {{\n"
            text += "  ts::ClientScope devices_of_the_guide(ts::Client::cpu({.devices = 8}));\n"
            text += f'#line {start + 1} "{guide.name}"\n'
            text += "\n".join(lines[start : number - 1]) + "\n}\n\n"
            start = None
    if count == 0:
        sys.exit(f"{guide}: no ```cpp block")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)


if __name__ == "__main__":
    main()
