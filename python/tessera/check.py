# SPDX-License-Identifier: Apache-2.0
"""One program on XLA:CPU and on Tessera, in one process: values, shardings and collectives beside each other."""
import collections
import dataclasses
import re

import jax
import numpy as np

from . import _host_callbacks, _xla
from ._tables import text_table
from .explain import CommPlan, comm_plan

_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")
_HLO_COLLECTIVE = re.compile(r"= .*? (all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|"
                             r"collective-permute|collective-broadcast)(?:-start)?\(")

# Of the largest absolute value of a result: sums are rounded in another order, and elementary functions differ by some ulps.
_TOLERANCES = {2**-52: 1e-9, 2**-23: 1e-4, 2**-10: 1e-2, 2**-7: 5e-2}


class Mismatch(AssertionError):
    """Values on XLA:CPU and on Tessera differ. `report` is the whole comparison."""

    def __init__(self, report: "Report"):
        self.report = report
        super().__init__(f"{len(report.differing)} of {len(report.results)} results differ between XLA:CPU and Tessera\n"
                         f"{report}")


@dataclasses.dataclass(frozen=True)
class Result:
    """One array that the program returns. `difference` is the largest absolute difference of two elements divided by
    the largest finite absolute value on XLA:CPU, `inf` where NaNs or infinities are in different places, shapes or
    dtypes differ; `tolerance` what it may be. `xla` and `tessera` are the arrays; the shardings say how many blocks
    each dimension has."""
    path: str
    type: str
    difference: float
    tolerance: float
    xla_sharding: str
    tessera_sharding: str
    same_sharding: bool
    xla: jax.Array
    tessera: jax.Array

    @property
    def agrees(self) -> bool:
        return self.difference <= self.tolerance


@dataclasses.dataclass(frozen=True)
class Report:
    """What `check` found; prints as two tables. `collectives` maps each kind that the program has on either side to
    how many of them (XLA:CPU, Tessera) the partitioned program names; those in loops count once. `plan` is Tessera's
    `comm_plan`, `hlo` the text of XLA's optimized program."""
    results: tuple[Result, ...]
    collectives: dict[str, tuple[int, int]]
    plan: CommPlan
    hlo: str

    @property
    def differing(self) -> list[Result]:
        """Results whose values differ beyond their tolerance."""
        return [r for r in self.results if not r.agrees]

    @property
    def same_values(self) -> bool:
        return not self.differing

    @property
    def same_shardings(self) -> bool:
        return all(r.same_sharding for r in self.results)

    @property
    def same_collectives(self) -> bool:
        return all(xla == ours for xla, ours in self.collectives.values())

    def __str__(self):
        rows = [(r.path or "result", r.type, f"{r.difference:.2g}", f"{r.tolerance:.2g}", r.xla_sharding,
                 r.tessera_sharding, "; ".join(["differs"] * (not r.agrees) +
                                               ["sharded otherwise"] * (not r.same_sharding)) or "agrees")
                for r in self.results]
        head = ("result", "type", "difference", "tolerance", "on XLA:CPU", "on Tessera", "")
        counts = [(k, str(x), str(t), "" if x == t else "differs") for k, (x, t) in self.collectives.items()]
        lines = [text_table(head, rows, right={2, 3}) if rows else "no results", ""]
        lines.append(text_table(("collective", "XLA:CPU", "Tessera", ""), counts, right={1, 2}) if counts
                     else "no collectives")
        return "\n".join(lines)

    __repr__ = __str__


def _tolerance(dtype) -> float:
    """What a result of this dtype may differ by, relative to its largest element; 0 for integers and booleans."""
    if not jax.numpy.issubdtype(dtype, jax.numpy.inexact):
        return 0.0
    eps = float(jax.numpy.finfo(dtype).eps)
    return _TOLERANCES.get(eps, 4 * eps)


def _plain(x) -> np.ndarray:
    if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x)


def difference(xla, ours) -> float:
    """The largest absolute difference of two elements over the largest finite absolute value in `xla`: `inf` where the
    shapes or dtypes differ, or NaNs or infinities are not in the same places."""
    a, b = _plain(xla), _plain(ours)
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if not jax.numpy.issubdtype(a.dtype, jax.numpy.inexact):
        return float(not np.array_equal(a, b))
    wide = np.complex128 if jax.numpy.issubdtype(a.dtype, jax.numpy.complexfloating) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    finite = np.isfinite(a)
    same = np.array_equal(finite, np.isfinite(b)) and np.array_equal(np.isnan(a), np.isnan(b))
    if not same or not np.array_equal(a[~finite & ~np.isnan(a)], b[~finite & ~np.isnan(b)]):
        return float("inf")
    a, b = a[finite], b[finite]
    off = float(np.max(np.abs(a - b), initial=0))
    largest = float(np.max(np.abs(a), initial=0))
    return off if largest == 0 else off / largest


