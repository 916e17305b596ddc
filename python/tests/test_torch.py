"""torch tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import DIGITS, needs

import ckpt

torch = needs("torch")
theirs = needs("safetensors.torch")
SafetensorError = needs("safetensors").SafetensorError

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
    assert ours.load_model(other, tmp_path / "x") == (set(), [])
    assert torch.equal(other.b.weight, model.a.weight) and torch.equal(other.b.bias, model.b.bias)
    theirs.load_model(Tied(), tmp_path / "x")
    with pytest.raises(RuntimeError, match="missing"):
        ours.load_model(torch.nn.Linear(3, 3), tmp_path / "x")


def test_loading_a_module_returns_what_safetensors_returns(tmp_path: Path) -> None:
    ours.save_file({"weight": torch.zeros(3, 3), "more": torch.zeros(1)}, tmp_path / "x")
    returned = [which.load_model(torch.nn.Linear(3, 3), tmp_path / "x", strict=False) for which in (ours, theirs)]
    assert returned[0] == returned[1] == ({"bias"}, ["more"])
    assert [type(part) for part in returned[0]] == [type(part) for part in returned[1]] == [set, list]


def test_memory_is_what_safetensors_says() -> None:
    for tensor in (torch.zeros(3, 4), torch.zeros(3, 4)[1:, 2], torch.zeros(0), torch.empty(5, device="meta")):
        assert ours.storage_ptr(tensor) == theirs.storage_ptr(tensor)
        assert ours.storage_size(tensor) == theirs.storage_size(tensor)


PAIRS = getattr(torch, "float4_e2m1fn_x2", None)
needs_pairs = pytest.mark.skipif(PAIRS is None, reason="this torch has no float4_e2m1fn_x2")


@needs_pairs
def test_two_floats_in_a_byte_are_stored_as_safetensors_stores_them(tmp_path: Path) -> None:
    codes = torch.arange(96, dtype=torch.uint8).reshape(2, 6, 8)
    tensors = {"w": codes.view(PAIRS), "e": codes[:0].view(PAIRS), "other": torch.ones(3)}
    ours.save_file(tensors, tmp_path / "ours")
    theirs.save_file(tensors, tmp_path / "theirs")
    own = (tmp_path / "ours").read_bytes()
    assert own == (tmp_path / "theirs").read_bytes() == ours.save(tensors) and b'"F4","shape":[2,6,16]' in own
    for loaded in (ours.load_file(tmp_path / "theirs"), theirs.load_file(tmp_path / "ours"), ours.load(own)):
        assert loaded["w"].dtype == loaded["e"].dtype == PAIRS and tuple(loaded["e"].shape) == (0, 6, 8)
        assert torch.equal(loaded["w"].view(torch.uint8), codes)
    with safetensors.safe_open(tmp_path / "ours", "pt") as file:
        part = file.get_slice("w")
        assert part.get_shape() == [2, 6, 16] and part[1].dtype == PAIRS
        assert torch.equal(part[1, ::2, 2:].view(torch.uint8), codes[1, ::2, 2:])
    ours.save_file({"w": codes.transpose(0, 2).view(PAIRS)}, tmp_path / "transposed")
    assert torch.equal(ours.load_file(tmp_path / "transposed")["w"].view(torch.uint8), codes.transpose(0, 2))
    ckpt.save({"w": tensors["w"]}, tmp_path / "x.safetensors")
    assert (tmp_path / "x.safetensors").read_bytes()[-96:] == codes.numpy().tobytes()


@needs_pairs
def test_half_a_byte_is_no_tensor_of_torch(tmp_path: Path) -> None:
    header = b'{"w":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}}'
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + b"abc")
    scalar = torch.tensor(3, dtype=torch.uint8).view(PAIRS)
    for which in (ours, theirs):
        with pytest.raises(SafetensorError, match=r"\[2, 3\]"):
            which.load_file(tmp_path / "x")
        with pytest.raises(SafetensorError):
            which.save({"w": scalar})


def test_a_dtype_that_torch_lacks_is_the_error_of_safetensors(monkeypatch: pytest.MonkeyPatch) -> None:
    header = b'{"w":{"dtype":"F4","shape":[6],"data_offsets":[0,3]}}'
    monkeypatch.delattr(torch, "float4_e2m1fn_x2", raising=False)
    for which in (ours, theirs):
        with pytest.raises(KeyError, match="F4|f4"):
            which.load(len(header).to_bytes(8, "little") + header + b"abc")


def test_what_has_dlpack_alone_is_saved(tmp_path: Path) -> None:
    class Foreign:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **arguments: Any) -> Any:
            return self.tensor.__dlpack__(**arguments)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    numbers = torch.arange(12.0).reshape(3, 4)
    tensors = {"plain": numbers, "strided": numbers.t(), "narrow": numbers.to(torch.bfloat16), "none": numbers[:0]}
    ckpt.save({name: Foreign(tensor) for name, tensor in tensors.items()}, tmp_path / "x.safetensors")
    loaded = ckpt.load(tmp_path / "x.safetensors", framework="torch")
    assert all(loaded[name].dtype == tensor.dtype and torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_a_file_of_torch_save_is_loaded(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2, 3).t(), "n": torch.tensor(3)}, tmp_path / "x.pt")
    loaded = ckpt.load(tmp_path / "x.pt", framework="torch")
    assert torch.equal(loaded["w"], torch.ones(3, 2)) and loaded["n"].item() == 3
