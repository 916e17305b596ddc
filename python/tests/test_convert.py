"""Conversions: without NumPy."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from conftest import DIGITS, MODEL, ROOT

import ckpt


@pytest.fixture(autouse=True)
def losses_are_expected() -> None:
    warnings.simplefilter("ignore", ckpt.LossWarning)


def test_a_conversion_returns_what_it_did(tmp_path: Path) -> None:
    output = tmp_path / "digits.safetensors"
    summary = ckpt.convert(DIGITS, output, verify=True, receipt=tmp_path / "receipt.json")
    assert summary.files == [str(output)] and summary.bytes == output.stat().st_size
    assert summary.tensors == len(ckpt.open(output)) and summary.verification is not None
    assert summary.receipt is not None and Path(summary.receipt).is_file()
    assert all(isinstance(loss, ckpt.Loss) and not loss.changes_function for loss in summary.losses)


def test_losses_are_warned_of_and_refused_ones_are_errors(tmp_path: Path) -> None:
    with pytest.warns(ckpt.LossWarning, match="optimizer-dropped|metadata-dropped|graph-dropped|bookkeeping"):
        ckpt.convert(DIGITS, tmp_path / "a.npz")
    with pytest.raises(ckpt.LossyError) as caught:
        ckpt.convert(DIGITS, tmp_path / "b.npz", strict=True)
    assert "strict=True" in str(caught.value)
    with pytest.raises(ckpt.LossyError) as caught:
        ckpt.convert(MODEL, tmp_path / "b.npz", transform="digits/hidden/kernel: cast f32 -> bf16")
    assert 'allow=["narrowed"]' in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["a.npz"]


def test_an_existing_output_is_replaced_only_on_request(tmp_path: Path) -> None:
    output = tmp_path / "digits.npz"
    ckpt.convert(DIGITS, output)
    before = output.read_bytes()
    with pytest.raises(ckpt.UsageError) as caught:
        ckpt.convert(DIGITS, output)
    assert caught.value.file == str(output) and "overwrite=True" in (caught.value.help or "")
    ckpt.convert(DIGITS, output, overwrite=True, exclude="adam/**")
    assert output.read_bytes() != before


@pytest.mark.parametrize("kind", ["dict", "function", "file", "inverse"])
def test_tensors_are_renamed(tmp_path: Path, kind: str) -> None:
    output = tmp_path / "digits.safetensors"
    rules = tmp_path / "names.toml"
    rules.write_text('identity = true\n[[rule]]\nfrom = "digits/{layer}/{part}"\nto = "{layer}.{part}"\n')
    if kind == "dict":
        ckpt.convert(DIGITS, output, map={"digits/hidden/kernel": "hidden.kernel"})
    elif kind == "function":
        asked: list[str] = []

        def rename(name: str) -> str | None:
            asked.append(name)
            return None if name == "digits/digit/bias" else name.replace("digits/hidden/", "hidden.")

        ckpt.convert(DIGITS, output, map=rename, exclude="adam/**")
        assert "digits/digit/bias" not in ckpt.open(output) and not any("adam" in name for name in asked)
    elif kind == "file":
        ckpt.convert(DIGITS, output, map=rules)
    else:
        ckpt.convert(DIGITS, tmp_path / "other.safetensors", map=rules)
        ckpt.convert(tmp_path / "other.safetensors", output, map=rules, inverse=True)
        assert ckpt.hash(output).tensors["digits/hidden/kernel"]
        return
    assert ckpt.open(output)["hidden.kernel"].shape == (64, 32)


def test_a_mapping_that_does_not_fit_is_a_mapping_error(tmp_path: Path) -> None:
    with pytest.raises(ckpt.MappingError) as caught:
        ckpt.convert(DIGITS, tmp_path / "x.npz", map={"no": "such"})
    assert caught.value.found is not None
    with pytest.raises(ckpt.UsageError) as unknown:
        ckpt.convert(DIGITS, tmp_path / "x.npz", map="bert-tf-to-fh")
    assert "bert-tf-to-hf" in str(unknown.value)
    with pytest.raises(FileNotFoundError) as missing:
        ckpt.convert(DIGITS, tmp_path / "x.npz", map="no-such-file.toml")
    assert missing.value.filename == "no-such-file.toml"
    assert os.listdir(tmp_path) == []


HEADS = """
identity = true
[parameters.heads]
[[rule]]
from = "digits/hidden/kernel"
to = "digits/hidden/kernel"
steps = ["reshape _ -> {heads} _ on 1"]
"""


def test_values_for_the_parameters_of_a_mapping_follow_its_name(tmp_path: Path) -> None:
    rules, output = tmp_path / "heads.toml", tmp_path / "x.safetensors"
    rules.write_text(HEADS)
    ckpt.convert(DIGITS, output, map=f"{rules},heads=4")
    assert ckpt.open(output)["digits/hidden/kernel"].shape == (64, 4, 8)
    ckpt.convert(output, tmp_path / "back.npz", map=f"{rules},heads=4", inverse=True)
    assert ckpt.open(tmp_path / "back.npz")["digits/hidden/kernel"].shape == (64, 32)
    for wrong, told in ("heads=x", "a whole number"), ("head=4", "heads"), ("heads=0", "at least 1"):
        with pytest.raises(ckpt.UsageError, match=told):
            ckpt.plan(DIGITS, tmp_path / "y.npz", map=f"{rules},{wrong}")
    with pytest.raises(ckpt.MappingError) as caught:
        ckpt.plan(DIGITS, tmp_path / "y.npz", map=rules)
    assert 'map="…,heads=' in str(caught.value)


def test_a_verification_finds_the_parameters_of_its_mapping_beside_the_checkpoint(tmp_path: Path) -> None:
    rules, a, b = tmp_path / "heads.toml", tmp_path / "a" / "x.npz", tmp_path / "b.npz"
    a.parent.mkdir()
    rules.write_text(HEADS.replace("[parameters.heads]", "[parameters.heads]\nconfig = ['heads']"))
    ckpt.convert(DIGITS, a)
    with pytest.raises(ckpt.MappingError, match="heads"):
        ckpt.verify(a, a, map=rules)
    (a.parent / "config.json").write_text('{"heads": 4}')
    ckpt.convert(a, b, map=rules)
    assert ckpt.open(b)["digits/hidden/kernel"].shape == (64, 4, 8)
    assert ckpt.verify(a, b, map=rules)


@pytest.mark.parametrize(
    ("map", "told"),
    [
        (lambda name: 1, "the new name of '.*' is a str, not int: 1"),
        (lambda name: name.encode(), "is a str, not bytes"),
        (lambda name: name + "\ud800", "no text that UTF-8 can hold"),
        ({"a": 3}, "the new name of 'a' is a str, not int: 3"),
        ({3: "a"}, "a name in map= is a str, not int: 3"),
    ],
)
def test_a_map_that_gives_no_names_is_told_which(tmp_path: Path, map: object, told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        ckpt.plan(DIGITS, tmp_path / "x.npz", map=map)  # type: ignore[arg-type]


def test_a_dict_leaves_out_what_it_maps_to_none(tmp_path: Path) -> None:
    plan = ckpt.plan(DIGITS, tmp_path / "x.npz", map={"digits/hidden/bias": None, "digits/hidden/kernel": "w"})
    assert plan.tensors == ckpt.plan(DIGITS, tmp_path / "x.npz").tensors - 1


def test_an_option_that_both_formats_have_is_asked_about(tmp_path: Path) -> None:
    first, second = tmp_path / "a.nn", tmp_path / "b.nn"
    ckpt.convert(MODEL, first)
    with pytest.raises(ckpt.UsageError, match="both") as caught:
        ckpt.convert(first, second, options={"dialect": "b"})
    assert caught.value.help == (
        'say which is meant: ckpt.open(…, options={"dialect": "b"}) for reading, '
        'options={"dialect": "b"} beside an open checkpoint for writing'
    )
    with ckpt.open(first, options={"dialect": "b"}) as opened:
        assert ckpt.convert(opened, second, options={"dialect": "a"}).tensors > 0


def test_an_open_checkpoint_is_converted_and_its_options_stay(tmp_path: Path) -> None:
    with ckpt.open(DIGITS) as checkpoint:
        assert ckpt.convert(checkpoint, tmp_path / "x.safetensors", dtype="bfloat16").tensors == 15
        with pytest.raises(TypeError):
            ckpt.convert(checkpoint, tmp_path / "y.safetensors", format="tf2")
    assert ckpt.open(tmp_path / "x.safetensors")["digits/hidden/kernel"].dtype == "bf16"
    with pytest.raises(ckpt.UsageError, match="closed"):
        ckpt.convert(checkpoint, tmp_path / "z.safetensors")


def test_options_go_to_the_format_that_knows_them(tmp_path: Path) -> None:
    summary = ckpt.convert(DIGITS, tmp_path / "set.safetensors", options={"shard_size": 4096, "activations": ["relu", "softmax"]})
    assert len(summary.files) > 2
    with pytest.raises(ckpt.UsageError):
        ckpt.convert(DIGITS, tmp_path / "x.safetensors", options={"shard_sice": 1})


def test_a_plan_is_looked_at_saved_and_run(tmp_path: Path) -> None:
    output = tmp_path / "digits.npz"
    plan = ckpt.plan(DIGITS, output)
    assert plan.tensors == 15 and plan.bytes > 0 and plan.losses and not output.exists()
    document = json.loads(plan.to_json())
    assert document["target"]["format"] == "npz"
    again = ckpt.Plan.from_json(plan.to_json())
    assert again.run().tensors == 15 and output.exists()
    assert ckpt.hash(output).sha256


def test_progress_reaches_the_end_in_phases(tmp_path: Path) -> None:
    seen: list[ckpt.Progress] = []
    summary = ckpt.convert(DIGITS, tmp_path / "x.npz", progress=seen.append)
    assert seen and seen[-1].bytes == seen[-1].total <= summary.bytes
    assert seen[-1].phase == "commit"


def test_an_exception_of_the_progress_ends_the_conversion(tmp_path: Path) -> None:
    def refuse(progress: ckpt.Progress) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        ckpt.convert(DIGITS, tmp_path / "x.npz", progress=refuse)


def test_a_bar_is_shown_on_a_terminal_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ckpt.convert(DIGITS, tmp_path / "x.npz", progress=True)
    assert capsys.readouterr() == ("", "")


INTERRUPTED = """
import os, signal, sys, threading, ckpt, warnings
warnings.simplefilter("ignore")
os.chdir(sys.argv[2])
def press(progress):
    if progress.phase == "write":
        os.kill(os.getpid(), signal.SIGINT)
        press.__code__ = (lambda progress: None).__code__
