#!/usr/bin/env python3
"""Writes TensorFlow Lite models and runs them in its interpreter, beside Keras and onnxruntime.

    python tests/interop/tflite_files.py --ckpt target/debug/ckpt     (packages: requirements.txt, requirements-litert.txt)

Every model of keras_models.py becomes a `.tflite` that computes the same in 32 bits, and nearly so in 16, or is refused with the
layer that the format does not have. So do the models of onnx_models.py. With CKPT_CASES, models by TensorFlow's converter go
through ONNX and come back. Integers of 8 bits and their scales are those of TensorFlow's converter. The last line counts what ran.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np

# Largest difference, of the largest value.
BOUND, BOUND_OF_HALVES, BOUND_OF_INTEGERS = 2e-5, 2e-2, 5e-2
# At least so many models run in the interpreter.
LEAST = {"keras": 66, "tf_keras": 51, "onnx": 3}


def convert(ckpt, *arguments):
    done = subprocess.run([ckpt, "convert", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def interpret(jobs):
    """What the interpreter computes for each model and its inputs, in a process of its own: a model that is wrong can end it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, answers = pathlib.Path(scratch), []
        for number, (_, inputs) in enumerate(jobs):
            np.savez(folder / f"given-{number}.npz", **{str(place): array for place, array in enumerate(inputs)})
        while len(answers) < len(jobs):
            left = [(str(model), number) for number, (model, _) in enumerate(jobs)][len(answers):]
            command = [sys.executable, __file__, "--interpret", str(folder), json.dumps(left)]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            said = [line for line in done.stdout.splitlines() if line.startswith("{")]
            answers += [json.loads(line)["error"] for line in said]
            if len(said) < len(left):
                lines = [line for line in done.stderr.splitlines() if line.strip()]
                answers.append(lines[-1][:300] if lines else f"the interpreter ended with {done.returncode}")
        found = []
        for number, why in enumerate(answers):
            made = None if why else np.load(folder / f"made-{number}.npz")
            found.append((made and [made[str(place)] for place in range(len(made.files))], why))
        return found


