#!/usr/bin/env python3
"""Converts tiny models of the Flax classes of transformers to PyTorch and back, and compares every tensor bit for bit.

    python tests/interop/flax_tables.py --ckpt target/debug/ckpt     (packages: requirements-flax.txt and requirements-transformers.txt)

`flax_model.msgpack` becomes what `load_flax_weights_in_pytorch_model` makes of it, and that becomes the same tree again. A checkpoint of
T5X, made of transformers' tensors by the names that T5X gives them, becomes these tensors.
"""

import os
import sys
import warnings

os.environ["JAX_PLATFORMS"] = "cpu"
warnings.filterwarnings("ignore")

import flax
import jax
import numpy as np
import safetensors.torch
import torch
import transformers
from flax.serialization import msgpack_restore, msgpack_serialize
from flax.traverse_util import flatten_dict, unflatten_dict
from harness import check, convert, main
from transformers.modeling_flax_pytorch_utils import load_flax_weights_in_pytorch_model

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = SMALL | {"vocab_size": 50, "max_position_embeddings": 20}
T5 = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
GPT2 = {"vocab_size": 50, "n_positions": 20, "n_embd": 32, "n_layer": 2, "n_head": 4}
# The table, the class without its prefix Flax, and a configuration.
MODELS = {
    "bert": ("bert-flax-to-hf", "BertModel", transformers.BertConfig(**TEXT)),
    "bert with words": ("bert-flax-to-hf", "BertForMaskedLM", transformers.BertConfig(**TEXT)),
    "bert with classes": ("bert-flax-to-hf", "BertForSequenceClassification", transformers.BertConfig(**TEXT)),
    "roberta": ("bert-flax-to-hf", "RobertaForMaskedLM", transformers.RobertaConfig(**TEXT)),
    "gpt2": ("gpt2-flax-to-hf", "GPT2Model", transformers.GPT2Config(**GPT2)),
    "gpt2 with words": ("gpt2-flax-to-hf", "GPT2LMHeadModel", transformers.GPT2Config(**GPT2)),
    "t5": ("t5-flax-to-hf", "T5ForConditionalGeneration", transformers.T5Config(**T5)),
    "t5 with gates": ("t5-flax-to-hf", "T5ForConditionalGeneration",
                      transformers.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "vit": ("vit-flax-to-hf", "ViTModel", transformers.ViTConfig(image_size=32, patch_size=8, **SMALL)),
    "vit with classes": ("vit-flax-to-hf", "ViTForImageClassification",
                         transformers.ViTConfig(image_size=32, patch_size=8, num_labels=3, **SMALL)),
    "llama": ("llama-flax-to-hf", "LlamaForCausalLM",
              transformers.LlamaConfig(vocab_size=50, num_key_value_heads=2, **SMALL)),
    "mistral": ("llama-flax-to-hf", "MistralForCausalLM",
                transformers.MistralConfig(num_key_value_heads=2, **TEXT)),
    "gemma": ("llama-flax-to-hf", "GemmaForCausalLM",
              transformers.GemmaConfig(vocab_size=50, num_key_value_heads=1, head_dim=8, **SMALL)),
}


def leaves(path) -> dict[str, np.ndarray]:
    return {".".join(name): np.asarray(value) for name, value in flatten_dict(msgpack_restore(path.read_bytes())).items()}


@check(*MODELS)
def a_model_is_what_transformers_makes_of_it_and_comes_back(folder, name):
    table, kind, config = MODELS[name]
    model = getattr(transformers, f"Flax{kind}")(config, seed=1)
    # Norms and biases of their own: new ones are all ones and zeros.
    draws = np.random.default_rng(3)
    model.params = jax.tree.map(lambda leaf: draws.normal(size=leaf.shape).astype(np.float32), model.params)
    source, out, back = folder / "flax_model.msgpack", folder / "model.safetensors", folder / "back.msgpack"
    model.save_pretrained(folder)
    convert(source, out, "--map", table)
    made = load_flax_weights_in_pytorch_model(getattr(transformers, kind)(config), model.params).state_dict()
    found = safetensors.torch.load_file(out)
    assert found.keys() <= made.keys(), f"{sorted(found.keys() - made.keys())}"
    for tensor, value in found.items():
        assert value.dtype == made[tensor].dtype and torch.equal(value, made[tensor]), tensor
    # What is missing is another name of a tensor that is there, or a constant.
    places = {value.data_ptr() for tensor, value in made.items() if tensor in found}
    missing = [tensor for tensor, value in made.items() if tensor not in found and value.data_ptr() not in places]
    assert missing == [], f"{missing}"
    convert(out, back, "--to", "flax", "--map", table, "--inverse")
    expected, again = leaves(source), leaves(back)
    assert again.keys() == expected.keys()
    assert all(again[leaf].dtype == value.dtype and np.array_equal(again[leaf], value) for leaf, value in expected.items())


T5X_TABLE = "t5-t5x-to-hf"
# The names of T5X for those of transformers within a block of the encoder or the decoder, by the layer.
T5X_LAYERS = {
    "encoder": [("attention", "pre_attention_layer_norm"), ("mlp", "pre_mlp_layer_norm")],
    "decoder": [("self_attention", "pre_self_attention_layer_norm"),
                ("encoder_decoder_attention", "pre_cross_attention_layer_norm"), ("mlp", "pre_mlp_layer_norm")],
}
T5X_PARTS = {"q": "query", "k": "key", "v": "value", "o": "out"}


def t5x_name(name: str) -> str:
    """The name in T5X of a tensor of transformers."""
    whole = {"shared.weight": "token_embedder.embedding", "lm_head.weight": "decoder.logits_dense.kernel",
             "encoder.final_layer_norm.weight": "encoder.encoder_norm.scale",
             "decoder.final_layer_norm.weight": "decoder.decoder_norm.scale"}
    if name in whole:
        return whole[name]
    stack, _, block, _, layer, *rest = name.removesuffix(".weight").split(".")
    if rest[-1] == "relative_attention_bias":
        return f"{stack}.relpos_bias.rel_embedding"
    module, norm = T5X_LAYERS[stack][int(layer)]
    if rest == ["layer_norm"]:
        return f"{stack}.layers_{block}.{norm}.scale"
    return f"{stack}.layers_{block}.{module}.{T5X_PARTS.get(rest[-1], rest[-1])}.kernel"


@check("t5", "t5 with gates")
def a_checkpoint_of_t5x_is_the_model_of_transformers_and_comes_back(folder, name):
    _, kind, config = MODELS[name]
    state = getattr(transformers, kind)(config).state_dict()
    state = {name: value.numpy() for name, value in state.items() if "embed_tokens" not in name}
    if config.tie_word_embeddings:
        del state["lm_head.weight"]
    draws = np.random.default_rng(3)
    state = {name: draws.normal(size=value.shape).astype(np.float32) for name, value in state.items()}
    target = {}
    for tensor, value in state.items():
        named = t5x_name(tensor)
        target[tuple(named.split("."))] = value.T.copy() if named.endswith(("kernel", "rel_embedding")) else value
    step = {"step": np.int32(7), "param_states": {"token_embedder": {"embedding": {"v": np.ones(3, np.float32)}}}}
    tree = {"version": 3, "optimizer": {"target": unflatten_dict(target), "state": step}}
    source, out, back = folder / "t5x.msgpack", folder / "model.safetensors", folder / "back.msgpack"
    source.write_bytes(msgpack_serialize(tree))
    convert(source, out, "--map", T5X_TABLE)
    found = safetensors.torch.load_file(out)
    assert found.keys() == state.keys(), f"{sorted(found.keys() ^ state.keys())}"
    assert all(np.array_equal(value.numpy(), state[tensor]) for tensor, value in found.items())
    convert(out, back, "--to", "flax", "--map", T5X_TABLE, "--inverse")
    expected = {leaf: value for leaf, value in leaves(source).items() if not leaf.startswith("optimizer.state.")}
    again = leaves(back)
    assert again.keys() == expected.keys(), f"{sorted(again.keys() ^ expected.keys())}"
    assert all(again[leaf].dtype == value.dtype and np.array_equal(again[leaf], value) for leaf, value in expected.items())


if __name__ == "__main__":
    sys.exit(main(__doc__, jax, flax, torch, transformers))
