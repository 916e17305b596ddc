"""Compares the graphs of Keras's configurations with what Keras computes.

    python keras_configs.py --run PROGRAM [NAME…]
    python keras_configs.py --fixtures codecs/keras/tests/it/config/models

PROGRAM is the example `run_config` of ckpt-keras. Every model is made by Keras 3, and by tf_keras where it can; its
weights are random numbers. The program runs the graph with the variables under the paths of `.weights.h5`; the results
must be those of Keras. The groups and positions in `.h5` are compared, too.
"""

import argparse
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import h5py
import keras
import numpy as np
import safetensors.numpy
import tf_keras

import keras_models

BOUND = 1e-5


def make(k, name, folder):
    """Makes a model and its files, and returns what it computes and its own variables by path."""
    random = np.random.default_rng(sum(map(ord, name)))
    k.backend.clear_session()
    k.utils.set_random_seed(3)
    model = keras_models.MODELS[name](k)
    if "normalization_with_variables" not in name:
        values = [np.abs(random.normal(size=w.shape)) + 0.1 if "variance" in w.name else random.normal(size=w.shape) * 0.4
                  for w in model.weights if "seed" not in w.name]
        if len(values) == len(model.weights):
            model.set_weights(values)
        else:
            fresh = iter(values)
            model.set_weights([np.array(w) if "seed" in w.name else next(fresh) for w in model.weights])
    folder.mkdir(parents=True)
    model.save(folder / "model.keras")
    with zipfile.ZipFile(folder / "model.keras") as archive:
        (folder / "config.json").write_bytes(archive.read("config.json"))
        file = h5py.File(io.BytesIO(archive.read("model.weights.h5")))
    found = {}
    file.visititems(lambda path, item: found.update({path: item[()]}) if isinstance(item, h5py.Dataset) else None)
    found = {path: value for path, value in found.items() if path.startswith("layers/") and "seed_generator" not in path}
    numbers = {path: np.asarray(value, "int32" if value.dtype.kind in "iu" else "float32") for path, value in found.items()}
    safetensors.numpy.save_file(numbers, folder / "weights.safetensors")
    inputs = {}
    for tensor, label in zip(model.inputs, input_names(json.loads((folder / "config.json").read_text())["config"])):
        shape = [2] + [13 if length is None else length for length in tensor.shape[1:]]
        is_integer = "int" in str(tensor.dtype) or "embedding" in name or name in ("masked_lstm", "category")
        inputs[label] = (random.integers(0, 2 if len(shape) == 3 else 7, shape).astype("int32") if is_integer
                                             else random.normal(size=shape).astype("float32"))
    if name == "masking":
        next(iter(inputs.values()))[:, 1] = 0
    safetensors.numpy.save_file(inputs, folder / "inputs.safetensors")
    given = list(inputs.values())
    if isinstance(getattr(model, "_inputs_struct", None), dict) or isinstance(getattr(model, "_nested_inputs", None), dict):
        given = dict(zip(sorted(inputs), (inputs[key] for key in sorted(inputs))))
    elif len(given) == 1:
        given = given[0]
    made = model(given, training=False)
    flat = [made[key] for key in sorted(made)] if isinstance(made, dict) else made if isinstance(made, (list, tuple)) else [made]
    legacy(model, folder)
    return [np.asarray(value) for value in flat], found


def input_names(config):
    """The names of the input layers, in the model's order."""
    if "input_layers" not in config:
        return [config["layers"][0]["config"]["name"]]
    names, ends = [], [config["input_layers"]]
    while ends:
        end = ends.pop(0)
        if isinstance(end, dict):
            ends = [end[key] for key in sorted(end)] + ends
        elif isinstance(end[0], str):
            names.append(end[0])
        else:
            ends = list(end) + ends
    return names


def legacy(model, folder):
    try:
        model.save(folder / "model.h5")
    except Exception:  # A model that Keras cannot store so.
        (folder / "model.h5").unlink(missing_ok=True)


OPTIMIZERS = {
    "adam": lambda o: o.Adam(), "amsgrad": lambda o: o.Adam(amsgrad=True), "adamw": lambda o: o.AdamW(),
    "nadam": lambda o: o.Nadam(), "adamax": lambda o: o.Adamax(), "sgd": lambda o: o.SGD(), "momentum": lambda o: o.SGD(momentum=0.9),
    "rmsprop": lambda o: o.RMSprop(), "centered": lambda o: o.RMSprop(centered=True, momentum=0.9), "lion": lambda o: o.Lion(),
    "adagrad": lambda o: o.Adagrad(), "adadelta": lambda o: o.Adadelta(), "ftrl": lambda o: o.Ftrl(),
    "adafactor": lambda o: o.Adafactor(), "average": lambda o: o.Adam(use_ema=True),
    "schedule": lambda o: o.Adam(o.schedules.ExponentialDecay(0.01, 10, 0.9)),
}


