"""`ckpt run` computes what Keras computes, and what numpy makes of the other formats' files; `ckpt verify` finds conversions
to compute the same, and notices a single weight that is another."""

import json
import pathlib
import struct

import bullet_file
import checkpoints as make
import cnn2_file
import harness
import keras
import nn_file
import numpy as np
from harness import check, convert

layers = keras.layers
EXPECTED_OPS = {
    "Gemm", "Conv", "BatchNormalization", "MaxPool", "AveragePool", "GlobalAveragePool", "Flatten", "Transpose", "Relu",
    "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Elu", "Gelu", "Softplus", "LeakyRelu", "Clip",
}


def run(path, *arguments, code=0) -> dict | str:
    """What `ckpt run` says: a report, or an error's text where `code` is not 0."""
    done = harness.ckpt("run", path, *arguments, "--format", "json")
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout) if code == 0 else done.stderr + done.stdout


def computed(folder, path, inputs: dict[str, np.ndarray], *arguments) -> np.ndarray:
    """What the graph makes of the inputs, in binary32."""
    given = []
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(value))
        given += ["--input", f"{name}={folder / f'{name}.npy'}"]
    run(path, *given, *arguments, "--output", folder / "computed.npy")
    return np.load(folder / "computed.npy")


def assert_close(found, expected, bound=1e-5) -> None:
    """Relative L2 and, in units of the largest number, every element."""
    expected = np.asarray(expected, np.float64)
    assert found.shape == expected.shape, f"{found.shape} instead of {expected.shape}"
    assert np.abs(expected).max() > 1e-3, "nothing that could differ"
    difference = np.abs(found - expected)
    relative = np.linalg.norm(difference) / np.linalg.norm(expected)
    worst = difference.max() / np.abs(expected).max()
    print(f"    relative L2 {relative:.1e}, largest {worst:.1e}", end="")
    assert relative <= bound and worst <= bound, f"relative L2 {relative}, largest {worst}, bound {bound}"


def verify(a, b, *arguments, code=0) -> str:
    done = harness.ckpt("verify", a, b, *arguments)
    assert done.returncode == code, f"exit {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    return done.stdout


def alter(path: pathlib.Path, out: pathlib.Path, tensor: str | None = None) -> None:
    """A copy of a safetensors file in which the largest number of a tensor, of the first matrix unless named, is 1 % larger."""
    data = bytearray(path.read_bytes())
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__")
    entry = header[tensor or min(name for name, entry in header.items() if len(entry["shape"]) > 1 and name[0] != "_")]
    start, end = (8 + size + at for at in entry["data_offsets"])
    values = np.frombuffer(data[start:end], {"F32": "<f4", "F16": "<f2"}[entry["dtype"]]).copy()
    values[np.argmax(np.abs(values))] *= values.dtype.type(1.01)
    data[start:end] = values.tobytes()
    out.write_bytes(data)


# Keras.


def dense(activation):
    return (7,), lambda: [layers.Dense(5, activation, bias_initializer="normal"), layers.Dense(3, activation)]


def image(*made):
    return (9, 11, 3), lambda: [make_layer() for make_layer in made]


def conv(*arguments, **options):
    return lambda: layers.Conv2D(*arguments, bias_initializer="normal", **options)


# Name → the shape of the input, the layers. Every operator that the reader of SavedModels knows is in one of them.
MODELS = {f"dense {activation}": dense(activation) for activation in (
    "linear", "relu", "sigmoid", "tanh", "softmax", "log_softmax", "elu", "gelu", "softplus", "leaky_relu", "relu6")}
