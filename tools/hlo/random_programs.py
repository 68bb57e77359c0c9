# SPDX-License-Identifier: Apache-2.0
"""Random NumPy-like programs beside XLA: reductions with and without kept dimensions, broadcasts between them, masks.

    python tools/hlo/random_programs.py modules --count 500 [--seed 0]

Stores modules for run_modules.py, named <seed>; a program is a function of its seed. Half of them compute in float64
(whose rounding hides little), the others in float32 and bfloat16; one in three is spread over 8 devices, one in five
is a gradient, as many run their second half in a loop.
"""
import argparse
import json
import os

os.environ["XLA_FLAGS"] = ("--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0 "
                           "--xla_llvm_disable_expensive_passes=true")
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from values import plain

TOLERANCE = {"float64": 1e-8, "float32": 2e-3, "bfloat16": 0.2}

UNARY = [jnp.tanh, jnp.sin, jnp.abs, jnp.negative, jax.nn.sigmoid, lambda x: jnp.exp(jnp.minimum(x, 2)), jnp.square,
         lambda x: jnp.sqrt(jnp.abs(x) + 0.5), lambda x: jnp.log1p(jnp.abs(x)), lambda x: 1 / (1 + jnp.abs(x)),
         jax.nn.relu, lambda x: x * 0.5 + 1, lambda x: lax.rsqrt(x * x + 1), lambda x: jnp.cbrt(x), jnp.arctan,
         lambda x: jnp.clip(x, -1, 1), lambda x: lax.erf(x), lambda x: jnp.nan_to_num(x), lambda x: x ** 3]
BINARY = [jnp.add, jnp.subtract, jnp.multiply, lambda a, b: a / (jnp.abs(b) + 1), jnp.maximum, jnp.minimum,
          jnp.arctan2, lambda a, b: jnp.where(a > b, a, b * 2), jnp.hypot, jnp.logaddexp,
          lambda a, b: jnp.where(b > 0.1, a, 0)]
REDUCE = ["sum", "mean", "max", "min", "std", "var", "sum", "max", "mean", "prod"]


