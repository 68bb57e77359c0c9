# SPDX-License-Identifier: Apache-2.0
"""Runs JAX functions and turns arguments, parameters and results into JSON lines."""
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import config as jax_config
from jax._src.lax.lax import _convert_element_type

import functions
from inputs import COMPLEX, FLOATS, INTS, Key, Scalar, WeakArray, np_dtype, seed_of, uniform

# (rtol, atol) of the kinds of function, by the coarsest inexact dtype of the results.
TOLERANCES = {
    "exact": {d: (0.0, 0.0) for d in FLOATS},
    "arith": {"float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 8e-3), "float32": (2e-6, 1e-6), "float64": (1e-13, 1e-13)},
    "trans": {"float16": (2e-3, 1e-3), "bfloat16": (1.6e-2, 8e-3), "float32": (5e-6, 2e-6), "float64": (1e-12, 1e-12)},
    "special": {"float16": (4e-3, 2e-3), "bfloat16": (1.6e-2, 8e-3), "float32": (2e-5, 1e-5), "float64": (1e-10, 1e-11)},
    "reduce": {"float16": (1e-2, 1e-2), "bfloat16": (4e-2, 4e-2), "float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12)},
    "linalg": {"float16": (1e-2, 1e-2), "bfloat16": (4e-2, 4e-2), "float32": (1e-4, 1e-4), "float64": (1e-10, 1e-10)},
}


def number(x, dtype):
    if dtype == "bool":
        return bool(x)
    if dtype in INTS:
        return int(x)
    if dtype in COMPLEX:
        part = "float32" if dtype == "complex64" else "float64"
        return [number(x.real, part), number(x.imag, part)]
    f = float(x)
    if math.isnan(f):
        return "nan"
    if math.isinf(f):
        return "inf" if f > 0 else "-inf"
    if dtype == "float64":
        return f
    return float(str(np.float32(f)))  # the shortest text that rounds back


def array_json(x, weak=False):
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        data = np.asarray(jax.random.key_data(x))
        return {"dtype": "key", "shape": list(x.shape), "data": [int(v) for v in data.ravel()]}
    weak = weak or bool(getattr(x, "weak_type", False))
    x = np.asarray(x)
    dtype = x.dtype.name
    out = {"dtype": dtype, "shape": list(x.shape), "data": [number(v, dtype) for v in x.ravel()]}
    if weak:
        out["weak"] = True
    return out


def scalar_json(v):
    return [v.real, v.imag] if isinstance(v, complex) else number(v, "float64") if isinstance(v, float) else v


def arg_json(a):
    if isinstance(a, Scalar):
        kind = type(a.value).__name__
        return {"scalar": kind, "value": scalar_json(a.value)}
    if isinstance(a, WeakArray):
        return array_json(a.value, weak=True)
    if isinstance(a, Key):
        return {"dtype": "key", "shape": [], "data": [int(v) for v in a.data]}
    return array_json(np.asarray(a))


def to_jax(a):
    if isinstance(a, Scalar):
        return a.value
    if isinstance(a, WeakArray):
        return _convert_element_type(jnp.asarray(a.value), np.asarray(a.value).dtype, weak_type=True)
    if isinstance(a, Key):
        return jax.random.wrap_key_data(jnp.asarray(a.data))
    a = np.asarray(a)
    return jnp.asarray(a, dtype=a.dtype)


def wide(obj):
    text = json.dumps(obj)
    return any(f'"{d}"' in text for d in ("int64", "uint64", "float64", "complex128"))


class Recorder:
    def __init__(self):
        self.groups = {}
        self.ids = set()
        self.dropped = []
        self.failed = []

    def case(self, group, fn, args, params=None, kind="value", wrt=None, tol="arith", note="", may_fail=False, ct_scale=1.0,
             zeros=False):
        """Records one case. `wrt` lists the differentiated arguments; cotangents and tangents are made from the id.
        `zeros`: the signs of zeros are compared."""
        params = params or {}
        args = list(args)
        record = {"id": "", "fn": fn, "kind": kind, "args": [arg_json(a) for a in args], "params": params}
        record["id"] = self.name(group, record, note)
        if kind != "value":
            if wrt is None:
                wrt = [i for i, a in enumerate(args) if isinstance(a, np.ndarray | np.generic)
                       and np.asarray(a).dtype.name in FLOATS + COMPLEX]
            record["wrt"] = wrt
        try:
            out, extra = self.evaluate(record, args, kind, wrt, ct_scale)
        except Exception as e:
            (self.dropped if may_fail else self.failed).append((record["id"], str(e).split("\n")[0][:200]))
            return
        record.update(extra)
        record["out"] = out
        if zeros:
            record["zeros"] = True
        dtypes = [{"complex64": "float32", "complex128": "float64"}.get(o["dtype"], o["dtype"]) for o in out]
        scale = TOLERANCES[tol] if isinstance(tol, str) else {d: tol for d in FLOATS}
        record["rtol"], record["atol"] = max((scale[d] for d in dtypes if d in FLOATS), default=(0.0, 0.0))
        self.groups.setdefault(group, []).append(record)

    def name(self, group, record, note):
        kinds = [a.get("scalar") or a["dtype"] + str(a["shape"]).replace(" ", "") for a in record["args"]]
        base = f"{group}/{record['fn']}/{record['kind']}/" + ",".join(kinds) + (f"/{note}" if note else "")
        name, n = base, 1
        while name in self.ids:
            n += 1
            name = f"{base}#{n}"
        self.ids.add(name)
        return name

    def evaluate(self, record, args, kind, wrt, ct_scale):
        """64-bit cases run twice: with explicit 64-bit dtypes (which decides the dtypes) and in full 64-bit mode."""
        run = lambda: self.run(record, args, kind, wrt, ct_scale)
        if not wide({"args": record["args"], "params": record["params"]}):
            return run()
        try:
            with jax.enable_x64(True):
                full = run()
        except Exception:  # the explicit mode below decides whether the case is legal
            full = None
        try:
            with jax_config.explicit_x64_dtypes(jax_config.ExplicitX64Mode.ALLOW):
                explicit = run()
        except Exception:
            if full is None:
                raise
            has_int64 = any(a.get("dtype") in ("int64", "uint64") for a in record["args"])
            for o in full[0]:
                if o["dtype"] == "int64" and not has_int64 and '"int64"' not in json.dumps(record["params"]):
                    o["dtype"] = "int32"
            return full
        same = full is not None and [o["dtype"] for o in full[0]] == [o["dtype"] for o in explicit[0]]
        if same:  # the values of full mode: no constant was rounded to 32 bits
            for a, b in zip(full[0], explicit[0]):
                a.pop("weak", None)
                if b.get("weak"):
                    a["weak"] = True
            return full
        return explicit

    def run(self, record, args, kind, wrt, ct_scale):
        values = [to_jax(a) for a in args]
        f = functions.lookup(record["fn"])
        call = lambda *a: jax.tree.leaves(f(*a, **functions.decode(record["params"])))
        if kind == "value":
            return [array_json(o) for o in call(*values)], {}

        def of_wrt(*xs):
            full = list(values)
            for i, x in zip(wrt, xs):
                full[i] = x
            return [o for o in call(*full) if jnp.issubdtype(o.dtype, jnp.inexact)]

        xs = [values[i] for i in wrt]
        make = lambda tag, like: [jnp.asarray(self.direction(record["id"] + tag + str(i), v) * ct_scale, dtype=v.dtype)
                                  for i, v in enumerate(like)]
        tangents = make("t", xs)
        if kind == "jvp":
            _, out = jax.jvp(of_wrt, xs, tangents)
            return [array_json(o) for o in out], {"tangents": [array_json(t) for t in tangents]}
        outs = jax.eval_shape(of_wrt, *xs)
        cts = make("c", outs)
        pull = lambda *x: jax.vjp(of_wrt, *x)[1](cts)
        if kind == "vjp":
            return [array_json(o) for o in pull(*xs)], {"ct": [array_json(c) for c in cts]}
        assert kind == "grad2"
        _, out = jax.jvp(pull, xs, tangents)
        return [array_json(o) for o in out], {"ct": [array_json(c) for c in cts],
                                              "tangents": [array_json(t) for t in tangents]}

    @staticmethod
    def direction(name, like):
        dtype = np.dtype(like.dtype).name
        return uniform(str(seed_of(name)), like.shape, dtype, -1.0, 1.0).astype(np_dtype(dtype))

    def write(self, folder):
        total = 0
        for group, records in sorted(self.groups.items()):
            lines = [json.dumps(r, separators=(",", ":"), allow_nan=False) for r in records]
            path = folder / f"{group}.jsonl"
            path.write_text("\n".join(lines) + "\n")
            total += path.stat().st_size
            print(f"{group}: {len(lines)} cases, {path.stat().st_size // 1024} KiB")
        print(f"total {sum(map(len, self.groups.values()))} cases, {total // 1024} KiB; not legal in JAX: {len(self.dropped)}")