def check_optimizer(k, name, folder, program):
    """Trains a model for two steps, and compares the slots with the optimizer's own variables."""
    L = k.layers
    k.backend.clear_session()
    model = k.Sequential([k.Input((6, 3)), L.Conv1D(4, 3), L.BatchNormalization(), L.Flatten(), L.Dense(2)])
    model.layers[-1].trainable = name != "momentum"
    model.compile(OPTIMIZERS[name](k.optimizers), "mse")
    random = np.random.default_rng(4)
    model.fit(random.normal(size=(8, 6, 3)), random.normal(size=(8, 2)), batch_size=4, verbose=0)
    folder.mkdir(parents=True)
    model.save(folder / "model.keras")
    with zipfile.ZipFile(folder / "model.keras") as archive:
        (folder / "config.json").write_bytes(archive.read("config.json"))
        file = h5py.File(io.BytesIO(archive.read("model.weights.h5")))
    found = {}
    file.visititems(lambda path, item: found.update({path: item[()]}) if isinstance(item, h5py.Dataset) else None)
    weights = {path: value for path, value in found.items() if path.startswith("layers/")}
    safetensors.numpy.save_file(weights, folder / "weights.safetensors")
    safetensors.numpy.save_file({"input_layer": np.zeros((1, 6, 3), "float32")}, folder / "inputs.safetensors")
    subprocess.run([program, folder], check=False, capture_output=True)
    slots = json.loads((folder / "optimizer.json").read_text())
    own = {path: value for path, value in found.items() if path.startswith("optimizer/")}
    assert sorted(own) == sorted(slot["path"] for slot in slots), (sorted(own), slots)
    by_name = {v["name"]: v["path"] for v in json.loads((folder / "variables.json").read_text())}
    variables = model.optimizer.variables
    for slot, variable in zip(slots, variables() if callable(variables) else variables):
        assert np.array_equal(own[slot["path"]], np.array(variable)), slot
        if slot["variable"] and slot["name"] not in "rc":
            assert own[slot["path"]].shape == found[by_name[slot["variable"]]].shape, slot
            flat = variable.name.replace("/", "_")
            assert slot["variable"].replace("/", "_") in flat or k is keras, (slot, variable.name)


def check(folder, expected, found):
    """Returns the greatest difference, relative to the greatest number."""
    variables = json.loads((folder / "variables.json").read_text())
    paths = [variable["path"] for variable in variables]
    assert sorted(paths) == sorted(found), set(paths) ^ set(found)
    if (folder / "model.h5").exists():
        with h5py.File(folder / "model.h5") as file:
            for variable in variables:
                group = file["model_weights"][variable["group"]]
                name = group.attrs["weight_names"][variable["position"]]
                stored = group[name.decode() if isinstance(name, bytes) else name][()]
                assert np.array_equal(stored, found[variable["path"]]), variable
    made = safetensors.numpy.load_file(folder / "outputs.safetensors")
    assert len(made) == len(expected), (len(made), len(expected))
    worst = 0.0
    for at, value in enumerate(expected):
        own = made[str(at)]
        assert own.shape == value.shape, (at, own.shape, value.shape)
        difference = np.abs(own - value).max() / max(1.0, np.abs(value).max())
        assert difference <= BOUND, (at, difference)
        worst = max(worst, difference)
    return worst


def check_described(k, folder, inputs, expected, found):
    """Loads the model that describes the graph, and compares what it computes."""
    config = (folder / "described.json").read_bytes()
    paths = {variable["name"]: variable["path"] for variable in json.loads((folder / "variables.json").read_text())}
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.create_group("vars")
        for variable in json.loads((folder / "order.json").read_text()):
            file[variable["path"]] = np.transpose(found[paths[variable["tensor"]]], variable["order"])
    with zipfile.ZipFile(folder / "described.keras", "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": k.__version__, "date_saved": ""}))
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", buffer.getvalue())
    model = (k.saving if k is keras else k.models).load_model(folder / "described.keras", compile=False)
    given = list(inputs.values())
    made = model(given if len(given) > 1 else given[0], training=False)
    made = made if isinstance(made, (list, tuple)) else [made]
    assert len(made) == len(expected), (len(made), len(expected))
    for at, (own, value) in enumerate(zip(made, expected)):
        difference = np.abs(np.asarray(own) - value).max() / max(1.0, np.abs(value).max())
        assert own.shape == value.shape and difference <= BOUND, (at, own.shape, value.shape, difference)
    return json.loads(config)["class_name"]


