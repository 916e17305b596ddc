"""The drop-in for safetensors, with NumPy: beside safetensors itself."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import needs

np = needs("numpy")
ml_dtypes = needs("ml_dtypes")
theirs = needs("safetensors.numpy")

from ckpt import safetensors as ours  # noqa: E402
from ckpt.safetensors import numpy as ours_numpy  # noqa: E402

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
          "float64", "complex64"]  # fmt: skip


def arrays() -> dict[str, Any]:
    random = np.random.default_rng(7)
    made = {name: random.integers(0, 2, (3, 5)).astype(name) for name in DTYPES}
    made["bf16"] = random.random((2, 3, 4)).astype(ml_dtypes.bfloat16)
    made |= {"scalar": np.array(2.5), "empty": np.zeros((0, 4), "f4"), "wide": random.random((64, 1000))}
    return made


def test_files_are_byte_for_byte_those_of_safetensors(tmp_path: Path) -> None:
    for metadata in (None, {}, {"format": "np", "ä": '"'}):
        tensors = arrays()
        theirs.save_file(tensors, tmp_path / "theirs", metadata)
        ours.save_file(tensors, tmp_path / "ours", metadata)
        own, other = (tmp_path / "ours").read_bytes(), (tmp_path / "theirs").read_bytes()
        length = 8 + int.from_bytes(own[:8], "little")
        assert json.loads(own[8:length]) == json.loads(other[8 : 8 + int.from_bytes(other[:8], "little")])
        assert own[length:] == other[8 + int.from_bytes(other[:8], "little") :]
        assert ours.save(tensors, metadata) == own
        assert sorted(os.listdir(tmp_path)) == ["ours", "theirs"]


def test_each_reads_what_the_other_writes(tmp_path: Path) -> None:
    tensors = arrays()
    theirs.save_file(tensors, tmp_path / "theirs")
    ours.save_file(tensors, tmp_path / "ours")
    for loaded in (ours.load_file(tmp_path / "theirs"), theirs.load_file(tmp_path / "ours"),
                   ours.load((tmp_path / "theirs").read_bytes()), ours.load_file(str(tmp_path / "ours"), backend="pread")):
        assert loaded.keys() == tensors.keys()
        for name, array in loaded.items():
            assert array.dtype == tensors[name].dtype and array.shape == tensors[name].shape
            np.testing.assert_array_equal(array, tensors[name])


def test_loaded_arrays_are_writable_and_ones_own(tmp_path: Path) -> None:
    ours.save_file({"w": np.zeros(4)}, tmp_path / "x")
    loaded = ours.load_file(tmp_path / "x")["w"]
    loaded += 1
    assert loaded.flags.writeable and loaded.tolist() == [1.0] * 4
    assert ours.load_file(tmp_path / "x")["w"].tolist() == [0.0] * 4


def test_small_arrays_share_memory_and_not_a_byte_of_it(tmp_path: Path) -> None:
    tensors = {f"{number:02}": np.full(number, number, "u1") for number in range(20)} | {"z": np.arange(3.0)}
    ours.save_file(tensors, tmp_path / "x")
    loaded = ours.load_file(tmp_path / "x")
    assert len({id(array.base) for array in loaded.values()}) < len(loaded)
    for name, array in loaded.items():
        assert array.flags.aligned and array.flags.writeable
        array[...] = 77
        rest = loaded.keys() - {name}
        assert all((loaded[other] == tensors[other]).all() for other in rest)
        array[...] = tensors[name]
    kept = loaded.pop("19")
    loaded.clear()
    gc.collect()
    assert kept.tolist() == [19] * 19


SHARED = 256 << 10


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ([1, 2, 3], [6, 6, 6]),
        ([0, 4], [4, 4]),
        ([SHARED - 1, 1], [SHARED, SHARED]),
        ([SHARED, 1], [SHARED, 1]),
        ([1, SHARED], [1, SHARED]),
        ([SHARED + 1, 5, 6], [SHARED + 1, 11, 11]),
    ],
)
def test_a_small_array_keeps_at_most_its_share_of_memory_alive(tmp_path: Path, lengths: list[int], sizes: list[int]) -> None:
    ours.save_file({f"{number}": np.zeros(length, "u1") for number, length in enumerate(lengths)}, tmp_path / "x")
    loaded = ours.load_file(tmp_path / "x")
    assert [loaded[f"{number}"].base.nbytes for number in range(len(lengths))] == sizes


def test_an_array_is_aligned_after_one_of_odd_length(tmp_path: Path) -> None:
    entries = '"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}'
    header = ("{" + entries + "}").encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + b"abc" + np.float32(1.5).tobytes())
    loaded = ours.load_file(tmp_path / "x")
    assert loaded["b"].tolist() == [1.5] and loaded["b"].flags.aligned and bytes(loaded["a"]) == b"abc"


@pytest.mark.parametrize(
    "make",
    [
        lambda a: np.asfortranarray(a),
        lambda a: a.T,
        lambda a: a[::2, 1::3],
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: a.astype(">f4"),
        lambda a: np.broadcast_to(a[:1], (5, a.shape[1])),
        lambda a: np.require(a, requirements="W").copy().view(np.ndarray),
    ],
    ids=["fortran", "transposed", "strided", "reversed", "reversed columns", "big-endian", "broadcast", "plain"],
)
def test_an_array_is_stored_right_whatever_its_layout(tmp_path: Path, make: Any) -> None:
    array = make(np.arange(48, dtype="f4").reshape(6, 8))
    array.flags.writeable = False
    ours.save_file({"w": array}, tmp_path / "x")
    for read in (ours.load_file(tmp_path / "x")["w"], theirs.load_file(tmp_path / "x")["w"], ours.load(ours.save({"w": array}))["w"]):
        assert read.dtype == np.float32 and read.shape == array.shape
        np.testing.assert_array_equal(read, array)


def test_safetensors_writes_other_values_for_an_array_in_fortran_order_and_ckpt_does_not(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(24.0).reshape(4, 6))
    theirs.save_file({"w": array}, tmp_path / "theirs")
    ours.save_file({"w": array}, tmp_path / "ours")
    assert theirs.load_file(tmp_path / "theirs")["w"][0].tolist() == [0, 6, 12, 18, 1, 7], "fixed? say so in the guide"
    assert ours.load_file(tmp_path / "ours")["w"][0].tolist() == [0, 1, 2, 3, 4, 5]


def test_fp8_comes_back(tmp_path: Path) -> None:
    array = np.arange(16, dtype="f4").astype(ml_dtypes.float8_e4m3fn)
    ours.save_file({"w": array}, tmp_path / "x")
    read = ours.load_file(tmp_path / "x")["w"]
    assert read.dtype == array.dtype and read.tobytes() == array.tobytes()


def test_an_open_file_lists_and_reads_tensors(tmp_path: Path) -> None:
    ours.save_file({"b": np.arange(4, dtype="f4"), "a": np.ones(2, "f8"), "c": np.zeros(1, "i1")}, tmp_path / "x")
    for backend in ("mmap", "pread"):
        with ours.safe_open(tmp_path / "x", framework="np", backend=backend) as file:
            assert file.keys() == ["a", "b", "c"] and file.offset_keys() == ["a", "b", "c"]
            assert file.metadata() is None
            assert file.get_tensor("b").tolist() == [0, 1, 2, 3]
            assert list(file.get_tensors()) == ["a", "b", "c"]
            part = file.get_slice("b")
            assert part.get_shape() == [4] and part.get_dtype() == "F32"
        for use in (file.keys, file.metadata, lambda f=file: f.get_tensor("b"), lambda p=part: p[:]):
            with pytest.raises(ours.SafetensorError, match="closed"):
                use()
    ours.save_file({}, tmp_path / "y", metadata={})
    assert ours.safe_open(tmp_path / "y", "np").metadata() == {}
    ours.save_file({}, tmp_path / "z")
    assert (tmp_path / "z").stat().st_size == 16


KEYS: list[Any] = [
    np.s_[:], np.s_[1:3], np.s_[-1], 2, np.int64(1), ..., (), np.s_[0:0], np.s_[:, 1], np.s_[:, ::2], np.s_[1:4, 2:5],
    np.s_[::2], np.s_[::-1], np.s_[5:1:-2, ::-1], np.s_[-3:-1], np.s_[2:99], np.s_[0, 0], np.s_[..., 3], None,
    np.s_[None, 1:2], [0, 2], np.array([True, False] * 3), np.s_[:, [1, 3]], np.s_[1, None],
]  # fmt: skip


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_slice_is_what_numpy_makes_of_it(tmp_path: Path, key: Any, backend: str) -> None:
    array = np.arange(48, dtype="f4").reshape(6, 8)
    ours.save_file({"a": np.ones(3), "w": array}, tmp_path / "x")
    with ours.safe_open(tmp_path / "x", "np", backend=backend) as file:
        found = file.get_slice("w")[key]
    np.testing.assert_array_equal(found, array[key])
    assert np.shape(found) == np.shape(array[key])


def test_a_slice_is_of_the_file_that_was_opened_whatever_has_its_name_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(60, dtype="f4").reshape(5, 4, 3)
    monkeypatch.chdir(tmp_path)
    ours.save_file({"w": array}, "x")
    with ours.safe_open("x", "np") as file:
        part = file.get_slice("w")
        ours.save_file({"more": array, "w": array + 1000}, "x")
        assert (part[:, 0:1] == array[:, 0:1]).all() and (part[1:3] == array[1:3]).all()
    with ours.safe_open("x", "np") as file:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        os.remove(tmp_path / "x")
        assert (file.get_slice("w")[:, 1] == array[:, 1] + 1000).all()


def test_a_file_may_be_closed_while_another_thread_copies_from_it(tmp_path: Path) -> None:
    ours.save_file({"w": np.ones((2000, 3000), "f4")}, tmp_path / "x")
    for _ in range(5):
        file = ours.safe_open(tmp_path / "x", "np")
        part, sums = file.get_slice("w"), list[float]()
        part[:, 0:1]

        def copy(part: Any = part, sums: list[float] = sums) -> None:
            # It may come too late.
            with contextlib.suppress(ours.SafetensorError):
                sums.append(part[:, ::2].sum())

        thread = threading.Thread(target=copy)
        thread.start()
        file.__exit__(None, None, None)
        thread.join()
        assert sums in ([], [3_000_000])
        with pytest.raises(ours.SafetensorError, match="closed"):
            part[:, 0:1]


@pytest.mark.parametrize("key", [5, -6, np.s_[:, 100], "a", 1.0, np.s_[..., ...], np.s_[0:2:0], np.s_[0, 0, 0, 0]], ids=str)
@pytest.mark.parametrize("framework", ["np", "pt"])
def test_an_index_that_does_not_fit_is_an_error_of_safetensors(tmp_path: Path, key: Any, framework: str) -> None:
    needs("torch")
    ours.save_file({"w": np.zeros((5, 4, 3), "f4")}, tmp_path / "x")
    with ours.safe_open(tmp_path / "x", framework) as file, pytest.raises(ours.SafetensorError):
        file.get_slice("w")[key]


def test_true_and_false_are_the_rows_1_and_0(tmp_path: Path) -> None:
    ours.save_file({"w": np.arange(12).reshape(4, 3)}, tmp_path / "x")
    with ours.safe_open(tmp_path / "x", "np") as file:
        part = file.get_slice("w")
        assert part[True].tolist() == [3, 4, 5] and part[False].tolist() == [0, 1, 2]


def test_slices_of_scalars_and_empty_tensors_are_numpys_too(tmp_path: Path) -> None:
    tensors = {"scalar": np.array(3.0), "empty": np.zeros((0, 3)), "columns": np.zeros((3, 0))}
    ours.save_file(tensors, tmp_path / "x")
    with ours.safe_open(tmp_path / "x", "np") as file:
        assert file.get_slice("scalar")[()] == 3 and file.get_slice("scalar")[...] == 3
        assert file.get_slice("empty")[:].shape == (0, 3) and file.get_slice("columns")[1:].shape == (2, 0)
        with pytest.raises(ours.SafetensorError):
            file.get_slice("columns")[3]


def test_what_is_no_file_of_tensors_is_an_error(tmp_path: Path) -> None:
    good = ours.save({"w": np.ones(2)})
    cases = {"short": b"\0" * 5, "huge": b"\xff" * 16, "json": b"\2" + b"\0" * 7 + b"{a", "cut": good[:-1], "more": good + b"\0"}
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ours.SafetensorError):
            ours.load_file(tmp_path / name)
        with pytest.raises(ours.SafetensorError):
            ours.load(content)
    with pytest.raises(FileNotFoundError):
        ours.load_file(tmp_path / "missing")
    with pytest.raises(OSError):
        ours.load_file(tmp_path)
    assert len(cases) == 5


def test_what_cannot_be_written_or_asked_for_is_an_error(tmp_path: Path) -> None:
    one = {"w": np.ones(2)}
    ours.save_file(one, tmp_path / "x")
    with pytest.raises(ours.SafetensorError, match="__metadata__"):
        ours.save({"__metadata__": np.ones(1)})
    for metadata in ({1: "a"}, {"a": 1}):
        with pytest.raises(TypeError):
            ours.save(one, metadata)
    with pytest.raises(TypeError):
        ours.save({1: np.ones(2)})
    for refused in (np.ones(2, "c16"), np.array(["a"]), np.zeros(2, ml_dtypes.int4), np.array([None])):
        with pytest.raises(ours.SafetensorError):
            ours.save({"w": refused})
    with pytest.raises(ours.SafetensorError):
        ours.save_file(one, tmp_path / "no/such/x")
    for arguments in ({"framework": "no"}, {"framework": "np", "device": "cuda"}, {"framework": "np", "backend": "no"}):
        with pytest.raises(ours.SafetensorError):
            ours.safe_open(tmp_path / "x", **arguments)
    with pytest.raises(TypeError):
        ours.safe_open(tmp_path / "x")
    with pytest.raises(ours.SafetensorError, match="does not contain tensor no"):
        ours.safe_open(tmp_path / "x", "np").get_tensor("no")


def test_an_error_is_one_of_safetensors_too() -> None:
    from safetensors import SafetensorError

    assert issubclass(ours.SafetensorError, SafetensorError) and not issubclass(ours.SafetensorError, KeyError)


def test_an_existing_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    ours.save_file({"w": np.ones(2)}, tmp_path / "x")
    with pytest.raises(ours.SafetensorError):
        ours.save_file({"w": np.ones(2, "c16")}, tmp_path / "x")
    assert ours.load_file(tmp_path / "x")["w"].tolist() == [1, 1]
    ours.save_file({"w": np.zeros(3)}, tmp_path / "x")
    assert ours.load_file(tmp_path / "x")["w"].tolist() == [0, 0, 0]
    assert os.listdir(tmp_path) == ["x"]


def test_raw_memory_is_serialized(tmp_path: Path) -> None:
    array = np.arange(6, dtype="f4").reshape(2, 3)
    spec = ours.TensorSpec(dtype="float32", shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)
    assert spec.dtype == "F32" and spec.shape == [2, 3]
    assert ours.serialize({"w": spec}) == ours.save({"w": array})
    ours.serialize_file({"w": spec}, tmp_path / "x", {"a": "b"})
    assert ours.safe_open(tmp_path / "x", "np").metadata() == {"a": "b"}
    ((name, entry),) = ours.deserialize(ours.save({"w": array}))
    assert name == "w" and entry == {"dtype": "F32", "shape": [2, 3], "data": bytearray(array.tobytes())}
    with pytest.raises(ours.SafetensorError):
        ours.TensorSpec(dtype="float33", shape=[1], data_ptr=0, data_len=4)


def test_a_lot_of_small_and_a_few_large_tensors_come_back(tmp_path: Path) -> None:
    tensors = {f"t{number}": np.full((number % 7, 3), number, "i4") for number in range(3000)}
    tensors["large"] = np.arange(3 << 20, dtype="f8")
    ours_numpy.save_file(tensors, tmp_path / "x")
    loaded = ours_numpy.load_file(tmp_path / "x")
    assert len(loaded) == 3001 and all((loaded[name] == tensors[name]).all() for name in tensors)


def test_a_slice_after_the_end_of_its_block_says_that_the_file_is_closed(tmp_path: Path) -> None:
    ours.save_file({"w": np.arange(12).reshape(3, 4)}, tmp_path / "x")
    for backend in ("mmap", "pread"):
        with ours.safe_open(tmp_path / "x", "np", backend=backend) as file:
            part = file.get_slice("w")
            assert part[:, 1].tolist() == [1, 5, 9]
        for key in (np.s_[1:2], np.s_[:, 1], [0, 2], ...):
            with pytest.raises(ours.SafetensorError, match="File is closed"):
                part[key]
        with pytest.raises(ours.SafetensorError, match="File is closed"):
            file.get_tensor("w")


def test_a_header_that_begins_with_a_space_is_refused_as_the_format_says() -> None:
    header = b' {"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}'
    data = len(header).to_bytes(8, "little") + header + b"abc"
    assert bytes(theirs.load(data)["w"]) == b"abc"
    with pytest.raises(ours.SafetensorError, match="does not begin with '{'"):
        ours.load(data)


def test_packed_elements_are_refused_by_numpy_with_the_error_of_safetensors() -> None:
    header = b'{"w":{"dtype":"F4","shape":[6],"data_offsets":[0,3]}}'
    for which in (ours, theirs):
        with pytest.raises(KeyError, match="F4"):
            which.load(len(header).to_bytes(8, "little") + header + b"abc")


def test_a_text_in_the_place_of_a_file_is_named_as_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345678\n")
    with pytest.raises(ours.SafetensorError, match="Git LFS pointer"):
        ours.load_file(tmp_path / "x")
