#!/usr/bin/env python3
"""Converts Keras models to PyTorch and back: `--map keras-to-torch`, with the generated modules.

    python tests/interop/keras_to_torch.py --ckpt target/debug/ckpt     (packages: requirements.txt)

For each model: Keras saves it as `.keras`, and some also as SavedModel; `ckpt` converts it and writes `model.py`, PyTorch
loads both strictly and computes what Keras computes; then `ckpt` converts the result back, and the tensors are those of
Keras, bit for bit. What comes back as `.keras` is loaded by `keras.saving.load_model`, and computes the same. The last
line counts the checks.
"""

import functools
import importlib.util
import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from harness import check, convert, main
from keras import layers as L

# The rule of `ckpt verify`, on the side of the reference: |x - reference| <= ATOL + RTOL * |reference|. Sums of at most
# a few hundred terms of about 1 differ by some 1e-6 where they are added in another order.
ATOL = RTOL = 1e-4


def chain(shape, *layers, **named):
    return keras.Sequential([keras.Input(shape, **named), *layers])


def graph(shape, make, dtype=None):
    x = keras.Input(shape, dtype=dtype)
    return keras.Model(x, make(x))


def inception(x):
    parts = [L.Conv2D(3, 1, activation="relu")(x), L.Conv2D(4, 3, padding="same")(x),
             L.Conv2D(2, 1)(L.MaxPooling2D(3, strides=1, padding="same")(x))]
    return L.Dense(3)(L.GlobalMaxPooling2D()(L.Concatenate()(parts)))


def residual(x):
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(4, 3, padding="same", use_bias=False)(x)))
    y = L.BatchNormalization()(L.Conv2D(4, 3, padding="same")(y))
    return L.Dense(3)(L.Flatten()(L.ReLU()(L.Add()([x, y]))))


def transformer(x):
    x = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)]))
    y = L.Dense(8)(L.Dense(16, "gelu")(x))
    return L.Dense(3)(L.GlobalAveragePooling1D()(L.LayerNormalization(epsilon=1e-6)(L.Add()([x, y]))))


def masked(x):
    return L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)


def two_inputs():
    a, b = keras.Input((4,), name="left"), keras.Input((3,), name="right")
    return keras.Model([a, b], L.Dense(2)(L.Concatenate()([L.Dense(3, "tanh")(a), b])))


def two_outputs():
    x = keras.Input((6,))
    y = L.Dense(5, "relu")(x)
    return keras.Model(x, [L.Dense(2, name="first")(y), L.Dense(3, "softmax", name="second")(y)])


def cross_attention():
    a, b = keras.Input((4, 8), name="query"), keras.Input((5, 8), name="value")
    return keras.Model([a, b], L.MultiHeadAttention(2, 4)(a, b))


def shared():
    dense = L.Dense(5, "tanh")
    return graph((5,), lambda x: dense(dense(x)))


def nested():
    inner = keras.Sequential([keras.Input((6,)), L.Dense(4, "relu"), L.Dense(3)], name="inner")
    return chain((6,), inner, L.Dense(2))


