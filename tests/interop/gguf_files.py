"""gguf-py reads what `ckpt` writes, and the other way round; registers its checks."""

import gguf
import ml_dtypes
import numpy as np
import safetensors.numpy
from harness import assert_equal, check, convert, load

PLAIN = ["float32", "float16", "int8", "int16", "int32", "int64", "float64"]
# Block types that gguf-py quantizes to.
QUANTIZED = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4"]


def numbers(*shape) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def write(path, tensors, endian=gguf.GGUFEndian.LITTLE, **options) -> None:
    """Tensors by name: an array, or bytes and their block type."""
    writer = gguf.GGUFWriter(path, "llama", endianess=endian, **options)
    writer.add_uint32("k.u32", 7)
    writer.add_float64("k.f64", 0.1)
    writer.add_string("k.string", "grüß\n")
    writer.add_array("k.list", ["a", "", "ä"])
    writer.add_array("k.numbers", [1, -2])
    for name, tensor in tensors.items():
        data, kind = tensor if isinstance(tensor, tuple) else (tensor, None)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def mixed() -> dict:
    tensors = {dtype: (np.arange(24) - 7).astype(dtype).reshape(2, 3, 4) for dtype in PLAIN}
    for name in QUANTIZED:
        kind = gguf.GGMLQuantizationType[name]
        tensors[name] = (gguf.quantize(numbers(3, 512), kind), kind)
    return tensors


def read(path) -> dict[str, np.ndarray]:
    """Every tensor as gguf-py reads it, blocks dequantized."""
    values = {}
    for tensor in gguf.GGUFReader(path).tensors:
        blocks = tensor.tensor_type.name.lower() not in ("f32", "f16", "f64", "i8", "i16", "i32", "i64")
        values[tensor.name] = gguf.dequantize(tensor.data, tensor.tensor_type) if blocks else np.array(tensor.data)
    return values


@check("little", "big")
def what_gguf_py_wrote_comes_back_byte_for_byte(folder, order):
    tensors = mixed()
    if order == "big":
        tensors = {name: tensors[name] for name in PLAIN}
    write(folder / "in.gguf", tensors, gguf.GGUFEndian[order.upper()])
    convert(folder / "in.gguf", folder / "out.gguf", "--verify")
    assert (folder / "in.gguf").read_bytes() == (folder / "out.gguf").read_bytes()


@check()
def blocks_are_dequantized_as_gguf_py_does(folder):
    write(folder / "in.gguf", mixed())
    convert(folder / "in.gguf", folder / "out.safetensors", "--allow", "dequantized", "--verify")
    assert_equal(load(folder / "out.safetensors"), read(folder / "in.gguf"))
    convert(folder / "in.gguf", folder / "out.gguf", "--set", "type=f32", "--allow", "dequantized", "--allow", "narrowed")
    given = read(folder / "in.gguf")
    floats = {name: value.astype(np.float32) if value.dtype.kind == "f" else value for name, value in given.items()}
    assert_equal(read(folder / "out.gguf"), floats)
    halves = ["--dtype", "f16", "--allow", "dequantized", "--allow", "narrowed", "--verify"]
    for name in ["half.safetensors", "half.gguf"]:
        convert(folder / "in.gguf", folder / name, *halves)
        found = (load if name.endswith("rs") else read)(folder / name)
        assert_equal(found, {key: value.astype(np.float16) if value.dtype.kind == "f" else value for key, value in given.items()})


@check()
def what_ckpt_writes_gguf_py_reads(folder):
    given = {dtype: np.arange(24).astype(dtype).reshape(2, 3, 4) for dtype in PLAIN} | {"s": np.array(5, np.float32)}
    safetensors.numpy.save_file(given, folder / "in.safetensors")
    (folder / "keys.json").write_text('{"general.architecture": "llama", "llama.block_count": 2, "a": [1, -2], "f": 0.5}')
    convert(folder / "in.safetensors", folder / "out.gguf", "--set", f"metadata={folder}/keys.json", "--verify")
    assert_equal(read(folder / "out.gguf"), given)
    fields = gguf.GGUFReader(folder / "out.gguf").fields
    kinds = {name: [kind.name for kind in field.types] for name, field in fields.items() if not name.startswith("GGUF.")}
    assert kinds == {"general.architecture": ["STRING"], "llama.block_count": ["UINT32"], "a": ["ARRAY", "INT32"], "f": ["FLOAT32"]}
    convert(folder / "in.safetensors", folder / "like.gguf", "--set", f"like={folder}/out.gguf")
    assert (folder / "like.gguf").read_bytes() == (folder / "out.gguf").read_bytes()


ENCODED = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]


