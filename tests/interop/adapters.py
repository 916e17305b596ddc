#!/usr/bin/env python3
"""Merges adapters that peft wrote, and compares with peft's own merge of the same models in 32-bit floats.

    python tests/interop/adapters.py --ckpt target/debug/ckpt     (packages: requirements-transformers.txt)

Both compute in 32-bit floats, in other orders: numbers may differ by the rounding of a few terms. Files of adapters for llama.cpp
are compared with those of its own converter.
"""

import copy
import subprocess
import sys

import gguf
import peft
import safetensors.torch
import torch
import transformers
from harness import check, ckpt, convert, main
from llama_packages import converter

VOCABULARY, WIDTH, INNER = 96, 64, 112


def llama() -> torch.nn.Module:
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False, attention_bias=True,
    )
    return transformers.LlamaForCausalLM(config)


def gpt2() -> torch.nn.Module:
    torch.manual_seed(2)
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=32, n_embd=WIDTH, n_layer=2, n_head=4)
    return transformers.GPT2LMHeadModel(config)


def randomized(model: torch.nn.Module) -> None:
    """Gives what is trained numbers that are not 0, as training does."""
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += torch.randn_like(parameter) * 0.05


def adapted(base: torch.nn.Module, folder, **settings) -> torch.nn.Module:
    model = peft.get_peft_model(copy.deepcopy(base), peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    randomized(model)
    model.save_pretrained(folder)
    return model


def merge(*arguments) -> None:
    done = ckpt("merge", *arguments)
    assert done.returncode == 0, f"{done.args}: {done.stderr}"


def compare(folder, base: torch.nn.Module, kinds: dict) -> None:
    """Merges one adapter of each kind into the base, and compares all tensors."""
    base.save_pretrained(folder / "base")
    for kind, settings in kinds.items():
        adapter, out = folder / kind, folder / f"{kind}-merged"
        model = adapted(base, adapter, **settings)
        merge(folder / "base", f"{out}/", "--lora", adapter, "--verify")
        expected = model.merge_and_unload().state_dict()
        found = safetensors.torch.load_file(out / "model.safetensors")
        assert found, kind
        changed = 0
        before = base.state_dict()
        for name, tensor in found.items():
            other = expected[name]
            assert (tensor.dtype, tensor.shape) == (other.dtype, other.shape), f"{kind}: {name}"
            error = (tensor - other).abs().max().item()
            assert error <= 2e-6, f"{kind}: {name} differs by {error}"
            changed += not torch.equal(tensor, before[name])
        assert changed, f"{kind} changes nothing"
        transformers.AutoModelForCausalLM.from_pretrained(out)


@check()
def adapters_of_llama_are_merged_as_peft_merges_them(folder):
    attention = ["q_proj", "v_proj"]
    compare(folder, llama(), {
        "plain": {"r": 4, "lora_alpha": 16, "target_modules": attention},
        "rank-stabilized": {"r": 8, "lora_alpha": 16, "use_rslora": True, "target_modules": attention},
        "patterns": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"],
                     "rank_pattern": {"down_proj": 6}, "alpha_pattern": {"layers.1.self_attn.q_proj": 3}},
        "embeddings": {"r": 4, "target_modules": ["embed_tokens", "q_proj"]},
        "whole": {"r": 4, "target_modules": attention, "modules_to_save": ["lm_head"]},
        "biases": {"r": 4, "target_modules": attention, "bias": "lora_only"},
        "magnitudes": {"r": 4, "target_modules": attention, "use_dora": True},
        "all-linear": {"r": 16, "target_modules": "all-linear"},
        "trained-bias": {"r": 4, "lora_alpha": 2, "target_modules": attention, "lora_bias": True},
        "magnitudes-of-embeddings": {"r": 4, "target_modules": ["embed_tokens", "q_proj"], "use_dora": True},
    })