MODELS = {
    "dense": lambda: chain((6,), L.Dense(5, "relu"), L.Dense(3, "softmax")),
    "dense_without_bias": lambda: chain((6,), L.Dense(5, use_bias=False), L.Dense(3, use_bias=False)),
    "cnn": lambda: chain((12, 12, 1), L.Conv2D(4, 3, padding="same", use_bias=False), L.BatchNormalization(), L.ReLU(),
                         L.MaxPooling2D(), L.Conv2D(6, 3, activation="relu"), L.AveragePooling2D(2), L.Flatten(),
                         L.Dense(8, "relu"), L.Dropout(0.5), L.Dense(5, "softmax")),
    "same_padding_with_strides": lambda: chain((11, 10, 3), L.Conv2D(4, 3, strides=2, padding="same"),
                                               L.Conv2D(5, (3, 2), strides=2, padding="same", activation="elu"),
                                               L.GlobalAveragePooling2D(), L.Dense(2)),
    "images_of_any_size": lambda: chain((None, None, 3), L.Conv2D(4, 3, strides=2, padding="same"),
                                        L.Conv2D(4, 4, padding="same"), L.GlobalAveragePooling2D(), L.Dense(2)),
    "conv1d": lambda: chain((10, 3), L.Conv1D(4, 3, padding="same", activation="tanh"),
                            L.Conv1D(4, 3, padding="causal", dilation_rate=2), L.MaxPooling1D(2), L.Flatten(), L.Dense(2)),
    "conv3d": lambda: chain((6, 6, 6, 2), L.Conv3D(3, 3, padding="same"), L.MaxPooling3D(), L.Flatten(), L.Dense(2)),
    "groups_and_dilations": lambda: chain((6, 6, 4), L.Conv2D(6, 3, groups=2), L.Conv2D(3, 2, dilation_rate=2),
                                          L.Flatten(), L.Dense(2)),
    "depthwise_and_separable": lambda: chain((8, 8, 3), L.DepthwiseConv2D(3, depth_multiplier=2, padding="same"),
                                             L.ReLU(), L.SeparableConv2D(5, 3, depth_multiplier=2), L.Flatten(), L.Dense(2)),
    "depthwise_and_separable_1d": lambda: chain((9, 3), L.DepthwiseConv1D(3, padding="same"), L.SeparableConv1D(4, 3),
                                                L.GlobalAveragePooling1D()),
    "transposed": lambda: chain((5, 5, 3), L.Conv2DTranspose(4, 3, strides=2, padding="same", activation="relu"),
                                L.Conv2DTranspose(2, 3, strides=2), L.Conv2DTranspose(3, 4, strides=2, padding="same"),
                                L.Conv2DTranspose(2, 1, strides=2)),
    "transposed_1d": lambda: chain((5, 3), L.Conv1DTranspose(4, 3, strides=2, padding="same")),
    "transposed_3d": lambda: chain((4, 4, 4, 3), L.Conv3DTranspose(2, 2, strides=2)),
    "pooling": lambda: chain((7, 7, 3), L.Conv2D(4, 3, activation="relu"), L.MaxPooling2D(3, strides=2, padding="same"),
                             L.AveragePooling2D(2, padding="same"), L.Flatten(), L.Dense(2)),
    "layer_norm": lambda: chain((6,), L.Dense(8), L.LayerNormalization(), L.Activation("gelu"), L.Dense(3)),
    "group_norm": lambda: chain((6, 6, 4), L.Conv2D(8, 3), L.GroupNormalization(4), L.Activation("silu"), L.Flatten(),
                                L.Dense(3)),
    "rms_norm": lambda: chain((6,), L.Dense(8), L.RMSNormalization(), L.Dense(3)),
    "batch_norm": lambda: chain((6,), L.Dense(5), L.BatchNormalization(momentum=0.8, epsilon=1e-4), L.ReLU(), L.Dense(3)),
    "batch_norm_without_scale": lambda: chain((6, 6, 2), L.Conv2D(4, 3), L.BatchNormalization(scale=False),
                                              L.Conv2D(4, 3), L.BatchNormalization(center=False), L.Flatten()),
    "batch_norm_behind_flatten": lambda: chain((6, 6, 2), L.Conv2D(4, 3), L.Flatten(), L.BatchNormalization(), L.ReLU(),
                                               L.Dense(3)),
    "embedding": lambda: graph((7,), lambda x: L.Dense(2)(L.GlobalAveragePooling1D()(L.Embedding(20, 6)(x))), "int32"),
    "lstm": lambda: chain((7, 4), L.LSTM(5, return_sequences=True), L.LSTM(6), L.Dense(2)),
    "lstm_without_bias": lambda: chain((7, 4), L.LSTM(5, use_bias=False), L.Dense(2)),
    "gru": lambda: chain((7, 4), L.GRU(5, return_sequences=True), L.GRU(6), L.Dense(2)),
    "simple_rnn": lambda: chain((7, 4), L.SimpleRNN(5, return_sequences=True), L.SimpleRNN(6), L.Dense(2)),
    "backwards": lambda: chain((7, 4), L.LSTM(5, go_backwards=True), L.Dense(2)),
    "bidirectional_lstm": lambda: chain((7, 4), L.Bidirectional(L.LSTM(5, return_sequences=True)),
                                        L.Bidirectional(L.LSTM(3)), L.Dense(2)),
    "bidirectional_gru": lambda: chain((7, 4), L.Bidirectional(L.GRU(5, return_sequences=True)),
                                       L.Bidirectional(L.GRU(3)), L.Dense(2)),
    "bidirectional_sum": lambda: chain((7, 4), L.Bidirectional(L.LSTM(5), merge_mode="sum"), L.Dense(2)),
    "time_distributed": lambda: chain((5, 6), L.TimeDistributed(L.Dense(4, "relu")), L.LSTM(3), L.Dense(2)),
    "attention": lambda: graph((6, 8), lambda x: L.Dense(3)(L.MultiHeadAttention(2, 4)(x, x))),
    "attention_without_bias": lambda: graph((6, 8), lambda x: L.MultiHeadAttention(2, 4, use_bias=False)(x, x)),
    "attention_of_other_widths": lambda: graph((6, 8), lambda x: L.MultiHeadAttention(3, 5, value_dim=6)(x, x)),
    "attention_with_a_mask": lambda: graph((6, 8), masked),
    "cross_attention": cross_attention,
    "transformer": lambda: graph((6, 8), transformer),
    "einsum_dense": lambda: graph((6, 8), lambda x: L.EinsumDense(
        "abc,cd->abd", output_shape=(None, 5), bias_axes="d", activation="relu")(x)),
    "einsum_dense_to_heads": lambda: graph((6, 8), lambda x: L.Flatten()(L.EinsumDense(
        "abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")(x))),
    "residual": lambda: graph((8, 8, 4), residual),
    "inception": lambda: graph((8, 8, 3), inception),
    "up_sampling": lambda: chain((4, 4, 3), L.UpSampling2D(2), L.Conv2D(2, 3, padding="same"),
                                 L.UpSampling2D(2, interpolation="bilinear")),
    "padding_and_cropping": lambda: chain((6, 6, 3), L.ZeroPadding2D(((1, 0), (2, 1))), L.Conv2D(2, 3), L.Cropping2D(1),
                                          L.Flatten(), L.Dense(2)),
    "reshape": lambda: chain((6,), L.Dense(12), L.Reshape((2, 2, 3)), L.Conv2D(4, 2, padding="same"), L.Flatten(), L.Dense(2)),
    "permute": lambda: chain((4, 5), L.Permute((2, 1)), L.Dense(3), L.Flatten(), L.Dense(2)),
    "flatten_of_branches": lambda: graph((5, 5, 2), lambda x: L.Dense(2)(L.Concatenate()(
        [L.Flatten()(L.Conv2D(3, 3)(x)), L.Flatten()(L.Conv2D(4, 2)(x))]))),
    "activations": lambda: chain((6,), L.Dense(5, "sigmoid"), L.Dense(5), L.LeakyReLU(), L.Dense(5), L.PReLU(),
                                 L.Dense(5, "softplus"), L.Dense(4, "selu"), L.Dense(4, "hard_sigmoid"),
                                 L.Dense(4, "softsign"), L.Dense(4, "relu6"), L.Dense(4, "mish"), L.Dense(4, "leaky_relu"),
                                 L.Dense(4, "hard_silu"), L.Dense(4, "log_softmax")),
    "normalization": lambda: chain((4,), L.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[1.0, 2.0, 3.0, 4.0]),
                                   L.Dense(2), L.Rescaling(0.5, 1.0)),
    "shared": shared,
    "nested": nested,
    "two_inputs": two_inputs,
    "two_outputs": two_outputs,
}


