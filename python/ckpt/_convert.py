"""Conversions."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ckpt import _ckpt
from ckpt._checkpoint import Checkpoint
from ckpt._errors import LossWarning
from ckpt._progress import Callback, callback
from ckpt._reading import (
    Architecture,
    Options,
    Renaming,
    RenamingArguments,
    StrPath,
    pairs,
    path,
    reading,
    renaming,
)

_log = logging.getLogger("ckpt")


@dataclass(frozen=True)
class Loss:
    """One thing that the target does not hold as the source has it."""

    #: What sort of loss, such as `narrowed`: `allow=` takes its name.
    kind: str
    #: The tensor, layer or metadata key.
    subject: str
    #: What happens to it, and why.
    detail: str
    #: Whether what the model computes may change: such a loss stops the conversion unless it is allowed.
    changes_function: bool

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}: {self.detail}"


@dataclass(frozen=True)
class Rounded:
    """A tensor whose values were rounded."""

    #: Its name.
    tensor: str
    #: The largest absolute difference between a value and what is stored for it.
    largest_error: float


@dataclass(frozen=True)
class Resumed:
    """What was kept of a conversion that was killed."""

    #: How many tensors were there, with the right checksums.
    tensors: int
    #: Their bytes.
    bytes: int
    #: Why it began anew, where it did.
    anew: str | None


@dataclass(frozen=True)
class Summary:
    """What a conversion did."""

    #: The files that were written.
    files: list[str]
    #: How many tensors.
    tensors: int
    #: Bytes in all files.
    bytes: int
    #: What the output does not hold as the source has it.
    losses: list[Loss] = field(default_factory=list)
    #: Tensors whose values were rounded.
    rounding: list[Rounded] = field(default_factory=list)
    #: Remarks.
    notes: list[str] = field(default_factory=list)
    #: What comparing the output with the source found, with `verify=True`.
    verification: dict[str, Any] | None = None
    #: The receipt, where one was asked for.
    receipt: str | None = None
    #: What was kept of a conversion that was killed, with `resume=True`.
    resumed: Resumed | None = None


class Settings(TypedDict):
    """What to convert to, and how, as the compiled module takes it."""

    to: str | None
    options: list[tuple[str, str]]
    renaming: RenamingArguments | None
    transforms: list[str]
    code: str | None
    include: list[str]
    exclude: list[str]
    dtype: str | None
    allow: list[str]
    strict: bool
    overwrite: bool
    resume: bool
    verify: bool
    receipt: str | None
    threads: int
    max_memory: str | None


def several(given: str | Iterable[str] | None) -> list[str]:
    """One text, or several."""
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


class Plan:
    """A conversion that was found possible: what it will do, before anything is written."""

    def __init__(self, planned: _ckpt.Planned) -> None:
        self._planned = planned
        self._overview: dict[str, Any] = json.loads(planned.overview())

    @property
    def losses(self) -> list[Loss]:
        """What the output will not hold as the source has it."""
        return [Loss(**loss) for loss in self._overview["losses"]]

    @property
    def tensors(self) -> int:
        """How many tensors will be written."""
        found: int = self._overview["tensors"]
        return found

    @property
    def bytes(self) -> int:
        """How many bytes will be written."""
        found: int = self._overview["bytes"]
        return found

    @property
    def notes(self) -> list[str]:
        """Remarks."""
        return list(self._overview["notes"])

    def to_json(self) -> str:
        """The whole plan, which `ckpt run-plan` and `Plan.from_json` take."""
        return self._planned.to_json()

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Takes up a plan that was saved, here or on another machine that sees the same files."""
        return cls(_ckpt.load_plan(text.encode()))

    def run(self, *, progress: bool | Callback = False, sync: bool = True) -> Summary:
        """Carries the plan out. The output appears complete, or not at all.

        With `sync`, it is on the disk before it gets its name. Losses that do not change what the model computes are
        `LossWarning`s; others that are not allowed are a `LossyError`.
        """
        show, end = callback(progress)
        try:
            found = json.loads(self._planned.run(sync, show))
        finally:
            end()
        losses = self.losses
        for loss in losses:
            warnings.warn(str(loss), LossWarning, stacklevel=2)
        _log.info("wrote %s: %d tensors, %d bytes", ", ".join(found["files"]), found["tensors"], found["bytes"])
        return Summary(
            files=found["files"],
            tensors=found["tensors"],
            bytes=found["bytes"],
            losses=losses,
            rounding=[Rounded(**rounded) for rounded in found["rounding"]],
            notes=self.notes,
            verification=found["verification"],
            receipt=found["receipt"],
            resumed=None if found.get("resumed") is None else Resumed(**found["resumed"]),
        )

    def __repr__(self) -> str:
        found = self._overview
        return f"<ckpt.Plan {found['from']} to {found['to']}: {self.tensors} tensors, {len(self.losses)} losses>"


