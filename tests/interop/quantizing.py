#!/usr/bin/env python3
"""Quantizes model directories, and compares bit for bit with what the libraries of the schemes compute.

    python tests/interop/quantizing.py --ckpt target/debug/ckpt     (packages: requirements-quantized.txt)

`fp8-blocks`: the quantizer of `transformers` for FP8 in blocks. `fp8-channels`, `int8-channels` and `int4-groups`:
`calculate_qparams` and the compressors of `compressed_tensors`. All compute in the dtype of the weights. `mlx-4bit` and
`mlx-8bit`: `mx.quantize`. `nf4`: `quantize_4bit` of `bitsandbytes` and what its `QuantState` serializes.

What is written decodes with `--dtype` to the numbers that the library makes of it.
"""

import json
import pathlib
import sys
import types
import warnings
from unittest import mock

warnings.filterwarnings("ignore")

import bitsandbytes.functional
import compressed_tensors
import mlx.core as mx
import numpy as np
import safetensors.torch
import torch
import transformers
import transformers.modeling_utils
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.format import infer_module_format
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, quantize
from compressed_tensors.quantization.utils import calculate_qparams
from harness import check, convert, main
from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer
from transformers.utils.quantization_config import FineGrainedFP8Config

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# The module of its kernels, which needs a GPU, also has the class that the quantizer asks for.
KERNELS = types.ModuleType("transformers.integrations.finegrained_fp8")
KERNELS.FP8Linear = type("FP8Linear", (), {})
sys.modules[KERNELS.__name__] = KERNELS


def model(folder: pathlib.Path, dtype: torch.dtype, shapes: list[tuple[int, int]]) -> dict[str, torch.Tensor]:
    """A directory with a linear layer of each shape, whose numbers have magnitudes of their own; and its tensors."""
    generator = torch.Generator().manual_seed(7)
    tensors = {f"model.layers.{number}.mlp.up_proj.weight": torch.randn(shape, generator=generator) * 3.0 ** (number - 3)
               for number, shape in enumerate(shapes)}
    tensors |= {"lm_head.weight": torch.randn(4, 8, generator=generator), "model.norm.weight": torch.ones(8)}
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    folder.mkdir()
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}))
    return tensors


def same(name: str, found: torch.Tensor, expected: torch.Tensor) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), f"{name}: {found.dtype} {found.shape}"
    differ = found.contiguous().view(torch.uint8) != expected.contiguous().view(torch.uint8)
    assert not differ.any(), f"{name}: {differ.sum()} of {differ.numel()} bytes differ"


def quantized(folder: pathlib.Path, scheme: str) -> dict[str, torch.Tensor]:
    out = folder.parent / scheme
    convert(folder, out, "--set", f"quantize={scheme}", "--verify")
    return safetensors.torch.load_file(out / "model.safetensors")


@check(*DTYPES)
def blocks_are_what_transformers_quantizes(folder, dtype):
    tensors = model(folder / "model", DTYPES[dtype], [(128, 128), (256, 384), (128, 1280), (640, 128)])
    made = {}
    quantizer = FineGrainedFP8HfQuantizer(FineGrainedFP8Config())
    quantizer.pre_quantized = False
    found = quantized(folder / "model", "fp8-blocks")
    count = 0
    for name, weight in tensors.items():
        if "up_proj" not in name:
            same(name, found[name], weight)
            continue
        root = torch.nn.Module()
        root.layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        with mock.patch("transformers.modeling_utils._load_parameter_into_model", lambda _, name, value: made.update({name: value})):
            quantizer.create_quantized_param(root, weight, "layer.weight", "cpu")
        same(name, found[name], made["layer.weight"])
        scales = found[f"{name}_scale_inv"]
        # The module's parameter has 32-bit floats, whatever the quantizer computed in; it leaves out axes of length 1.
        same(f"{name}_scale_inv", scales, made["layer.weight_scale_inv"].to(torch.float32).reshape(scales.shape))
        count += 1
    assert count == 4 and len(found) == len(tensors) + count


