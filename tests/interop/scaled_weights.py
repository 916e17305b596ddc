#!/usr/bin/env python3
"""Dequantizes scaled weights with the built-in mappings, and compares bit for bit with torch and `transformers`.

    python tests/interop/scaled_weights.py --ckpt target/debug/ckpt     (packages: requirements-transformers.txt)

FP8 in blocks: what DeepSeek's `fp8_cast_bf16.py` computes, each element times the scale of its block in 32-bit floats.
Scales for a tensor or for rows: the same. MXFP4: `convert_moe_packed_tensors` of `transformers`.
"""

import json
import sys

import safetensors.torch
import torch
import transformers
from harness import check, ckpt, convert, main
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

NARROWED = ("--allow", "narrowed")


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def fp8(*shape: int, seed: int) -> torch.Tensor:
    return (torch.randn(shape, generator=generator(seed)) * 60).clamp(-448, 448).to(torch.float8_e4m3fn)


def positive(*shape: int, seed: int) -> torch.Tensor:
    return torch.rand(shape, generator=generator(seed)) * 0.01 + 1e-5


def expanded(scales: torch.Tensor, shape: torch.Size, block: int) -> torch.Tensor:
    """The scale of each element: blocks at the far edges are cut off."""
    rows = scales.repeat_interleave(block, 0)[: shape[0]]
    return rows.repeat_interleave(block, 1)[:, : shape[1]]


def equal(path, expected: dict) -> None:
    found = safetensors.torch.load_file(path)
    assert found.keys() == expected.keys(), f"{sorted(found)} for {sorted(expected)}"
    for name, value in expected.items():
        other = found[name]
        assert (other.dtype, other.shape) == (value.dtype, value.shape), name
        same = torch.equal(other.contiguous().view(torch.uint8), value.contiguous().view(torch.uint8))
        assert same, f"{name} differs: {(other.float() - value.float()).abs().max()}"


