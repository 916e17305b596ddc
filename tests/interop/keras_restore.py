"""Checkpoints by the names of layers, restored by Keras 3, Keras 2 (tf_keras) and tf.compat.v1.train.Saver."""

import gzip
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf
import tf_keras
from harness import check, convert

# Models of the same layers, in the ways that people write them.


def dense(kit, own_activations=False):
    layers = []
    for size, activation in (5, "relu"), (5, "tanh"), (3, "softmax"):
        layers.append(kit.layers.Dense(size, None if own_activations else activation, bias_initializer="normal"))
        if own_activations:
            layers.append(kit.layers.Activation(activation))
    return (7,), layers


def convolutional(kit, own_activations=False):
    layers = kit.layers
    return (12, 14, 3), [
        layers.Conv2D(4, 3, activation="relu"), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D(),
        layers.Conv2D(6, 3, strides=2, padding="same", use_bias=False), layers.LeakyReLU(0.2), layers.Flatten(),
        layers.Dense(5, "relu"), layers.Dense(3, "softmax"),
    ]


def pooled(kit, own_activations=False):
    layers = kit.layers
    return (12, 14, 3), [layers.Conv2D(4, 3, activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(3)]


LAYERS = {"dense": dense, "convolutional": convolutional, "pooled": pooled}


def sequential(kit, layers, **options):
    shape, layers = LAYERS[layers](kit, **options)
    return kit.Sequential([kit.Input(shape), *layers])


def sequential_without_input(kit, layers, **options):
    shape, layers = LAYERS[layers](kit, **options)
    model = kit.Sequential(layers)
    model(np.zeros((1, *shape), np.float32))
    return model


def functional(kit, layers, **options):
    shape, layers = LAYERS[layers](kit, **options)
    inputs = outputs = kit.Input(shape)
    for layer in layers:
        outputs = layer(outputs)
    return kit.Model(inputs, outputs)


KINDS = [sequential, sequential_without_input, functional]


def randomised(model):
    random = np.random.default_rng(5)
    model.set_weights([random.normal(size=weight.shape).astype(np.float32) ** 2 for weight in model.get_weights()])
    return model


def trained(model, optimizer, seed=1):
    random = np.random.default_rng(seed)
    model.compile(optimizer, "mse")
    model.fit(random.normal(size=(20, 7)), random.normal(size=(20, 3)), batch_size=5, verbose=0)
    return model


def assert_same(found, expected) -> None:
    assert len(found) == len(expected), f"{len(found)} values instead of {len(expected)}"
    for place, (got, value) in enumerate(zip(map(np.asarray, found), map(np.asarray, expected))):
        assert (got.shape, got.dtype) == (value.shape, value.dtype), f"value {place}: {got.dtype}{got.shape}"
        assert got.tobytes() == value.tobytes(), f"value {place}: other bits"


def restored(model, prefix):
    """All ways of restoring a model, each undone before the next."""
    before = model.get_weights()
    ways = [
        tf.train.Checkpoint(model=model).restore,
        tf.train.Checkpoint(model).restore,
        tf.train.Checkpoint(model).read,
    ]
    if not isinstance(model, keras.Model):
        ways.append(model.load_weights)
    for way in ways:
        model.set_weights(before)
        way(str(prefix)).assert_existing_objects_matched()
        yield model


def checkpoint(folder: pathlib.Path, **objects) -> pathlib.Path:
    return pathlib.Path(tf.train.Checkpoint(**objects).save(str(folder / "in" / "ckpt")))


def source(folder: pathlib.Path, layers: str):
    """A Keras 3 model of these layers and its export, which says its activations and strides."""
    model = randomised(sequential(keras, layers))
    model.export(str(folder / "model"), verbose=False)
    return model, folder / "model"


@check(*LAYERS)
def keras_3_restores_every_kind_of_model_from_the_same_files(folder, layers):
    model, path = source(folder, layers)
    convert(path, folder / "out", "--to", "tf2", "--set", "names=keras3")
    for kind in KINDS:
        for found in restored(kind(keras, layers), folder / "out"):
            assert_same(found.get_weights(), model.get_weights())


@check(*LAYERS)
def keras_2_restores_every_kind_of_model_from_the_same_files(folder, layers):
    model, path = source(folder, layers)
    convert(path, folder / "out", "--to", "tf2", "--set", "names=keras2")
    for kind in KINDS:
        for found in restored(kind(tf_keras, layers), folder / "out"):
            assert_same(found.get_weights(), model.get_weights())


@check()
def keras_2_loads_the_weights_of_a_model_that_is_not_built_yet(folder):
    model, path = source(folder, "convolutional")
    convert(path, folder / "out", "--to", "tf2", "--set", "names=keras2")
    shape, layers = convolutional(tf_keras)
    found = tf_keras.Sequential(layers)
    found.load_weights(str(folder / "out"))
    found(np.zeros((1, *shape), np.float32))
    assert_same(found.get_weights(), model.get_weights())


def nested(kit, layers, functional):
    """Models within a model: a layer of the outer one has the shape of one of the inner ones."""

    def model(*layers):
        if not functional:
            return kit.Sequential([kit.Input((4,)), *layers])
        inputs = outputs = kit.Input((4,))
        for layer in layers:
            outputs = layer(outputs)
        return kit.Model(inputs, outputs)

    def dense(name=None):
        return kit.layers.Dense(4, "relu", name=name, bias_initializer="normal")

    if layers == "one":
        return model(model(dense("a"), dense("b")), dense("c"), dense("d"))
    if layers == "repeated":
        return model(model(dense("a"), dense("b")), model(dense("a"), dense("b")), dense("a"))
    return model(dense(), model(dense(), kit.layers.Dropout(0.5), model(dense(), dense())), dense())


NESTED = {f"{layers} {kind}": (layers, kind == "functional")
          for layers in ("one", "repeated", "deep") for kind in ("sequential", "functional")}
NESTED_DENSE = {"one": 4, "repeated": 5, "deep": 5}


@check(*NESTED)
def models_within_a_model_are_restored(folder, name):
    layers, functional = NESTED[name]
    model = randomised(nested(keras, layers, functional))
    said = ("--set", "activations=" + ",".join(["relu"] * NESTED_DENSE[layers]))
    source = checkpoint(folder, model=model)
    if layers == "deep":  # Dropout leaves no trace but its place
        paths = [variable.path for variable in model.variables if variable.path.endswith(("kernel", "bias"))]
        described = [{"type": "dense", "weight": weight, "bias": bias, "activation": "relu"}
                     for weight, bias in zip(paths[::2], paths[1::2])]
        (folder / "net.json").write_text(json.dumps({"layers": described}))
        said = ("--arch", folder / "net.json")
    for names, kit in ("keras3", keras), ("keras2", tf_keras):
        convert(source, folder / names, "--to", "tf2", "--set", f"names={names}", *said)
        for is_functional in (functional, not functional):
            found = nested(kit, layers, is_functional)
            tf.train.Checkpoint(model=found).restore(str(folder / names)).assert_existing_objects_matched()
            assert_same(found.get_weights(), model.get_weights())


@check(*NESTED)
def models_within_a_model_are_refused_where_their_places_are_unknown(folder, name):
    layers, functional = NESTED[name]
    nested(keras, layers, functional).export(str(folder / "model"), verbose=False)
    for names in "keras3", "keras2":
        said = convert(folder / "model", folder / "out", "--to", "tf2", "--set", f"names={names}", fails=True)
        assert "places of layers within layers" in said, said


@check("keras3", "keras2")
def activations_can_be_layers_of_their_own(folder, names):
    model, path = source(folder, "dense")
    convert(path, folder / "out", "--to", "tf2", "--set", f"names={names}", "--set", "activation_layers=true")
    for kind in KINDS:
        for found in restored(kind({"keras3": keras, "keras2": tf_keras}[names], "dense", own_activations=True), folder / "out"):
            assert_same(found.get_weights(), model.get_weights())


LEGACY = tf_keras.optimizers.legacy
# Keras, the naming that it restores, and an optimiser.
OPTIMIZERS = {
    "keras 3 Adam": (keras, "keras3", lambda: keras.optimizers.Adam(0.01)),
    "keras 3 Adam amsgrad": (keras, "keras3", lambda: keras.optimizers.Adam(0.01, amsgrad=True)),
    "keras 3 momentum": (keras, "keras3", lambda: keras.optimizers.SGD(0.01, momentum=0.9)),
    "keras 3 SGD": (keras, "keras3", lambda: keras.optimizers.SGD(0.01)),
    "keras 2 Adam": (tf_keras, "keras2", lambda: tf_keras.optimizers.Adam(0.01)),
    "keras 2 Adam amsgrad": (tf_keras, "keras2", lambda: tf_keras.optimizers.Adam(0.01, amsgrad=True)),
    "keras 2 momentum": (tf_keras, "keras2", lambda: tf_keras.optimizers.SGD(0.01, momentum=0.9)),
    "keras 2 legacy Adam": (tf_keras, "keras2", lambda: LEGACY.Adam(0.01)),
    "keras 2 legacy Adam amsgrad": (tf_keras, "keras2", lambda: LEGACY.Adam(0.01, amsgrad=True)),
    "keras 2 legacy momentum": (tf_keras, "keras2", lambda: LEGACY.SGD(0.01, momentum=0.9)),
}
ACTIVATIONS = ("--set", "activations=relu,tanh,softmax")


def state(optimizer) -> list[np.ndarray]:
    """All of an optimiser's variables, whatever its generation."""
    if isinstance(optimizer, LEGACY.Optimizer):
        return optimizer.get_weights()
    variables = optimizer.variables
    return [variable.numpy() for variable in (variables() if callable(variables) else variables)]


@check(*OPTIMIZERS)
def an_optimizer_goes_on_where_it_was(folder, name):
    kit, names, optimizer = OPTIMIZERS[name]
    model = trained(sequential(kit, "dense"), optimizer())
    convert(checkpoint(folder, model=model, optimizer=model.optimizer), folder / "out", "--to", "tf2",
            "--set", f"names={names}", *ACTIVATIONS)
    for kind in KINDS:
        found = trained(kind(kit, "dense"), optimizer(), seed=2)
        made = tf.train.Checkpoint(model=found, optimizer=found.optimizer)
        made.restore(str(folder / "out")).assert_existing_objects_matched()
        assert_same(found.get_weights(), model.get_weights())
        assert_same(state(found.optimizer), state(model.optimizer))


def every_optimizer(kit) -> dict:
    """One of every kind, with all the state that it can have."""
    made = kit.optimizers
    kinds = {
        "RMSprop": lambda: made.RMSprop(0.01, momentum=0.9, centered=True),
        "Adagrad": lambda: made.Adagrad(0.01),
        "Adadelta": lambda: made.Adadelta(0.01),
        "Adamax": lambda: made.Adamax(0.01),
        "Ftrl": lambda: made.Ftrl(0.01),
        "Adafactor": lambda: made.Adafactor(0.01),
        "Nadam": lambda: made.Nadam(0.01),
        "Lion": lambda: made.Lion(0.01),
        "AdamW": lambda: made.AdamW(0.01),
        "EMA": lambda: made.Adam(0.01, use_ema=True),
    }
    if kit is keras:
        kinds |= {
            "Muon": lambda: made.Muon(0.01),
            "Lamb": lambda: made.Lamb(0.01),
            "accumulation": lambda: made.SGD(0.01, momentum=0.9, gradient_accumulation_steps=3),
            "EMA and accumulation": lambda: made.Adam(0.01, use_ema=True, gradient_accumulation_steps=3),
            "LossScale": lambda: made.LossScaleOptimizer(made.RMSprop(0.01, momentum=0.9), dynamic_growth_steps=3),
        }
    else:
        kinds |= {
            "legacy RMSprop": lambda: LEGACY.RMSprop(0.01, momentum=0.9, centered=True),
            "legacy Adagrad": lambda: LEGACY.Adagrad(0.01),
            "legacy Adadelta": lambda: LEGACY.Adadelta(0.01),
            "legacy Adamax": lambda: LEGACY.Adamax(0.01),
            "legacy Ftrl": lambda: LEGACY.Ftrl(0.01),
            "legacy Nadam": lambda: LEGACY.Nadam(0.01),
        }
    return kinds


ALL_OPTIMIZERS = {f"{names} {name}": (kit, names, optimizer)
                  for kit, names in ((keras, "keras3"), (tf_keras, "keras2"))
                  for name, optimizer in every_optimizer(kit).items()}


@check(*ALL_OPTIMIZERS)
def training_goes_on_bit_for_bit_with_every_optimizer(folder, name):
    kit, names, optimizer = ALL_OPTIMIZERS[name]
    model = trained(sequential(kit, "dense"), optimizer())
    source = checkpoint(folder, model=model)
    convert(source, folder / "m.safetensors", "--from-set", ACTIVATIONS[1])
    convert(source, folder / "out", "--to", "tf2", "--set", f"names={names}", *ACTIVATIONS)
    convert(folder / "m.safetensors", folder / "back", "--to", "tf2", "--set", f"names={names}")
    weights, slots = model.get_weights(), state(model.optimizer)
    after = None
    for kind, prefix in (functional, "out"), (sequential, "back"):
        found = trained(kind(kit, "dense"), optimizer(), seed=2)
        tf.train.Checkpoint(model=found).restore(str(folder / prefix)).assert_existing_objects_matched()
        assert_same(found.get_weights(), weights)
        assert_same(state(found.optimizer), slots)
        # Two more steps, on the same data.
        if after is None:
            go_on(model)
            after = model.get_weights()
        go_on(found)
        assert_same(found.get_weights(), after)


def go_on(model) -> None:
    random = np.random.default_rng(3)
    for _ in range(2):
        model.train_on_batch(random.normal(size=(5, 7)).astype(np.float32), random.normal(size=(5, 3)).astype(np.float32))


@check("keras 3 Adam", "keras 3 Adam amsgrad", "keras 3 momentum")
def an_optimizer_that_is_built_after_it_was_restored_goes_on_where_it_was(folder, name):
    kit, names, optimizer = OPTIMIZERS[name]
    model = trained(sequential(kit, "dense"), optimizer())
    convert(checkpoint(folder, model=model), folder / "out", "--to", "tf2", "--set", f"names={names}", *ACTIVATIONS)
    found = functional(kit, "dense")
    tf.train.Checkpoint(model=found).restore(str(folder / "out")).assert_existing_objects_matched()
    found.compile(optimizer(), "mse")
    found.optimizer.build(found.trainable_variables)
    assert_same(state(found.optimizer), state(model.optimizer))


@check("keras 2 Adam", "keras 2 Adam amsgrad", "keras 2 momentum", "keras 2 legacy Adam", "keras 2 legacy momentum")
def an_optimizer_goes_from_keras_2_to_keras_3(folder, name):
    kit, _, optimizer = OPTIMIZERS[name]
    model = trained(sequential(kit, "dense"), optimizer())
    prefix = checkpoint(folder, model=model, optimizer=model.optimizer)
    convert(prefix, folder / "out", "--to", "tf2", "--set", "names=keras3", *ACTIVATIONS)
    momentum, amsgrad = "momentum" in name, "amsgrad" in name
    new = keras.optimizers.SGD(momentum=0.9) if momentum else keras.optimizers.Adam(amsgrad=amsgrad)
    found = trained(functional(keras, "dense"), new)
    made = tf.train.Checkpoint(model=found, optimizer=found.optimizer)
    made.restore(str(folder / "out")).assert_existing_objects_matched()
    assert_same(found.get_weights(), model.get_weights())
    if isinstance(model.optimizer, LEGACY.Optimizer):
        slots = [model.optimizer.get_slot(variable, slot).numpy()
                 for variable in model.trainable_variables for slot in (["momentum"] if momentum else ["m", "v"])]
        assert_same(state(found.optimizer)[2:], slots)
    else:
        steps, *slots = state(model.optimizer)
        rate = model.optimizer.learning_rate.numpy()
        assert_same(state(found.optimizer), [steps, rate, *[slot for slot in slots if slot.shape]])


@check()
def a_saver_of_tensorflow_1_restores_layers_slots_and_steps(folder):
    model = trained(sequential(keras, "dense"), keras.optimizers.Adam(0.01))
    convert(checkpoint(folder, model=model), folder / "out", "--to", "tf2", "--set", "names=tf1", *ACTIVATIONS)
    names = [layer.name for layer in model.layers]
    found = tensorflow_1(folder / "out", names)
    weights = model.get_weights()
    optimizer = model.optimizer
    for place, variable in enumerate(f"{name}/{kind}" for name in names for kind in ("kernel", "bias")):
        moments = optimizer._momentums[place].numpy(), optimizer._velocities[place].numpy()
        assert_same([found[variable], found[f"{variable}/Adam"], found[f"{variable}/Adam_1"]], [weights[place], *moments])
    assert_same([found["global_step"]], [optimizer.iterations.numpy()])


def tensorflow_1(prefix: pathlib.Path, names: list[str]) -> dict[str, np.ndarray]:
    """The variables of such a model with Adam, but for what its source did not know."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        value = tf.ones((1, 7))
        for name, size in zip(names, (5, 5, 3)):
            with v1.variable_scope(name):
                kernel = v1.get_variable("kernel", (value.shape[1], size))
                value = tf.tanh(value @ kernel + v1.get_variable("bias", (size,)))
        v1.train.AdamOptimizer().minimize(tf.reduce_sum(value), v1.train.get_or_create_global_step())
        variables = [variable for variable in v1.global_variables() if "power" not in variable.name]
        v1.train.Saver(variables).restore(session, str(prefix))
        return {variable.name.removesuffix(":0"): session.run(variable) for variable in variables}


@check("keras3", "keras2")
def a_trained_classifier_gives_the_same_outputs_after_a_stay_in_nn(folder, names):
    model = trained(sequential(keras, "dense"), keras.optimizers.Adam(0.01))
    convert(checkpoint(folder, model=model), folder / "m.nn", "--from", "tf2", "--to", "nn", *ACTIVATIONS)
    convert(folder / "m.nn", folder / "out", "--from", "nn", "--to", "tf2", "--set", f"names={names}")
    found = sequential({"keras3": keras, "keras2": tf_keras}[names], "dense")
    tf.train.Checkpoint(model=found).restore(str(folder / "out")).assert_existing_objects_matched()
    assert_same(found.get_weights(), model.get_weights())
    images = np.random.default_rng(9).normal(size=(50, 7)).astype(np.float32)
    assert_same([found(images)], [model(images)])


@check("keras3", "keras2")
def a_datacode_model_classifies_in_keras_as_it_did(folder, names):
    if not (cases := os.environ.get("CKPT_CASES")):
        print(" skipped: CKPT_CASES is not set", end="")
        return
    cases = pathlib.Path(cases)
    convert(cases / "nn" / "real" / "model_mnist.nn", folder / "out", "--to", "tf2", "--set", f"names={names}")
    kit = {"keras3": keras, "keras2": tf_keras}[names]
    model = kit.Sequential([kit.Input((784,)), kit.layers.Dense(128, "relu"), kit.layers.Dense(10)])
    tf.train.Checkpoint(model=model).restore(str(folder / "out")).assert_existing_objects_matched()
    expected = json.loads((cases / "nn" / "real" / "model_mnist.forward.json").read_text())["logits_f64"]
    logits = model(np.linspace(0, 1, 784, dtype=np.float32)[None]).numpy()[0]
    # 32 roundings to float32 of the largest logit: chosen, more than ten times what was found.
    bound = 32 * 2.0**-24 * np.abs(expected).max()
    assert np.all(np.abs(logits - expected) <= bound), f"{np.abs(logits - expected).max()} is more than {bound}"
    images, labels = (gzip.decompress((cases / "mnist" / f"t10k-{name}-ubyte.gz").read_bytes())
                      for name in ("images-idx3", "labels-idx1"))
    images = np.frombuffer(images[16:], np.uint8).reshape(-1, 784).astype(np.float32) / 255
    right = np.argmax(model(images).numpy(), 1) == np.frombuffer(labels[8:], np.uint8)
    assert np.mean(right) == 0.9694, np.mean(right)
    print(f"    largest difference {np.abs(logits - expected).max():.1e}, bound {bound:.1e}", end="")
