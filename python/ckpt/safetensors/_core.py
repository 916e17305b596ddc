"""Files in the format safetensors: opened, read in part, written."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ckpt import _arrays, _ckpt, _dtypes
from ckpt._errors import CkptError, InputOutputError, InternalError, NotFoundError
from ckpt._reading import StrPath, path, text_pairs
from ckpt._rows import rows, split

if TYPE_CHECKING:
    _Base = Exception
else:
    try:
        from safetensors import SafetensorError as _Base
    except ModuleNotFoundError:
        _Base = Exception


class SafetensorError(_Base):
    """What is wrong with a file, or with what was asked of it; of safetensors' own class where that is installed."""


class NoDtypeError(SafetensorError, KeyError):
    """The framework has no such dtype. safetensors raises a `KeyError` for a file in memory, and its own error else."""

    def __str__(self) -> str:
        return str(self.args[0])


#: ckpt's names of safetensors' dtypes.
DTYPES: dict[str, str] = {
    **{name.upper(): name for name in _dtypes.SIZES if name[0] != "q" and name not in ("c128", "f4_e2m1")},
    "F4": "f4_e2m1",
}

#: safetensors' names of ckpt's dtypes.
NATIVE: dict[str, str] = {ours: theirs for theirs, ours in DTYPES.items()}
for _missing in ("i4", "i2", "u4", "u2", "f8_e4m3b11fnuz"):
    NATIVE.pop(_missing)

_FRAMEWORKS: dict[str, str] = {
    "np": "numpy",
    "numpy": "numpy",
    "pt": "torch",
    "torch": "torch",
    "pytorch": "torch",
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "flax": "jax",
    "jax": "jax",
    "mlx": "mlx",
    "paddle": "paddle",
}


@contextmanager
def translated() -> Iterator[None]:
    """Errors of ckpt as errors of safetensors. A missing file stays a `FileNotFoundError`."""
    try:
        yield
    except (NotFoundError, InternalError):
        raise
    except CkptError as error:
        raise SafetensorError(str(error)) from error


def open_file(filename: StrPath) -> _ckpt.SafetensorsFile:
    """Opens a file, and reads its header."""
    name = path(filename)
    if os.path.isdir(name):
        raise IsADirectoryError(21, "Is a directory", name)
    with translated():
        return _ckpt.SafetensorsFile(name)


def _opened(name: str, mapped: bool) -> tuple[_ckpt.SafetensorsFile, int | None]:
    """Opens a file; where parts of it will be mapped, with a descriptor of the same file, whatever gets its name later."""
    for _ in range(100 if mapped else 0):
        try:
            descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
        except OSError:
            break  # The other way of opening it says why.
        try:
            file = open_file(name)
            if os.path.samestat(os.fstat(descriptor), os.stat(name)):
                return file, descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    return open_file(name), None


def check_backend(backend: str) -> None:
    """Refuses what is no backend."""
    if backend not in ("mmap", "pread"):
        raise SafetensorError(f"unknown backend {backend!r}: it is 'mmap' or 'pread'")


def dtype_of(native: str) -> str:
    """ckpt's name of a dtype."""
    if native not in DTYPES:
        raise SafetensorError(f"the dtype {native} is not supported")
    return DTYPES[native]


def flatten(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None) -> tuple[list[_arrays.Given], Any]:
    """Tensors and metadata as the compiled module takes them."""
    checked = None if metadata is None else text_pairs(metadata)
    held = []
    for name, value in tensors.items():
        try:
            pairs = _arrays.of_torch_pairs(name, value)
            name, dtype, shape, data = _arrays.given(name, value) if pairs is None else pairs
        except CkptError as error:
            raise SafetensorError(str(error)) from error
        if name == "__metadata__":
            raise SafetensorError("safetensors reserves the name __metadata__: give the tensor another one")
        if dtype not in NATIVE:
            raise SafetensorError(f"tensor {name!r}: safetensors has no dtype for {dtype}")
        held.append((name, NATIVE[dtype], shape, data))
    return held, checked


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """A file of these tensors, in memory."""
    held, pairs = flatten(tensors, metadata)
    with translated():
        return _ckpt.encode_safetensors(held, pairs)