def block_model(seed: int) -> tuple[dict, dict]:
    """A checkpoint as DeepSeek V3 and Qwen 3 FP8 have it, with and without whole blocks; and its numbers."""
    stored, expected = {}, {}
    for number, (rows, columns) in enumerate([(256, 384), (300, 200), (1, 129), (128, 1), (7, 5)]):
        name = f"model.layers.{number}.mlp.down_proj"
        weight = fp8(rows, columns, seed=seed + number)
        scales = positive(-(-rows // 128), -(-columns // 128), seed=seed + 100 + number)
        stored |= {f"{name}.weight": weight, f"{name}.weight_scale_inv": scales}
        expected[f"{name}.weight"] = (weight.to(torch.float32) * expanded(scales, weight.shape, 128)).to(torch.bfloat16)
    kept = {"model.norm.weight": torch.randn(16, generator=generator(seed)).to(torch.bfloat16),
            "lm_head.weight": torch.randn(4, 16, generator=generator(seed + 1))}
    return stored | kept, expected | kept


@check()
def fp8_in_blocks_is_what_deepseeks_conversion_computes(folder):
    stored, expected = block_model(1)
    source, out = folder / "source.safetensors", folder / "out.safetensors"
    safetensors.torch.save_file(stored, source)
    report = convert(source, out, "--map", "fp8-blocks-to-bf16", *NARROWED)
    assert "dequantized (5)" in report and "narrowed (5)" in report, report
    equal(out, expected)


@check()
def any_number_of_threads_and_bytes_of_memory_write_the_same_file(folder):
    stored, _ = block_model(2)
    stored |= {"big.weight": fp8(2000, 3001, seed=3), "big.weight_scale_inv": positive(16, 24, seed=4)}
    source = folder / "source.safetensors"
    safetensors.torch.save_file(stored, source)
    files = []
    for name, arguments in {"one": ("-j1",), "four": ("-j4",), "little": ("-j1", "--max-memory", "16m")}.items():
        files.append(folder / f"{name}.safetensors")
        convert(source, files[-1], "--map", "fp8-blocks-to-bf16", *NARROWED, *arguments)
    first, *others = [path.read_bytes() for path in files]
    assert others == [first] * 2


@check()
def a_scale_for_all_elements_or_for_each_row_is_what_torch_computes(folder):
    weight = fp8(30, 50, seed=5)
    integers = torch.randint(-128, 128, (12, 20), generator=generator(6)).to(torch.int8)
    scales = {"a": positive(1, seed=7)[0].reshape(()), "b": positive(1, seed=8), "c": positive(30, 1, seed=9),
              "d": positive(30, 1, seed=10).to(torch.bfloat16)}
    stored = {f"{name}.weight": weight.clone() for name in scales} | {f"{name}.weight_scale": scale for name, scale in scales.items()}
    stored |= {"e.weight": integers, "e.weight_scale": positive(12, 1, seed=11), "norm.weight": torch.ones(3)}
    expected = {f"{name}.weight": (weight.to(torch.float32) * scale.to(torch.float32)).to(torch.bfloat16)
                for name, scale in scales.items()}
    expected["e.weight"] = (integers.to(torch.float32) * stored["e.weight_scale"]).to(torch.bfloat16)
    source, out = folder / "source.safetensors", folder / "out.safetensors"
    safetensors.torch.save_file(stored, source)
    convert(source, out, "--map", "fp8-scales-to-bf16", *NARROWED)
    equal(out, expected | {"norm.weight": torch.ones(3)})


@check("bf16", "f32")
def mxfp4_is_what_transformers_unpacks(folder, dtype):
    stored, expected = {}, {}
    torch_dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[dtype]
    for name, shape, seed in [("gate_up_proj", (3, 10, 2), 12), ("down_proj", (2, 7, 5), 13)]:
        blocks = torch.randint(0, 256, (*shape, 16), generator=generator(seed)).to(torch.uint8)
        scales = torch.randint(100, 140, shape, generator=generator(seed + 10)).to(torch.uint8)
        name = f"model.layers.0.mlp.experts.{name}"
        stored |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        expected[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch_dtype)
    bias = {"model.layers.0.mlp.experts.down_proj_bias": torch.randn(2, 7, generator=generator(14))}
    source, out, table = folder / "source.safetensors", folder / "out.safetensors", folder / "table.toml"
    safetensors.torch.save_file(stored | bias, source)
    text = ckpt("map", "show", "mxfp4-to-bf16").stdout
    assert 'dtype = "bf16"' in text, text
    table.write_text(text.replace('"bf16"', f'"{dtype}"'))
    report = convert(source, out, "--map", table)
    assert "dequantized (2)" in report and "narrowed" not in report, report
    equal(out, expected | bias)


@check()
def the_steps_after_apply_to_numbers(folder):
    weight, scales = fp8(130, 260, seed=15), positive(2, 3, seed=16)
    table = folder / "table.toml"
    table.write_text("""
[[rule]]
from = ["w", "s"]
to = "w"
dequantize = "scaled"
block = [128, 128]
steps = ["scale 3", "reshape 260 -> 2 130 on 1", "permute 1 2 0", "cast f32 -> f16"]
""")
    source, out = folder / "source.safetensors", folder / "out.safetensors"
    safetensors.torch.save_file({"w": weight, "s": scales}, source)
    convert(source, out, "--map", table, *NARROWED)
    numbers = weight.to(torch.float32) * expanded(scales, weight.shape, 128) * 3
    equal(out, {"w": numbers.reshape(130, 2, 130).permute(1, 2, 0).contiguous().to(torch.float16)})


@check()
def a_plan_and_a_receipt_say_what_is_computed(folder):
    stored, expected = block_model(17)
    source, out, receipt = folder / "source.safetensors", folder / "out.safetensors", folder / "receipt.json"
    safetensors.torch.save_file(stored, source)
    plan = ckpt("plan", source, out, "--map", "fp8-blocks-to-bf16", *NARROWED, "--format", "json")
    assert plan.returncode == 0, plan.stderr
    steps = [step for transfer in json.loads(plan.stdout)["transfers"] for step in transfer["route"]["steps"]]
    computed = [step for step in steps if step["step"] == "compute"]
    assert len(computed) == 5 and all(step["from"] == "f8_e4m3" for step in computed), steps
    convert(source, out, "--map", "fp8-blocks-to-bf16", *NARROWED, "--verify", "--receipt", receipt)
    equal(out, expected)
    checked = ckpt("verify", "--receipt", receipt)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    compared = ckpt("verify", source, out, "--map", "fp8-blocks-to-bf16")
    assert "7 of 7 tensors are equal bit for bit" in compared.stdout, compared.stdout + compared.stderr


@check()
def what_is_missing_or_does_not_fit_is_refused_by_name(folder):
    stored, _ = block_model(18)
    source, out, name = folder / "source.safetensors", folder / "out.safetensors", "model.layers.1.mlp.down_proj"

    def refused(tensors: dict, *says: str, arguments=()) -> None:
        safetensors.torch.save_file(tensors, source)
        report = convert(source, out, "--map", "fp8-blocks-to-bf16", *NARROWED, *arguments, fails=True)
        assert all(text in report for text in says), report

    without = lambda key: {own: value for own, value in stored.items() if own != key}
    refused(without(f"{name}.weight_scale_inv"), "a quantized tensor has no scales", f"{name}.weight_scale_inv")
    refused(without(f"{name}.weight"), "scales belong to no tensor", f"{name}.weight")
    refused(stored | {f"{name}.weight_scale_inv": positive(2, 2, seed=1)}, "the scales do not fit the elements", "[3, 2]")
    refused(stored | {f"{name}.weight_scale_inv": positive(3, 2, seed=1).to(torch.int32)}, "wrong dtype", "i32")
    refused(stored, "the scales are not kept", arguments=("--inverse",))
    big = stored | {f"{name}.weight_scale_inv": positive(3, 2, seed=1) * 1e38 * 100}
    refused(big, "a step makes a number too large for f32", name)


if __name__ == "__main__":
    sys.exit(main(__doc__, torch, transformers))
