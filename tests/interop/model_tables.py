#!/usr/bin/env python3
"""Converts the models of today with the built-in tables, and compares with `transformers` and `gguf-py`.

    python tests/interop/model_tables.py --ckpt target/debug/ckpt     (packages: requirements-transformers.txt)

Each model is a tiny one with random weights. For GGUF, gguf-py writes the converted tensors as a file that `transformers`
loads: the state must be the model's own. gguf-py's tables name the tensors, too. For other conventions, the reference is
the conversion that `transformers` publishes, written as loops over tensors. Each table leads back to the bits it began with.
"""

import json
import pathlib
import re
import sys

import gguf
import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
import transformers
from harness import assert_equal, check, convert, load, main
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=32)
EXPERTS = dict(moe_intermediate_size=12, num_experts=4, num_experts_per_tok=2)
# The architecture in GGUF, the table, and the model.
TO_GGUF = {
    "llama": ("llama", "llama-hf-to-gguf", lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))),
    "mistral": ("llama", "llama-hf-to-gguf", lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**SIZES))),
    "qwen2": ("qwen2", "qwen-hf-to-gguf", lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES))),
    "qwen3": ("qwen3", "qwen-hf-to-gguf", lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(head_dim=8, **SIZES))),
    "gemma": ("gemma", "gemma-hf-to-gguf", lambda: transformers.GemmaForCausalLM(transformers.GemmaConfig(head_dim=4, **SIZES))),
    "gemma2": ("gemma2", "gemma2-hf-to-gguf", lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(head_dim=4, **SIZES))),
    "gemma3": ("gemma3", "gemma2-hf-to-gguf", lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(head_dim=4, **SIZES))),
    "phi2": ("phi2", "phi-hf-to-gguf", lambda: transformers.PhiForCausalLM(transformers.PhiConfig(pad_token_id=0, **SIZES))),
    "phi3": ("phi3", "phi3-hf-to-gguf", lambda: transformers.Phi3ForCausalLM(transformers.Phi3Config(pad_token_id=0, **SIZES))),
}


# What `transformers` does not load from GGUF: gguf-py's names, and the values that llama.cpp's converter gives.
NOT_LOADED = ("gemma", "phi2")


