#!/usr/bin/env python3
"""Converts Hugging Face directories to GGUF and back, compares whole files with llama.cpp's converter, and logits, also those of
llama.cpp, with transformers.

    python tests/interop/families.py --ckpt target/debug/ckpt     (packages: requirements-transformers.txt)

Converter and libraries of llama.cpp are downloaded to a cache: see llama_packages.py. Each model is a tiny one with
random weights and a tokenizer that is trained here.
"""

import contextlib
import importlib
import io
import json
import pathlib
import shutil
import sys
from unittest import mock

import safetensors.torch
import sentencepiece
import tokenizers
import torch
import transformers
from harness import check, ckpt, convert, main
from llama_library import Library, NotLoaded
from llama_packages import converter, libraries

TYPES = ["f32", "f16", "bf16", "q8_0"]
SIZES = dict(vocab_size=320, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)


def without(*names: str) -> dict:
    """The sizes, for a family that does not have all of them."""
    return {name: size for name, size in SIZES.items() if name not in names}


T5 = dict(vocab_size=320, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
          decoder_start_token_id=0)
STATES = dict(vocab_size=320, hidden_size=32, num_hidden_layers=2, state_size=4)
MODERN = without("num_key_value_heads") | dict(global_attn_every_n_layers=2, local_attention=8, pad_token_id=0, bos_token_id=None,
                                               eos_token_id=None, cls_token_id=None, sep_token_id=None, layer_norm_eps=1e-5)
NOMIC = dict(architectures=["NomicBertModel"], model_type="nomic_bert", n_layer=2, n_embd=32, n_inner=64, n_head=4, n_positions=8192,
             vocab_size=320, type_vocab_size=2, layer_norm_epsilon=1e-12, rotary_emb_base=1000, rotary_emb_fraction=1.0,
             rotary_emb_interleaved=False, rotary_emb_scale_base=None, activation_function="swiglu", causal=False, qkv_proj_bias=False,
             mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, max_trained_positions=2048)
EXPERTS = dict(n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=32, n_group=1, topk_group=1,
               first_k_dense_replace=1)
