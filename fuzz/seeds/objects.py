"""Object graphs without a SavedModel, and Keras 2's metadata: models, names, optimisers, layers by their classes."""

import json

from bundle import message, varint
from messages import Objects, Parts, VARIABLES, body, field, node, text


def cases() -> dict[str, Parts]:
    return models() | object_graphs() | optimizers() | metadata()


def models() -> dict[str, Parts]:
    """Keras models of which nothing but the object graph is there."""
    made: dict[str, Objects] = {}

    def start(name: str) -> Objects:
        made[name] = Objects({"dense": "net/dense/kernel", "bias": "net/dense/bias"})
        return made[name]

    def keras3(name: str) -> tuple[Objects, int]:
        objects = start(name)
        operations = objects.child(objects.child(0, "_functional"), "_operations")
        objects.child(operations, "0")
        return objects, operations

    def keras2(name: str, **layers: dict[str, str]) -> Objects:
        objects = start(name)
        for place, held in layers.items():
            objects.link(0, "layer_with_weights-" + place[1:], objects.hold(0, "layer-" + place[1:], **held))
        return objects

    objects, operations = keras3("keras3")
    objects.hold(operations, "1", _kernel="dense", bias="bias")
    objects.hold(operations, "2", _kernel="next")
    objects, operations = keras3("keras3_activation")
    objects.hold(operations, "1", _kernel="dense")
    objects.child(operations, "2")
    objects, operations = keras3("keras3_conv")
    objects.hold(operations, "1", _kernel="conv", bias="bias")
    objects, operations = keras3("keras3_normalization")
    objects.hold(operations, "1", gamma="gamma", beta="beta")
    objects, operations = keras3("keras3_more")
    objects.hold(operations, "1", _kernel="dense", bias="bias", gamma="gamma")
    objects, operations = keras3("keras3_within")
    layer = objects.hold(operations, "1", _kernel="dense")
    objects.link(objects.hold(layer, "inner", b="bias"), "again", layer)
    objects.hold(layer, "other", k="dense")
    objects, operations = keras3("keras3_optimizer_within")
    layer = objects.hold(operations, "1", _kernel="dense")
    objects.hold(layer, "optimizer", iter="iterations")
    objects, operations = keras3("keras3_lacks")
    layer = objects.child(operations, "1")
    objects.store(objects.child(layer, "_kernel"), "gone", "gone")
    objects, operations = keras3("keras3_many")
    layer = objects.child(operations, "1")
    for number in range(70):
        objects.store(objects.child(layer, f"v{number}"), "", f"v{number}")
    objects, operations = keras3("keras3_bias_misfit")
    objects.hold(operations, "1", _kernel="dense", bias="next")
    objects, operations = keras3("keras3_misfit")
    objects.hold(operations, "1", _kernel="next")
    objects.hold(operations, "2", _kernel="dense")
    objects, operations = keras3("keras3_names")
    objects.hold(operations, "1", _kernel="dense")
    objects.hold(operations, "2", _kernel="next")
    objects.hold(operations, "3", _kernel="next")
    made["keras3_listed"] = objects = Objects({"dense": "net/0", "next": "net/1", "bias": "net/2"})
    operations = objects.child(objects.child(0, "_functional"), "_operations")
    for place, key in enumerate(("dense", "next", "next")):
        objects.hold(operations, str(place), _kernel=key)
    objects = start("functional")
    operations = objects.child(0, "_operations")
    objects.child(operations, "0")
    objects.hold(operations, "1", _kernel="dense", bias="bias")
    keras2("keras2", l0={"kernel": "dense", "bias": "bias"}, l1={"kernel": "next"})
    objects = keras2("keras2_input", l1={"kernel": "dense"})
    objects.child(0, "layer-0")
    objects.link(0, "layer_with_weights-0", 1)
    objects = start("nested")
    outer = objects.child(0, "layer-0")
    objects.link(0, "layer_with_weights-0", outer)
    objects.link(outer, "layer_with_weights-0", objects.hold(outer, "layer-0", kernel="dense"))
    start("unordered").hold(0, "d", kernel="dense")
    objects, operations = keras3("twice_itself")
    objects.link(operations, "1", 0)
    objects.link(operations, "2", 0)
    objects, operations = keras3("once_itself")
    objects.link(operations, "1", 0)
    return {name: (objects.bytes(), b"", b"") for name, objects in made.items()}