MODELS |= {
    "gelu, approximately": ((7,), lambda: [layers.Dense(5), layers.Activation(lambda x: keras.activations.gelu(x, True))]),
    "no bias": ((7,), lambda: [layers.Dense(5, use_bias=False), layers.ReLU(), layers.Dense(3, use_bias=False)]),
    "dropout": ((7,), lambda: [layers.Dense(5, "relu"), layers.Dropout(0.5), layers.Dense(3)]),
    "normalised features": ((7,), lambda: [layers.Dense(5), layers.BatchNormalization(epsilon=0.01), layers.Dense(3)]),
    "conv valid": image(conv(4, (3, 2))),
    "conv same": image(conv(4, (3, 5), padding="same")),
    "conv 1x1": image(conv(4, 1, activation="relu")),
    "conv strides valid": image(conv(4, (3, 2), strides=(2, 1))),
    "conv strides same": image(conv(4, 3, strides=2, padding="same"), conv(3, 4, strides=(3, 2), padding="same")),
    "conv groups": image(conv(4, 3), conv(6, 3, groups=2)),
    "conv of any size": ((None, None, 3), lambda: [conv(4, 3, strides=2, padding="same")(), layers.MaxPooling2D(2, padding="same")]),
    "softmax over channels": image(conv(4, 3, activation="softmax")),
    "log_softmax over channels": image(conv(4, 3, activation="log_softmax")),
    "normalised images": image(conv(4, 3), layers.BatchNormalization, layers.ReLU, conv(3, 1)),
    "max pool valid": image(conv(4, 2), lambda: layers.MaxPooling2D((3, 2), (2, 1))),
    "max pool same": image(conv(4, 2), lambda: layers.MaxPooling2D(3, 2, "same")),
    "average pool valid": image(conv(4, 2), lambda: layers.AveragePooling2D((3, 2), (2, 1))),
    "average pool same": image(conv(4, 2), lambda: layers.AveragePooling2D(3, 2, "same")),
    "global average": image(conv(4, 2), layers.GlobalAveragePooling2D, lambda: layers.Dense(3)),
    "global average kept": image(conv(4, 2), lambda: layers.GlobalAveragePooling2D(keepdims=True), conv(3, 1)),
    "flatten after conv": image(conv(4, 2), layers.Flatten, lambda: layers.Dense(3, "softmax")),
    "reshape that flattens": image(conv(4, 2), lambda: layers.Reshape((8 * 10 * 4,)), lambda: layers.Dense(3)),
    "flatten of the input": image(layers.Flatten, lambda: layers.Dense(3)),
    "a whole network": image(
        conv(4, 3, activation="relu"), layers.BatchNormalization, layers.MaxPooling2D, conv(6, 3, padding="same"),
        layers.LeakyReLU, lambda: layers.AveragePooling2D(2), layers.Flatten, lambda: layers.Dense(5, "tanh"),
        lambda: layers.Dense(4, "softmax")),
}


def built(shape, made, seed=1) -> keras.Model:
    """The model with numbers that leave no weight without an effect, variances and means included."""
    keras.utils.set_random_seed(seed)
    return with_weights(keras.Sequential([keras.Input(shape), *made()]))


def with_weights(model: keras.Model) -> keras.Model:
    for index, variable in enumerate(model.variables):
        if "float" not in variable.dtype:
            continue
        value = make.values(variable.shape, 100 + index)
        fan_in = max(1, int(np.prod(variable.shape[:-1])))
        variable.assign(np.abs(value) + 0.5 if "variance" in variable.path else value / np.sqrt(fan_in))
    return model


def batch(model, count=3) -> np.ndarray:
    """Examples; sides of any length are 9 by 10."""
    sides = iter((9, 10))
    return make.values((count, *(next(sides) if size is None else size for size in model.input_shape[1:])), 21)


def ops(path) -> set[str]:
    done = harness.ckpt("inspect", path, "--graph", "--format", "json")
    assert done.returncode == 0, done.stderr
    return {node["op"] for node in json.loads(done.stdout)["nodes"]}


OPS = {}


@check(*MODELS)
def a_saved_model_runs_as_in_keras_and_a_changed_weight_is_noticed(folder, name):
    model = built(*MODELS[name])
    x = batch(model)
    source, out = make.export(model, folder / "model"), folder / "out.safetensors"
    expected = model(x, training=False).numpy()
    assert_close(computed(folder, source, {"input": x}), expected)
    OPS[name] = ops(source)
    convert(source, out, "--to", "safetensors")
    assert "rule     bits" in verify(source, out)
    alter(out, folder / "altered.safetensors")
    verify(source, folder / "altered.safetensors", code=4)
    convert(source, folder / "out.onnx")
    assert "rule     bits" in verify(source, folder / "out.onnx")


@check()
def the_table_of_models_has_every_operator_that_is_described(folder):
    for name in MODELS.keys() - OPS.keys():
        OPS[name] = ops(make.export(built(*MODELS[name]), folder / name))
    found = set.union(*OPS.values())
    assert found == EXPECTED_OPS, found ^ EXPECTED_OPS


def functional(join, width=7):
    """Two branches, joined."""
    def made():
        inputs = keras.Input((7,))
        return keras.Model(inputs, layers.Dense(2)(join([layers.Dense(width)(inputs), inputs])))
    return made


