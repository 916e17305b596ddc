"""Checkpoints as their authors published them: the real names and layouts, scaled-down widths, random bits as values.

Each function gives the tensors by name; the names are those that the authors' TensorFlow programs give their variables.
"""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf


class Tensors(dict):
    """Tensors by name. Every bit pattern occurs, NaNs too: what is only moved must come through."""

    def __init__(self, seed: int):
        super().__init__()
        self.random = np.random.default_rng(seed)

    def add(self, name: str, *shape: int) -> None:
        bits = self.random.integers(0, 2**32, shape, np.uint32, endpoint=False)
        self[name] = np.asarray(bits).view(np.float32)

    def dense(self, scope: str, inputs: int, outputs: int) -> None:
        self.add(f"{scope}/kernel", inputs, outputs)
        self.add(f"{scope}/bias", outputs)

    def norm(self, scope: str, size: int) -> None:
        self.add(f"{scope}/gamma", size)
        self.add(f"{scope}/beta", size)

    def adam(self) -> None:
        """The optimiser's state, as the authors' AdamWeightDecayOptimizer names it."""
        for name in list(self):
            for slot in ("adam_m", "adam_v"):
                self.add(f"{name}/{slot}", *self[name].shape)
        self["global_step"] = np.int64(1000)


def write(prefix: pathlib.Path, tensors: dict) -> pathlib.Path:
    names = sorted(tensors)
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tf.constant(tensors[name]) for name in names])
    return prefix


def read(prefix: pathlib.Path) -> dict:
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: np.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}


def gpt2(layers: int, width: int, vocabulary: int, positions: int) -> Tensors:
    """OpenAI: github.com/openai/gpt-2."""
    made = Tensors(1)
    made.add("model/wte", vocabulary, width)
    made.add("model/wpe", positions, width)

    def norm(scope):
        made.add(f"{scope}/g", width)
        made.add(f"{scope}/b", width)

    def conv1d(scope, inputs, outputs):
        made.add(f"{scope}/w", 1, inputs, outputs)
        made.add(f"{scope}/b", outputs)

    for layer in range(layers):
        norm(f"model/h{layer}/ln_1")
        conv1d(f"model/h{layer}/attn/c_attn", width, 3 * width)
        conv1d(f"model/h{layer}/attn/c_proj", width, width)
        norm(f"model/h{layer}/ln_2")
        conv1d(f"model/h{layer}/mlp/c_fc", width, 4 * width)
        conv1d(f"model/h{layer}/mlp/c_proj", 4 * width, width)
    norm("model/ln_f")
    return made


def gpt2_swift(openai: Tensors) -> dict:
    """swift-models writes OpenAI's names, but projections as [in, out]."""
    return {name: value[0] if name.endswith("/w") else value for name, value in openai.items()}


def gpt2_swift_paths(openai: Tensors) -> dict:
    """The same by the property paths of swift-models' TransformerLM, with the constant that Attention holds."""
    norm = {"g": "scale", "b": "offset"}
    dense = {"w": "weight", "b": "bias"}
    parts = {
        ("ln_1",): ("selfAttentionNorm", norm), ("ln_2",): ("feedForwardNorm", norm),
        ("attn", "c_attn"): ("selfAttention/wqkv/dense", dense), ("attn", "c_proj"): ("selfAttention/wo/dense", dense),
        ("mlp", "c_fc"): ("feedForward/dense1/dense", dense), ("mlp", "c_proj"): ("feedForward/dense2/dense", dense),
    }
    made = {}
    for name, value in gpt2_swift(openai).items():
        _, scope, *rest = name.split("/")
        if scope == "wte":
            path = "embedding/weight"
        elif scope == "wpe":
            path = "positionalEmbeddings"
        elif scope == "ln_f":
            path = "norm/" + norm[rest[0]]
        else:
            part, parameters = parts[tuple(rest[:-1])]
            path = f"layers/[{scope[1:]}]/{part}/{parameters[rest[-1]]}"
            made[f"layers/[{scope[1:]}]/selfAttention/attention/scale"] = np.float32(2)
        made[path] = value
    return made


def transformer(made: Tensors, scope: str, layers: int, width: int, inner: int) -> None:
    """The encoder that BERT and ELECTRA have in common."""
    for layer in range(layers):
        at = f"{scope}/encoder/layer_{layer}"
        for part in ("query", "key", "value"):
            made.dense(f"{at}/attention/self/{part}", width, width)
        made.dense(f"{at}/attention/output/dense", width, width)
        made.norm(f"{at}/attention/output/LayerNorm", width)
        made.dense(f"{at}/intermediate/dense", width, inner)
        made.dense(f"{at}/output/dense", inner, width)
        made.norm(f"{at}/output/LayerNorm", width)


