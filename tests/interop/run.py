#!/usr/bin/env python3
"""Converts what TensorFlow wrote and compares with TensorFlow, Keras and safetensors-python.

    python tests/interop/run.py --ckpt target/debug/ckpt     (packages: requirements.txt)

Each check is a function below; the last line counts them: `interop: 37 passed, 0 failed`.
"""

import json
import os
import pathlib
import sys

# Without oneDNN, which TensorFlow uses by itself on some processors only, it has no convolution with channels first.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import checkpoints as make
import cnn2_file
import forward  # registers its checks
import gguf_files  # registers its checks
import keras
import keras_files  # registers its checks
import keras_restore  # registers its checks
import ml_dtypes
import nn_file
import npz  # registers its checks
import numpy as np
import onnx_models  # registers its checks
import safetensors
import safetensors.numpy
import tensorflow as tf
from harness import assert_equal, check, convert, load, load_set, main

ROOT = pathlib.Path(__file__).resolve().parents[2]


# tf2 → safetensors, and tf2 → tf2: every tensor, bit for bit.


def keras_checkpoint(folder, model):
    prefix = make.checkpoint(model, folder)
    return prefix, prefix


def saved_model(folder, write):
    write(folder / "model")
    return folder / "model", folder / "model" / "variables" / "variables"


def plain(maker):
    def made(folder):
        prefix = maker(folder)
        return prefix, prefix

    return made


SOURCES = {
    "keras_sequential": lambda folder: keras_checkpoint(folder, make.mlp()),
    "keras_functional": lambda folder: keras_checkpoint(folder, make.mlp(functional=True)),
    "keras_adam": lambda folder: keras_checkpoint(folder, make.trained(make.mlp())),
    "keras_export": lambda folder: saved_model(folder, lambda path: make.export(make.mlp(), path)),
    "tf_module": lambda folder: saved_model(folder, make.module),
    "every_dtype": plain(make.every_dtype),
    "shapes": plain(make.shapes),
    "many": plain(make.many),
    "partitioned": plain(make.partitioned),
    "sharded": plain(make.sharded),
    "tf1_saver": plain(make.tf1_saver),
}


@check(*SOURCES)
def tensors_arrive_in_safetensors_bit_for_bit(folder, source):
    path, prefix = SOURCES[source](folder)
    out = folder / "out.safetensors"
    # Exports store each variable twice: the second copies only where they are asked for.
    convert(path, out, "--from", "tf2", "--to", "safetensors", "--set", "keys=true", "--include", "**")
    assert_equal(load(out), make.stored(prefix))


WRITTEN = {
    "as_it_was": [],
    "in_other_shards": ["--set", "shards=3", "--set", "slices=merge"],
    "by_size_aligned": ["--shard-size", "300", "--set", "alignment=64"],
    "with_a_compressed_index": ["--set", "compression=snappy", "--set", "names=plain", "--set", "keys=true"],
}


@check(*WRITTEN)
def tensorflow_reads_what_is_written(folder, way):
    count = 0
    for number, (source, make_it) in enumerate(SOURCES.items()):
        path, prefix = make_it(folder / source)
        out = folder / f"out{number}" / prefix.name
        out.parent.mkdir()
        convert(path, out, "--from", "tf2", "--to", "tf2", *WRITTEN[way])
        assert_equal(make.stored(out), make.stored(prefix))
        if way == "as_it_was":
            for file in prefix.parent.glob(f"{prefix.name}.*"):
                if file.suffix != ".meta":
                    assert (out.parent / file.name).read_bytes() == file.read_bytes(), f"{source}: {file.name}"
                    count += 1
    assert way != "as_it_was" or count >= 2 * len(SOURCES), count


@check("ckpt-1", "ckpt-1.index", "ckpt-1.data-00000-of-00001", "checkpoint", "")
def a_checkpoint_is_found_by_each_of_its_names(folder, name):
    prefix = make.checkpoint(make.mlp(), folder / "in")
    convert(folder / "in" / name, folder / "out.safetensors", "--set", "keys=true")
    assert_equal(load(folder / "out.safetensors"), make.stored(prefix))


@check("16m", "64m")
def a_small_budget_gives_the_same_file(folder, budget):
    prefix = make.shapes(folder)
    convert(prefix, folder / "a.safetensors", "--set", "keys=true")
    convert(prefix, folder / "b.safetensors", "--set", "keys=true", "--max-memory", budget, "-j", "1")
    assert (folder / "a.safetensors").read_bytes() == (folder / "b.safetensors").read_bytes()


