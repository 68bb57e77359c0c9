# SPDX-License-Identifier: Apache-2.0
"""Records the programs of JAX's own tests: StableHLO modules with their arguments and what XLA computed.

    python tools/hlo/jax_modules.py --tests path/to/jax/tests --folder modules [--modes x32,x64,gspmd] [file …]

Needs JAX, pytest, absl-py, scipy and hypothesis. Each test file runs in a process of its own under jax_recorder.py, in
each mode; the bounds on time and size leave out what is giant, and <folder>/summary.jsonl counts it. A second call
adds to the folder what it lacks. tools/hlo/run_modules.py runs the modules with Tessera.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))

MODES = {
    "x32": {"JAX_ENABLE_X64": "0"},
    "x64": {"JAX_ENABLE_X64": "1"},
    "gspmd": {"JAX_ENABLE_X64": "0", "JAX_USE_SHARDY_PARTITIONER": "0"},
}

# Files whose programs are spread over devices: the gspmd mode runs these.
SHARDED = """pjit shard_map pmap array layout multi_device ragged_collective linalg_sharding shard_alike aot
    custom_partitioning memories mutable_array async_collectives""".split()

FILES = SHARDED + """ann api api_util batching blocked_sampler checkify cholesky_update control_deps core custom_api
    custom_linear_solve custom_root debug_nans dtypes eigh experimental_rnn export fft fused hijax image jet
    lax_autodiff lax_control_flow lax_numpy_einsum lax_numpy_hijax lax_numpy_indexing lax_numpy_operators
    lax_numpy_reducers lax_numpy_setops lax_numpy lax_numpy_ufuncs lax_numpy_vectorize lax_scipy_sparse
    lax_scipy_special_functions lax_scipy_spectral_dac lax_scipy lax lax_vmap_op lax_vmap linalg lobpcg nn ode
    optimizers polynomial qdwh random_impl random_lax random scaled_dot scipy_fft scipy_interpolate scipy_ndimage
    scipy_optimize scipy_signal scipy_spatial scipy_stats shape_poly sparse_bcoo_bcsr sparse sparsify state
    stateful_rng stax svd unary_ops_accuracy x64_context xla_metadata generated_fun""".split()


def environment(mode, cases):
    env = {**os.environ, **MODES[mode], "JAX_PLATFORMS": "cpu", "JAX_NUM_GENERATED_CASES": str(cases),
           "JAX_SKIP_SLOW_TESTS": "1", "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = os.pathsep.join([HERE] + [p for p in [env.get("PYTHONPATH")] if p])
    # Compiling takes most of the time, and what is computed is the same.
    env["XLA_FLAGS"] = ("--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 "
                        "--xla_llvm_disable_expensive_passes=true")
    return env


def record(o, mode, file):
    """Runs one test file in one mode; a line about it."""
    name = f"{mode}:{file}"
    command = [sys.executable, "-m", "pytest", os.path.join(o.tests, f"{file}_test.py"), "-q", "--no-header",
               "--tb=no", "-p", "jax_recorder", "-p", "no:cacheprovider", "-W", "ignore",
               "--record-folder", o.folder, "--record-name", name, "--record-bytes", str(o.max_bytes),
               "--record-text", str(o.max_text), "--record-seconds", str(o.seconds),
               "--record-test-seconds", str(o.test_seconds)]
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=environment(mode, o.cases), cwd=o.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=8 * (o.seconds + o.grace))
        last = (done.stdout.strip().split("\n") or [""])[-1]
        what = last if done.returncode in (0, 1) else f"ended with {done.returncode}: {last[:160]}"
    except subprocess.TimeoutExpired:
        what = "stopped: out of time"
    return f"{name}: {what} ({time.monotonic() - begin:.0f} s)"


def runs(o):
    """(mode, file), so that each mode has gone through the files it shares before the next begins."""
    files = [f.removesuffix(".py").removesuffix("_test") for f in o.files] or FILES
    there = [f for f in files if os.path.exists(os.path.join(o.tests, f"{f}_test.py"))]
    for f in sorted(set(files) - set(there)):
        print(f"no {f}_test.py in {o.tests}")
    return [(mode, f) for mode in o.modes.split(",") for f in there
            if mode != "gspmd" or f in SHARDED or o.files]


def done_before(o):
    path = os.path.join(o.folder, "summary.jsonl")
    if o.again or not os.path.exists(path):
        return set()
    with open(path) as f:
        return {json.loads(line)["run"] for line in f}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("files", nargs="*", help="test files, as lax_test.py or lax; default: those that make programs")
    ap.add_argument("--tests", required=True, help="the folder of JAX's tests")
    ap.add_argument("--folder", required=True, help="where the modules go")
    ap.add_argument("--modes", default=",".join(MODES))
    ap.add_argument("--cases", type=int, default=10, help="generated cases a test (JAX_NUM_GENERATED_CASES)")
    ap.add_argument("--seconds", type=float, default=900, help="of computing time, for each file in each mode")
    ap.add_argument("--grace", type=float, default=120, help="seconds more, to import, collect and end in")
    ap.add_argument("--test-seconds", type=int, default=60, help="of computing time")
    ap.add_argument("--max-bytes", type=int, default=8 << 20, help="of a program's arguments and results")
    ap.add_argument("--max-text", type=int, default=2 << 20)
    ap.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    ap.add_argument("--again", action="store_true", help="also run files that summary.jsonl has")
    o = ap.parse_args()
    o.tests, o.folder = os.path.abspath(o.tests), os.path.abspath(o.folder)
    os.makedirs(o.folder, exist_ok=True)
    before = done_before(o)
    todo = [run for run in runs(o) if ":".join(run) not in before]
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for line in pool.map(lambda run: record(o, *run), todo):
            print(line, flush=True)
    count = sum(os.path.isdir(os.path.join(o.folder, d)) and "." not in d for d in os.listdir(o.folder))
    print(f"{count} modules in {o.folder}")
    sys.exit(0 if count else 1)


if __name__ == "__main__":
    main()