def save_file(tensors: Mapping[str, Any], filename: StrPath, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a file of these tensors. It appears complete, or not at all."""
    held, pairs = flatten(tensors, metadata)
    with translated():
        try:
            _ckpt.write_safetensors(path(filename), held, pairs)
        except InputOutputError as error:
            raise SafetensorError(str(error)) from error


class safe_open:
    """An open file, of which tensors and parts of them are read when they are asked for.

    Use it in a `with` block. `framework` names the arrays that are returned: `np`, `pt`, `tf`, `flax`, `mlx` or `paddle`.
    """

    def __init__(self, filename: StrPath, framework: str, device: Any = "cpu", *, backend: str = "mmap") -> None:
        check_backend(backend)
        if framework not in _FRAMEWORKS:
            raise SafetensorError(f"framework {framework!r} is invalid: it is one of {', '.join(_FRAMEWORKS)}")
        self._framework = _FRAMEWORKS[framework]
        if self._framework in ("torch", "paddle"):
            __import__(self._framework)
        if self._framework == "numpy" and device not in ("cpu", None):
            raise SafetensorError(f"device {device!r} is invalid: NumPy's arrays are on 'cpu'")
        if self._framework == "torch":
            import torch

            try:
                device = torch.device(device)
            except RuntimeError as error:
                raise SafetensorError(f"device {device!r} is invalid: {error}") from error
        self._device = device
        opened, descriptor = _opened(path(filename), backend == "mmap")
        # What is behind a URL is not mapped.
        self._backend = "pread" if descriptor is None else backend
        self._file: _ckpt.SafetensorsFile | None = opened
        self._descriptor = descriptor
        self._release = None if descriptor is None else weakref.finalize(self, os.close, descriptor)
        self._map: mmap.mmap | None = None
        self._lock = threading.Lock()

    def _opened(self) -> _ckpt.SafetensorsFile:
        if self._file is None:
            raise SafetensorError("File is closed")
        return self._file

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self.offset_keys())

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of their bytes."""
        return [name for name, *_ in self._opened().entries()]

    def metadata(self) -> dict[str, str] | None:
        """The metadata; `None` where the file has none."""
        return self._opened().metadata()

    def get_tensor(self, name: str) -> Any:
        """Reads a tensor."""
        self._entry(name)
        return load_all(self._opened(), self._framework, self._device, [name])[name]

    def get_tensors(self) -> dict[str, Any]:
        """Reads all tensors. Small ones share memory."""
        return load_all(self._opened(), self._framework, self._device)

    def get_slice(self, name: str) -> PySafeSlice:
        """A tensor that is read by indexing it."""
        return PySafeSlice(self, self._entry(name))

    def _entry(self, name: str) -> tuple[str, str, list[int], int, int]:
        found = self._opened().entry(name)
        if found is None:
            raise SafetensorError(f"File does not contain tensor {name}")
        return found

    def _mapped(self) -> mmap.mmap:
        self._opened()
        # A descriptor that is closed meanwhile could be another file's.
        with self._lock:
            if self._map is None:
                if self._descriptor is None:
                    raise SafetensorError("File is closed")
                # Private and writable: libraries warn of memory that is read-only.
                self._map = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_COPY)
            return self._map

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._file = self._descriptor = None
            # Another thread may still copy from the map, which ends with the last array over it.
            self._map = None
            if self._release is not None:
                self._release()


