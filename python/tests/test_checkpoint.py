"""Open checkpoints: without NumPy."""

from __future__ import annotations

import array
import copy
import ctypes
import gc
import os
import pickle
import sys
import threading
from pathlib import Path

import pytest
from conftest import DIGITS, MODEL

import ckpt
from ckpt import safetensors

KERNEL = "digits/hidden/kernel"


def test_a_checkpoint_is_a_mapping_of_tensors() -> None:
    with ckpt.open(DIGITS) as checkpoint:
        assert len(checkpoint) == len(list(checkpoint)) == len(checkpoint.keys()) == 16
        assert KERNEL in checkpoint and "no" not in checkpoint and 7 not in checkpoint
        assert dict(checkpoint.items())[KERNEL].shape == (64, 32)
        assert checkpoint.get("no") is None
        assert checkpoint.format == "tf2" and "tf2" in checkpoint.metadata
        assert checkpoint.path.endswith("digits")
        assert "tf2, 16 tensors" in repr(checkpoint)


def test_a_tensor_says_what_it_is() -> None:
    kernel = ckpt.open(str(DIGITS))[KERNEL]
    assert (kernel.name, kernel.dtype, kernel.shape) == (KERNEL, "f32", (64, 32))
    assert (kernel.axes, kernel.role, kernel.ndim, kernel.size, len(kernel)) == (("in", "out"), "weight", 2, 2048, 64)
    assert kernel.metadata["tf2"]["name"] == KERNEL and kernel.blocks is None


def test_a_graph_is_a_dict() -> None:
    graph = ckpt.open(MODEL).graph
    assert graph is not None and [node["op"] for node in graph["nodes"]].count("Relu") == 1


def test_rows_are_those_of_the_whole() -> None:
    kernel = ckpt.open(DIGITS)[KERNEL]
    whole = memoryview(kernel)
    assert whole.shape == (64, 32) and whole.format == "f" and whole.c_contiguous and not whole.readonly
    rows = kernel[10:20]
    assert rows.shape == (10, 32) and bytes(rows) == whole.cast("B")[10 * 128 : 20 * 128]
    assert bytes(rows[2:4]) == whole.cast("B")[12 * 128 : 14 * 128]
    one = kernel[-1]
    assert one.shape == (32,) and one.axes == ("out",) and memoryview(one).tolist() == whole.tolist()[-1]
    assert kernel[5:5].shape == (0, 32) and bytes(kernel[5:5]) == b""
    assert kernel[60:999].shape == (4, 32)
    with pytest.raises(IndexError, match="out of bounds"):
        kernel[64]


def test_an_unknown_tensor_is_a_key_error_that_names_the_nearest() -> None:
    checkpoint = ckpt.open(DIGITS)
    with pytest.raises(KeyError) as caught:
        checkpoint["digits/hidden/kernal"]
    assert isinstance(caught.value, ckpt.TensorNotFoundError)
    assert caught.value.tensor == "digits/hidden/kernal"
    assert KERNEL in str(caught.value) and caught.value.help is not None


def test_a_closed_checkpoint_says_so() -> None:
    with ckpt.open(DIGITS) as checkpoint:
        kernel = checkpoint[KERNEL]
        read = memoryview(kernel)
    assert checkpoint.closed and repr(checkpoint) == "<ckpt.Checkpoint: closed>"
    for use in (lambda: checkpoint[KERNEL], lambda: list(checkpoint), lambda: bytes(kernel), lambda: checkpoint.graph):
        with pytest.raises(ckpt.UsageError, match="closed"):
            use()
    assert read.tolist()[0] == memoryview(ckpt.open(DIGITS)[KERNEL]).tolist()[0]
    checkpoint.close()


def test_memory_outlives_its_tensor_and_its_checkpoint() -> None:
    view = memoryview(ckpt.open(DIGITS)[KERNEL])
    again = bytes(view)
    gc.collect()
    assert bytes(view) == again


def test_an_open_checkpoint_is_not_copied_and_says_what_to_do_instead(tmp_path: Path) -> None:
    checkpoint = ckpt.open(DIGITS)
    for use in (copy.deepcopy, pickle.dumps):
        for each in (checkpoint, checkpoint[KERNEL], checkpoint[KERNEL][2:4]):
            with pytest.raises(TypeError, match=r"pass its path or URL, and call ckpt\.open there"):
                use(each)
    assert bytes(copy.copy(checkpoint)[KERNEL]) == bytes(checkpoint[KERNEL])
    ckpt.save({"w": checkpoint[KERNEL]}, tmp_path / "x.safetensors")
    file = safetensors._core.open_file(tmp_path / "x.safetensors")
    for use in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="call safe_open there"):
            use(file)


