"""What the compiled module takes, made of keyword arguments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from ckpt import _ckpt

#: A path of this machine, or the URL of a checkpoint.
StrPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]
#: Options of a format, as `ckpt formats` lists them.
Options = Mapping[str, object]
#: What names a model's layers: a built-in architecture, a file, a model of the same network, or a dict.
Architecture = StrPath | Mapping[str, Any]
#: How tensors are renamed: the name of a built-in mapping or a file, with values for parameters after it, such as
#: `"llama-hf-to-gguf,heads=32"`; a dict; or a function of a name.
Renaming = StrPath | Mapping[str, str] | Callable[[str], str | None]


class Reading(TypedDict):
    """How a checkpoint is opened."""

    format: str | None
    options: list[tuple[str, str]]
    limits: list[tuple[str, str]]
    architecture_name: str | None
    architecture_json: str | None
    architecture_model: str | None
    inputs: list[str]
    parts: bool


class RenamingArguments(TypedDict):
    """How tensors are renamed."""

    name: str | None
    pairs: list[tuple[str, str]]
    inverse: bool


def path(value: StrPath) -> str:
    """The path or URL as a str. `pathlib` would make one slash of the two in a URL."""
    return os.fsdecode(value)


def file_text(name: str) -> str:
    """The text of a small file, by its path or URL."""
    if "://" in name and not os.path.exists(name):
        return _ckpt.read_text(name)
    with open(name, encoding="utf-8") as file:
        return file.read()


def pairs(options: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Options as texts: `True` is `true`, a list is joined by commas."""
    return [(key, _text(value)) for key, value in (options or {}).items()]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(_text(part) for part in value)
    return str(value)


def reading(
    format: str | None = None,
    options: Options | None = None,
    architecture: Architecture | None = None,
    limits: Mapping[str, int] | None = None,
    inputs: list[str] | None = None,
    parts: bool = False,
) -> Reading:
    """How a checkpoint is opened."""
    made = Reading(
        format=format,
        options=pairs(options),
        limits=pairs(limits),
        architecture_name=None,
        architecture_json=None,
        architecture_model=None,
        inputs=inputs or [],
        parts=parts,
    )
    if architecture is None:
        pass
    elif isinstance(architecture, Mapping):
        made["architecture_json"] = json.dumps(dict(architecture))
    else:
        found = path(architecture)
        extension = os.path.splitext(found)[1]
        if extension == ".json":
            made["architecture_json"] = file_text(found)
        elif extension == ".toml":
            import tomllib

            made["architecture_json"] = json.dumps(tomllib.loads(file_text(found)))
        elif extension or "://" in found or os.path.exists(found):
            made["architecture_model"] = found
        else:
            made["architecture_name"] = found
    return made


def _name(given: Any, of: str | None = None) -> str:
    """A tensor's name, or the new one `of` another."""
    whose = "a name in map=" if of is None else f"the new name of {of!r}"
    return text(whose, given)


def text(what: str, given: Any) -> str:
    """A str that UTF-8 can hold."""
    if not isinstance(given, str):
        raise TypeError(f"{what} is a str, not {type(given).__name__}: {given!r}")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is no text that UTF-8 can hold: {given!r}") from None
    return given


def text_pairs(metadata: Mapping[str, str]) -> dict[str, str]:
    """Metadata that maps str to str."""
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata maps str to str, not {key!r} to {value!r}")
    return dict(metadata)


def renaming(
    given: Renaming | None, inverse: bool, names: Callable[[], list[str]]
) -> tuple[RenamingArguments | None, list[str]]:
    """How tensors are renamed, and which a function left out by returning `None`."""
    if given is None:
        if inverse:
            raise TypeError("inverse=True needs map=")
        return None, []
    if isinstance(given, Mapping) or callable(given):
        targets = given if isinstance(given, Mapping) else {name: given(name) for name in names()}
        left_out = [name for name, target in targets.items() if target is None]
        kept = [(_name(name), _name(target, name)) for name, target in targets.items() if target is not None]
        return RenamingArguments(name=None, pairs=kept, inverse=inverse), left_out
    return RenamingArguments(name=path(given), pairs=[], inverse=inverse), []