def interpreted(folder, jobs):
    """The other end of `interpret`."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    for model, number in json.loads(jobs):
        error = None
        try:
            own = Interpreter(model_path=model, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
            arrays = np.load(pathlib.Path(folder, f"given-{number}.npz"))
            details = own.get_input_details()
            for place, detail in enumerate(details):
                own.resize_tensor_input(detail["index"], arrays[str(place)].shape)
            own.allocate_tensors()
            for place, detail in enumerate(details):
                own.set_tensor(detail["index"], arrays[str(place)].astype(detail["dtype"]))
            own.invoke()
            results = {str(place): own.get_tensor(detail["index"]) for place, detail in enumerate(own.get_output_details())}
            np.savez(pathlib.Path(folder, f"made-{number}.npz"), **results)
        except (RuntimeError, ValueError) as raised:
            error = str(raised)[:300]
        print(json.dumps({"error": error}), flush=True)


def differs(found, expected, bound):
    if [one.shape for one in found] != [one.shape for one in expected]:
        return f"shapes {[one.shape for one in found]} instead of {[one.shape for one in expected]}"
    for one, other in zip(found, expected):
        one, other = one.astype(np.float64), other.astype(np.float64)
        largest = max(1.0, float(np.abs(other).max(initial=0)))
        difference = float(np.abs(one - other).max(initial=0)) / largest
        if not difference <= bound:
            return f"differs by {difference:.2g} of the largest value"
    return None


class Run:
    def __init__(self, ckpt, folder):
        self.ckpt, self.folder = ckpt, folder
        self.written, self.refused, self.wrong = [], {}, []

    def model(self, name, source, inputs, expected):
        """Converts a model, in both widths."""
        for dtype, bound in (("f32", BOUND), ("f16", BOUND_OF_HALVES)):
            target = self.folder / f"{name}-{dtype}.tflite"
            code, said = convert(self.ckpt, source, target, "--dtype", dtype)
            if code or "graph-dropped" in said:
                self.refused[name] = said
                return
            self.written.append((name, f"{name} ({dtype})", target, inputs, expected, bound))

    def compare(self):
        """Runs what was written; returns the names of the models of which both widths compute the same."""
        ran = {name for name, *_ in self.written}
        found = interpret([(target, inputs) for _, _, target, inputs, _, _ in self.written])
        for (name, shown, _, _, expected, bound), (made, why) in zip(self.written, found, strict=True):
            why = why or (made and differs(made, expected, bound))
            if made == []:
                self.refused[name] = "the source has no graph"
            elif why:
                self.wrong.append(f"{shown}: {why}")
            else:
                continue
            ran.discard(name)
        return ran

    def report(self, title, least):
        ran = self.compare()
        for name, why in self.refused.items():
            print(f"{name}: refused: {' '.join(why.split())[:260]}")
        print(f"{title}: {len(ran)} models compute the same in the interpreter, {len(self.refused)} are refused")
        few = [f"only {len(ran)} models ran"] if len(ran) < least else []
        return [f"{title} {why}" for why in self.wrong + few]


def keras_models_of(ckpt, folder, library_name, wanted):
    import absl.logging
    import keras
    import keras_examples
    import keras_models
    import tf_keras

    absl.logging.set_verbosity(absl.logging.ERROR)
    library, ending = {"keras": (keras, ".keras"), "tf_keras": (tf_keras, ".h5")}[library_name]
    run = Run(ckpt, folder)
    for name in keras_models.MODELS:
        if (library is tf_keras and name in keras_models.ONLY3) or (wanted and wanted not in name):
            continue
        try:
            model = keras_examples.build(library, name)
            source = folder / f"{library_name}-{name}{ending}"
            model.save(source)
            given = keras_examples.inputs(model, np.random.default_rng(5))
            expected = keras_examples.flat(model(given if len(given) > 1 else given[0], training=False))
        except Exception as error:
            print(f"{library_name} {name}: not made: {str(error).splitlines()[0][:120] if str(error) else type(error).__name__}")
            continue
        run.model(f"{library_name}-{name}", source, given, expected)
    return run.report(library_name, 0 if wanted else LEAST[library_name])


def onnx_models_of(ckpt, folder, wanted):
    sys.argv += ["--ckpt", str(ckpt)] if "--ckpt" not in sys.argv else []
    import onnx_models

    run = Run(ckpt, folder)
    names = ("dense", "convolution", "shapes", "attention", "places", "free_axes", "branches", "loops", "sixteen_bits", "quantized",
             "trigonometry", "powers")
    for model in onnx_models.computed(folder, [name for name in names if not wanted or wanted in name]):
        run.model(*model)
    return run.report("onnx", 0 if wanted else LEAST["onnx"])


def integers(ckpt, folder):
    """Weights of 8 bits, beside TensorFlow's converter: the same integers and scales, and the same results."""
    import keras
    import tensorflow as tf
    from ai_edge_litert.interpreter import Interpreter

    L = keras.layers
    models = {
        "dense": keras.Sequential([keras.Input((40,)), L.Dense(64, "relu"), L.Dense(48, "tanh"), L.Dense(7)]),
        "rows": keras.Sequential([keras.Input((5, 40)), L.Dense(64, "relu"), L.Dense(32)]),
        "images": keras.Sequential([keras.Input((12, 12, 16)), L.Conv2D(32, 3, activation="relu"), L.DepthwiseConv2D(3, padding="same"),
                                    L.Conv2D(40, 1, strides=2), L.GlobalAveragePooling2D(), L.Dense(30)]),
        "channels": keras.Sequential([keras.Input((6, 6, 128)), L.DepthwiseConv2D(3), L.ReLU(), L.Flatten(), L.Dense(3)]),
    }
    random, wrong, count = np.random.default_rng(3), [], 0
    for name, model in models.items():
        for variable in model.weights:
            variable.assign(random.normal(size=variable.shape, scale=0.3))
        source, target, other = (folder / f"int8-{name}{ending}" for ending in (".keras", ".tflite", "-converted.tflite"))
        model.save(source)
        code, said = convert(ckpt, source, target, "--set", "quantize=int8")
        if code:
            wrong.append(f"int8 {name}: {said}")
            continue
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        other.write_bytes(converter.convert())
        ours, theirs = weights_of(Interpreter(str(target))), weights_of(Interpreter(str(other)))
        count += len(theirs)
        if [scales.shape for _, scales in ours] != [scales.shape for _, scales in theirs]:
            wrong.append(f"int8 {name}: {len(ours)} tensors of integers, and {len(theirs)} of the converter")
        for (own, scales), (expected, expected_scales) in zip(ours, theirs):
            if not (np.array_equal(own, expected) and np.array_equal(scales, expected_scales)):
                wrong.append(f"int8 {name}: other integers or scales of {own.shape}")
        given = random.normal(size=(2, *model.inputs[0].shape[1:])).astype(np.float32)
        expected = np.asarray(model(given))
        (own, why), (converted, _) = interpret([(target, [given]), (other, [given])])
        why = why or differs(own, converted, BOUND) or differs(own, [expected], BOUND_OF_INTEGERS)
        if why:
            wrong.append(f"int8 {name}: {why}")
    print(f"{count} tensors of integers are those of TensorFlow's converter")
    return wrong + ([] if count >= 9 else ["too few tensors of integers"])