try:
    ckpt.convert(sys.argv[1], "out.safetensors", threads=1, progress=press)
except KeyboardInterrupt:
    print("interrupted", os.listdir("."))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_is_a_keyboard_interrupt_and_leaves_nothing(tmp_path: Path) -> None:
    source, work = tmp_path / "large.npy", tmp_path / "work"
    work.mkdir()
    header = "{'descr': '<f4', 'fortran_order': True, 'shape': (16384, 8192)}"
    text = header.ljust(117) + "\n"
    with source.open("wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
        file.truncate(10 + len(text) + 16384 * 8192 * 4)
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(source), str(work)], capture_output=True, text=True, timeout=120
    )
    assert ran.stdout == "interrupted []\n", ran


def test_the_command_line_comes_along(tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "ckpt", *arguments], capture_output=True, text=True, cwd=ROOT)

    assert run("--version").stdout.startswith("ckpt ")
    assert "digits/hidden/kernel" in run("inspect", str(DIGITS)).stdout
    assert run("inspect", "no-such-file").returncode == 1
    assert run("convert", str(DIGITS), str(tmp_path / "x.npz")).returncode == 0
    console = Path(sys.executable).with_name("ckpt")
    assert console.is_file() and subprocess.run([console, "--version"], capture_output=True).returncode == 0


