#!/usr/bin/env python3
"""Decodes quantized weights, and compares bit for bit with what the libraries that quantized them compute.

    python tests/interop/quantized_weights.py --ckpt target/debug/ckpt     (packages: requirements-quantized.txt)

Each library makes small random weights, and stores them as a directory for safetensors. `ckpt convert DIR FILE --dtype D` then
has to write what the library itself computes in D: in 32-bit floats, in halves and in bfloat16.
"""

import json
import math
import os
import pathlib
import sys
import warnings

sys.modules["triton"] = None  # torch does without it
os.environ.setdefault("TORCHAO_FORCE_SKIP_LOADING_SO_FILES", "1")
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # bitsandbytes would compile what is called a few times
warnings.filterwarnings("ignore")

import bitsandbytes
import bitsandbytes.functional
import compressed_tensors
import mlx.core as mx
import safetensors.torch
import torch
import torchao
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from harness import check, convert, main
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer
from torchao.prototype.mx_formats.mx_tensor import MXTensor
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization import (
    Float8WeightOnlyConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    MappingType,
    PerAxis,
    PerGroup,
    PerRow,
    PerTensor,
    quantize_,
)
from torchao.quantization.quantize_.workflows import Float8Tensor

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
KEPT = "model.norm.weight"


def weights(*shape: int, seed: int, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype) * 0.3