@check()
def weights_with_inputs_as_rows_are_merged_as_peft_merges_them(folder):
    settings = {"r": 4, "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}
    compare(folder, gpt2(), {"conv1d": settings, "conv1d-magnitudes": {**settings, "use_dora": True}})


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(6, 10, 3), torch.nn.Conv2d(10, 8, 1)

    def forward(self, x):
        return self.second(self.first(x))


@check()
def convolutions_are_merged_as_peft_merges_them(folder):
    torch.manual_seed(6)
    base = Convolutions()
    safetensors.torch.save_file(base.state_dict(), folder / "base.safetensors")
    for kind, settings in [("plain", {}), ("magnitudes", {"use_dora": True})]:
        model = peft.get_peft_model(copy.deepcopy(base), peft.LoraConfig(r=3, target_modules=["first", "second"], **settings))
        randomized(model)
        model.save_pretrained(folder / kind)
        merge(folder / "base.safetensors", folder / f"{kind}.safetensors", "--lora", folder / kind)
        expected = model.merge_and_unload().state_dict()
        found = safetensors.torch.load_file(folder / f"{kind}.safetensors")
        assert found.keys() == expected.keys()
        for name, tensor in found.items():
            error = (tensor - expected[name]).abs().max().item()
            assert error <= 2e-6, f"{kind}: {name} differs by {error}"


@check()
def a_factor_is_that_of_the_scale(folder):
    base = llama()
    base.save_pretrained(folder / "base")
    model = adapted(base, folder / "adapter", r=4, lora_alpha=16, target_modules=["q_proj"])
    merge(folder / "base", f"{folder / 'out'}/", "--lora", f"{folder / 'adapter'}=0.3")
    for module in model.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.scale_layer(0.3)
    expected = model.merge_and_unload().state_dict()
    for name, tensor in safetensors.torch.load_file(folder / "out" / "model.safetensors").items():
        assert torch.allclose(tensor, expected[name], atol=2e-6, rtol=0), name


@check()
def sixteen_bit_bases_differ_from_pefts_merge_by_its_second_rounding_at_most(folder):
    base = llama().to(torch.bfloat16)
    base.save_pretrained(folder / "base")
    model = adapted(base, folder / "adapter", r=4, lora_alpha=16, target_modules=["q_proj", "up_proj"])
    merge(folder / "base", f"{folder / 'out'}/", "--lora", folder / "adapter")
    expected = model.merge_and_unload().state_dict()
    for name, tensor in safetensors.torch.load_file(folder / "out" / "model.safetensors").items():
        assert tensor.dtype == torch.bfloat16, name
        # Two roundings of 8 bits, of the product and of the sum.
        bound = 2.0**-7 * expected[name].float().abs() + 2.0**-8
        assert ((tensor.float() - expected[name].float()).abs() <= bound).all(), name


@check()
def an_adapter_of_a_difference_leads_back_in_peft_and_in_ckpt(folder):
    base = llama()
    base.save_pretrained(folder / "base")
    # The difference has rank 4, but for a norm and for embeddings, which are not products.
    model = adapted(base, folder / "trained", r=4, lora_alpha=8, target_modules="all-linear")
    tuned = model.merge_and_unload()
    tuned.model.norm.weight.data *= 1.5
    tuned.model.embed_tokens.weight.data += 0.25
    tuned.save_pretrained(folder / "tuned")
    merge("--extract-lora", folder / "tuned", folder / "base", folder / "adapter", "--rank", 4)
    merge("--extract-lora", folder / "tuned", folder / "base", folder / "again", "--rank", 4, "-j", 1)
    files = ["adapter_model.safetensors", "adapter_config.json"]
    for name in files:
        assert (folder / "adapter" / name).read_bytes() == (folder / "again" / name).read_bytes(), name
    expected = tuned.state_dict()
    again = peft.PeftModel.from_pretrained(llama(), folder / "adapter").merge_and_unload().state_dict()
    merge(folder / "base", f"{folder / 'out'}/", "--lora", folder / "adapter")
    found = safetensors.torch.load_file(folder / "out" / "model.safetensors")
    assert found.keys() == again.keys() == expected.keys()
    for name, tensor in expected.items():
        for other in (found[name], again[name]):
            error = (other - tensor).abs().max().item()
            assert error <= 2e-6, f"{name} differs by {error}"


@check()
def an_adapter_of_lower_rank_is_as_near_as_the_singular_values_allow(folder):
    base = llama()
    base.save_pretrained(folder / "base")
    tuned = copy.deepcopy(base)
    torch.manual_seed(5)
    for name, parameter in tuned.named_parameters():
        if "proj" in name and parameter.dim() == 2:
            left, right = torch.randn(parameter.shape[0], 24), torch.randn(24, parameter.shape[1])
            parameter.data += left @ torch.diag(0.02 * 0.8 ** torch.arange(24)) @ right
    tuned.save_pretrained(folder / "tuned")
    merge("--extract-lora", folder / "tuned", folder / "base", folder / "adapter", "--rank", 8)
    factors = safetensors.torch.load_file(folder / "adapter" / "adapter_model.safetensors")
    seen = 0
    for name, parameter in tuned.named_parameters():
        if "proj" not in name or parameter.dim() != 2:
            continue
        module = f"base_model.model.{name.removesuffix('.weight')}"
        product = factors[f"{module}.lora_B.weight"] @ factors[f"{module}.lora_A.weight"]
        difference = (parameter - base.state_dict()[name]).detach().double()
        u, s, v = torch.linalg.svd(difference, full_matrices=False)
        best = torch.linalg.norm(s[8:]).item()
        own = torch.linalg.norm(difference - product.double()).item()
        assert own <= best * 1.0001, f"{name}: {own} instead of {best}"
        seen += 1
    assert seen == 14, seen


def qwen() -> torch.nn.Module:
    torch.manual_seed(7)
    config = transformers.Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False,
    )
    return transformers.Qwen2ForCausalLM(config)


