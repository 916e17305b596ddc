"""What the tests share: the checkout's examples, and packages that may be missing."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/data/digits"
MODEL = ROOT / "examples/data/digits_saved_model"


def needs(name: str) -> ModuleType:
    """A package that is optional. `CKPT_REQUIRE_PEERS` makes its absence an error."""
    if os.environ.get("CKPT_REQUIRE_PEERS"):
        return importlib.import_module(name)
    return pytest.importorskip(name)


def example(heading: str, shared: Path) -> str:
    """The first block of code below a heading of the guide's page on clusters, with another directory than `/shared`."""
    section = (ROOT / "docs/src/cluster.md").read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    return section.split("```")[1].split("\n", 1)[1].replace("/shared", str(shared))


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
