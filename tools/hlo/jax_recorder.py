# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that stores every program which JAX compiles and runs while tests run.

Used by jax_modules.py. <folder>/<hash>/ gets program.mlir, inputs.npz ("arg0", …), outputs.npz ("out0", …) and
meta.json; programs that are equal but for their names are stored once. Tests run in an order drawn from their names,
so that a bound on time leaves a fair choice of them.
"""
import collections
import hashlib
import json
import os
import re
import signal
import time

import numpy as np
import pytest

from values import plain


class TooSlow(BaseException):
    """A test that ran out of its time; no test catches it by accident."""


class Store:
    def __init__(self, folder, max_bytes, max_text):
        self.folder, self.max_bytes, self.max_text = folder, max_bytes, max_text
        self.counts = collections.Counter()
        self.pending = {}  # executable's id -> (executable, program): those that have not run yet
        self.where = ""

    def compiled(self, executable, text):
        if text is None:
            self.counts["too large"] += 1
        elif executable is not None:
            self.pending[id(executable)] = (executable, text)

    def ran(self, executable, inputs, outputs):
        """Stores the program of `executable` when it runs first: what went in and what came out."""
        _, text = self.pending.pop(id(executable))
        name = hashlib.sha256(re.sub(r"module @[^ ]+", "module @m", text, count=1).encode()).hexdigest()[:20]
        target = os.path.join(self.folder, name)
        if os.path.exists(target):
            self.counts["known"] += 1
            return
        arrays = [{f"{kind}{i}": plain(x) for i, x in enumerate(xs)}
                  for kind, xs in (("arg", inputs), ("out", outputs))]
        if odd := {x.dtype.name for group in arrays for x in group.values() if x.dtype.kind not in "biufc"}:
            self.counts[f"no values: {', '.join(sorted(odd))}"] += 1
            return
        if sum(x.nbytes for group in arrays for x in group.values()) > self.max_bytes:
            self.counts["too large"] += 1
            return
        partial = f"{target}.{os.getpid()}"
        os.makedirs(partial)
        with open(os.path.join(partial, "program.mlir"), "w") as f:
            f.write(text)
        for file, group in zip(("inputs.npz", "outputs.npz"), arrays):
            np.savez(os.path.join(partial, file), **group)
        with open(os.path.join(partial, "meta.json"), "w") as f:
            json.dump({"test": self.where, "results": [str(getattr(x, "dtype", "")) for x in outputs]}, f)
        os.rename(partial, target)
        self.counts["recorded"] += 1


def hook(store):
    """Puts the store between JAX and XLA. JAX's own fast path takes over at a program's second run."""
    from jax._src import compiler
    from jax._src.interpreters import pxla

    compile_program, run_program = compiler.compile_or_get_cached, pxla.ExecuteReplicated.__call__

    def compile_hooked(backend, computation, *args, **kwargs):
        text = computation.operation.get_asm(enable_debug_info=False)
        executable = compile_program(backend, computation, *args, **kwargs)
        store.compiled(executable, text if len(text) <= store.max_text else None)
        return executable

    def run_hooked(self, *args):
        if id(self.xla_executable) not in store.pending:
            return run_program(self, *args)
        if self.ordered_effects or self.has_host_callbacks:
            store.pending.pop(id(self.xla_executable))
            store.counts["with callbacks"] += 1
            return run_program(self, *args)
        kept = [x for i, x in enumerate(args) if i in self.kept_var_idx]
        kept += self.mut.in_mut if self.mut else []
        try:
            inputs = [np.array(x) for x in self.in_handler(kept)]
        except Exception:  # a test of wrong arguments
            return run_program(self, *args)
        results = run_program(self, *args)
        try:
            outputs = list(results)
            if self.mut:  # results that are a mutable array's new value
                rest = iter(results)
                outputs = [kept[i]._refs._buf if i is not None else next(rest) for i in self.mut.out_mut]
            store.ran(self.xla_executable, inputs, [base(x) for x in outputs])
        except Exception as e:  # a result that NumPy cannot hold
            store.counts[f"no values: {type(e).__name__}"] += 1
        return results

    compiler.compile_or_get_cached = compile_hooked
    pxla.ExecuteReplicated.__call__ = run_hooked


def base(x):
    """The array beneath an array of keys."""
    return getattr(x, "_base_array", x)


def pytest_addoption(parser):
    parser.addoption("--record-folder")
    parser.addoption("--record-name", help="what meta.json and the summary call this run")
    parser.addoption("--record-bytes", type=int, help="of arguments and results")
    parser.addoption("--record-text", type=int, help="of a program's text")
    parser.addoption("--record-seconds", type=float, help="of computing time, for the tests of this run")
    parser.addoption("--record-test-seconds", type=int, help="for each test")


def pytest_configure(config):
    o = config.option
    config.recording = Store(o.record_folder, o.record_bytes, o.record_text)
    hook(config.recording)


def pytest_collection_modifyitems(config, items):
    config.recording_end = time.process_time() + config.option.record_seconds
    items.sort(key=lambda item: hashlib.sha256(item.nodeid.encode()).digest())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    def stop(*_):
        raise TooSlow()

    item.config.recording.where = f"{item.config.option.record_name} {item.name}"
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, item.config.option.record_test_seconds)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)


def pytest_runtest_setup(item):
    store = item.config.recording
    if time.process_time() > item.config.recording_end:
        store.counts["tests not run"] += 1
        pytest.skip("out of time")
    store.counts["tests"] += 1


def pytest_sessionfinish(session):
    summary = {"run": session.config.option.record_name, **session.config.recording.counts}
    with open(os.path.join(session.config.option.record_folder, "summary.jsonl"), "a") as f:
        f.write(json.dumps(summary) + "\n")