class PySafeSlice:
    """A tensor in a file, of which indexing reads a part. It takes what the framework's own arrays take."""

    def __init__(self, file: safe_open, entry: tuple[str, str, list[int], int, int]) -> None:
        self._file = file
        self._name, self._native, self._shape, self._start, self._end = entry

    def get_shape(self) -> list[int]:
        """The length of each axis."""
        return list(self._shape)

    def get_dtype(self) -> str:
        """The dtype as safetensors calls it, such as `F32`."""
        return self._native

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._part(int(key) if isinstance(key, bool) else key)
        except (IndexError, TypeError, ValueError) as error:
            if isinstance(error, CkptError):
                raise
            raise SafetensorError(str(error)) from error

    def _part(self, key: Any) -> Any:
        file = self._file
        opened = file._opened()
        if self._native == "F4" and file._framework == "torch":
            return self._pairs(key)
        first, others = split(key)
        if sum(part is Ellipsis for part in (first, *others)) > 1:
            raise IndexError("an index has one ellipsis ('...') at most")
        found = rows(first, self._shape[0]) if self._shape else None
        is_plain = found is not None and found.rest == slice(None) and not others
        if found is not None and (file._backend == "pread" or is_plain):
            with translated():
                array = opened.rows(self._name, found.start, found.stop)
            shape = [found.stop - found.start, *self._shape[1:]]
            read = to_framework(file._framework, array, self._native, shape, file._device)
            return read if is_plain else read[(found.rest, *others)]
        if file._backend == "pread" or self._start == self._end:
            return file.get_tensor(self._name)[key]
        return self._from_map(key)

    def _pairs(self, key: Any) -> Any:
        """A part of a tensor of two elements in a byte. torch indexes bytes, and nothing of less than one."""
        import torch

        whole = self._file.get_tensor(self._name)
        return whole.view(torch.uint8)[key].view(whole.dtype)

    def _from_map(self, key: Any) -> Any:
        """Copies from the mapped file, of which only what is copied is read."""
        memory, name = self._file._mapped(), dtype_of(self._native)
        if self._file._framework == "torch":
            import torch

            count = (self._end - self._start) // _dtypes.SIZES[name]
            whole = torch.frombuffer(memory, dtype=_dtypes.torch_dtype(name), count=count, offset=self._start)
            return whole.reshape(self._shape)[key].clone().to(self._file._device)
        import numpy

        array = numpy.ndarray(tuple(self._shape), _dtypes.numpy_dtype(name), memory, offset=self._start)
        part = numpy.array(array[key], order="C")
        if self._file._framework == "numpy":
            return part
        return _imported(self._file._framework, part, self._file._device)


def load_all(
    file: _ckpt.SafetensorsFile, framework: str, device: Any, names: list[str] | None = None
) -> dict[str, Any]:
    """Reads tensors of a file, or else all, as arrays of a framework."""
    with translated():
        loaded = file.load(names)
    if framework != "numpy":
        return {
            name: to_framework(framework, array, native, shape, device, offset)
            for name, native, shape, array, offset in loaded
        }
    from numpy import ndarray

    # Files have many thousand tensors: a call of a function for each would take as long as all else.
    return {
        name: ndarray(shape, numpy_dtype(native), array, offset)  # type: ignore[arg-type]
        for name, native, shape, array, offset in loaded
    }


def to_framework(
    framework: str, array: _ckpt.Array, native: str, shape: Sequence[int], device: Any, offset: int = 0
) -> Any:
    """The memory, from a byte on, as an array of a framework."""
    if framework == "torch":
        made = to_torch(array, native, shape, offset)
        return made if str(device) == "cpu" else made.to(device)
    import numpy

    made = numpy.ndarray(tuple(shape), numpy_dtype(native), array, offset)  # type: ignore[arg-type]
    return made if framework == "numpy" else _imported(framework, made, device)


