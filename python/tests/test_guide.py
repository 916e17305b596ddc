"""The examples of the guide's page, and of the docstrings."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import warnings

import pytest
from conftest import ROOT, needs

import ckpt

needs("numpy")
needs("torch")


def test_the_examples_of_the_guide_run() -> None:
    lines = (ROOT / "docs/src/python.md").read_text(encoding="utf-8").splitlines()
    text = "\n".join("" if line.startswith("```") else line for line in lines)
    page = doctest.DocTestParser().get_doctest(text, {}, "python.md", "docs/src/python.md", 0)
    with warnings.catch_warnings():
        results = doctest.DocTestRunner().run(page)
    assert results.failed == 0 and results.attempted > 20


MODULES = [found.name for found in pkgutil.walk_packages(ckpt.__path__, "ckpt.")]


@pytest.mark.parametrize("name", ["ckpt", *(name for name in MODULES if not name.endswith("__main__"))])
def test_the_examples_of_a_module_run(name: str) -> None:
    with warnings.catch_warnings():
        assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_what_users_call_has_a_docstring_and_most_of_it_an_example() -> None:
    named = [getattr(ckpt, name) for name in ckpt.__all__ if name != "__version__"]
    assert all(each.__doc__ for each in named)
    functions = [each for each in named if callable(each) and not isinstance(each, type) and each is not ckpt.mappings]
    assert len(functions) > 9 and all(">>>" in (each.__doc__ or "") for each in functions)
