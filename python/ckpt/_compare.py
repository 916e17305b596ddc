"""Checkpoints, described, hashed and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckpt import _ckpt
from ckpt._checkpoint import Checkpoint
from ckpt._forward import Inputs, given
from ckpt._html import frame
from ckpt._reading import Architecture, Options, Renaming, StrPath, file_text, path, reading, renaming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt._schemas import DigestJson, DifferenceJson, InspectionJson, VerificationJson


@contextmanager
def opened(
    checkpoint: StrPath | Checkpoint,
    format: str | None = None,
    options: Options | None = None,
    architecture: Architecture | None = None,
    limits: Mapping[str, int] | None = None,
    inputs: list[str] | None = None,
) -> Iterator[_ckpt.Source]:
    """An open checkpoint as it is; a path, opened and closed again."""
    if isinstance(checkpoint, Checkpoint):
        yield checkpoint._source
        return
    source = _ckpt.Source(path(checkpoint), reading(format, options, architecture, limits, inputs))
    try:
        yield source
    finally:
        source.close()


@dataclass(frozen=True)
class Inspection:
    """What is in a checkpoint."""

    #: As `ckpt inspect --format json` prints it.
    report: InspectionJson
    _page: str

    @property
    def format(self) -> str:
        """The format's id."""
        return self.report["format"]

    def html(self) -> str:
        """A page that stands alone: layers, tensors, distributions."""
        return self._page

    def _repr_html_(self) -> str:
        return frame(self._page)

    def __repr__(self) -> str:
        return f"<ckpt.Inspection {self.report['path']!r}: {self.format}, {len(self.report['tensors'])} tensors>"


def inspect(checkpoint: StrPath | Checkpoint, *, stats: bool = False, **how: Any) -> Inspection:
    """Describes a checkpoint. With `stats`, reads all values, in bounded memory, and verifies their checksums.

    Keyword arguments are those of `ckpt.open`.

    >>> import ckpt
    >>> ckpt.inspect("examples/data/digits")
    <ckpt.Inspection 'examples/data/digits': tf2, 16 tensors>
    """
    with opened(checkpoint, **how) as source:
        report, page = source.inspect(stats)
    return Inspection(json.loads(report), page)


@dataclass(frozen=True)
class Digest:
    """The hash of what a checkpoint holds, whatever its format."""

    #: Of all tensors.
    sha256: str
    #: By the tensors' names.
    tensors: dict[str, str]
    #: As `ckpt hash --format json` prints it.
    report: DigestJson

    def __str__(self) -> str:
        return self.sha256


def hash(checkpoint: StrPath | Checkpoint, *, threads: int | None = None, **how: Any) -> Digest:
    """Hashes the tensors of a checkpoint: equal for the same names and values in any format.

    Keyword arguments are those of `ckpt.open`.

    >>> import ckpt
    >>> len(ckpt.hash("examples/data/digits").sha256)
    64
    """
    with opened(checkpoint, **how) as source:
        report: DigestJson = json.loads(source.digest(threads or 0))
    return Digest(report["sha256"], {each["name"]: each["sha256"] for each in report["tensors"]}, report)


@dataclass(frozen=True)
class Difference:
    """How two checkpoints differ, tensor by tensor. True where they agree."""

    #: Whether both have the same tensors, all within the tolerance.
    agrees: bool
    #: As `ckpt diff --format json` prints it.
    report: DifferenceJson

    @property
    def only_in_a(self) -> list[str]:
        """Names that only the first one has."""
        return self.report["only_in_a"]

    @property
    def only_in_b(self) -> list[str]:
        """Names that only the second one has."""
        return self.report["only_in_b"]

    @property
    def different(self) -> list[str]:
        """Names, in the first one, of tensors outside the tolerance or not comparable."""
        return [each["name"] for each in self.report["tensors"] if each["outcome"] not in ("equal", "close")]

    def __bool__(self) -> bool:
        return self.agrees


