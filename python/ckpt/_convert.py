"""Conversions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from ckpt import _ckpt
from ckpt._checkpoint import Checkpoint
from ckpt._plan import Plan, Summary
from ckpt._progress import Callback
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
    keep_quantized: bool
    allow: list[str]
    strict: bool
    overwrite: bool
    resume: bool
    verify: bool
    clone: str
    check: bool
    receipt: str | None
    threads: int
    max_memory: str | None
    item_size: str | None


def several(given: str | Iterable[str] | None) -> list[str]:
    """One text, or several."""
    if given is None:
        return []
    return [given] if isinstance(given, str) else list(given)


def plan(
    input: StrPath | Checkpoint,
    output: StrPath,
    *,
    to: str | None = None,
    map: Renaming | None = None,
    inverse: bool = False,
    transform: str | Iterable[str] | None = None,
    dtype: str | None = None,
    keep_quantized: bool = False,
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
    clone: str = "auto",
    check: bool = True,
    code: str | None = None,
    receipt: StrPath | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    item_size: int | str | None = None,
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
        keep_quantized=keep_quantized,
        allow=several(allow),
        strict=strict,
        overwrite=overwrite,
        resume=resume,
        verify=verify,
        clone=clone,
        check=check,
        receipt=None if receipt is None else path(receipt),
        threads=threads or 0,
        max_memory=None if max_memory is None else str(max_memory),
        item_size=None if item_size is None else str(item_size),
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
    keep_quantized: bool = False,
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
    clone: str = "auto",
    check: bool = True,
    code: str | None = None,
    receipt: StrPath | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    item_size: int | str | None = None,
    progress: bool | Callback = False,
    sync: bool = True,
) -> Summary:
    """Converts a checkpoint. The output appears complete, or not at all; Ctrl-C leaves nothing.

    The format of `input` is detected, or named with `format`; that of `output` follows from its name, or is named with
    `to`.

    - `map` renames tensors: the name of a built-in mapping, a mapping file, a dict of names, or a function of a name,
      which leaves a tensor out by returning `None`. Values for a mapping's parameters follow its name, as in
      `"llama-hf-to-gguf,heads=32,kv_heads=8"`. `inverse` reads a mapping backwards.
    - `dtype` is what floating-point weights become, such as `"bf16"`. Quantized weights become the numbers that they stand
      for; `keep_quantized` carries the tensors that are stored for them.
    - `include` and `exclude` are patterns of names.
    - `options` are those of both formats: each goes to the one that knows it. One that both know is an error: open the
      input with `ckpt.open`, which takes those for reading; beside an open checkpoint, all are the output's.
    - `code` is the name of a file beside the output for the program of PyTorch modules, with `map="keras-to-torch"`.
    - `resume` goes on where the same conversion was killed, and keeps what it had written as far as that is right.
    - `receipt` names a file for the hashes of all files, which `ckpt.check_receipt` compares with them.
    - `item_size` is the size of an item, the unit of work that `resume` and several processes know: 1/32 of the output,
      within 1 MiB and 64 MiB, if left out.
    - `allow` names kinds of losses that may change what the model computes; `strict` stops at every loss.
    - `verify` reads the output back and compares it with the source before it gets its name.
    - `clone` says whether the output shares blocks with the source, on file systems that can: `"auto"`, `"never"`, or
      `"always"`, which makes it an error where a tensor cannot be shared.
    - `check=False` does not compare the checksums that the source has; `resume` then keeps nothing.
    - `progress` shows a bar, or is called with a `ckpt.Progress`.

    >>> import ckpt, tempfile, os, warnings
    >>> warnings.simplefilter("ignore", ckpt.LossWarning)
    >>> output = os.path.join(tempfile.mkdtemp(), "digits.npz")
    >>> summary = ckpt.convert("examples/data/digits", output, exclude="adam/**", map=lambda name: name.lower())
    >>> summary.tensors
    5
    """
    made = plan(
        input, output, to=to, map=map, inverse=inverse, transform=transform, dtype=dtype,
        keep_quantized=keep_quantized, include=include, exclude=exclude, options=options, format=format, architecture=architecture, limits=limits, allow=allow,
        strict=strict, overwrite=overwrite, resume=resume, verify=verify, clone=clone, check=check, code=code,
        receipt=receipt, threads=threads, max_memory=max_memory, item_size=item_size,
    )  # fmt: skip
    return made.run(progress=progress, sync=sync)