def build(name):
    """The model with other weights than its initializers give: they would hide what is left out or in another order."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    model = MODELS[name]()
    random = np.random.default_rng(7)
    for variable in model.weights:
        if variable.dtype == "float32":
            least = 0.3 if variable.path.endswith(("variance", "gamma", "scale")) else -0.6
            variable.assign(random.uniform(least, 0.9, variable.shape).astype(np.float32))
    return model


def batches(model):
    random = np.random.default_rng(5)
    for value in model.inputs:
        shape = (3, *[13 if length is None else length for length in value.shape[1:]])
        if "int" in value.dtype:
            yield random.integers(0, 20, shape).astype(np.int32)
        else:
            yield random.normal(size=shape).astype(np.float32)


def module(path):
    """The class that a generated file has."""
    spec = importlib.util.spec_from_file_location("generated", path)
    generated = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generated)
    [found] = [value for value in vars(generated).values()
               if isinstance(value, type) and value.__module__ == "generated"]
    return found()


def assert_close(found, expected, what):
    assert found.shape == expected.shape, f"{what}: {found.shape} instead of {expected.shape}"
    excess = np.abs(found - expected) - (ATOL + RTOL * np.abs(expected))
    assert excess.max() <= 0, f"{what}: {np.abs(found - expected).max()} apart"


def listed(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


def export(model, folder):
    model.export(str(folder / "keras"), verbose=False)
    return folder / "keras"


EXPORTS = tempfile.TemporaryDirectory()


@functools.cache
def exported(name):
    """A model, and its SavedModel, which several checks share."""
    model = build(name)
    folder = pathlib.Path(EXPORTS.name) / name
    folder.mkdir()
    return model, export(model, folder)


@functools.cache
def saved(name):
    """A model, and its `.keras` file, which is made in a hundredth of the time of a SavedModel."""
    model = build(name)
    path = pathlib.Path(EXPORTS.name) / f"{name}.keras"
    model.save(path)
    return model, path


# Models that are exported as SavedModels, too: one of each kind of layers.
EXPORTED = ["cnn", "same_padding_with_strides", "images_of_any_size", "depthwise_and_separable", "transposed", "layer_norm",
            "group_norm", "embedding", "lstm", "gru", "bidirectional_lstm", "attention", "attention_of_other_widths",
            "transformer", "einsum_dense_to_heads", "activations", "shared", "two_inputs"]


def converted(folder, source, *arguments):
    """The PyTorch module that is made of a Keras model, with its weights."""
    out = folder / "model.safetensors"
    convert(source, out, "--map", "keras-to-torch", "--set", "code=model.py", *arguments)
    made = module(folder / "model.py")
    made.load_state_dict(safetensors.torch.load_file(out), strict=True)
    return made.eval(), out


def assert_computes(made, model):
    inputs = list(batches(model))
    expected = [np.asarray(value) for value in listed(model(inputs if len(inputs) > 1 else inputs[0], training=False))]
    with torch.no_grad():
        found = [value.numpy() for value in listed(made(*[torch.from_numpy(value) for value in inputs]))]
    assert len(found) == len(expected)
    for number, (own, keras_own) in enumerate(zip(found, expected)):
        assert_close(own, keras_own, f"output {number}")


def tensors_of(source, folder):
    """The tensors of a Keras model under their own names."""
    out = folder / "own.safetensors"
    convert(source, out)
    return safetensors.numpy.load_file(out)


def assert_same_bits(found, expected):
    assert found.keys() == expected.keys(), sorted(found.keys() ^ expected.keys())
    for name, value in expected.items():
        assert found[name].shape == value.shape and found[name].tobytes() == value.tobytes(), name


def check_both_ways(folder, model, source):
    """Converts to PyTorch and back, and returns the file with PyTorch's tensors."""
    made, out = converted(folder, source)
    assert_computes(made, model)
    back = folder / "back.safetensors"
    # As PyTorch saves it: with the counters of batch normalizations.
    safetensors.torch.save_file(made.state_dict(), out)
    convert(out, back, "--map", "keras-to-torch", "--inverse", "--arch", source)
    found = safetensors.numpy.load_file(back)
    expected = tensors_of(source, folder)
    assert found, "nothing came back"
    assert_same_bits(found, {name: value for name, value in expected.items() if name in found})
    left = [name for name in expected if name not in found and "seed_generator" not in name]
    assert not left, left
    return out