@check()
def a_sharded_set_holds_every_tensor_once(folder):
    prefix = make.sharded(folder)
    out = folder / "out.safetensors.index.json"
    convert(prefix, out, "--to", "safetensors", "--set", "keys=true", "--set", "shard_size=1k")
    assert_equal(load_set(out), make.stored(prefix))


@check()
def strings_stop_the_conversion_until_they_are_given_up(folder):
    prefix = make.strings(folder)
    out = folder / "out.safetensors"
    said = convert(prefix, out, fails=True)
    assert "words" in said, said
    convert(prefix, out, "--allow", "weight-dropped")
    assert_equal(load(out), make.stored(prefix))
    convert(prefix, folder / "again.safetensors", "--exclude", "words")
    assert_equal(load(folder / "again.safetensors"), make.stored(prefix))


@check()
def full_names_hold_the_same_values_as_keys(folder):
    model = make.mlp()
    prefix = make.checkpoint(model, folder)
    convert(prefix, folder / "out.safetensors")
    found = load(folder / "out.safetensors")
    expected = {variable.path: variable.numpy() for variable in model.trainable_variables}
    assert_equal({name: found[name] for name in expected}, expected)


@check()
def safetensors_python_reads_what_is_written_and_the_other_way_round(folder):
    tensors = {f"t.{n}": make.values((n, 3), n) for n in range(20)}
    safetensors.numpy.save_file(tensors, folder / "in.safetensors", {"format": "np"})
    convert(folder / "in.safetensors", folder / "out.safetensors")
    assert_equal(safetensors.numpy.load_file(folder / "out.safetensors"), tensors)
    with safetensors.safe_open(folder / "out.safetensors", "np") as file:
        assert file.metadata()["format"] == "np"


# tf2 → nn: the model computes the same.


def assert_same_model(path: pathlib.Path, x: np.ndarray, y: np.ndarray) -> None:
    header, tensors = nn_file.read(path.read_bytes())
    found, bound = nn_file.forward(header, tensors, x)
    # The proven bound grows with the width of every layer; what rounding does in fact is a few eps of the output.
    bound = np.minimum(bound, 32 * nn_file.EPSILON * np.abs(y).max())
    difference = np.abs(found - y)
    worst = np.unravel_index(np.argmax(difference / bound), y.shape)
    assert np.all(difference <= bound), f"at {worst}: {found[worst]}, Keras has {y[worst]}, bound {bound[worst]}"
    print(f"    largest difference {difference.max():.1e}, bound there {bound[worst]:.1e}", end="")


MODELS = {
    "relu,softmax": lambda: make.mlp(),
    "relu,softmax of a functional model": lambda: make.mlp(functional=True),
    "relu,softmax after Adam": lambda: make.trained(make.mlp()),
    "tanh,sigmoid": lambda: make.mlp(("tanh", "sigmoid")),
    "relu,relu,linear": lambda: make.mlp(("relu", "relu", None), (12, 12, 12, 12)),
    "sigmoid": lambda: make.mlp(("sigmoid",), (300, 1)),
    "relu,tanh,relu,softmax wide": lambda: make.mlp(("relu", "tanh", "relu", "softmax"), (64, 700, 33, 128, 10)),
}


@check(*MODELS)
def a_checkpoint_with_given_activations_computes_the_same_as_nn(folder, name):
    model = MODELS[name]()
    x = make.values((9, model.input_shape[1]), 11)
    convert(make.checkpoint(model, folder), folder / "out.nn", "--from", "tf2", "--to", "nn",
            "--set", "activations=" + name.split()[0])
    assert_same_model(folder / "out.nn", x, model(x, training=False).numpy())


@check(*MODELS)
def an_export_says_its_activations_itself(folder, name):
    model = MODELS[name]()
    x = make.values((9, model.input_shape[1]), 12)
    convert(make.export(model, folder / "model"), folder / "out.nn", "--from", "tf2", "--to", "nn")
    assert_same_model(folder / "out.nn", x, model(x, training=False).numpy())


@check()
def a_module_says_its_activations_itself(folder):
    module, path = make.module(folder / "model")
    x = make.values((9, 6), 13)
    convert(path, folder / "out.nn", "--from", "tf2", "--to", "nn")
    assert_same_model(folder / "out.nn", x, module(x).numpy())


