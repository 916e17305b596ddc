#!/usr/bin/env python3
"""Converts what PyTorch wrote, and opens with PyTorch what `ckpt` wrote.

    python tests/interop/pytorch_files.py --ckpt target/debug/ckpt     (packages: requirements-transformers.txt)
"""

import collections
import json
import os
import pathlib
import sys

sys.modules["triton"] = None  # torch does without it

import numpy as np
import safetensors
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
import torch.distributed.checkpoint.format_utils
from harness import check, convert, main

Dict = collections.OrderedDict
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
          "complex128", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "uint16",
          "uint32", "uint64"]


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2))


def every_dtype() -> dict:
    made = Dict()
    for name in DTYPES:
        dtype = getattr(torch, name)
        bytes_ = torch.tensor([1, 0] * (3 * torch.empty(0, dtype=dtype).element_size()), dtype=torch.uint8)
        made[name] = bytes_.view(dtype).reshape(2, 3)
    return made


def tied() -> dict:
    weight = torch.arange(21.0).reshape(7, 3)
    return Dict([("emb.weight", weight), ("other", torch.ones(2)), ("head.weight", weight.detach())])


def training() -> dict:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
    return {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "loss": 0.25, "best": None,
            "names": ["a", "b"], "steps": 10**12, "shape": (1, 2, 3, 4)}


CHECKPOINTS = {
    "nothing": Dict,
    "one": lambda: Dict(w=torch.ones(3)),
    "module": lambda: network().state_dict(),
    "lstm": lambda: torch.nn.LSTM(3, 4).state_dict(),
    "parameters": lambda: Dict(network().named_parameters()),
    "dict": lambda: {"w": torch.ones(3), "b": torch.zeros(2)},
    "scalars": lambda: Dict(s=torch.tensor(3.5), e=torch.empty(0), f=torch.empty(2, 0, 3), n=torch.tensor(7)),
    "every_dtype": every_dtype,
    "tied": tied,
    "transposed": lambda: Dict(w=torch.arange(6.0).reshape(2, 3).t()),
    "many": lambda: Dict((f"layer.{number}.weight", torch.full((number % 5 + 1,), float(number))) for number in range(2001)),
    "thousand": lambda: {f"k{number}": torch.full((3,), float(number)) for number in range(1000)},
    "training": training,
}


def same(found, expected) -> bool:
    return found.dtype == expected.dtype and found.shape == expected.shape and (
        found.contiguous().flatten().view(torch.uint8).equal(expected.contiguous().flatten().view(torch.uint8)))


def opened(path: pathlib.Path) -> dict:
    return torch.load(path, weights_only=True, mmap=True)


def assert_same(found: dict, expected: dict) -> None:
    assert list(found) == list(expected), (list(found)[:5], list(expected)[:5])
    assert all(same(found[name], value) for name, value in expected.items())


@check(*CHECKPOINTS)
def what_save_wrote_comes_back_byte_for_byte(folder, source):
    torch.save(CHECKPOINTS[source](), folder / "in.pt")
    convert(folder / "in.pt", folder / "out.pt")
    assert (folder / "in.pt").read_bytes() == (folder / "out.pt").read_bytes()


# safetensors lacks complex128, and stores no views; a pattern must match some tensor.
@check(*sorted(CHECKPOINTS.keys() - {"every_dtype", "tied", "transposed", "nothing"}))
def what_save_wrote_comes_back_byte_for_byte_from_safetensors(folder, source):
    torch.save(CHECKPOINTS[source](), folder / "in.pt")
    convert(folder / "in.pt", folder / "mid.safetensors", "--include", "**")
    convert(folder / "mid.safetensors", folder / "out.pt", "--include", "**")
    assert (folder / "in.pt").read_bytes() == (folder / "out.pt").read_bytes()


@check("module", "scalars", "every_dtype", "tied", "many")
def pytorch_opens_what_is_written(folder, source):
    expected = CHECKPOINTS[source]()
    torch.save(expected, folder / "in.pt", _use_new_zipfile_serialization=source == "every_dtype")
    convert(folder / "in.pt", folder / "out.pt")
    assert_same(opened(folder / "out.pt"), expected)