@check(*EXPORTED)
def a_saved_model_computes_the_same_in_pytorch_and_its_weights_come_back(folder, name):
    check_both_ways(folder, *exported(name))


@check(*MODELS)
def pytorch_computes_what_keras_computes_and_the_weights_come_back(folder, name):
    model, source = saved(name)
    out = check_both_ways(folder, model, source)
    back = folder / "back.keras"
    convert(out, back, "--map", "keras-to-torch", "--inverse", "--arch", source)
    assert_loads(back, model)


def assert_loads(path, model):
    """Keras opens the file as the same model."""
    loaded = keras.saving.load_model(path, compile=False)
    assert [layer.name for layer in loaded.layers] == [layer.name for layer in model.layers]
    inputs = list(batches(model))
    given = inputs if len(inputs) > 1 else inputs[0]
    expected, found = (listed(own(given, training=False)) for own in (model, loaded))
    assert len(found) == len(expected)
    for number, (own, keras_own) in enumerate(zip(found, expected)):
        assert_close(np.asarray(own), np.asarray(keras_own), f"output {number}")


@check("cnn", "lstm", "bidirectional_gru", "attention", "nested", "shared", "two_outputs", "depthwise_and_separable")
def weights_alone_go_into_the_model_that_they_are_of(folder, name):
    model, source = saved(name)
    out, back = folder / "model.safetensors", folder / "back.weights.h5"
    convert(source, out, "--map", "keras-to-torch", "--allow", "convention")
    convert(out, back, "--map", "keras-to-torch", "--inverse", "--arch", source)
    fresh = build(name)
    for variable in fresh.weights:
        variable.assign(np.zeros_like(variable))
    fresh.load_weights(back)
    for own, expected in zip(fresh.weights, model.weights):
        assert np.asarray(own).tobytes() == np.asarray(expected).tobytes(), expected.path