@check()
def an_architecture_file_says_them_too(folder):
    model = make.mlp()
    layers = [{"type": "dense", "activation": name} for name in ("relu", "softmax")]
    (folder / "net.json").write_text(json.dumps({"layers": layers}))
    x = make.values((9, 7), 14)
    convert(make.checkpoint(model, folder), folder / "out.nn", "--arch", folder / "net.json")
    assert_same_model(folder / "out.nn", x, model(x, training=False).numpy())


@check()
def missing_activations_are_asked_for(folder):
    said = convert(make.checkpoint(make.mlp(), folder), folder / "out.nn", fails=True)
    assert "activations" in said, said


@check("digits", "digits_saved_model")
def the_example_data_computes_what_keras_computed(folder, name):
    sample = json.loads((ROOT / "examples" / "data" / "digits_io.json").read_text())
    options = ["--set", "activations=relu,softmax"] if name == "digits" else []
    convert(ROOT / "examples" / "data" / name, folder / "out.nn", *options)
    assert_same_model(folder / "out.nn", np.array(sample["x"]), np.array(sample["y"]))


@check()
def nn_survives_a_stay_in_safetensors(folder):
    model = make.mlp()
    convert(make.checkpoint(model, folder), folder / "a.nn", "--set", "activations=relu,softmax")
    convert(folder / "a.nn", folder / "b.safetensors")
    convert(folder / "b.safetensors", folder / "c.nn")
    assert (folder / "a.nn").read_bytes() == (folder / "c.nn").read_bytes()
    _, tensors = nn_file.read((folder / "a.nn").read_bytes())
    assert_equal(safetensors.numpy.load_file(folder / "b.safetensors"), tensors)


# tf2 → cnn2: the convolutions compute the same.


CNN = [(8, 1, "sigmoid"), (4, 3, "relu"), (3, 5, "tanh")]


def assert_same_cnn(path: pathlib.Path, model) -> None:
    x = make.values((1, 9, 7, 15), 15)
    x[..., 7] = 1  # the last static feature, which takes the bias
    y = model(x, training=False).numpy()[0]
    found = cnn2_file.forward(path.read_bytes(), x[0], [activation for _, _, activation in CNN])
    # Weights are rounded to 11 bits in each of 3 layers; that these errors add up no worse than this is seen, not proven.
    bound = 8 * 2.0**-11 * np.abs(y).max()
    difference = np.abs(found - y).max()
    assert found.shape == y.shape and difference <= bound, f"largest difference {difference}, bound {bound}"
    print(f"    largest difference {difference:.1e}, bound {bound:.1e}", end="")


@check()
def an_exported_cnn_computes_the_same_as_cnn2(folder):
    model = make.cnn(CNN)
    source = make.export(model, folder / "model")
    said = convert(source, folder / "out.bin", "--to", "cnn2", fails=True)
    assert "--allow narrowed" in said, said
    said = convert(source, folder / "out.bin", "--to", "cnn2", "--allow", "narrowed")
    name = model.layers[1].name
    assert f"zero border of '{name}', relu of '{name}'" in said, said
    assert_same_cnn(folder / "out.bin", model)


@check()
def a_bare_cnn_can_be_mapped_to_cnn2(folder):
    model = make.cnn(CNN)
    names = "".join(f'"{variable.path}" = "layer{n}.weight"\n' for n, variable in enumerate(model.variables, 1))
    rules = f'ignore = ["_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter"]\n[lookup]\n{names}'
    (folder / "map.toml").write_text(rules)
    convert(make.checkpoint(model, folder), folder / "out.bin", "--to", "cnn2", "--map", folder / "map.toml", "--allow", "narrowed")
    assert_same_cnn(folder / "out.bin", model)


@check("name", "axes")
def a_bare_cnn_with_an_architecture_file_computes_the_same_as_cnn2(folder, axes):
    model = make.cnn(CNN, biases=1)
    layers = []
    for layer, (_, _, activation) in zip(model.layers, CNN, strict=True):
        known = {"type": "conv", "weight": layer.kernel.path, "padding": "same", "activation": activation}
        if axes == "axes":
            known["weight_axes"] = ["kernel_y", "kernel_x", "in", "out"]
        layers.append(known | ({"bias": layer.bias.path} if layer.use_bias else {}))
    (folder / "net.json").write_text(json.dumps({"layers": layers}))
    said = convert(make.checkpoint(model, folder), folder / "out.bin", "--to", "cnn2", "--arch", folder / "net.json",
                   "--allow", "narrowed")
    assert "merged" in said and "largest rounding error" in said, said
    assert_same_cnn(folder / "out.bin", model)