LATENT = dict(kv_lora_rank=32, qk_nope_head_dim=8, qk_rope_head_dim=16, v_head_dim=12)
# In place of the name of a pre-tokenizer: the tokenizer is one of SentencePiece.
PIECES = None
# What llama.cpp calls the pre-tokenizer of a family's tokenizers.
FAMILIES = {
    "llama": ("llama-bpe", lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))),
    "llama_rope": ("llama-bpe", lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        **SIZES | dict(hidden_size=128, max_position_embeddings=131072), rope_theta=500000.0, tie_word_embeddings=True,
        rope_scaling=dict(rope_type="llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                          original_max_position_embeddings=8192)))),
    "llama_yarn": ("llama-bpe", lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0)))),
    "llama_bias": ("llama-bpe", lambda: transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True))),
    "mistral": ("llama-bpe", lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**SIZES, head_dim=16))),
    "mixtral": ("llama-bpe", lambda: transformers.MixtralForCausalLM(
        transformers.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2))),
    "smollm3": ("llama-bpe", lambda: transformers.SmolLM3ForCausalLM(
        transformers.SmolLM3Config(**SIZES, pad_token_id=0))),
    "granite": ("refact", lambda: transformers.GraniteForCausalLM(transformers.GraniteConfig(
        **SIZES, attention_multiplier=0.5, embedding_multiplier=12.0, residual_multiplier=0.25, logits_scaling=8.0))),
    "qwen2": ("qwen2", lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES))),
    "qwen3": ("qwen2", lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(head_dim=16, **SIZES))),
    "qwen2_moe": ("qwen2", lambda: transformers.Qwen2MoeForCausalLM(transformers.Qwen2MoeConfig(
        **SIZES, moe_intermediate_size=32, shared_expert_intermediate_size=64, num_experts=4, num_experts_per_tok=2))),
    "qwen3_moe": ("qwen2", lambda: transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(
        **SIZES, head_dim=16, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True))),
    "phi": ("gpt-2", lambda: transformers.PhiForCausalLM(
        transformers.PhiConfig(**SIZES | dict(intermediate_size=128, num_key_value_heads=4), pad_token_id=0))),
    "phi3": ("dbrx", lambda: transformers.Phi3ForCausalLM(transformers.Phi3Config(**SIZES, pad_token_id=0))),
    "phi3_long": ("dbrx", lambda: transformers.Phi3ForCausalLM(transformers.Phi3Config(
        **SIZES, pad_token_id=0, original_max_position_embeddings=16, rope_scaling=dict(
            type="longrope", long_factor=[1.0, 1.5, 2.0, 4.0], short_factor=[1.0, 1.0, 1.25, 1.5])))),
    "gemma": (PIECES, lambda: transformers.GemmaForCausalLM(transformers.GemmaConfig(**SIZES, head_dim=16))),
    "gemma2": (PIECES, lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        **SIZES, head_dim=16, query_pre_attn_scalar=16))),
    "gemma3": (PIECES, lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        **SIZES, head_dim=16, query_pre_attn_scalar=16))),
    "starcoder2": ("starcoder", lambda: transformers.Starcoder2ForCausalLM(transformers.Starcoder2Config(**SIZES))),
    "gptneox": ("olmo", lambda: transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**without("num_key_value_heads")))),
    "stablelm": ("stablelm2", lambda: transformers.StableLmForCausalLM(transformers.StableLmConfig(**SIZES))),
    "stablelm_norms": ("stablelm2", lambda: transformers.StableLmForCausalLM(transformers.StableLmConfig(
        **SIZES, use_qkv_bias=True, qk_layernorm=True, use_parallel_residual=True, partial_rotary_factor=1.0))),
    "mamba": ("olmo", lambda: transformers.MambaForCausalLM(transformers.MambaConfig(**STATES, time_step_rank=3))),
    "mamba_bias": ("olmo", lambda: transformers.MambaForCausalLM(transformers.MambaConfig(
        **STATES, use_bias=True, use_conv_bias=False, tie_word_embeddings=False))),
    "falcon_mamba": ("gpt-2", lambda: transformers.FalconMambaForCausalLM(transformers.FalconMambaConfig(**STATES))),
    "mamba2": ("olmo", lambda: transformers.Mamba2ForCausalLM(transformers.Mamba2Config(
        **STATES, num_heads=8, head_dim=8, n_groups=2, tie_word_embeddings=False))),
    "bert": ("jina-v2-en", lambda: transformers.BertModel(transformers.BertConfig(**without("num_key_value_heads")))),
    "modern_bert": ("modern-bert", lambda: transformers.ModernBertModel(transformers.ModernBertConfig(**MODERN))),
    "modern_bert_head": ("modern-bert", lambda: transformers.ModernBertForMaskedLM(transformers.ModernBertConfig(
        **MODERN, decoder_bias=False, norm_bias=True, mlp_bias=True, attention_bias=True, classifier_pooling="mean"))),
    "t5": (PIECES, lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**T5))),
    "t5_gated": (PIECES, lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(
        **T5, num_decoder_layers=1, feed_forward_proj="gated-gelu", tie_word_embeddings=False))),
    "mt5": (PIECES, lambda: transformers.MT5ForConditionalGeneration(transformers.MT5Config(**T5))),
    "t5_encoder": (PIECES, lambda: transformers.T5EncoderModel(transformers.T5Config(**T5, feed_forward_proj="gated-gelu"))),
    "bert_head": ("jina-v2-en", lambda: transformers.BertForMaskedLM(transformers.BertConfig(**without("num_key_value_heads")))),
    "olmo2": ("dbrx", lambda: transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**SIZES, pad_token_id=1))),
    "glm4": ("glm4", lambda: transformers.Glm4ForCausalLM(transformers.Glm4Config(**SIZES, head_dim=16, pad_token_id=1))),
    "glm4_moe": ("glm4", lambda: transformers.Glm4MoeForCausalLM(transformers.Glm4MoeConfig(
        **SIZES, **EXPERTS, head_dim=16, use_qk_norm=True, attention_bias=True, routed_scaling_factor=2.5,
        num_nextn_predict_layers=1))),
    "deepseek2": ("deepseek-v3", lambda: transformers.DeepseekV2ForCausalLM(transformers.DeepseekV2Config(
        **SIZES | dict(num_key_value_heads=4, num_hidden_layers=27), **EXPERTS, **LATENT, q_lora_rank=None))),
    "deepseek3": ("deepseek-v3", lambda: transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(
        **SIZES | dict(num_key_value_heads=4), **EXPERTS, **LATENT, q_lora_rank=24, scoring_func="sigmoid",
        topk_method="noaux_tc", rope_scaling=dict(
            type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
            mscale_all_dim=1.0)))),
    "gpt_oss": ("gpt-4o", lambda: transformers.GptOssForCausalLM(transformers.GptOssConfig(
        **SIZES | dict(intermediate_size=32), head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=8))),
    "llama4": ("llama4", lambda: transformers.Llama4ForCausalLM(transformers.Llama4TextConfig(
        **SIZES | dict(num_hidden_layers=4), head_dim=16, intermediate_size_mlp=96, num_local_experts=4,
        interleave_moe_layer_step=2))),
    "llama4_images": ("llama4", lambda: transformers.Llama4ForConditionalGeneration(transformers.Llama4Config(
        # Without a layer of four that is not rotated, llama.cpp ends.
        text_config=transformers.Llama4TextConfig(
            **SIZES | dict(num_hidden_layers=4), head_dim=16, intermediate_size_mlp=96, num_local_experts=4),
        vision_config=transformers.Llama4VisionConfig(
            hidden_size=32, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14,
            vision_output_dim=32, projector_input_dim=32, projector_output_dim=32)))),
    "mistral3": ("tekken", lambda: transformers.Mistral3ForConditionalGeneration(transformers.Mistral3Config(
        text_config=transformers.MistralConfig(**SIZES, head_dim=16), vision_config=transformers.PixtralVisionConfig(
            hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)))),
}
# Rows that fill blocks of 256.
WIDE = ("llama-bpe", lambda: transformers.LlamaForCausalLM(
    transformers.LlamaConfig(**SIZES | dict(hidden_size=256, intermediate_size=512))))