def object_graphs() -> dict[str, Parts]:
    """Names, roles and axes: what objects hold and variables are called."""
    made: dict[str, Objects] = {}

    def start(name: str, **full_names: str) -> Objects:
        made[name] = Objects(full_names)
        return made[name]

    names = {"dense": "net/d/kernel", "next": "net/r/recurrent_kernel", "conv": "net/c/kernel", "bias": "net/d/bias"}
    start("named", **names)
    start("named_alike", dense="net/w", next="net/w", conv="bias")
    start("depthwise", conv="net/c/depthwise_kernel", dense="net/e/embeddings")
    start("pointwise", conv="net/c/pointwise_kernel")
    start("transposed", **(names | {"conv": "net/conv2d_transpose/kernel"})).hold(0, "c", kernel="conv", bias="bias")
    start("convolution", **names).hold(0, "c", _kernel="conv", bias="bias")
    start("convolution2", **names).hold(0, "c", kernel="conv")
    start("contradicted", **names).hold(0, "c", _kernel="dense", bias="next")
    start("random_state", iterations="dropout/seed_generator_state")
    start("counted", iterations="iteration").hold(0, "o", _iterations="iterations")
    made["metric"] = Objects(names, apart=("gamma", "iterations"))
    made["metric"].hold(0, "_loss_tracker", total="gamma", count="iterations")
    objects = start("exported", **names)
    objects.list(0, "variables", "dense", "bias")
    copies = objects.child(0, "_all_variables")
    for place, (key, full_name) in enumerate([("next", "net/d/kernel"), ("beta", "net/d/bias")]):
        objects.store(objects.child(copies, str(place)), full_name, key)
    objects = start("exported_twice")
    objects.list(0, "variables", "gamma", "beta")
    copies = objects.child(0, "_all_variables")
    for place, key in enumerate(["bias", "moving_mean", "moving_variance"]):
        objects.store(objects.child(copies, str(place)), "", key)
    objects.child(copies, "x")
    objects.store(objects.child(copies, "7"), "", "gone")
    objects.child(copies, "8")
    objects = start("values_of_a_table", **names)
    objects.store(objects.child(0, "table"), "table", "beta", "table-keys")
    objects = start("references_to_nothing", **names)
    objects.link(0, "gone", 99)
    objects.nodes[0] += message(1, field(1, 2**64 - 1) + text(2, "negative"))
    objects.nodes[0] += message(3, field(1, 99) + text(2, "m") + field(3, 1))
    objects.link(0, "dense", 2)
    return {name: (objects.bytes(), b"", b"") for name, objects in made.items()} | {
        "no_objects": (b"", b"", b""),
        "objects_of_another_kind": (field(8, 1), b"", b""),
        "objects_garbage": (b"\x0a\xff", b"", b""),
        "objects_of_other_fields": (
            message(7, b"x")
            + varint(6 << 3 | 1)
            + bytes(8)
            + varint(6 << 3 | 5)
            + bytes(4)
            + field(8, 1)
            + Objects().bytes(),
            b"",
            b"",
        ),
        "objects_group": (Objects().bytes() + b"\x0b", b"", b""),
        "objects_short_fixed": (Objects().bytes() + b"\x09\0", b"", b""),
        "objects_long_number": (Objects().bytes() + b"\xff" * 12, b"", b""),
    }


def optimizers() -> dict[str, Parts]:
    """Slots of each kind of optimiser."""
    made: dict[str, Objects] = {}

    def start(name: str, edge="optimizer", **full_names: str) -> tuple[Objects, int]:
        made[name] = objects = Objects(full_names)
        return objects, objects.hold(0, edge, _iterations="iterations", _learning_rate="iterations")

    def lists(name: str, *edges: str, trained: tuple[str, ...] | None = ("bias",)) -> None:
        objects, id = start(name, bias="net/d/bias")
        if trained is not None:
            objects.list(id, "_trainable_variables", *trained)
        for edge, key in zip(edges, ("gamma", "beta", "moving_mean", "moving_variance")):
            objects.list(id, edge, key)

    lists("adam", "_momentums", "_velocities", "_velocity_hats")
    lists("sgd", "momentums")
    lists("sgd3", "_momentums")
    lists("rms_prop", "_velocities", "_momentums", "_average_gradients")
    lists("adadelta", "_accumulated_grads", "_velocities")
    lists("of_another_length", "_momentums", trained=("bias", "gamma"))
    objects, id = start(
        "by_name",
        bias="net/d/bias",
        gamma="Adam/m/net/d/bias",
        beta="adam/net_d_bias_momentum",
        moving_mean="adam/net_d_bias_velocity_hat",
        moving_variance="adam/none",
    )
    objects.list(id, "_momentums", "gamma", "beta", "moving_mean", "moving_variance", "dense")
    objects.child(objects.child(id, "_velocities"), "0")
    objects, id = start(
        "by_name_of_two", bias="net/w", next="net/w", gamma="adam/net_w_momentum", beta="adam/net_w_velocity"
    )
    objects.list(id, "_momentums", "gamma", "beta")
    objects, id = start("slots", "_optimizer", bias="net/d/bias", gamma="net/g")
    objects.slot(id, "bias", "m", "beta")
    objects.slot(id, "bias", "v", "gamma")
    objects.slot(id, "moving_mean", "v", "moving_variance")
    objects.nodes[id] += message(3, field(1, 0) + text(2, "m") + field(3, 1))
    objects.store(objects.child(0, "away"), "", "gone")
    objects.nodes[id] += message(3, field(1, 4) + text(2, "m") + field(3, len(objects.nodes) - 1))
    objects, id = start("numbers")
    for edge in ("beta_1", "beta_2", "decay", "momentum", "rho", "epsilon", "other"):
        objects.link(id, edge, len(VARIABLES))
    objects.link(id, "learning_rate", 1)
    objects.child(id, "iter")
    objects = made["legacy"] = Objects()
    objects.hold(0, "o", iter="iterations", learning_rate="iterations", beta_1="iterations")
    objects.hold(0, "p", _trainable_variables_indices="iterations")
    objects = made["many_optimizers"] = Objects()
    for number in range(18):
        objects.list(objects.hold(0, f"o{number}", iter="iterations", learning_rate="iterations"), "_m", "gamma")
    return {f"optimizer_{name}": (objects.bytes(), b"", b"") for name, objects in made.items()}