@check()
def views_of_any_strides_have_the_values_that_pytorch_sees(folder):
    numbers = torch.arange(600_000.0)
    matrix, cube = numbers.reshape(1000, 600), numbers.reshape(100, 60, 100)
    views = Dict(
        base=numbers, turned=matrix.t(), every_second=numbers[::2], columns=matrix[:, 1::3], turned_columns=matrix[:, ::7].t(),
        expanded=numbers[:30].expand(20_000, 30), expanded_columns=numbers[:20_000, None].expand(-1, 7),
        windows=numbers.unfold(0, 5, 2), permuted=cube.permute(2, 0, 1)[::3, :, ::2], flat=cube[:, ::3, 5], one=matrix[7:8, ::5],
    )
    torch.save(views, folder / "in.pt")
    convert(folder / "in.pt", folder / "out.pt")
    assert_same(opened(folder / "out.pt"), views)


@check()
def a_safetensors_file_is_written_as_pytorch_would(folder):
    expected = {name: value.contiguous() for name, value in sorted(network().state_dict().items())}
    safetensors.torch.save_file(expected, folder / "in.safetensors")
    convert(folder / "in.safetensors", folder / "out.pt")
    found = opened(folder / "out.pt")
    assert found.keys() == expected.keys() and all(same(found[name], value) for name, value in expected.items())
    with open(folder / "again.pt", "wb") as file:
        torch.save(found, file)
    assert (folder / "again.pt").read_bytes() == (folder / "out.pt").read_bytes()


@check()
def tied_tensors_share_a_storage(folder):
    torch.save(tied(), folder / "in.pt", _use_new_zipfile_serialization=False)
    convert(folder / "in.pt", folder / "out.pt")
    found = opened(folder / "out.pt")
    assert found["emb.weight"].data_ptr() == found["head.weight"].data_ptr() != found["other"].data_ptr()


