#!/usr/bin/env python3
"""Writes models for TensorFlow.js and runs them there, beside Keras.

    python tests/interop/tfjs_models.py --ckpt target/debug/ckpt --package FOLDER     (packages: requirements.txt)

FOLDER is a copy of tests/interop/tfjs in which `npm install` was run. Every model of keras_models.py, by Keras 3 and by tf_keras,
becomes a folder that `tf.loadLayersModel` loads, and one that `tf.loadGraphModel` loads; both compute the same, or are refused with
the layer that TensorFlow.js does not have. So do the models of onnx_models.py, as graphs. Weights come back bit for bit. The last
line counts what ran.
"""

import argparse
import base64
import collections
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import absl.logging
import keras
import keras_examples
import keras_models
import numpy as np
import safetensors.numpy
import tf_keras

absl.logging.set_verbosity(absl.logging.ERROR)
LIBRARIES = {"keras": (keras, ".keras"), "tf_keras": (tf_keras, ".h5")}
# Largest difference, of the largest value.
BOUND = 2e-5
# At least so many kinds of models run in TensorFlow.js.
LEAST = {("keras", "layers"): 25, ("tf_keras", "layers"): 25, ("keras", "graph"): 65, ("tf_keras", "graph"): 25, ("onnx", "graph"): 3}


