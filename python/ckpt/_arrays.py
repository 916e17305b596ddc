"""Arrays: from ckpt to NumPy and torch, and back. Both libraries are imported only when they are used."""

from __future__ import annotations

import array
import ctypes
import importlib
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ckpt import _dtypes
from ckpt._errors import UnsupportedError, make
from ckpt._reading import text

if TYPE_CHECKING:
    import numpy

    from ckpt import _ckpt

#: A tensor to write: its name, ckpt's dtype, its shape, and an object with the bytes in the order of C.
Given = tuple[str, str, tuple[int, ...], Any]


def to_numpy(array: _ckpt.Array, dtype: str, shape: Sequence[int]) -> numpy.ndarray[Any, Any]:
    """The memory of `array` as a NumPy array, without a copy."""
    import numpy

    return numpy.ndarray(tuple(shape), _dtypes.numpy_dtype(dtype), array)  # type: ignore[arg-type]


def to_torch(array: _ckpt.Array, dtype: str, shape: Sequence[int], offset: int = 0) -> Any:
    """The memory of `array`, from a byte on, as a torch tensor, without a copy."""
    import torch

    of, count = _dtypes.torch_dtype(dtype), math.prod(shape)
    if count == 0:
        return torch.empty(tuple(shape), dtype=of)
    return torch.frombuffer(array, dtype=of, count=count, offset=offset).reshape(tuple(shape))


def to_any(array: _ckpt.Array, dtype: str, shape: Sequence[int]) -> Any:
    """A NumPy array where NumPy is installed, else a `memoryview` of the same shape."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        return memoryview(array)
    return to_numpy(array, dtype, shape)


def given(name: str, value: Any) -> Given:
    """The tensor to write that `value` is: an array of NumPy, torch, JAX or TensorFlow, a `ckpt.Tensor`, or any object
    with the buffer protocol or DLPack. It is copied only where its elements do not lie in the order of C, little-endian."""
    text("a tensor's name", name)
    export = getattr(value, "_given", None)
    if export is not None:
        return (name, *export())
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return (name, *_of_torch(name, value, torch))
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return (name, *_of_numpy(name, value, numpy))
    if hasattr(value, "__array__") or isinstance(value, (list, tuple, int, float, complex)):
        try:
            import numpy as found
        except ModuleNotFoundError:
            raise TypeError(
                f"tensor {name!r}: without NumPy, pass an object with the buffer protocol, not {type(value).__name__}"
            ) from None
        return (name, *_of_numpy(name, found.asarray(value), found))
    try:
        view = memoryview(value)
    except TypeError:
        if not hasattr(value, "__dlpack__"):
            raise TypeError(f"tensor {name!r}: {type(value).__name__} is no array") from None
        return given(name, _of_dlpack(name, value))
    return (name, *_of_buffer(name, value, view))


def _of_numpy(name: str, value: Any, numpy: Any) -> tuple[str, tuple[int, ...], Any]:
    if isinstance(value, numpy.ma.MaskedArray):
        raise TypeError(f"tensor {name!r}: a masked array has values that are no values; fill it first")
    dtype = _dtypes.OURS.get(value.dtype.name)
    if dtype is None:
        raise _no_dtype(name, f"NumPy's {value.dtype}")
    shape = tuple(value.shape)
    little = value.dtype.newbyteorder("<") if value.dtype.byteorder == ">" or _is_big(value.dtype) else value.dtype
    array = numpy.array(value, dtype=little, order="C", copy=None, subok=False)
    return dtype, shape, array


def _is_big(dtype: Any) -> bool:
    return bool(dtype.byteorder == "=" and sys.byteorder == "big")


def of_torch_pairs(name: str, value: Any) -> Given | None:
    """The tensor to write that a torch tensor of two 4-bit floats in a byte is, its bytes as they are. `None` for others."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or not _has_pairs(value):
        return None
    text("a tensor's name", name)
    if value.ndim == 0:
        raise _refused(name, f"a {_dtypes.TORCH_PAIRS} without axes", "an axis to count its two elements")
    _, shape, memory = _of_torch(name, value.view(torch.uint8), torch)
    return name, "f4_e2m1", (*shape[:-1], 2 * shape[-1]), memory