@check(*DTYPES)
def rows_are_what_compressed_tensors_quantizes(folder, dtype):
    tensors = model(folder / "model", DTYPES[dtype], [(128, 128), (130, 200), (1, 70_000), (300, 1)])
    tensors["model.layers.1.mlp.up_proj.weight"][5] = 0
    safetensors.torch.save_file(tensors, folder / "model" / "model.safetensors", {"format": "pt"})
    found = quantized(folder / "model", "fp8-channels")
    arguments = QuantizationArgs(num_bits=8, type="float", strategy="channel", symmetric=True)
    count = 0
    for name, weight in tensors.items():
        if "up_proj" not in name:
            same(name, found[name], weight)
            continue
        scale, zero = calculate_qparams(weight.amin(1, keepdim=True), weight.amax(1, keepdim=True), arguments)
        same(f"{name}_scale", found[f"{name}_scale"], scale)
        same(name, found[name], quantize(weight, scale, zero, arguments, dtype=torch.float8_e4m3fn))
        count += 1
    assert count == 4 and len(found) == len(tensors) + count


def shaped(folder: pathlib.Path, dtype: torch.dtype, shapes: list[tuple[int, int]]) -> dict[str, torch.Tensor]:
    """As `model`, with zeros, equal numbers, numbers of one sign and very small ones in the rows of the second layer."""
    tensors = model(folder, dtype, shapes)
    weight = tensors["model.layers.1.mlp.up_proj.weight"]
    weight[0], weight[1], weight[2] = 0, 0.75, -0.75
    weight[3], weight[4] = weight[3].abs(), -weight[4].abs()
    weight[5, :128], weight[6], weight[7, 64:] = 0, 1e-7, -1e-7
    weight[8] = torch.where(torch.arange(weight.shape[1]) % 2 == 0, 1.0, -1.0)
    weight[9] = -0.0
    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return tensors


def decoded(folder: pathlib.Path, name: str) -> dict[str, torch.Tensor]:
    """The numbers of the directory `name`, as ckpt decodes it, in the dtype of the weights and in 32 bits."""
    dtype = name_of(safetensors.torch.load_file(folder / "model" / "model.safetensors")["model.norm.weight"].dtype)
    convert(folder / name, folder / "decoded.safetensors", "--dtype", dtype, "--allow", "dequantized")
    return safetensors.torch.load_file(folder / "decoded.safetensors")


def name_of(dtype: torch.dtype) -> str:
    return next(name for name, own in DTYPES.items() if own == dtype)


def config(folder: pathlib.Path, scheme: str) -> dict:
    return json.loads((folder / scheme / "config.json").read_text())


def check_compressed(folder: pathlib.Path, scheme: str, tensors: dict[str, torch.Tensor], own: set[str]) -> None:
    """Compares what is written for the modules `own` with what the library compresses by the scheme that config.json states."""
    found = quantized(folder / "model", scheme)
    stated = config(folder, scheme)["quantization_config"]
    read = QuantizationConfig.model_validate(stated)
    (group,) = read.config_groups.values()
    assert infer_module_format(torch.nn.Linear, group).value == read.format == stated["format"]
    assert set(read.ignore) == {name.removesuffix(".weight") for name in tensors
                                if tensors[name].ndim == 2} - own
    numbers, count = decoded(folder, scheme), 0
    compressor = BaseCompressor.get_value_from_registry(read.format)
    for name, weight in tensors.items():
        module = name.removesuffix(".weight")
        if module not in own:
            same(name, found.pop(name), weight)
            continue
        size = group.weights.group_size or weight.shape[1]
        groups = weight.unflatten(1, (-1, size))
        scale, zero = calculate_qparams(groups.amin(2), groups.amax(2), group.weights)
        state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
        made = compressor.compress(state, group)
        for part, tensor in made.items():
            same(f"{module}.{part}", found.pop(f"{module}.{part}"), tensor)
        same(name, numbers[name], compressor.decompress(made, group)["weight"])
        count += 1
    assert count == len(own) and not found, found.keys()


@check(*DTYPES)
def integers_of_rows_are_what_compressed_tensors_writes(folder, dtype):
    tensors = shaped(folder / "model", DTYPES[dtype], [(128, 128), (130, 200), (1, 70_000), (300, 1)])
    check_compressed(folder, "int8-channels", tensors, {f"model.layers.{number}.mlp.up_proj" for number in range(4)})


@check(*DTYPES)
def integers_of_groups_are_what_compressed_tensors_packs(folder, dtype):
    tensors = shaped(folder / "model", DTYPES[dtype], [(128, 128), (130, 384), (1, 70_016), (30, 200), (3, 128 * 500)])
    check_compressed(folder, "int4-groups", tensors, {f"model.layers.{number}.mlp.up_proj" for number in (0, 1, 2, 4)})


