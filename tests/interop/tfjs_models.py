#!/usr/bin/env python3
"""Writes models for TensorFlow.js and runs them there, beside Keras.

    python tests/interop/tfjs_models.py --ckpt target/debug/ckpt --package FOLDER     (packages: requirements.txt)

FOLDER is a copy of tests/interop/tfjs in which `npm install` was run. Every model of keras_models.py, by Keras 3 and by tf_keras,
becomes a folder that `tf.loadLayersModel` loads and that computes the same, or is refused with the layer that TensorFlow.js does
not have. Weights come back bit for bit. The last line counts what ran.
"""

import argparse
import base64
import collections
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
LEAST = {"keras": 25, "tf_keras": 25}


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


def models(program, folder, library_name, wanted):
    """Converts every model, and runs those that were written."""
    library, ending = LIBRARIES[library_name]
    jobs, expected, refused, wrong = [], [], {}, []
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
        target = folder / f"{library_name}-{name}"
        code, said = program.convert(source, target, "--to", "tfjs", "--set", "content=layers")
        if code:
            refused[name] = next((line for line in said.splitlines() if line.startswith("error")), said)
            continue
        inputs = [{"shape": one.shape, "dtype": str(one.dtype), "data": one.ravel().tolist()} for one in given]
        jobs.append({"folder": str(target), "inputs": inputs})
        expected.append((name, outputs))
    answers = program.run(folder, jobs)
    for answer, (name, outputs) in zip(answers, expected, strict=True):
        why = compare(answer, outputs)
        if why:
            wrong.append(f"{library_name} {name}: {why}")
    for name, why in refused.items():
        print(f"{library_name} {name}: refused: {why[:200]}")
    ran = len(jobs) - len(wrong)
    print(f"{library_name}: {ran} kinds of models compute the same in TensorFlow.js, {len(refused)} are refused")
    return wrong, ran


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
    parser.add_argument("--library", choices=LIBRARIES)
    parser.add_argument("--model", help="only models with this in their name")
    parser.add_argument("--keep", type=pathlib.Path, help="where the files stay")
    arguments = parser.parse_args()
    program = Program(arguments.ckpt, arguments.package)
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        weights(program, folder)
        wrong = cases(program, folder)
        for name in [arguments.library] if arguments.library else LIBRARIES:
            found, ran = models(program, folder, name, arguments.model)
            wrong += found
            counts[name] = ran
            if not arguments.model and ran < LEAST[name]:
                wrong.append(f"{name}: only {ran} models ran")
    print(*wrong, sep="\n")
    print(f"{sum(counts.values())} models computed the same in TensorFlow.js, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
