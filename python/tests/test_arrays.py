"""Arrays in and out of checkpoints of any format, with NumPy."""

from __future__ import annotations

import gc
import resource
import sys
import tracemalloc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from conftest import DIGITS, MODEL, needs

import ckpt
import ckpt.safetensors

np = needs("numpy")
ml_dtypes = needs("ml_dtypes")
hypothesis = needs("hypothesis")
from hypothesis import settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra.numpy import basic_indices  # noqa: E402

KERNEL = "digits/hidden/kernel"


def test_a_tensor_is_an_array() -> None:
    kernel = ckpt.open(DIGITS)[KERNEL]
    array = kernel.numpy()
    assert array.dtype == np.float32 and array.shape == (64, 32) and array.flags.writeable and array.flags.c_contiguous
    np.testing.assert_array_equal(np.asarray(kernel), array)
    np.testing.assert_array_equal(np.from_dlpack(kernel), array)
    np.testing.assert_array_equal(np.asarray(memoryview(kernel)), array)
    assert np.asarray(kernel, dtype="f8").dtype == np.float64
    with pytest.raises(ValueError):
        kernel.__array__(copy=False)


@pytest.mark.parametrize(
    "key",
    [np.s_[10:20], np.s_[3], np.s_[-1], np.s_[::-1], np.s_[50:2:-7], np.s_[1:40:3, ::2], np.s_[..., 0], np.s_[5:1],
     None, [1, 5], np.s_[2, 3], np.int64(4), np.s_[7, None], np.arange(64) % 2 == 0],
    ids=str,
)  # fmt: skip
def test_an_index_is_what_numpy_makes_of_it(key: Any) -> None:
    kernel = ckpt.open(DIGITS)[KERNEL]
    whole = kernel.numpy()
    np.testing.assert_array_equal(np.asarray(kernel[key]), whole[key])
    assert np.shape(kernel[key]) == whole[key].shape
    np.testing.assert_array_equal(np.asarray(kernel[8:32][2:4]), whole[10:12])
    np.testing.assert_array_equal(np.asarray(kernel[8][2:4]), whole[8, 2:4])


def test_a_tensor_is_read_into_memory_of_the_callers() -> None:
    kernel = ckpt.open(DIGITS)[KERNEL]
    out = np.empty((64, 32), "f4")
    assert kernel.numpy(out=out) is out and (out == kernel.numpy()).all()
    rows = np.empty((3, 32), "f4")
    kernel[4:7].numpy(out=rows)
    assert (rows == out[4:7]).all()
    for wrong in (np.empty((64, 31), "f4"), np.empty((64, 32), "f8")):
        with pytest.raises(ValueError):
            kernel.numpy(out=wrong)
    frozen = np.empty((64, 32), "f4")
    frozen.flags.writeable = False
    with pytest.raises((BufferError, ValueError)):
        kernel.numpy(out=frozen)
    with pytest.raises((BufferError, ValueError)):
        kernel.numpy(out=np.empty((64, 64), "f4")[:, ::2])


def test_strings_are_objects() -> None:
    graph = ckpt.open(DIGITS)["_CHECKPOINTABLE_OBJECT_GRAPH"]
    assert graph.dtype == "string" and isinstance(graph.numpy()[()], bytes) and bytes(graph) == graph.numpy()[()]


@pytest.mark.parametrize("extension", ["safetensors", "npz", "pt", "gguf"])
def test_what_is_saved_in_any_format_is_loaded(tmp_path: Path, extension: str) -> None:
    arrays = {"w": np.asfortranarray(np.arange(12, dtype="f4").reshape(3, 4)), "b": np.ones(4, "f4")[::-1]}
    output = tmp_path / f"x.{extension}"
    # llama.cpp loads no tensors without the keys of a model.
    warned = pytest.warns(ckpt.LossWarning, match="unloadable") if extension == "gguf" else nullcontext()
    with warned:
        assert ckpt.save(arrays, output).tensors == 2
    loaded = ckpt.load(output)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)


def test_small_dtypes_come_back(tmp_path: Path) -> None:
    arrays = {
        name: np.array([0, 1, 1, 0, 1, 1], dtype="f4").astype(getattr(ml_dtypes, name)).reshape(2, 3)
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint4", "int2")
    }
    arrays["int4"] = np.array([[-8, -1, 0], [1, 6, 7]]).astype(ml_dtypes.int4)
    with pytest.warns(ckpt.LossWarning):
        losses = ckpt.save(arrays, tmp_path / "x.safetensors").losses
    assert {loss.kind for loss in losses} == {"retyped"}
    loaded = ckpt.load(tmp_path / "x.safetensors")
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype, name
        assert loaded[name].tolist() == array.tolist(), name
    assert ckpt.open(tmp_path / "x.safetensors")["bfloat16"].dtype == "bf16"


def test_what_is_no_array_of_numbers_is_refused_by_name(tmp_path: Path) -> None:
    for value in (np.array(["a"]), np.array([None]), np.zeros(2, "f4,i4")):
        with pytest.raises(ckpt.UnsupportedError) as caught:
            ckpt.save({"w": value}, tmp_path / "x.npz")
        assert caught.value.tensor == "w"
    for other in ("text", object(), np.ma.masked_array([1, 2], mask=[0, 1])):
        with pytest.raises(TypeError, match="'w'"):
            ckpt.save({"w": other}, tmp_path / "x.npz")
    with pytest.raises(ckpt.UsageError):
        ckpt.save({"w": np.ones(1)}, tmp_path / "x.unknown")
    assert list(tmp_path.iterdir()) == []