def plan(
    input: StrPath | Checkpoint,
    output: StrPath,
    *,
    to: str | None = None,
    map: Renaming | None = None,
    inverse: bool = False,
    transform: str | Iterable[str] | None = None,
    dtype: str | None = None,
    include: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] | None = None,
    options: Options | None = None,
    format: str | None = None,
    architecture: Architecture | None = None,
    limits: Mapping[str, int] | None = None,
    allow: str | Iterable[str] | None = None,
    strict: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    verify: bool = False,
    code: str | None = None,
    receipt: StrPath | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> Plan:
    """Plans a conversion; takes what `ckpt.convert` takes. Reads headers only, and writes nothing.

    >>> import ckpt
    >>> plan = ckpt.plan("examples/data/digits", "digits.npz")
    >>> plan
    <ckpt.Plan tf2 to npz: 15 tensors, 7 losses>
    >>> sorted({loss.kind for loss in plan.losses})
    ['bookkeeping-dropped', 'graph-dropped', 'metadata-dropped']
    """
    how, given = reading(format, None, architecture, limits), pairs(options)
    if isinstance(input, Checkpoint):
        if format is not None or architecture is not None:
            raise TypeError("an open checkpoint has a format already: name it, and architecture=, when you open it")
        source: _ckpt.Source | str = input._source
    else:
        source = path(input)
        if given:
            how["options"], given = _ckpt.divide_options(source, how, path(output), to, given)
    if callable(map):
        # A function is called with names, which only an open checkpoint has.
        source = source if isinstance(source, _ckpt.Source) else _ckpt.Source(source, how)

    def names() -> list[str]:
        return source.selected(several(include), several(exclude)) if isinstance(source, _ckpt.Source) else []

    renamed, left_out = renaming(map, inverse, names)
    settings = Settings(
        to=to,
        options=given,
        renaming=renamed,
        transforms=several(transform),
        code=code,
        include=several(include),
        exclude=[*several(exclude), *(_literal(name) for name in left_out)],
        dtype=dtype,
        allow=several(allow),
        strict=strict,
        overwrite=overwrite,
        resume=resume,
        verify=verify,
        receipt=None if receipt is None else path(receipt),
        threads=threads or 0,
        max_memory=None if max_memory is None else str(max_memory),
    )
    return Plan(_ckpt.plan(source, how, path(output), settings))


def _literal(name: str) -> str:
    """The pattern that matches this name alone."""
    escapes = {"*": "{*}", "?": "{?}", "{": "{{", "}": "}}"}
    return "".join(escapes.get(c, c) for c in name)


def convert(
    input: StrPath | Checkpoint,
    output: StrPath,
    *,
    to: str | None = None,
    map: Renaming | None = None,
    inverse: bool = False,
    transform: str | Iterable[str] | None = None,
    dtype: str | None = None,
    include: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] | None = None,
    options: Options | None = None,
    format: str | None = None,
    architecture: Architecture | None = None,
    limits: Mapping[str, int] | None = None,
    allow: str | Iterable[str] | None = None,
    strict: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    verify: bool = False,
    code: str | None = None,
    receipt: StrPath | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: bool | Callback = False,
    sync: bool = True,
) -> Summary:
    """Converts a checkpoint. The output appears complete, or not at all; Ctrl-C leaves nothing.

    The format of `input` is detected, or named with `format`; that of `output` follows from its name, or is named with
    `to`.

    - `map` renames tensors: the name of a built-in mapping, a mapping file, a dict of names, or a function of a name,
      which leaves a tensor out by returning `None`. Values for a mapping's parameters follow its name, as in
      `"llama-hf-to-gguf,heads=32,kv_heads=8"`. `inverse` reads a mapping backwards.
    - `dtype` is what floating-point weights become, such as `"bf16"`.
    - `include` and `exclude` are patterns of names.
    - `options` are those of both formats: each goes to the one that knows it. One that both know is an error: open the
      input with `ckpt.open`, which takes those for reading; beside an open checkpoint, all are the output's.
    - `code` is the name of a file beside the output for the program of PyTorch modules, with `map="keras-to-torch"`.
    - `resume` goes on where the same conversion was killed, and keeps what it had written as far as that is right.
    - `receipt` names a file for the hashes of all files, which `ckpt.check_receipt` compares with them.
    - `allow` names kinds of losses that may change what the model computes; `strict` stops at every loss.
    - `verify` reads the output back and compares it with the source before it gets its name.
    - `progress` shows a bar, or is called with a `ckpt.Progress`.

    >>> import ckpt, tempfile, os, warnings
    >>> warnings.simplefilter("ignore", ckpt.LossWarning)
    >>> output = os.path.join(tempfile.mkdtemp(), "digits.npz")
    >>> summary = ckpt.convert("examples/data/digits", output, exclude="adam/**", map=lambda name: name.lower())
    >>> summary.tensors
    5
    """
    made = plan(
        input, output, to=to, map=map, inverse=inverse, transform=transform, dtype=dtype, include=include,
        exclude=exclude, options=options, format=format, architecture=architecture, limits=limits, allow=allow,
        strict=strict, overwrite=overwrite, resume=resume, verify=verify, code=code, receipt=receipt, threads=threads,
        max_memory=max_memory,
    )  # fmt: skip
    return made.run(progress=progress, sync=sync)