def _has_pairs(tensor: Any) -> bool:
    return str(tensor.dtype).removeprefix("torch.") == _dtypes.TORCH_PAIRS


def _of_torch(name: str, value: Any, torch: Any) -> tuple[str, tuple[int, ...], Any]:
    if _has_pairs(value) and value.ndim > 0:
        packed = value.view(torch.uint8)
        alone = torch.stack((packed & 15, packed >> 4), dim=-1)
        _, shape, memory = _of_torch(name, alone.reshape((*value.shape[:-1], 2 * value.shape[-1])), torch)
        return "f4_e2m1", shape, memory
    if value.is_meta:
        raise _refused(name, "the tensor is on the device 'meta': it has no values", "a tensor with values")
    if value.layout is not torch.strided:
        raise _refused(name, f"the tensor's layout is {value.layout}", "a dense tensor: call .to_dense()")
    dtype = _dtypes.OURS_TORCH.get(str(value.dtype).removeprefix("torch."))
    if dtype is None:
        raise _no_dtype(name, f"torch's {value.dtype}")
    tensor = value.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
    count = tensor.numel() * tensor.element_size()
    memory = (ctypes.c_char * count).from_address(tensor.data_ptr()) if count else bytearray()
    if count:
        # The memory is the tensor's, which lives as long.
        memory._tensor = tensor  # type: ignore[union-attr]
    return dtype, tuple(value.shape), memory


def _of_dlpack(name: str, value: Any) -> Any:
    """The array of NumPy or torch over what has DLPack alone. torch also has `bf16`, and memory of other devices."""
    order = ["numpy", "torch"] if value.__dlpack_device__()[0] == 1 else ["torch"]
    refused: Exception | None = None
    for library in order:
        try:
            return importlib.import_module(library).from_dlpack(value)
        except ModuleNotFoundError:
            continue
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            refused = error
    if refused is None:
        raise TypeError(f"tensor {name!r}: {type(value).__name__} has DLPack alone, which needs {' or '.join(order)}")
    raise _no_dtype(name, f"an object with DLPack that {' and '.join(order)} refuse") from refused


def _of_buffer(name: str, value: Any, view: memoryview) -> tuple[str, tuple[int, ...], Any]:
    code = view.format.lstrip("@=<>!") if view.format else "B"
    if code in ("l", "L", "n", "N"):
        code = {"l": "iq", "n": "iq", "L": "IQ", "N": "IQ"}[code][view.itemsize == 8]
    dtype = _dtypes.FORMATS.get(code)
    if dtype is None or _dtypes.SIZES[dtype] != view.itemsize:
        raise _no_dtype(name, f"a buffer with the format {view.format!r}")
    big = view.format[:1] in (">", "!") or (sys.byteorder == "big" and view.format[:1] != "<")
    if big and view.itemsize > 1:
        data = _swapped(view.tobytes("C"), view.itemsize // (2 if code.startswith("Z") else 1))
    else:
        data = value if view.c_contiguous else view.tobytes("C")
    return dtype, tuple(view.shape or ()), data


def _swapped(data: bytes, size: int) -> Any:
    """The bytes with each number of `size` bytes reversed."""
    numbers = array.array({2: "H", 4: "I", 8: "Q"}[size], data)
    numbers.byteswap()
    return numbers


def _no_dtype(name: str, found: str) -> UnsupportedError:
    return _refused(name, found, "booleans, integers, floating-point or complex numbers")


def _refused(name: str, found: str, expected: str) -> UnsupportedError:
    message = "the tensor cannot be written"
    text = f"{message} (tensor {name}): found {found}, expected {expected}"
    made = make(kind="unsupported", text=text, message=message, tensor=name, found=found, expected=expected)
    assert isinstance(made, UnsupportedError)
    return made
