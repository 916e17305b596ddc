"""A drop-in for the package `safetensors`: change the import, and nothing else.

>>> from ckpt.safetensors import safe_open, save_file
>>> import array, os, tempfile
>>> name = os.path.join(tempfile.mkdtemp(), "model.safetensors")
>>> save_file({"w": array.array("f", range(6))}, name, metadata={"format": "np"})
>>> with safe_open(name, framework="np") as file:
...     print(file.keys(), file.metadata(), file.get_slice("w").get_dtype())
['w'] {'format': 'np'} F32

`ckpt.safetensors.numpy` and `ckpt.safetensors.torch` have the functions of the modules of these names; here are those of
NumPy. Arrays are stored right whatever their strides and byte order, files appear complete or not at all, and loaded
arrays are writable.
"""

from __future__ import annotations

from ckpt.safetensors._core import (
    PySafeSlice,
    SafetensorError,
    TensorSpec,
    deserialize,
    safe_open,
    serialize,
    serialize_file,
)
from ckpt.safetensors.numpy import load, load_file, save, save_file

__all__ = [
    "PySafeSlice",
    "SafetensorError",
    "TensorSpec",
    "deserialize",
    "load",
    "load_file",
    "safe_open",
    "save",
    "save_file",
    "serialize",
    "serialize_file",
]