def test_tensors_of_one_checkpoint_are_saved_in_another(tmp_path: Path) -> None:
    with ckpt.open(DIGITS) as checkpoint:
        ckpt.save({"k": checkpoint[KERNEL], "rows": checkpoint[KERNEL][2:5]}, tmp_path / "x.npz", metadata=None)
        np.testing.assert_array_equal(np.load(tmp_path / "x.npz")["rows"], checkpoint[KERNEL].numpy()[2:5])


SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
NUMBERS = st.sampled_from(["?", "i1", "u1", "<i2", ">i2", "<u4", ">i8", "<f2", ">f4", "<f8", "<c8", ">c8"])


@pytest.mark.filterwarnings("ignore::ckpt.LossWarning")
@settings(max_examples=60, deadline=None)
@hypothesis.given(
    shape=SHAPES,
    dtype=NUMBERS,
    seed=st.integers(0, 99),
    order=st.sampled_from("CFRSB"),
    extension=st.sampled_from([".safetensors", ".npz", ".pt"]),
)
def test_any_array_of_any_layout_comes_back_from_any_format(
    tmp_path_factory: pytest.TempPathFactory,
    shape: tuple[int, ...],
    dtype: str,
    seed: int,
    order: str,
    extension: str,
) -> None:
    random = np.random.default_rng(seed)
    array = random.integers(0, 100, [2 * length for length in shape]).astype(dtype)
    array = {
        "C": lambda a: a,
        "F": np.asfortranarray,
        "R": lambda a: a[(slice(None, None, -1),) * a.ndim],
        "S": lambda a: a[(slice(None, None, 2),) * a.ndim].T,
        "B": lambda a: np.broadcast_to(a, (3, *a.shape)),
    }[order](array)
    output = tmp_path_factory.mktemp("any") / f"x{extension}"
    ckpt.save({"w": array}, output)
    ways = [ckpt.load(output)["w"]]
    if extension == ".safetensors":
        ways.append(ckpt.safetensors.load_file(output)["w"])
    for loaded in ways:
        assert loaded.shape == array.shape and loaded.dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(loaded, array)


@settings(max_examples=60, deadline=None)
@hypothesis.given(data=st.data(), shape=st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple))
def test_any_index_selects_what_it_selects_of_an_array(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, shape: tuple[int, ...]
) -> None:
    array = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    output = tmp_path_factory.mktemp("index") / "x.safetensors"
    ckpt.save({"w": array}, output)
    index = data.draw(basic_indices(shape, allow_newaxis=True))
    with ckpt.safetensors.safe_open(output, "np") as file:
        for found in (ckpt.open(output)["w"][index], file.get_slice("w")[index]):
            np.testing.assert_array_equal(np.asarray(found), array[index])


def test_a_graph_runs_on_arrays() -> None:
    random = np.random.default_rng(0)
    for dtype in ("f4", "f8", "f2", "i8", "u1"):
        batch = random.integers(0, 2, (3, 64)).astype(dtype)
        (values,) = ckpt.run(MODEL, batch).values()
        assert values.shape == (3, 10) and np.allclose(values.sum(axis=1), 1, atol=1e-5)
    with pytest.raises(ValueError):
        ckpt.run(MODEL, np.full((1, 64), 1 << 40))


def test_memory_is_that_of_the_arrays_asked_for(tmp_path: Path) -> None:
    large = np.zeros((1024, 16 << 10), "f4")
    large[::64] = 1
    output = tmp_path / "large.npy"
    np.save(output, large)
    expected = float(large[512].sum())
    size = large.nbytes
    del large
    gc.collect()
    tracemalloc.start()
    tensor = ckpt.open(output)["large"]
    assert float(tensor[512].numpy().sum()) == expected
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    if sys.platform == "linux":
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        whole = tensor.numpy()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        assert whole.nbytes == size and after - before < size + (24 << 20)


def test_exports_are_freed() -> None:
    kernel = ckpt.open(DIGITS)[KERNEL]

    def export() -> None:
        for _ in range(200):
            np.from_dlpack(kernel)
            kernel.__dlpack__()
            kernel.__dlpack__(max_version=(1, 0))
            memoryview(kernel).release()

    export()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        export()
    # 16,000 exports of 8 KiB, were they kept, are 128 MiB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10


def test_memory_of_the_processor_alone_is_exported() -> None:
    kernel = ckpt.open(DIGITS)[KERNEL]
    assert kernel.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        kernel.__dlpack__(dl_device=(2, 0))


def test_what_a_format_does_not_hold_as_it_is_is_a_warning(tmp_path: Path) -> None:
    ml_dtypes = needs("ml_dtypes")
    with pytest.warns(ckpt.LossWarning, match="retyped"):
        summary = ckpt.save({"w": np.array([1.5, 2], ml_dtypes.bfloat16)}, tmp_path / "x.npz")
    assert [(loss.kind, loss.subject) for loss in summary.losses] == [("retyped", "w")]
    assert ckpt.save({"w": np.array([1.5, 2])}, tmp_path / "y.npz").losses == []


def test_metadata_and_names_that_are_no_text_are_errors_that_say_so(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'a' to 1"):
        ckpt.save({"w": np.zeros(1)}, tmp_path / "x.safetensors", metadata={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="UTF-8"):
        ckpt.save({"\ud800": np.zeros(1)}, tmp_path / "x.safetensors")
