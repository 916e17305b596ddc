"""Exceptions and warnings.

Every error of `ckpt` is a `CkptError`; its subclasses are the kinds of errors:

>>> import ckpt
>>> try:
...     ckpt.open("no-such-file")
... except FileNotFoundError as error:
...     print(isinstance(error, ckpt.CkptError), error.file)
True no-such-file
"""

from __future__ import annotations

import errno as _errno
import os
from typing import Any


class CkptError(Exception):
    """An error of ckpt, of no other kind than this.

    The attributes state what is known, and are `None` where nothing is: which file, the byte in it, the field, the
    tensor; what was found, what was expected; what to do next.
    """

    message: str = ""
    file: str | None = None
    offset: int | None = None
    field: str | None = None
    tensor: str | None = None
    found: str | None = None
    expected: str | None = None
    help: str | None = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        # What `OSError` itself does forgets `errno` and `filename`.
        known = {name: getattr(self, name, None) for name in ("errno", "filename") if isinstance(self, OSError)}
        return _unpickled, (type(self), self.args, known), self.__dict__


class CorruptError(CkptError, ValueError):
    """The input's bytes break the rules of its format."""


class UnsupportedError(CkptError, ValueError):
    """The input is valid, but has something that is not supported."""


class LimitError(CkptError, ValueError):
    """A limit, or the memory budget, was exceeded."""


class LossyError(CkptError, ValueError):
    """The target cannot hold something that changes what the model computes."""


class MappingError(CkptError, ValueError):
    """The mapping of names is wrong: an unused, missing or colliding name."""


class MismatchError(CkptError, ValueError):
    """Two checkpoints, or an output and its source, differ although they must agree."""


class UsageError(CkptError, ValueError):
    """The caller asked for something impossible: an unknown option, an existing output."""


class TensorNotFoundError(UsageError, KeyError):
    """The checkpoint has no tensor of this name."""


class InputOutputError(CkptError, OSError):
    """The operating system refused; `errno` and `filename` are set where it said why."""


class NotFoundError(InputOutputError, FileNotFoundError):
    """The file does not exist."""


class NotPermittedError(InputOutputError, PermissionError):
    """The system does not permit it."""


class InternalError(CkptError, RuntimeError):
    """A defect of ckpt or of one of its codecs: please report it."""


class LossWarning(UserWarning):
    """A conversion loses something that does not change what the model computes."""


_KINDS: dict[str, type[CkptError]] = {
    "corrupt input": CorruptError,
    "unsupported": UnsupportedError,
    "limit exceeded": LimitError,
    "lossy conversion": LossyError,
    "name mapping": MappingError,
    "mismatch": MismatchError,
    "usage": UsageError,
    "input/output": InputOutputError,
    "internal error": InternalError,
}

_SYSTEM: dict[int, type[InputOutputError]] = {
    _errno.ENOENT: NotFoundError,
    _errno.EACCES: NotPermittedError,
    _errno.EPERM: NotPermittedError,
}


def _unpickled(kind: type[CkptError], args: tuple[Any, ...], known: dict[str, Any]) -> CkptError:
    error = kind(*args)
    for name, value in known.items():
        setattr(error, name, value)
    return error


def make(
    *,
    kind: str,
    text: str,
    message: str,
    file: str | None = None,
    offset: int | None = None,
    field: str | None = None,
    tensor: str | None = None,
    found: str | None = None,
    expected: str | None = None,
    help: str | None = None,
    errno: int | None = None,
) -> CkptError:
    """Makes the exception of a kind; the compiled module calls it."""
    chosen = _KINDS.get(kind, CkptError)
    error: CkptError
    if issubclass(chosen, InputOutputError) and errno is not None:
        chosen = _SYSTEM.get(errno, InputOutputError)
        error = chosen(errno, os.strerror(errno), file)
        error.args = (text,)
    else:
        error = chosen(text)
    error.message, error.file, error.offset, error.field = message, file, offset, field
    error.tensor, error.found, error.expected, error.help = tensor, found, expected, help
    return error