# That of transformers 4 fails on norms without a bias. All weights are set below, or read.
transformers.StableLmPreTrainedModel._init_weights = lambda self, module: None
# Models whose graph is known.
GRAPHS = ["llama", "llama_rope", "llama_yarn", "llama_bias", "mistral", "mixtral", "smollm3", "granite", "qwen2",
          "qwen3", "qwen2_moe", "qwen3_moe", "phi", "phi3", "phi3_long", "gemma", "gemma2", "gemma3", "starcoder2",
          "olmo2", "stablelm", "stablelm_norms", "gptneox", "glm4", "gpt_oss"]
# Models that llama.cpp gives no logits of.
ENCODERS = ["bert", "bert_head", "modern_bert", "modern_bert_head", "t5_encoder"]
# How far llama.cpp's numbers are from those of transformers at most, relative to the largest: in f32, with rounded weights, and
# with activations in blocks.
CLOSE, ROUNDED, ACTIVATIONS = 2e-6, {"f16": 5e-3, "bf16": 3e-2, "q8_0": 5e-2}, 3e-2
# Models of which llama.cpp computes something else in f32, by how much at most, and why.
GELU = "llama.cpp takes GELU from a table of f16"
APART = {
    **dict.fromkeys(["phi", "gemma", "gemma2", "gemma3", "starcoder2", "gptneox", "bert", "bert_head", "modern_bert", "t5_gated", "mt5",
                     "t5_encoder"], (2e-3, GELU)),
    "falcon_mamba": (1e-3, "no key states mixer_rms_eps"),
    "mamba2": (1e-2, "transformers normalizes over all groups, llama.cpp over each"),
    "gpt_oss": (2e-5, "llama.cpp truncates the limits of YaRN's correction"),
}
# llama.cpp does not scale the logits of tied embeddings.
FACTORS = {"t5": 32**0.5}
# transformers chooses factors by the length of the text, llama.cpp by that of its memory, which has 256 tokens and more.
LENGTHS = {"phi3_long": (24,)}
# Models that llama.cpp has no tensors for, and what it says.
REFUSED = {
    "mamba_bias": "tensor 'blk.0.ssm_conv1d.bias' not found",
    "modern_bert_head": "wrong number of tensors",
}
# Regular expressions by which tokenizer.json splits texts, by the name that llama.cpp gives them.
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LETTERS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
CASES = [LETTERS + r"*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+", LETTERS + r"+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"]
SHORT, OTHERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = "|".join([CASES[0] + SHORT, CASES[1] + SHORT, r"\p{N}{1,3}", OTHERS])
# Several are applied one after the other.
SPLITS = {
    "llama-bpe": LLAMA,
    "dbrx": LLAMA,
    "glm4": LLAMA,
    "gpt-4o": GPT4O,
    "llama4": GPT4O,
    "tekken": "|".join([*CASES, r"\p{N}", OTHERS]),
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|""" r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
                    r"|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
SPLITS["stablelm2"] = SPLITS["qwen2"]
# Tokens that a family looks up by their texts.
SPECIAL = {"dbrx": ["<s>", "</s>", "<unk>", "<|endoftext|>"], "glm4": ["<|endoftext|>", "<|user|>", "<|observation|>", "[gMASK]"]}


# The beginnings of model cards, by family; the others have none.
CARDS = {
    "llama": """---
license: apache-2.0
language:
- en
- no
tags: [text-generation, "a: b"]
pipeline_tag: text-generation
base_model: meta-llama/Llama-3.2-1B
model-index:
- name: tiny
  results: [{task: {type: text-generation}, metrics: [{type: accuracy, value: 0.5}]}]
---
# A tiny model
""",
    "qwen2": """---
license: [mit, other]
license_name: own
license_link: https://example.com/license
name: Tiny Qwen
author: 'A "B" C'
model_creator: D
version: "1.5"
url: https://example.com/tiny
base_model:
- https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct
- https://example.com/other
datasets:
- wikitext
- some-org/Data-v2
- {name: Own, version: "3", repo_url: https://example.com/data}
---
""",
}


def tokenizer(pre: str) -> tokenizers.Tokenizer:
    """Pairs of bytes, trained on a few words."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre not in SPLITS)
    if pre in SPLITS:
        splits = SPLITS[pre] if isinstance(SPLITS[pre], list) else [SPLITS[pre]]
        splits = [tokenizers.pre_tokenizers.Split(tokenizers.Regex(split), "isolated") for split in splits]
        level = tokenizers.pre_tokenizers.Sequence([*splits, level])
    elif pre in ("refact", "starcoder"):
        level = tokenizers.pre_tokenizers.Sequence([tokenizers.pre_tokenizers.Digits(individual_digits=True), level])
    made.pre_tokenizer, made.decoder = level, tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, show_progress=False,
                                             special_tokens=["<|end|>", "<|pad|>", "<|cls|>", *SPECIAL.get(pre, [])],
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(["the old mill and the river", "numbers 123 and 4567", "it's the miller's"], trainer)
    if pre == "modern-bert":
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="<|cls|> $A <|end|>", pair="<|cls|> $A <|end|> $B <|end|>", special_tokens=[("<|cls|>", 2), ("<|end|>", 0)])
    return made


def pieces(kind: str) -> bytes:
    """A model of SentencePiece, trained on a few words."""
    model = io.BytesIO()
    words = [f"the old mill and the river {number}, it's the miller's {number * 37}" for number in range(40)]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(words), model_writer=model, minloglevel=2, **(
        dict(model_type="bpe", byte_fallback=True, vocab_size=300) if kind == "bpe" else
        dict(model_type="unigram", vocab_size=64, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)))
    return model.getvalue()