def of_mlx(array: mx.array) -> torch.Tensor:
    """The same bits; NumPy and PyTorch do not know every dtype of MLX."""
    dtype = {mx.uint32: torch.uint32, mx.float32: torch.float32, mx.float16: torch.float16, mx.bfloat16: torch.bfloat16}
    return torch.from_numpy(np.array(array.view(mx.uint8))).view(dtype[array.dtype])


@check(*((bits, dtype) for bits in (4, 8) for dtype in DTYPES))
def groups_are_what_mlx_quantizes(folder, case):
    bits, dtype = case
    tensors = shaped(folder / "model", DTYPES[dtype], [(128, 128), (130, 256), (1, 64 * 1500), (30, 200)])
    tensors["lm_head.weight"] = torch.randn(10, 64).to(DTYPES[dtype])
    safetensors.torch.save_file(tensors, folder / "model" / "model.safetensors", {"format": "pt"})
    scheme = f"mlx-{bits}bit"
    found = quantized(folder / "model", scheme)
    stated = config(folder, scheme)
    assert stated["quantization"] == stated["quantization_config"] == {"group_size": 64, "bits": bits, "mode": "affine"}
    numbers, count = decoded(folder, scheme), 0
    loaded = mx.load(str(folder / "model" / "model.safetensors"))
    for name, weight in tensors.items():
        if weight.ndim < 2 or weight.shape[1] % 64:
            same(name, found.pop(name), weight)
            continue
        module = name.removesuffix(".weight")
        parts = mx.quantize(loaded[name], group_size=64, bits=bits)
        for part, array in zip(("weight", "scales", "biases"), parts):
            same(f"{module}.{part}", found.pop(f"{module}.{part}"), of_mlx(array))
        same(name, numbers[name], of_mlx(mx.dequantize(*parts, group_size=64, bits=bits)))
        count += 1
    assert count == 4 and not found, found.keys()


@check(*DTYPES)
def choices_of_sixteen_numbers_are_what_bitsandbytes_stores(folder, dtype):
    tensors = shaped(folder / "model", DTYPES[dtype], [(128, 128), (130, 256), (1, 64 * 1500), (3, 11), (32, 10)])
    found = quantized(folder / "model", "nf4")
    stated = transformers.BitsAndBytesConfig.from_dict(config(folder, "nf4")["quantization_config"])
    assert stated.load_in_4bit and stated.bnb_4bit_quant_type == "nf4" and not stated.bnb_4bit_use_double_quant
    assert stated.llm_int8_skip_modules == ["lm_head", "model.layers.3.mlp.up_proj"]
    numbers, count = decoded(folder, "nf4"), 0
    for name, weight in tensors.items():
        if weight.ndim < 2 or weight.numel() % 64 or "lm_head" in name:
            same(name, found.pop(name), weight)
            continue
        packed, state = bitsandbytes.functional.quantize_4bit(weight, blocksize=64, quant_type="nf4")
        same(name, found.pop(name), packed)
        for part, tensor in state.as_dict(packed=True).items():
            same(f"{name}.{part}", found.pop(f"{name}.{part}"), tensor)
        same(name, numbers[name], bitsandbytes.functional.dequantize_4bit(packed, state))
        count += 1
    assert count == 4 and not found, found.keys()


@check("int8-channels", "int4-groups", "nf4")
def transformers_computes_with_what_is_written(folder, scheme):
    torch.manual_seed(5)
    shape = transformers.LlamaConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                                     num_key_value_heads=2, vocab_size=64)
    transformers.LlamaForCausalLM(shape).to(torch.bfloat16).save_pretrained(folder / "model")
    convert(folder / "model", folder / scheme, "--set", f"quantize={scheme}")
    convert(folder / scheme, folder / "numbers", "--dtype", "bf16", "--allow", "dequantized")
    ids = torch.arange(12)[None]
    logits = []
    for name in (scheme, "numbers"):
        opened = transformers.AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.bfloat16)
        with torch.no_grad():
            logits.append(opened(ids).logits.float())
    found, expected = logits
    # Activations are rounded, too, or the kernel computes in another order.
    limit = 0 if scheme == "int4-groups" else 0.03 * expected.abs().max()
    assert (found - expected).abs().max() <= limit, (found - expected).abs().max()


if __name__ == "__main__":
    sys.exit(main(__doc__, torch, transformers, compressed_tensors, bitsandbytes, mx))
