"""Forward passes."""

from __future__ import annotations

import array
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from ckpt import _arrays, _ckpt
from ckpt._checkpoint import Checkpoint
from ckpt._reading import Architecture, Options, StrPath

#: Inputs of a graph: an array for a graph with one, or arrays by the names of the inputs.
Inputs = Any

#: Name, code of the numbers, shape, bytes.
_GivenArray = tuple[str | None, str, list[int], bytes]

_INTEGERS = ("i64", "i32", "i16", "i8", "u32", "u16", "u8", "u64", "bool")
_FLOATS = ("f32", "f16", "bf16")


class GivenInputs(TypedDict):
    """Inputs, as the compiled module takes them."""

    arrays: list[_GivenArray]
    seed: int
    batch: int


class Outputs(Mapping[str, Any]):
    """The outputs of a graph by name, and how they were computed."""

    def __init__(self, values: dict[str, Any], report: dict[str, Any]) -> None:
        self._values = values
        #: The device, the inputs, and notes.
        self.report = report

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def notes(self) -> list[str]:
        """What the graph assumes about the model, or does not show of it."""
        return list(self.report["notes"])

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in self._values.items())
        return f"<ckpt.Outputs: {shapes}>"


def given(inputs: Inputs | None, seed: int, batch: int) -> GivenInputs:
    """Inputs, as the compiled module takes them."""
    if inputs is None:
        named: list[tuple[str | None, Any]] = []
    elif isinstance(inputs, Mapping):
        named = list(inputs.items())
    else:
        named = [(None, inputs)]
    return GivenInputs(arrays=[_given(name, value) for name, value in named], seed=seed, batch=batch)


def _given(name: str | None, value: Any) -> _GivenArray:
    shown = name or "input"
    if isinstance(value, (list, tuple)):
        return _of_lists(name, value)
    _, dtype, shape, data = _arrays.given(shown, value)
    if dtype in ("f32", "f64", "i32"):
        return name, {"f32": "f", "f64": "d", "i32": "i"}[dtype], list(shape), memoryview(data).tobytes()
    import numpy

    numbers = numpy.asarray(value.float().cpu() if dtype == "bf16" and hasattr(value, "float") else value)
    if dtype in _FLOATS:
        return name, "f", list(shape), numbers.astype("<f4").tobytes()
    if dtype in _INTEGERS:
        smaller = numbers.astype("<i4")
        if not (smaller == numbers).all():
            raise ValueError(f"input {shown!r}: an integer does not fit into 32 bits")
        return name, "i", list(shape), smaller.tobytes()
    raise TypeError(f"input {shown!r}: elements of {dtype} are no inputs of a graph")


def _of_lists(name: str | None, value: Any) -> _GivenArray:
    """Nested lists of numbers, without NumPy."""
    flat = value
    while flat and isinstance(flat[0], (list, tuple)):
        if len({len(row) for row in flat}) != 1:
            raise ValueError(f"input {name or 'input'!r}: the lists have different lengths")
        flat = [part for row in flat for part in row]
    lengths = _lengths(value)
    if all(isinstance(number, int) for number in flat):
        return name, "i", lengths, array.array("i", flat).tobytes()
    return name, "f", lengths, array.array("f", flat).tobytes()


def _lengths(value: Any) -> list[int]:
    lengths = []
    while isinstance(value, (list, tuple)):
        lengths.append(len(value))
        if not value:
            break
        value = value[0]
    return lengths


def run(
    model: StrPath | Checkpoint,
    inputs: Inputs | None = None,
    *,
    seed: int = 0,
    batch: int = 8,
    device: str = "cpu",
    arithmetic: str = "f32",
    integers: int | None = None,
    max_memory: int | str | None = None,
    format: str | None = None,
    options: Options | None = None,
    architecture: Architecture | None = None,
) -> Outputs:
    """Runs a checkpoint's graph; returns its outputs by name, as NumPy arrays where NumPy is installed.

    `inputs` are an array, nested lists, or a dict of them by the inputs' names; without them, random numbers of this
    `seed` and `batch`. `arithmetic` is `f32`, `f64`, `f32-in-f64` or `fast`. `integers` runs a quantized network in integers, as
    chess engines do.

    >>> import ckpt
    >>> outputs = ckpt.run("examples/data/digits_saved_model", batch=2)
    >>> outputs
    <ckpt.Outputs: digit/activation (2, 10)>
    """
    from ckpt._compare import opened

    arrays = given(inputs, seed, batch)
    named = [name for name, *_ in arrays["arrays"] if name is not None]
    with opened(model, format, options, architecture, inputs=named) as source:
        memory = None if max_memory is None else str(max_memory)
        outputs, report = _ckpt.run(source, arrays, device, arithmetic, integers, memory)
    values = {name: _arrays.to_any(value, dtype, value.shape) for name, dtype, value in outputs}
    return Outputs(values, json.loads(report))
