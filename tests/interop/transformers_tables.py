#!/usr/bin/env python3
"""Converts published checkpoints with the built-in tables and compares with the loaders of `transformers`.

    python tests/interop/transformers_tables.py --ckpt target/debug/ckpt     (packages: requirements-transformers.txt)

The reference reads the same TensorFlow checkpoint into its PyTorch model. Its state and the converted file must be equal
name by name and bit by bit; what only the model has is listed here, and proven to be a second name for a tensor that both
have. Then the converted file is led back, and must be what it was made from.
"""

import contextlib
import dataclasses
import io
import json
import pathlib
import sys
from collections.abc import Callable

sys.modules["triton"] = None  # torch does without it; its LLVM and TensorFlow's abort a process that has both

import published
import keras
import numpy as np
import safetensors.torch
import tensorflow as tf
import torch
import torchvision
import transformers
from harness import assert_equal, check, ckpt, convert, load, main
from transformers.models.albert.modeling_albert import load_tf_weights_in_albert
from transformers.models.bert.modeling_bert import load_tf_weights_in_bert
from transformers.models.electra.modeling_electra import load_tf_weights_in_electra
from transformers.models.gpt2.modeling_gpt2 import load_tf_weights_in_gpt2
from transformers.models.t5.modeling_t5 import load_tf_weights_in_t5

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERT_SIZES = dict(vocab_size=40, max_position_embeddings=16, num_attention_heads=2)
GPT2_CONFIG = transformers.GPT2Config(n_layer=12, n_embd=8, n_head=2, vocab_size=40, n_positions=16)


@dataclasses.dataclass
class Reference:
    """How `transformers` reads a published checkpoint."""

    tensors: dict  # as published, and as the loader takes them
    loader: Callable
    model: type
    config: transformers.PretrainedConfig
    opened_by: type | None = None  # the class that a user would open the result with, if not `model`
    second_names: dict = dataclasses.field(default_factory=dict)
    dropped: tuple = ()  # beginnings and
    slots: tuple = ()  # ends of names that a model has no place for
    loader_arguments: tuple = ()
    names: Callable = dict  # from the names that the loader takes to those that the table takes

    def state(self, folder: pathlib.Path) -> dict:
        """The tensors that the loader puts into the model, without those that are another one under a second name."""
        model = self.model(self.config)
        prefix = published.write(folder / "published.ckpt", self.tensors)
        with contextlib.redirect_stdout(io.StringIO()):
            self.loader(model, self.config, str(prefix), *self.loader_arguments)
        tensors = dict(model.state_dict())
        for name, of in self.second_names.items():
            assert tensors.pop(name).data_ptr() == tensors[of].data_ptr(), f"{name} is not {of}"
        return {name: tensor.numpy() for name, tensor in tensors.items()}

    def kept(self) -> dict:
        return {name: value for name, value in self.names(self.tensors).items()
                if not name.startswith(self.dropped) and not name.endswith(self.slots)}


def gpt2(names: Callable = dict, **others) -> Reference:
    return Reference(published.gpt2(layers=12, width=8, vocabulary=40, positions=16), load_tf_weights_in_gpt2,
                     transformers.GPT2Model, GPT2_CONFIG, transformers.GPT2LMHeadModel, names=names, **others)


def bert() -> Reference:
    return Reference(
        published.bert(layers=12, width=8, inner=12, vocabulary=40, positions=16), load_tf_weights_in_bert,
        transformers.BertForPreTraining,
        transformers.BertConfig(num_hidden_layers=12, hidden_size=8, intermediate_size=12, **BERT_SIZES),
        second_names={"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
                      "cls.predictions.decoder.bias": "cls.predictions.bias"},
        dropped=("global_step",), slots=("/adam_m", "/adam_v"))


def albert() -> Reference:
    return Reference(
        published.albert(width=8, inner=12, embedding=6, vocabulary=40, positions=16), load_tf_weights_in_albert,
        transformers.AlbertForPreTraining,
        transformers.AlbertConfig(hidden_size=8, embedding_size=6, intermediate_size=12, **BERT_SIZES),
        second_names={"predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
                      "predictions.decoder.bias": "predictions.bias"},
        dropped=("global_step",), slots=("/adam_m", "/adam_v"))