def of_llama_cpp(folder, adapter) -> bytes:
    """The file that llama.cpp's converter makes of an adapter."""
    out = folder / f"{adapter.name}-theirs.gguf"
    program = [sys.executable, converter() / "convert_lora_to_gguf.py", adapter, "--base", folder / "base", "--outfile", out]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out.read_bytes()


@check()
def files_of_adapters_are_those_of_llama_cpps_converter(folder):
    everything = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    for base, kind, settings in [
        (llama(), "plain", {"r": 4, "lora_alpha": 16, "target_modules": everything}),
        (qwen(), "other-family", {"r": 8, "lora_alpha": 3, "target_modules": everything}),
        (llama(), "embeddings", {"r": 4, "lora_alpha": 16, "target_modules": ["embed_tokens", "q_proj"]}),
    ]:
        base.save_pretrained(folder / "base")
        adapted(base, folder / kind, **settings)
        own = folder / f"{kind}.gguf"
        convert(folder / kind, own, "--set", f"base={folder / 'base'}")
        assert own.read_bytes() == of_llama_cpp(folder, folder / kind), kind


@check()
def files_of_adapters_add_to_a_model_what_a_merge_adds(folder):
    kinds = {
        "plain": {"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "k_proj", "up_proj"]},
        "rank-stabilized": {"r": 4, "lora_alpha": 16, "use_rslora": True, "target_modules": ["q_proj"]},
        "patterns": {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "down_proj"],
                     "rank_pattern": {"down_proj": 6}, "alpha_pattern": {"layers.1.self_attn.q_proj": 3}},
        "embeddings": {"r": 4, "lora_alpha": 16, "target_modules": ["embed_tokens"]},
    }
    base = llama()
    base.save_pretrained(folder / "base")
    convert(folder / "base", folder / "base.gguf")
    before = {tensor.name: tensor.data for tensor in gguf.GGUFReader(folder / "base.gguf").tensors}
    seen = 0
    for kind, settings in kinds.items():
        adapted(base, folder / kind, **settings)
        convert(folder / kind, folder / f"{kind}.gguf", "--set", f"base={folder / 'base'}")
        merge(folder / "base", folder / f"{kind}-merged.gguf", "--lora", folder / kind)
        reader = gguf.GGUFReader(folder / f"{kind}.gguf")
        alpha = reader.fields["adapter.lora.alpha"].contents()
        factors = {tensor.name: tensor.data for tensor in reader.tensors}
        for tensor in gguf.GGUFReader(folder / f"{kind}-merged.gguf").tensors:
            a, b = factors.pop(f"{tensor.name}.lora_a", None), factors.pop(f"{tensor.name}.lora_b", None)
            if a is None:
                assert (tensor.data == before[tensor.name]).all(), f"{kind}: {tensor.name}"
                continue
            # llama.cpp has the rows of embeddings on both sides.
            product = a @ b.T if "token_embd" in tensor.name else b @ a
            expected = before[tensor.name] + alpha / b.shape[1] * product
            assert abs(tensor.data - expected).max() <= 2e-6, f"{kind}: {tensor.name}"
            seen += 1
        assert not factors, f"{kind}: {list(factors)}"
    assert seen == 6 + 2 + 4 + 1, seen


if __name__ == "__main__":
    sys.exit(main(__doc__, torch, transformers, peft))
