#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what the program of python/README.md prints, as SVG files for the documentation.

Usage: tools/jax/draw_explainer.py [--check] [FOLDER]

Runs the first Python program of python/README.md that makes a communication plan and writes comm_plan.svg, its table, and
show.svg, the blocks of its array, into FOLDER (docs/images). The same program gives the same bytes. --check writes
nothing and fails where a file would change. Run it with the Python that has JAX; the plugin is the one that
TESSERA_PJRT_LIBRARY names, or the package's.
"""
import argparse
import contextlib
import io
import os
import pathlib
import re
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, str(ROOT / "python"))

FONT, ADVANCE, LINE, MARGIN, BAR = 13, 7.8, 19, 16, 28  # pixels; a character is ADVANCE wide in every font
PLAIN, DIM, BRIGHT, BLUE, GREEN = "#d6dbe4", "#8b95a7", "#ffffff", "#7cb7ff", "#9bd88a"
KINDS = re.compile(r"^(all_gather|all_reduce|reduce_scatter|all_to_all|collective_permute|halo_exchange)\b")


def text(x: float, y: float, content: str, fill: str) -> str:
    """A run of characters at a fixed advance, whatever monospaced font there is."""
    return (f'<text x="{x:g}" y="{y:g}" fill="{fill}" textLength="{len(content) * ADVANCE:g}" '
            f'xml:space="preserve">{escape(content)}</text>')


def terminal(title: str, lines: list[list[tuple[str, str]]]) -> str:
    """Lines of (characters, colour) in a window. Blanks are places, not characters: some renderers drop them."""
    width = 2 * MARGIN + max(sum(len(t) for t, _ in line) for line in lines) * ADVANCE
    height = BAR + 2 * MARGIN + len(lines) * LINE - 4
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
             f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title, {chr(34): "&quot;"})}">',
             f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#1c2230"/>',
             *(f'<circle cx="{MARGIN + 4 + 18 * i}" cy="{BAR / 2 + 1:g}" r="5" fill="{c}"/>'
               for i, c in enumerate(("#e4685d", "#e2b64f", "#6bbf59"))),
             f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="{FONT}">',
             text(MARGIN + 64, BAR / 2 + 6, title, DIM)]
    for number, line in enumerate(lines):
        y, column = BAR + MARGIN + FONT + number * LINE, 0
        for characters, fill in line:
            for run in re.finditer(r"\S+(?: \S+)*", characters):
                parts.append(text(MARGIN + (column + run.start()) * ADVANCE, y, run.group(), fill))
            column += len(characters)
    return "\n".join([*parts, "</g>", "</svg>", ""])


def plan_lines(printed: str) -> list[list[tuple[str, str]]]:
    head, *rows, total = printed.splitlines()
    lines = [[(head, BRIGHT)]]
    why = head.index("why")
    for row in rows:
        kind = KINDS.match(row)
        end = kind.end() if kind else 0
        lines.append([(row[:end], BLUE), (row[end:why], PLAIN), (row[why:], DIM)])
    return [*lines, [(total, GREEN)]]


def grid_lines(printed: str) -> list[list[tuple[str, str]]]:
    head, *rows = printed.splitlines()
    return [[(head, BRIGHT)], *([(part, BLUE if part.strip("+-|") else DIM) for part in re.split(r"(\|)", row)]
                                for row in rows)]


def program() -> str:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "python/README.md").read_text(), re.M | re.S)
    return next(b for b in blocks if "tessera.comm_plan(" in b)


def pictures() -> dict[str, str]:
    import tessera.jax

    tessera.jax.devices(8)
    names = {"__name__": "__main__"}

    def printed(source: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(source, "program.py", "exec"), names)
        return out.getvalue()

    plan = printed(program())
    return {"comm_plan.svg": terminal("print(tessera.comm_plan(energy, a))", plan_lines(plan)),
            "show.svg": terminal("tessera.show(a)", grid_lines(printed("tessera.show(a)")))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "docs/images")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = []
    for name, content in pictures().items():
        file = args.folder / name
        if args.check:
            if not file.is_file() or file.read_text() != content:
                stale.append(f"{file} is not what the program of python/README.md prints; run tools/jax/draw_explainer.py")
        else:
            args.folder.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    print("\n".join(stale), end="\n" if stale else "", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
