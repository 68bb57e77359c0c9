#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records results of JAX on the CPU as tests/oracle/cases/<group>.jsonl.

    tools/oracle/setup.sh
    build/oracle-venv/bin/python tools/oracle/generate.py [--only GROUP[,GROUP]] [--dropped]

Without --only everything is made again; the files are the same byte for byte on the same processor and JAX.
"""
import argparse
import importlib
import os
import pathlib
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import recorder  # noqa: E402

MODULES = ["elementwise", "types", "shapes", "reductions", "products", "indexing", "sorting", "linalg_fft", "control",
           "rand", "numpy_like", "nn", "library", "special", "extras", "packing", "edges", "options"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="modules of groups/, separated by commas")
    parser.add_argument("--dropped", action="store_true", help="list what JAX refused")
    args = parser.parse_args()
    rec = recorder.Recorder()
    for module in args.only.split(",") if args.only else MODULES:
        importlib.import_module(f"groups.{module}").record(rec)
    if args.dropped:
        for name, why in rec.dropped:
            print("dropped", name, why)
    rec.write(HERE.parents[1] / "tests" / "oracle" / "cases")
    if rec.failed:
        sys.exit("\n".join(f"{name}: {why}" for name, why in rec.failed))


if __name__ == "__main__":
    main()