def words(folder: pathlib.Path, is_published: bool) -> None:
    """The tokenizer of BERT, trained on a few words, and its kind of pooling. Published ones have a template."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = tokenizers.BertWordPieceTokenizer()
    made.train_from_iterator(["the old mill and the river", "numbers 123 and 4567"], vocab_size=80, special_tokens=special,
                             show_progress=False)
    if is_published:
        made._tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made.save(str(folder / "whole.json"))
    transformers.BertTokenizerFast(tokenizer_file=str(folder / "whole.json")).save_pretrained(folder)
    (folder / "whole.json").unlink()
    (folder / "modules.json").write_text(json.dumps([dict(type="sentence_transformers.models.Pooling", path="1_Pooling")]))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(dict(pooling_mode_cls_token=True)))


def save(folder: pathlib.Path, family: str, dtype: torch.dtype = torch.bfloat16) -> pathlib.Path:
    """The directory of a model."""
    pre, make = WIDE if family == "wide" else FAMILIES[family]
    torch.manual_seed(7)
    model = make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape) / 8)
    model.config.bos_token_id, model.config.eos_token_id = None, 0
    model.generation_config = transformers.GenerationConfig(temperature=0.5, top_k=40, do_sample=True)
    model.to(dtype).save_pretrained(folder)
    if family in CARDS:
        (folder / "README.md").write_text(CARDS[family])
    if family in ("deepseek3", "glm4_moe"):
        # A layer behind those of the model, which predicts more tokens.
        path = folder / "model.safetensors"
        weights = safetensors.torch.load_file(path)
        last = {name.replace("layers.1.", "layers.2."): weights[name].clone() for name in weights if ".layers.1." in name}
        last |= {f"model.layers.2.{name}.weight": torch.ones(32, dtype=torch.bfloat16) for name in ("enorm", "hnorm", "shared_head.norm")}
        last["model.layers.2.eh_proj.weight"] = torch.ones(32, 64, dtype=torch.bfloat16)
        safetensors.torch.save_file(weights | last, path, metadata={"format": "pt"})
    if pre is PIECES:
        (folder / "spiece.model" if "t5" in family else folder / "tokenizer.model").write_bytes(
            pieces("unigram" if "t5" in family else "bpe"))
        (folder / "tokenizer_config.json").write_text(json.dumps(dict(eos_token="</s>", add_bos_token=True)))
        return folder
    if pre == "jina-v2-en":
        words(folder, is_published=family == "bert_head")
        return folder
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer(pre), eos_token="<|end|>", pad_token="<|pad|>",
                                                **(dict(cls_token="<|cls|>", sep_token="<|end|>") if pre == "modern-bert" else {}))
    fast.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    fast.save_pretrained(folder)
    if family.startswith("phi3"):
        # Without tokenizer.model, the converter looks for this class, which adds a token of its own for what is not stated.
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | dict(
            tokenizer_class="GPT2Tokenizer", bos_token="<|end|>", unk_token="<|end|>")))
    return folder


def reference(folder: pathlib.Path, target: pathlib.Path, kind: str, pre: str) -> None:
    """The file of llama.cpp's converter, which knows the pre-tokenizers of published vocabularies only."""
    root = converter()
    for path in (root / "gguf-py", root):
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))
    base = importlib.import_module("conversion.base")
    program = importlib.import_module("convert_hf_to_gguf")
    mend(importlib.import_module("conversion.stablelm").StableLMModel)
    arguments = ["convert_hf_to_gguf.py", str(folder), "--outfile", str(target), "--outtype", kind]
    told = io.StringIO()
    with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), \
            mock.patch.object(torch, "exp", lambda numbers: EXP(numbers.to(torch.float64)).to(torch.float32)), \
            mock.patch.object(base.TextModel, "get_vocab_base_pre", lambda self, tokenizer: pre):
        program.main()
    assert target.exists(), told.getvalue()


