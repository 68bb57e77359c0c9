# SPDX-License-Identifier: Apache-2.0
"""Bytes that the busiest device receives in a collective, counted as Tessera's plan does (docs/propagation.md, "The plan"),
and those of a program that XLA compiled, read from its text.

An all-reduce of p devices counts as a reduce-scatter and an all-gather, whatever the algorithm that runs.
"""
import collections
import dataclasses
import math
import re

BITS = {"pred": 8, "f8e4m3fn": 8, "f8e5m2": 8, "bf16": 16, "c64": 64, "c128": 128,
        **{f"{kind}{bits}": bits for kind in "su" for bits in (2, 4, 8, 16, 32, 64)},
        **{f"f{bits}": bits for bits in (16, 32, 64)}}


def all_reduce(size, p):
    """Of a value that every device has a summand of."""
    return -(-2 * size * (p - 1) // p)


def reduce_scatter(shard, p):
    """A device completes its shard."""
    return shard * (p - 1)


def all_gather(shard, p):
    """A device gets the shards of the others."""
    return shard * (p - 1)


def all_to_all(shard, p):
    """A device keeps one part of p of its shard and gets as much from each other."""
    return shard * (p - 1) // p


@dataclasses.dataclass(frozen=True)
class Collective:
    """A collective in XLA's text. `times` is how often it runs in a call; None in a loop whose length XLA does not know.
    `receivers` are the devices that receive `bytes_once`."""
    op: str
    value: str
    receivers: frozenset
    bytes_once: int
    times: int | None
    source: str

    @property
    def bytes(self) -> int:
        return self.bytes_once * (1 if self.times is None else self.times)


_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
# The name, the type of the result (a tuple's has spaces in it), the operation.
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_ARRAY = re.compile(r"\b([a-z]\w*)\[([\d,<=]*)\]")
_CALLED = re.compile(r"\b(?:to_apply|calls|true_computation|false_computation|called_computations|branch_computations)="
                     r"(?:\{([^}]*)\}|%?([\w.\-]+))")
_BODY = re.compile(r"\bbody=%?([\w.\-]+)")
_CONDITION = re.compile(r"\bcondition=%?([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def _size(type_text):
    """Bytes of an array or of all arrays in a tuple."""
    total = 0
    for dtype, dims in _ARRAY.findall(type_text):
        count = 1
        for d in filter(None, dims.split(",")):
            count *= int(d.removeprefix("<="))
        total += -(-count * BITS[dtype] // 8) if dtype not in ("token", "opaque") else 0
    return total


def _group_size(rest, devices):
    """How many devices take part in one group of a collective."""
    if found := re.search(r"replica_groups=\{\{([\d,]*)\}", rest):
        return len(found.group(1).split(","))
    if found := re.search(r"replica_groups=\[(\d+),(\d+)\]<=", rest):
        return int(found.group(2))
    # A mesh of its own with the axes, or parts of axes ('axis_0':(2)4), of which a group is made.
    if found := re.search(r"replica_groups=@?mesh\[(.*?)\](?:, device_ids=\(.*?\))? \{(.*?)\}", rest):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", found.group(1)))
        axes = re.findall(r"'(\w+)'(?::\(\d+\)(\d+))?", found.group(2))
        return math.prod(int(part or sizes[axis]) for axis, part in axes)
    if "replica_groups={}" in rest or "replica_groups=" not in rest:
        return devices
    raise ValueError(f"groups in a form that is not read: {rest[:200]}")


def _received(kind, type_text, rest, devices):
    """The devices that receive, and the bytes that one receives."""
    if kind == "collective-permute":
        pairs = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", rest).group(1)
        to = frozenset(int(b) for a, b in re.findall(r"(\d+),(\d+)", pairs) if a != b)
        return to, _size(type_text) if to else 0
    p, size = _group_size(rest, devices), _size(type_text)
    received = {"all-reduce": lambda: all_reduce(size, p), "reduce-scatter": lambda: reduce_scatter(size, p),
                "all-gather": lambda: all_gather(size // p, p), "all-to-all": lambda: all_to_all(size, p)}
    return frozenset(range(devices)), received[kind]()


def _computations(text):
    """Instructions by computation, as (type, operation, the rest of the line), and the entry's name."""
    found, entry, current = {}, None, None
    for line in text.splitlines():
        if head := _COMPUTATION.match(line):
            current = found.setdefault(head.group(2), [])
            entry = head.group(2) if head.group(1) else entry
        elif current is not None and (instruction := _INSTRUCTION.match(line)):
            current.append(instruction.groups())
    return found, entry


def read(text, devices=8):
    """The collectives of a compiled program's text, each as often as it is reached. As in Tessera's plan, every branch of
    a conditional counts, and a loop of unknown length counts once."""
    computations, entry = _computations(text)
    found, reached = [], set()

    def visit(name, times):
        reached.add(name)
        for type_text, op, rest in computations[name]:
            kind = op.removesuffix("-start")
            if kind in _KINDS:
                if op.endswith("-start") and kind in ("all-gather", "collective-permute"):
                    type_text = type_text[1:-1].split(", ")[1]  # (operand, result, …)
                receivers, size = _received(kind, type_text, rest, devices)
                source = re.search(r'op_name="([^"]*)"', rest)
                found.append(Collective(kind.replace("-", "_"), re.sub(r"\{[\d,:TS()*]*\}", "", type_text), receivers, size,
                                        times, source.group(1) if source else ""))
            elif kind in ("ragged-all-to-all", "collective-broadcast"):
                raise ValueError(f"{kind} is not counted")
            if op == "while":
                trips = _TRIPS.search(rest)
                inner = times * int(trips.group(1)) if trips and times is not None else None
                visit(_BODY.search(rest).group(1), inner)
                visit(_CONDITION.search(rest).group(1), inner)
            elif kind not in _KINDS:
                for several, one in _CALLED.findall(rest):
                    for called in several.split(",") if several else [one]:
                        called = called.strip().removeprefix("%")
                        if called in computations:
                            visit(called, times)

    visit(entry, 1)
    read_of = lambda name: sum(op.removesuffix("-start") in _KINDS for _, op, _ in computations[name])
    named = len(re.findall(rf"^\s.* (?:{'|'.join(_KINDS)})(?:-start)?\(", text, re.M))
    if sum(map(read_of, reached)) != named:
        raise ValueError(f"{named} collectives are named, {sum(map(read_of, reached))} were read")
    return found


def busiest(found, devices=8):
    """Bytes that the busiest device receives in all: a halo is several permutations, and a device takes part in some."""
    return max(sum(c.bytes for c in found if d in c.receivers) for d in range(devices))


def summary(found):
    """ "all_gather 2, all_to_all 1": which collectives, loops counted once."""
    counts = collections.Counter(c.op for c in found if c.bytes_once)
    return ", ".join(f"{op} {n}" for op, n in sorted(counts.items())) or "none"
