"""The formats that this build knows."""

from __future__ import annotations

import json
from typing import TypedDict

from ckpt import _ckpt


class Format(TypedDict):
    """A format."""

    id: str
    title: str
    extensions: list[str]
    reads: bool
    writes: bool


def formats() -> list[Format]:
    """The formats; `ckpt formats` shows their options, too.

    >>> import ckpt
    >>> "safetensors" in [each["id"] for each in ckpt.formats()]
    True
    """
    found: list[Format] = json.loads(_ckpt.formats())
    return found
