#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs files of JAX's own tests on XLA:CPU and on Tessera in its place, and compares which tests pass.

Usage: tools/jax/run_tests.py --tests FOLDER [--files a,b,c] [--out FOLDER] [--devices 8] [--only tessera|xla] [--again]
                              [--passing] [--limit 3600]

FOLDER is the `tests` folder of JAX's repository at the tag of the installed version. Results of XLA:CPU are kept in the
output folder and used again; --again runs them anew. --passing runs on Tessera those tests alone that passed on XLA:CPU,
also of a file that was cut off there after --limit seconds. Run it with the Python that has JAX and pytest; the plugin is the
one that TESSERA_PJRT_LIBRARY names. Writes report.txt: by file the counts, then every test that passes on XLA:CPU and
not here, with the last line of its error.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

FILES = """multi_device array pmap pjit shard_map ragged_collective layout memories mutable_array export api core batching
lax lax_numpy lax_numpy_einsum lax_numpy_indexing lax_numpy_operators lax_numpy_reducers lax_numpy_setops lax_numpy_ufuncs
lax_numpy_vectorize lax_control_flow lax_autodiff lax_scipy lax_scipy_sparse lax_scipy_special_functions
lax_scipy_spectral_dac lax_vmap lax_vmap_op linalg linalg_sharding fft random random_lax nn sparse sparse_bcoo_bcsr sparsify
image ode stax optimizers custom_api custom_linear_solve custom_root custom_partitioning custom_partitioning_sharding_rule
async_collectives buffer_callback""".split()
HERE = pathlib.Path(__file__).resolve().parents[2]


def outcomes(log: pathlib.Path, xml: pathlib.Path) -> dict:
    tests = {}
    if not xml.is_file():  # what a run that crashed or hung has shown so far
        for line in log.read_text(errors="replace").splitlines():
            # A test may write between its name, which may have spaces, and its outcome.
            for name in (r"::(\w+)::(.+?) ", r"::(\w+)::(\S+) .*?\b"):
                if found := re.search(name + r"(PASSED|FAILED|SKIPPED|ERROR)\b", line):
                    tests[f"{found[1]}.{found[2]}"] = found[3].lower()
                    break
        return tests
    for case in ElementTree.parse(xml).getroot().iter("testcase"):
        if case.get("classname") is None:  # pytest's own, where a run is cut off
            continue
        name = f"{case.get('classname').split('.')[-1]}.{case.get('name')}"
        if name.count("]") > name.count("["):  # pytest adds one to names with brackets inside
            name = name.removesuffix("]")
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if bad is not None:
            lines = [line for line in (bad.get("message") or "?").splitlines() if line.strip()]
            tests[name] = "failed: " + " | ".join(lines)[:400]
        else:
            tests[name] = "skipped" if case.find("skipped") is not None else "passed"
    return tests


def run(backend: str, file: pathlib.Path, out: pathlib.Path, devices: int, limit: int, chosen: list | None = None) -> dict:
    """Names of tests -> "passed", "skipped", or the error's last line. Of all tests, or the chosen ones."""
    env = dict(os.environ, JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}",
               JAX_NUM_GENERATED_CASES=os.environ.get("JAX_NUM_GENERATED_CASES", "5"), PYTHONDONTWRITEBYTECODE="1")
    env.pop("TESSERA_JAX", None)
    if backend == "tessera":
        env["TESSERA_JAX"] = "cpu"
    env["PYTHONPATH"] = os.pathsep.join([str(HERE / "python"), str(file.parent)] if backend == "tessera" else [str(file.parent)])
    if backend == "tessera":  # and no other backend in its place
        subprocess.run([sys.executable, "-c", "import jax; assert 'Tessera' in jax.devices()[0].client.platform_version"],
                       env=env, check=True)
    xml = out / f"{file.stem}.{backend}.xml"
    xml.unlink(missing_ok=True)
    what = str(file)
    if chosen is not None:
        ids = out / f"{file.stem}.{backend}.ids"
        ids.write_text("".join(f"{file}::{t.replace('.', '::', 1)}\n" for t in chosen))
        what = f"@{ids}"
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short",
               f"--junitxml={xml}", "-o", "junit_logging=no", what]
    start = time.monotonic()
    with open(out / f"{file.stem}.{backend}.log", "w") as log:
        tests_run = subprocess.Popen(command, env=env, cwd=out, stdout=log, stderr=subprocess.STDOUT)
        try:
            code = tests_run.wait(limit)
        except subprocess.TimeoutExpired:
            code = "timeout"
            tests_run.send_signal(signal.SIGINT)  # pytest writes what it has
            try:
                tests_run.wait(30)
            except subprocess.TimeoutExpired:
                tests_run.kill()
                tests_run.wait()
    seconds = time.monotonic() - start
    return {"seconds": seconds, "code": code, "tests": outcomes(out / f"{file.stem}.{backend}.log", xml)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", required=True, type=pathlib.Path)
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--out", default=pathlib.Path("build/jax-tests"), type=pathlib.Path)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--only", choices=["tessera", "xla"])
    parser.add_argument("--passing", action="store_true")
    parser.add_argument("--limit", type=int, default=3600, help="seconds for a file")
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    lines, missing = [], []
    total = [0, 0]
    for name in args.files.split(","):
        file = (args.tests / f"{name}_test.py").resolve()
        if not file.is_file():
            print(f"{file}: there is no such file", file=sys.stderr)
            return 1
        results = {}
        for backend in ("xla", "tessera"):
            kept = args.out / f"{name}.{backend}.json"
            if args.only and args.only != backend or backend == "xla" and kept.is_file() and not args.again:
                results[backend] = json.loads(kept.read_text()) if kept.is_file() else None
                continue
            chosen = None
            if args.passing and backend == "tessera" and results["xla"]:
                chosen = [t for t, r in results["xla"]["tests"].items() if r == "passed"]
                if not chosen:
                    continue
            results[backend] = run(backend, file, args.out, args.devices, args.limit, chosen)
            kept.write_text(json.dumps(results[backend]))
        xla, ours = results.get("xla"), results.get("tessera")
        if not xla or not ours:
            continue
        expected = [t for t, r in xla["tests"].items() if r == "passed"]
        passed = [t for t in expected if ours["tests"].get(t) == "passed"]
        total[0] += len(passed)
        total[1] += len(expected)
        line = (f"{name:32} {len(passed):5} of {len(expected):5}   {xla['seconds']:7.1f} s on XLA:CPU, "
                f"{ours['seconds']:7.1f} s here" + ("" if ours["code"] in (0, 1) else f"   ended with {ours['code']}"))
        lines.append(line)
        print(line, flush=True)
        for t in expected:
            if ours["tests"].get(t) != "passed":
                missing.append(f"{name}: {t}: {ours['tests'].get(t, 'did not run')}")
    share = 100 * total[0] / max(total[1], 1)
    lines.append(f"{total[0]} of {total[1]} tests that pass on XLA:CPU pass here: {share:.2f} %")
    print(lines[-1])
    (args.out / "report.txt").write_text("\n".join(lines + [""] + missing) + "\n")
    return 0 if share >= 99 else 1


if __name__ == "__main__":
    sys.exit(main())
