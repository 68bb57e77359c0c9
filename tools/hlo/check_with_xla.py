# SPDX-License-Identifier: Apache-2.0
"""Runs StableHLO programs that Tessera wrote with XLA and compares the results with Tessera's.

    TESSERA_PROGRAMS_DIR=build/programs build/tests/hlo_test --gtest_filter='Programs.*:*HloExport*'
    python tools/hlo/check_with_xla.py build/programs [--match text] [--report file]

Each program is a folder with program.mlir, inputs.npz ("arg0", …), outputs.npz ("out0", …) and tolerance.txt. XLA parses
the text, compiles it for as many of 8 CPU devices as its partitions or replicas, and runs it. Arrays of programs for
replicas are stacked: one leading index a replica. The exit status is 0 when every program agrees.
"""
import argparse
import ast
import collections
import os
import re
import subprocess
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax

jax.config.update("jax_enable_x64", True)

import ml_dtypes
import numpy as np
from jax._src import compiler, xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client as xc
from jax._src.sharding_impls import GSPMDSharding
from jaxlib.mlir import ir

from values import difference, plain

TYPES = {"i1": np.bool_, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64,
         "complex<f32>": np.complex64, "complex<f64>": np.complex128,
         **{f"i{b}": np.dtype(f"int{b}") for b in (8, 16, 32, 64)},
         **{f"ui{b}": np.dtype(f"uint{b}") for b in (8, 16, 32, 64)}}


# What XLA's CPU cannot run, or answers otherwise on purpose of ours.
LEFT_OUT = {
    "map.pbroadcast": "XLA has no collective_broadcast on the CPU",
    "map.pmax-nan": "XLA's maxima over devices lose NaN",
    "map.pmin-nan": "XLA's minima over devices lose NaN",
    "map.pargmax-nan": "XLA's maxima over devices lose NaN",
    "map.pargmin-nan": "XLA's minima over devices lose NaN",
}


# Programs that run, and are no fault of the text: named with what XLA does.
XLA_FAULTS = {
    "random.1d_2": "its partitioner makes a slice of the wrong shape",
    "random.2d_2": "its partitioner makes a slice of the wrong shape",
    "random.3d_0": "its partitioner changes values; with one device they agree",
    "random.1d_24_gradient": "its simplifier aborts on a window sum",
    "random.2d_24_gradient": "its simplifier aborts on a window sum",
    "random.3d_24_gradient": "its simplifier aborts on a window sum",
}


def dtype_of(tensor):
    """The NumPy dtype of "tensor<8x4xf32>"."""
    return TYPES[re.sub(r"^(\d+x)*", "", tensor[len("tensor<"):-1])]


def main_types(text):
    head = re.search(r"func\.func public @main\((.*)$", text, re.M).group(1)
    args, results = head.rsplit(") -> (", 1) if ") -> (" in head else (head, "")
    find = lambda s: re.findall(r"tensor<(?:\d+x)*(?:complex<f\d+>|\w+)>", s)
    return find(args), find(results)


def run(text, inputs):
    count = lambda what: int(re.search(rf"mhlo\.{what} = (\d+)", text).group(1))
    partitions, replicas = count("num_partitions"), count("num_replicas")
    n = partitions * replicas
    devices = jax.devices()[:n]
    arg_types, out_types = main_types(text)
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        options = compiler.get_compile_options(
            num_replicas=replicas, num_partitions=partitions,
            device_assignment=np.arange(n).reshape(replicas, partitions))
        options.executable_build_options.use_spmd_partitioning = replicas == 1
        options.executable_build_options.use_shardy_partitioner = "mhlo.sharding" not in text
        if partitions > 1 and out_types:
            options.executable_build_options.allow_spmd_sharding_propagation_to_output = [True] * len(out_types)
        exe = compiler.backend_compile_and_load(
            xla_bridge.get_backend("cpu"), module, xc.DeviceList(tuple(devices)), options, [])
    shardings = exe.get_parameter_shardings() or []
    placed = []
    for i, x in enumerate(inputs):
        x = x.astype(dtype_of(arg_types[i]))
        if replicas > 1:
            pieces = [jax.device_put(x[k], d) for k, d in enumerate(devices)]
            mesh = jax.sharding.Mesh(np.array(devices), ("i",))
            shape = (replicas * x.shape[1],) + x.shape[2:] if x.ndim > 1 else ()
            spec = jax.sharding.PartitionSpec("i") if x.ndim > 1 else jax.sharding.PartitionSpec()
            sharding = jax.sharding.NamedSharding(mesh, spec)
            placed.append(jax.make_array_from_single_device_arrays(shape, sharding, pieces))
        elif partitions > 1:
            s = shardings[i] if i < len(shardings) else None
            s = GSPMDSharding(devices, s) if s is not None else \
                GSPMDSharding.get_replicated(tuple(devices))
            placed.append(jax.device_put(x, s))
        else:
            placed.append(jax.device_put(x, devices[0]))
    results = exe.execute_sharded(placed)
    per_output = results.disassemble_into_single_device_arrays()
    out_shardings = exe.get_output_shardings() or []
    outs = []
    for i, pieces in enumerate(per_output):
        pieces = [np.asarray(p) for p in pieces]
        if replicas > 1:
            outs.append(np.stack(pieces))
        elif partitions > 1:
            outs.append(whole(pieces, out_shardings[i] if i < len(out_shardings) else None, devices, out_types[i]))
        else:
            outs.append(pieces[0])
    return outs


