"""An open checkpoint, and its tensors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ckpt import _arrays, _ckpt, _dtypes
from ckpt._errors import TensorNotFoundError, UsageError, make
from ckpt._reading import Architecture, Options, StrPath, path, reading
from ckpt._rows import Rows, rows, split

if TYPE_CHECKING:
    import numpy as np


def open(
    path_: StrPath,
    /,
    format: str | None = None,
    options: Options | None = None,
    architecture: Architecture | None = None,
    *,
    limits: Mapping[str, int] | None = None,
    parts: bool = False,
) -> Checkpoint:
    """Opens a checkpoint, and detects its format. Reads headers only.

    `options` are those of the format, as `ckpt formats` lists them; `architecture` describes the layers where the
    format does not: a dict, a file, the name of a built-in architecture, or a model whose graph is taken; `limits` are
    bounds on what an untrusted file may contain. Quantized weights are the numbers that they stand for; with `parts`, they
    are the tensors that are stored for them.

    >>> import ckpt
    >>> with ckpt.open("examples/data/digits") as checkpoint:
    ...     print(checkpoint.format, len(checkpoint), checkpoint["digits/hidden/kernel"].shape)
    tf2 16 (64, 32)
    """
    return Checkpoint(_ckpt.Source(path(path_), reading(format, options, architecture, limits, parts=parts)))


class _Description(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    axes: tuple[str, ...] | None
    role: str
    metadata: str
    blocks: str | None
    is_text: bool


class Checkpoint(Mapping[str, "Tensor"]):
    """An open checkpoint: a mapping from names to tensors, of which nothing is read before it is asked for.

    Threads may share one. `ckpt.open` makes it; `close`, or the end of a `with` block, closes it.
    """

    def __init__(self, source: _ckpt.Source) -> None:
        self._source = source

    def __getitem__(self, name: str) -> Tensor:
        if not isinstance(name, str):
            raise TypeError(f"a tensor's name is a str, not {type(name).__name__}")
        try:
            return Tensor(self._source, name)
        except UsageError as error:
            if error.tensor is None:
                raise
            missing = TensorNotFoundError(str(error))
            missing.__dict__.update(error.__dict__)
            raise missing from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._source

    def __iter__(self) -> Iterator[str]:
        return iter(self._source.names())

    def __len__(self) -> int:
        return len(self._source)

    @property
    def format(self) -> str:
        """The format's id, such as `tf2`."""
        return self._source.format

    @property
    def path(self) -> str:
        """What was opened."""
        return self._source.path

    @property
    def metadata(self) -> dict[str, Any]:
        """What the checkpoint records beside tensors: by the id of the format that owns it, then by key."""
        found: dict[str, Any] = json.loads(self._source.metadata())
        return found

    @property
    def graph(self) -> dict[str, Any] | None:
        """What the model computes: its inputs, nodes and outputs. `None` where the checkpoint has no graph."""
        text = self._source.graph()
        return None if text is None else json.loads(text)

    @property
    def notes(self) -> list[str]:
        """Remarks of the format's reader."""
        return self._source.notes()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._source.closed

    def close(self) -> None:
        """Closes the checkpoint. What was read before stays valid."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<ckpt.Checkpoint: closed>"
        return f"<ckpt.Checkpoint {self.path!r}: {self.format}, {len(self)} tensors>"

    def _repr_html_(self) -> str:
        from ckpt._html import frame

        return frame(self._source.inspect(False)[1])


class Tensor(_ckpt.Exporter):
    """A tensor of an open checkpoint, or some of its rows. Its elements are read when they are asked for.

    >>> import ckpt
    >>> kernel = ckpt.open("examples/data/digits")["digits/hidden/kernel"]
    >>> kernel
    <ckpt.Tensor 'digits/hidden/kernel': f32 (64, 32)>
    >>> kernel[10:20].shape
    (10, 32)
    >>> memoryview(kernel[0]).format, memoryview(kernel[0]).nbytes
    ('f', 128)
    """

    def __init__(
        self,
        source: _ckpt.Source,
        name: str,
        rows: tuple[int, int] | None = None,
        *,
        one: bool = False,
        known: _Description | None = None,
    ) -> None:
        self._source = source
        self._name = name
        self._rows = rows
        self._one = one
        if known is None:
            dtype, shape, axes, role, metadata, blocks, is_text = source.describe(name)
            labels = None if axes is None else tuple(axes)
            known = _Description(dtype, tuple(shape), labels, role, metadata, blocks, is_text)
        self._known = known

    @property
    def name(self) -> str:
        """The name in the checkpoint."""
        return self._name

    @property
    def dtype(self) -> str:
        """The type of the elements by ckpt's name, such as `f32`, `bf16` or `f8_e4m3`."""
        return self._known.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        whole = self._known.shape
        if self._rows is None:
            return whole
        if self._one:
            return whole[1:]
        start, stop = self._rows
        return (stop - start, *whole[1:])

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def axes(self) -> tuple[str, ...] | None:
        """What each axis means, such as `in` and `out`. `None` where the format does not record it."""
        axes = self._known.axes
        return axes[1:] if axes is not None and self._one else axes

    @property
    def role(self) -> str:
        """What the tensor is for: `weight`, `optimizer`, `counter`, `bookkeeping` or `duplicate`."""
        return self._known.role

    @property
    def metadata(self) -> dict[str, Any]:
        """What the checkpoint records of this tensor alone."""
        found: dict[str, Any] = json.loads(self._known.metadata)
        return found

    @property
    def blocks(self) -> str | None:
        """The encoding of blocks that nobody here can decode, such as `gguf.IQ2_XS`; `bytes(tensor)` has them."""
        return self._known.blocks

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Rows of the tensor, unread, for an index or a slice with step 1; for all else that NumPy takes, an array, of
        which only the rows that the first index names are read."""
        first, others = split(key)
        # A row of a row is no range of stored rows.
        found = None if self._one or not self.shape else rows(first, self.shape[0])
        if found is None:
            return self.numpy()[key]
        part = self._at(found)
        if not others and found.rest in (0, slice(None)):
            return part
        return part.numpy()[others if found.rest == 0 else (found.rest, *others)]

    def _at(self, chosen: Rows) -> Tensor:
        if self._known.blocks is not None:
            raise _opaque(self)
        before = 0 if self._rows is None else self._rows[0]
        part = (before + chosen.start, before + chosen.stop)
        return Tensor(self._source, self._name, part, one=chosen.rest == 0, known=self._known)

    def numpy(self, *, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """The elements as a NumPy array, which is the caller's: writable, in the order of C.

        With `out`, a contiguous array of the same dtype and shape, they are read into that. Strings become an array of
        objects, `bytes` each. A dtype that NumPy lacks, such as `bf16`, needs the package ml_dtypes.
        """
        if self._known.is_text:
            return self._text()
        if self._known.blocks is not None:
            raise _opaque(self)
        if out is not None:
            if tuple(out.shape) != self.shape or out.dtype != _dtypes.numpy_dtype(self.dtype):
                raise ValueError(
                    f"out has {out.dtype} {tuple(out.shape)}; the tensor has {self.dtype} {self.shape}"
                )
            self._source.read_into(self._name, self._rows, out)
            return out
        return _arrays.to_numpy(self._array(), self.dtype, self.shape)

    def _texts(self) -> Any:
        """Strings: an array of NumPy where that is installed, else a list."""
        try:
            return self._text()
        except ModuleNotFoundError:
            return self._source.strings(self._name, self._rows)

    def _text(self) -> np.ndarray[Any, Any]:
        import numpy

        found: np.ndarray[Any, Any] = numpy.empty(self.size, dtype=object)
        found[:] = self._source.strings(self._name, self._rows)
        return found.reshape(self.shape)

    def torch(self, *, device: Any = None) -> Any:
        """The elements as a torch tensor, without another copy on the CPU."""
        if self._known.blocks is not None:
            raise _opaque(self)
        made = _arrays.to_torch(self._array(), self.dtype, self.shape)
        return made if device is None else made.to(device)

    def _array(self) -> _ckpt.Array:
        return self._source.read(self._name, self._rows, self._one)

    def _given(self) -> tuple[str, tuple[int, ...], _ckpt.Array]:
        if self._known.blocks is not None or self._known.is_text:
            raise _opaque(self)
        return self.dtype, self.shape, self._array()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("the elements are in a file: they cannot be had without a copy")
        array = self.numpy()
        if dtype is None:
            return array
        converted: np.ndarray[Any, Any] = array.astype(dtype, copy=False)
        return converted

    def __dlpack__(self, **arguments: Any) -> Any:
        if arguments.get("copy") is True:
            # What is read is a copy already.
            arguments["copy"] = None
        return self._array().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bytes__(self) -> bytes:
        return memoryview(self._array()).tobytes()

    def __repr__(self) -> str:
        rows = "" if self._rows is None else f"[{self._rows[0]}:{self._rows[1]}]"
        return f"<ckpt.Tensor {self._name!r}{rows}: {self.dtype} {self.shape}>"


def _opaque(tensor: Tensor) -> Exception:
    if tensor.blocks is None:
        found = f"elements of {tensor.dtype}"
    else:
        found = f"blocks of {tensor.blocks}"
    message = "the elements are no numbers that can be read"
    text = f"{message} (tensor {tensor.name}): found {found}; bytes(tensor) has them as they are stored"
    return make(kind="unsupported", text=text, message=message, tensor=tensor.name, found=found)