@check()
def a_kernel_that_was_transposed_is_stored_as_keras_has_it(folder):
    keras.utils.clear_session()
    model = chain((6,), L.Dense(6, "relu"), L.Dense(6))
    source, out = folder / "square.keras", folder / "out.keras"
    model.save(source)
    convert(source, out, "--transform", "layers/dense/vars/0: transpose")
    assert_loads(out, model)


@check()
def a_model_whose_tensors_no_longer_fit_its_configuration_is_refused(folder):
    _, source = saved("dense")
    said = convert(source, folder / "out.keras", "--transform", "layers/dense/vars/0: unsqueeze 0", fails=True)
    assert "layers/dense/vars/0" in said, said
    said = convert(source, folder / "out.keras", "--transform", "layers/dense_1/vars/0: parts 1 0 2 4 3 on 0", fails=True)
    assert "layers/dense_1/vars/0" in said, said


ALTERED = {"int8": lambda model: model.quantize("int8"), "int4": lambda model: model.quantize("int4"),
           "lora": lambda model: [layer.enable_lora(2) for layer in model.layers if hasattr(layer, "enable_lora")]}


@check("int8 dense", "int4 dense", "lora dense", "int8 attention_without_bias", "int4 attention_without_bias")
def layers_that_are_quantized_or_have_lora_are_right_or_named(folder, case):
    change, name = case.split()
    model = build(name)
    ALTERED[change](model)
    for variable in model.variables:
        if "lora" in variable.path:
            variable.assign(np.random.default_rng(3).normal(size=variable.shape))
    source, out, legacy = folder / "m.keras", folder / "m.safetensors", folder / "m.h5"
    model.save(source)
    model.save(legacy)
    if change == "lora":
        # Keras stores what the matrices add up to.
        made, _ = converted(folder, source)
        assert_computes(made, model)
    else:
        said = convert(source, out, "--map", "keras-to-torch", fails=True)
        assert "quantized" in said, said
        convert(source, folder / "same.keras")
        assert (folder / "same.keras").read_bytes() == source.read_bytes()
    # The lists of weights in `.h5` files have another order, and the matrices of LoRA.
    convert(legacy, folder / "legacy.safetensors", "--map", "keras-to-torch", fails=True)
    convert(legacy, folder / "legacy.keras", fails=True)
    convert(source, folder / "legacy.h5", fails=True)


@check("cnn", "conv1d", "same_padding_with_strides", "lstm", "dense", "batch_norm_without_scale")
def modules_can_have_the_numbers_of_sequential(folder, name):
    model, source = saved(name)
    made, _ = converted(folder, source, "--set", "torch-names=sequential")
    assert isinstance(made, torch.nn.Sequential)
    assert all(key.split(".")[0].isdigit() for key in made.state_dict())
    assert_computes(made, model)


@check()
def a_plain_sequence_needs_no_forward_of_its_own(folder):
    made, _ = converted(folder, saved("dense")[1], "--set", "torch-names=sequential")
    assert "def forward" not in (folder / "model.py").read_text()
    assert [type(layer).__name__ for layer in made] == ["Linear", "ReLU", "Linear", "Softmax"]


@check()
def a_pt_file_is_loaded_as_a_safetensors_file_is(folder):
    model, source = saved("cnn")
    out = folder / "cnn.pt"
    convert(source, out, "--map", "keras-to-torch", "--set", "code=model.py")
    made = module(folder / "model.py")
    made.load_state_dict(torch.load(out, weights_only=True), strict=True)
    assert_computes(made.eval(), model)


