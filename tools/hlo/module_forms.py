# SPDX-License-Identifier: Apache-2.0
"""Recorded modules in other forms of the same program, for run_modules.py.

    python tools/hlo/module_forms.py modules forms [--count 400]

Each chosen module is stored as <name>_generic (MLIR's generic form), _local (no aliases, with locations), _passes
(calls inlined, common subexpressions merged) and _hlo (turned into XLA's HLO and back).
"""
import argparse
import os
import random
import shutil

os.environ["JAX_PLATFORMS"] = "cpu"

from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir, passmanager

PASSES = "builtin.module(canonicalize,cse,inline,symbol-dce)"


def through_hlo(text):
    convert = xla_client._xla.mlir
    back = convert.xla_computation_to_mlir_module(convert.mlir_module_to_xla_computation(text))
    return back.decode() if isinstance(back, bytes) else back


def forms(text):
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        yield "generic", module.operation.get_asm(print_generic_op_form=True)
        yield "local", module.operation.get_asm(use_local_scope=True, enable_debug_info=True)
        passmanager.PassManager.parse(PASSES).run(module.operation)
        yield "passes", str(module)
    yield "hlo", through_hlo(text)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("modules")
    ap.add_argument("folder")
    ap.add_argument("--count", type=int, default=400)
    ap.add_argument("--seed", type=int, default=0)
    o = ap.parse_args()
    names = sorted(n for n in os.listdir(o.modules) if os.path.exists(os.path.join(o.modules, n, "outputs.npz")))
    chosen = random.Random(o.seed).sample(names, min(o.count, len(names)))
    for name in chosen:
        source = os.path.join(o.modules, name)
        with open(os.path.join(source, "program.mlir")) as f:
            text = f.read()
        for form, other in forms(text):
            target = os.path.join(o.folder, f"{name}_{form}")
            shutil.copytree(source, target, dirs_exist_ok=True)
            with open(os.path.join(target, "program.mlir"), "w") as f:
                f.write(other)
    print(f"{len(chosen)} modules in {o.folder}")


if __name__ == "__main__":
    main()
