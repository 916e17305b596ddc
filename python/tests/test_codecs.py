"""Codecs that are written in Python."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import DIGITS, ROOT

import ckpt


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The codec of the guide, after its example ran."""
    page = (ROOT / "docs/src/python-codecs.md").read_text(encoding="utf-8")
    text = page.split("```python\n")[1].split("```")[0]
    assert len(text.splitlines()) < 60
    monkeypatch.chdir(tmp_path)
    ckpt.save({"w": memoryview(bytes(range(24))).cast("f", (2, 3)), "n": memoryview(bytes(8)).cast("q")}, "model.safetensors")
    names: dict[str, Any] = {}
    exec(compile(text, "python-codecs.md", "exec"), names)
    return names["Boxes"]


def box(path: Path, header: dict[str, Any], data: bytes) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(b"BOX1" + struct.pack("<I", len(text)) + text + data)
    return path


def test_the_codec_of_the_guide_reads_what_it_wrote(boxes: Any, tmp_path: Path) -> None:
    with ckpt.open("model.box") as made, ckpt.open("model.safetensors") as source:
        assert made.format == "boxes" and set(made) == set(source)
        assert all(bytes(memoryview(made[name])) == bytes(memoryview(source[name])) for name in source)
    ckpt.convert("model.box", "again.box")
    assert Path("again.box").read_bytes() == Path("model.box").read_bytes()
    assert ckpt.hash("model.box").sha256 == ckpt.hash("model.safetensors").sha256
    assert "boxes" in [each["id"] for each in ckpt.formats()]


def test_arrays_are_saved_in_the_format(boxes: Any) -> None:
    ckpt.save({"x": memoryview(bytes(4)).cast("f")}, "x.box")
    assert Path("x.box").read_bytes().startswith(b"BOX1")


def test_only_headers_pass_through_python(boxes: Any, tmp_path: Path) -> None:
    path = box(tmp_path / "large.box", {"w": ("f32", [1 << 30], 0)}, b"")
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + (4 << 30))
    assert ckpt.open(path)["w"].shape == (1 << 30,)


def test_losses_are_those_of_any_format(boxes: Any) -> None:
    losses = ckpt.plan(ROOT / DIGITS, "digits.box").losses
    assert "metadata-dropped" in {loss.kind for loss in losses}


def test_an_exception_of_the_package_keeps_its_kind(boxes: Any, tmp_path: Path) -> None:
    path = box(tmp_path / "odd.box", {"w": ("f99", [1], 0)}, bytes(4))
    with pytest.raises(ckpt.CorruptError, match="which no box has") as raised:
        ckpt.open(path)
    assert isinstance(raised.value.__cause__, ckpt.CorruptError)


def test_any_other_exception_names_the_codec_and_is_the_cause(boxes: Any, tmp_path: Path) -> None:
    (tmp_path / "cut.box").write_bytes(b"BOX1")
    with pytest.raises(ckpt.UnsupportedError, match="the codec 'boxes' failed") as raised:
        ckpt.open(tmp_path / "cut.box")
    assert isinstance(raised.value.__cause__, struct.error) and raised.value.field == "read"


