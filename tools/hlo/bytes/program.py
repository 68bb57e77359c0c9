# SPDX-License-Identifier: Apache-2.0
"""What a program of the table is: a function, the shapes and shardings of its arguments and results, and the bytes that the
best algorithm known sends a device, where they were derived."""
import dataclasses
import zlib
from typing import Any, Callable

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

MESHES = {"4x2": ((4, 2), ("x", "y")), "8": ((8,), ("x",))}
PROGRAMS = {}  # by name, in the order of their definition


@dataclasses.dataclass(frozen=True)
class Arg:
    """An argument: random numbers of a shape, split as `spec`. Its kind is normal, uniform, sorted, complex, ints (below
    `below`), definite or lower (matrices that are well conditioned)."""
    shape: tuple[int, ...]
    spec: P = P()
    kind: str = "normal"
    below: int = 0
    scale: float = 1.0

    @property
    def dtype(self):
        return np.dtype({"ints": np.int32, "complex": np.complex64}.get(self.kind, np.float32))

    def draw(self, rng):
        if self.kind == "ints":
            return rng.integers(0, self.below, self.shape).astype(self.dtype)
        x = (rng.random(self.shape) if self.kind in ("uniform", "sorted") else rng.normal(size=self.shape)) * self.scale
        if self.kind == "sorted":
            x = np.sort(x)
        if self.kind == "definite":
            x = x @ np.swapaxes(x, -1, -2) / self.shape[-1] + np.eye(self.shape[-1])
        if self.kind == "lower":
            x = np.tril(x) / np.sqrt(self.shape[-1]) + 2 * np.eye(self.shape[-1])
        if self.kind == "complex":
            x = x + 1j * rng.normal(size=self.shape)
        return x.astype(self.dtype)


@dataclasses.dataclass(frozen=True)
class Program:
    """`make(mesh)` is the function; `args` a tuple of trees of Arg; `out` the specs of the results, None where the
    partitioner chooses. `bound` is in bytes that the busiest device receives, `why` its derivation. Values may differ
    by `rtol` times the largest of a result. Each of its loops with collectives runs `loop` times. `canonical` maps the
    results to what is determined (eigenvectors have either sign)."""
    name: str
    family: str
    make: Callable
    args: tuple
    out: Any
    mesh: str
    bound: int | None
    why: str
    rtol: float
    loop: int | None
    canonical: Callable

    def mesh_of(self, devices):
        """The program's mesh; over one device, one of as many axes."""
        shape, names = MESHES[self.mesh]
        shape = shape if len(devices) > 1 else (1,) * len(shape)
        return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names), devices=devices)

    def values(self):
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        return jax.tree.map(lambda a: a.draw(rng), self.args, is_leaf=lambda a: isinstance(a, Arg))

    def jitted(self, mesh):
        """The jitted function and the types of its arguments with their shardings."""
        sharding = lambda spec: NamedSharding(mesh, spec)
        types = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding(a.spec)), self.args,
                             is_leaf=lambda a: isinstance(a, Arg))
        out = None if self.out is None else jax.tree.map(sharding, self.out, is_leaf=lambda s: isinstance(s, P))
        return jax.jit(self.make(mesh), out_shardings=out, keep_unused=True), types


def program(name, family, *args, out=None, mesh="4x2", bound=None, why="", rtol=1e-4, loop=None, meshed=False, canonical=None):
    """Enters the decorated function as a program; with `meshed` it takes the mesh before its arguments."""
    def enter(fn):
        assert name not in PROGRAMS, name
        make = (lambda m: lambda *a: fn(m, *a)) if meshed else lambda m: fn
        PROGRAMS[name] = Program(name, family, make, args, out, mesh, None if bound is None else int(bound), why, rtol, loop,
                                 canonical or (lambda x: x))
        return fn
    return enter