def sequential(shape, *made):
    return lambda: keras.Sequential([keras.Input(shape), *(layer() for layer in made)])


def attention(x):
    """An encoder's block."""
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    return layers.LayerNormalization()(x + layers.Dense(8)(layers.Dense(16, "gelu")(x)))


def decoded(tokens, memory):
    """A decoder's block, with a causal mask."""
    x = layers.Embedding(10, 8)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True))
    return layers.Dense(10)(layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, memory)))


def residual(x):
    """A block of a residual network, with another of squeeze and excitation."""
    y = layers.BatchNormalization()(layers.Conv2D(4, 3, 2, "same", use_bias=False)(x))
    y = layers.DepthwiseConv2D(3, padding="same")(layers.Activation("silu")(y))
    gate = layers.Dense(4, "sigmoid")(layers.GlobalAveragePooling2D()(y))
    y = layers.Multiply()([y, layers.Reshape((1, 1, 4))(gate)])
    return layers.GlobalMaxPooling2D()(layers.Add()([y, layers.Conv2D(4, 1, 2)(x)]))


def shared(a, b):
    dense = layers.Dense(4, "tanh")
    return layers.Dense(2)(dense(a) - dense(b))


def nested(x):
    inner = keras.Sequential([keras.Input((7,)), layers.Dense(7, "relu"), layers.Dense(7)])
    between = keras.Input((7,))
    outer = keras.Model(between, layers.Add()([inner(between), between]))
    return layers.Dense(2)(outer(outer(x)))


def of_inputs(compute, *shapes, tokens=()):
    """A functional model; the inputs whose numbers `tokens` lists take integers."""
    def made():
        inputs = [keras.Input(shape, name=f"in{at}", dtype="int32" if at in tokens else "float32")
                  for at, shape in enumerate(shapes)]
        return keras.Model(inputs[0] if len(inputs) == 1 else inputs, compute(*inputs))
    return made


def several(*made):
    """One layer after the other."""
    return lambda x: [x := make_layer(x) for make_layer in made][-1]