# PyTorch's exponential of f32 depends on the instructions of the processor, in the last bit of up to 4 % of random numbers (MKL,
# AVX2 and AVX-512). So the converter computes that of f64, as ckpt does; a check of its own compares with PyTorch's.
EXP = torch.exp


def mend(stablelm: type) -> None:
    """Makes the converter write stacked norms of StableLM: it returns them from a generator, which drops them, and then fails."""
    original = stablelm.modify_tensors
    if original.__name__ == "mended":
        return

    def mended(self, tensor, name, block):
        yield from (yield from original(self, tensor, name, block)) or ()

    stablelm.modify_tensors = mended


@check(*FAMILIES)
def whole_files_are_those_of_llama_cpps_converter_and_come_back(folder, family):
    model = save(folder / f"tiny-{family}", family)
    for kind in TYPES:
        own, theirs = folder / f"own-{kind}.gguf", folder / f"theirs-{kind}.gguf"
        reference(model, theirs, kind, FAMILIES[family][0])
        convert(model, own, "--set", f"type={kind}", "--allow", "all")
        assert own.read_bytes() == theirs.read_bytes(), f"{kind}: {difference(own, theirs)}"
    back, again = folder / "back", folder / "again.gguf"
    convert(folder / "theirs-bf16.gguf", back)
    convert(back, again)
    if family == "mistral3":
        # The directory is that of its text model, a Mistral.
        assert difference(again, folder / "theirs-bf16.gguf").endswith("other values: []")
    else:
        assert again.read_bytes() == (folder / "theirs-bf16.gguf").read_bytes(), difference(again, folder / "theirs-bf16.gguf")
    ids = torch.arange(12).reshape(1, 12) % SIZES["vocab_size"]
    kind = getattr(transformers, json.loads((back / "config.json").read_text())["architectures"][0])
    inputs = dict(input_ids=ids) | (dict(decoder_input_ids=ids) if kind is transformers.T5ForConditionalGeneration else {})
    own = opened if family in ("mistral3", "llama4_images") else lambda path: kind.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        expected, found = own(model)(**inputs)[0], own(back)(**inputs)[0]
    assert torch.equal(expected, found), f"other logits: {(expected - found).abs().max()}"
    if (model / "generation_config.json").exists():
        assert json.loads((back / "generation_config.json").read_text())["top_k"] == 40


