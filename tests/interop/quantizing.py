#!/usr/bin/env python3
"""Quantizes model directories, and compares bit for bit with what the libraries of the schemes compute.

    python tests/interop/quantizing.py --ckpt target/debug/ckpt     (packages: requirements-quantized.txt)

`fp8-blocks`: the quantizer of `transformers` for FP8 in blocks. `fp8-channels`: `calculate_qparams` and `quantize` of
`compressed_tensors`. Both compute in the dtype of the weights.
"""

import json
import pathlib
import sys
import types
import warnings

warnings.filterwarnings("ignore")

import compressed_tensors
import safetensors.torch
import torch
import transformers
import transformers.modeling_utils
from compressed_tensors.quantization import QuantizationArgs, quantize
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
    transformers.modeling_utils._load_parameter_into_model = lambda _, name, value: made.__setitem__(name, value)
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


if __name__ == "__main__":
    sys.exit(main(__doc__, torch, transformers, compressed_tensors))
