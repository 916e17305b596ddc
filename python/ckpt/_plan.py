"""Plans, and what carrying them out returns."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ckpt import _ckpt
from ckpt._errors import LossWarning
from ckpt._progress import Callback, callback
from ckpt._reading import StrPath, pairs, path

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
    #: Bytes that share blocks with the source.
    cloned: int = 0
    #: Whether the source's checksums were left alone, with `check=False`.
    unchecked: bool = False


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
    def output(self) -> str | None:
        """The absolute path or URL of what is written; `None` if no other process can reach it."""
        found: str | None = self._overview["output"]
        return found

    @property
    def notes(self) -> list[str]:
        """Remarks."""
        return list(self._overview["notes"])

    def to_json(self) -> str:
        """The whole plan, which `ckpt run-plan` and `Plan.from_json` take."""
        return self._planned.to_json()

    @property
    def items(self) -> list[int]:
        """How many bytes each item writes. Items are numbered from 0; several processes may run them, in any order."""
        return self._planned.items()

    @property
    def sha256(self) -> str:
        """The plan's SHA-256, in hex: equal for two plans that write the same bytes from the same files."""
        return self._planned.sha256()

    def save(self, file: StrPath, *, overwrite: bool = False) -> None:
        """Writes the plan to a path or URL, for `ckpt.load_plan` and `ckpt run-plan`: as JSON if the name ends in
        `.json`, else compressed. A loss that is not allowed is a `LossyError` here, as it is in `run`.

        The file appears complete, or not at all.
        """
        self._planned.save(path(file), overwrite)

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
            found = self._planned.run(sync, show)
        finally:
            end()
        return self._summary(found)

    def run_items(
        self, items: range | None = None, *, receipts: StrPath, progress: bool | Callback = False, sync: bool = True
    ) -> int:
        """Runs some items, or all, beside other processes that run others; returns how many it ran.

        Each item gets a receipt, a small file in the directory `receipts` (a path or URL), once its bytes are written, with
        `sync` on the disk. Items that have one are not run again. Two processes may run one item: both write the same
        bytes.
        """
        wanted = range(len(self.items)) if items is None else items
        if wanted.step != 1:
            raise ValueError(f"items must be consecutive, not {items!r}")
        show, end = callback(progress)
        try:
            return self._planned.run_items((wanted.start, wanted.stop), path(receipts), sync, show)
        finally:
            end()

    def items_left(self, receipts: StrPath) -> list[int]:
        """The items that have no receipt. It makes the unfinished files where there are none yet, and so fails where the
        output cannot be written."""
        return self._planned.items_left(path(receipts))

    def commit(
        self,
        receipts: StrPath,
        *,
        verify: bool | None = None,
        receipt: StrPath | None = None,
        progress: bool | Callback = False,
        sync: bool = True,
    ) -> Summary:
        """Finishes an output of which all items have receipts, and gives it its name.

        `verify` reads it back first, and compares it with the source; `receipt` names a file for the hashes of all files. An
        output at a URL cannot be read before it has its name: there, both come right after.
        Left out, they are what `ckpt.plan` was given; a plan that was loaded has neither. After an error, everything stays
        for another call; `discard` removes it. What the output does not hold as the source has it is a `LossWarning`.
        """
        show, end = callback(progress)
        try:
            found = self._planned.commit(path(receipts), verify, None if receipt is None else path(receipt), sync, show)
        finally:
            end()
        return self._summary(found)

    def discard(self) -> None:
        """Removes what the items wrote. Receipts stay, and are worth nothing any more."""
        self._planned.discard()

    def _summary(self, text: str) -> Summary:
        found, losses = json.loads(text), self.losses
        for loss in losses:
            warnings.warn(str(loss), LossWarning, stacklevel=3)
        for left in found["left"]:
            _log.warning("%s; the output is complete all the same", left)
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
            cloned=found["cloned"],
            unchecked=found["unchecked"],
        )

    def __repr__(self) -> str:
        found = self._overview
        return f"<ckpt.Plan {found['from']} to {found['to']}: {self.tensors} tensors, {len(self.losses)} losses>"


def load_plan(
    file: StrPath,
    *,
    limits: Mapping[str, int] | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
) -> Plan:
    """Takes up a plan that `Plan.save` or `ckpt plan --output` wrote to a path or URL, perhaps on another machine.

    Source and output must be where they were, under the same absolute paths or URLs. `threads` and `max_memory` are what
    this process may use.

    >>> import ckpt, os, tempfile
    >>> directory = tempfile.mkdtemp()
    >>> plan = os.path.join(directory, "plan.json")
    >>> ckpt.plan("examples/data/digits", os.path.join(directory, "digits.npz")).save(plan)
    >>> ckpt.load_plan(plan)
    <ckpt.Plan tf2 to npz: 15 tensors, 7 losses>
    """
    memory = None if max_memory is None else str(max_memory)
    return Plan(_ckpt.read_plan(path(file), pairs(limits), threads or 0, memory))


def run_items(
    plan: Plan | StrPath,
    items: range | None = None,
    receipts: StrPath = "receipts",
    *,
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: bool | Callback = False,
    sync: bool = True,
) -> int:
    """Runs some items of a plan, or all, and returns how many it ran: what each worker of a cluster calls.

    `plan` is a path or URL, as for `ckpt.load_plan`; `Plan.run_items` says the rest.

    >>> import ckpt, os, tempfile, warnings
    >>> warnings.simplefilter("ignore", ckpt.LossWarning)
    >>> directory = tempfile.mkdtemp()
    >>> plan, receipts = os.path.join(directory, "plan.json"), os.path.join(directory, "receipts")
    >>> ckpt.plan("examples/data/digits", os.path.join(directory, "digits.npz"), item_size="8k").save(plan)
    >>> ckpt.run_items(plan, range(0, 2), receipts), ckpt.run_items(plan, receipts=receipts)
    (2, 4)
    >>> ckpt.commit(plan, receipts).tensors
    15
    """
    loaded = plan if isinstance(plan, Plan) else load_plan(plan, threads=threads, max_memory=max_memory)
    return loaded.run_items(items, receipts=receipts, progress=progress, sync=sync)


def commit(
    plan: Plan | StrPath,
    receipts: StrPath = "receipts",
    *,
    verify: bool | None = None,
    receipt: StrPath | None = None,
    threads: int | None = None,
    max_memory: int | str | None = None,
    progress: bool | Callback = False,
    sync: bool = True,
) -> Summary:
    """Finishes the output of a plan whose items have run, and gives it its name: what one process calls at the end.

    `plan` is a path or URL, as for `ckpt.load_plan`; `Plan.commit` says the rest.

    >>> import ckpt, os, tempfile
    >>> directory = tempfile.mkdtemp()
    >>> plan = os.path.join(directory, "plan.json")
    >>> ckpt.plan("examples/data/digits", os.path.join(directory, "digits.npz")).save(plan)
    >>> try:
    ...     ckpt.commit(plan, directory)
    ... except ckpt.UsageError as error:
    ...     print(error.message)
    no item of this plan has written anything yet
    """
    loaded = plan if isinstance(plan, Plan) else load_plan(plan, threads=threads, max_memory=max_memory)
    return loaded.commit(receipts, verify=verify, receipt=receipt, progress=progress, sync=sync)
