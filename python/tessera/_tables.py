# SPDX-License-Identifier: Apache-2.0
"""Tables as plain text."""
import itertools
import textwrap


def text_table(head, rows, right=frozenset(), wrap={}) -> str:
    """Columns as wide as their widest line, two spaces between them; those whose numbers are in `right` end flush, those
    in `wrap` continue on further lines beyond so many characters."""
    def lines_of(row):
        cells = [textwrap.wrap(c, wrap[i], break_long_words=False, break_on_hyphens=False) if i in wrap else [c] for i, c in enumerate(row)]
        return list(itertools.zip_longest(*cells, fillvalue=""))

    lines = [line for row in (head, *rows) for line in lines_of(row)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip()
                     for line in lines)