class Maker:
    """Draws one program: a list of steps, each of which adds a value made of earlier ones."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.dtype = ["float64", "float64", "float32", "bfloat16"][self.rng.integers(4)]
        self.sizes = [int(s) for s in self.rng.choice([1, 2, 3, 4, 5, 7, 8, 12, 16, 33], 3)]
        self.steps = []

    def pick(self, options):
        return options[self.rng.integers(len(options))]

    def shape(self):
        return tuple(self.sizes[:self.rng.integers(1, 4)])

    def number(self):
        return float(np.round(self.rng.uniform(-1.5, 1.5), 2))

    def value(self, values):
        """Mostly a late one."""
        return values[max(0, len(values) - 1 - int(self.rng.exponential(2.5)))]

    def fit(self, a, b):
        """`b` as something that broadcasts against `a`."""
        for options in (b.shape, (*b.shape, 1), (*b.shape[:-1], 1, b.shape[-1]) if b.ndim else b.shape):
            try:
                if np.prod(np.broadcast_shapes(a.shape, options)) <= 8192:
                    return b.reshape(options)
            except ValueError:
                pass
        return jnp.mean(b)

    def reduced(self, x):
        axis = self.pick([None, *range(x.ndim), *([tuple(sorted(self.rng.choice(x.ndim, 2, False).tolist()))]
                                                  if x.ndim > 1 else [])])
        kept, name = bool(self.rng.integers(2)), self.pick(REDUCE)
        given = {"where": x > self.number(), "initial": 0.5} if name in ("max", "min") else {"where": x < 3}
        given = given if self.rng.random() < 0.3 else {}
        if name in ("std", "var"):
            x = x * 1 + 0.1 * jnp.arange(x.size, dtype=x.dtype).reshape(x.shape) % 3
            return getattr(jnp, name)(x, axis, keepdims=kept, **given) + (0.1 if name == "std" else 0)
        return getattr(jnp, name)(jnp.tanh(x) if name == "prod" else x, axis, keepdims=kept, **given)

    def moved(self, x):
        if x.ndim == 0:
            return jnp.broadcast_to(x, self.shape())
        axis = int(self.rng.integers(x.ndim))
        return self.pick([
            lambda: jnp.swapaxes(x, axis, -1), lambda: jnp.flip(x, axis), lambda: jnp.roll(x, 2, axis),
            lambda: jnp.expand_dims(x, axis), lambda: x.reshape(-1), lambda: jnp.concatenate([x, x * 2], axis),
            lambda: lax.slice_in_dim(x, 0, max(1, x.shape[axis] - 1), axis=axis), lambda: jnp.sort(x, axis),
            lambda: jnp.cumsum(x, axis) * 0.2, lambda: jnp.take(x, jnp.array([0, -1, 0]), axis),
            lambda: jnp.pad(x, [(1, 0) if i == axis else (0, 0) for i in range(x.ndim)], constant_values=0.5),
            lambda: jnp.squeeze(x), lambda: jax.nn.softmax(x, axis), lambda: x - lax.stop_gradient(x).max(axis, keepdims=True),
            lambda: x.at[0].add(1.5), lambda: jnp.diff(x, axis=axis, append=0), lambda: x.astype("float32").astype(x.dtype),
            lambda: jnp.take_along_axis(x, jnp.argmax(x, axis, keepdims=True), axis),
            lambda: jnp.broadcast_to(x[None], (2, *x.shape)), lambda: jnp.tril(x) if x.ndim > 1 else x,
            lambda: lax.dynamic_slice_in_dim(x, jnp.argmin(x) % x.shape[axis], 1, axis)])()

    def step(self, values):
        x = self.value(values)
        kind = self.rng.random()
        if kind < 0.25:
            y = self.pick(UNARY)(x)
        elif kind < 0.5:
            y = self.pick(BINARY)(x, self.fit(x, self.value(values)))
        elif kind < 0.7:
            y = self.reduced(x)
        elif kind < 0.76:
            c = np.round(self.rng.uniform(-1, 1, self.pick([(), (1,), x.shape, x.shape[-1:], (*x.shape[:-1], 1)])), 2)
            y = self.pick(BINARY)(x, jnp.asarray(c, x.dtype)) if x.ndim else x + self.number()
        elif kind < 0.8 and x.ndim:
            y = x @ jnp.swapaxes(x, -1, -2) * 0.1 if x.ndim > 1 else jnp.outer(x, x)
        else:
            y = self.moved(x)
        return y if 0 < y.size <= 8192 else jnp.sum(y) * 0.01

    def body(self, *args):
        values = list(args)
        for _ in range(self.rng.integers(5, 18)):
            values.append(self.step(values))
        return values

    def program(self):
        seed, loops, gradient = self.rng.integers(1 << 30), self.rng.random() < 0.2, self.rng.random() < 0.25
        gradient &= self.dtype != "bfloat16"  # errors that grow say nothing

        def run(*args):
            self.rng = np.random.default_rng(seed)  # tracing twice draws the same
            values = self.body(*args)
            if loops:
                x, state = self.value(values), self.rng.bit_generator.state

                def again(_, x):
                    self.rng.bit_generator.state = state
                    y = self.body(x)[-1]
                    return jnp.tanh(x + (y if y.shape == x.shape else jnp.mean(y))).astype(x.dtype)

                values.append(lax.fori_loop(0, 3, again, x))
            return [v for v in values[len(args):] if self.rng.random() < 0.25] + [values[-1]]

        if gradient:
            return jax.grad(lambda *a: sum(jnp.sum(jnp.tanh(v.astype(a[0].dtype))) for v in run(*a)), tuple(range(3)))
        return run

    def arguments(self):
        shapes = [self.shape() for _ in range(3)]
        args = [jnp.asarray(self.rng.normal(size=s), self.dtype) for s in shapes]
        if self.rng.random() < 0.33:
            mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
            args = [jax.device_put(a, NamedSharding(mesh, self.spec(a.shape))) for a in args]
        return args

    def spec(self, shape):
        free, spec = ["x", "y"], []
        for n in shape:
            fits = [a for a in free if n % {"x": 4, "y": 2}[a] == 0]
            spec.append(self.pick([None, *fits]))
            free = [a for a in free if a != spec[-1]]
        return PartitionSpec(*spec)


def store(folder, seed):
    maker = Maker(seed)
    args, program = maker.arguments(), maker.program()
    f = jax.jit(program, keep_unused=True)
    text, outs = f.lower(*args).as_text(), jax.tree.leaves(f(*args))
    if not all(np.isfinite(plain(x)).all() for x in outs):
        raise ValueError("not finite: XLA's simplifier takes 0 * NaN for 0")
    target = os.path.join(folder, str(seed))
    os.makedirs(target, exist_ok=True)
    with open(os.path.join(target, "program.mlir"), "w") as out:
        out.write(text)
    with open(os.path.join(target, "tolerance"), "w") as out:
        out.write(str(TOLERANCE[maker.dtype]))
    with open(os.path.join(target, "meta.json"), "w") as out:
        json.dump({"test": f"random {maker.dtype}", "results": [str(x.dtype) for x in outs]}, out)
    np.savez(os.path.join(target, "inputs.npz"), **{f"arg{i}": plain(a) for i, a in enumerate(args)})
    np.savez(os.path.join(target, "outputs.npz"), **{f"out{i}": plain(o) for i, o in enumerate(outs)})


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("folder")
    ap.add_argument("--count", type=int, default=500)
    ap.add_argument("--seed", type=int, default=0)
    o = ap.parse_args()
    os.makedirs(o.folder, exist_ok=True)
    refused = 0
    for seed in range(o.seed, o.seed + o.count):
        try:
            store(o.folder, seed)
        except (TypeError, ValueError, IndexError) as e:  # shapes that do not fit are JAX's to refuse
            refused += 1
            print(f"{seed}: {str(e).splitlines()[0][:160]}")
        if seed % 50 == 49:
            jax.clear_caches()
    print(f"{o.count - refused} programs in {o.folder}")


if __name__ == "__main__":
    main()
