#!/usr/bin/env python3
"""Converts what TensorFlow wrote and compares with TensorFlow, Keras and safetensors-python.

    python tests/interop/run.py --ckpt target/debug/ckpt     (packages: requirements.txt)

Each check is a function below; the last line counts them: `interop: 37 passed, 0 failed`.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback

import checkpoints as make
import keras
import ml_dtypes
import nn_file
import numpy as np
import safetensors
import safetensors.numpy
import tensorflow as tf

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": ml_dtypes.bfloat16,
    "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "I64": "int64", "I32": "int32", "I16": "int16",
    "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}
CKPT = ""
CHECKS = []


def check(*arguments):
    """Registers a check; with arguments, once for each."""

    def register(function):
        for argument in arguments or [None]:
            suffix = "" if argument is None else f"[{argument}]"
            CHECKS.append((function.__name__ + suffix, function, () if argument is None else (argument,)))
        return function

    return register


def convert(source, target, *arguments, fails=False) -> str:
    command = [CKPT, "convert", *map(str, arguments), str(source), str(target)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    message = f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
    assert done.returncode in ((1, 2, 3, 4, 5) if fails else (0,)), message
    if fails:
        assert not pathlib.Path(target).exists(), "a failed conversion left its output behind"
    return done.stdout + done.stderr


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
    """A safetensors file by safetensors-python's parser, with the dtypes that numpy lacks."""
    parsed = safetensors.deserialize(path.read_bytes())
    return {name: np.frombuffer(bytes(entry["data"]), CODES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in parsed}


def load_set(index: pathlib.Path) -> dict[str, np.ndarray]:
    where = json.loads(index.read_text())["weight_map"]
    files = {name: load(index.parent / name) for name in set(where.values())}
    assert len(files) > 1, "not sharded"
    assert sum(map(len, files.values())) == len(where), "tensors that the index does not name"
    return {name: files[file][name] for name, file in where.items()}


def assert_equal(found: dict, expected: dict) -> None:
    """The same names, shapes and bits; a dtype that safetensors lacks may be one that holds its values exactly."""
    assert found.keys() == expected.keys(), f"names differ: {sorted(found.keys() ^ expected.keys())[:10]}"
    for name, value in expected.items():
        value, got = np.asarray(value), found[name]
        assert got.shape == value.shape, f"{name}: {got.shape} instead of {value.shape}"
        if got.dtype == value.dtype:
            assert got.tobytes() == value.tobytes(), f"{name}: other bits"
        else:
            assert value.dtype not in [np.dtype(code) for code in CODES.values()], f"{name}: {got.dtype}, not {value.dtype}"
            same = got.astype(np.float64) == value.astype(np.float64)
            nan = np.isnan(got.astype(np.float64)) & np.isnan(value.astype(np.float64))
            assert np.all(same | nan), f"{name}: {got.dtype} does not hold the values of {value.dtype}"


# tf2 → safetensors: every tensor, bit for bit.


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
    convert(path, out, "--from", "tf2", "--to", "safetensors", "--set", "names=key")
    assert_equal(load(out), make.stored(prefix))


@check("ckpt-1", "ckpt-1.index", "ckpt-1.data-00000-of-00001", "checkpoint", "")
def a_checkpoint_is_found_by_each_of_its_names(folder, name):
    prefix = make.checkpoint(make.mlp(), folder / "in")
    convert(folder / "in" / name, folder / "out.safetensors", "--set", "names=key")
    assert_equal(load(folder / "out.safetensors"), make.stored(prefix))


@check("16m", "64m")
def a_small_budget_gives_the_same_file(folder, budget):
    prefix = make.shapes(folder)
    convert(prefix, folder / "a.safetensors", "--set", "names=key")
    convert(prefix, folder / "b.safetensors", "--set", "names=key", "--max-memory", budget, "-j", "1")
    assert (folder / "a.safetensors").read_bytes() == (folder / "b.safetensors").read_bytes()


@check()
def a_sharded_set_holds_every_tensor_once(folder):
    prefix = make.sharded(folder)
    out = folder / "out.safetensors.index.json"
    convert(prefix, out, "--to", "safetensors", "--set", "names=key", "--set", "shard_size=1k")
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


def main() -> int:
    global CKPT
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True, help="the program to check")
    parser.add_argument("only", nargs="*", help="run only the checks whose names contain one of these")
    arguments = parser.parse_args()
    CKPT = str(pathlib.Path(arguments.ckpt).resolve())
    print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}, safetensors {safetensors.__version__}")
    passed, failed = 0, []
    for name, function, extra in CHECKS:
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        try:
            with tempfile.TemporaryDirectory() as folder:
                print(name, end="", flush=True)
                function(pathlib.Path(folder), *extra)
            print(" ok")
            passed += 1
        except Exception:
            print(" FAILED")
            traceback.print_exc(limit=-3)
            failed.append(name)
    for name in failed:
        print(f"failed: {name}")
    print(f"interop: {passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
