"""Codecs that a process adds: plugins, and those that are written in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NotRequired, Protocol, TypedDict

from ckpt import _ckpt
from ckpt._dtypes import SIZES
from ckpt._errors import CkptError, UnsupportedError
from ckpt._reading import StrPath, path

__all__ = ["Codec", "CodecInput", "Contents", "Layout", "Literal", "PlacedTensor", "StoredTensor", "load_plugin", "register"]

CodecInput = _ckpt.CodecInput


class StoredTensor(TypedDict):
    """A tensor, and where its bytes are: row-major and little-endian, at `offset` of the file `files[file]`.

    A tensor that is stored otherwise has no `offset`; then `Contents` has `placements`, in the form that plans have.
    """

    name: str
    dtype: str
    shape: Sequence[int]
    offset: NotRequired[int]
    file: NotRequired[int]


class Contents(TypedDict):
    """What a checkpoint holds. Without `files`, the bytes are in the file that the user named.

    It can also have the other keys of the form: `metadata`, `graph`, `losses`, `notes`, ….
    """

    tensors: Sequence[StoredTensor]
    files: NotRequired[Sequence[str]]


class PlacedTensor(TypedDict):
    """Where a tensor goes: row-major and little-endian, at `offset` of the file `files[file]`."""

    #: Its place in the checkpoint's list of tensors.
    tensor: int
    offset: int
    file: NotRequired[int]


class OutputFile(TypedDict):
    """A file that is written; its length in bytes."""

    name: str
    len: int


class Literal(TypedDict):
    """Bytes at a place of a file that belong to no tensor: headers, padding."""

    offset: int
    bytes: bytes
    file: NotRequired[int]


class Layout(TypedDict):
    """What is written. It can also have the other keys of the form, such as `losses`."""

    files: Sequence[OutputFile]
    literals: Sequence[Literal]
    placements: Sequence[PlacedTensor]


class Codec(Protocol):
    """A format, as a class. A format that is written also has

        def place(self, checkpoint, name: str, options: Mapping[str, str]) -> Layout

    which decides where the tensors of `checkpoint["tensors"]` go (each is a dict of `name`, `dtype`, `shape`, `nbytes` and more),
    and `finish(self, layout, written)`, which returns literals that depend on checksums, if it has any.

    An exception of this package keeps its kind: raise `ckpt.CorruptError` for bytes that break the rules of the format. Any other
    is an error that names the codec.
    """

    #: The name that `format=` takes, and what people call the format.
    id: str
    title: str
    #: Endings of file names, without the dot.
    extensions: Sequence[str]
    #: The dtypes that can be written as they are.
    dtypes: Sequence[str]

    def probe(self, input: CodecInput) -> bool:
        """Whether the input is of this format. Looks at as little as decides."""
        ...

    def read(self, input: CodecInput, options: Mapping[str, str]) -> Contents:
        """Reads everything but the bytes of tensors."""
        ...


#: What a format has that states nothing else.
_DEFAULTS: dict[str, Any] = {"extensions": (), "dtypes": (), "keeps": (), "options": (), "free_names": True}


class _Adapter:
    """A codec as the compiled half calls it: whatever it returns has the keys of the forms."""

    def __init__(self, codec: Any) -> None:
        self.codec = codec

    def description(self) -> dict[str, Any]:
        known = {name: getattr(self.codec, name, value) for name, value in _DEFAULTS.items()}
        known |= {"id": self.codec.id, "title": getattr(self.codec, "title", self.codec.id)}
        known["reads"] = ["all"] if hasattr(self.codec, "read") else []
        known["writes"] = ["all"] if hasattr(self.codec, "place") else []
        return {name: list(value) if isinstance(value, (tuple, set, frozenset)) else value for name, value in known.items()}

    def probe(self, input: CodecInput) -> Any:
        try:
            verdict = self.codec.probe(input)
        except CkptError:
            # A codec that reads files need not think of directories.
            if not input.is_directory:
                raise
            verdict = False
        return {"certain": "its codec recognizes it"} if verdict else "no"

    def read(self, input: CodecInput, options: Mapping[str, str]) -> dict[str, Any]:
        found = dict(self.codec.read(input, options))
        found.setdefault("files", [input.entry])
        tensors = [dict(tensor) for tensor in found["tensors"]]
        if "placements" not in found:
            found["placements"] = [_stored(number, tensor) for number, tensor in enumerate(tensors)]
        found["tensors"] = tensors
        return found

    def place(self, checkpoint: dict[str, Any], name: str, options: Mapping[str, str]) -> dict[str, Any]:
        tensors = checkpoint["tensors"]
        for tensor in tensors:
            tensor["nbytes"] = prod(tensor["shape"]) * SIZES.get(tensor["dtype"], 0)
        found = dict(self.codec.place(checkpoint, name, options))
        found["placements"] = [
            each if "extents" in each else _placement(each["tensor"], tensors[each["tensor"]], each["offset"], each.get("file", 0))
            for each in found["placements"]
        ]
        found["literals"] = [_literal(each) for each in found.get("literals", ())]
        return found

    def finish(self, layout: dict[str, Any], written: list[dict[str, Any]]) -> list[Literal]:
        finish = getattr(self.codec, "finish", None)
        return [] if finish is None else [_literal(each) for each in finish(layout, written)]


def _stored(number: int, tensor: dict[str, Any]) -> dict[str, Any]:
    return _placement(number, tensor, tensor.pop("offset"), tensor.pop("file", 0))


def _placement(number: int, tensor: Mapping[str, Any], offset: int, file: int) -> dict[str, Any]:
    shape, dtype = tensor["shape"], tensor["dtype"]
    if dtype not in SIZES:
        raise UnsupportedError(f"'{tensor['name']}' has the dtype {dtype}, whose elements have no width: give it extents, or no place")
    return {
        "tensor": number,
        "name": tensor["name"],
        "extents": [{"file": file, "offset": offset, "len": prod(shape) * SIZES[dtype]}],
        "encoding": {"dtype": dtype, "endian": "little", "order": list(range(len(shape))), "packing": "bytes"},
    }


def _literal(literal: Mapping[str, Any]) -> Literal:
    return {"file": literal.get("file", 0), "offset": literal["offset"], "bytes": bytes(literal["bytes"])}


def register(codec: Codec) -> None:
    """Adds a codec: `open`, `convert`, `save` and every other function of this process then know its format.

    A codec of the same `id` that was registered before is replaced; a format that comes with the package is not. Codecs are
    objects of a process: register them in each worker of a cluster, too.

    >>> import ckpt
    >>> class Raw:
    ...     id, title, extensions = "raw", "Raw floats", ["f32raw"]
    ...     def probe(self, input):
    ...         return input.entry.endswith(".f32raw")
    ...     def read(self, input, options):
    ...         return {"tensors": [{"name": "x", "dtype": "f32", "shape": [input.size() // 4], "offset": 0}]}
    >>> ckpt.register(Raw())
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.f32raw")
    >>> _ = path.write_bytes(bytes(8))
    >>> ckpt.open(path)["x"]
    <ckpt.Tensor 'x': f32 (2,)>
    """
    _ckpt.register_codec(_Adapter(codec))


def load_plugin(file: StrPath) -> str:
    """Adds the codec of a plugin, a WebAssembly module, and returns the id of its format.

    Every function of this process then knows the format; a plugin of the same id that was loaded before is replaced. A plugin
    can read the files of the input that it is asked about, and nothing else. Load it in each worker of a cluster, too.

    >>> import ckpt
    >>> ckpt.load_plugin("shelf.wasm")
    Traceback (most recent call last):
    ckpt._errors.NotFoundError: cannot read the plugin (file shelf.wasm): found No such file or directory (os error 2)
    """
    return _ckpt.load_plugin(path(file))