@check()
def nomics_models_are_those_of_llama_cpps_converter_and_come_back(folder):
    """Their code is no part of transformers 4: a directory of tensors with their names."""
    model, torch_dtype = folder / "tiny-nomic", torch.bfloat16
    model.mkdir()
    words(model, is_published=True)
    (model / "config.json").write_text(json.dumps(NOMIC))
    shapes = {"embeddings.word_embeddings.weight": (320, 32), "embeddings.token_type_embeddings.weight": (2, 32), "emb_ln.weight": (32,),
              "emb_ln.bias": (32,)}
    for layer in range(2):
        shapes |= {f"encoder.layers.{layer}.{name}": shape for name, shape in {
            "attn.Wqkv.weight": (96, 32), "attn.out_proj.weight": (32, 32), "mlp.fc11.weight": (64, 32), "mlp.fc12.weight": (64, 32),
            "mlp.fc2.weight": (32, 64), "norm1.weight": (32,), "norm1.bias": (32,), "norm2.weight": (32,), "norm2.bias": (32,)}.items()}
    torch.manual_seed(7)
    tensors = {name: torch.randn(shape).to(torch_dtype) for name, shape in shapes.items()}
    safetensors.torch.save_file(tensors, model / "model.safetensors", {"format": "pt"})
    for kind in TYPES:
        own, theirs = folder / f"own-{kind}.gguf", folder / f"theirs-{kind}.gguf"
        reference(model, theirs, kind, "jina-v2-en")
        convert(model, own, "--set", f"type={kind}", "--allow", "all")
        assert own.read_bytes() == theirs.read_bytes(), f"{kind}: {difference(own, theirs)}"
    convert(folder / "theirs-bf16.gguf", folder / "back")
    back = safetensors.torch.load_file(folder / "back" / "model.safetensors")
    assert back.keys() == tensors.keys() and all(torch.equal(back[name], tensors[name]) for name in tensors)
    config = json.loads((folder / "back" / "config.json").read_text())
    assert {key: config.get(key) for key in NOMIC} | dict(rotary_emb_scale_base=None) == NOMIC, config
    convert(folder / "back", folder / "again.gguf")
    assert (folder / "again.gguf").read_bytes() == (folder / "theirs-bf16.gguf").read_bytes()


@check()
def exponentials_are_pytorchs_but_for_the_last_bit(folder):
    import gguf
    model = save(folder / "tiny-mamba", "mamba")
    convert(model, folder / "own.gguf", "--set", "type=f32", "--allow", "all")
    own = next(tensor.data for tensor in gguf.GGUFReader(folder / "own.gguf").tensors if tensor.name == "blk.0.ssm_a")
    logarithms = transformers.MambaForCausalLM.from_pretrained(model, dtype=torch.float32).backbone.layers[0].mixer.A_log
    expected = -EXP(logarithms.detach())
    apart = (torch.tensor(own).view(torch.int32) - expected.view(torch.int32)).abs()
    assert apart.max() <= 1, f"{apart.max()} units in the last place"


@check(*GRAPHS)
def both_forms_compute_what_transformers_computes(folder, family):
    model, file = save(folder / f"tiny-{family}", family, torch.float32), folder / "model.gguf"
    convert(model, file, "--set", "type=f32", "--allow", "all")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation="eager")
    # Phi 3 has other frequencies for texts of more than 16 tokens.
    for count in (12, 24):
        ids = torch.randint(0, 300, (2, count))
        safetensors.torch.save_file({"input_ids": ids}, folder / "ids.safetensors")
        with torch.no_grad():
            expected = loaded(ids).logits
        for path in (model, file):
            done = ckpt("run", path, "--input", f"input_ids={folder / 'ids.safetensors'}:input_ids", "--force",
                        "--output", folder / "outputs.safetensors")
            assert done.returncode == 0, done.stderr
            found = safetensors.torch.load_file(folder / "outputs.safetensors")["logits"]
            error = float((found - expected).abs().max() / expected.abs().max())
            assert error <= 1e-5, f"{path.name}, {count} tokens: {error}"
    done = ckpt("verify", model, file)
    assert done.returncode == 0 and "nothing was run" not in done.stdout, done.stdout + done.stderr


