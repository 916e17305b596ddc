#!/usr/bin/env python3
"""Gives Keras models their weights back from PyTorch: `--map keras-to-torch --inverse --arch MODEL`.

    python tests/interop/keras_back.py --ckpt target/debug/ckpt     (packages: requirements.txt)

Each model goes to PyTorch and comes back as `.keras`, `.h5` and `.weights.h5`. Keras loads it: it is the same model, with
its layers, names and settings for training, and computes the same. The last line counts the checks.
"""

import functools
import json
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import absl.logging
import keras
import numpy as np
import safetensors.torch
import torch
from harness import check, convert, main
from keras import layers as L

# Keras warns of each .h5 file that it writes.
absl.logging.set_verbosity(absl.logging.ERROR)
MAPPING = ["--map", "keras-to-torch"]
TARGETS = ["back.keras", "back.h5", "back.weights.h5"]


def chain(shape, *layers):
    return keras.Sequential([keras.Input(shape), *layers])


def gate():
    """The value comes first in the model, and its gate first in the graph."""
    x = keras.Input((6,))
    value = L.Dense(6, name="value")(x)
    return keras.Model(x, L.Multiply()([value, L.Dense(6, "sigmoid", name="gate")(L.ReLU()(x))]))


def gate_of_images():
    x = keras.Input((6, 6, 8))
    value = L.Conv2D(8, 1)(x)
    return keras.Model(x, L.Multiply()([value, L.Conv2D(8, 1, activation="sigmoid")(L.ReLU()(x))]))


def shortcut():
    x = keras.Input((6,))
    short = L.Dense(6, name="short")(x)
    return keras.Model(x, L.Add()([short, L.Dense(6, name="last")(L.Dense(6, "relu", name="first")(x))]))


def shared():
    layer, a, b = L.Dense(5, "tanh", name="shared"), keras.Input((5,), name="a"), keras.Input((5,), name="b")
    return keras.Model([a, b], L.Dense(2)(L.Subtract()([layer(a), layer(b)])))


def nested():
    """Layers of one name in three containers."""
    inner = keras.Sequential([keras.Input((6,)), L.Dense(6, "tanh", name="d")], name="inner")
    outer = keras.Sequential([keras.Input((6,)), inner, L.Dense(6, "relu", name="d")], name="outer")
    return chain((6,), outer, L.Dense(2, name="d"))


def attention():
    x = keras.Input((6, 8))
    return keras.Model(x, L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)])))


def training():
    """What acts only in training: noise, dropout, regularizers, constraints, a layer that is not trained, the optimizer."""
    model = chain((6, 6, 3), L.GaussianNoise(0.1),
                  L.Conv2D(4, 3, kernel_regularizer="l2", kernel_constraint=keras.constraints.MaxNorm(2.0)),
                  L.SpatialDropout2D(0.2), L.BatchNormalization(), L.Flatten(), L.Dropout(0.3),
                  L.Dense(2, trainable=False))
    model.compile(keras.optimizers.SGD(0.25, momentum=0.5), loss=keras.losses.Huber(2.0))
    return model


MODELS = {
    "gate": gate,
    "gate_of_images": gate_of_images,
    "shortcut": shortcut,
    "shared": shared,
    "nested": nested,
    "attention": attention,
    "training": training,
    "mixed": lambda: chain((6,), L.Dense(5, "relu", dtype="mixed_float16"), L.Dense(2, dtype="float32")),
    "bidirectional": lambda: chain((7, 4), L.Bidirectional(L.GRU(5, return_sequences=True)), L.Bidirectional(L.LSTM(3))),
    "stacked_cells": lambda: chain((7, 4), L.RNN([L.LSTMCell(5), L.LSTMCell(3)]), L.Dense(2)),
    "separable": lambda: chain((8, 8, 3), L.SeparableConv2D(5, 3, depth_multiplier=2), L.DepthwiseConv2D(3)),
    "einsum": lambda: chain((6, 8), L.EinsumDense("abc,cd->abd", output_shape=(None, 5), bias_axes="d")),
    "time_distributed": lambda: chain((3, 6), L.TimeDistributed(L.Dense(4)), L.GRU(3)),
}