class Program:
    def __init__(self, ckpt, package):
        self.ckpt, self.package = ckpt.resolve(), package.resolve()

    def convert(self, *arguments):
        done = subprocess.run([self.ckpt, "convert", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def run(self, folder, jobs):
        """The answers of TensorFlow.js, one for each job."""
        path = folder / "jobs.json"
        path.write_text(json.dumps(jobs))
        done = subprocess.run(["node", self.package / "run.mjs", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert len(answers) == len(jobs), done.stderr[-2000:]
        return answers


def compare(answer, expected):
    if "error" in answer:
        return answer["error"][:300]
    outputs = [np.array([float(number) for number in item["data"]], np.float64).reshape(item["shape"]) for item in answer["outputs"]]
    if [one.shape for one in outputs] != [one.shape for one in expected]:
        return f"shapes {[one.shape for one in outputs]} instead of {[one.shape for one in expected]}"
    for one, other in zip(outputs, expected):
        largest = max(1.0, float(np.abs(other).max(initial=0)))
        difference = float(np.abs(one - other).max(initial=0)) / largest
        if not difference <= BOUND:
            return f"differs by {difference:.2g} of the largest value"
    return None


def models(program, folder, library_name, content, wanted):
    """Converts every model to layers or to a graph, and runs those that were written."""
    library, ending = LIBRARIES[library_name]
    run = Run(program, folder, f"{library_name} as {content}", content)
    for name in keras_models.MODELS:
        if (library is tf_keras and name in keras_models.ONLY3) or (wanted and wanted not in name):
            continue
        try:
            model = keras_examples.build(library, name)
            source = folder / f"{library_name}-{name}{ending}"
            model.save(source)
            given = keras_examples.inputs(model, np.random.default_rng(5))
            outputs = keras_examples.flat(model(given if len(given) > 1 else given[0], training=False))
        except Exception as error:
            print(f"{library_name} {name}: not made: {str(error).splitlines()[0][:120] if str(error) else type(error).__name__}")
            continue
        run.model(name, source, given, outputs)
    return run.report()


class Run:
    """Models that are converted, and what TensorFlow.js computes of them."""

    def __init__(self, program, folder, title, content):
        self.program, self.folder, self.title, self.content = program, folder, title, content
        self.jobs, self.expected, self.refused = [], [], {}

    def model(self, name, source, given, outputs):
        target = self.folder / f"{self.title.replace(' ', '-')}-{name}"
        # Shapes are integers of 64 bits in ONNX; one that 32 bits do not hold is an error.
        code, said = self.program.convert(source, target, "--to", "tfjs", "--set", f"content={self.content}", "--allow", "narrowed")
        if code:
            lines = [line.strip() for line in said.splitlines()]
            self.refused[name] = " ".join(line for line in lines if line.startswith(("error", "found", "field"))) or said
            return
        inputs = [{"shape": one.shape, "dtype": kind_of(one), "data": one.ravel().tolist()} for one in given]
        self.jobs.append({"folder": str(target), "inputs": inputs})
        self.expected.append((name, outputs))

    def report(self):
        answers, wrong = self.program.run(self.folder, self.jobs), []
        for answer, (name, outputs) in zip(answers, self.expected, strict=True):
            why = compare(answer, outputs)
            if why:
                wrong.append(f"{self.title} {name}: {why}")
        for name, why in self.refused.items():
            print(f"{self.title} {name}: refused: {why[:240]}")
        ran = len(self.jobs) - len(wrong)
        print(f"{self.title}: {ran} kinds of models compute the same in TensorFlow.js, {len(self.refused)} are refused")
        return wrong, ran


def kind_of(array):
    """The dtype of TensorFlow.js."""
    kinds = {"b": "bool", "f": "float32"}
    return kinds.get(array.dtype.kind, "int32")


def onnx_models_of(program, folder, wanted):
    """Models that have no layers of Keras."""
    sys.argv += ["--ckpt", str(program.ckpt)] if "--ckpt" not in sys.argv else []
    import onnx_models

    run = Run(program, folder, "onnx as graph", "graph")
    names = ("dense", "convolution", "shapes", "attention", "places", "free_axes", "branches", "loops", "trigonometry", "powers")
    for model in onnx_models.computed(folder, [name for name in names if not wanted or wanted in name]):
        run.model(*model)
    return run.report()


def weights(program, folder):
    """Weights of every dtype, in shards of 100 bytes, as TensorFlow.js decodes them."""
    random = np.random.default_rng(1)
    arrays = {
        "f32": random.normal(size=(7, 30)).astype(np.float32),
        "f16": random.normal(size=(5, 9)).astype(np.float16),
        "i32": random.integers(-9, 9, (3, 4)).astype(np.int32),
        "u8": random.integers(0, 255, (11,)).astype(np.uint8),
        "scalar": np.array(2.5, np.float32),
        "empty": np.zeros((0, 3), np.float32),
        "bool": np.array([True, False, True]),
    }
    safetensors.numpy.save_file(arrays, folder / "w.safetensors")
    target = folder / "weights"
    code, said = program.convert(folder / "w.safetensors", target, "--to", "tfjs", "--shard-size", "100")
    assert code == 0, said
    assert len(list(target.glob("group1-shard*"))) > 5
    found = program.run(folder, [{"folder": str(target)}])[0]["weights"]
    assert found.keys() == arrays.keys(), found.keys()
    for name, array in arrays.items():
        kind = {"bool": np.uint8, "i32": np.int32, "u8": np.int32}.get(name, np.float32)
        own = np.frombuffer(base64.b64decode(found[name]["data"]), kind).reshape(found[name]["shape"])
        assert np.array_equal(own, array.astype(kind)), name
    code, said = program.convert(target, folder / "back.safetensors")
    assert code == 0, said
    back = safetensors.numpy.load_file(folder / "back.safetensors")
    assert all(np.array_equal(back[name], array) for name, array in arrays.items())
    print(f"{len(arrays)} arrays are decoded bit for bit")


def quantized(program, folder):
    """Floats as integers: TensorFlow.js decodes the numbers of the converter's scales."""
    random = np.random.default_rng(2)
    arrays = {
        "around_zero": random.normal(size=(40, 30)).astype(np.float32),
        "above_zero": random.uniform(1, 5, (7, 9)).astype(np.float32),
        "below_zero": random.uniform(-3, -1, (50,)).astype(np.float32),
        "one_number": np.full((3, 3), 0.7, np.float32),
        "halves": random.normal(size=(6, 6)).astype(np.float16),
        "scalar": np.array(2.5, np.float32),
        "integers": np.arange(6, dtype=np.int32),
    }
    safetensors.numpy.save_file(arrays, folder / "q.safetensors")
    count = 0
    for dtype in (np.uint8, np.uint16):
        target = folder / f"quantized-{np.dtype(dtype).name}"
        code, said = program.convert(folder / "q.safetensors", target, "--to", "tfjs", "--set", f"quantize={np.dtype(dtype).name}", "--verify")
        assert code == 0, said
        found = program.run(folder, [{"folder": str(target)}])[0]["weights"]
        for name, array in arrays.items():
            kind = np.int32 if name == "integers" else np.float32
            own = np.frombuffer(base64.b64decode(found[name]["data"]), kind).reshape(found[name]["shape"])
            expected = array if name == "integers" else decoded(array.astype(np.float32), dtype)
            assert np.array_equal(own, expected), (name, own, expected)
            count += 1
    print(f"{count} arrays of integers are decoded bit for bit")


def decoded(array, dtype):
    """What the integers stand for that `tensorflowjs.quantization.quantize_weights` chooses."""
    least, most = np.float64(array.min()), np.float64(array.max())
    if least == most:
        return np.full_like(array, least)
    largest = np.iinfo(dtype).max
    scale = (most - least) / largest
    if least <= 0 <= most:
        least = -np.round(-least / scale) * scale
        most = largest * scale + least
    integers = np.round((array.clip(least, most) - least) / scale).astype(dtype)
    return (integers.astype(np.float64) * scale + least).astype(np.float32)


def cases(program, folder):
    """Models that TensorFlow.js and its converter wrote: what `ckpt run` computes is what TensorFlow.js does."""
    root = os.environ.get("CKPT_CASES")
    if not root:
        print("CKPT_CASES is not set: models by other programs are skipped")
        return []
    wrong, ran = [], 0
    for case in sorted(pathlib.Path(root, "tfjs").iterdir()):
        expected, arrays = json.loads((case / "expected.json").read_text()), case / "io.npz"
        if not arrays.exists():
            continue
        known, given = dict(np.load(arrays)), expected["inputs"]
        inputs, outputs = folder / "inputs.safetensors", folder / "outputs.safetensors"
        # TensorFlow.js looks up rows by numbers of any type.
        is_of_rows = "embedding" in case.name
        safetensors.numpy.save_file({name: known[name].astype(np.int32) if is_of_rows else known[name] for name in given}, inputs)
        named = [f"{name}={inputs}:{name}" for name in given] if len(given) > 1 else [f"{inputs}:{given[0]}"]
        outputs.unlink(missing_ok=True)
        options = [option for one in named for option in ("--input", one)]
        done = subprocess.run([program.ckpt, "run", case, *options, "-o", outputs], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            wrong.append(f"{case.name}: {done.stderr.strip()[:400]}")
            continue
        found = safetensors.numpy.load_file(outputs)
        for name in expected["outputs"]:
            one = found[name] if name in found else next(iter(found.values()))
            other = known[name]
            if np.isnan(other).all():
                # TensorFlow.js takes a normalization of the batch itself for one by empty statistics, and computes no numbers.
                assert np.isfinite(one).all(), case.name
                continue
            largest = max(1.0, float(np.abs(other).max(initial=0)))
            if one.shape != other.shape or not float(np.abs(one.astype(np.float64) - other).max(initial=0)) <= BOUND * largest:
                wrong.append(f"{case.name}: another {name}")
        ran += 1
    print(f"{ran} models by TensorFlow.js and its converter compute the same")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True, type=pathlib.Path)
    parser.add_argument("--package", required=True, type=pathlib.Path, help="a folder with run.mjs and its node_modules")
    parser.add_argument("--library", choices=[*LIBRARIES, "onnx"])
    parser.add_argument("--content", choices=["layers", "graph"])
    parser.add_argument("--model", help="only models with this in their name")
    parser.add_argument("--keep", type=pathlib.Path, help="where the files stay")
    arguments = parser.parse_args()
    program = Program(arguments.ckpt, arguments.package)
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        weights(program, folder)
        quantized(program, folder)
        wrong = cases(program, folder)
        names = [arguments.library] if arguments.library else [*LIBRARIES, "onnx"]
        contents = [arguments.content] if arguments.content else ["layers", "graph"]
        for key in itertools.product(names, contents):
            if key == ("onnx", "layers"):
                continue
            made = onnx_models_of(program, folder, arguments.model) if key[0] == "onnx" else models(program, folder, *key, arguments.model)
            found, counts[key] = made
            wrong += found
            if not arguments.model and counts[key] < LEAST[key]:
                wrong.append(f"{key}: only {counts[key]} models ran")
    print(*wrong, sep="\n")
    print(f"{sum(counts.values())} models computed the same in TensorFlow.js, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