# Models that are no chains: layers join, branch, or are computed by several operations.
IMAGE, SEQUENCE = (9, 11, 3), (6, 8)
GRAPHS = {
    "Add": functional(layers.Add()),
    "Multiply": functional(layers.Multiply()),
    "Concatenate": functional(layers.Concatenate(), 4),
    "Embedding": sequential((4,), lambda: layers.Embedding(10, 3), layers.Flatten, lambda: layers.Dense(2)),
    "LayerNormalization": sequential((7,), lambda: layers.Dense(4), layers.LayerNormalization),
    "BatchNormalization without scale": sequential((7,), lambda: layers.Dense(4), lambda: layers.BatchNormalization(scale=False)),
    "SeparableConv2D": sequential(IMAGE, lambda: layers.SeparableConv2D(4, 3)),
    "Conv2DTranspose": sequential(IMAGE, lambda: layers.Conv2DTranspose(4, 3, 2, "same")),
    "GlobalMaxPooling2D": sequential(IMAGE, conv(4, 3), layers.GlobalMaxPooling2D),
    "Softmax over rows": sequential(IMAGE, conv(4, 3), lambda: layers.Softmax(axis=1)),
    "Reshape to an image": sequential((6,), lambda: layers.Dense(12), lambda: layers.Reshape((2, 2, 3)), conv(4, 1)),
    "padding, cropping, upsampling": sequential(
        IMAGE, layers.ZeroPadding2D, conv(4, 3), lambda: layers.Cropping2D(1), lambda: layers.UpSampling2D(2),
        lambda: layers.UpSampling2D(2, interpolation="bilinear")),
    "activations": sequential((7,), *(lambda name=name: layers.Dense(5, name) for name in (
        "silu", "selu", "hard_sigmoid", "hard_silu", "mish", "softsign", "celu", "exponential")), layers.PReLU),
    "residual block": of_inputs(residual, IMAGE),
    "dilated": sequential((17, 18, 3), lambda: layers.Conv2D(4, 3, dilation_rate=2, padding="same")),
    "causal Conv1D": sequential(
        (12, 3), lambda: layers.Conv1D(4, 3, padding="causal", dilation_rate=2), lambda: layers.Conv1D(5, 3, strides=2),
        layers.GlobalAveragePooling1D),
    "Conv3D": sequential((6, 7, 8, 2), lambda: layers.Conv3D(4, 3, activation="relu"), layers.MaxPooling3D),
    "group and root-mean-square normalization": sequential(
        (9, 11, 8), conv(8, 3), lambda: layers.GroupNormalization(4), layers.RMSNormalization),
    "Normalization and Rescaling": sequential(
        IMAGE, lambda: layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 2.0, 1.0]), lambda: layers.Rescaling(0.5, -1.0), conv(2, 3)),
    "Dense on sequences": sequential(SEQUENCE, lambda: layers.Dense(5, "relu"), lambda: layers.EinsumDense("abc,cde->abde", (None, 2, 5)),
        lambda: layers.EinsumDense("...x,xy->...y", 4)),
    "encoder": of_inputs(several(layers.Embedding(10, 8), attention, attention), (6,), tokens=[0]),
    "encoder of any length": of_inputs(several(layers.Embedding(10, 8), attention), (None,), tokens=[0]),
    "decoder": of_inputs(decoded, (6,), (5, 8), tokens=[0]),
    "shared layer": of_inputs(shared, (7,), (7,)),
    "models within models": of_inputs(nested, (7,)),
    "LSTM": sequential(SEQUENCE, lambda: layers.LSTM(5, return_sequences=True), lambda: layers.LSTM(4)),
    "GRU": sequential(SEQUENCE, lambda: layers.GRU(5, return_sequences=True), lambda: layers.GRU(4, reset_after=False)),
    "Bidirectional": sequential(SEQUENCE, lambda: layers.Bidirectional(layers.LSTM(5)), lambda: layers.Dense(2)),
    "SimpleRNN": sequential(SEQUENCE, lambda: layers.SimpleRNN(5)),
    "a sort": sequential((7,), lambda: layers.Dense(4), lambda: layers.Lambda(keras.ops.sort)),
    "a mask over time": sequential(SEQUENCE, lambda: layers.Masking(0.0), lambda: layers.GRU(5), lambda: layers.Dense(2)),
    "stacked cells": sequential(SEQUENCE, lambda: layers.RNN([layers.LSTMCell(5), layers.GRUCell(4)])),
    "other activations of a cell": sequential(
        SEQUENCE, lambda: layers.LSTM(5, activation="relu", recurrent_activation="hard_sigmoid"),
        lambda: layers.Dense(2)),
    "channels first": sequential(
        (3, 9, 11), *(lambda kind=kind, options=options: kind(*options, data_format="channels_first") for kind, options in (
            (layers.Conv2D, (4, 3)), (layers.MaxPooling2D, (2,)), (layers.GlobalAveragePooling2D, ())))),
}


@check(*GRAPHS)
def a_model_that_is_no_chain_runs_as_in_keras_and_so_does_its_conversion(folder, name):
    keras.utils.set_random_seed(1)
    model = with_weights(GRAPHS[name]())
    inputs = {}
    for at, given in enumerate(model.inputs):
        shape = (3, *(6 if size is None else size for size in given.shape[1:]))
        is_real = "float" in given.dtype and name != "Embedding"
        value = make.values(shape, 21 + at)
        inputs[given.name] = value if is_real else np.random.default_rng(at).integers(0, 10, shape).astype(
            "float32" if "float" in given.dtype else "int32")
    source, out = make.export(model, folder / "model"), folder / "out.safetensors"
    values = list(inputs.values())
    expected = model(values[0] if len(values) == 1 else values, training=False).numpy()
    named = {"input": values[0]} if len(values) == 1 else inputs
    assert_close(computed(folder, source, named), expected)
    convert(source, out, "--to", "safetensors")
    if len(values) == 1 and "float" in model.inputs[0].dtype and name != "Embedding":
        assert "rule     bits" in verify(source, out)
    convert(source, folder / "out.onnx")
    assert "rule     bits" in verify(source, folder / "out.onnx")


# What the reader does not describe, and the operation that it names.
UNKNOWN = {
    "an inverse error function": (sequential((7,), lambda: layers.Dense(4), lambda: layers.Lambda(keras.ops.erfinv)), "Erfinv"),
    "a mask over sequences of any length": (
        sequential((None, 8), layers.Masking, lambda: layers.LSTM(5)), "While"),
}