def diff(
    a: StrPath | Checkpoint, b: StrPath | Checkpoint, *, atol: float | None = None, rtol: float | None = None
) -> Difference:
    """Compares two checkpoints, whatever their formats. `a` is the reference: `|b - a| <= atol + rtol * |a|`. Without a
    tolerance, all bits must be equal.

    >>> import ckpt
    >>> bool(ckpt.diff("examples/data/digits", "examples/data/digits"))
    True
    """
    with opened(a) as first, opened(b) as second:
        found = json.loads(_ckpt.diff(first, second, atol, rtol))
    return Difference(found["agrees"], found["report"])


@dataclass(frozen=True)
class Verification:
    """Whether two checkpoints compute the same. True where they do."""

    #: Whether they agree, within the rule that the report states.
    passes: bool
    #: As `ckpt verify --format json` prints it.
    report: VerificationJson
    _page: str

    @property
    def verdict(self) -> str:
        """The verdict in a word."""
        return self.report["verdict"]

    def html(self) -> str:
        """The report as a page that stands alone."""
        return self._page

    def _repr_html_(self) -> str:
        return frame(self._page)

    def __bool__(self) -> bool:
        return self.passes

    def __repr__(self) -> str:
        return f"<ckpt.Verification: {self.verdict}>"


def verify(
    a: StrPath | Checkpoint,
    b: StrPath | Checkpoint,
    inputs: Inputs | None = None,
    *,
    map: Renaming | None = None,
    inverse: bool = False,
    seed: int = 0,
    batch: int = 8,
    device: str | Iterable[str] = "cpu",
    arithmetic: str = "f32",
    per_layer: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    max_memory: int | str | None = None,
) -> Verification:
    """Runs both checkpoints on the same inputs and compares what they compute; where one has no graph, compares tensors.

    `a` is the reference. `inputs` are as for `ckpt.run`; random by default. `arithmetic` is `f32`, or `fast` for a CPU that
    fuses products with their sums. `map` leads from the names of `a` to those
    of `b`.

    >>> import ckpt
    >>> ckpt.verify("examples/data/digits_saved_model", "examples/data/digits_saved_model")
    <ckpt.Verification: pass>
    """
    arrays = given(inputs, seed, batch)
    named = [name for name, *_ in arrays["arrays"] if name is not None]
    with opened(a, inputs=named) as first, opened(b, inputs=named) as second:
        renamed, _ = renaming(map, inverse, first.names)
        passes, report, page = _ckpt.verify(
            first,
            second,
            {
                "renaming": renamed,
                "inputs": arrays,
                "devices": [device] if isinstance(device, str) else list(device),
                "arithmetic": arithmetic,
                "per_layer": per_layer,
                "atol": atol,
                "rtol": rtol,
                "max_memory": None if max_memory is None else str(max_memory),
            },
        )
    return Verification(passes, json.loads(report), page)


@dataclass(frozen=True)
class CheckedReceipt:
    """The files of a conversion that match its receipt."""

    #: How many files.
    files: int
    #: Bytes in all of them.
    bytes: int
    #: Directories that the receipt names and that lie outside the working directory.
    outside: list[str]


def check_receipt(receipt: StrPath, *, root: StrPath | None = None) -> CheckedReceipt:
    """Checks that the files of a conversion, its source and its output, still match the receipt that `receipt=` wrote.

    With `root`, the receipt's paths start there, and nothing outside of it is read. Without, the receipt is trusted: its
    paths start from the working directory, or are absolute. A file that is missing or other is a `MismatchError`.

    >>> import ckpt, os, tempfile, warnings
    >>> warnings.simplefilter("ignore", ckpt.LossWarning)
    >>> folder = tempfile.mkdtemp()
    >>> output, receipt = os.path.join(folder, "digits.npz"), os.path.join(folder, "receipt.json")
    >>> done = ckpt.convert("examples/data/digits", output, receipt=receipt)
    >>> ckpt.check_receipt(receipt).files
    4
    """
    name = path(receipt)
    checked = _ckpt.check_receipt(file_text(name), name, None if root is None else path(root))
    return CheckedReceipt(**json.loads(checked))