@check("lstm", "simple_rnn", "bidirectional_lstm", "gru", "bidirectional_gru")
def weights_that_pytorch_trained_compute_the_same_in_keras(folder, name):
    _, source = exported(name)
    model = build(name)
    made, out = converted(folder, source)
    random = np.random.default_rng(3)
    with torch.no_grad():
        for value in made.parameters():
            value.copy_(torch.from_numpy(random.uniform(-0.5, 0.5, value.shape).astype(np.float32)))
    safetensors.torch.save_file(made.state_dict(), out)
    back = folder / "back.safetensors"
    convert(out, back, "--map", "keras-to-torch", "--inverse", "--arch", source)
    found = safetensors.numpy.load_file(back)
    for variable in model.weights:
        if "seed_generator" not in variable.path:
            variable.assign(found[variable.path])
    assert_computes(made, model)


@check()
def the_momentum_and_the_epsilon_of_a_batch_normalization_are_stated(folder):
    _, source = saved("cnn")
    said = convert(source, folder / "a.safetensors", "--map", "keras-to-torch")
    assert "eps=0.001" in said and "momentum=0.01" in said, said
    converted(folder, source)
    assert "eps=0.001, momentum=0.01" in (folder / "model.py").read_text()


@check()
def a_gru_that_pytorch_does_not_have_is_refused(folder):
    keras.utils.clear_session()
    source = export(chain((7, 4), L.GRU(5, reset_after=False, name="old"), L.Dense(2)), folder)
    out = folder / "model.safetensors"
    said = convert(source, out, "--map", "keras-to-torch", fails=True)
    assert "old" in said and "reset_after=False" in said and "convention" in said, said
    said = convert(source, out, "--map", "keras-to-torch", "--set", "code=model.py", fails=True)
    assert "old" in said and "reset_after=False" in said, said
    assert not (folder / "model.py").exists()


@check()
def padding_that_no_module_states_is_a_loss_without_the_code(folder):
    _, source = saved("same_padding_with_strides")
    said = convert(source, folder / "a.safetensors", "--map", "keras-to-torch", fails=True)
    assert "convention" in said and "conv2d" in said and "padding" in said, said
    convert(source, folder / "a.safetensors", "--map", "keras-to-torch", "--allow", "convention")


@check()
def an_operator_without_a_form_is_named_before_any_output(folder):
    keras.utils.clear_session()
    source = export(graph((6,), lambda x: L.Dense(2)(keras.ops.top_k(L.Dense(4)(x), 2)[0])), folder)
    out = folder / "model.safetensors"
    said = convert(source, out, "--map", "keras-to-torch", "--set", "code=model.py", fails=True)
    assert "TopK" in said, said
    assert not (folder / "model.py").exists()
    convert(source, out, "--map", "keras-to-torch")


@check()
def names_of_layers_are_no_code(folder):
    keras.utils.clear_session()
    names = ["forward", "class", "1st", "a.b", "a>b", "None", "self"]
    model = chain((6,), *[L.Dense(6, name=name) for name in names])
    made, _ = converted(folder, export(model, folder))
    assert len(list(made.children())) == len(names)
    assert_computes(made, model)


@check()
def a_resnet_has_the_names_of_torchvision(folder):
    keras.utils.clear_session()
    model = keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
    out = folder / "model.safetensors"
    source = export(model, folder)
    said = convert(source, out, "--map", "keras-to-torch,names=torchvision", fails=True)
    assert "stride" in said and "convention" in said, said
    convert(source, out, "--map", "keras-to-torch,names=torchvision", "--allow", "convention")
    found = safetensors.numpy.load_file(out)
    assert found["layer4.2.conv3.weight"].shape == (2048, 512, 1, 1) and found["fc.weight"].shape == (10, 2048)
    assert len(found) == len(model.weights)


@check()
def the_same_model_gives_the_same_bytes(folder):
    _, source = saved("transformer")
    texts = []
    for run in ["a", "b"]:
        (folder / run).mkdir()
        convert(source, folder / run / "m.safetensors", "--map", "keras-to-torch", "--set", "code=model.py")
        texts.append([(folder / run / name).read_bytes() for name in ["m.safetensors", "model.py"]])
    assert texts[0] == texts[1]


if __name__ == "__main__":
    sys.exit(main(__doc__, keras, torch, np))