def random_state(model: torch.nn.Module, *second_names: str) -> dict:
    """Random weights, norms and biases included: ones and zeros would hide mistakes."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return {name: value.numpy().copy() for name, value in model.state_dict().items() if name not in second_names}


def save(path: pathlib.Path, tensors: dict) -> pathlib.Path:
    safetensors.numpy.save_file({name: np.asarray(value, order="C") for name, value in tensors.items()}, path)
    return path


def there_and_back(folder: pathlib.Path, table: str, tensors: dict, *arguments) -> dict:
    """What the table makes of the tensors; it must lead back to them."""
    source, out, back = save(folder / "source.safetensors", tensors), folder / "out.safetensors", folder / "back.safetensors"
    convert(source, out, "--map", table, *arguments)
    convert(out, back, "--map", table, "--inverse", *arguments)
    assert_equal(load(back), tensors)
    return load(out)


def write_gguf(path: pathlib.Path, architecture: str, tensors: dict, config) -> pathlib.Path:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(4)
    writer.add_vocab_size(config.vocab_size)
    for name, value in tensors.items():
        writer.add_tensor(name, np.ascontiguousarray(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def bf16(value: np.ndarray) -> np.ndarray:
    return torch.from_numpy(value).bfloat16().float().numpy()


def names_in(architecture: str):
    return gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture.upper()), SIZES["num_hidden_layers"])


@check(*TO_GGUF)
def transformers_loads_a_model_that_went_to_gguf(folder, name):
    architecture, table, make = TO_GGUF[name]
    model = make()
    is_gemma = name.startswith("gemma")
    state = random_state(model, *(["lm_head.weight"] if is_gemma else []))  # of Gemma, that is the embedding
    if is_gemma:  # of which 1 more, and 1 less, is exact
        state = {key: bf16(value) if "norm.weight" in key else value for key, value in state.items()}
    model.config.save_pretrained(folder)
    found = there_and_back(folder, table, state)
    if is_gemma:
        norms = [key for key in state if "norm.weight" in key]
        assert sorted(key for key in found if "norm.weight" in key) == sorted(names_in(architecture).get_name(key, (".weight",)) for key in norms)
        for key in norms:
            assert np.array_equal(found[names_in(architecture).get_name(key, (".weight",))], state[key] + np.float32(1)), key
    names = names_in(architecture)
    assert found.keys() == {names.get_name(name, try_suffixes=(".weight", ".bias")) for name in state}
    (folder / "gguf").mkdir()  # beside no config.json: the heads are read from the file's keys
    path = write_gguf(folder / "gguf" / "model.gguf", architecture, found, model.config)
    convert(path, folder / "from_gguf.safetensors", "--map", table, "--inverse")
    assert_equal(load(folder / "from_gguf.safetensors"), state)
    if name in NOT_LOADED:
        return
    # GGUF has no architecture of its own for Mistral.
    model = TO_GGUF["llama"][2]() if architecture == "llama" else model
    loaded = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    assert_equal({name: value.numpy() for name, value in loaded.items()}, state)


@check()
def the_heads_are_read_from_the_configuration_or_given(folder):
    state = random_state(TO_GGUF["llama"][2]())
    source = save(folder / "model.safetensors", state)
    said = convert(source, folder / "out.safetensors", "--map", "llama-hf-to-gguf", fails=True)
    assert "'heads'" in said and "num_attention_heads" in said and "heads=NUMBER" in said, said
    convert(source, folder / "given.safetensors", "--map", "llama-hf-to-gguf,heads=4,kv_heads=2")
    query = state["model.layers.1.self_attn.q_proj.weight"]
    expected = query.reshape(4, 2, 2, 16).swapaxes(1, 2).reshape(16, 16)
    assert np.array_equal(load(folder / "given.safetensors")["blk.1.attn_q.weight"], expected)


@check("bfloat16", "float16", "float32")
def norms_of_gemma_plus_1_are_sums_in_f32_and_what_is_rounded_is_reported(folder, dtype):
    model = TO_GGUF["gemma2"][2]()
    state = {name: torch.from_numpy(value).to(getattr(torch, dtype)) for name, value in random_state(model, "lm_head.weight").items()}
    safetensors.torch.save_file(state, folder / "model.safetensors")
    said = convert(folder / "model.safetensors", folder / "out.gguf", "--map", "gemma2-hf-to-gguf")
    assert "rounded" in said and ("retyped" in said) == (dtype != "float32"), said
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(folder / "out.gguf").tensors}
    assert len(found) == len(state)
    for name, value in state.items():
        tensor = found[names_in("gemma2").get_name(name, (".weight",))]
        if "norm.weight" in name:  # llama.cpp's converter, which adds in the dtype of a file of f16
            assert tensor.tensor_type.name == "F32" and np.array_equal(tensor.data, (value.float() + 1).numpy()), name


@check()
def phi_of_microsoft_has_one_tensor_for_queries_keys_and_values(folder):
    config = transformers.PhiConfig(pad_token_id=0, **(SIZES | dict(num_key_value_heads=4)))
    state = random_state(transformers.PhiForCausalLM(config))
    # PHI_MAPPING of convert_phi_weights_to_hf.py, backwards.
    microsoft = renamed(state, [
        (r"^model\.embed_tokens\.", "transformer.embd.wte."), (r"^lm_head\.", "lm_head.linear."),
        (r"^model\.final_layernorm\.", "lm_head.ln."), (r"^model\.layers\.", "transformer.h."),
        (r"\.input_layernorm\.", ".ln."), (r"\.self_attn\.dense\.", ".mixer.out_proj."), (r"\.self_attn\.", ".mixer.")])
    for kind in ("weight", "bias"):
        fused(microsoft, [f"mixer.{part}_proj.{kind}" for part in "qkv"], f"mixer.Wqkv.{kind}")
    assert_equal(there_and_back(folder, "phi-microsoft-to-hf", microsoft), state)


@check("gemma", "gemma2")
def gemma_of_google_has_one_tensor_for_queries_keys_and_values(folder, name):
    model = TO_GGUF[name][2]()
    state = random_state(model, "lm_head.weight")
    # convert_gemma_weights_to_hf.py, backwards.
    google = renamed(state, [(r"^model\.embed_tokens\.", "embedder.")])
    fused(google, [f"self_attn.{part}_proj.weight" for part in "qkv"], "self_attn.qkv_proj.weight")
    table = "gemma-google-to-hf,heads=4,kv_heads=2,head_dim=4"
    assert_equal(there_and_back(folder, table, google), state)
    save(folder / "with_constant.safetensors", google | {"freqs_cis": np.ones(2, np.float32)})
    model.config.save_pretrained(folder)  # the lengths are read from it
    convert(folder / "with_constant.safetensors", folder / "again.safetensors", "--map", "gemma-google-to-hf")
    assert_equal(load(folder / "again.safetensors"), state)


def per_expert(kind: str) -> tuple[dict, dict]:
    """The state of a mixture with a tensor for each expert, and with stacked experts."""
    if kind == "mixtral":
        model = transformers.MixtralForCausalLM(transformers.MixtralConfig(num_local_experts=11, **SIZES))
        scope, parts = "block_sparse_moe", ("w1", "w3", "w2")
    else:
        config = transformers.Qwen3MoeConfig if kind == "qwen3_moe" else transformers.Qwen2MoeConfig
        model_of = transformers.Qwen3MoeForCausalLM if kind == "qwen3_moe" else transformers.Qwen2MoeForCausalLM
        shared = {} if kind == "qwen3_moe" else dict(shared_expert_intermediate_size=20)
        model = model_of(config(**SIZES, **EXPERTS, **shared))
        scope, parts = "mlp", ("gate_proj", "up_proj", "down_proj")
    state = random_state(model)
    names = [[f"{{}}.{scope}.experts.{{}}.{part}.weight" for part in parts]]
    old, new = dict(state), dict(state)
    for layer in (f"model.layers.{layer}" for layer in range(SIZES["num_hidden_layers"])):
        gate, up, down = names[0]
        stacked = f"{layer}.mlp.experts."
        if stacked + "gate_up_proj" in state:  # transformers 5
            gate_up, out = old.pop(stacked + "gate_up_proj"), old.pop(stacked + "down_proj")
            for expert, (both, own) in enumerate(zip(gate_up, out, strict=True)):
                old[gate.format(layer, expert)], old[up.format(layer, expert)] = np.split(both, 2)
                old[down.format(layer, expert)] = own
            if scope != "mlp":
                old[f"{layer}.{scope}.gate.weight"] = old.pop(f"{layer}.mlp.gate.weight")
        else:
            count = sum(bool(re.fullmatch(re.escape(f"{layer}.{scope}.experts.") + r"\d+\." + parts[0] + ".weight", name)) for name in state)
            take = lambda name, expert: new.pop(name.format(layer, expert))
            new[stacked + "gate_up_proj"] = np.stack([np.concatenate([take(gate, k), take(up, k)]) for k in range(count)])
            new[stacked + "down_proj"] = np.stack([take(down, k) for k in range(count)])
            if scope != "mlp":
                new[f"{layer}.mlp.gate.weight"] = new.pop(f"{layer}.{scope}.gate.weight")
    return old, new


EXPERT_TABLES = {"mixtral": "mixtral-experts-to-stacked", "qwen2_moe": "qwen-experts-to-stacked",
                 "qwen3_moe": "qwen-experts-to-stacked"}


@check(*EXPERT_TABLES)
def experts_are_stacked_as_transformers_5_has_them(folder, kind):
    old, new = per_expert(kind)
    assert old.keys() != new.keys()
    assert_equal(there_and_back(folder, EXPERT_TABLES[kind], old), new)


@check(*EXPERT_TABLES)
def experts_are_stacked_as_gguf_has_them(folder, kind):
    old, new = per_expert(kind)
    table = "llama-hf-to-gguf,heads=4,kv_heads=2" if kind == "mixtral" else "qwen-hf-to-gguf"
    found = there_and_back(folder, table, old)
    architecture = gguf.MODEL_ARCH.LLAMA if kind == "mixtral" else getattr(gguf.MODEL_ARCH, kind.replace("_", "").upper())
    names = gguf.get_tensor_name_map(architecture, SIZES["num_hidden_layers"])
    for layer in range(SIZES["num_hidden_layers"]):
        gate, up = np.split(new[f"model.layers.{layer}.mlp.experts.gate_up_proj"], 2, axis=1)
        for part, value in (("gate", gate), ("up", up), ("down", new[f"model.layers.{layer}.mlp.experts.down_proj"])):
            assert np.array_equal(found[f"blk.{layer}.ffn_{part}_exps.weight"], value), part
    plain = [name for name in old if ".experts." not in name]
    assert {names.get_name(name, try_suffixes=(".weight", ".bias")) for name in plain} | {
        f"blk.{layer}.ffn_{part}_exps.weight" for layer in range(2) for part in ("gate", "up", "down")} == found.keys()


# Meta's names by those of transformers, and the rotation of its rows: convert_llama_weights_to_hf.py.
META = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attention.wq",
        "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv", "self_attn.o_proj": "attention.wo",
        "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3"}


@check()
def llama_of_meta_rotates_pairs_of_neighbors(folder):
    state = random_state(TO_GGUF["llama"][2]())
    top = {"model.embed_tokens.weight": "tok_embeddings.weight", "model.norm.weight": "norm.weight", "lm_head.weight": "output.weight"}
    meta = {top[name]: value for name, value in state.items() if name in top}
    for layer in range(SIZES["num_hidden_layers"]):
        for name, own in META.items():
            value = state[f"model.layers.{layer}.{name}.weight"]
            heads = {"attention.wq": 4, "attention.wk": 2}.get(own)
            if heads:  # the inverse of view(heads, dim / heads / 2, 2, in).transpose(1, 2)
                value = value.reshape(heads, 2, -1, 16).swapaxes(1, 2).reshape(value.shape)
            meta[f"layers.{layer}.{own}.weight"] = value
    (folder / "params.json").write_text(json.dumps({"dim": 16, "n_heads": 4, "n_kv_heads": 2}))
    assert_equal(there_and_back(folder, "llama-meta-to-hf", meta), state)
    source = save(folder / "with_rope.safetensors", meta | {"rope.freqs": np.ones(2, np.float32)})
    convert(source, folder / "again.safetensors", "--map", "llama-meta-to-hf")
    assert_equal(load(folder / "again.safetensors"), state)


def renamed(state: dict, pairs: list) -> dict:
    """The state under the names that these replacements make, in order."""
    made = {}
    for name, value in state.items():
        for pattern, by in pairs:
            name = re.sub(pattern, by, name)
        made[name] = value
    return made


def fused(state: dict, parts: list, name: str) -> None:
    """Concatenates tensors under one name, for each prefix that has them."""
    for first in [key for key in state if key.endswith(parts[0])]:
        prefix = first.removesuffix(parts[0])
        state[prefix + name] = np.concatenate([state.pop(prefix + part) for part in parts])


@check()
def vit_of_timm_has_one_tensor_for_queries_keys_and_values(folder):
    config = transformers.ViTConfig(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
                                    image_size=8, patch_size=4, num_labels=3)
    model = transformers.ViTForImageClassification(config)
    random_state(model)
    model.save_pretrained(folder)  # under the names of published files
    state = load(folder / "model.safetensors")
    # convert_vit_timm_to_pytorch.py, backwards.
    timm = renamed(state, [
        (r"^vit\.embeddings\.cls_token", "cls_token"), (r"^vit\.embeddings\.position_embeddings", "pos_embed"),
        (r"^vit\.embeddings\.patch_embeddings\.projection", "patch_embed.proj"), (r"^vit\.encoder\.layer\.", "blocks."),
        (r"\.layernorm_before\.", ".norm1."), (r"\.layernorm_after\.", ".norm2."), (r"\.attention\.output\.dense\.", ".attn.proj."),
        (r"\.intermediate\.dense\.", ".mlp.fc1."), (r"\.output\.dense\.", ".mlp.fc2."), (r"^vit\.layernorm\.", "norm."),
        (r"^classifier\.", "head.")])
    for kind in ("weight", "bias"):
        fused(timm, [f"attention.attention.{part}.{kind}" for part in ("query", "key", "value")], f"attn.qkv.{kind}")
    assert_equal(there_and_back(folder, "vit-timm-to-hf", timm), state)


@check()
def clip_of_openai_has_transposed_projections(folder):
    tower = dict(hidden_size=8, intermediate_size=12, num_hidden_layers=2, num_attention_heads=2)
    config = transformers.CLIPConfig(text_config=dict(vocab_size=40, max_position_embeddings=16, **tower),
                                     vision_config=dict(image_size=8, patch_size=4, **tower), projection_dim=6)
    state = random_state(transformers.CLIPModel(config))
    # convert_clip_original_pytorch_to_hf.py, backwards.
    layers = [(r"\.encoder\.layers\.", ".transformer.resblocks."), (r"\.self_attn\.out_proj\.", ".attn.out_proj."),
              (r"\.layer_norm(\d)\.", r".ln_\1."), (r"\.mlp\.fc1\.", ".mlp.c_fc."), (r"\.mlp\.fc2\.", ".mlp.c_proj.")]
    openai = renamed(state, [
        *layers, (r"^text_model\.embeddings\.token_embedding\.", "token_embedding."),
        (r"^text_model\.embeddings\.position_embedding\.weight", "positional_embedding"),
        (r"^text_model\.final_layer_norm\.", "ln_final."), (r"^text_model\.", ""), (r"^text_projection\.weight", "text_projection"),
        (r"^vision_model\.embeddings\.class_embedding", "visual.class_embedding"),
        (r"^vision_model\.embeddings\.patch_embedding\.", "visual.conv1."),
        (r"^vision_model\.embeddings\.position_embedding\.weight", "visual.positional_embedding"),
        (r"^vision_model\.pre_layrnorm\.", "visual.ln_pre."), (r"^vision_model\.post_layernorm\.", "visual.ln_post."),
        (r"^vision_model\.", "visual."), (r"^visual_projection\.weight", "visual.proj")])
    for kind in ("weight", "bias"):
        fused(openai, [f"self_attn.{part}_proj.{kind}" for part in "qkv"], f"attn.in_proj_{kind}")
    for name in ("text_projection", "visual.proj"):
        openai[name] = openai[name].T.copy()
    assert_equal(there_and_back(folder, "clip-openai-to-hf", openai), state)


@check()
def whisper_of_openai_has_other_names(folder):
    config = transformers.WhisperConfig(vocab_size=40, num_mel_bins=8, d_model=8, encoder_layers=2, decoder_layers=2,
                                        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=12, decoder_ffn_dim=12,
                                        max_source_positions=6, max_target_positions=6, pad_token_id=0, decoder_start_token_id=1)
    state = random_state(transformers.WhisperForConditionalGeneration(config), "proj_out.weight")
    # WHISPER_MAPPING of convert_openai_to_hf.py, backwards.
    openai = renamed(state, [
        (r"^model\.", ""), (r"\.layers\.", ".blocks."), (r"\.encoder_attn\.", ".cross_attn."), (r"\.self_attn\.", ".attn."),
        (r"\.encoder_attn_layer_norm\.", ".cross_attn_ln."), (r"\.self_attn_layer_norm\.", ".attn_ln."),
        (r"\.final_layer_norm\.", ".mlp_ln."), (r"\.q_proj\.", ".query."), (r"\.k_proj\.", ".key."), (r"\.v_proj\.", ".value."),
        (r"\.out_proj\.", ".out."), (r"\.fc1\.", ".mlp.0."), (r"\.fc2\.", ".mlp.2."), (r"^encoder\.layer_norm\.", "encoder.ln_post."),
        (r"^decoder\.layer_norm\.", "decoder.ln."), (r"\.embed_positions\.weight", ".positional_embedding"),
        (r"\.embed_tokens\.", ".token_embedding.")])
    assert_equal(there_and_back(folder, "whisper-openai-to-hf", openai), state)


if __name__ == "__main__":
    sys.exit(main(__doc__, torch, transformers))