@check(*UNKNOWN)
def a_model_with_an_operation_that_is_not_known_says_which(folder, name):
    made, operation = UNKNOWN[name]
    source = make.export(made(), folder / "model")
    said = run(source, code=2)
    assert "has no graph to run" in said and f"the operation {operation}" in said, said
    assert f"the operation {operation}" in convert(source, folder / "out.onnx", fails=True)
    # No architecture file can describe such a model.
    assert "--arch" not in said, said


# CNN2.

# Name → extra features, (outputs, kernel, takes the static features too, activation) of each layer.
CNN2 = {
    "the specification's": (7, [(8, 3, False, "sigmoid"), (4, 3, False, "relu"), (3, 3, False, "sigmoid")]),
    "1x1": (0, [(5, 1, False, "tanh"), (3, 1, False, "none")]),
    "5x5 and the static features again": (4, [(8, 5, False, "clamp"), (4, 3, True, "tanh"), (3, 5, True, "none")]),
    "one layer": (2, [(4, 7, False, "none")]),
    "static features, one to the next": (0, [(8, 1, False, "relu"), (8, 3, True, "relu"), (1, 1, False, "sigmoid")]),
}
SIZES = {"specification": (2, 8, 8), "odd": (3, 7, 11), "narrow": (2, 1, 9), "smaller than the kernel": (1, 2, 2)}


def cnn2(folder, name) -> tuple[pathlib.Path, list[str], int]:
    """A file of random weights, its activations, and how many channels its first layer takes."""
    extra, shape = CNN2[name]
    inputs, weights = cnn2_file.STATIC + extra, []
    for index, (outputs, kernel, static, _) in enumerate(shape):
        channels = inputs + (cnn2_file.STATIC if static else 0)
        weights.append(make.values((outputs, channels, kernel, kernel), 30 + index) / (kernel * np.sqrt(channels)))
        inputs = outputs
    (folder / "net.bin").write_bytes(cnn2_file.write(weights))
    return folder / "net.bin", [activation for *_, activation in shape], cnn2_file.STATIC + extra


@check(*(f"{name}, {border}, {size}" for name in CNN2 for border, size in (
    ("zero", "specification"), ("clamp", "odd"), ("zero", "narrow"), ("clamp", "smaller than the kernel"))))
def a_cnn2_file_runs_as_in_numpy(folder, what):
    name, border, size = what.rsplit(", ", 2)
    path, activations, channels = cnn2(folder, name)
    count, height, width = SIZES[size]
    static = cnn2_file.static_features(np.random.default_rng(31).uniform(size=(count, height, width, 4)).astype(np.float32))
    x = np.concatenate([static, make.values((count, height, width, channels - cnn2_file.STATIC), 32)], -1).astype(np.float32)
    expected = cnn2_file.forward(path.read_bytes(), x, activations, border)
    first = np.moveaxis(x, -1, 1)
    inputs = {"static_features": first[:, :cnn2_file.STATIC]}
    if channels > cnn2_file.STATIC:
        inputs["features"] = first[:, cnn2_file.STATIC:]
    found = computed(folder, path, inputs, "--set", f"border={border}", "--set", f"activation={','.join(activations)}")
    assert_close(np.moveaxis(found, 1, -1), expected)


@check()
def what_a_cnn2_file_does_not_state_is_asked_for(folder):
    path, activations, _ = cnn2(folder, "the specification's")
    said = run(path, "--set", "border=zero", code=2)
    assert "activation" in said, said
    said = run(path, "--set", "activation=relu", code=2)
    assert "border" in said, said


@check("zero", "clamp")
def a_cnn2_file_computes_the_same_in_safetensors_and_a_changed_weight_is_noticed(folder, border):
    path, activations, _ = cnn2(folder, "5x5 and the static features again")
    stated = ["border=" + border, "activation=" + ",".join(activations)]
    out = folder / "out.safetensors"
    convert(path, out, *(word for option in stated for word in ("--from-set", option)))
    said = [word for option in stated for word in ("--a-set", option)]
    assert "rule     bits" in verify(path, out, *said)
    alter(out, folder / "altered.safetensors")
    verify(path, folder / "altered.safetensors", *said, code=4)