def to_torch(array: Any, native: str, shape: Sequence[int], offset: int = 0) -> Any:
    """The memory, from a byte on, as a torch tensor. torch counts the bytes of an axis whose elements lie two in a byte."""
    if native != "F4":
        try:
            return _arrays.to_torch(array, _unpacked(native), shape, offset)
        except CkptError as error:
            raise NoDtypeError(str(error)) from error
    try:
        pairs = _dtypes.torch_pairs()
    except CkptError as error:
        raise NoDtypeError(str(error)) from error
    if not shape or shape[-1] % 2 != 0:
        raise SafetensorError(f"torch has no tensor of {native} whose last axis has an odd length: {list(shape)}")
    return _arrays.to_torch(array, "u8", [*shape[:-1], shape[-1] // 2], offset).view(pairs)


def _unpacked(native: str) -> str:
    """ckpt's name of a dtype whose elements are whole bytes."""
    name = dtype_of(native)
    if name in ("f4_e2m1", "f6_e2m3", "f6_e3m2"):
        raise NoDtypeError(f"elements of {native} are packed: no array has them; read them with ckpt.open")
    return name


@cache
def numpy_dtype(native: str) -> Any:
    """NumPy's dtype of whole bytes."""
    try:
        return _dtypes.numpy_dtype(_unpacked(native))
    except CkptError as error:
        raise NoDtypeError(str(error)) from error


def _imported(framework: str, array: Any, device: Any) -> Any:
    if framework == "tensorflow":
        import tensorflow  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return tensorflow.convert_to_tensor(array)
    if framework == "jax":
        import jax.numpy  # type: ignore[import-not-found, unused-ignore]

        return jax.numpy.array(array)
    if framework == "mlx":
        import mlx.core  # type: ignore[import-not-found, unused-ignore]

        return mlx.core.array(array)
    import paddle  # type: ignore[import-not-found, unused-ignore]

    return paddle.to_tensor(array, place=device)


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """A tensor's memory, which must stay as it is until it is written."""

    dtype: str
    shape: Sequence[int]
    data_ptr: int
    data_len: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _native(self.dtype))
        object.__setattr__(self, "shape", list(self.shape))


def _native(dtype: str) -> str:
    ours = _dtypes.OURS.get(dtype, dtype.lower() if dtype != "F4" else "f4_e2m1")
    if ours not in NATIVE:
        raise SafetensorError(f"dtype {dtype} is not covered")
    return NATIVE[ours]


def _specified(tensors: Mapping[str, Any]) -> list[_arrays.Given]:
    held: list[_arrays.Given] = []
    for name, spec in tensors.items():
        if isinstance(spec, Mapping):
            held.append((name, _native(spec["dtype"]), tuple(spec["shape"]), spec["data"]))
            continue
        memory = (ctypes.c_char * spec.data_len).from_address(spec.data_ptr) if spec.data_len else b""
        held.append((name, spec.dtype, tuple(spec.shape), memory))
    return held


def serialize(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """A file of these `TensorSpec`s, or dicts with `dtype`, `shape` and `data`, in memory."""
    with translated():
        return _ckpt.encode_safetensors(_specified(tensor_dict), None if metadata is None else dict(metadata))


def serialize_file(
    tensor_dict: Mapping[str, Any], filename: StrPath, metadata: Mapping[str, str] | None = None
) -> None:
    """As `serialize`, written to a file."""
    pairs = None if metadata is None else dict(metadata)
    with translated():
        _ckpt.write_safetensors(path(filename), _specified(tensor_dict), pairs)


def deserialize(bytes: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The tensors of a file in memory, as dicts with `dtype`, `shape` and `data`."""
    return [
        (name, {"dtype": native, "shape": shape, "data": bytearray(memoryview(bytes)[start:end])})
        for name, native, shape, start, end in decoded(bytes)
    ]


def decoded(data: bytes) -> list[tuple[str, str, list[int], int, int]]:
    """The tensors of a file in memory, and where their bytes are."""
    with translated():
        entries, _ = _ckpt.decode_safetensors(data)
    return entries