# Keras 2's metadata.


def layer(kind: str, name: str = "", inbound=None, **config) -> dict:
    described = {"class_name": kind, "name": name, "config": {"name": name} | config}
    return described if inbound is None else described | {"inbound_nodes": inbound}


def saved_object(path: str, description) -> bytes:
    described = description if isinstance(description, str) else json.dumps(description)
    return message(1, text(3, path) + text(5, described))


def metadata() -> dict[str, Parts]:
    """Layers by their classes, and what is wrong with them."""
    objects = Objects()
    held = {
        "d": {"kernel": "dense", "bias": "bias"},
        "e": {"kernel": "next", "bias": "bias"},
        "c": {"kernel": "conv", "bias": "bias"},
        "n": {"gamma": "gamma", "beta": "beta", "moving_mean": "moving_mean", "moving_variance": "moving_variance"},
    }
    for name, variables in held.items():
        objects.hold(0, name, **variables)
    objects.link(0, "twin", 1)
    named = b"".join(saved_object(f"root.{name}", {"config": {"name": name}}) for name in held)
    named += saved_object("root.twin", {"name": "d2"}) + saved_object("root.d", {"name": "d2"})
    named += (
        saved_object("root.none", {})
        + saved_object("other.d", {})
        + saved_object("root.e", "no JSON")
        + saved_object("root.c", {})
    )
    root = lambda layers, kind="Sequential", **config: {
        "class_name": kind,
        "config": {"name": "net", "layers": layers} | config,
    }
    of = lambda layers, **more: (objects.bytes(), b"", saved_object("root", root(layers, **more)) + named)
    tuple_of = lambda *items: {"class_name": "__tuple__", "items": list(items)}
    rows, images = layer("InputLayer", "i", batch_input_shape=[None, 6]), layer(
        "InputLayer", "i", batch_input_shape=tuple_of(None, 5, 5, 2)
    )
    dense = lambda name="d", **config: layer("Dense", name, **({"activation": "relu"} | config))
    window = {"strides": [2, 2], "padding": "same", "activation": "linear"}
    conv = lambda **config: layer("Conv2D", "c", **(window | config))
    pool = lambda kind="MaxPooling2D", **config: layer(
        kind, "p", **({"pool_size": 2, "strides": tuple_of(2, 2), "padding": "valid"} | config)
    )
    normal = lambda **config: layer("BatchNormalization", "n", **({"axis": [3], "epsilon": 0.001} | config))
    around = lambda *layers: of([rows, dense(), *layers])
    after = lambda *layers: of([images, conv(), *layers])
    chain = lambda *names: [
        layer("Dense" if name != "i" else "InputLayer", name, inbound=inbound, batch_input_shape=[None, 6])
        for name, inbound in names
    ]
    functional = lambda layers, output="e", kind="Functional": of(layers, kind=kind, output_layers=output)
    step = lambda before, *more: [[[before, 0, 0, *more]]]
    two = ("i", []), ("d", step("i"))
    return {
        "keras_dense": around(dense("e", use_bias=False)),
        "keras_first_shape": of([dense(batch_input_shape=[None, 6])]),
        "keras_no_shape": of([dense()]),
        "keras_second_input": around(rows, dense("e")),
        "keras_images": after(layer("Flatten", "f")),
        "keras_channels_first": after(layer("Flatten", "f", data_format="channels_first")),
        "keras_pool": after(pool()),
        "keras_average_pool": after(pool("AveragePooling2D")),
        "keras_pool_of_none": after(pool(pool_size=None)),
        "keras_pool_of_three": after(pool(pool_size=[1, 2, 3])),
        "keras_pool_padding": after(pool(padding="other")),
        "keras_pool_dilated": after(pool(dilation_rate=[2, 2])),
        "keras_conv_padding": of([images, conv(padding=1)]),
        "keras_conv_dilation": of([images, conv(dilation_rate="x")]),
        "keras_conv_strides": of([images, conv(strides=[None, 1])]),
        "keras_global_pool": after(layer("GlobalAveragePooling2D", "g")),
        "keras_global_pool_kept": after(layer("GlobalAveragePooling2D", "g", keepdims=True), layer("Flatten", "f")),
        "keras_normal": after(normal()),
        "keras_normal_axis": after(normal(axis=3)),
        "keras_normal_other_axis": after(normal(axis=1)),
        "keras_normal_no_axis": after(normal(axis=[1, 2])),
        "keras_normal_no_epsilon": after(normal(epsilon=None)),
        "keras_normal_unknown": after(layer("BatchNormalization", "d", axis=3, epsilon=0.1)),
        "keras_dropout": around(layer("Dropout", "o"), layer("GaussianNoise", "g")),
        "keras_activation": around(layer("Activation", "a", activation="softmax")),
        "keras_activation_unknown": around(layer("Activation", "a", activation="mine")),
        "keras_activation_object": around(layer("Activation", "a", activation={"class_name": "Mine"})),
        "keras_relu": around(layer("ReLU", "a", negative_slope=0.0)),
        "keras_relu6": around(layer("ReLU", "a", max_value=6)),
        "keras_leaky": around(layer("LeakyReLU", "a", alpha=0.20000000298023224)),
        "keras_leaky_of_none": around(layer("LeakyReLU", "a")),
        "keras_elu": around(layer("ELU", "a", alpha={"value": 1.1})),
        "keras_softmax": around(layer("Softmax", "a", axis=-1)),
        "keras_softmax_of_columns": around(layer("Softmax", "a", axis=1)),
        "keras_unknown": around(layer("Embedding", "a")),
        "keras_no_class": around({}),
        "keras_no_variable": of([rows, dense("n")]),
        "keras_no_name": of([rows, dense("gone")]),
        "keras_two_names": of([rows, dense("d2")]),
        "keras_nothing": of([]),
        "keras_nested": of([rows, {"class_name": "Sequential", "config": {"layers": [dense()]}}, dense("e")]),
        "keras_nested_unlisted": of([rows, {"class_name": "Model", "config": {}}]),
        "keras_functional": functional(chain(*two, ("e", step("d"))), [["e", 0, 0]]),
        "keras_functional_flat": functional(chain(*two, ("e", [["d", 0, 0]])), ["e", 0, 0], "Model"),
        "keras_functional_keywords": functional(chain(*two, ("e", step("d", {}))), [["e", 0, 0]]),
        "keras_functional_arguments": functional(chain(*two, ("e", step("d", {"training": True}))), [["e", 0, 0]]),
        "keras_functional_two_inputs": functional(chain(*two, ("e", [[["d", 0, 0], ["i", 0, 0]]])), [["e", 0, 0]]),
        "keras_functional_twice": functional(chain(*two, ("e", [*step("d"), *step("i")])), [["e", 0, 0]]),
        "keras_functional_circle": functional(chain(("d", step("e")), ("e", step("d"))), [["e", 0, 0]]),
        "keras_functional_rest": functional(chain(*two, ("e", step("d"))), [["d", 0, 0]]),
        "keras_functional_no_output": functional(chain(*two), None),
        "keras_functional_empty_output": functional(chain(*two), []),
        "keras_functional_odd_output": functional(chain(*two), [7]),
        "keras_subclassed": (objects.bytes(), b"", saved_object("root", {"class_name": "Mine", "config": {}})),
        "keras_no_root": (objects.bytes(), b"", named),
        "keras_no_json": (objects.bytes(), b"", saved_object("root", "{")),
        "keras_garbage": (objects.bytes(), b"", b"\xff"),
        "keras_and_model": (*body(node("m", "MatMul", "x", "dense:value:0"), "m:product:0")[:2], b"\xff"),
    }