# What the tests of ckpt-keras have of each model: its configuration without what only training needs, and the shapes.
TRAINING = ("initializer", "regularizer", "constraint", "shared_object_id", "build_config", "compile_config", "seed", "autocast")
FIXTURES = ["activation_layers", "arithmetic", "attention", "batch_norm", "bidirectional", "causal_attention", "conv1d", "conv2d",
            "conv2d_groups", "depthwise", "dot", "einsum_dense", "embedding", "group_norm", "gru", "layer_norm", "lstm", "merges",
            "merges_of_images", "nested", "padding_and_cropping", "pooling", "recurrent_states", "residual", "rnn_cells",
            "rotated_images", "separable", "shapes", "shared_layer", "time_distributed", "transformer_block", "transposed2d", "upsampling"]


def without_training(value):
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not any(word in key for word in TRAINING)}
        return {key: without_training(item) for key, item in kept.items()}
    return [without_training(item) for item in value] if isinstance(value, list) else value


def write_fixtures(target):
    for k in (keras, tf_keras):
        (target / k.__name__).mkdir(parents=True, exist_ok=True)
        for name in FIXTURES:
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch) / "model"
                _, found = make(k, name, folder)
                config = without_training(json.loads((folder / "config.json").read_text()))
            shapes = {path: list(value.shape) for path, value in sorted(found.items())}
            text = json.dumps({"config": config, "shapes": shapes}, separators=(",", ":"))
            (target / k.__name__ / f"{name}.json").write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run")
    parser.add_argument("--fixtures", type=pathlib.Path, help="write the configurations that the crate's tests read")
    parser.add_argument("--keras", choices=["keras", "tf_keras"])
    parser.add_argument("--optimizers", action="store_true", help="compare optimizers alone")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.fixtures:
        return write_fixtures(arguments.fixtures)
    failed, compared, described, refused = [], 0, 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for k in [k for k in (keras, tf_keras) if arguments.keras in (None, k.__name__)]:
            for name in [] if arguments.optimizers else arguments.names or keras_models.MODELS:
                if k is tf_keras and name in keras_models.ONLY3:
                    continue
                folder = pathlib.Path(scratch) / k.__name__ / name
                label = f"{k.__name__} {name}"
                try:
                    expected, found = make(k, name, folder)
                    done = subprocess.run([arguments.run, folder], capture_output=True, text=True)
                    assert done.returncode == 0, done.stderr
                    reason = folder / "reason.txt"
                    if name in keras_models.REFUSED:
                        assert reason.exists() and keras_models.REFUSED[name] in reason.read_text(), "not refused"
                        refused += 1
                        print(f"{label}: refused: {reason.read_text()}")
                        continue
                    assert not reason.exists(), reason.read_text()
                    worst = check(folder, expected, found)
                    compared += 1
                    reason = folder / "not_described.txt"
                    if reason.exists():
                        print(f"{label}: {worst:.1e}; not described: {reason.read_text()}")
                        continue
                    inputs = safetensors.numpy.load_file(folder / "inputs.safetensors")
                    names = input_names(json.loads((folder / "config.json").read_text())["config"])
                    inputs = {key: inputs[key] for key in names}
                    print(f"{label}: {worst:.1e}; described: {check_described(k, folder, inputs, expected, found)}")
                    described += 1
                except Exception as error:
                    failed.append(label)
                    print(f"{label}: FAILED: {type(error).__name__}: {str(error)[:1500]}")
                sys.stdout.flush()
            for name in OPTIMIZERS if not arguments.names else []:
                try:
                    check_optimizer(k, name, pathlib.Path(scratch) / k.__name__ / f"optimizer_{name}", arguments.run)
                    compared += 1
                    print(f"{k.__name__} optimizer {name}: equal")
                except Exception as error:
                    failed.append(f"{k.__name__} optimizer {name}")
                    print(f"{k.__name__} optimizer {name}: FAILED: {type(error).__name__}: {str(error)[:600]}")
                sys.stdout.flush()
    print(f"{compared} models compared, {described} described again, {refused} refused, {len(failed)} failed: {', '.join(failed)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