def whole(pieces, sharding, devices, tensor):
    """The global array of one piece a device; of devices that hold the same place, the first one's."""
    shape = tuple(int(d) for d in re.findall(r"(\d+)x", tensor))
    if sharding is None:
        return pieces[0]
    places = GSPMDSharding(devices, sharding).devices_indices_map(shape)
    out = np.zeros(shape, pieces[0].dtype)
    for device, piece in reversed(list(zip(devices, pieces))):
        out[places[device]] = piece
    return out


def numbered(npz, prefix):
    return [npz[f"{prefix}{i}"] for i in range(len(npz.files))]


def check(folder):
    text = open(os.path.join(folder, "program.mlir")).read()
    tolerance = float(open(os.path.join(folder, "tolerance.txt")).read())
    try:
        got = run(text, numbered(np.load(os.path.join(folder, "inputs.npz")), "arg"))
    except Exception as e:  # whatever XLA throws is what this is about
        return f"{type(e).__name__}: {str(e).strip()[:300]}"
    want = numbered(np.load(os.path.join(folder, "outputs.npz")), "out")
    if len(got) != len(want):
        return f"{len(got)} results, expected {len(want)}"
    for i, (g, w) in enumerate(zip(got, want)):
        if d := difference(plain(g), w, tolerance):
            return f"out{i}: {d}"
    return ""


def check_all(folder, names):
    """Checks in this process; one line a program: its name, a tab, and what is wrong."""
    jax.lax.linalg.lu(np.eye(2, dtype=np.float32))  # makes jaxlib's LAPACK calls ready
    for name in names:
        print(f"> {name}", flush=True)
        print(f"{name}\t{check(os.path.join(folder, name))!r}", flush=True)


def results(folder, names):
    """(name, what is wrong); a program at which XLA ends the process does not take the others with it."""
    while names:
        child = subprocess.Popen([sys.executable, __file__, folder, "--names", "-"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        child.stdin.write("\n".join(names))
        child.stdin.close()
        started = None
        for line in child.stdout:
            if line.startswith("> "):
                started = line[2:].strip()
            elif started and line.startswith(started + "\t"):
                yield started, ast.literal_eval(line.split("\t", 1)[1].strip())
                names, started = names[names.index(started) + 1:], None
        child.wait()
        if started:
            yield started, f"XLA ended the process ({child.returncode})"
            names = names[names.index(started) + 1:]
        elif child.returncode != 0:
            raise SystemExit(f"the check itself failed ({child.returncode})")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder")
    ap.add_argument("--match", default="")
    ap.add_argument("--report", help="write the counts to this file")
    ap.add_argument("--names", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.names:
        return check_all(args.folder, sys.stdin.read().split("\n"))
    names = sorted(n for n in os.listdir(args.folder)
                   if args.match in n and os.path.isdir(os.path.join(args.folder, n)))
    left_out = [n for n in names if any(n.startswith(prefix) for prefix in LEFT_OUT)]
    names = [n for n in names if n not in left_out]
    counts = collections.defaultdict(lambda: [0, 0])
    faults = 0
    for name, wrong in results(args.folder, names):
        family = counts[name.split(".")[0]]
        if wrong and name in XLA_FAULTS:
            faults += 1
            print(f"{name}: XLA's fault, {XLA_FAULTS[name]}: {wrong[:80]!r}", flush=True)
            continue
        family[1] += 1
        family[0] += not wrong
        if wrong:
            print(f"{name}: {wrong}", flush=True)
    lines = [f"{family}: {a}/{b}" for family, (a, b) in sorted(counts.items())]
    agreed, total = (sum(c[k] for c in counts.values()) for k in (0, 1))
    lines.append(f"all: {agreed}/{total} programs agree with XLA (jaxlib {jax.lib.__version__}); "
                 f"{len(left_out)} left out: {', '.join(sorted(set(LEFT_OUT.values())))}; "
                 f"{faults} on which XLA is at fault")
    print("\n".join(lines))
    if args.report:
        with open(args.report, "w") as f:
            f.write("\n".join(lines) + "\n")
    sys.exit(0 if agreed == total and total > 0 else 1)


if __name__ == "__main__":
    main()