@check(*(family for family in FAMILIES if family not in REFUSED))
def llama_cpp_computes_what_transformers_computes(folder, family):
    model = save(folder / f"tiny-{family}", family, torch.float32)
    for kind in TYPES:
        convert(model, folder / f"{kind}.gguf", "--set", f"type={kind}", "--allow", "all")
    loaded, embeds = opened(model), family in ENCODERS
    most, _ = APART.get(family, (CLOSE, ""))
    for count in LENGTHS.get(family, (12, 24)):
        ids = torch.randint(3, 64, (1, count))
        inputs = dict(input_ids=ids) | (dict(decoder_input_ids=ids) if loaded.config.is_encoder_decoder else {})
        with torch.no_grad():
            expected = (loaded.base_model if embeds else loaded)(**inputs)[0][0].numpy() * FACTORS.get(family, 1)
        errors = {}
        for kind in TYPES:
            found = LLAMA_CPP.compute(folder / f"{kind}.gguf", ids[0].tolist(), embeds)
            errors[kind] = float(abs(found - expected).max() / abs(expected).max())
        assert errors["f32"] <= most, f"{count} tokens: {errors}"
        assert family not in APART or errors["f32"] > CLOSE, f"no longer apart: {errors}"
        assert all(errors[kind] <= ROUNDED[kind] for kind in ROUNDED), f"{count} tokens: {errors}"


@check("fp8-blocks", "fp8-channels", "int8-channels", "int4-groups", "mlx-4bit", "mlx-8bit", "nf4")
def llama_cpp_computes_what_transformers_computes_of_a_quantized_directory(folder, scheme):
    convert(save(folder / "tiny-wide", "wide", torch.float32), f"{folder / 'quantized'}/", "--set", f"quantize={scheme}",
            "--allow", "all")
    convert(folder / "quantized", folder / "model.gguf", "--set", "type=f32")
    # transformers has kernels of 8-bit floats for graphics cards alone: it gets the numbers.
    convert(folder / "quantized", f"{folder / 'numbers'}/", "--dtype", "f32")
    ids = torch.randint(3, 64, (1, 24))
    with torch.no_grad():
        expected = opened(folder / "numbers")(input_ids=ids)[0][0].numpy()
    found = LLAMA_CPP.compute(folder / "model.gguf", ids[0].tolist(), False)
    error = float(abs(found - expected).max() / abs(expected).max())
    assert error <= CLOSE, f"{scheme}: {error}"


@check(*REFUSED)
def llama_cpp_does_not_load_what_it_has_no_tensors_for(folder, family):
    convert(save(folder / f"tiny-{family}", family), folder / "model.gguf", "--allow", "all")
    try:
        LLAMA_CPP.compute(folder / "model.gguf", [1, 2, 3], family in ENCODERS)
    except NotLoaded as error:
        assert REFUSED[family] in str(error), error
    else:
        raise AssertionError("llama.cpp loads the file: remove it from the table")


@check("q4_0", "q2_k", "q3_k_m", "q4_k_m", "q5_k_m", "q6_k", "iq4_nl", "iq4_xs", "iq3_s", "tq1_0", "tq2_0", "mxfp4_moe")
def llama_cpp_computes_what_ckpt_computes_of_blocks(folder, kind):
    model = save(folder / "tiny-wide", "wide")
    convert(model, folder / "model.gguf", "--set", f"type={kind}", "--allow", "all")
    ids = torch.randint(3, 64, (1, 24))
    safetensors.torch.save_file({"input_ids": ids}, folder / "ids.safetensors")
    done = ckpt("run", folder / "model.gguf", "--input", f"input_ids={folder / 'ids.safetensors'}:input_ids", "--output",
                folder / "outputs.safetensors")
    assert done.returncode == 0, done.stderr
    expected = safetensors.torch.load_file(folder / "outputs.safetensors")["logits"][0].numpy()
    found = LLAMA_CPP.compute(folder / "model.gguf", ids[0].tolist(), False)
    error = float(abs(found - expected).max() / abs(expected).max())
    assert error <= ACTIVATIONS, error


