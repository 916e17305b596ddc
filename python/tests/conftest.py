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


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