@pytest.mark.parametrize(("shape", "start"), [([7], 0), ([6], 1), ([1 << 40], 0)])
def test_a_tensor_outside_its_file_is_refused(boxes: Any, tmp_path: Path, shape: list[int], start: int) -> None:
    path = box(tmp_path / "short.box", {"w": ("f32", shape, start)}, bytes(24))
    with pytest.raises(ckpt.CkptError):
        ckpt.convert(path, tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


class Wrong:
    """A codec whose methods return what a test sets."""

    id, title, extensions, dtypes = "wrong", "Wrong", ["wrong"], ["f32"]
    found: Any = None

    def probe(self, input: Any) -> bool:
        return bool(input.read(0, 5) == b"WRONG")

    def read(self, input: Any, options: Any) -> Any:
        return self.found

    def place(self, checkpoint: Any, name: str, options: Any) -> Any:
        return self.found


@pytest.mark.parametrize(
    "found",
    [
        {"tensors": [{"name": "w", "shape": [1], "offset": 0}]},
        {"tensors": [{"name": "w", "dtype": "float", "shape": [1], "placements": []}], "placements": []},
        {"tensors": [], "weights": []},
        {"tensors": [{"name": "w", "dtype": "f32", "shape": [-1], "offset": 0}]},
        7,
    ],
)
def test_what_is_no_contents_is_an_error(tmp_path: Path, found: Any) -> None:
    codec = Wrong()
    codec.found = found
    ckpt.register(codec)
    (tmp_path / "x.wrong").write_bytes(b"WRONG")
    with pytest.raises(ckpt.UnsupportedError, match="wrong"):
        ckpt.open(tmp_path / "x.wrong")


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 8), (4, 6), (2, 8)],
)
def test_a_layout_that_overlaps_or_leaves_its_file_is_an_error(tmp_path: Path, offset: int, length: int) -> None:
    codec = Wrong()
    codec.found = {
        "files": [{"name": "x.wrong", "len": length}],
        "literals": [{"offset": 0, "bytes": b"HEAD"}],
        "placements": [{"tensor": 0, "offset": offset}],
    }
    ckpt.register(codec)
    with pytest.raises(ckpt.UnsupportedError, match="'wrong' places tensors wrongly"):
        ckpt.save({"w": memoryview(bytes(4)).cast("f")}, tmp_path / "x.wrong")
    assert not list(tmp_path.iterdir())


def test_finish_gets_the_checksums_that_place_asked_for(tmp_path: Path) -> None:
    class Summed(Wrong):
        id, extensions = "summed", ["summed"]

        def place(self, checkpoint: Any, name: str, options: Any) -> Any:
            extent = {"file": 0, "offset": 4, "len": 4, "checksum": {"algorithm": "crc32", "seed": 0, "value": None}}
            encoding = {"dtype": "f32", "endian": "little", "order": [0], "packing": "bytes"}
            placement = {"tensor": 0, "name": "w", "extents": [extent], "encoding": encoding}
            return {"files": [{"name": name, "len": 8}], "literals": [], "placements": [placement]}

        def finish(self, layout: Any, written: Any) -> Any:
            return [{"offset": 0, "bytes": struct.pack("<I", written[0]["checksums"][0])}]

    ckpt.register(Summed())
    ckpt.save({"w": memoryview(b"abcd").cast("f")}, tmp_path / "x.summed")
    assert (tmp_path / "x.summed").read_bytes() == struct.pack("<I", 0xED82CD11) + b"abcd"


def test_an_id_of_the_package_is_refused_and_ones_own_is_replaced() -> None:
    class Taken(Wrong):
        id = "npz"

    with pytest.raises(ckpt.CkptError, match="npz"):
        ckpt.register(Taken())
    ckpt.register(Wrong())
    ckpt.register(Wrong())
    assert [each["id"] for each in ckpt.formats()].count("wrong") == 1


TOY = ROOT / "python/tests/toy.wasm"


def test_a_plugin_is_loaded_again_and_again(tmp_path: Path) -> None:
    toy = tmp_path / "m.toy"
    toy.write_bytes(b"TOY1" + struct.pack("<2f", 1, 2))
    assert ckpt.load_plugin(TOY) == ckpt.load_plugin(str(TOY)) == "toy"
    with ckpt.open(toy, format="toy") as opened:
        assert opened.format == "toy" and memoryview(opened["w"]).tolist() == [1.0, 2.0]
    ckpt.convert(toy, tmp_path / "m.npz", format="toy")
    assert ckpt.plan(toy, tmp_path / "n.npz", format="toy").losses == []
    assert "toy" in [each["id"] for each in ckpt.formats()]


def test_what_is_no_plugin_is_refused_by_name() -> None:
    with pytest.raises(ckpt.UnsupportedError, match=r"no plugin.*test_codecs\.py"):
        ckpt.load_plugin(__file__)
    with pytest.raises(ckpt.NotFoundError, match="cannot read the plugin"):
        ckpt.load_plugin("absent.wasm")
