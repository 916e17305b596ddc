#!/usr/bin/env python3
"""Runs checkpoints of `transformers` and torchvision by the built-in architectures and compares with what these compute.

    python tests/interop/architectures.py --ckpt target/debug/ckpt     (packages: requirements-transformers.txt)

The models are tiny and random, with all of the options that change what a family computes. Faults are planted into weights
and graphs; `verify` must find each in its layer.
"""

import dataclasses
import json
import pathlib
import shutil
import sys
from collections.abc import Callable

sys.modules["triton"] = None  # torch does without it

import numpy as np
import onnxruntime
import safetensors.numpy
import safetensors.torch
import torch
import torchvision
import transformers as hf
from harness import check, ckpt, convert, main

# Largest error relative to the norm of an output: sums of binary32 in another order. Found: at most 2.4e-6 (T5, whose scores are
# not scaled); with a head permuted: 0.1.
TOLERANCE = 1e-5

TEXT = dict(num_hidden_layers=3, hidden_size=24, num_attention_heads=4, intermediate_size=36, vocab_size=50,
            max_position_embeddings=20)
GPT2 = dict(n_layer=3, n_embd=24, n_head=4, vocab_size=50, n_positions=20)
T5 = dict(num_layers=3, d_model=24, num_heads=4, d_kv=6, d_ff=36, vocab_size=50, decoder_start_token_id=0)
LLAMA = dict(num_hidden_layers=3, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
             vocab_size=50, max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
MOE = dict(moe_intermediate_size=24, num_experts=5, num_experts_per_tok=3)
GLM = dict(moe_intermediate_size=24, n_routed_experts=5, num_experts_per_tok=3)
GEMMA = dict(head_dim=12, sliding_window=7)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
LONG = dict(type="longrope", long_factor=[1.0, 1.5, 2.0, 4.0], short_factor=[1.0, 1.0, 1.25, 1.5])
MODERN = TEXT | dict(global_attn_every_n_layers=2, local_attention=8, pad_token_id=0)
VIT = dict(num_hidden_layers=3, hidden_size=24, num_attention_heads=4, intermediate_size=36, image_size=32, patch_size=8)


def tokens(count: int, name: str = "input_ids") -> dict:
    return {name: torch.randint(0, 50, (2, count))}


def padded(count: int, *, position_ids: bool = True, token_type_ids: bool = False) -> dict:
    """Texts of which one is padded behind and the other before."""
    mask = torch.ones(2, count, dtype=torch.long)
    mask[0, -3:] = 0
    mask[1, :2] = 0
    given = tokens(count) | {"attention_mask": mask}
    given["input_ids"] = torch.where(mask == 1, given["input_ids"].clamp(min=1), 0)
    if position_ids:
        given["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    if token_type_ids:
        given["token_type_ids"] = torch.arange(count).expand(2, count) % 2
    return given


def translated() -> dict:
    source, target = padded(40, position_ids=False), padded(30, position_ids=False)
    return source | {f"decoder_{name}": value for name, value in target.items()}


def pixels(*shape: int) -> dict:
    return {"pixel_values": torch.randn(shape)}


@dataclasses.dataclass
class Case:
    """A model, what goes in, and its outputs by the names that `ckpt` and `transformers` give them."""

    model: Callable
    inputs: Callable
    outputs: dict


def case(model: type, config, inputs: Callable, **outputs) -> Case:
    # The other implementations of attention leave out some options.
    return Case(lambda: model._from_config(config, attn_implementation="eager"), inputs, outputs)


CASES = {
    "gpt2": case(hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2), lambda: tokens(9), logits="logits"),
    "gpt2 without heads": case(hf.GPT2Model, hf.GPT2Config(**GPT2), lambda: tokens(9),
                               last_hidden_state="last_hidden_state"),
    "gpt2 scaled by layer": case(
        hf.GPT2Model, hf.GPT2Config(**GPT2, scale_attn_by_inverse_layer_idx=True, activation_function="relu"),
        lambda: tokens(20), last_hidden_state="last_hidden_state"),
    "bert": case(hf.BertForPreTraining, hf.BertConfig(**TEXT), lambda: tokens(9),
                 prediction_logits="prediction_logits", seq_relationship_logits="seq_relationship_logits"),
    "bert without heads": case(hf.BertModel, hf.BertConfig(**TEXT), lambda: tokens(9),
                               last_hidden_state="last_hidden_state", pooler_output="pooler_output"),
    "bert classifier": case(hf.BertForSequenceClassification, hf.BertConfig(**TEXT), lambda: tokens(9), logits="logits"),
    "electra": case(hf.ElectraForPreTraining, hf.ElectraConfig(**TEXT, embedding_size=16), lambda: tokens(9),
                    logits="logits"),
    "electra generator": case(hf.ElectraForMaskedLM, hf.ElectraConfig(**TEXT, embedding_size=16), lambda: tokens(9),
                              prediction_logits="logits"),
    "albert": case(hf.AlbertForPreTraining, hf.AlbertConfig(**TEXT, embedding_size=16), lambda: tokens(9),
                   prediction_logits="prediction_logits", sop_logits="sop_logits"),
    "albert with groups": case(
        hf.AlbertForMaskedLM, hf.AlbertConfig(**TEXT | {"num_hidden_layers": 4}, embedding_size=16, num_hidden_groups=2),
        lambda: tokens(9), prediction_logits="logits"),
    "t5": case(hf.T5ForConditionalGeneration, hf.T5Config(**T5), lambda: tokens(40) | tokens(30, "decoder_input_ids"),
               logits="logits"),
    "t5 gated": case(
        hf.T5ForConditionalGeneration,
        hf.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False, relative_attention_max_distance=50,
                    relative_attention_num_buckets=16),
        lambda: tokens(40) | tokens(30, "decoder_input_ids"), logits="logits"),
    "t5 encoder": case(hf.T5EncoderModel, hf.T5Config(**T5), lambda: tokens(40),
                       encoder_last_hidden_state="last_hidden_state"),
    "mt5": case(hf.MT5ForConditionalGeneration, hf.MT5Config(**T5), lambda: tokens(40) | tokens(30, "decoder_input_ids"),
                logits="logits"),
    "llama": case(hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA), lambda: tokens(30), logits="logits"),
    "llama 3": case(
        hf.LlamaForCausalLM,
        hf.LlamaConfig(**LLAMA, head_dim=10, rope_theta=500000.0, attention_bias=True, mlp_bias=True,
                       tie_word_embeddings=True, rope_scaling=LLAMA3),
        lambda: tokens(30), logits="logits"),
    "mistral": case(hf.MistralForCausalLM, hf.MistralConfig(**LLAMA, sliding_window=7), lambda: tokens(30),
                    logits="logits"),
    "qwen2": case(hf.Qwen2ForCausalLM, hf.Qwen2Config(**LLAMA), lambda: tokens(30), logits="logits"),
    "qwen3": case(hf.Qwen3ForCausalLM, hf.Qwen3Config(**LLAMA, head_dim=12), lambda: tokens(30), logits="logits"),
    "llama yarn": case(hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, rope_scaling=YARN), lambda: tokens(30), logits="logits"),
    "llama linear": case(hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA, rope_scaling=dict(rope_type="linear", factor=2.0)),
                         lambda: tokens(30), logits="logits"),
    "smollm3": case(hf.SmolLM3ForCausalLM, hf.SmolLM3Config(**LLAMA | {"num_hidden_layers": 5}, pad_token_id=0),
                    lambda: tokens(30), logits="logits"),
    "smollm3 with a window masked": case(
        hf.SmolLM3ForCausalLM,
        hf.SmolLM3Config(**LLAMA, pad_token_id=0, no_rope_layer_interval=2, use_sliding_window=True, sliding_window=7),
        lambda: padded(20), logits="logits"),
    "granite": case(hf.GraniteForCausalLM, hf.GraniteConfig(
        **LLAMA, attention_multiplier=0.5, embedding_multiplier=12.0, residual_multiplier=0.25, logits_scaling=8.0),
        lambda: tokens(30), logits="logits"),
    "mixtral": case(hf.MixtralForCausalLM, hf.MixtralConfig(**LLAMA, num_local_experts=5, sliding_window=7),
                    lambda: tokens(30), logits="logits"),
    "mixtral masked": case(hf.MixtralForCausalLM, hf.MixtralConfig(**LLAMA, num_local_experts=4), lambda: padded(9),
                           logits="logits"),
    "qwen2_moe": case(hf.Qwen2MoeForCausalLM, hf.Qwen2MoeConfig(**LLAMA, **MOE, shared_expert_intermediate_size=40),
                      lambda: tokens(30), logits="logits"),
    "qwen2_moe with dense layers": case(
        hf.Qwen2MoeForCausalLM,
        hf.Qwen2MoeConfig(**LLAMA, **MOE, norm_topk_prob=True, mlp_only_layers=[0], use_sliding_window=True,
                          sliding_window=7, max_window_layers=1, shared_expert_intermediate_size=40),
        lambda: tokens(30), logits="logits"),
    "qwen3_moe": case(hf.Qwen3MoeForCausalLM, hf.Qwen3MoeConfig(**LLAMA, **MOE, head_dim=12, norm_topk_prob=True),
                      lambda: tokens(30), logits="logits"),
    "qwen3_moe with a window": case(
        hf.Qwen3MoeForCausalLM,
        hf.Qwen3MoeConfig(**LLAMA, **MOE, decoder_sparse_step=2, use_sliding_window=True, sliding_window=7,
                          rope_scaling=YARN),
        lambda: tokens(30), logits="logits"),
    "gemma": case(hf.GemmaForCausalLM, hf.GemmaConfig(**LLAMA, head_dim=12), lambda: tokens(30), logits="logits"),
    "gemma masked": case(hf.GemmaForCausalLM, hf.GemmaConfig(**LLAMA, head_dim=12, hidden_act="gelu"), lambda: padded(9),
                         logits="logits"),
    "gemma2": case(hf.Gemma2ForCausalLM, hf.Gemma2Config(**LLAMA, **GEMMA, attn_logit_softcapping=2.0,
                                                         final_logit_softcapping=3.0, query_pre_attn_scalar=9),
                   lambda: tokens(30), logits="logits"),
    "gemma2 masked": case(hf.Gemma2ForCausalLM, hf.Gemma2Config(**LLAMA, **GEMMA), lambda: padded(20), logits="logits"),
    "gemma2 without caps": case(
        hf.Gemma2ForCausalLM,
        hf.Gemma2Config(**LLAMA, **GEMMA, attn_logit_softcapping=None, final_logit_softcapping=None),
        lambda: tokens(30), logits="logits"),
    "gemma3": case(hf.Gemma3ForCausalLM, hf.Gemma3TextConfig(
        **LLAMA | {"num_hidden_layers": 7}, **GEMMA, rope_scaling=dict(rope_type="linear", factor=8.0)),
        lambda: tokens(30), logits="logits"),
    "gemma3 masked": case(hf.Gemma3ForCausalLM, hf.Gemma3TextConfig(
        **LLAMA, **GEMMA, layer_types=["full_attention", "sliding_attention", "full_attention"]),
        lambda: padded(20), logits="logits"),
    "phi": case(hf.PhiForCausalLM, hf.PhiConfig(**LLAMA), lambda: tokens(30), logits="logits"),
    "phi masked": case(hf.PhiForCausalLM, hf.PhiConfig(
        **LLAMA | {"hidden_size": 40}, partial_rotary_factor=0.4, qk_layernorm=True), lambda: padded(9), logits="logits"),
    "phi3": case(hf.Phi3ForCausalLM, hf.Phi3Config(**LLAMA, pad_token_id=0, sliding_window=7), lambda: tokens(30),
                 logits="logits"),
    "phi3 masked": case(hf.Phi3ForCausalLM, hf.Phi3Config(
        **LLAMA | {"hidden_size": 64}, pad_token_id=0, partial_rotary_factor=0.5), lambda: padded(9), logits="logits"),
    "phi3 long": case(hf.Phi3ForCausalLM, hf.Phi3Config(
        **LLAMA, pad_token_id=0, original_max_position_embeddings=16, rope_scaling=LONG), lambda: tokens(17), logits="logits"),
    "phi3 long with a short text": case(hf.Phi3ForCausalLM, hf.Phi3Config(
        **LLAMA, pad_token_id=0, original_max_position_embeddings=16, rope_scaling=LONG), lambda: tokens(16), logits="logits"),
    "starcoder2": case(hf.Starcoder2ForCausalLM, hf.Starcoder2Config(**LLAMA, sliding_window=7), lambda: tokens(30),
                       logits="logits"),
    "starcoder2 masked": case(
        hf.Starcoder2ForCausalLM,
        hf.Starcoder2Config(**LLAMA, use_bias=False, tie_word_embeddings=False, hidden_act="gelu",
                            rope_scaling=dict(rope_type="linear", factor=2.0)),
        lambda: padded(20), logits="logits"),
    "olmo2": case(hf.Olmo2ForCausalLM, hf.Olmo2Config(**LLAMA, pad_token_id=0), lambda: tokens(30), logits="logits"),
    "olmo2 masked": case(
        hf.Olmo2ForCausalLM,
        hf.Olmo2Config(**LLAMA, pad_token_id=0, attention_bias=True, tie_word_embeddings=True,
                       rope_scaling=dict(type="linear", factor=2.0)),
        lambda: padded(20), logits="logits"),
    "stablelm": case(hf.StableLmForCausalLM, hf.StableLmConfig(**LLAMA), lambda: tokens(30), logits="logits"),
    "stablelm masked": case(
        hf.StableLmForCausalLM,
        hf.StableLmConfig(**LLAMA, use_qkv_bias=True, qk_layernorm=True, use_parallel_residual=True,
                          partial_rotary_factor=0.5),
        lambda: padded(20), logits="logits"),
    "stablelm tied": case(
        hf.StableLmForCausalLM,
        hf.StableLmConfig(**LLAMA, qk_layernorm=True, partial_rotary_factor=1.0, tie_word_embeddings=True,
                          rope_scaling=dict(rope_type="linear", factor=2.0)),
        lambda: tokens(30), logits="logits"),
    "gptneox": case(hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**LLAMA), lambda: tokens(30), logits="logits"),
    "gptneox in sequence": case(
        hf.GPTNeoXForCausalLM,
        hf.GPTNeoXConfig(**LLAMA, use_parallel_residual=False, attention_bias=False, rotary_pct=1.0,
                         hidden_act="gelu_fast"),
        lambda: tokens(30), logits="logits"),
    "gptneox masked": case(
        hf.GPTNeoXForCausalLM,
        hf.GPTNeoXConfig(**LLAMA, rotary_pct=0.5, rotary_emb_base=5000, tie_word_embeddings=True,
                         rope_scaling=dict(rope_type="linear", factor=2.0)),
        lambda: padded(20), logits="logits"),
    "glm4": case(hf.Glm4ForCausalLM, hf.Glm4Config(**LLAMA, head_dim=12, pad_token_id=0, partial_rotary_factor=0.7),
                 lambda: tokens(30), logits="logits"),
    "glm4 masked": case(
        hf.Glm4ForCausalLM,
        hf.Glm4Config(**LLAMA, head_dim=8, pad_token_id=0, attention_bias=False, partial_rotary_factor=1.0,
                      tie_word_embeddings=True, rope_theta=5e5),
        lambda: padded(20), logits="logits"),
    "glm4moe": case(
        hf.Glm4MoeForCausalLM,
        hf.Glm4MoeConfig(**LLAMA, **GLM, head_dim=12, first_k_dense_replace=1, use_qk_norm=True, attention_bias=True,
                         routed_scaling_factor=2.5, n_shared_experts=2, partial_rotary_factor=0.7),
        lambda: tokens(30), logits="logits"),
    "glm4moe masked": case(
        hf.Glm4MoeForCausalLM,
        hf.Glm4MoeConfig(**LLAMA, **GLM, head_dim=8, first_k_dense_replace=0, norm_topk_prob=False,
                         tie_word_embeddings=True),
        lambda: padded(20), logits="logits"),
    "modernbert": case(hf.ModernBertModel, hf.ModernBertConfig(**MODERN), lambda: tokens(20),
                       last_hidden_state="last_hidden_state"),
    "modernbert masked": case(hf.ModernBertForMaskedLM, hf.ModernBertConfig(**MODERN), lambda: padded(20),
                              prediction_logits="logits"),
    "modernbert biased": case(
        hf.ModernBertForMaskedLM,
        hf.ModernBertConfig(**MODERN, decoder_bias=False, norm_bias=True, mlp_bias=True, attention_bias=True,
                            classifier_bias=True, local_rope_theta=None, tie_word_embeddings=False,
                            classifier_activation="silu", hidden_activation="relu"),
        lambda: tokens(20), prediction_logits="logits"),
    "gpt-oss": case(
        hf.GptOssForCausalLM,
        hf.GptOssConfig(**LLAMA, head_dim=12, num_local_experts=5, num_experts_per_tok=3, sliding_window=7),
        lambda: tokens(30), logits="logits"),
    "gpt-oss masked": case(
        hf.GptOssForCausalLM,
        hf.GptOssConfig(**LLAMA, head_dim=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=7,
                        rope_scaling=None, attention_bias=False, tie_word_embeddings=True,
                        layer_types=["full_attention", "sliding_attention", "full_attention"]),
        lambda: padded(20), logits="logits"),
    "bert masked": case(hf.BertModel, hf.BertConfig(**TEXT), lambda: padded(9, token_type_ids=True),
                        last_hidden_state="last_hidden_state", pooler_output="pooler_output"),
    "bert language masked": case(hf.BertForMaskedLM, hf.BertConfig(**TEXT), lambda: padded(9), prediction_logits="logits"),
    "bert labels masked": case(hf.BertForTokenClassification, hf.BertConfig(**TEXT), lambda: padded(9), logits="logits"),
    "bert answers masked": case(hf.BertForQuestionAnswering, hf.BertConfig(**TEXT), lambda: padded(9),
                                start_logits="start_logits", end_logits="end_logits"),
    "bert next": case(hf.BertForNextSentencePrediction, hf.BertConfig(**TEXT), lambda: padded(9, token_type_ids=True),
                      seq_relationship_logits="logits"),
    "electra masked": case(hf.ElectraModel, hf.ElectraConfig(**TEXT, embedding_size=16),
                           lambda: padded(9, token_type_ids=True), last_hidden_state="last_hidden_state"),
    "electra classifier": case(hf.ElectraForSequenceClassification, hf.ElectraConfig(**TEXT, num_labels=3),
                               lambda: padded(9), logits="logits"),
    "electra labels": case(hf.ElectraForTokenClassification, hf.ElectraConfig(**TEXT), lambda: padded(9), logits="logits"),
    "electra answers": case(hf.ElectraForQuestionAnswering, hf.ElectraConfig(**TEXT), lambda: padded(9),
                            start_logits="start_logits", end_logits="end_logits"),
    "albert masked": case(hf.AlbertModel, hf.AlbertConfig(**TEXT, embedding_size=16),
                          lambda: padded(9, token_type_ids=True), last_hidden_state="last_hidden_state"),
    "albert classifier": case(hf.AlbertForSequenceClassification, hf.AlbertConfig(**TEXT, embedding_size=16),
                              lambda: padded(9), logits="logits"),
    "albert labels": case(hf.AlbertForTokenClassification, hf.AlbertConfig(**TEXT, embedding_size=16),
                          lambda: padded(9), logits="logits"),
    "albert answers": case(hf.AlbertForQuestionAnswering, hf.AlbertConfig(**TEXT, embedding_size=16), lambda: padded(9),
                           start_logits="start_logits", end_logits="end_logits"),
    "gpt2 masked": case(hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2), lambda: padded(9, token_type_ids=True), logits="logits"),
    "gpt2 classifier": case(hf.GPT2ForSequenceClassification, hf.GPT2Config(**GPT2, pad_token_id=0), lambda: padded(9),
                            logits="logits"),
    "gpt2 labels": case(hf.GPT2ForTokenClassification, hf.GPT2Config(**GPT2), lambda: padded(9), logits="logits"),
    "gpt2 answers": case(hf.GPT2ForQuestionAnswering, hf.GPT2Config(**GPT2), lambda: padded(9),
                         start_logits="start_logits", end_logits="end_logits"),
    "t5 masked": case(hf.T5ForConditionalGeneration, hf.T5Config(**T5), translated, logits="logits"),
    "t5 answers": case(hf.T5ForQuestionAnswering, hf.T5Config(**T5), translated,
                       start_logits="start_logits", end_logits="end_logits"),
    "llama masked": case(hf.LlamaForCausalLM, hf.LlamaConfig(**LLAMA), lambda: padded(30), logits="logits"),
    "mistral masked": case(hf.MistralModel, hf.MistralConfig(**LLAMA, sliding_window=7), lambda: padded(30),
                           last_hidden_state="last_hidden_state"),
    "llama classifier": case(hf.LlamaForSequenceClassification, hf.LlamaConfig(**LLAMA, pad_token_id=0),
                             lambda: padded(30), logits="logits"),
    "llama labels": case(hf.LlamaForTokenClassification, hf.LlamaConfig(**LLAMA), lambda: padded(30), logits="logits"),
    "llama answers": case(hf.LlamaForQuestionAnswering, hf.LlamaConfig(**LLAMA), lambda: padded(30),
                          start_logits="start_logits", end_logits="end_logits"),
    "qwen2 labels": case(hf.Qwen2ForTokenClassification, hf.Qwen2Config(**LLAMA), lambda: padded(30), logits="logits"),
    "qwen2 windowed": case(
        hf.Qwen2ForCausalLM,
        hf.Qwen2Config(**LLAMA, use_sliding_window=True, sliding_window=7, max_window_layers=2), lambda: padded(30),
        logits="logits"),
    "qwen3 layers of two kinds": case(
        hf.Qwen3Model, hf.Qwen3Config(**LLAMA, head_dim=12, use_sliding_window=True, sliding_window=5, layer_types=[
            "sliding_attention", "full_attention", "sliding_attention"]),
        lambda: tokens(30), last_hidden_state="last_hidden_state"),
    "vit": case(hf.ViTForImageClassification, hf.ViTConfig(**VIT, num_labels=7), lambda: pixels(2, 3, 32, 32),
                logits="logits"),
    "vit without a classifier": case(
        hf.ViTModel, hf.ViTConfig(**VIT, qkv_bias=False), lambda: pixels(2, 3, 32, 32),
        last_hidden_state="last_hidden_state", pooler_output="pooler_output"),
}