def build(name, seed):
    keras.utils.clear_session()
    model, random = MODELS[name](), np.random.default_rng(seed)
    for variable in model.weights:
        if "seed_generator" not in variable.path:
            variable.assign(random.uniform(0.1, 1, variable.shape))
    return model


@functools.cache
def exported(name, end):
    """A model's file, what it has become in PyTorch, and what Keras makes of the file."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER.name))
    source, torch_file = folder / f"model{end}", folder / "model.pt"
    build(name, 1).save(source)
    convert(source, folder / "model.safetensors", *MAPPING, "--set", "code=model.py")
    torch.save(safetensors.torch.load_file(folder / "model.safetensors"), torch_file)
    return source, torch_file, keras.saving.load_model(source)


def settings(model):
    compiled = model.get_compile_config() if model.compiled else None
    return json.dumps([model.get_config(), compiled, [variable.path for variable in model.trainable_weights]], default=str)


def outputs(model):
    """The results for random inputs, which depend only on the number and the shapes of the inputs."""
    random = np.random.default_rng(2)
    given = [random.normal(size=(2, *value.shape[1:])).astype(np.float32) for value in model.inputs]
    return [np.asarray(value) for value in keras.tree.flatten(model(given if len(given) > 1 else given[0]))]


def comes_back(folder, name, end):
    source, torch_file, own = exported(name, end)
    expected = outputs(own)
    for target in TARGETS:
        back = folder / target
        convert(torch_file, back, *MAPPING, "--inverse", "--arch", source)
        if target.endswith(".weights.h5"):
            model = build(name, 2)
            model.load_weights(back)
        else:
            model = keras.saving.load_model(back)
            if pathlib.Path(target).suffix == end or not own.compiled:
                assert settings(model) == settings(own), target
            else:
                assert json.dumps(model.get_config()) == json.dumps(own.get_config()), target
        for one, other in zip(outputs(model), expected, strict=True):
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes(), target


@check(*MODELS)
def a_keras_file_gets_its_weights_back_in_every_container(folder, name):
    comes_back(folder, name, ".keras")


@check("gate", "shared", "nested", "attention", "training")
def an_h5_file_gets_its_weights_back_in_every_container(folder, name):
    comes_back(folder, name, ".h5")


@check()
def weights_whose_order_nothing_shows_are_refused(folder):
    model = build("gate", 1)
    model.export(folder / "saved", verbose=False)
    convert(folder / "saved", folder / "model.safetensors", *MAPPING)
    arguments = [*MAPPING, "--inverse", "--arch", folder / "saved"]
    said = convert(folder / "model.safetensors", folder / "back.weights.h5", *arguments, fails=True)
    assert "convention" in said and "layers/dense_1" in said and "--arch" in said, said
    convert(folder / "model.safetensors", folder / "back.keras", *arguments)
    found = outputs(keras.saving.load_model(folder / "back.keras"))
    assert found[0].tobytes() == outputs(model)[0].tobytes()


@check()
def what_acts_only_in_training_is_named_on_the_way_to_pytorch(folder):
    build("training", 1).save(folder / "model.keras")
    for more in [[], ["--set", "code=model.py"]]:
        said = convert(folder / "model.keras", folder / "model.safetensors", *MAPPING, "--force", *more)
        for layer in ["gaussian_noise (GaussianNoise)", "dropout (Dropout)", "kernel_regularizer", "dense (not trained)"]:
            assert layer in said, said


FOLDER = tempfile.TemporaryDirectory()

if __name__ == "__main__":
    sys.exit(main(__doc__, keras, torch, np))