def sources() -> dict[str, np.ndarray]:
    """Tensors of every float, with numbers of very different sizes."""
    random = np.random.default_rng(3)
    spread = random.standard_normal((40, 256)) * 10.0 ** random.integers(-4, 4, (40, 1))
    return {
        "f32.weight": spread.astype(np.float32), "f16.weight": numbers(3, 5, 64).astype(np.float16), "f64.weight": numbers(70, 96).astype(np.float64),
        "bf16.weight": numbers(64, 64).astype(ml_dtypes.bfloat16), "zeros.weight": np.zeros((2, 32), np.float32),
        "ramp.weight": np.arange(-64, 64, dtype=np.float32).reshape(2, 64) / 4, "bias": numbers(64).astype(np.float16),
        "odd.weight": numbers(4, 33), "i.weight": np.arange(64, dtype=np.int32).reshape(2, 32), "none.weight": np.zeros((0, 32), np.float32),
    }


def assert_quantized(path, given: dict[str, np.ndarray], kind: gguf.GGMLQuantizationType) -> None:
    """The file has the bytes that gguf-py quantizes to, and in them the numbers that it reads."""
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    assert found.keys() == given.keys()
    for name, value in given.items():
        data, own = np.array(found[name].data), found[name].tensor_type
        if value.dtype.kind not in "fV":
            assert data.tobytes() == value.tobytes(), name
        elif value.ndim < 2:
            assert own.name == "F32" and np.array_equal(data, value.astype(np.float32)), name
        elif value.shape[-1] % 32:
            assert own.name == "F16" and np.array_equal(data, value.astype(np.float16)), name
        else:
            assert own == kind, name
            expected = gguf.quantize(value.astype(np.float32), kind)
            assert data.tobytes() == expected.tobytes(), f"{name}: other blocks"
            if value.size:
                assert_equal({name: gguf.dequantize(data, kind)}, {name: gguf.dequantize(expected, kind)})


@check(*ENCODED)
def ckpt_quantizes_as_gguf_py_does(folder, name):
    given, kind = sources(), gguf.GGMLQuantizationType[name]
    safetensors.numpy.save_file({key: value for key, value in given.items()}, folder / "in.safetensors")
    options = ["--set", f"type={name.lower()}", "--allow", "quantized", "--allow", "narrowed"]
    said = convert(folder / "in.safetensors", folder / "out.gguf", *options, "--verify")
    assert "rows of 33 elements" in said and "largest rounding error" in said, said
    assert_quantized(folder / "out.gguf", given, kind)
    for number, more in enumerate([["-j", "1", "--max-memory", "8m"], ["-j", "3", "--item-size", "1k"]]):
        convert(folder / "in.safetensors", folder / f"{number}.gguf", *options, *more)
        assert (folder / f"{number}.gguf").read_bytes() == (folder / "out.gguf").read_bytes()


@check(*ENCODED)
def axes_are_turned_and_blocks_decoded_before_ckpt_quantizes(folder, name):
    kind = gguf.GGMLQuantizationType[name]
    options = ["--set", f"type={name.lower()}", "--allow", "quantized"]
    turned = numbers(96, 70)
    safetensors.numpy.save_file({"w": turned}, folder / "in.safetensors")
    convert(folder / "in.safetensors", folder / "turned.gguf", *options, "--transform", "w: transpose", "--verify")
    assert_quantized(folder / "turned.gguf", {"w": turned.T.copy()}, kind)
    blocks = {other: tensor for other, tensor in mixed().items() if other in QUANTIZED}
    write(folder / "blocks.gguf", blocks)
    convert(folder / "blocks.gguf", folder / "again.gguf", *options, "--verify")
    found = {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(folder / "again.gguf").tensors}
    for other, (data, own) in blocks.items():
        expected = data if own == kind else gguf.quantize(gguf.dequantize(data, own), kind)
        assert found[other].tobytes() == expected.tobytes(), other


@check("nan", "inf", "-inf", "1e9")
def what_gguf_py_would_quantize_to_junk_is_refused(folder, value):
    given = numbers(8, 64)
    given[5, 7] = float(value)
    safetensors.numpy.save_file({"w": given}, folder / "in.safetensors")
    options = ["--set", "type=q8_0", "--allow", "all"]
    said = convert(folder / "in.safetensors", folder / "out.gguf", *options, fails=True)
    assert "element 327" in said and "gguf.Q8_0" in said, said


@check()
def sets_go_both_ways(folder):
    given = {f"w{number}": numbers(4, number + 1) for number in range(9)}
    write(folder / "in.gguf", given, split_max_tensors=2)
    first = folder / "in-00001-of-00005.gguf"
    convert(first, folder / "whole.gguf")
    assert_equal(read(folder / "whole.gguf"), given)
    convert(folder / "whole.gguf", folder / "out.gguf", "--shard-size", "200", "--verify")
    files = sorted(folder.glob("out-*.gguf"))
    assert len(files) > 2
    found = {name: value for file in files for name, value in read(file).items()}
    assert_equal(found, given)
    keys = [gguf.GGUFReader(file).fields for file in files]
    assert [int(fields["split.no"].contents()) for fields in keys] == list(range(len(files)))
    assert {int(fields["split.tensors.count"].contents()) for fields in keys} == {9}
    convert(files[0], folder / "again.gguf")
    assert (folder / "again.gguf").read_bytes() == (folder / "whole.gguf").read_bytes()