@check("llama", "qwen3_moe", "gemma3")
def a_fault_in_a_file_is_found_in_its_layer(folder, family):
    model, file = save(folder / f"tiny-{family}", family), folder / "faulty.gguf"
    tensors = safetensors.torch.load_file(model / "model.safetensors")
    name = "model.layers.1.self_attn.q_proj.weight"
    shutil.copytree(model, folder / "faulty")
    safetensors.torch.save_file(tensors | {name: tensors[name].roll(1, 0)}, folder / "faulty/model.safetensors", {"format": "pt"})
    convert(folder / "faulty", file)
    done = ckpt("verify", model, file)
    assert done.returncode == 4 and "layer 'layers.1.q_proj' is the first that diverges" in done.stdout, done.stdout


@check("q8_0", "q4_k_m", "tq2_0")
def blocks_are_no_difference_and_a_fault_among_them_is(folder, kind):
    model, faulty = save(folder / "tiny-wide", "wide"), folder / "faulty"
    convert(model, folder / "model.gguf", "--set", f"type={kind}", "--allow", "all")
    done = ckpt("verify", model, folder / "model.gguf")
    assert done.returncode == 0 and "stored as blocks of" in done.stdout, done.stdout + done.stderr
    tensors = safetensors.torch.load_file(model / "model.safetensors")
    name = "model.layers.1.self_attn.q_proj.weight"
    shutil.copytree(model, faulty)
    safetensors.torch.save_file(tensors | {name: tensors[name].roll(1, 0)}, faulty / "model.safetensors", {"format": "pt"})
    convert(faulty, folder / "faulty.gguf", "--set", f"type={kind}", "--allow", "all")
    done = ckpt("verify", model, folder / "faulty.gguf")
    assert done.returncode == 4 and f"its tensor '{name}'" in done.stdout, done.stdout + done.stderr


@check("bf16", "mxfp4_moe")
def experts_of_mxfp4_keep_their_numbers(folder, kind):
    model = save(folder / "tiny-gpt-oss", "gpt_oss")
    weights = safetensors.torch.load_file(model / "model.safetensors")
    for name in [name for name in weights if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = weights.pop(name).shape
        weights[f"{name}_blocks"] = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), dtype=torch.uint8)
        weights[f"{name}_scales"] = torch.randint(118, 124, (experts, outputs, inputs // 32), dtype=torch.uint8)
    safetensors.torch.save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | dict(quantization_config=dict(quant_method="mxfp4"))))
    reference(model, folder / "theirs.gguf", "bf16", "gpt-4o")
    convert(model, folder / "own.gguf", "--set", f"type={kind}", "--allow", "all")
    import gguf
    own, theirs = ({tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors} for path in (folder / "own.gguf", folder / "theirs.gguf"))
    for name, tensor in theirs.items():
        if name.endswith("_exps.weight"):
            own_type = own[name].tensor_type
            assert own_type.name == ("BF16" if kind == "bf16" else "MXFP4"), own_type
            expected, found = (gguf.quants.dequantize(t.data, t.tensor_type).ravel() for t in (tensor, own[name]))
            assert (expected == found).all(), name
        elif kind == "bf16":
            assert tensor.data.tobytes() == own[name].data.tobytes(), name


def opened(folder: pathlib.Path) -> torch.nn.Module:
    """The model by the class that its configuration names."""
    name, = json.loads((folder / "config.json").read_text())["architectures"]
    return getattr(transformers, name).from_pretrained(folder, dtype=torch.float32).eval()


def difference(own: pathlib.Path, theirs: pathlib.Path) -> str:
    """What the headers of two files do not have in common."""
    import gguf
    files = [gguf.GGUFReader(path) for path in (own, theirs)]
    keys = [[(key, str(field.contents())[:80]) for key, field in file.fields.items()] for file in files]
    tensors = [[(tensor.name, tensor.tensor_type.name, tuple(tensor.shape)) for tensor in file.tensors] for file in files]
    told = [(a, b) for one, other in (keys, tensors) for a, b in zip(one, other) if a != b][:3]
    values = [tensor.name for tensor, other in zip(files[0].tensors, files[1].tensors)
              if tensor.data.tobytes() != other.data.tobytes()][:5]
    return f"{told or 'headers alike'}; {len(keys[0])} and {len(keys[1])} keys; other values: {values}"


if __name__ == "__main__":
    try:
        converter()
        LLAMA_CPP = Library(libraries())
    except OSError as error:
        print(f"skipped: llama.cpp can't be downloaded or loaded: {error}")
        sys.exit(0)
    sys.exit(main(__doc__.split("\n")[0], torch, transformers, tokenizers))