def _blocks(sharding, shape) -> dict:
    """By id of the device: the block that it holds, as (first, beyond the last) of each dimension."""
    return {d.id: tuple(s.indices(n)[:2] for s, n in zip(index, shape))
            for d, index in sharding.devices_indices_map(tuple(shape)).items()}


def _described(blocks: dict, rank: int) -> str:
    parts = [len({b[i] for b in blocks.values()}) for i in range(rank)]
    devices = f"{len(blocks)} device{'' if len(blocks) == 1 else 's'}"
    return f"{'x'.join(map(str, parts))} on {devices}" if any(p > 1 for p in parts) else f"whole on {devices}"


def hlo_collectives(text: str) -> dict[str, int]:
    """How many collectives of each kind a text of HLO names; an asynchronous pair counts once."""
    return dict(collections.Counter(kind.replace("-", "_") for kind in _HLO_COLLECTIVE.findall(text)))


def _plan_collectives(plan: CommPlan) -> dict[str, int]:
    # XLA writes halos as permutations.
    return dict(collections.Counter({"halo_exchange": "collective_permute"}.get(c.op, c.op) for c in plan))


def _traced(fn, args, kwargs):
    """What JAX lowers, and the arguments without the static ones."""
    jitted = fn if hasattr(fn, "lower") else jax.jit(fn)
    info = getattr(jitted, "_jit_info", None)
    numbers = {n % len(args) for n in (getattr(info, "static_argnums", None) or ()) if -len(args) <= n < len(args)}
    names = set(getattr(info, "static_argnames", None) or ())
    dynamic = [a for i, a in enumerate(args) if i not in numbers]
    named = {k: v for k, v in kwargs.items() if k not in names}
    return jitted, dynamic, named


def _lowered_for_xla(jitted, lowered, args, kwargs):
    """The same lowering, or another one where callbacks into Python are lowered for Tessera alone."""
    if not _host_callbacks.in_module(lowered.as_text()):
        return lowered
    with _host_callbacks.jax_own_lowering():
        return jitted.lower(*args, **kwargs)


def check(fn, *args, rtol: float | None = None, report_only: bool = False, **kwargs) -> Report:
    """Runs `fn(*args, **kwargs)` on XLA:CPU and on Tessera and compares values, shardings and collectives.

    `fn` is what `jax.jit` or `jax.pmap` gave, or a function that is jitted here. JAX lowers it once; both compile the
    same module, so meshes in its body need no change. Arguments are arrays, anywhere on Tessera's devices: XLA gets
    copies on its own devices with the same ids. Donated arguments are used up on Tessera as by a call.
    Python callbacks are called on both sides.

    Values may differ by `rtol` times the largest absolute value of the result on XLA:CPU; by default 1e-9 in 64 bits,
    1e-4 in 32, 1e-2 in float16, 5e-2 in bfloat16, nothing for integers. Shardings and counts of collectives may differ:
    the report says where.

    Returns a `Report`. Raises `Mismatch` where values differ by more, unless `report_only`; `TypeError` for arguments
    that cannot be copied (references, other shardings than by name); whatever either side raises for the program."""
    if rtol is not None and not rtol >= 0:
        raise ValueError(f"tessera.jax.check: rtol = {rtol!r}; expected 0 or more, or None for a default by dtype")
    jitted, dynamic, named = _traced(fn, args, kwargs)
    lowered = jitted.lower(*args, **kwargs)
    twin = _xla.Twin()
    copies = jax.tree.map(twin.argument, (dynamic, named))
    on_xla = twin.compile(_lowered_for_xla(jitted, lowered, args, kwargs))
    theirs = jax.block_until_ready(on_xla(*copies[0], **copies[1]))
    plan = comm_plan(lowered)
    ours = jax.block_until_ready(lowered.compile()(*dynamic, **named))

    results = []
    for (path, x), t in zip(jax.tree_util.tree_leaves_with_path(theirs), jax.tree.leaves(ours), strict=True):
        xla_blocks, our_blocks = _blocks(x.sharding, x.shape), _blocks(t.sharding, t.shape)
        results.append(Result(
            path=jax.tree_util.keystr(path), type=x.aval.str_short(short_dtypes=True), difference=difference(x, t),
            tolerance=_tolerance(_plain(x).dtype) if rtol is None else rtol, xla_sharding=_described(xla_blocks, x.ndim),
            tessera_sharding=_described(our_blocks, t.ndim), same_sharding=xla_blocks == our_blocks, xla=x, tessera=t))
    hlo = on_xla.as_text() or ""
    xla_counts, our_counts = hlo_collectives(hlo), _plan_collectives(plan)
    kinds = [k for k in (*_KINDS, *sorted({*xla_counts, *our_counts} - set(_KINDS))) if k in xla_counts or k in our_counts]
    report = Report(tuple(results), {k: (xla_counts.get(k, 0), our_counts.get(k, 0)) for k in kinds}, plan, hlo)
    if report.differing and not report_only:
        raise Mismatch(report)
    return report