def weights_of(interpreter):
    """The constants of 8 bits and their scales, in an order that both models have."""
    found = []
    for detail in interpreter.get_tensor_details():
        scales = detail["quantization_parameters"]["scales"]
        if detail["dtype"] == np.int8 and len(scales):
            found.append((interpreter.get_tensor(detail["index"]), scales))
    return sorted(found, key=lambda pair: (pair[0].shape, pair[0].tobytes()))


def cases(ckpt, folder, wanted):
    root = os.environ.get("CKPT_CASES")
    if not root:
        print("CKPT_CASES is not set: models by TensorFlow's converter are skipped")
        return []
    run = Run(ckpt, folder)
    for case in sorted(pathlib.Path(root, "tflite").iterdir()):
        if not (case / "io.npz").exists() or (wanted and wanted not in case.name) or "int" in case.name:
            continue
        expected, arrays = json.loads((case / "expected.json").read_text()), np.load(case / "io.npz")
        between = folder / f"{case.name}.onnx"
        code, said = convert(ckpt, "--dtype", "f32", case / "model.tflite", between)
        if code:
            run.refused[case.name] = said
            continue
        run.model(case.name, between, [arrays[name] for name in expected["inputs"]], [arrays[name] for name in expected["outputs"]])
    return run.report("by TensorFlow's converter", 0)


def main():
    if sys.argv[1:2] == ["--interpret"]:
        interpreted(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ckpt", required=True, type=pathlib.Path)
    parser.add_argument("--of", choices=["keras", "tf_keras", "onnx", "cases", "int8"])
    parser.add_argument("--model", help="only models with this in their name")
    parser.add_argument("--keep", type=pathlib.Path, help="where the files stay")
    arguments = parser.parse_args()
    ckpt, wrong = arguments.ckpt.resolve(), []
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        if arguments.of in (None, "cases"):
            wrong += cases(ckpt, folder, arguments.model)
        if arguments.of in (None, "onnx"):
            wrong += onnx_models_of(ckpt, folder, arguments.model)
        if arguments.of in (None, "int8"):
            wrong += integers(ckpt, folder)
        for library in ("keras", "tf_keras"):
            if arguments.of in (None, library):
                wrong += keras_models_of(ckpt, folder, library, arguments.model)
    print(*wrong, sep="\n")
    print(f"{len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
