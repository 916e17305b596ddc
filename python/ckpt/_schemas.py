"""The JSON of reports, typed; the command line prints the same."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class FileJson(TypedDict):
    """A file that holds tensors."""

    name: str
    bytes: int | None
    tensors: int


class QuantizationJson(TypedDict):
    """What the integers of a tensor stand for: (integer - zero point) * scale, one of each or one for each index of an axis."""

    scales: list[float]
    zero_points: list[float]
    axis: NotRequired[int]


class TensorJson(TypedDict):
    """A tensor, described."""

    name: str
    dtype: str
    shape: list[int]
    role: str
    bytes: int
    extents: int
    key: NotRequired[str]
    logical_dtype: NotRequired[str]
    blocks: NotRequired[str]
    scale: NotRequired[int]
    quantization: NotRequired[QuantizationJson]
    axes: NotRequired[list[str]]
    stats: NotRequired[dict[str, Any]]


class InspectionJson(TypedDict):
    """What is in a checkpoint."""

    path: str
    format: str
    title: str
    reason: str
    evidence: list[dict[str, Any]]
    files: list[FileJson]
    tensors: list[TensorJson]
    graph: NotRequired[dict[str, Any]]
    metadata: dict[str, Any]
    repairs: list[dict[str, str]]
    notes: list[str]


class TensorDigestJson(TypedDict):
    """The hash of one tensor."""

    name: str
    dtype: str
    shape: list[int]
    sha256: str
    scale: NotRequired[int]
    quantization: NotRequired[QuantizationJson]


class DigestJson(TypedDict):
    """The hashes of a checkpoint and its tensors."""

    sha256: str
    tensors: list[TensorDigestJson]


class TensorDifferenceJson(TypedDict):
    """The comparison of one tensor."""

    name: str
    name_b: NotRequired[str]
    a: tuple[str, list[int]]
    b: tuple[str, list[int]]
    quantization_a: NotRequired[QuantizationJson]
    quantization_b: NotRequired[QuantizationJson]
    outcome: str
    differing: NotRequired[int]
    outside: NotRequired[int]
    max_absolute: NotRequired[float | None]
    first: NotRequired[int]
    first_index: NotRequired[list[int]]


class DifferenceJson(TypedDict):
    """The comparison of two checkpoints."""

    tolerance: dict[str, float]
    only_in_a: list[str]
    only_in_b: list[str]
    incidental: list[str]
    tensors: list[TensorDifferenceJson]


class VerificationJson(TypedDict):
    """The comparison of what two checkpoints compute: `schemas/verify.schema.json`."""

    verdict: str
    a: dict[str, Any]
    b: dict[str, Any]
    inputs: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    tensors: NotRequired[dict[str, Any] | None]
    notes: list[str]
