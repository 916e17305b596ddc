"""Safetensors files of NumPy arrays.

>>> import os, tempfile, numpy
>>> from ckpt.safetensors.numpy import load_file, save_file
>>> name = os.path.join(tempfile.mkdtemp(), "model.safetensors")
>>> save_file({"w": numpy.arange(6).reshape(2, 3).T}, name)
>>> load_file(name)["w"].tolist()
[[0, 3], [1, 4], [2, 5]]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ckpt._reading import StrPath
from ckpt.safetensors import _core

if TYPE_CHECKING:
    import numpy

__all__ = ["load", "load_file", "save", "save_file"]


def save(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """A file of these arrays, in memory."""
    return _core.save(tensor_dict, metadata)


def save_file(
    tensor_dict: Mapping[str, Any], filename: StrPath, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a file of these arrays, whatever their strides and byte order. It appears complete, or not at all."""
    _core.save_file(tensor_dict, filename, metadata)


def load(data: bytes) -> dict[str, numpy.ndarray[Any, Any]]:
    """The arrays of a file in memory; they are copies, and writable."""
    import numpy

    found = {}
    for name, native, shape, start, end in _core.decoded(data):
        array = numpy.empty(shape, _core.numpy_dtype(native))
        if start < end:
            array.reshape(-1).view(numpy.uint8)[:] = numpy.frombuffer(data, numpy.uint8, end - start, start)
        found[name] = array
    return found


def load_file(filename: StrPath, *, backend: str = "mmap") -> dict[str, numpy.ndarray[Any, Any]]:
    """Reads all arrays of a file; they are writable. Both backends read into fresh memory.

    Small arrays share memory of up to 256 KiB, which stays as long as one of them does.
    """
    _core.check_backend(backend)
    return _core.load_all(_core.open_file(filename), "numpy", "cpu")
