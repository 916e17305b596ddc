#!/usr/bin/env python3
"""Merges models with `ckpt merge`, and compares with mergekit's own merge of the same models in 32-bit floats.

    python tests/interop/merges.py --ckpt target/debug/ckpt     (packages: requirements-mergekit.txt)

Both compute in 32-bit floats; sums of whole tensors are taken in another order. A number may differ by the rounding of a few terms.
"""

import itertools
import sys

import mergekit.merge_methods.generalized_task_arithmetic as task_arithmetic
import mergekit.sparsify
import numpy
import safetensors.torch
import torch
import transformers
import yaml
from harness import check, ckpt, main
from mergekit.config import MergeConfiguration
from mergekit.merge import MergeOptions, run_merge

WIDTH, LAYERS = 32, 4
# Two roundings of numbers of about this size.
MOST = 2.0**-22
SEED = 7


def models(folder) -> None:
    """A base, and models that were trained from it. Many changes of two of them have the same magnitude."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=WIDTH, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=False,
    )
    base = transformers.LlamaForCausalLM(config)
    for name, step in [("base", 0), ("a", 0), ("c", 0), ("b", 0.003), ("exact", 2.0**-6)]:
        torch.manual_seed(len(name) + ord(name[0]))
        model = transformers.LlamaForCausalLM(config)
        for own, other in zip(model.parameters(), base.parameters()):
            change = torch.randn_like(own) * 0.02
            # Steps of one size make magnitudes equal.
            own.data = other.data + (torch.round(change / step) * step if step else change)
        (base if name == "base" else model).save_pretrained(folder / name)


def draws(position: int, name: str, count: int) -> numpy.ndarray:
    """The draws of 53 bits for the elements of a tensor, as the guide states them."""
    key = 0xCBF29CE484222325
    for byte in f"{SEED}\n{position}\n{name}".encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    with numpy.errstate(over="ignore"):
        number = numpy.uint64(key) + (numpy.arange(count, dtype=numpy.uint64) + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
        number = (number ^ (number >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        number = (number ^ (number >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return (number ^ (number >> numpy.uint64(31))) >> numpy.uint64(11)


class OwnDraws(task_arithmetic.GeneralizedTaskArithmeticMerge):
    """mergekit's methods with the draws of ckpt, which depend on the tensor's name and on the model."""

    group = task_arithmetic.GeneralizedTaskArithmeticMerge.merge_group

    def merge(self, group, /, **parameters):
        positions = itertools.count()

        def bernoulli(tensor, density, rescale_norm=None):
            position = next(positions)
            if density >= 1:
                return tensor
            mask = draws(position, group.metadata.name, tensor.numel()) < numpy.uint64(round(density * 2**53))
            mask = torch.from_numpy(mask).reshape(tensor.shape).to(tensor.dtype)
            return mergekit.sparsify.rescaled_masked_tensor(tensor, mask, rescale_norm)

        mergekit.sparsify.bernoulli = bernoulli
        return OwnDraws.group(self, group, **parameters)


task_arithmetic.GeneralizedTaskArithmeticMerge.merge_group = OwnDraws.merge


class SortedTorch:
    """torch, of which `argsort` keeps the order of equal numbers, which mergekit leaves to the processor."""

    def __getattr__(self, name):
        return getattr(torch, name)

    @staticmethod
    def argsort(numbers, descending):
        return torch.argsort(numbers, descending=descending, stable=True)


def merged_by_mergekit(folder, recipe: str, out) -> dict:
    config = MergeConfiguration.model_validate(yaml.safe_load(recipe))
    run_merge(config, str(out), MergeOptions(quiet=True, write_model_card=False, copy_tokenizer=False))
    return safetensors.torch.load_file(out / "model.safetensors")


def run(*arguments) -> None:
    done = ckpt("merge", *arguments)
    assert done.returncode == 0, f"{done.args}: {done.stderr}"


def compare(folder, name: str, recipe: str, *arguments) -> float:
    """Merges by a recipe, or with arguments in its place, and compares all tensors. Returns the largest difference."""
    recipe = recipe.replace("@", f"{folder}/")
    (folder / f"{name}.yaml").write_text(recipe)
    expected = merged_by_mergekit(folder, recipe, folder / f"{name}-mergekit")
    given = arguments or [folder / f"{name}.yaml"]
    found = None
    for threads in ["1", "3"]:
        out = folder / f"{name}-{threads}"
        run(*given, f"{out}/", "--seed", str(SEED), "-j", threads, "--item-size", "4096", "--verify")
        before, found = found, (out / "model.safetensors").read_bytes()
        assert before in (None, found), f"{name} depends on the number of threads"
    found = safetensors.torch.load_file(out / "model.safetensors")
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    largest = 0.0
    for key, tensor in found.items():
        other = expected[key]
        assert (tensor.dtype, tensor.shape) == (other.dtype, other.shape), f"{name}: {key}"
        error = (tensor - other).abs() / other.abs().clamp(min=0.5)
        assert error.max() <= MOST, f"{name}: {key} differs by {error.max()}"
        largest = max(largest, (tensor - other).abs().max().item())
    config = transformers.AutoConfig.from_pretrained(out)
    transformers.AutoModelForCausalLM.from_pretrained(out)
    assert config.num_hidden_layers == transformers.AutoConfig.from_pretrained(folder / f"{name}-mergekit").num_hidden_layers
    print(f"   {name}: at most {largest:.1e}")
    return largest


def of_models(method: str, parameters: str = "{}", of_a: str = "{weight: 0.8}", of_b: str = "{weight: 0.4}", base: str = "@base") -> str:
    return f"""