def test_logging_has_a_line_for_a_conversion(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="ckpt"):
        ckpt.convert(DIGITS, tmp_path / "x.npz")
    assert "x.npz: 15 tensors" in caplog.text


def test_signals_of_others_stay_theirs() -> None:
    before = signal.getsignal(signal.SIGINT)
    ckpt.hash(DIGITS)
    assert signal.getsignal(signal.SIGINT) is before


def test_options_reach_the_side_that_knows_them_also_where_a_function_renames(tmp_path: Path) -> None:
    seen: list[str] = []

    def rename(name: str) -> str:
        seen.append(name)
        return name

    options = {"keys": True, "shard_size": 5000}
    summary = ckpt.convert(DIGITS, tmp_path / "x.safetensors", map=rename, options=options)
    assert any(name.endswith(".ATTRIBUTES/VARIABLE_VALUE") for name in seen)
    assert len(summary.files) > 2
    with pytest.raises(ckpt.UsageError, match="no_such"):
        ckpt.plan(DIGITS, tmp_path / "y.safetensors", map=rename, options={"no_such": 1})


KILLED = """
import ckpt, os, sys
ckpt.convert(sys.argv[1], sys.argv[2], progress=lambda progress: os._exit(7), sync=False)
"""


def test_a_conversion_that_was_killed_is_resumed(tmp_path: Path) -> None:
    # Large enough that progress is told before its end.
    large, output = tmp_path / "large.safetensors", tmp_path / "x.npz"
    ckpt.save({name: bytearray(64 << 20) for name in "abc"}, large)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(large), str(output)])
    assert killed.returncode == 7 and not output.exists() and os.listdir(tmp_path) != ["large.safetensors"]
    summary = ckpt.convert(large, output, resume=True)
    assert summary.resumed is not None and summary.resumed.anew is None
    assert sorted(os.listdir(tmp_path)) == ["large.safetensors", "x.npz"] and ckpt.diff(large, output)
    assert ckpt.convert(large, tmp_path / "y.npz").resumed is None


