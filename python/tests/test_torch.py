"""torch tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import DIGITS, needs

import ckpt

torch = needs("torch")
theirs = needs("safetensors.torch")

from ckpt import safetensors  # noqa: E402
from ckpt.safetensors import torch as ours  # noqa: E402

KERNEL = "digits/hidden/kernel"


def test_a_tensor_becomes_one_of_torch() -> None:
    kernel = ckpt.open(DIGITS)[KERNEL]
    tensor = kernel.torch()
    assert tensor.dtype == torch.float32 and tuple(tensor.shape) == (64, 32)
    assert torch.equal(torch.from_dlpack(kernel), tensor)
    assert torch.equal(kernel[3:5].torch(), tensor[3:5]) and torch.equal(kernel[0].torch(), tensor[0])
    tensor += 1
    assert ckpt.load(DIGITS, framework="torch", include=KERNEL)[KERNEL].shape == (64, 32)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64",
                                  "int32", "int16", "int8", "uint8", "bool", "complex64"])  # fmt: skip
def test_dtypes_come_back(tmp_path: Path, name: str) -> None:
    tensor = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, name))
    ours.save_file({"w": tensor, "e": tensor[:0]}, tmp_path / "x")
    theirs.save_file({"w": tensor, "e": tensor[:0]}, tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()
    for loaded in (ours.load_file(tmp_path / "x"), ours.load((tmp_path / "x").read_bytes()), theirs.load_file(tmp_path / "x")):
        assert loaded["w"].dtype == tensor.dtype and torch.equal(loaded["w"].to(torch.complex64), tensor.to(torch.complex64))
        assert tuple(loaded["e"].shape) == (0, 3)
    assert ckpt.load(tmp_path / "x", framework="torch")["w"].dtype == tensor.dtype


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.t(),
        lambda t: t[::2, 1:],
        lambda t: t.expand(3, 4, 5)[0],
        lambda t: t.requires_grad_(),
        lambda t: torch.nn.Parameter(t),
        lambda t: torch.complex(t, t).conj(),
        lambda t: torch.complex(t, t).conj().imag,
    ],
    ids=["transposed", "strided", "expanded", "with gradient", "parameter", "conjugated", "negated"],
)
def test_a_tensor_is_stored_right_whatever_its_layout(tmp_path: Path, make: Any) -> None:
    tensor = make(torch.arange(20, dtype=torch.float32).reshape(4, 5))
    ours.save_file({"w": tensor}, tmp_path / "x")
    assert torch.equal(ours.load_file(tmp_path / "x")["w"], tensor.detach().resolve_conj().resolve_neg())


def test_tensors_that_share_memory_are_stored_apart(tmp_path: Path) -> None:
    base = torch.arange(12.0)
    ours.save_file({"a": base, "b": base, "c": base[3:6]}, tmp_path / "x")
    loaded = ours.load_file(tmp_path / "x")
    assert torch.equal(loaded["b"], base) and torch.equal(loaded["c"], base[3:6])


def test_a_tensor_without_values_is_refused_by_name(tmp_path: Path) -> None:
    for tensor, found in ((torch.empty(2, device="meta"), "meta"), (torch.eye(3).to_sparse(), "sparse")):
        with pytest.raises(ckpt.UnsupportedError) as caught:
            ckpt.save({"layer.w": tensor}, tmp_path / "x.pt")
        assert caught.value.tensor == "layer.w" and found in (caught.value.found or "")
        with pytest.raises(safetensors.SafetensorError, match="layer.w"):
            ours.save_file({"layer.w": tensor}, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_parts_of_a_file_are_tensors(tmp_path: Path) -> None:
    tensor = torch.arange(48, dtype=torch.bfloat16).reshape(6, 8)
    ours.save_file({"w": tensor}, tmp_path / "x")
    for backend in ("mmap", "pread"):
        with safetensors.safe_open(tmp_path / "x", framework="pt", device="cpu", backend=backend) as file:
            part = file.get_slice("w")
            assert torch.equal(part[1:3], tensor[1:3]) and torch.equal(part[:, 2], tensor[:, 2])
            assert torch.equal(part[-1], tensor[-1]) and torch.equal(part[::2, ::3], tensor[::2, ::3])
            assert torch.equal(file.get_tensor("w"), tensor)
    with pytest.raises(safetensors.SafetensorError):
        safetensors.safe_open(tmp_path / "x", framework="pt", device="nothing")


class Tied(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.b = torch.nn.Linear(3, 3)
        self.b.weight = self.a.weight


def test_a_module_with_tied_weights_is_saved_and_loaded(tmp_path: Path) -> None:
    model, other = Tied(), Tied()
    ours.save_model(model, tmp_path / "x")
    with safetensors.safe_open(tmp_path / "x", "pt") as file:
        assert file.keys() == ["a.bias", "a.weight", "b.bias"] and file.metadata() == {"b.weight": "a.weight"}
    assert ours.load_model(other, tmp_path / "x") == ([], [])
    assert torch.equal(other.b.weight, model.a.weight) and torch.equal(other.b.bias, model.b.bias)
    theirs.load_model(Tied(), tmp_path / "x")
    with pytest.raises(RuntimeError, match="missing"):
        ours.load_model(torch.nn.Linear(3, 3), tmp_path / "x")


def test_a_file_of_torch_save_is_loaded(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2, 3).t(), "n": torch.tensor(3)}, tmp_path / "x.pt")
    loaded = ckpt.load(tmp_path / "x.pt", framework="torch")
    assert torch.equal(loaded["w"], torch.ones(3, 2)) and loaded["n"].item() == 3