def test_paths_are_bytes_too(tmp_path: Path) -> None:
    class Named:
        def __fspath__(self) -> bytes:
            return os.fsencode(tmp_path / "named.npz")

    values = array.array("f", [1, 2])
    for name in (os.fsencode(tmp_path / "x.npz"), Named()):
        assert ckpt.save({"w": values}, name).files == [os.fsdecode(name)]
        assert memoryview(ckpt.open(name)["w"]).tolist() == [1, 2] and ckpt.load(name).keys() == {"w"}
        output = os.fsdecode(name).removesuffix(".npz") + ".safetensors"
        ckpt.convert(name, os.fsencode(output), receipt=os.fsencode(output + ".json"))
        assert ckpt.check_receipt(os.fsencode(output + ".json")).files == 2
        assert ckpt.diff(name, os.fsencode(output)) and ckpt.inspect(name).format == "npz"
        assert len(safetensors._core.open_file(os.fsencode(output)).entries()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_directory_whose_name_is_not_utf_8_is_read_and_written(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), b"\xff\xe9")
    os.mkdir(folder)
    for name in (folder + b"/x.npz", os.fsdecode(folder + b"/y.npz"), Path(os.fsdecode(folder)) / "z.npz"):
        ckpt.save({"w": array.array("f", [1, 2])}, name)
        assert memoryview(ckpt.open(name)["w"]).tolist() == [1, 2]
    assert sorted(os.listdir(folder)) == [b"x.npz", b"y.npz", b"z.npz"]
    with pytest.raises(ckpt.UsageError, match="UTF-8"):
        ckpt.save({"w": array.array("f", [1, 2])}, folder + b"/\xff.npz")


def test_buffers_of_either_byte_order_are_stored_right() -> None:
    for kind, code, values in ((ctypes.c_float, "f", [1.5, -2]), (ctypes.c_double, "d", [1.5, 3]), (ctypes.c_int16, "h", [-2, 300]),
                               (ctypes.c_uint64, "Q", [1 << 40, 7])):  # fmt: skip
        for order in ("__ctype_be__", "__ctype_le__"):
            made = (getattr(kind, order) * 2)(*values)
            assert memoryview(made).format[0] == {"__ctype_be__": ">", "__ctype_le__": "<"}[order]
            name = f"memory://orders/{code}{order}.safetensors"
            ckpt.save({"w": made}, name)
            stored = memoryview(ckpt.open(name)["w"])
            assert stored.format == code and stored.tolist() == values


def test_threads_share_a_checkpoint() -> None:
    checkpoint = ckpt.open(DIGITS)
    expected = {name: bytes(tensor) for name, tensor in checkpoint.items()}
    found: list[dict[str, bytes]] = []

    def read() -> None:
        for _ in range(20):
            found.append({name: bytes(tensor) for name, tensor in checkpoint.items()})

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80 and all(each == expected for each in found)


def test_a_format_is_named_or_detected_and_options_are_checked(tmp_path: Path) -> None:
    assert ckpt.open(DIGITS, format="tf2").format == "tf2"
    with pytest.raises(ckpt.UsageError) as caught:
        ckpt.open(DIGITS, options={"activatons": "relu"})
    assert "activations" in str(caught.value)
    with pytest.raises(ckpt.UsageError):
        ckpt.open(DIGITS, format="tf3")
    with pytest.raises(TypeError):
        ckpt.open(7)  # type: ignore[arg-type]
    with pytest.raises(ckpt.LimitError):
        ckpt.open(DIGITS, limits={"tensors": 1})


def test_a_page_is_framed_for_notebooks() -> None:
    page = ckpt.open(DIGITS)._repr_html_()
    assert page.startswith("<iframe srcdoc=") and KERNEL in page and 'sandbox="allow-scripts"' in page
    inspection = ckpt.inspect(DIGITS, stats=True)
    assert inspection.html().startswith("<!doctype html>") and inspection._repr_html_().startswith("<iframe")
    kernel = next(each for each in inspection.report["tensors"] if each["name"] == KERNEL)
    assert kernel["shape"] == [64, 32] and "stats" in kernel


def test_hashes_and_differences_do_not_depend_on_the_format(tmp_path: Path) -> None:
    output = tmp_path / "digits.npz"
    with pytest.warns(ckpt.LossWarning):
        ckpt.convert(DIGITS, output, include="digits/**")
    own, other = ckpt.hash(DIGITS), ckpt.hash(output)
    assert own.tensors[KERNEL] == other.tensors[KERNEL] and len(own.sha256) == 64
    difference = ckpt.diff(DIGITS, output)
    assert not difference and difference.only_in_b == [] and difference.different == []
    assert "adam/learning_rate" in difference.only_in_a
    assert ckpt.diff(output, output, atol=1e-6)
    with pytest.raises(ckpt.UsageError, match="atol"):
        ckpt.diff(output, output, atol=-1)


def test_a_model_is_run_and_verified() -> None:
    outputs = ckpt.run(MODEL, [[0.0] * 64, [1.0] * 64])
    (name,) = outputs
    assert memoryview(outputs[name]).shape == (2, 10) and "cpu" in str(outputs.report["device"])
    assert abs(sum(memoryview(outputs[name]).tolist()[0]) - 1) < 1e-5
    verification = ckpt.verify(MODEL, MODEL, batch=3)
    assert verification and verification.verdict == "pass" and verification.html().startswith("<!doctype")
    with pytest.raises(ckpt.UsageError):
        ckpt.run(MODEL, [[0.0] * 63])
    with pytest.raises(ckpt.UsageError):
        ckpt.run(MODEL, {"no": [[0.0] * 64]})


def test_formats_and_mappings_are_listed() -> None:
    assert {"safetensors", "tf2", "gguf", "torch"} <= {each["id"] for each in ckpt.formats()}
    assert "bert-tf-to-hf" in ckpt.mappings()


def test_all_of_a_checkpoint_is_loaded_with_its_strings() -> None:
    loaded = ckpt.load(DIGITS)
    texts = loaded["_CHECKPOINTABLE_OBJECT_GRAPH"]
    assert len(loaded) == len(ckpt.open(DIGITS)) and isinstance(texts.tolist() if hasattr(texts, "tolist") else texts[0], bytes)
