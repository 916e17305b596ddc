"""Fails if modules or crates depend on each other in a circle, and names the circle.

    .ci/circles.py                 every crate of the workspace
    .ci/circles.py CRATE...        these crates
    .ci/circles.py --edges CRATE   what each module of a crate takes from the others

A module is a file. It depends on the file that defines an item that it names: in a `use`, or in a path with `::`. Re-exports
are followed to the definition; `mod` and `pub use` are no dependencies. Tests (`#[cfg(test)] mod`) are left out.
"""

import json
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOISE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(\#+)".*?"\1|b?r"[^"]*"|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'""", re.DOTALL
)
DEFINITION = re.compile(
    r"^(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|async|unsafe|extern)\s+)*"
    r"(?:fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(?:mut\s+)?([A-Za-z_]\w*)",
    re.MULTILINE,
)
MODULE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;", re.MULTILINE)
TESTS = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*(;|\{)")
USE = re.compile(r"\b(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])(?:r#)?([A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)+)")


@dataclass
class Module:
    """A file of a crate."""

    crate: str
    path: tuple[str, ...]
    file: pathlib.Path
    defined: set[str] = field(default_factory=set)
    # What a `use` brings into scope: the name, and its path.
    imported: dict[str, tuple[str, ...]] = field(default_factory=dict)
    globs: list[tuple[str, ...]] = field(default_factory=list)
    # Paths that the file names, with those of its `use`s that are not re-exports.
    named: set[tuple[str, ...]] = field(default_factory=set)


class Tree:
    """The modules of all crates."""

    def __init__(self) -> None:
        self.modules: dict[tuple[str, tuple[str, ...]], Module] = {}
        self.needs: dict[str, set[str]] = {}
        manifest = ["cargo", "metadata", "--no-deps", "--format-version=1"]
        packages = json.loads(subprocess.run(manifest, cwd=ROOT, check=True, capture_output=True, text=True).stdout)["packages"]
        names = {package["name"] for package in packages}
        for package in packages:
            # Dependencies of tests are no part of the crate.
            found = {need["name"] for need in package["dependencies"] if need["kind"] is None and need["name"] in names}
            self.needs[package["name"]] = found
            for target in package["targets"]:
                if "lib" in target["kind"] or "cdylib" in target["kind"]:
                    self._file(target["name"].replace("-", "_"), (), pathlib.Path(target["src_path"]))

    def _file(self, crate: str, path: tuple[str, ...], file: pathlib.Path) -> None:
        source = file.read_text()
        text = NOISE.sub(lambda match: "" if match[0].startswith("/") else '""', source)
        text = without_tests(text)
        module = Module(crate, path, file)
        self.modules[crate, path] = module
        folder = file.parent if file.name in ("lib.rs", "main.rs", "mod.rs") else file.parent / file.stem
        for name in MODULE.findall(text):
            given = re.search(rf'#\[path = "([^"]+)"\]\s*(?:pub\S*\s+)?mod\s+{name}\s*;', source)
            choices = [file.parent / given[1]] if given else [folder / f"{name}.rs", folder / name / "mod.rs"]
            for choice in choices:
                if choice.exists():
                    self._file(crate, (*path, name), choice)
        module.defined = set(DEFINITION.findall(text))
        for match in USE.finditer(text):
            exported = match[0].lstrip().startswith("pub")
            for name, target in use_tree(match[1]):
                if name == "*":
                    module.globs.append(target)
                else:
                    module.imported[name] = target
                    if not exported:
                        module.named.add(target)
        body = USE.sub("", text)
        for match in PATH.finditer(body):
            module.named.add(tuple(re.split(r"\s*::\s*", match[1])))

    def defining(self, module: Module, path: tuple[str, ...], seen: frozenset = frozenset()) -> Module | None:
        """The module that defines the item with this path, as `module` names it."""
        if (module.crate, module.path, path) in seen or not path:
            return None
        seen = seen | {(module.crate, module.path, path)}
        head, rest = path[0], path[1:]
        if head == "crate":
            return self._inside(self.modules.get((module.crate, ())), rest, seen)
        if head == "self":
            return self._inside(module, rest, seen)
        if head == "super":
            return self._inside(self.modules.get((module.crate, module.path[:-1])), rest, seen)
        if (module.crate, (*module.path, head)) in self.modules or head in module.imported or head in module.defined:
            return self._inside(module, path, seen)
        if (head, ()) in self.modules and head != module.crate:
            return self._inside(self.modules[head, ()], rest, seen)
        return self._inside(module, path, seen)

    def _inside(self, module: Module | None, path: tuple[str, ...], seen: frozenset) -> Module | None:
        if module is None or not path:
            return None
        head, rest = path[0], path[1:]
        if head == "super":
            return self._inside(self.modules.get((module.crate, module.path[:-1])), rest, seen)
        child = self.modules.get((module.crate, (*module.path, head)))
        if child is not None and rest:
            return self._inside(child, rest, seen)
        if head in module.defined:
            return module
        if head in module.imported:
            target = module.imported[head]
            if target[0] == head:
                # A crate, under the name of something in it.
                return self._inside(self.modules.get((head, ())), (*target[1:], *rest), seen)
            return self.defining(module, (*target, *rest), seen)
        if child is None:
            for target in module.globs:
                other = self.at(module, target)
                if other is None or (other.crate, other.path, path) in seen:
                    continue
                found = self._inside(other, path, seen | {(other.crate, other.path, path)})
                if found is not None:
                    return found
        return None

    def at(self, module: Module, path: tuple[str, ...]) -> Module | None:
        """The module with this path, as `module` names it."""
        crate, full = module.crate, list(module.path)
        for number, part in enumerate(path):
            if part == "crate":
                full = []
            elif part == "super":
                full = full[:-1]
            elif part != "self" and number == 0 and (part, ()) in self.modules and (crate, (*full, part)) not in self.modules:
                crate, full = part, []
            elif part != "self":
                full.append(part)
        return self.modules.get((crate, tuple(full)))

    def edges(self, crate: str) -> dict[tuple[str, ...], dict[tuple[str, ...], set[str]]]:
        """For each module of a crate, the modules of the crate that it depends on, and what it takes from each."""
        out: dict[tuple[str, ...], dict[tuple[str, ...], set[str]]] = {}
        for (owner, path), module in self.modules.items():
            if owner != crate:
                continue
            needs = out.setdefault(path, {})
            for named in module.named:
                found = self.defining(module, named)
                if found is not None and found.crate == crate and found.path != path:
                    needs.setdefault(found.path, set()).add("::".join(named[-2:]))
        return out


def without_tests(text: str) -> str:
    """The source without modules of tests."""
    while match := TESTS.search(text):
        end = match.end()
        if match[2] == "{":
            depth = 1
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
        text = text[: match.start()] + text[end:]
    return text


def use_tree(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """The names that a `use` brings into scope, with the path of each."""
    tokens = re.findall(r"[A-Za-z_]\w*|::|[{},*]", text)
    out, prefixes, current, at = [], [], [], 0
    alias = None

    def end() -> None:
        nonlocal current, alias
        if len(current) > (len(prefixes[-1]) if prefixes else 0):
            path = tuple(current)
            if path[-1] == "self":
                path = path[:-1]
            if path[-1] == "*":
                out.append(("*", path[:-1]))
            else:
                out.append((alias or path[-1], path))
        current, alias = list(prefixes[-1]) if prefixes else [], None

    while at < len(tokens):
        token = tokens[at]
        if token == "{":
            prefixes.append(list(current))
        elif token == "}":
            end()
            prefixes.pop()
            # Nothing is left of the group.
            current = list(prefixes[-1]) if prefixes else []
        elif token == ",":
            end()
        elif token == "as":
            at += 1
            alias = tokens[at]
        elif token != "::":
            current.append(token)
        at += 1
    end()
    return out


def circles(edges: dict) -> list[list]:
    """Sets of nodes that reach each other (Tarjan's algorithm, without recursion)."""
    index, low, stack, on_stack, out = {}, {}, [], set(), []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for need in rest:
                if need not in index:
                    index[need] = low[need] = len(index)
                    stack.append(need)
                    on_stack.add(need)
                    work.append((need, iter(edges.get(need, ()))))
                    break
                if need in on_stack:
                    low[node] = min(low[node], index[need])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        circle.append(member)
                        if member == node:
                            break
                    if len(circle) > 1:
                        out.append(sorted(circle))
    return out


def main() -> int:
    arguments = sys.argv[1:]
    tree = Tree()
    crates = sorted({crate for crate, _ in tree.modules})
    if arguments[:1] == ["--edges"]:
        for path, needs in sorted(tree.edges(arguments[1]).items()):
            for other, names in sorted(needs.items()):
                print("::".join(path) or "crate", "->", "::".join(other) or "crate", ":", ", ".join(sorted(names)))
        return 0
    failed = 0
    for circle in circles(tree.needs):
        failed += 1
        print("crates depend on each other:", ", ".join(circle))
    for crate in arguments or crates:
        edges = tree.edges(crate)
        for circle in circles(edges):
            failed += 1
            print(f"{crate}: {len(circle)} modules depend on each other:")
            for path in circle:
                for need in sorted(set(edges[path]) & set(circle)):
                    names = ", ".join(sorted(edges[path][need]))
                    print(f"    {'::'.join(path) or 'crate'} -> {'::'.join(need) or 'crate'}: {names}")
    print(f"{len(tree.modules)} modules of {len(crates)} crates, {failed} circles")
    return 1 if failed or not tree.modules else 0


if __name__ == "__main__":
    sys.exit(main())
