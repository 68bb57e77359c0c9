# SPDX-License-Identifier: Apache-2.0
"""Records what JAX lowers and computes: StableHLO modules with arguments and results.

    python tools/hlo/record.py tests/hlo [--raw folder] [--only family] [--match text]

Writes one <family>.npz for each family below: "<case>/program" (the text's bytes), "<case>/arg0", …, "<case>/out0", …
and "<case>/tolerance" (rtol, atol). With --raw also <folder>/<family>.<case>/{program.mlir,inputs.npz,outputs.npz}.
Types that NumPy lacks are stored as float32, int8 or uint8.
"""
import argparse
import os
import re
import sys
import zlib

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np

FAMILIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families")
sys.path.insert(0, FAMILIES)

from values import default_tolerance, plain


class Recorder:
    def __init__(self, raw, match):
        self.raw, self.match = raw, match
        self.failed = []
        self.begin(None)

    def begin(self, family):
        self.family, self.data, self.names, self.count = family, {}, set(), 0

    def case(self, name, fn, *args, tol=None, jitted=None, x64=False, kept=True):
        """One module: `fn` lowered for `args` (or `jitted`, when it needs options of jit); `kept`: not only with --raw."""
        assert name not in self.names, name
        self.names.add(name)
        if self.match and not re.search(self.match, f"{self.family}.{name}"):
            return
        try:
            with jax.enable_x64(x64):
                args = jax.tree.map(lambda a: a if isinstance(a, jax.Array) else jax.numpy.asarray(a), args)
                f = jitted if jitted is not None else fn if hasattr(fn, "lower") else jax.jit(fn, keep_unused=True)
                text = f.lower(*args).as_text()
                outs = jax.tree.leaves(f(*args))
                ins = jax.tree.leaves(args)
                entry = {f"arg{i}": plain(a) for i, a in enumerate(ins)}
                results = {f"out{i}": plain(o) for i, o in enumerate(outs)}
        except Exception as e:  # what JAX itself refuses is no case
            self.failed.append((self.family, name, str(e).split("\n")[0][:160]))
            return
        t = default_tolerance(outs) if tol is None else tol
        self.count += 1
        if kept:
            self.data[f"{name}/program"] = np.frombuffer(text.encode(), np.uint8)
            self.data[f"{name}/tolerance"] = np.array([t, t], np.float64)
            for k, v in {**entry, **results}.items():
                self.data[f"{name}/{k}"] = v
        if self.raw:
            folder = os.path.join(self.raw, f"{self.family}.{name}")
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "program.mlir"), "w") as out:
                out.write(text)
            np.savez(os.path.join(folder, "inputs.npz"), **entry)
            np.savez(os.path.join(folder, "outputs.npz"), **results)
            with open(os.path.join(folder, "tolerance"), "w") as out:
                out.write(str(t))

    def end(self, folder):
        if folder and self.data:
            np.savez_compressed(os.path.join(folder, f"{self.family}.npz"), **self.data)
        size = sum(v.nbytes for v in self.data.values())
        print(f"{self.family}: {self.count} cases, {size / 1e6:.1f} MB")


def rand(shape, dtype="float32", seed=None, low=-2.0, high=2.0):
    """Numbers that are the same in every run."""
    rng = np.random.default_rng(zlib.crc32(f"{shape}{dtype}{seed}".encode()))
    dtype = jax.numpy.dtype(dtype)
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if jax.numpy.issubdtype(dtype, np.complexfloating):
        return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype)
    if jax.numpy.issubdtype(dtype, jax.numpy.floating):
        return rng.uniform(low, high, shape).astype(dtype)
    if jax.numpy.issubdtype(dtype, np.unsignedinteger) or dtype.name.startswith("uint"):
        return rng.integers(0, 4 if dtype.name == "uint2" else 14, shape).astype(dtype)
    return rng.integers(-2 if dtype.name == "int2" else -7, 2 if dtype.name == "int2" else 8, shape).astype(dtype)


def main():
    import importlib

    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--raw")
    parser.add_argument("--only")
    parser.add_argument("--match")
    o = parser.parse_args()
    recorder = Recorder(o.raw, o.match)
    families = sorted(f[:-3] for f in os.listdir(FAMILIES) if f.endswith(".py"))
    for family in families:
        if o.only and family not in o.only.split(","):
            continue
        recorder.begin(family)
        importlib.import_module(family).cases(recorder)
        recorder.end(None if o.folder == "-" else o.folder)
    for family, name, why in recorder.failed:
        print(f"not recorded: {family}.{name}: {why}")


if __name__ == "__main__":
    sys.modules["record"] = sys.modules["__main__"]
    main()