@check()
def a_set_has_the_names_that_transformers_looks_for(folder):
    expected = network().state_dict()
    torch.save(expected, folder / "in.pt")
    (folder / "set").mkdir()
    convert(folder / "in.pt", folder / "set" / "pytorch_model.bin.index.json", "--to", "torch", "--shard-size", "100")
    index = json.loads((folder / "set" / "pytorch_model.bin.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    assert files[0] == f"pytorch_model-00001-of-{len(files):05}.bin" and len(files) > 1, files
    found = {name: value for file in files for name, value in opened(folder / "set" / file).items()}
    assert all(same(found[name], value) for name, value in expected.items()) and len(found) == len(expected)
    assert all(name in opened(folder / "set" / file) for name, file in index["weight_map"].items())
    convert(folder / "set", folder / "out.pt")
    assert opened(folder / "out.pt").keys() == expected.keys()


@check("one", "dtypes", "views", "signs", "no_checksums", "big_endian", "legacy", "legacy_big_endian", "tar", "tar_big_endian")
def a_file_of_the_corpus_has_the_tensors_that_pytorch_finds_in_it(folder, name):
    source = pathlib.Path(__file__).parents[2] / "corpus" / "torch" / "accept" / f"{name}.pt"
    expected = torch.load(source, weights_only=not name.startswith("tar"))
    expected = {name: value.resolve_conj().resolve_neg() for name, value in expected.items()}
    convert(source, folder / "out.pt")
    assert_same(opened(folder / "out.pt"), expected)


@check()
def conjugated_and_negated_views_have_the_signs_that_pytorch_gives_them(folder):
    matrix = torch.complex(torch.randn(300, 700), torch.randn(300, 700))
    views = Dict(
        conj=matrix.conj(), adjoint=matrix.mH, part=matrix.conj()[5:, 3::7], wide=matrix.to(torch.complex128).conj(),
        negated=torch._neg_view(torch.randn(400_000)), imaginary=torch.randn(9, dtype=torch.complex64).conj().imag,
        both=torch._neg_view(matrix.conj()), plain=matrix,
    )
    assert views["adjoint"].is_conj() and views["imaginary"].is_neg()
    torch.save(views, folder / "in.pt")
    convert(folder / "in.pt", folder / "out.pt", "--verify")
    assert_same(opened(folder / "out.pt"), {name: value.resolve_conj().resolve_neg() for name, value in views.items()})


@check()
def a_distributed_tensor_of_one_rank_is_a_tensor(folder):
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
    mesh, matrix = init_device_mesh("cpu", (1,)), torch.arange(6.0).reshape(2, 3)
    tensors = {"sharded": distribute_tensor(matrix, mesh, [Shard(0)]), "replicated": distribute_tensor(matrix + 1, mesh, [Replicate()])}
    torch.save(tensors, folder / "in.pt")
    torch.distributed.destroy_process_group()
    convert(folder / "in.pt", folder / "out.pt")
    assert_same(opened(folder / "out.pt"), {"sharded": matrix, "replicated": matrix + 1})


@check()
def a_distributed_checkpoint_becomes_one_file(folder):
    expected = {"model": network().state_dict(), "epoch": 3}
    dcp.save(expected, checkpoint_id=folder / "dcp", no_dist=True)
    convert(folder / "dcp", folder / "out.pt")
    found = opened(folder / "out.pt")
    assert all(same(found[f"model.{name}"], value) for name, value in expected["model"].items())
    assert len(found) == len(expected["model"])


def two_ranks(rank: int, folder: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK=str(rank), WORLD_SIZE="2")
    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    state = {}
    for axis in (0, 1):
        value = torch.arange(35.0).reshape(7, 5)
        placements = [torch.distributed.tensor.Shard(axis)]
        state[f"cut.{axis}"] = torch.distributed.tensor.distribute_tensor(value, mesh, placements)
    dcp.save(state, checkpoint_id=folder)
    torch.distributed.destroy_process_group()


@check()
def tensors_that_two_ranks_share_are_put_together(folder):
    torch.multiprocessing.spawn(two_ranks, args=(str(folder / "dcp"),), nprocs=2)
    convert(folder / "dcp", folder / "out.safetensors")
    found = safetensors.torch.load_file(folder / "out.safetensors")
    expected = torch.arange(35.0).reshape(7, 5)
    assert sorted(found) == ["cut.0", "cut.1"] and all(same(value, expected) for value in found.values())


def loaded(folder: pathlib.Path) -> dict:
    """What PyTorch makes of a directory, without being told what is in it."""
    torch.distributed.checkpoint.format_utils.dcp_to_torch_save(folder, folder.with_suffix(".joined"))
    return torch.load(folder.with_suffix(".joined"), weights_only=True)


@check("nothing", "module", "scalars", "every_dtype", "tied", "many")
def pytorch_loads_a_distributed_checkpoint(folder, source):
    expected = CHECKPOINTS[source]()
    torch.save(expected, folder / "in.pt")
    for number, options in enumerate([[], ["--set", "ranks=3"], ["--shard-size", "100"]]):
        out = folder / str(number)
        convert(folder / "in.pt", out, "--to", "torch", "--set", "form=dcp", *options)
        files = sorted(path.name for path in out.iterdir())
        assert ".metadata" in files and "__0_0.distcp" in files, files
        found = {name: torch.zeros_like(value) for name, value in expected.items()}
        if found:
            dcp.load(found, checkpoint_id=out, no_dist=True)
        assert_same(found, expected)
        assert loaded(out).keys() == expected.keys()


@check()
def values_beside_the_tensors_are_in_a_distributed_checkpoint(folder):
    values = {"epoch": 3, "loss": 0.25, "best": None, "names": ["a", "b"], "steps": -10**12, "on": True, "some": [1.5] * 2500,
              "nested": {"a": [], "b": [{"y": 2}, [1]], "c": "\u00e4"}, "one": [7], "bytes": bytes(range(256)), "map": {"x": 1}}
    torch.save({"w": torch.ones(3), **values}, folder / "in.pt")
    convert(folder / "in.pt", folder / "out", "--to", "torch", "--set", "ranks=2")
    found = loaded(folder / "out")
    assert found.pop("w").equal(torch.ones(3)) and found == values, found


@check()
def a_distributed_checkpoint_comes_back_byte_for_byte(folder):
    state = training() | {"list": [torch.ones(2), {"x": torch.zeros(())}], "dot.key": torch.empty(0, 3)}
    dcp.save(state, checkpoint_id=folder / "in", no_dist=True)
    convert(folder / "in", folder / "out", "--to", "torch", "--verify")
    convert(folder / "in", folder / "mid.safetensors", "--include", "**")
    convert(folder / "mid.safetensors", folder / "again", "--to", "torch", "--include", "**")
    for out in ("out", "again"):
        for path in (folder / "in").iterdir():
            assert path.read_bytes() == (folder / out / path.name).read_bytes(), (out, path.name)
    convert(folder / "in", folder / "cut", "--to", "torch", "--set", "ranks=2", "--verify")
    found, expected = loaded(folder / "cut"), loaded(folder / "in")
    assert found.keys() == expected.keys() == state.keys() and found["optimizer"]["param_groups"] == (
        expected["optimizer"]["param_groups"])
    assert all(same(found["model"][name], value) for name, value in state["model"].items())
    assert same(found["list"][1]["x"], state["list"][1]["x"]) and same(found["dot.key"], state["dot.key"])


@check(2, 3, 4, 5)
def arrays_of_numpy_are_tensors(folder, protocol):
    random = np.random.default_rng(0)
    arrays = {"plain": random.normal(size=(3, 4)).astype("f4"), "columns": np.asfortranarray(random.normal(size=(3, 4))),
              "big": np.arange(-3, 3, dtype=">i2").reshape(2, 3), "bytes": np.arange(256, dtype="u1"), "empty": np.zeros((0, 2)),
              "scalar": np.array(2.5), "strided": np.arange(20)[::3], "flags": np.array([True, False]), "half": np.arange(5, dtype="f2")}
    torch.save({"w": torch.ones(2), **arrays, "number": np.float64(0.5), "names": np.array(["a"])}, folder / "in.pt", pickle_protocol=protocol)
    said = convert(folder / "in.pt", folder / "out.pt")
    assert "'names' (a NumPy array of texts)" in said, said
    expected = {name: torch.from_numpy(value.astype(value.dtype.newbyteorder("="))) for name, value in arrays.items()}
    assert_same(opened(folder / "out.pt"), {"w": torch.ones(2), **expected})


@check()
def a_nested_file_becomes_a_distributed_checkpoint_that_fills_a_nested_dict(folder):
    state = training()
    torch.save(state, folder / "in.pt")
    convert(folder / "in.pt", folder / "out", "--to", "torch", "--set", "form=dcp")
    empty = training()
    for tensors in [empty["model"], *empty["optimizer"]["state"].values()]:
        for value in tensors.values():
            value.zero_()
    empty["optimizer"]["param_groups"][0]["lr"] = empty["epoch"] = None
    dcp.load(empty, checkpoint_id=folder / "out", no_dist=True)
    assert all(same(empty["model"][name], value) for name, value in state["model"].items())
    for number, slots in state["optimizer"]["state"].items():
        assert all(same(empty["optimizer"]["state"][number][name], value) for name, value in slots.items())
    assert empty["optimizer"]["param_groups"][0]["lr"] == 1e-3 and empty["epoch"] == 3
    nested = loaded(folder / "out")
    assert nested["optimizer"]["param_groups"][0]["lr"] == 1e-3 and same(nested["model"]["0.bias"], state["model"]["0.bias"])


@check()
def ties_of_a_distributed_checkpoint_are_read(folder):
    torch.save(tied(), folder / "in.pt")
    convert(folder / "in.pt", folder / "dcp", "--to", "torch", "--set", "ranks=2")
    convert(folder / "dcp", folder / "out.pt")
    found = opened(folder / "out.pt")
    assert all(same(found[name], value) for name, value in tied().items())
    assert found["emb.weight"].data_ptr() == found["head.weight"].data_ptr()


@check()
def what_is_not_written_byte_for_byte_is_named(folder):
    matrix = torch.arange(6.0).reshape(2, 3)
    torch.save(Dict(w=matrix[:1]), folder / "part.pt")
    torch.save(Dict(w=matrix), folder / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(Dict(w=matrix), folder / "four.pt", pickle_protocol=4)
    for name, words in [("part", "'w' is a view of a part of its storage"), ("old", "the format before PyTorch 1.6"), ("four", "the protocol 4")]:
        said = convert(folder / f"{name}.pt", folder / f"{name}.out.pt")
        assert "not written byte for byte" in said and words in said, said
    torch.save(Dict(w=matrix), folder / "same.pt")
    assert "byte for byte" not in convert(folder / "same.pt", folder / "same.out.pt")


if __name__ == "__main__":
    sys.exit(main(__doc__, torch, safetensors))