def store(folder: pathlib.Path, tensors: dict, settings: dict | None, metadata: dict | None = None) -> pathlib.Path:
    """A directory as `save_pretrained` writes it, with a tensor that is not quantized."""
    folder.mkdir()
    norm = torch.linspace(0.5, 1.5, 7)
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    safetensors.torch.save_file(tensors | {KEPT: norm}, folder / "model.safetensors", {"format": "pt"} | (metadata or {}))
    config = {"model_type": "llama"} | ({"quantization_config": settings} if settings else {})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def difference(found: torch.Tensor, expected: torch.Tensor) -> str | None:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype} {tuple(found.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
    integers = {4: torch.int32, 2: torch.int16}[found.element_size()]
    differ = found.contiguous().view(integers) != expected.contiguous().view(integers)
    if not differ.any():
        return None
    at = differ.nonzero()[0].tolist()
    return f"{differ.sum()} of {found.numel()} differ, at {at} {found[tuple(at)]} for {expected[tuple(at)]}"


def equal(folder: pathlib.Path, library: dict[str, dict[str, torch.Tensor]]) -> int:
    """Compares what is decoded with the numbers of the library in each dtype; returns how many weights were equal."""
    count = 0
    for dtype, expected in library.items():
        out = folder.parent / f"{folder.name}.{dtype}.safetensors"
        convert(folder, out, "--dtype", dtype, "--allow", "narrowed")
        found = safetensors.torch.load_file(out)
        assert found.keys() == expected.keys() | {KEPT}, f"{sorted(found)} for {sorted(expected)}"
        for name, value in expected.items():
            problem = difference(found[name], value.detach())
            assert problem is None, f"{name} in {dtype}: {problem}"
            count += 1
    return count


def refused(folder: pathlib.Path, *says: str) -> None:
    message = convert(folder, folder.parent / "refused.safetensors", "--dtype", "f32", "--allow", "narrowed", fails=True)
    assert all(text in message for text in says), message


# bitsandbytes


@check("nf4", "fp4")
def bitsandbytes_in_4_bits(folder, kind):
    compared, number = 0, 0
    for blocksize in (64, 128, 4096):
        for is_nested in (False, True):
            tensors, library = {}, {dtype: {} for dtype in DTYPES}
            for shape in [(64, 96), (40, 33), (1, 5)]:
                number += 1
                name = f"model.layers.{number}.mlp.up_proj.weight"
                packed, state = bitsandbytes.functional.quantize_4bit(
                    weights(*shape, seed=number, dtype=torch.float16), blocksize=blocksize, compress_statistics=is_nested,
                    quant_type=kind)
                tensors[name] = packed
                tensors |= {f"{name}.{key}": tensor for key, tensor in state.as_dict(packed=True).items()}
                # As a column: for rows that are no whole blocks, the library's kernel for AVX-512 takes scales of other blocks.
                state.shape = torch.Size((math.prod(shape), 1))
                for dtype, torch_dtype in DTYPES.items():
                    state.dtype = torch_dtype
                    # The table has 0 twice; the library makes −0 of the second one, unlike its table.
                    library[dtype][name] = bitsandbytes.functional.dequantize_4bit(packed, state).reshape(shape) + 0.0
            settings = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind}
            stored = store(folder / f"{blocksize}{is_nested}", tensors, settings if is_nested else None)
            compared += equal(stored, library)
    assert compared == 3 * 2 * 3 * 3, compared


@check()
def bitsandbytes_in_8_bits(folder):
    tensors, library = {}, {dtype: {} for dtype in DTYPES}
    for number, shape in enumerate([(64, 96), (33, 40), (1, 7)]):
        name = f"model.layers.{number}.mlp.up_proj"
        integers, scales, _ = bitsandbytes.functional.int8_vectorwise_quant(weights(*shape, seed=number, dtype=torch.float16))
        tensors |= {f"{name}.weight": integers, f"{name}.SCB": scales, f"{name}.weight_format": torch.tensor(0, dtype=torch.uint8)}
        numbers = bitsandbytes.functional.int8_vectorwise_dequant(integers, scales)
        for dtype, torch_dtype in DTYPES.items():
            library[dtype][f"{name}.weight"] = numbers.to(torch_dtype)
    stored = store(folder / "int8", tensors, {"quant_method": "bitsandbytes", "load_in_8bit": True})
    assert equal(stored, library) == 9


# compressed-tensors

INTEGERS = {"type": "int", "symmetric": True, "strategy": "group", "group_size": 32}
FLOATS = {"type": "float", "num_bits": 8, "symmetric": True, "strategy": "tensor"}
SCHEMES = {
    **{f"int{bits}": ("pack-quantized", INTEGERS | {"num_bits": bits}) for bits in range(1, 9)},
    **{f"int{bits}-asymmetric": ("pack-quantized", INTEGERS | {"num_bits": bits, "symmetric": False}) for bits in (2, 3, 4, 5, 8)},
    "int4-channel": ("pack-quantized", INTEGERS | {"num_bits": 4, "strategy": "channel", "group_size": None}),
    "int4-channel-asymmetric": ("pack-quantized",
                                INTEGERS | {"num_bits": 4, "strategy": "channel", "group_size": None, "symmetric": False}),
    "plain-int8-tensor": ("int-quantized", INTEGERS | {"num_bits": 8, "strategy": "tensor", "group_size": None}),
    "plain-int8-channel": ("int-quantized", INTEGERS | {"num_bits": 8, "strategy": "channel", "group_size": None}),
    "plain-int8-channel-asymmetric": ("int-quantized", INTEGERS | {"num_bits": 8, "strategy": "channel", "group_size": None,
                                                                   "symmetric": False}),
    "plain-int8-group": ("int-quantized", INTEGERS | {"num_bits": 8}),
    "fp8-tensor": ("float-quantized", FLOATS),
    "fp8-channel": ("float-quantized", FLOATS | {"strategy": "channel"}),
    "fp8-block": ("float-quantized", FLOATS | {"strategy": "block", "block_structure": [16, 32]}),
    "fp8-naive": ("naive-quantized", FLOATS | {"strategy": "channel"}),
    "nvfp4": ("nvfp4-pack-quantized", FLOATS | {"num_bits": 4, "strategy": "tensor_group", "group_size": 16,
                                               "scale_dtype": "torch.float8_e4m3fn", "zp_dtype": "torch.float8_e4m3fn"}),
    "mxfp4": ("mxfp4-pack-quantized", FLOATS | {"num_bits": 4, "strategy": "group", "group_size": 32,
                                               "scale_dtype": "torch.uint8", "zp_dtype": "torch.uint8"}),
    "mxfp8": ("mxfp8-quantized", FLOATS | {"strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8",
                                           "zp_dtype": "torch.uint8"}),
}


def parameters(weight: torch.Tensor, arguments: QuantizationArgs) -> dict:
    """The scales and zero points of a weight, as the observers of llm-compressor find them: the smallest and largest value."""
    made = {}
    strategy, group = str(arguments.strategy), arguments.group_size
    own = weight.float()
    if strategy == "tensor":
        low, high = own.min().reshape(1), own.max().reshape(1)
    elif strategy == "channel":
        low, high = own.amin(1, keepdim=True), own.amax(1, keepdim=True)
    elif strategy == "block":
        rows, columns = arguments.block_structure
        shape = (math.ceil(own.shape[0] / rows), math.ceil(own.shape[1] / columns))
        padded = torch.zeros(shape[0] * rows, shape[1] * columns)
        padded[: own.shape[0], : own.shape[1]] = own
        blocks = padded.reshape(shape[0], rows, shape[1], columns)
        low, high = blocks.amin((1, 3)), blocks.amax((1, 3))
    else:
        groups = own.reshape(own.shape[0], -1, group)
        low, high = groups.amin(2), groups.amax(2)
    if strategy == "tensor_group":
        made["weight_global_scale"] = generate_gparam(own.min(), own.max()).reshape(1)
    scale, zero = calculate_qparams(low.to(weight.dtype), high.to(weight.dtype), arguments, made.get("weight_global_scale"))
    return made | {"weight_scale": scale, "weight_zero_point": zero}


def decompressed(compressor: type, packed: dict, scheme: QuantizationScheme, dtype: torch.dtype) -> torch.Tensor:
    """The library's numbers in a dtype: it computes in that of the scales, and small floats in bfloat16 unless it is told."""
    if "weight_global_scale" in packed:
        rows, columns = packed["weight_packed"].shape
        elements = unpack_fp4_from_uint8(packed["weight_packed"], rows, 2 * columns, dtype)
        return dequantize(elements, packed["weight_scale"].to(dtype), args=scheme.weights, dtype=dtype,
                          global_scale=packed["weight_global_scale"])
    scales = packed["weight_scale"]
    in_dtype = packed | ({"weight_scale": scales.to(dtype)} if scales.dtype in DTYPES.values() else {})
    return compressor.decompress(in_dtype, scheme)["weight"].to(dtype)


@check(*SCHEMES)
def compressed_tensors_writes(folder, name):
    form, stated = SCHEMES[name]
    arguments = QuantizationArgs(**stated)
    scheme = QuantizationScheme(targets=["Linear"], weights=arguments, format=form)
    compressor = BaseCompressor.get_value_from_registry(form)
    compared = 0
    for own, own_dtype in DTYPES.items():
        tensors, library = {}, {dtype: {} for dtype in {"f32", own}}
        for number, shape in enumerate([(64, 96), (24, 64), (7, 32)]):
            module = f"model.layers.{number}.mlp.up_proj"
            weight = weights(*shape, seed=number, dtype=own_dtype)
            made = {"weight": weight} | parameters(weight, arguments)
            packed = compressor.compress(made, scheme)
            tensors |= {f"{module}.{key}": tensor for key, tensor in packed.items() if tensor is not None}
            for dtype in library:
                library[dtype][f"{module}.weight"] = decompressed(compressor, packed, scheme, DTYPES[dtype])
        config = QuantizationConfig(config_groups={"group_0": scheme}, format=form, quantization_status="compressed")
        compared += equal(store(folder / own, tensors, json.loads(config.model_dump_json())), library)
    assert compared == 3 * 5, compared


@check("symmetric", "asymmetric")
def groups_of_compressed_tensors_in_another_order(folder, kind):
    """`actorder: group`, which the library no longer writes; the packing is its own."""
    tensors, library = {}, {dtype: {} for dtype in DTYPES}
    for number, (rows, columns, group) in enumerate([(64, 96, 32), (24, 64, 16), (7, 32, 32)]):
        module, random = f"model.layers.{number}.mlp.up_proj", torch.Generator().manual_seed(number)
        integers = torch.randint(-8, 8, (rows, columns), generator=random).to(torch.int8)
        zeros = torch.randint(-8, 8, (rows, columns // group), generator=random).to(torch.int8)
        scales = weights(rows, columns // group, seed=number, dtype=torch.float16).abs()
        index = (torch.arange(columns) // group)[torch.randperm(columns, generator=random)].to(torch.int32)
        tensors |= {f"{module}.weight_packed": pack_to_int32(integers, 4), f"{module}.weight_scale": scales,
                    f"{module}.weight_shape": torch.tensor([rows, columns]), f"{module}.weight_g_idx": index}
        if kind == "asymmetric":
            tensors[f"{module}.weight_zero_point"] = pack_to_int32(zeros, 4, packed_dim=0)
            integers = integers - zeros[:, index]
        for dtype, torch_dtype in DTYPES.items():
            library[dtype][f"{module}.weight"] = (integers.float() * scales.float()[:, index]).to(torch_dtype)
    arguments = INTEGERS | {"num_bits": 4, "symmetric": kind == "symmetric", "actorder": "group"}
    groups = {f"group_{number}": {"targets": [f"model.layers.{number}.mlp.up_proj"],
                                  "weights": arguments | {"group_size": group}} for number, group in enumerate((32, 16, 32))}
    settings = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}
    assert equal(store(folder / kind, tensors, settings), library) == 9


@check()
def floats_of_6_bits_are_refused_by_name(folder):
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(
        **FLOATS | {"num_bits": 6, "strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}))
    weight = weights(32, 64, seed=1, dtype=torch.bfloat16)
    made = {"weight": weight} | parameters(weight, scheme.weights)
    packed = BaseCompressor.get_value_from_registry("mxfp6-pack-quantized").compress(made, scheme)
    config = QuantizationConfig(config_groups={"group_0": scheme}, format="mxfp6-pack-quantized")
    tensors = {f"m.{key}": tensor for key, tensor in packed.items()}
    refused(store(folder / "mxfp6", tensors, json.loads(config.model_dump_json())), "mxfp6-pack-quantized")


# HQQ

@check(8, 6, 5, 4, 3, 2, 1.58, 1)
def hqq_in_bits(folder, bits):
    compared, number = 0, 0
    for own, own_dtype in DTYPES.items():
        for axis in (0, 1):
            tensors, library = {}, {dtype: {} for dtype in {"f32", own}}
            for shape, group, is_view, is_grouped in [((64, 96), 32, False, True), ((40, 64), 64, False, True),
                                                      ((32, 64), 16, True, True), ((40, 64), 64, False, False)]:
                number += 1
                module = f"model.layers.{number}.mlp.up_proj"
                linear = torch.nn.Linear(shape[1], shape[0])
                linear.weight.data = weights(*shape, seed=number)
                settings = BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis, view_as_float=is_view)
                settings["weight_quant_params"]["channel_wise"] = is_grouped
                own_layer = HQQLinear(linear, settings, compute_dtype=own_dtype, device="cpu")
                tensors |= {f"{module}.{key}": tensor for key, tensor in own_layer.state_dict().items() if tensor is not None}
                for dtype in library:
                    meta = own_layer.meta | {"compute_dtype": DTYPES[dtype]}
                    meta |= {key: meta[key].to(DTYPES[dtype]) for key in ("scale", "zero")}
                    library[dtype][f"{module}.weight"] = Quantizer.dequantize(own_layer.W_q.data, meta)
                    library[dtype][f"{module}.bias"] = own_layer.bias.detach().to(DTYPES[dtype])
            compared += equal(store(folder / f"{own}{axis}", tensors, {"quant_method": "hqq"} if axis else None), library)
    assert compared == 5 * 2 * 4 * 2, compared


# MLX

MODES = {
    **{f"affine-{bits}-{group}": ("affine", bits, group) for bits in (1, 2, 3, 4, 5, 6, 8) for group in (32, 64, 128)},
    "mxfp4": ("mxfp4", 4, 32), "mxfp8": ("mxfp8", 8, 32), "nvfp4": ("nvfp4", 4, 16),
}
OF_MLX = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def of_mlx(array: mx.array) -> torch.Tensor:
    if array.dtype == mx.bfloat16:
        return torch.from_dlpack(array.view(mx.uint16).astype(mx.uint16)).clone().view(torch.bfloat16)
    return torch.from_dlpack(array).clone()


@check(*MODES)
def mlx_quantizes(folder, name):
    mode, bits, group = MODES[name]
    compared = 0
    for own, own_dtype in OF_MLX.items():
        arrays, library = {KEPT: mx.ones(7)}, {dtype: {} for dtype in {"f32", own}}
        for number, shape in enumerate([(64, 128), (8, 256), (2, 3, 128)]):
            module = f"model.layers.{number}.mlp.up_proj"
            weight = mx.array(weights(*shape, seed=number).numpy()).astype(own_dtype)
            quantized, scales, *biases = mx.quantize(weight, group_size=group, bits=bits, mode=mode)
            arrays |= {f"{module}.weight": quantized, f"{module}.scales": scales}
            arrays |= {f"{module}.biases": own for own in biases}
            for dtype in library:
                in_dtype = [own.astype(OF_MLX[dtype]) for own in (scales, *biases)] if mode == "affine" else [scales]
                numbers = mx.dequantize(quantized, *in_dtype, group_size=group, bits=bits, mode=mode, dtype=OF_MLX[dtype])
                library[dtype][f"{module}.weight"] = of_mlx(numbers)
        stored = folder / own
        stored.mkdir()
        mx.save_safetensors(str(stored / "model.safetensors"), arrays, {"format": "mlx"})
        quantization = {"group_size": group, "bits": bits} | ({"mode": mode} if mode != "affine" else {})
        (stored / "config.json").write_text(json.dumps({"model_type": "llama", "quantization": quantization}))
        compared += equal(stored, library)
    assert compared == 3 * 5, compared


# torchao


def stored_by_torchao(folder: pathlib.Path, tensors: dict, settings: dict | None = None) -> pathlib.Path:
    flat, metadata = flatten_tensor_state_dict(tensors | {KEPT: torch.ones(7)})
    flat.pop(KEPT)
    return store(folder, flat, settings, metadata)


CONFIGURATIONS = {
    "int8-row": Int8WeightOnlyConfig(),
    "int8-tensor": Int8WeightOnlyConfig(granularity=PerTensor()),
    "int8-group": Int8WeightOnlyConfig(granularity=PerGroup(32)),
    "fp8-tensor": Float8WeightOnlyConfig(),
    "fp8-e5m2": Float8WeightOnlyConfig(weight_dtype=torch.float8_e5m2),
    **{f"intx-{bits}": IntxWeightOnlyConfig(weight_dtype=getattr(torch, f"int{bits}"), granularity=PerGroup(32))
       for bits in range(1, 9)},
    "intx-axis-asymmetric": IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0),
                                                 mapping_type=MappingType.ASYMMETRIC),
}


@check(*CONFIGURATIONS)
def torchao_quantizes(folder, name):
    compared = 0
    for own, own_dtype in DTYPES.items():
        tensors, library = {}, {dtype: {} for dtype in {"f32", own}}
        for number, shape in enumerate([(64, 96), (24, 64), (7, 32)]):
            module = torch.nn.Sequential(torch.nn.Linear(shape[1], shape[0], bias=False, dtype=own_dtype))
            module[0].weight.data = weights(*shape, seed=number, dtype=own_dtype)
            quantize_(module, CONFIGURATIONS[name])
            tensors[f"model.layers.{number}.mlp.up_proj.weight"] = module[0].weight.data
            for dtype in library:
                library[dtype][f"model.layers.{number}.mlp.up_proj.weight"] = of_torchao(module[0].weight.data, DTYPES[dtype])
        compared += equal(stored_by_torchao(folder / own, tensors, {"quant_method": "torchao"}), library)
    assert compared == 3 * 5, compared


def of_torchao(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The library's numbers; the subclasses whose own function has one dtype take that of the tensor."""
    if type(tensor).__name__ == "IntxUnpackedToInt8Tensor":
        tensor = tensor.to(dtype)
        return tensor.dequantize()
    return tensor.dequantize(dtype)


@check("rows", "blocks", "int8-asymmetric")
def torchao_quantizes_a_tensor_by(folder, name):
    from torchao.quantization import PerBlock
    from torchao.quantization.quantize_.workflows import Int8Tensor

    make = {
        "rows": lambda own: Float8Tensor.from_hp(own, granularity=PerRow()),
        "blocks": lambda own: Float8Tensor.from_hp(own, granularity=PerBlock([16, 32])),
        "int8-asymmetric": lambda own: Int8Tensor.from_hp(own, PerRow(), mapping_type=MappingType.ASYMMETRIC),
    }[name]
    tensors = {f"m.{number}.weight": make(weights(*shape, seed=number, dtype=torch.bfloat16))
               for number, shape in enumerate([(64, 96), (32, 64), (16, 32)])}
    library = {dtype: {name: of_torchao(tensor, torch_dtype) for name, tensor in tensors.items()}
               for dtype, torch_dtype in DTYPES.items()}
    assert equal(stored_by_torchao(folder / "made", tensors), library) == 9


@check("e4m3", "e5m2", "fp4", "nvfp4", "nvfp4-of-all")
def torchao_quantizes_small_floats(folder, name):
    def make(own: torch.Tensor) -> torch.Tensor:
        kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "fp4": torch.float4_e2m1fn_x2}
        if name in kinds:
            return MXTensor.to_mx(own, kinds[name])
        of_all = per_tensor_amax_to_scale(own.abs().max()) if name == "nvfp4-of-all" else None
        return NVFP4Tensor.to_nvfp4(own, per_tensor_scale=of_all)

    tensors = {f"m.{number}.weight": make(weights(*shape, seed=number, dtype=torch.bfloat16))
               for number, shape in enumerate([(64, 96), (24, 64), (7, 32), (3, 16, 64)])}
    library = {dtype: {name: of_torchao(tensor, DTYPES[dtype]) for name, tensor in tensors.items()}
               for dtype in ("f32", "bf16")}
    assert equal(stored_by_torchao(folder / "made", tensors), library) == 8


@check()
def layouts_of_torchao_for_one_kernel_are_refused_by_name(folder):
    swizzled = NVFP4Tensor.to_nvfp4(weights(128, 64, seed=1, dtype=torch.bfloat16), is_swizzled_scales=True)
    refused(stored_by_torchao(folder / "swizzled", {"m.weight": swizzled}), "is_swizzled_scales", "m.weight")


# PyTorch


@check("qint8", "quint8", "qint32")
def pytorch_quantizes(folder, name):
    dtype, random = getattr(torch, name), torch.Generator().manual_seed(1)
    tensors = {}
    for number, shape in enumerate([(6, 10), (4, 3, 3, 5), (300, 257), (1,), (0, 3)]):
        numbers = weights(*shape, seed=number)
        tensors[f"{number}.tensor"] = torch.quantize_per_tensor(numbers, 0.1 / (number + 1), 3, dtype)
        for axis in range(len(shape)):
            scales = torch.rand(shape[axis], generator=random, dtype=torch.float64) * 0.1 + 0.001
            zeros = torch.randint(0, 9, (shape[axis],), generator=random)
            tensors[f"{number}.axis{axis}"] = torch.quantize_per_channel(numbers, scales, zeros, axis, dtype)
            if name == "quint8":  # scales and zero points of floats
                zeros = torch.rand(shape[axis], generator=random) * 9
                tensors[f"{number}.floats{axis}"] = torch.quantize_per_channel(numbers, scales.float(), zeros, axis, dtype)
    tensors["turned"] = tensors["0.tensor"].t()
    torch.save(tensors, folder / "quantized.pt")
    count = 0
    for own, torch_dtype in DTYPES.items():
        for out in (folder / f"{own}.safetensors", folder / f"{own}.pt"):
            convert(folder / "quantized.pt", out, "--dtype", own, "--allow", "narrowed")
            found = torch.load(out, weights_only=True) if out.suffix == ".pt" else safetensors.torch.load_file(out)
            assert found.keys() == tensors.keys()
            for key, value in tensors.items():
                problem = difference(found[key], value.dequantize().to(torch_dtype))
                assert problem is None, f"{key} in {own}: {problem}"
                count += 1
    assert count == 6 * len(tensors) and len(tensors) == (28 if name == "quint8" else 17), (count, len(tensors))


if __name__ == "__main__":
    sys.exit(main(__doc__, torch, bitsandbytes, compressed_tensors, torchao))
