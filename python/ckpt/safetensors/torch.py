"""Safetensors files of torch tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ckpt._reading import StrPath, path
from ckpt.safetensors import _core

__all__ = [
    "load",
    "load_file",
    "load_model",
    "save",
    "save_file",
    "save_model",
    "storage_ptr",
    "storage_size",
]


def storage_ptr(tensor: Any) -> int:
    """The address of the memory that the tensor is a view of; 0 for a tensor without."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):
        return 0


def storage_size(tensor: Any) -> int:
    """Bytes of the memory that the tensor is a view of."""
    return int(tensor.untyped_storage().nbytes())


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """A file of these tensors, in memory. Tensors that share memory are stored apart."""
    return _core.save(tensors, metadata)


def save_file(tensors: Mapping[str, Any], filename: StrPath, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a file of these tensors, whatever their strides and device; those that share memory are stored apart."""
    _core.save_file(tensors, filename, metadata)


def load(data: bytes) -> dict[str, Any]:
    """The tensors of a file in memory; they are copies."""
    view = memoryview(data)
    return {
        name: _core.to_torch(bytearray(view[start:end]), native, shape)
        for name, native, shape, start, end in _core.decoded(data)
    }


def load_file(filename: StrPath, device: Any = "cpu", *, backend: str = "mmap") -> dict[str, Any]:
    """Reads all tensors of a file. Both backends read into fresh memory.

    Small tensors share memory of up to 256 KiB, which stays as long as one of them does.
    """
    import torch  # noqa: F401

    _core.check_backend(backend)
    return _core.load_all(_core.open_file(filename), "torch", device)


def _first_names(state: Mapping[str, Any]) -> dict[str, str]:
    """For each tensor that is the same memory as another, the first name of that."""
    first: dict[tuple[Any, ...], str] = {}
    same = {}
    for name in sorted(state):
        tensor = state[name]
        if tensor.numel() == 0 or tensor.is_meta:
            continue
        key = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        known = first.setdefault(key, name)
        if known != name:
            same[name] = known
    return same


def save_model(
    model: Any, filename: StrPath, metadata: Mapping[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Writes a module's state. A tensor with several names is stored once; the metadata names the others."""
    state = model.state_dict()
    same = _first_names(state)
    pairs = {**(metadata or {}), **same}
    kept = {name: tensor for name, tensor in state.items() if name not in same}
    if not force_contiguous and any(not tensor.is_contiguous() for tensor in kept.values()):
        raise ValueError("a tensor is not contiguous: pass force_contiguous=True")
    save_file(kept, filename, pairs if metadata is not None or same else None)


def load_model(
    model: Any, filename: StrPath, strict: bool = True, device: Any = "cpu", *, backend: str = "mmap"
) -> tuple[set[str], list[str]]:
    """Reads a file into a module; returns the names that the file lacks, a set, and those that the module lacks."""
    state = load_file(filename, device, backend=backend)
    missing, unexpected = model.load_state_dict(state, strict=False)
    same = _first_names(model.state_dict())
    roots = {name: same.get(name, name) for name in model.state_dict()}
    loaded = {roots[name] for name in state if name in roots}
    lacking = {name for name in missing if roots.get(name) not in loaded}
    if strict and (lacking or unexpected):
        raise RuntimeError(
            f"{type(model).__name__} and {path(filename)}: missing {sorted(lacking)}, unexpected {sorted(unexpected)}"
        )
    return lacking, sorted(unexpected)
