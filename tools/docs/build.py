#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site in build/site with Doxygen, and checks it: every public type and function is documented, nothing in
the comments is misread, every link of a page leads somewhere, the README's program is the one in examples/.

usage: build.py
"""
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SITE = ROOT / "build/site"
# Members explain themselves where their type does: begin(), shape(), the fields of a result. All else has a comment.
TYPE_OR_FUNCTION = re.compile(r"Compound (?!tessera::\w*detail)\S+ is not documented|\((function|typedef|enumeration|variable)\) of (namespace|file) ")


def doxygen() -> list[str]:
    (ROOT / "build").mkdir(exist_ok=True)
    subprocess.run(["doxygen", "docs/site/Doxyfile"], cwd=ROOT, check=True)
    warnings = (ROOT / "build/docs-warnings.txt").read_text().split("\n")
    return sorted({w.removeprefix(f"{ROOT}/") for w in warnings if "warning:" in w})


def copy_images() -> None:
    """Guides name images as GitHub shows them; the site has all pages in one folder."""
    shutil.copytree(ROOT / "docs/images", SITE / "images", dirs_exist_ok=True)
    for page in SITE.glob("*.html"):
        text = page.read_text(errors="replace")
        local = re.sub(r'src="(?:\.\./)?(?:docs/)?images/', 'src="images/', text)
        if local != text:
            page.write_text(local)


def copy_programs() -> None:
    """The page of the examples links their sources; browsers show them as text."""
    page = SITE / "md_examples_README.html"
    text = page.read_text()
    for name in sorted(set(re.findall(r'href="(\w+\.cc)"', text))):
        if (ROOT / "examples" / name).exists():
            shutil.copy(ROOT / "examples" / name, SITE / f"{name}.txt")
            text = text.replace(f'href="{name}"', f'href="{name}.txt"')
    page.write_text(text)


def misread(warnings: list[str]) -> list[str]:
    return [w for w in warnings if "is not documented" not in w or TYPE_OR_FUNCTION.search(w)]


def dead_links() -> list[str]:
    pages = {p.name: p.read_text(errors="replace") for p in SITE.glob("*.html")}
    out = []
    for name, text in pages.items():
        for link in set(re.findall(r'(?:href|src)="([^"#?]+)(?:#[^"]*)?"', text)):
            if re.match(r"[a-z]+:", link):
                continue
            if not (SITE / urllib.parse.unquote(link)).exists():
                out.append(f"{name}: leads to {link}, which is not there")
        # Doxygen's own pages link to sections that it leaves out.
        for anchor in set(re.findall(r'<a href="#([^"]+)"', text)) if name.startswith("md_") else ():
            if f'id="{anchor}"' not in text and f'name="{anchor}"' not in text:
                out.append(f"{name}: leads to #{anchor}, which it has not")
    return out


def wrong_readme() -> list[str]:
    program = (ROOT / "examples/first.cc").read_text()
    blocks = re.findall(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    return [] if program in blocks else ["README.md: no block is examples/first.cc as it is"]


def main() -> int:
    shutil.rmtree(SITE, ignore_errors=True)
    warnings = doxygen()
    copy_images()
    copy_programs()
    faults = misread(warnings) + dead_links() + wrong_readme()
    for fault in faults:
        print(fault)
    members = sum("is not documented" in w for w in warnings) - sum("is not documented" in f for f in faults)
    pages = sum(1 for _ in SITE.glob("*.html"))
    print(f"docs: {pages} pages in build/site, {len(faults)} faults; {members} members without a comment of their own")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
