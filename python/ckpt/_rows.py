"""Rows: which of them an index needs."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple


class Rows(NamedTuple):
    """Rows to read, and the index that is left for the first axis of what was read."""

    start: int
    stop: int
    rest: int | slice


def rows(first: Any, count: int) -> Rows | None:
    """The rows that the index of the first axis, of so many rows, needs. `None` where it is no integer and no slice.

    >>> rows(-1, 10)
    Rows(start=9, stop=10, rest=0)
    >>> rows(slice(7, 2, -2), 10)
    Rows(start=3, stop=8, rest=slice(None, None, -2))
    """
    if isinstance(first, slice):
        start, stop, step = first.indices(count)
        chosen = range(start, stop, step)
        if not chosen:
            return Rows(0, 0, slice(None))
        rest = slice(None) if step == 1 else slice(None, None, step)
        return Rows(min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1]) + 1, rest)
    if isinstance(first, bool):
        return None
    try:
        number = index(first)
    except TypeError:
        return None
    if not -count <= number < count:
        raise IndexError(f"index {number} is out of bounds for axis 0 with size {count}")
    return Rows(number % count, number % count + 1, 0)


def split(key: Any) -> tuple[Any, tuple[Any, ...]]:
    """The index of the first axis, and the others. A tuple of none begins with no axis."""
    if isinstance(key, tuple):
        return (key[0], key[1:]) if key else (None, ())
    return key, ()