def embeddings(made: Tensors, scope: str, width: int, vocabulary: int, positions: int) -> None:
    made.add(f"{scope}/embeddings/word_embeddings", vocabulary, width)
    made.add(f"{scope}/embeddings/position_embeddings", positions, width)
    made.add(f"{scope}/embeddings/token_type_embeddings", 2, width)
    made.norm(f"{scope}/embeddings/LayerNorm", width)


def pretraining_heads(made: Tensors, width: int, embedding: int, vocabulary: int) -> None:
    """The two tasks that BERT and ALBERT are trained on."""
    made.dense("bert/pooler/dense", width, width)
    made.dense("cls/predictions/transform/dense", width, embedding)
    made.norm("cls/predictions/transform/LayerNorm", embedding)
    made.add("cls/predictions/output_bias", vocabulary)
    made.add("cls/seq_relationship/output_weights", 2, width)
    made.add("cls/seq_relationship/output_bias", 2)


def bert(layers: int, width: int, inner: int, vocabulary: int, positions: int) -> Tensors:
    """Google: github.com/google-research/bert, with the optimiser's state, as run_pretraining.py saves it."""
    made = Tensors(2)
    embeddings(made, "bert", width, vocabulary, positions)
    transformer(made, "bert", layers, width, inner)
    pretraining_heads(made, width, width, vocabulary)
    made.adam()
    return made


def albert(width: int, inner: int, embedding: int, vocabulary: int, positions: int) -> Tensors:
    """Google: github.com/google-research/albert, version 2."""
    made = Tensors(3)
    embeddings(made, "bert", embedding, vocabulary, positions)
    made.dense("bert/encoder/embedding_hidden_mapping_in", embedding, width)
    at = "bert/encoder/transformer/group_0/inner_group_0"
    for part in ("query", "key", "value"):
        made.dense(f"{at}/attention_1/self/{part}", width, width)
    made.dense(f"{at}/attention_1/output/dense", width, width)
    made.norm(f"{at}/LayerNorm", width)
    made.dense(f"{at}/ffn_1/intermediate/dense", width, inner)
    made.dense(f"{at}/ffn_1/intermediate/output/dense", inner, width)
    made.norm(f"{at}/LayerNorm_1", width)
    pretraining_heads(made, width, embedding, vocabulary)
    made.adam()
    return made


def electra(layers: int, width: int, inner: int, embedding: int, vocabulary: int, positions: int) -> Tensors:
    """Google: github.com/google-research/electra; the generator is a quarter as wide, as in the released models."""
    made = Tensors(4)
    embeddings(made, "electra", embedding, vocabulary, positions)
    for scope, divisor in (("electra", 1), ("generator", 4)):
        made.dense(f"{scope}/embeddings_project", embedding, width // divisor)
        transformer(made, scope, layers, width // divisor, inner // divisor)
    made.dense("discriminator_predictions/dense", width, width)
    made.dense("discriminator_predictions/dense_1", width, 1)
    made.dense("generator_predictions/dense", width // 4, embedding)
    made.norm("generator_predictions/LayerNorm", embedding)
    made.add("generator_predictions/output_bias", vocabulary)
    made["global_step"] = np.int64(1000)
    return made


def t5(layers: int, width: int, heads: int, inner: int, vocabulary: int, gated: bool, norm: str = "") -> Tensors:
    """Google: github.com/google-research/text-to-text-transfer-transformer. Gated, and with a head of its own: T5 1.1.
    With `norm` "rms_norm": github.com/google-research/multilingual-t5."""
    made = Tensors(5)
    made.add("shared/embedding", vocabulary, width)
    size = 2 * width // heads
    for stack, kinds in (("encoder", ["SelfAttention"]), ("decoder", ["SelfAttention", "EncDecAttention"])):
        for block in range(layers):
            at = f"{stack}/block_{block:03}"
            for layer, kind in enumerate(kinds):
                for part in "qkv":
                    made.add(f"{at}/layer_{layer:03}/{kind}/{part}", width, heads * size)
                made.add(f"{at}/layer_{layer:03}/{kind}/o", heads * size, width)
                made.add(f"{at}/layer_{layer:03}/{norm or 'layer_norm'}/scale", width)
            if block == 0:
                made.add(f"{at}/layer_000/SelfAttention/relative_attention_bias", heads, 32)
            last = f"{at}/layer_{len(kinds):03}"
            for part in ("wi_0", "wi_1") if gated else ("wi",):
                made.add(f"{last}/DenseReluDense/{part}/kernel", width, inner)
            made.add(f"{last}/DenseReluDense/wo/kernel", inner, width)
            made.add(f"{last}/{norm or 'layer_norm'}/scale", width)
        made.add(f"{stack}/{norm or 'final_layer_norm'}/scale", width)
    if gated:
        made.add("decoder/logits/kernel", width, vocabulary)
    for name in list(made):
        slots = ("vr", "vc") if made[name].ndim == 2 else ("v",)
        for slot in slots:
            made.add(f"{name}_slot_{slot}", 2)
    made["global_step"] = np.int64(1000)
    return made