# The initialization of transformers 4 fails on norms without a bias. All weights are set below.
hf.StableLmPreTrainedModel._init_weights = lambda self, module: None

# The architectures that describe families of another name.
ARCHITECTURES = {"electra": "bert", "mt5": "t5", "mistral": "llama", "qwen2": "llama", "qwen3": "llama", "smollm3": "llama",
                 "granite": "llama", "mixtral": "moe", "qwen2_moe": "moe", "qwen3_moe": "moe", "gemma2": "gemma",
                 "gemma3": "gemma"}


def randomize(model: torch.nn.Module) -> torch.nn.Module:
    """Gives every parameter values that matter: the usual initial ones leave biases 0 and norms 1."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            fan = parameter[0].numel() if parameter.dim() == 4 else 25
            is_scale = name.endswith("weight") and parameter.dim() == 1
            parameter.copy_(torch.randn(parameter.shape, generator=random) / fan ** 0.5 + is_scale)
        for name, buffer in model.named_buffers():
            if "running" in name or "correction" in name:
                buffer.copy_(torch.rand(buffer.shape, generator=random) + 0.5)
    return model.eval()


def made(folder: pathlib.Path, name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    model = randomize(CASES[name].model())
    model.save_pretrained(folder)
    return model


def run(folder: pathlib.Path, path: pathlib.Path, inputs: dict, *arguments) -> tuple[dict, str]:
    np.savez(folder / "inputs.npz", **{name: value.numpy() for name, value in inputs.items()})
    given = [argument for name in inputs for argument in ("--input", f"{name}={folder / 'inputs.npz'}:{name}")]
    done = ckpt("run", path, *given, *arguments, "--output", folder / "outputs.npz")
    assert done.returncode == 0, done.stderr
    return dict(np.load(folder / "outputs.npz")), done.stdout


def assert_close(found: np.ndarray, expected: torch.Tensor) -> None:
    expected = expected.numpy()
    assert found.shape == expected.shape, f"{found.shape} instead of {expected.shape}"
    error = np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < TOLERANCE, error


@check(*CASES)
def a_checkpoint_computes_what_transformers_computes(folder, name):
    model, inputs = made(folder, name), CASES[name].inputs()
    with torch.no_grad():
        expected = model(**inputs)
    found, said = run(folder, folder / "model.safetensors", inputs)
    family = name.split()[0]
    assert f"note: architecture {ARCHITECTURES.get(family, family)} " in said, said
    # What a model computes for padding depends on how it is run: a token that sees none has any weights.
    is_causal = family not in ("bert", "electra", "albert", "modernbert", "vit")
    mask = inputs.get("decoder_attention_mask", inputs.get("attention_mask")) if is_causal else None
    for own, theirs in CASES[name].outputs.items():
        wanted = expected[theirs]
        real = mask == 1 if mask is not None and wanted.shape[:2] == mask.shape else slice(None)
        assert_close(found[own][real], wanted[real])


@check("resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2")
def a_resnet_computes_what_torchvision_computes(folder, name):
    model = randomize(getattr(torchvision.models, name)())
    safetensors.torch.save_file(model.state_dict(), folder / "model.safetensors")
    x = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = model(x)
    assert_close(run(folder, folder / "model.safetensors", {"input": x})[0]["logits"], expected)


@check("bert masked", "electra masked", "albert masked", "gpt2 masked", "t5 masked", "llama masked", "mixtral masked",
       "gemma3 masked", "phi masked", "phi3 masked", "stablelm masked", "glm4 masked", "glm4moe masked", "gpt-oss masked",
       "modernbert masked")
def a_graph_with_masks_computes_the_same_in_onnxruntime(folder, name):
    family, inputs = name.split()[0], CASES[name].inputs()
    model, path = made(folder, name), folder / "model.onnx"
    given = ",".join(name for name in inputs if name not in ("input_ids", "decoder_input_ids"))
    convert(folder / "model.safetensors", path, "--arch", ARCHITECTURES.get(family, family),
            "--from-set", f"arch.inputs={given}")
    session = onnxruntime.InferenceSession(path)
    found = session.run(list(CASES[name].outputs), {name: value.numpy() for name, value in inputs.items()})
    with torch.no_grad():
        expected = model(**inputs)
    mask = inputs.get("decoder_attention_mask", inputs["attention_mask"]) == 1
    for value, theirs in zip(found, CASES[name].outputs.values()):
        real = mask if value.shape[:2] == mask.shape else slice(None)
        assert_close(value[real], expected[theirs][real])


@check()
def dense_layers_compute_what_torch_computes(folder):
    model = randomize(torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 3)))
    safetensors.torch.save_file(model.state_dict(), folder / "model.safetensors")
    x = torch.randn(4, 5)
    found, _ = run(folder, folder / "model.safetensors", {"input": x}, "--arch", "mlp", "--set", "arch.activation=tanh")
    with torch.no_grad():
        assert_close(found["output"], model(x))


@check("bert bert-tf-to-hf", "albert albert-tf-to-hf", "t5 t5-mesh-to-hf", "t5 gated t5-mesh-to-hf", "mt5 mt5-mesh-to-hf",
       "electra electra-tf-to-hf", "electra generator electra-generator-tf-to-hf", "gpt2 without heads gpt2-tf-to-hf",
       "gpt2 without heads gpt2-swift-to-hf", "gpt2 without heads gpt2-swift-paths-to-hf")
def both_sides_of_a_renaming_run_and_agree(folder, names):
    name, table = names.rsplit(" ", 1)
    made(folder, name)
    convert(folder / "model.safetensors", folder / "tf.ckpt", "--to", "tf2", "--map", table, "--inverse")
    done = ckpt("verify", folder / "tf.ckpt", folder / "model.safetensors", "--map", table)
    assert done.returncode == 0 and "elements with different bits: 0" in done.stdout, done.stdout + done.stderr
    assert "nothing was run" not in done.stdout and f"named by the mapping {table}" in done.stdout, done.stdout
    (folder / "config.json").unlink()
    heads = CASES[name].model().config.num_attention_heads
    more = ["--set", "arch.layers=3"] if name == "albert" else []
    is_t5 = name.split()[0] in ("t5", "mt5")
    done = ckpt("run", folder / "tf.ckpt", "--argmax", *([] if is_t5 else ["--set", f"arch.heads={heads}", *more]))
    assert done.returncode == 0 and f"named by the mapping {table}" in done.stdout, done.stdout + done.stderr


@check()
def both_sides_of_a_resnet_run_and_a_fault_is_found_in_its_layer(folder):
    table = "resnet-keras-to-torchvision"
    state = randomize(torchvision.models.resnet50()).state_dict()
    tensors = {name: value.clone() for name, value in state.items() if "num_batches" not in name}
    path, keras = folder / "model.safetensors", folder / "keras.ckpt"
    safetensors.torch.save_file(tensors, path)
    convert(path, keras, "--to", "tf2", "--map", table, "--inverse")
    np.savez(folder / "x.npz", input=np.random.default_rng(1).standard_normal((1, 3, 32, 32), np.float32))
    done = ckpt("verify", keras, path, "--map", table, "--input", folder / "x.npz")
    assert done.returncode == 0 and "elements with different bits: 0" in done.stdout, done.stdout + done.stderr
    tensors["layer3.1.bn2.running_var"] = tensors["layer3.1.bn2.running_var"].flip(0)
    safetensors.torch.save_file(tensors, folder / "faulty.safetensors")
    page = folder / "page.html"
    done = ckpt("verify", keras, folder / "faulty.safetensors", "--map", table, "--input", folder / "x.npz", "--html", page)
    assert done.returncode == 4 and "layer 'layer3.1.bn2' is the first that diverges" in done.stdout, done.stdout
    assert "from conv4_block2_2_bn/moving_variance" in page.read_text()


def swap_heads(weight: np.ndarray) -> None:
    weight[:12] = np.concatenate([weight[6:12], weight[:6]])


def swap_halves(weight: np.ndarray) -> None:
    weight[:8] = np.concatenate([weight[4:8], weight[:4]])


def interleave(weight: np.ndarray) -> None:
    weight[:8] = weight[:8].reshape(2, 4, -1).transpose(1, 0, 2).reshape(8, -1)


def transpose(weight: np.ndarray) -> None:
    weight[:] = weight.T.copy()


def exchange(other: str) -> Callable:
    """Exchanges a tensor with the other one of the checkpoint."""
    def change(weight: np.ndarray, tensors: dict) -> None:
        weight[:], tensors[other][:] = tensors[other].copy(), weight.copy()
    return change


ATTENTION = "bert.encoder.layer.1.attention.self"
FAULTS = {
    "a head permuted": ("bert", f"{ATTENTION}.key.weight", swap_heads, "layer.1.attention.k"),
    "queries and keys exchanged": ("bert", f"{ATTENTION}.query.weight", exchange(f"{ATTENTION}.key.weight"),
                                   "layer.1.attention.q"),
    "rotary halves swapped": ("llama", "model.layers.2.self_attn.k_proj.weight", swap_halves, "layers.2.k_proj"),
    "rotary halves interleaved": ("llama", "model.layers.1.self_attn.q_proj.weight", interleave, "layers.1.q_proj"),
    "a matrix transposed": ("gpt2", "transformer.h.1.attn.c_proj.weight", transpose, "h.1.attn.c_proj"),
}


@check(*FAULTS)
def a_fault_in_a_weight_is_found_in_its_layer(folder, fault):
    name, tensor, change, layer = FAULTS[fault]
    made(folder, name)
    tensors = {name: value.copy() for name, value in safetensors.numpy.load_file(folder / "model.safetensors").items()}
    change(tensors[tensor], tensors) if change.__code__.co_argcount == 2 else change(tensors[tensor])
    safetensors.numpy.save_file(tensors, folder / "faulty.safetensors")
    done = ckpt("verify", folder / "model.safetensors", folder / "faulty.safetensors")
    assert done.returncode == 4 and f"layer '{layer}' is the first that diverges" in done.stdout, done.stdout


@check()
def statistics_exchanged_in_a_residual_net_are_found_in_their_layer(folder):
    model = randomize(torchvision.models.resnet18())
    tensors = {name: value.clone() for name, value in model.state_dict().items()}
    path, faulty = folder / "model.safetensors", folder / "faulty.safetensors"
    safetensors.torch.save_file(tensors, path)
    mean, variance = "layer2.1.bn1.running_mean", "layer2.1.bn1.running_var"
    tensors[mean], tensors[variance] = tensors[variance].clone(), tensors[mean].abs()
    safetensors.torch.save_file(tensors, faulty)
    x = folder / "x.npz"
    np.savez(x, input=np.random.default_rng(1).standard_normal((1, 3, 64, 64), np.float32))
    assert ckpt("verify", path, path, "--input", x).returncode == 0
    done = ckpt("verify", path, faulty, "--input", x)
    assert done.returncode == 4 and "layer 'layer2.1.bn1' is the first that diverges" in done.stdout, done.stdout


@check("layer_norm_eps 1e-3 embeddings", "hidden_act gelu_new layer.0.intermediate")
def another_configuration_is_found_in_the_first_layer_that_it_changes(folder, change):
    key, value, layer = change.split()
    made(folder, "bert")
    (folder / "other").mkdir()
    shutil.copy(folder / "model.safetensors", folder / "other")
    config = json.loads((folder / "config.json").read_text())
    config[key] = float(value) if key.endswith("eps") else value
    (folder / "other" / "config.json").write_text(json.dumps(config))
    done = ckpt("verify", folder / "model.safetensors", folder / "other" / "model.safetensors")
    assert done.returncode == 4 and f"layer '{layer}' is the first that diverges" in done.stdout, done.stdout


@check()
def a_mask_that_is_off_by_one_is_found_in_its_layer(folder):
    made(folder, "gpt2")
    path = folder / "model.safetensors"
    found = json.loads(ckpt("inspect", path, "--arch", "gpt2", "--format", "json").stdout)
    graph = {"graph": found["graph"], "axes": {one["name"]: one["axes"] for one in found["tensors"] if one.get("axes")}}
    for faulty in (False, True):
        for node in graph["graph"]["nodes"]:
            if node["name"] == "causal" and faulty:
                node["op"] = "Less"
        (folder / "graph.json").write_text(json.dumps(graph))
        done = ckpt("verify", path, path, "--b-arch", folder / "graph.json")
        assert done.returncode == (4 if faulty else 0), done.stdout + done.stderr
        assert ("layer 'causal' is the first that diverges" in done.stdout) == faulty, done.stdout


@check("gpt2", "bert", "albert", "t5", "llama 3", "vit")
def weights_of_fewer_bits_are_no_difference_and_a_fault_among_them_is(folder, name):
    made(folder, name)
    path, narrow = folder / "model.safetensors", folder / "narrow.safetensors"
    convert(path, narrow, "--dtype", "bf16", "--allow", "narrowed")
    done = ckpt("verify", path, narrow)
    assert done.returncode == 0 and "bound" in done.stdout, done.stdout + done.stderr
    tensors = {name: value.clone() for name, value in safetensors.torch.load_file(narrow).items()}
    queries = ("c_attn.weight", "query.weight", "SelfAttention.q.weight", "q_proj.weight")
    matrix = min(name for name in tensors if name.endswith(queries))
    tensors[matrix] = tensors[matrix].roll(1, 0)
    safetensors.torch.save_file(tensors, narrow)
    done = ckpt("verify", path, narrow)
    assert done.returncode == 4 and f"its tensor '{matrix}'" in done.stdout, done.stdout + done.stderr


@check()
def what_the_tensors_do_not_show_is_asked_for(folder):
    made(folder, "gpt2")
    (folder / "bare").mkdir()
    path = shutil.copy(folder / "model.safetensors", folder / "bare")
    done = ckpt("run", path)
    assert done.returncode == 2 and "--set arch.heads=VALUE" in done.stderr, done.stderr
    assert "the names of architecture gpt2" in ckpt("inspect", path).stdout
    assert ckpt("run", path, "--set", "arch.heads=4").returncode == 0


if __name__ == "__main__":
    sys.exit(main(__doc__, torch, torchvision, hf))