def test_a_receipt_is_compared_with_the_files_that_it_names(tmp_path: Path) -> None:
    output, receipt = tmp_path / "x.npz", tmp_path / "receipt.json"
    ckpt.convert(DIGITS, output, receipt=receipt)
    checked = ckpt.check_receipt(receipt)
    assert checked.files == 4 and checked.bytes > output.stat().st_size
    with pytest.raises(ckpt.CkptError):
        ckpt.check_receipt(receipt, root=tmp_path / "elsewhere")
    changed = bytearray(output.read_bytes())
    changed[100] ^= 1
    output.write_bytes(changed)
    with pytest.raises(ckpt.MismatchError, match="x.npz"):
        ckpt.check_receipt(receipt)
    with pytest.raises(FileNotFoundError):
        ckpt.check_receipt(tmp_path / "missing.json")
    with pytest.raises(ckpt.UsageError):
        ckpt.check_receipt("deny.toml")


def test_code_belongs_to_the_mapping_that_writes_a_program(tmp_path: Path) -> None:
    with pytest.raises(ckpt.UsageError, match="keras-to-torch"):
        ckpt.plan(DIGITS, tmp_path / "x.safetensors", code="model.py")


def fp8_model(folder: Path) -> Path:
    """A directory whose weight has two rows of 8-bit floats, and a scale for each."""
    folder.mkdir()
    header = {"m.weight": {"dtype": "F8_E4M3", "shape": [2, 2], "data_offsets": [0, 4]},
              "m.weight_scale": {"dtype": "F32", "shape": [2, 1], "data_offsets": [4, 12]}}
    text = json.dumps(header).encode()
    # 1, 2, -1 and -2, and the scales 0.5 and 3.
    data = bytes([0x38, 0x40, 0xB8, 0xC0]) + struct.pack("<2f", 0.5, 3.0)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "fp8"}}))
    return folder


def test_quantized_weights_are_numbers_or_their_parts(tmp_path: Path) -> None:
    model = fp8_model(tmp_path / "model")
    numbers, parts = ckpt.open(model), ckpt.open(model, parts=True)
    assert list(numbers) == ["m.weight"] and list(parts) == ["m.weight", "m.weight_scale"]
    assert memoryview(numbers["m.weight"]).tolist() == [[0.5, 1.0], [-3.0, -6.0]]


def test_quantized_weights_stop_a_conversion_unless_decoded_or_kept(tmp_path: Path) -> None:
    model = fp8_model(tmp_path / "model")
    with pytest.raises(ckpt.LossyError) as caught:
        ckpt.convert(model, tmp_path / "a.npz")
    assert 'dtype="bf16"' in str(caught.value) and "keep_quantized=True" in str(caught.value)
    ckpt.convert(model, tmp_path / "decoded.npz", dtype="f32")
    assert list(ckpt.open(tmp_path / "decoded.npz")) == ["m.weight"]
    ckpt.convert(model, tmp_path / "kept.safetensors", keep_quantized=True)
    assert list(ckpt.open(tmp_path / "kept.safetensors", parts=True)) == ["m.weight", "m.weight_scale"]


def test_a_model_is_quantized_by_an_option_of_its_target(tmp_path: Path) -> None:
    header = json.dumps({"layer.weight": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}).encode()
    model = tmp_path / "model"
    model.mkdir()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1.0, -448.0))
    (model / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}))
    ckpt.convert(model, tmp_path / "out", options={"quantize": "fp8-channels"})
    assert list(ckpt.open(tmp_path / "out", parts=True)) == ["layer.weight", "layer.weight_scale"]