@check("no bias", "a bias in the weights of the channel that is always 1")
def an_exported_cnn_and_its_conversion_to_cnn2_differ_by_rounding_and_a_changed_weight_is_noticed(folder, bias):
    shape = [(8, 3, "sigmoid"), (4, 3, "relu"), (3, 3, "tanh")]
    source, out = make.export(make.cnn(shape, biases=int(bias != "no bias")), folder / "model"), folder / "out.bin"
    convert(source, out, "--to", "cnn2", "--allow", "narrowed")
    x = make.values((2, 9, 7, 15), 33)
    x[..., cnn2_file.STATIC - 1] = 1
    np.save(folder / "x.npy", x)
    said = ["--b-set", "border=zero", "--b-set", "activation=" + ",".join(activation for *_, activation in shape),
            "--input", folder / "x.npy"]
    assert "rule     bound" in verify(source, out, *said)
    weights = cnn2_file.read(out.read_bytes())
    weights[1] = weights[1].copy()
    weights[1][np.unravel_index(np.argmax(np.abs(weights[1])), weights[1].shape)] *= np.float16(1.25)
    (folder / "altered.bin").write_bytes(cnn2_file.write(weights))
    verify(source, folder / "altered.bin", *said, code=4)


# nn.

NN = {"Linear": [], "ReLU": ["ReLU"], "Sigmoid": ["Sigmoid"], "Tanh": ["Tanh"], "Softmax": ["Softmax"],
      "Flatten": ["Flatten", "ReLU"]}


def nn(path, between, sizes=(9, 31, 17, 4)) -> pathlib.Path:
    """A file of Linear layers with these layers after each."""
    made, tensors = [], {}
    for index, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        made.append({"name": f"layer{index}", "type": "Linear", "in_features": inputs, "out_features": outputs, "trainable": True})
        made += [{"name": f"layer{len(made)}", "type": kind} for kind in between]
        tensors[f"layer{index}.weight"] = make.values((outputs, inputs), 40 + index) / np.sqrt(inputs)
        tensors[f"layer{index}.bias"] = make.values((outputs,), 50 + index)
    training = dict.fromkeys(("epochs", "loss", "optimizer", "accuracy_history", "loss_history", "val_accuracy_history", "val_loss_history"))
    path.write_bytes(nn_file.write({"device": "cpu", "layers": made, "training": training | {"stages": []}}, tensors))
    return path


@check(*NN)
def an_nn_file_runs_as_in_numpy(folder, name):
    path = nn(folder / "net.nn", NN[name])
    x = make.values((13, 9), 41)
    expected, bound = nn_file.forward(*nn_file.read(path.read_bytes()), x)
    found = computed(folder, path, {"input": x})
    assert_close(found, expected)
    assert np.all(np.abs(found - expected) <= bound), "beyond the proven bound"


@check("safetensors", "tf2")
def an_nn_file_computes_the_same_elsewhere_and_a_changed_weight_is_noticed(folder, form):
    path, out = nn(folder / "net.nn", ["ReLU"]), folder / ("out.safetensors" if form == "safetensors" else "out")
    convert(path, out, "--to", form)
    verify(path, out)
    convert(out, folder / "back.safetensors", "--to", "safetensors")
    alter(folder / "back.safetensors", folder / "altered.safetensors")
    verify(path, folder / "altered.safetensors", code=4)


# bullet.

LAYOUT = [0, 0, 1, 1, 2, 2, 2, 2] + [3] * 24
INPUTS = {"features": 768}
MIRRORED = INPUTS | {"buckets": {"count": 4, "layout": LAYOUT, "mirrored": True}}
SQUARES = INPUTS | {"buckets": {"count": 2, "layout": [int(square % 8 > 3) for square in range(64)]}}
NETS = {
    "one layer": {"input": INPUTS, "layers": [{"size": 16, "activation": "screlu"}, {"size": 1}]},
    "output buckets": {"input": INPUTS, "output_buckets": {"count": 8},
                       "layers": [{"size": 16, "activation": "sqrrelu"}, {"size": 1}]},
    "five output buckets": {"input": INPUTS, "output_buckets": {"count": 5},
                            "layers": [{"size": 8, "activation": "relu"}, {"size": 1}]},
    "buckets of squares": {"input": SQUARES, "layers": [{"size": 8, "activation": "crelu"}, {"size": 1}]},
    "psqt": {"input": INPUTS, "psqt": True, "layers": [{"size": 8, "activation": "crelu"}, {"size": 1}]},
    "dual first": {"input": INPUTS, "layers": [{"size": 8, "activation": "crelu", "dual": True}, {"size": 1}]},
    "everything": {"input": MIRRORED | {"factoriser": True}, "psqt": True, "output_buckets": {"count": 8}, "layers": [
        {"size": 32, "activation": "crelu", "pairwise": True}, {"size": 8, "activation": "crelu", "dual": True},
        {"size": 16, "activation": "screlu"}, {"size": 1}]},
    "a layer without buckets": {"input": MIRRORED, "output_buckets": {"count": 4}, "layers": [
        {"size": 16, "activation": "screlu", "pairwise": True}, {"size": 6, "activation": "relu", "bucketed": False}, {"size": 1}]},
}
FENS = [
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1",
    "rnbqkbnr/pp1ppppp/8/2p5/4P3/5N2/PPPP1PPP/RNBQKB1R b KQkq - 1 2",
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "8/8/8/8/5k2/8/6q1/K7 b - - 4 71",
    "2kr4/8/8/1Q6/8/3n4/PPP5/1K6 b - - 0 1",
    "8/8/8/4k3/8/8/8/4K3 w - - 0 1",
]


