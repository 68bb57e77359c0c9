#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Doxygen reads in place of a guide: links to headings, as GitHub and editors follow them, are Doxygen's. Headings get an id
where a link of their page leads to them; ids are the site's, so that they begin with the page's name.

usage: markdown_filter.py GUIDE.md
"""
import pathlib
import re
import sys

HEADING = re.compile(r"^(##+ )(.*)$", re.M)
LINK = re.compile(r"\[([^\]]*)\]\(#([^)]+)\)")


def slug(heading: str) -> str:
    """The name that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def filtered(text: str, page: str) -> str:
    wanted = {target for _, target in LINK.findall(text)}

    def link(m: re.Match) -> str:
        words = re.sub(r"`([^`]*)`", r"<code>\1</code>", m[1])  # Doxygen reads no Markdown in a link to an id
        return f'<a href="#{page}-{m[2]}">{words}</a>'

    text = HEADING.sub(lambda m: f"{m[0]} {{#{page}-{slug(m[2])}}}" if slug(m[2]) in wanted else m[0], text)
    return LINK.sub(link, text)


if __name__ == "__main__":
    guide = pathlib.Path(sys.argv[1])
    sys.stdout.write(filtered(guide.read_text(), f"{guide.parent.name}-{guide.stem}".lower()))
