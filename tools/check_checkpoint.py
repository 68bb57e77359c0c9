#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint with the `safetensors` package alone, puts its leaves together by checkpoint.json, and compares them
with an .npz, in which bfloat16 is float32.

usage: check_checkpoint.py FOLDER/step_00000001 [EXPECTED.npz]
Needs numpy, ml_dtypes and safetensors. Prints each leaf; fails where one differs.
"""
import json
import pathlib
import sys

import ml_dtypes  # noqa: F401  (numpy learns bfloat16 from it)
import numpy as np
from safetensors import safe_open

DTYPES = {"bool": np.bool_, "bfloat16": ml_dtypes.bfloat16}


def leaves(folder: pathlib.Path) -> dict[str, np.ndarray]:
    index = json.loads((folder / "checkpoint.json").read_text())
    weights = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    files = {f["name"]: safe_open(folder / f["name"], framework="np") for f in index["files"]}
    listed = {name for f in files.values() for name in f.keys()}
    assert listed == set(weights), "the two indices name other tensors than the files have"
    out = {}
    for leaf in index["leaves"]:
        dtype = np.dtype(DTYPES.get(leaf["stored"], leaf["stored"]))
        value = np.zeros(leaf["shape"], dtype)
        for shard in leaf["shards"]:
            name = index["files"][shard["file"]]["name"]
            assert weights[shard["tensor"]] == name
            part = files[name].get_tensor(shard["tensor"])
            if dtype.kind == "c":  # real and imaginary parts are a last dimension of two
                part = np.ascontiguousarray(part).view(dtype)[..., 0]
            assert part.dtype == dtype, (leaf["name"], part.dtype, dtype)
            assert list(part.shape) == shard["shape"], (leaf["name"], part.shape)
            place = tuple(slice(b, b + n) for b, n in zip(shard["start"], shard["shape"]))
            value[place] = part
        out[leaf["name"]] = value
    return out


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    got = leaves(folder)
    expected = np.load(sys.argv[2]) if len(sys.argv) > 2 else None
    wrong = 0
    for name, value in got.items():
        line = f"{name}: {value.dtype}{list(value.shape)}"
        if expected is not None:
            want = expected[name]
            have = value.astype(np.float32) if value.dtype == ml_dtypes.bfloat16 else value
            same = have.dtype == want.dtype and have.shape == want.shape and have.tobytes() == want.tobytes()
            wrong += not same
            line += ": equal" if same else ": DIFFERS"
        print(line)
    if expected is not None and set(expected.files) != set(got):
        print("other names:", sorted(set(expected.files) ^ set(got)))
        wrong += 1
    print(f"{len(got)} leaves, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
