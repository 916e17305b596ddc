"""Dtypes: ckpt's names, and what NumPy, ml_dtypes and torch call them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from ckpt._errors import UnsupportedError, make

if TYPE_CHECKING:
    import numpy

#: NumPy's names of ckpt's dtypes.
NUMPY: dict[str, str] = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "bool": "bool",
    "c64": "complex64",
    "c128": "complex128",
    "qint32": "int32",
    "qint16": "int16",
    "qint8": "int8",
    "quint16": "uint16",
    "quint8": "uint8",
}

#: ml_dtypes' names of ckpt's dtypes.
ML_DTYPES: dict[str, str] = {
    "bf16": "bfloat16",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e8m0": "float8_e8m0fnu",
    "f6_e2m3": "float6_e2m3fn",
    "f6_e3m2": "float6_e3m2fn",
    "f4_e2m1": "float4_e2m1fn",
    "i4": "int4",
    "i2": "int2",
    "u4": "uint4",
    "u2": "uint2",
}

#: torch's names of ckpt's dtypes, of elements in whole bytes.
TORCH: dict[str, str] = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8_e5m2": "float8_e5m2",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e8m0": "float8_e8m0fnu",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "bool": "bool",
    "c64": "complex64",
    "c128": "complex128",
}

#: Ours, by the names of NumPy and ml_dtypes.
OURS: dict[str, str] = {
    **{theirs: ours for ours, theirs in NUMPY.items() if not ours.startswith("q")},
    **{theirs: ours for ours, theirs in ML_DTYPES.items()},
}

#: Ours, by the names of torch.
OURS_TORCH: dict[str, str] = {theirs: ours for ours, theirs in TORCH.items()}

#: Bytes of an element that stands alone.
SIZES: dict[str, int] = {
    **{name: 8 for name in ("f64", "i64", "u64", "c64")},
    **{name: 4 for name in ("f32", "i32", "u32", "qint32")},
    **{name: 2 for name in ("f16", "bf16", "i16", "u16", "qint16", "quint16")},
    **{name: 1 for name in ("i8", "u8", "bool", "qint8", "quint8", "i4", "i2", "u4", "u2")},
    **{name: 1 for name in ML_DTYPES if name.startswith(("f8", "f6", "f4"))},
    "c128": 16,
}

#: Codes of the module `struct`, by ours.
FORMATS: dict[str, str] = {
    "d": "f64", "f": "f32", "e": "f16", "q": "i64", "i": "i32", "h": "i16", "b": "i8",
    "Q": "u64", "I": "u32", "H": "u16", "B": "u8", "?": "bool", "c": "u8", "Zf": "c64", "Zd": "c128",
}  # fmt: skip


@cache
def numpy_dtype(name: str) -> numpy.dtype[Any]:
    """NumPy's dtype for one of ckpt's."""
    import numpy

    known = NUMPY.get(name)
    if known is not None:
        return numpy.dtype(known)
    theirs = ML_DTYPES.get(name)
    if theirs is None:
        raise unsupported(name, "NumPy")
    try:
        import ml_dtypes
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"NumPy alone has no dtype for {name}: install the package ml_dtypes", name="ml_dtypes"
        ) from error
    found: numpy.dtype[Any] = numpy.dtype(getattr(ml_dtypes, theirs))
    return found


@cache
def torch_dtype(name: str) -> Any:
    """torch's dtype for one of ckpt's."""
    import torch

    found = getattr(torch, TORCH.get(name, ""), None)
    if found is None:
        raise unsupported(name, "torch")
    return found


#: torch's dtype of two 4-bit floats in a byte, the first in the lower bits.
TORCH_PAIRS = "float4_e2m1fn_x2"


def torch_pairs() -> Any:
    """torch's dtype of two 4-bit floats in a byte."""
    import torch

    found = getattr(torch, TORCH_PAIRS, None)
    if found is None:
        raise unsupported("f4_e2m1", "torch")
    return found


def unsupported(name: str, library: str) -> UnsupportedError:
    """The error for a dtype that a library does not have."""
    text = f"{library} has no dtype for {name}"
    made = make(kind="unsupported", text=text, message=text, found=name)
    assert isinstance(made, UnsupportedError)
    return made