def electra(model: type, which: str, divisor: int, **others) -> Reference:
    return Reference(
        published.electra(layers=12, width=16, inner=24, embedding=6, vocabulary=40, positions=16),
        load_tf_weights_in_electra, model,
        transformers.ElectraConfig(num_hidden_layers=12, hidden_size=16 // divisor, embedding_size=6,
                                   intermediate_size=24 // divisor, **BERT_SIZES),
        loader_arguments=(which,), **others)


T5_EMBEDDINGS = {name: "shared.weight" for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")}


def t5(gated: bool, second_names: dict, norm: str = "") -> Reference:
    tensors = published.t5(layers=3, width=8, heads=2, inner=12, vocabulary=40, gated=gated, norm=norm)
    model, config = (transformers.T5ForConditionalGeneration, transformers.T5Config)
    if norm:
        model, config = (transformers.MT5ForConditionalGeneration, transformers.MT5Config)
    return Reference(
        tensors, load_tf_weights_in_t5, model,
        config(num_layers=3, d_model=8, num_heads=2, d_kv=8, d_ff=12, vocab_size=40,
               tie_word_embeddings=not gated, feed_forward_proj="gated-gelu" if gated else "relu"),
        second_names=second_names, dropped=("global_step",), slots=("_slot_v", "_slot_vr", "_slot_vc"))


REFERENCES = {
    "gpt2-tf-to-hf": gpt2,
    "gpt2-swift-to-hf": lambda: gpt2(published.gpt2_swift),
    "gpt2-swift-paths-to-hf": lambda: gpt2(published.gpt2_swift_paths, slots=("/attention/scale",)),
    "bert-tf-to-hf": bert,
    "albert-tf-to-hf": albert,
    "electra-tf-to-hf": lambda: electra(
        transformers.ElectraForPreTraining, "discriminator", 1,
        dropped=("generator/", "generator_predictions/", "global_step")),
    "electra-generator-tf-to-hf": lambda: electra(
        transformers.ElectraForMaskedLM, "generator", 4,
        second_names={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
        dropped=("electra/encoder/", "electra/embeddings_project/", "discriminator_predictions/", "global_step")),
    "t5-mesh-to-hf 1.0": lambda: t5(False, T5_EMBEDDINGS | {"lm_head.weight": "shared.weight"}),
    "t5-mesh-to-hf 1.1": lambda: t5(True, T5_EMBEDDINGS),
    "mt5-mesh-to-hf": lambda: t5(True, T5_EMBEDDINGS, "rms_norm"),
}


def there_and_back(folder: pathlib.Path, table, reference: Reference) -> None:
    prefix = published.write(folder / "model.ckpt", reference.names(reference.tensors))
    out, back = folder / "model.safetensors", folder / "back.ckpt"
    convert(prefix, out, "--from", "tf2", "--map", table)
    expected = reference.state(folder)
    assert_equal(load(out), expected)
    convert(out, back, "--to", "tf2", "--map", table, "--inverse")
    assert_equal(published.read(back), reference.kept())


@check(*REFERENCES)
def a_table_gives_what_transformers_reads_and_leads_back(folder, name):
    there_and_back(folder, name.split()[0], REFERENCES[name]())


BERT = transformers.BertConfig(num_hidden_layers=2, hidden_size=8, intermediate_size=12, **BERT_SIZES)
GPT2 = transformers.GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=40, n_positions=16)
# The class, without TF; its configuration; and what ties give it in PyTorch.
WRITERS = {
    "BertModel": (BERT, []), "BertForSequenceClassification": (BERT, []), "BertForQuestionAnswering": (BERT, []),
    "BertForPreTraining": (BERT, ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"]),
    "BertForMaskedLM": (BERT, ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"]),
    "GPT2Model": (GPT2, []), "GPT2LMHeadModel": (GPT2, ["lm_head.weight"]),
}


@check(*WRITERS)
def tf_model_h5_has_the_names_and_values_of_pytorch(folder, name):
    from transformers.modeling_tf_pytorch_utils import load_tf2_model_in_pytorch_model

    config, tied = WRITERS[name]
    written = getattr(transformers, f"TF{name}")(config)
    written(written.dummy_inputs)
    numbers = np.random.default_rng(0)
    written.set_weights([numbers.standard_normal(own.shape).astype("f4") for own in written.get_weights()])
    written.save_pretrained(folder, safe_serialization=False)
    model = load_tf2_model_in_pytorch_model(getattr(transformers, name)(config), written, allow_missing_keys=True)
    base = {"BertModel": "bert.", "GPT2Model": "transformer."}.get(name, "")
    expected = {base + key: value for key, value in model.state_dict().items() if key not in tied}
    convert(folder / "tf_model.h5", folder / "model.safetensors", "--map", f"{'bert' if config is BERT else 'gpt2'}-h5-to-hf")
    assert_equal(load(folder / "model.safetensors"), expected)


@check()
def a_tie_gives_the_second_names_of_t5_too(folder):
    table = (ROOT / "data" / "mappings" / "t5-mesh-to-hf.toml").read_text()
    head = '[[rule]]\nfrom = "decoder/logits/kernel"\nto = "lm_head.weight"\nrole = "kernel"\n'
    names = ["shared.weight", *T5_EMBEDDINGS, "lm_head.weight"]
    assert head in table and 'to = "shared.weight"' in table
    table = table.replace(head, "").replace('to = "shared.weight"', f"to = {json.dumps(names)}\ntie = true")
    (folder / "tied.toml").write_text(table)
    there_and_back(folder, folder / "tied.toml", t5(False, {}))


@check(*REFERENCES)
def transformers_opens_the_file(folder, name):
    reference = REFERENCES[name]()
    prefix = published.write(folder / "model.ckpt", reference.names(reference.tensors))
    reference.config.save_pretrained(folder)
    convert(prefix, folder / "model.safetensors", "--from", "tf2", "--map", name.split()[0], "--set", "format=pt")
    _, said = (reference.opened_by or reference.model).from_pretrained(folder, output_loading_info=True)
    assert not any(said.values()), said


# Largest difference of two outputs, in parts of the largest output: sums of float32 in another order, through 53 layers.
# Found: 7e-7; with two parameters of one layer exchanged: 0.1.
RESNET_TOLERANCE = 1e-5


@check()
def resnet50_computes_in_torchvision_what_it_computes_in_keras(folder):
    keras.utils.set_random_seed(6)
    model = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classifier_activation=None)
    random = np.random.default_rng(7)
    for variable in model.variables:
        if not variable.path.endswith("kernel"):
            variable.assign(random.uniform(0.5, 1.5, variable.shape))
    prefix, out = tf.train.Checkpoint(model=model).save(str(folder / "keras")), folder / "model.safetensors"
    convert(prefix, out, "--from", "tf2", "--map", "resnet-keras-to-torchvision")
    found = load(out)
    assert len(found) == len(model.variables)
    x = random.normal(size=(2, 64, 64, 3)).astype(np.float32)
    y = model(x, training=False).numpy()
    with torch.no_grad():
        z = as_keras_computes(resnet50(found))(torch.from_numpy(x.transpose(0, 3, 1, 2).copy())).numpy()
    error = np.abs(z - y).max() / np.abs(y).max()
    assert error < RESNET_TOLERANCE, error

    back = folder / "back.ckpt"
    convert(out, back, "--to", "tf2", "--map", "resnet-keras-to-torchvision", "--inverse", "--set", "names=plain")
    assert_equal(published.read(back), {variable.path: variable.numpy() for variable in model.variables})


FLATTENED = """
target_separator = "."
ignore_roles = ["bookkeeping", "duplicate"]
[[rule]]
from = "net/{layer}/bias"
to = "{layer}.bias"
[[rule]]
from = "net/conv/kernel"
to = "conv.weight"
steps = ["permute 3 2 0 1"]
[[rule]]
from = "net/hidden/kernel"
to = "hidden.weight"
steps = ["STEP", "transpose"]
"""


@check("saved model", "checkpoint")
def a_flattened_image_computes_in_torch_what_it_computes_in_keras(folder, kind):
    keras.utils.set_random_seed(8)
    layers = keras.layers
    model = keras.Sequential([layers.Input((8, 6, 3)), layers.Conv2D(5, 3, activation="relu", padding="same", name="conv"),
                              layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(4, name="hidden")], name="net")
    source, out = folder / "keras", folder / "model.safetensors"
    if kind == "checkpoint":
        tf.train.Checkpoint(model=model).write(str(source))
    else:
        model.export(source, verbose=False)
    (folder / "without.toml").write_text(FLATTENED.replace('"STEP", ', ""))
    said = convert(source, out, "--from", "tf2", "--map", folder / "without.toml", fails=True)
    assert "convention" in said and "flatten_order 12 5" in said, said
    (folder / "with.toml").write_text(FLATTENED.replace("STEP", "flatten_order 4 3 5"))
    convert(source, out, "--from", "tf2", "--map", folder / "with.toml", "--verify")
    if kind == "saved model":
        done = ckpt("verify", source, out, "--a-from", "tf2")
        assert done.returncode == 0, f"without the mapping, the graphs show the order: {done.stdout}{done.stderr}"

    weights = {name: torch.from_numpy(value.copy()) for name, value in load(out).items()}
    x = np.random.default_rng(9).normal(size=(7, 8, 6, 3)).astype(np.float32)
    image = torch.from_numpy(x.transpose(0, 3, 1, 2).copy())
    image = torch.relu(torch.nn.functional.conv2d(image, weights["conv.weight"], weights["conv.bias"], padding=1))
    flat = torch.flatten(torch.max_pool2d(image, 2), 1)
    y = torch.nn.functional.linear(flat, weights["hidden.weight"], weights["hidden.bias"]).numpy()
    np.testing.assert_allclose(y, model(x).numpy(), rtol=1e-4, atol=1e-5)

    back = folder / "back.npz"
    safetensors.torch.save_file(weights, folder / "torch.safetensors")  # as PyTorch writes it, without a graph
    convert(folder / "torch.safetensors", back, "--map", folder / "with.toml", "--inverse")
    assert_equal(dict(np.load(back)), {v.path: v.numpy() for v in model.variables})


# A layer before the Flatten, its input, how PyTorch orders its kernel, and how it computes it; and what is behind the Flatten.
BEFORE_FLATTEN = {
    "conv1d": ((9, 3), lambda: keras.layers.Conv1D(4, 3, name="conv"), "permute 2 1 0", torch.nn.functional.conv1d, []),
    "conv3d": ((4, 5, 6, 2), lambda: keras.layers.Conv3D(3, 2, name="conv"), "permute 4 3 0 1 2", torch.nn.functional.conv3d, []),
    "depthwise": ((6, 5, 4), lambda: keras.layers.DepthwiseConv2D(3, name="conv"), "permute 2 3 0 1",
                  lambda x, weight, bias: torch.nn.functional.conv2d(x, weight, bias, groups=4), []),
    "square": ((6, 6, 2), lambda: keras.layers.Conv2D(4, 3, name="conv"), "permute 3 2 0 1", torch.nn.functional.conv2d, []),
    "norm": ((6, 6, 2), lambda: keras.layers.Conv2D(4, 3, name="conv"), "permute 3 2 0 1", torch.nn.functional.conv2d,
             ["gamma", "beta", "moving_mean", "moving_variance"]),
}


def rules(entries: dict) -> str:
    """A mapping of renamed tensors: the target's name, and the steps, by the source's."""
    rule = '[[rule]]\nfrom = "net/{}"\nto = "{}"\nsteps = {}\n'
    head = 'ignore_roles = ["bookkeeping", "duplicate"]\n'
    return head + "".join(rule.format(name, to, json.dumps(steps)) for name, (to, steps) in entries.items())


@check(*[f"{kind}, {source}" for kind in BEFORE_FLATTEN for source in ("checkpoint", "npz")])
def flattened_values_are_reordered_or_stop_the_conversion(folder, case):
    """Without the steps that the losses name, PyTorch computes something else, and the conversion stops; with them, the same."""
    kind, source = case.split(", ")
    shape, layer, order, compute, norm = BEFORE_FLATTEN[kind]
    keras.utils.set_random_seed(10)
    layers = [keras.layers.Input(shape), layer(), keras.layers.Flatten()]
    layers += [keras.layers.BatchNormalization(name="norm")] if norm else []
    units = 64 if kind == "square" else 7
    model = keras.Sequential([*layers, keras.layers.Dense(units, name="dense")], name="net")
    random = np.random.default_rng(11)
    for variable in model.variables:
        variable.assign(random.uniform(0.5, 1.5, variable.shape))
    if source == "npz":
        np.savez(folder / "keras.npz", **{variable.path: variable.numpy() for variable in model.variables})
    else:
        tf.train.Checkpoint(model=model).write(str(folder / "keras"))
    read = [folder / "keras.npz"] if source == "npz" else [folder / "keras", "--from", "tf2"]
    pixels = model.get_layer("conv").output.shape[1:-1]
    channels = model.get_layer("conv").output.shape[-1]
    flatten = f"flatten_order {np.prod(pixels)} {channels}"
    entries = {"conv/kernel": ("conv.weight", [order]), "conv/bias": ("conv.bias", []), "dense/bias": ("dense.bias", [])}
    plain = entries | {"dense/kernel": ("dense.weight", ["transpose"])} | {f"norm/{name}": (f"norm.{name}", []) for name in norm}
    (folder / "without.toml").write_text(rules(plain))
    said = convert(read[0], folder / "out.safetensors", *read[1:], "--map", folder / "without.toml", fails=True)
    expected = ["dense.weight", *[f"norm.{name}" for name in norm[:3]]]  # the message counts the rest
    assert all(f"convention '{name}'" in said for name in expected) and flatten in said, said

    # With the step for the dense layer alone, the vectors before it still stop the conversion.
    named = flatten + (" on 0" if kind == "square" else "")
    plain["dense/kernel"] = ("dense.weight", [named, "transpose"])
    if norm:
        (folder / "half.toml").write_text(rules(plain))
        said = convert(read[0], folder / "out.safetensors", *read[1:], "--map", folder / "half.toml", fails=True)
        assert all(f"convention 'norm.{name}'" in said for name in norm), said
    plain |= {f"norm/{name}": (f"norm.{name}", [flatten]) for name in norm}
    (folder / "with.toml").write_text(rules(plain))
    convert(read[0], folder / "out.safetensors", *read[1:], "--map", folder / "with.toml")

    weights = {name: torch.from_numpy(value.copy()) for name, value in load(folder / "out.safetensors").items()}
    x = random.normal(size=(3, *shape)).astype(np.float32)
    flat = compute(torch.from_numpy(np.moveaxis(x, -1, 1).copy()), weights["conv.weight"], weights["conv.bias"]).flatten(1)
    if norm:
        gamma, beta, mean, variance = (weights[f"norm.{name}"] for name in norm)
        flat = torch.nn.functional.batch_norm(flat, mean, variance, gamma, beta, eps=1e-3)
    y = torch.nn.functional.linear(flat, weights["dense.weight"], weights["dense.bias"]).numpy()
    np.testing.assert_allclose(y, model(x, training=False).numpy(), rtol=1e-4, atol=1e-4)

    # And back, from a file of PyTorch: without the inverse step, Keras would compute something else.
    safetensors.torch.save_file(weights, folder / "torch.safetensors")
    convert(folder / "torch.safetensors", folder / "back.npz", "--map", folder / "with.toml", "--inverse")
    assert_equal(dict(np.load(folder / "back.npz")), {v.path: v.numpy() for v in model.variables})
    said = convert(folder / "torch.safetensors", folder / "no.npz", "--map", folder / "without.toml", "--inverse", fails=True)
    assert f"'un{flatten}" in said, said


def resnet50(tensors: dict) -> torch.nn.Module:
    """torchvision's, which has no biases before its batch normalisations: they go into the means."""
    weights = {name: torch.from_numpy(value.copy()) for name, value in tensors.items()}
    biases = [name for name in weights if name.endswith(".bias") and weights[name[:-4] + "weight"].ndim == 4]
    assert len(biases) == 53, "Keras has one for each convolution"
    for name in biases:
        norm = name.replace("downsample.0", "downsample.1").replace("conv", "bn")
        weights[norm.removesuffix("bias") + "running_mean"] -= weights.pop(name)
    model = torchvision.models.resnet50().eval()
    model.load_state_dict(weights)  # num_batches_tracked may be absent
    return model


def as_keras_computes(model: torch.nn.Module) -> torch.nn.Module:
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eps = 1.001e-5
        if isinstance(module, torchvision.models.resnet.Bottleneck):
            module.conv1.stride, module.conv2.stride = module.conv2.stride, module.conv1.stride
    return model


if __name__ == "__main__":
    sys.exit(main(__doc__, tf, keras, torch, torchvision, transformers))
