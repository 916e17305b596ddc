#!/usr/bin/env python3
"""The guide's page of the Python package, from its source: a preprocessor of mdbook, which book.toml names.

What `__all__` names comes with its signature, docstring, fields, properties and methods. The source is parsed, not imported.
"""

import ast
import json
import pathlib
import sys
import textwrap
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE, PAGE = ROOT / "python" / "ckpt", "python-api.md"
MARK = "<!-- docs/python_api.py replaces what follows when the guide is built. -->\n"
Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Source:
    """A module's text, and its tree."""

    lines: list[str]
    tree: ast.Module

    @classmethod
    def of(cls, path: pathlib.Path) -> "Source":
        text = path.read_text(encoding="utf-8")
        return cls(text.splitlines(), ast.parse(text))

    def definition(self, name: str) -> Definition | None:
        found = (node for node in self.tree.body if isinstance(node, Definition) and node.name == name)
        return next(found, None)


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    chapters = [item["Chapter"] for item in book["items"] if "Chapter" in item]
    pages = [chapter for chapter in chapters if chapter["path"] == PAGE]
    if len(pages) != 1 or MARK not in pages[0]["content"]:
        sys.exit(f"the guide has no {PAGE} with the line {MARK}")
    introduction, _ = pages[0]["content"].split(MARK)
    pages[0]["content"] = introduction + reference()
    json.dump(book, sys.stdout)


def reference() -> str:
    own = Source.of(PACKAGE / "__init__.py")
    found = [(name, *defined(own, name)) for name in exported(own) if not name.startswith("__")]
    functions = [each for each in found if isinstance(each[2], ast.FunctionDef)]
    errors = [each for each in found if each[1].lines[0] == '"""Exceptions and warnings.']
    classes = [each for each in found if each not in functions and each not in errors]
    drop_in = Source.of(PACKAGE / "safetensors" / "__init__.py")
    also = [(name, *defined(drop_in, name)) for name in exported(drop_in)]
    cluster = Source.of(PACKAGE / "ray.py")
    tasks = [(name, cluster, node) for name in exported(cluster) if (node := cluster.definition(name))]
    parts = []
    for title, prefix, members in (
        ("Functions", "ckpt", functions),
        ("Classes", "ckpt", classes),
        ("Errors and warnings", "ckpt", errors),
        ("On a Ray cluster", "ckpt.ray", tasks),
        ("In place of safetensors", "ckpt.safetensors", also),
    ):
        parts.append(f"## {title}\n")
        parts += [entry(f"{prefix}.{name}", source, node) for name, source, node in members]
    return "\n".join(parts)


def exported(source: Source) -> list[str]:
    """The names in `__all__`."""
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    sys.exit("the package has no __all__")


def defined(source: Source, name: str) -> tuple[Source, Definition]:
    """Where a name that the module imports is defined: in a module, or in the stubs of the compiled one."""
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and any(alias.name == name for alias in node.names):
            stem = PACKAGE.parent.joinpath(*node.module.split("."))
            origin = Source.of(next(path for path in (stem.with_suffix(".pyi"), stem.with_suffix(".py")) if path.exists()))
            found = origin.definition(name)
            if found:
                return origin, found
    sys.exit(f"{name} is in __all__, and is defined nowhere")


def entry(name: str, source: Source, node: Definition) -> str:
    heading = f"### `{name}`\n"
    if isinstance(node, ast.FunctionDef):
        return "\n".join([heading, code(signature(node)), described(node)])
    bases = ", ".join(base for base in map(ast.unparse, node.bases) if not base.startswith("_"))
    parts = [heading, f"A subclass of `{bases}`.\n" if bases else "", described(node), fields(source, node)]
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and shown(member):
            is_property = any(ast.unparse(each) == "property" for each in member.decorator_list)
            title = f"`{member.name}`" + (f": `{ast.unparse(member.returns)}`" if is_property and member.returns else "")
            parts += [f"#### {title}\n", "" if is_property else code(signature(member)), described(member)]
    return "\n".join(part for part in parts if part)


def shown(member: ast.FunctionDef) -> bool:
    return ast.get_docstring(member) is not None and (not member.name.startswith("_") or member.name == "__getitem__")


def signature(node: ast.FunctionDef) -> str:
    """On one line, or an argument a line where that is too long."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = [spaced(argument) for argument in split(ast.unparse(node.args))]
    line = f"{node.name}({', '.join(arguments)}){returns}"
    if len(line) <= 100:
        return line
    inside = "".join(f"    {each},\n" for each in arguments)
    return f"{node.name}(\n{inside}){returns}"


def spaced(argument: str) -> str:
    """With spaces around the sign before the default of an annotated argument."""
    head, sign, default = argument.rpartition("=")
    return f"{head} = {default}" if sign and ":" in head else argument


def split(arguments: str) -> list[str]:
    """At the commas between arguments."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def described(node: Definition) -> str:
    """The docstring, with its examples as code."""
    parts = []
    for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
        text = textwrap.dedent(paragraph)
        parts.append(code(text) if text.startswith(">>>") else f"{text}\n")
    return "\n".join(parts) if ast.get_docstring(node) else ""


def fields(source: Source, node: ast.ClassDef) -> str:
    """A line for each field with a comment before it."""
    rows = []
    for member in node.body:
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            comment, line = [], member.lineno - 2
            while source.lines[line].strip().startswith("#:"):
                comment.insert(0, source.lines[line].strip().removeprefix("#:").strip())
                line -= 1
            if comment:
                rows.append(f"- `{member.target.id}: {ast.unparse(member.annotation)}` — {' '.join(comment)}")
    return "\n".join([*rows, ""]) if rows else ""


if __name__ == "__main__":
    main()
