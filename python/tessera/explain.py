# SPDX-License-Identifier: Apache-2.0
"""Which line of a JAX program causes which communication, and how much."""
import contextlib
import dataclasses
import html
import os
import re

from . import _native
from ._tables import text_table

@dataclasses.dataclass(frozen=True)
class Collective:
    """One collective of a program. `bytes` are those that the busiest device receives in one call of the program."""
    op: str
    axes: tuple[str, ...]
    value: str
    bytes_per_device: int
    times: int
    file: str
    line: int
    equation: str
    reason: str
    hint: str

    @property
    def bytes(self) -> int:
        return self.bytes_per_device * max(self.times, 1)

    @property
    def where(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}" if self.line else "?"


class CommPlan:
    """The collectives of a program, in program order. Prints as a table; notebooks show it as HTML."""

    def __init__(self, steps: list[dict], devices: int, bytes_per_device: int):
        self.devices = devices
        self.bytes_per_device = bytes_per_device
        self.collectives = [
            Collective(s["op"], tuple(s["axes"]), s["value"], s["bytes_per_device"], s["times"], s["file"], s["line"],
                       s["equation"], s["reason"], s["hint"]) for s in steps
        ]

    def __len__(self):
        return len(self.collectives)

    def __iter__(self):
        return iter(self.collectives)

    def count(self, op: str) -> int:
        """Collectives of this kind: "all_reduce", "all_gather", …"""
        return sum(c.op == op for c in self.collectives)

    def _rows(self):
        head = ("collective", "axes", "value", "bytes/device", "times", "where", "why", "what would remove it")
        rows = [(c.op, ",".join(c.axes), c.value, f"{c.bytes_per_device:,}", str(c.times) if c.times >= 0 else "?",
                 f"{c.equation} at {c.where}", c.reason, c.hint) for c in self.collectives]
        return head, rows

    def _total(self) -> str:
        n = len(self.collectives)
        return (f"total: {self.bytes_per_device:,} bytes per device in {n} collective{'' if n == 1 else 's'} on "
                f"{self.devices} devices")

    def __str__(self):
        head, rows = self._rows()
        return f"{text_table(head, rows, right={3, 4}, wrap={2: 32, 5: 48, 6: 32, 7: 44})}\n{self._total()}"

    __repr__ = __str__

    def _repr_html_(self):
        head, rows = self._rows()
        cells = lambda row, tag: "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in row)
        body = "".join(f"<tr>{cells(r, 'td')}</tr>" for r in rows)
        return (f"<table><thead><tr>{cells(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"
                f"<p>{html.escape(self._total())}</p>")


def comm_plan(function, *args, **kwargs) -> CommPlan:
    """The communication of a JAX function for these arguments (arrays, or `jax.ShapeDtypeStruct`s with shardings).

    `function` is what `jax.jit` gave, or a function that is jitted here, or what `.lower(…)` gave. Nothing is run.
    Raises `TypeError` for anything else, `RuntimeError` where Tessera cannot partition the program."""
    import jax

    if hasattr(function, "compiler_ir"):
        lowered = function
    elif not callable(function):
        raise TypeError(f"tessera.comm_plan: function = {function!r}; expected a function, what jax.jit gave, or what "
                        ".lower(…) gave")
    else:
        lowered = (function if hasattr(function, "lower") else jax.jit(function)).lower(*args, **kwargs)
    module = lowered.compiler_ir("stablehlo")
    text = module.operation.get_asm(enable_debug_info=True)
    # Modules say for how many devices they are, but for those of one partition or replica.
    devices = getattr(lowered._lowering, "compile_args", {}).get("num_devices", 1)
    plan = _native.comm_plan(text.encode(), devices)
    return CommPlan(plan["steps"], plan["devices"], plan["bytes_per_device"])


_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def parse_bytes(amount) -> int:
    """4096, "4096", "1 MB" (10^6), "1 MiB" (2^20). Raises `ValueError` for anything else."""
    if isinstance(amount, int) and amount >= 0:
        return amount
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(amount))
    if not found or found.group(2).upper() not in _UNITS:
        raise ValueError(f"{amount!r} is no amount of bytes; expected a number, or text such as \"1 MB\" or \"64 KiB\"")
    return int(float(found.group(1)) * _UNITS[found.group(2).upper()])


@contextlib.contextmanager
def comm_budget(amount):
    """Inside it, calling a program that moves more bytes per device raises an error that lists its collectives. For
    programs that run on Tessera (`import tessera.jax`, or `JAX_PLATFORMS=tessera`), on this thread. Budgets nest; the
    smallest holds."""
    lib = _native.library()
    wanted = parse_bytes(amount)
    before = lib.tessera_set_comm_budget(wanted)
    if 0 <= before < wanted:
        lib.tessera_set_comm_budget(before)
    try:
        yield
    finally:
        lib.tessera_set_comm_budget(before)


def show(x, width: int = 72) -> str:
    """Prints which device holds which block of an array of one or two dimensions, and returns the text. Others are
    listed block by block."""
    blocks = {}
    for device, index in x.sharding.devices_indices_map(x.shape).items():
        key = tuple((s.start or 0, n if s.stop is None else s.stop) for s, n in zip(index, x.shape))
        blocks.setdefault(key, []).append(device.id)
    lines = [f"{x.dtype}[{','.join(map(str, x.shape))}]  {x.sharding}"]
    names = {k: ",".join(map(str, v)) if len(v) <= 8 else f"{v[0]}…{v[-1]} ({len(v)})" for k, v in blocks.items()}
    grid = _grid(blocks, x.ndim)
    if grid is None:
        lines += [f"  [{', '.join(f'{a}:{b}' for a, b in k)}]  devices {n}" for k, n in sorted(names.items())]
    else:
        rows, columns = grid
        cell = max(len(n) for n in names.values()) + 2
        bar = "+" + "+".join("-" * cell for _ in columns) + "+"
        for r in rows:
            lines += [bar, "|" + "|".join(names[(*r, *c)].center(cell) for c in columns) + "|"]
        lines.append(bar)
    text = "\n".join(line if len(line) <= width * 4 else line[: width * 4] + "…" for line in lines)
    print(text)
    return text


def _grid(blocks, ndim):
    if ndim == 1:
        return [()], sorted({(k[0],) for k in blocks})
    if ndim != 2:
        return None
    return sorted({(k[0],) for k in blocks}), sorted({(k[1],) for k in blocks})