def bullet(folder, name) -> tuple[dict, dict[str, np.ndarray]]:
    """An architecture and its weights; written as net.json and weights.bin."""
    net = NETS[name]
    tensors = weights_of(net)
    saved = [{"id": tensor} for tensor in tensors if tensor != "l0f"]
    (folder / "net.json").write_text(json.dumps(net | {"format": "bullet", "saved": saved}))
    (folder / "weights.bin").write_bytes(bullet_file.write(tensors))
    (folder / "positions.txt").write_text("\n".join(FENS) + "\n")
    return net, tensors


def weights_of(net) -> dict[str, np.ndarray]:
    """Weights that keep activations within their range."""
    tensors = {}
    for index, (tensor, shape) in enumerate(bullet_file.shapes(net).items()):
        scale = {"l0w": 0.12, "l0f": 0.05, "l0b": 0.3, "pst": 0.05}.get(tensor, 0.5 if tensor.endswith("b") else shape[0] ** -0.5)
        tensors[tensor] = make.values(shape, 60 + index) * np.float32(scale)
    return tensors


@check(*NETS)
def a_chess_network_evaluates_as_in_numpy(folder, name):
    net, tensors = bullet(folder, name)
    arguments = ["--from", "bullet", "--arch", folder / "net.json", "--fen", folder / "positions.txt"]
    found = computed(folder, folder / "weights.bin", {}, *arguments)
    assert_close(found, np.stack([bullet_file.forward(net, tensors, fen) for fen in FENS]))


@check(*NETS)
def a_chess_network_computes_the_same_in_safetensors_and_a_changed_weight_is_noticed(folder, name):
    bullet(folder, name)
    arch, out = folder / "net.json", folder / "out.safetensors"
    convert(folder / "weights.bin", out, "--from", "bullet", "--arch", arch, "--to", "safetensors")
    said = ["--a-from", "bullet", "--a-arch", arch, "--fen", folder / "positions.txt"]
    assert "rule     bits" in verify(folder / "weights.bin", out, *said)
    alter(out, folder / "altered.safetensors", "l1w")
    verify(folder / "weights.bin", folder / "altered.safetensors", *said, code=4)


@check("one layer", "eight output buckets")
def a_quantised_network_evaluates_in_integers_as_an_engine_does(folder, name):
    net = {"input": INPUTS, "layers": [{"size": 16, "activation": "screlu"}, {"size": 1}]}
    net |= {"output_buckets": {"count": 8}} if name == "eight output buckets" else {}
    preset = "simple:768x16x1" + (",buckets=8" if "output_buckets" in net else "")
    tensors = weights_of(net)
    (folder / "weights.bin").write_bytes(bullet_file.write(tensors))
    (folder / "positions.txt").write_text("\n".join(FENS) + "\n")
    said = ["--from", "bullet", "--set", f"arch={preset}"]
    convert(folder / "weights.bin", folder / "quantised.bin", "--from", "bullet", "--to", "bullet",
            "--from-set", f"arch={preset}", "--to-set", "content=quantised", "--allow", "quantized")
    found = computed(folder, folder / "quantised.bin", {}, *said, "--fen", folder / "positions.txt", "--integers", "400")
    expected = [bullet_file.integers(tensors, fen, net) for fen in FENS]
    assert len(set(expected)) == len(FENS), expected
    assert found.ravel().tolist() == expected, f"{found.ravel()} instead of {expected}"
