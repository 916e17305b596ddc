"""Progress of a conversion: a bar on a terminal or in a notebook, or a function of the caller's."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Progress(NamedTuple):
    """How far a conversion is."""

    #: Bytes written.
    bytes: int
    #: Bytes that will be written.
    total: int
    #: What is being done: `stage`, `write`, `finish`, `read back`, `compute`, `sync` or `commit`.
    phase: str


#: Called with the `Progress` about twenty times a second, from the thread that converts.
Callback = Callable[[Progress], object]


def callback(progress: bool | Callback) -> tuple[Callable[[int, int, str], None] | None, Callable[[], None]]:
    """What is called with the progress, and what is called at the end."""
    if progress is False or progress is None:
        return None, lambda: None
    if progress is True:
        bar = _notebook() or _Terminal()
        return bar.show, bar.end
    told = progress

    def tell(written: int, total: int, phase: str) -> None:
        told(Progress(written, total, phase))

    return tell, lambda: None


class _Bar:
    def __init__(self) -> None:
        self.started = time.monotonic()

    def text(self, written: int, total: int, phase: str) -> str:
        share = written / total if total else 1.0
        seconds = max(time.monotonic() - self.started, 1e-3)
        blocks = round(share * 30)
        line = "█" * blocks + "·" * (30 - blocks)
        return f"{share:4.0%} {line} {_size(written)} of {_size(total)}, {_size(written / seconds)}/s  {phase}"


class _Terminal(_Bar):
    """A line on stderr that changes; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.is_terminal = sys.stderr is not None and sys.stderr.isatty()

    def show(self, written: int, total: int, phase: str) -> None:
        if self.is_terminal:
            print(f"\r{self.text(written, total, phase)}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.is_terminal:
            print(file=sys.stderr)


class _Notebook(_Bar):
    """A line in the output of a notebook's cell that changes."""

    def __init__(self, display: Any) -> None:
        super().__init__()
        self.handle = display(self._html("…"), display_id=True, raw=True)

    def _html(self, text: str) -> dict[str, str]:
        return {"text/plain": text, "text/html": f"<pre>{text}</pre>"}

    def show(self, written: int, total: int, phase: str) -> None:
        self.handle.update(self._html(self.text(written, total, phase)), raw=True)

    def end(self) -> None:
        pass


def _notebook() -> _Notebook | None:
    """A bar for a notebook, where one runs: its kernel has imported IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # type: ignore[import-not-found, unused-ignore]

    return _Notebook(display)


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