merge_method: {method}
base_model: {base}
models:
- {{model: @a, parameters: {of_a}}}
- {{model: @b, parameters: {of_b}}}
parameters: {parameters}
dtype: float32
"""


@check()
def methods_with_weights_are_mergekits(folder):
    models(folder)
    a, b, base = folder / "a", folder / "b", folder / "base"
    pair = [f"{a}=0.8", f"{b}=0.4", "--base", base]
    linear = of_models("linear").replace("base_model: @base\n", "")
    compare(folder, "linear", linear, "--method", "linear", f"{a}=0.8", f"{b}=0.4")
    compare(folder, "sum", linear.replace("parameters: {}", "parameters: {normalize: false}"),
            "--method", "linear", f"{a}=0.8", f"{b}=0.4", "--parameter", "normalize=false")
    slerp = "{merge_method: slerp, base_model: '@a', models: [{model: '@a'}, {model: '@b'}], parameters: {t: 0.3}}"
    compare(folder, "slerp", slerp, "--method", "slerp", f"{a}=0.7", f"{b}=0.3")
    compare(folder, "task", of_models("task_arithmetic"), "--method", "task", *pair)
    compare(folder, "task-mean", of_models("task_arithmetic", "{normalize: true, lambda: 0.7}"),
            "--method", "task", *pair, "--parameter", "normalize=true", "--parameter", "lambda=0.7")
    for density in [1.0, 0.5, 0.013, 0.0]:
        compare(folder, f"ties-{density}", of_models("ties", f"{{density: {density}, int8_mask: true}}"),
                "--method", "ties", *pair, "--parameter", f"density={density}")
    compare(folder, "ties-rescaled", of_models("ties", "{density: 0.4, rescale: true, normalize: false, lambda: 1.5}"))
    negative = of_models("ties", "{density: 0.5}", "{weight: 0.8}", "{weight: -0.3}")
    compare(folder, "ties-negative", negative)


@check()
def changes_of_other_magnitudes_are_kept_as_mergekit_keeps_them(folder):
    models(folder)
    mergekit.sparsify.torch = torch
    try:
        compare(folder, "different", of_models("ties", "{density: 0.4}").replace("model: @b,", "model: @c,"))
    finally:
        mergekit.sparsify.torch = SortedTorch()


@check()
def changes_of_equal_magnitude_are_kept_from_the_first_on(folder):
    models(folder)
    for density in [0.9, 0.31, 0.07]:
        recipe = of_models("ties", f"{{density: {density}}}").replace("@a", "@exact")
        compare(folder, f"equal-{density}", recipe)


@check()
def draws_are_those_that_the_guide_states(folder):
    models(folder)
    pair = [f"{folder / 'a'}=0.8", f"{folder / 'b'}=0.4", "--base", folder / "base"]
    for method in ["dare_linear", "dare_ties"]:
        compare(folder, method, of_models(method, "{density: 0.3}"),
                "--method", method, *pair, "--parameter", "density=0.3")
        compare(folder, f"{method}-plain", of_models(method, "{density: 0.7, rescale: false, normalize: true}"))


@check()
def recipes_are_followed_as_mergekit_follows_them(folder):
    models(folder)
    compare(folder, "gradients", of_models(
        "ties", "{density: 0.6, normalize: true}",
        "{weight: [0.2, 1.0], density: [{filter: self_attn, value: [1, 0.2, 0.5]}, {filter: mlp, value: 0.4}]}",
        "{weight: [{filter: mlp, value: [0.1, 0.9]}, {value: 0.5}]}",
    ))
    compare(folder, "slerp-layers", """
merge_method: slerp
base_model: @a
slices:
- sources:
  - {model: @a, layer_range: [0, 4]}
  - {model: @b, layer_range: [0, 4]}
parameters:
  t:
  - {filter: self_attn, value: [0, 0.5, 0.3, 0.7, 1]}
  - {filter: mlp, value: [1, 0.5, 0.7, 0.3, 0]}
  - value: 0.5
dtype: float32
""")
    compare(folder, "slerp-backwards", """
merge_method: slerp
base_model: @b
slices:
- sources: [{model: @a, layer_range: [0, 4]}, {model: @b, layer_range: [0, 4]}]
parameters: {t: 0.2}
""")
    compare(folder, "passthrough", """
merge_method: passthrough
slices:
- sources: [{model: @a, layer_range: [0, 3]}]
- sources: [{model: @b, layer_range: [1, 4], parameters: {scale: [{filter: o_proj, value: 0}, {filter: down_proj, value: 0.5}, {value: 1}]}}]
base_model: @a
dtype: float32
""")
    compare(folder, "two-slices", """
merge_method: linear
base_model: @a
slices:
- sources: [{model: @a, layer_range: [0, 2], parameters: {weight: 0.3}}, {model: @b, layer_range: [1, 3], parameters: {weight: [0.1, 0.9]}}]
- sources: [{model: @a, layer_range: [2, 4], parameters: {weight: 1}}, {model: @b, layer_range: [2, 4], parameters: {weight: 2}}]
  parameters: {normalize: true}
dtype: float32
""")
    compare(folder, "one-layer", """
merge_method: task_arithmetic
base_model: @base
slices:
- sources: [{model: @a, layer_range: [3, 4], parameters: {weight: [0, 1]}}, {model: @base, layer_range: [3, 4]}]
""")


if __name__ == "__main__":
    transformers.logging.disable_progress_bar()
    mergekit.sparsify.torch = SortedTorch()
    sys.exit(main(__doc__, torch, transformers))
