#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how the code is laid out: the arrows of tools/layers.toml, public headers that stand alone, Python that compiles,
file sizes, licence lines, white space. Prints every breach as `file:line: what`, and fails where there is one.

usage: check_layers.py [--no-compile]
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
USING = re.compile(r"^ *using (?!namespace)[\w:]+::(\w+);$")
NAMESPACE = re.compile(r"^namespace ?([\w:]*) ?\{$")
# What a line at its beginning defines: an alias, a type, a constant, or a function with the types of its parameters.
DEFINED = re.compile(
    r"^(?:(?:using (\w+) = |(?:struct|enum class|class|enum) (\w+)\b[^;]*$|"
    r"(?:inline )?(?:constexpr|const) [\w:<>, ]+?[ &*](\w+)(?:\[\w*\])? ?[={])|([\w:][\w:<>,&* ]* \w+\(.*\)) \{)"
)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")
CODE = {".h", ".cc", ".def", ".inc"}
TEXT = CODE | {".py", ".sh", ".md", ".cmake", ".toml", ".txt", ".json", ".tir", ".yml"}
LICENCE = "SPDX-License-Identifier: Apache-2.0"


class Checker:
    def __init__(self) -> None:
        table = tomllib.loads((ROOT / "tools/layers.toml").read_text())
        self.layers: dict[str, list[str]] = table["layers"]
        self.siblings = set(table["siblings"])
        self.leaves = set(table["leaves"])
        self.engine_list = table["engine_list"]
        self.public_only = table["public_only"]["folders"]
        self.optional_headers: dict[str, list[str]] = table["optional_headers"]
        self.sizes = table["sizes"]
        self.private_names: dict[tuple[str, str, str], tuple[str, int, str]] = {}
        self.breaches: list[str] = []
        self.warnings: list[str] = []

    def breach(self, file: str, line: int, what: str) -> None:
        self.breaches.append(f"{file}:{line}: {what}")

    def layer(self, path: str) -> str | None:
        """The layer that a path relative to src/ is in; the longest name wins, so engines/cpu/kernels is its own."""
        return max((r for r in self.layers if path.startswith(r + "/")), key=len, default=None)

    def check_table(self) -> None:
        names = list(self.layers)
        for i, layer in enumerate(names):
            for other in self.layers[layer]:
                if other not in names[:i]:
                    self.breach("tools/layers.toml", 1, f"'{layer}' points to '{other}', which is not above it")
                if layer in self.siblings and other in self.siblings:
                    self.breach("tools/layers.toml", 1, f"'{layer}' and '{other}' are siblings")

    def check_include(self, file: str, line: int, quote: str, target: str) -> None:
        if file.startswith("include/"):
            standard = quote == "<" and "/" not in target and "." not in target
            allowed = ("tessera/", *self.optional_headers.get(file, []))
            if not standard and not target.startswith(allowed):
                self.breach(file, line, f"a public header may not include '{target}'")
            return
        other = self.layer(target)
        if other is None:
            if target.startswith(("../", "./", "src/")):
                self.breach(file, line, f"include '{target}' from the root of src/ or include/")
            return
        if file.startswith(tuple(folder + "/" for folder in self.public_only)):
            self.breach(file, line, f"only public headers here, not '{target}'")
        if not file.startswith("src/") or file == self.engine_list:
            return
        own = self.layer(file.removeprefix("src/"))
        if own is not None and other != own and other not in self.layers[own]:
            hint = f" (only {self.engine_list} names engines)" if other in self.leaves else ""
            self.breach(file, line, f"layer '{own}' may not include '{target}'{hint}")

    def check_code(self, file: str, lines: list[str]) -> None:
        if file.startswith("src/") and file != self.engine_list and self.layer(file.removeprefix("src/")) is None:
            self.breach(file, 1, "is in no layer of tools/layers.toml")
        if not lines or lines[0] != f"// {LICENCE}":
            self.breach(file, 1, f"the first line is not '// {LICENCE}'")
        # Highway reads an -inl.h once per instruction set, so those carry a toggle of their own.
        if file.endswith(".h") and not file.endswith("-inl.h") and "#pragma once" not in lines:
            self.breach(file, 1, "a header without '#pragma once'")
        code = "\n".join(line for line in lines if not line.lstrip().startswith(("//", "#include")))
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                self.breach(file, number, "unfinished work is a line of docs/limits.md, not a note in the code")
            if m := INCLUDE.match(line):
                self.check_include(file, number, m[1], m[2])
            if file.endswith(".cc") and (m := USING.match(line)) and len(re.findall(rf"\b{m[1]}\b", code)) == 1:
                self.breach(file, number, f"nothing uses '{m[1]}'")

    def check_private_names(self, file: str, lines: list[str]) -> None:
        """Names of unnamed namespaces differ below a folder of src/, as its files are compiled as one; an alias that means
        the same may be there twice."""
        spaces: list[str] = []
        for number, line in enumerate(lines, 1):
            if m := NAMESPACE.match(line):
                spaces.append(m[1])
            elif line.startswith("}  // namespace") and spaces:
                spaces.pop()
            elif "" in spaces and (m := DEFINED.match(line)):
                name = next(group for group in m.groups() if group)
                key = ("/".join(file.split("/")[:2]), "::".join(spaces), name)
                other, at, text = self.private_names.setdefault(key, (file, number, line))
                if other != file and not (m[1] and text == line):
                    self.breach(file, number, f"'{name}' is in an unnamed namespace of {other}:{at} as well, and both may "
                                              "be compiled as one")

    def check_file(self, file: str) -> None:
        path = ROOT / file
        if path.suffix not in TEXT or not path.is_file():
            return
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")
        if text and not text.endswith("\n"):
            self.breach(file, len(lines), "no newline at the end")
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                self.breach(file, number, "white space at the end of the line")
        if path.suffix in CODE:
            self.check_code(file, lines)
            if file.startswith("src/") and file.endswith(".cc"):
                self.check_private_names(file, lines)
        elif text and path.suffix in {".py", ".sh"} and not any(LICENCE in line for line in lines[:2]):
            self.breach(file, 1, f"no '# {LICENCE}' in the first two lines")
        if path.suffix == ".py":  # no test runs those that measure
            try:
                compile(text, file, "exec")
            except SyntaxError as e:
                self.breach(file, e.lineno or 1, f"no Python: {e.msg}")
        if path.suffix in CODE | {".py", ".sh"}:
            count = len(lines) - 1
            if count > self.sizes["hard"]:
                self.breach(file, count, f"{count} lines; the cap is {self.sizes['hard']}")
            elif count > self.sizes["warn"]:
                self.warnings.append(f"{file}: {count} lines; one idea each?")

    def check_folders(self, files: list[str]) -> None:
        folders: dict[str, int] = {}
        for file in files:
            path = pathlib.Path(file)
            if path.parts[0] == "src" and path.suffix in CODE:
                folders[str(path.parent)] = folders.get(str(path.parent), 0) + 1
        for folder, count in folders.items():
            if count > self.sizes["files"]:
                self.breach(folder, 1, f"{count} files; the cap is {self.sizes['files']}")

    def check_standalone(self, headers: list[str]) -> None:
        compiler = os.environ.get("CXX", "c++")

        def compile_alone(header: str) -> tuple[str, str]:
            command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-x", "c++", "-Iinclude", "-isystem",
                       "/usr/include/eigen3", "-"]
            source = f'#include "{header.removeprefix("include/")}"\n'
            done = subprocess.run(command, cwd=ROOT, input=source, capture_output=True, text=True)
            return header, done.stderr if done.returncode else ""

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for header, errors in pool.map(compile_alone, headers):
                if errors:
                    self.breach(header, 1, "does not compile alone:\n" + errors.rstrip())


def main() -> int:
    checker = Checker()
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    files = [f for f in listing.stdout.split("\0") if f]
    checker.check_table()
    for file in files:
        checker.check_file(file)
    checker.check_folders(files)
    if "--no-compile" not in sys.argv:
        checker.check_standalone([f for f in files if f.startswith("include/") and f.endswith(".h")])
    for warning in checker.warnings:
        print("warning:", warning)
    for breach in checker.breaches:
        print(breach)
    code = sum(pathlib.Path(f).suffix in CODE for f in files)
    print(f"layout: {len(files)} files, {code} of code, {len(checker.breaches)} breaches")
    return 1 if checker.breaches else 0


if __name__ == "__main__":
    sys.exit(main())
