"""What other programs made: outside.py has them write the files, and outside.json lists these and their tensors."""

import base64
import json
import pathlib

from common import Case, Tensor, accept

ROOT = pathlib.Path(__file__).resolve().parent
LISTED = json.loads((ROOT / "outside.json").read_text())


def accepted(codec: str) -> list[Case]:
    return [case(codec, **listed) for listed in LISTED.get(codec, [])]


def case(codec: str, name: str, why: str, entry: str, files: list[str], tensors: dict) -> Case:
    folder = ROOT / codec / "accept" / ("" if files == [entry] else name)
    return accept(name, why, {file: (folder / file).read_bytes() for file in files}, entry, [
        Tensor(own, told["dtype"], told["shape"], value(told["values"])) for own, told in tensors.items()
    ])


def value(stored: str | list[str]) -> bytes | list[bytes]:
    """The bytes of numbers, or those of each text."""
    return base64.b64decode(stored) if isinstance(stored, str) else [base64.b64decode(text) for text in stored]
