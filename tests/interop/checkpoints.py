"""Checkpoints that TensorFlow itself writes."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf

DTYPES = [
    "float64", "float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
    "bool", "complex64", "int4", "uint4", "qint8", "quint8", "qint16", "quint16", "qint32",
]
QUANTISED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}


def values(shape, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def mlp(activations=("relu", "softmax"), sizes=(7, 5, 3), functional=False, seed=1) -> keras.Model:
    keras.utils.set_random_seed(seed)
    if functional:
        inputs = y = keras.Input((sizes[0],))
        for size, activation in zip(sizes[1:], activations):
            y = keras.layers.Dense(size, activation=activation, bias_initializer="normal")(y)
        return keras.Model(inputs, y)
    layers = [keras.layers.Dense(size, activation=activation, bias_initializer="normal")
              for size, activation in zip(sizes[1:], activations)]
    return keras.Sequential([keras.Input((sizes[0],)), *layers])


def cnn(layers, biases=0) -> keras.Model:
    """Convolutions of the same size, `(filters, kernel, activation)` each, on images of 15 channels.

    The first `biases` of them have a bias."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Conv2D(filters, kernel, padding="same", activation=activation,
                                  use_bias=index < biases, bias_initializer="random_normal")
              for index, (filters, kernel, activation) in enumerate(layers)]
    return keras.Sequential([keras.Input((None, None, 15)), *layers])


def trained(model: keras.Model) -> keras.Model:
    """After two steps of Adam, so that the slots hold something."""
    model.compile(keras.optimizers.Adam(0.01), "mse")
    inputs, outputs = model.input_shape[1], model.output_shape[1]
    model.fit(values((20, inputs), 3), values((20, outputs), 4), batch_size=10, verbose=0)
    return model


def checkpoint(model, folder: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(tf.train.Checkpoint(model=model).save(str(folder / "ckpt")))


def export(model: keras.Model, folder: pathlib.Path) -> pathlib.Path:
    model.export(str(folder), verbose=False)
    return folder


class Module(tf.Module):
    """A network without Keras."""

    def __init__(self):
        super().__init__()
        self.w1, self.b1 = tf.Variable(values((6, 4), 5), name="w1"), tf.Variable(values(4, 6), name="b1")
        self.w2, self.b2 = tf.Variable(values((4, 2), 7), name="w2"), tf.Variable(values(2, 8), name="b2")

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32)])
    def __call__(self, x):
        hidden = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, self.w1), self.b1))
        return tf.nn.softmax(tf.nn.bias_add(tf.matmul(hidden, self.w2), self.b2))


def module(folder: pathlib.Path) -> tuple[Module, pathlib.Path]:
    made = Module()
    tf.saved_model.save(made, str(folder))
    return made, folder


def save(prefix: pathlib.Path, tensors: dict, slices: dict[str, str] | None = None) -> pathlib.Path:
    """Exactly these tensors, by the operation that everything above uses."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    names = list(tensors)
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, tensors=list(tensors.values()),
                      shape_and_slices=[(slices or {}).get(name, "") for name in names])
    return prefix


def every_dtype(folder: pathlib.Path) -> pathlib.Path:
    numbers, tensors = np.arange(24).reshape(2, 3, 4), {}
    for name in DTYPES:
        dtype = tf.dtypes.as_dtype(name)
        if name in QUANTISED:
            tensors[f"of/{name}"] = tf.bitcast(tf.constant(numbers * 5, QUANTISED[name]), dtype)
        elif dtype.is_floating and dtype.size <= 2:
            bits = np.arange(256, dtype=np.uint8) if dtype.size == 1 else np.arange(0, 65536, 7, dtype=np.uint16)
            tensors[f"of/{name}"] = tf.constant(bits.view(dtype.as_numpy_dtype))
        else:
            tensors[f"of/{name}"] = tf.cast(tf.constant(numbers % 8), dtype)
    return save(folder / "every", tensors)


def shapes(folder: pathlib.Path) -> pathlib.Path:
    return save(folder / "shapes", {
        "scalar": tf.constant(1.5), "empty": tf.zeros([0, 1618]), "deep": tf.constant(values([2] * 8)),
        "one": tf.constant([[[3]]]), "large": tf.constant(values((1500, 2001))),
    })


def many(folder: pathlib.Path) -> pathlib.Path:
    return save(folder / "many", {f"block_{n % 7}/layer_{n:04}/kernel": tf.constant(values((n % 5, 3), n)) for n in range(3000)})


def strings(folder: pathlib.Path) -> pathlib.Path:
    return save(folder / "strings", {"words": tf.constant(["", "a", "ü" * 300]), "weight": tf.constant(values((3, 2)))})


def partitioned(folder: pathlib.Path) -> pathlib.Path:
    """Two variables in slices, of rows and of columns, in one file each, merged."""
    kernel, table = values((10, 8), 1), values((9, 5), 2)
    parts = [
        ({"kernel": kernel[:4], "table": table[:, :2]}, {"kernel": "10 8 0,4:0,8", "table": "9 5 0,9:0,2"}),
        ({"kernel": kernel[4:], "table": table[:, 2:]}, {"kernel": "10 8 4,6:0,8", "table": "9 5 0,9:2,3"}),
        ({"bias": values(8, 3)}, {}),
    ]
    return merge(folder, [(dict(map(lambda item: (item[0], tf.constant(item[1])), tensors.items())), slices)
                          for tensors, slices in parts])


def sharded(folder: pathlib.Path) -> pathlib.Path:
    return merge(folder, [({f"shard_{n}/{k}": tf.constant(values((50, n + 1), k)) for k in range(4)}, {}) for n in range(3)])


def merge(folder: pathlib.Path, parts) -> pathlib.Path:
    prefixes = [str(save(folder / "parts" / f"part{n}", *part)) for n, part in enumerate(parts)]
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=str(folder / "merged"),
                                  delete_old_dirs=True)
    return folder / "merged"


def tf1_saver(folder: pathlib.Path) -> pathlib.Path:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("dense/kernel", initializer=values((4, 3)), use_resource=False)
        tf.compat.v1.get_variable("dense/bias", initializer=values(3), use_resource=True)
        tf.compat.v1.train.get_or_create_global_step()
        session.run(tf.compat.v1.global_variables_initializer())
        return pathlib.Path(tf.compat.v1.train.Saver().save(session, str(folder / "model.ckpt"), 7))


def stored(prefix: pathlib.Path) -> dict[str, np.ndarray]:
    """Every tensor but strings, as TensorFlow reads them."""
    reader = tf.train.load_checkpoint(str(prefix))
    dtypes = reader.get_variable_to_dtype_map()
    return {name: reader.get_tensor(name) for name in dtypes if dtypes[name] != tf.string}