@check("zero", "unstated")
def a_cnn2_file_becomes_a_checkpoint_that_keras_restores_and_comes_back(folder, border):
    source = ROOT / "corpus" / "cnn2" / "accept" / "example.bin"
    said = ["--from-set", "activation=" + ",".join(activation for _, _, activation in CNN)]
    if border == "unstated":
        assert "border=zero" in convert(source, folder / "ckpt", "--to", "tf2", "--set", "names=keras3", *said, fails=True)
        return
    convert(source, folder / "ckpt", "--to", "tf2", "--set", "names=keras3", "--from-set", "border=zero", "--dtype", "f32", *said)
    model = make.cnn([(8, 3, "sigmoid"), (4, 3, "relu"), (3, 3, "tanh")])
    tf.train.Checkpoint(model=model).restore(str(folder / "ckpt")).assert_existing_objects_matched()
    x = make.values((1, 9, 7, 15), 15)
    y = model(x, training=False).numpy()[0]
    found = cnn2_file.forward(source.read_bytes(), x[0], [activation for _, _, activation in CNN])
    bound = 1e-5 * np.abs(y).max()  # the same weights in both: f32 against f64
    assert np.abs(found - y).max() <= bound, np.abs(found - y).max()
    layers = [{"type": "conv", "weight": f"layer{n}/kernel", "padding": "same", "activation": activation}
              for n, (_, _, activation) in enumerate(CNN, 1)]
    (folder / "net.json").write_text(json.dumps({"layers": layers}))
    convert(folder / "ckpt", folder / "back.bin", "--to", "cnn2", "--arch", folder / "net.json", "--allow", "narrowed")
    assert (folder / "back.bin").read_bytes() == source.read_bytes()


@check()
def a_bias_without_a_constant_channel_is_refused_by_cnn2(folder):
    model = make.cnn(CNN, biases=3)
    said = convert(make.export(model, folder / "model"), folder / "out.bin", "--to", "cnn2", fails=True)
    assert f"'{model.layers[1].name}'" in said and "a bias" in said and "static features" in said, said


@check()
def a_bias_of_the_first_layer_is_folded_by_cnn2(folder):
    model = make.cnn(CNN, biases=1)
    source = make.export(model, folder / "model")
    said = convert(source, folder / "out.bin", "--to", "cnn2", "--allow", "narrowed")
    assert "merged" in said, said
    assert_same_cnn(folder / "out.bin", model)


@check(64, 100, 1000)
def a_checkpoint_in_files_of_a_maximum_size_is_written_again_byte_for_byte(folder, size):
    variables = {f"v{length}": tf.Variable(make.values((length,), length)) for length in (7, 10, 20, 30)}
    policy = tf.train.experimental.MaxShardSizePolicy(max_shard_size=size)
    saved = tf.train.Checkpoint(**variables)
    prefix = pathlib.Path(saved.write(str(folder / "in" / "ckpt"),
                                      options=tf.train.CheckpointOptions(experimental_sharding_callback=policy)))
    (folder / "out").mkdir()
    convert(prefix, folder / "out" / "ckpt", "--to", "tf2")
    files = sorted(prefix.parent.glob("ckpt.*"))
    assert len(files) > 2 or size == 1000, files
    for file in files:
        assert (folder / "out" / file.name).read_bytes() == file.read_bytes(), file.name


@check()
def integers_of_few_bits_come_back_through_safetensors(folder):
    dtypes = [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2]
    tensors = [np.resize([-2, -1, 0, 1] if dtype in dtypes[::2] else [0, 1, 2, 3], shape).astype(np.int8).astype(dtype)
               for dtype in dtypes for shape in ((2, 4), (3,))]
    tensors.append(np.array([[0.5, -6], [1, 0]], ml_dtypes.float4_e2m1fn))
    names = [f"t{number}" for number in range(len(tensors))]
    tf.raw_ops.SaveV2(prefix=str(folder / "in"), tensor_names=names, shape_and_slices=[""] * len(names),
                      tensors=[tf.constant(tensor) for tensor in tensors])
    convert(folder / "in.index", folder / "m.safetensors")
    convert(folder / "m.safetensors", folder / "out", "--to", "tf2")
    for file in "index", "data-00000-of-00001":
        assert (folder / f"out.{file}").read_bytes() == (folder / f"in.{file}").read_bytes(), file


if __name__ == "__main__":
    sys.exit(main(__doc__, tf, keras, safetensors))
