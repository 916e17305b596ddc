#!/usr/bin/env bash
# Copies the corpus to where cargo fuzz looks for seeds: fuzz/corpus/TARGET/.
set -euo pipefail
cd "$(dirname "$0")/.."
for target in fuzz/fuzz_targets/*.rs; do
    mkdir -p "fuzz/corpus/$(basename "$target" .rs)"
done
python3 - <<'PYTHON'
import json, pathlib, random, shutil, struct, sys

sys.path.insert(0, "corpus")
sys.dont_write_bytecode = True
import make_bullet, make_tf2

corpus, out = pathlib.Path("corpus"), pathlib.Path("fuzz/corpus")
for codec in ("bullet", "cnn2", "gguf", "keras", "nn", "npz", "onnx", "safetensors", "tf2", "torch"):
    for file in sorted(path for path in (corpus / codec).rglob("*") if path.is_file()):
        name = "-".join(file.relative_to(corpus / codec).parts)
        shutil.copyfile(file, out / "probe" / f"{codec}-{name}")
        if codec != "tf2":
            shutil.copyfile(file, out / f"{codec}_read" / name)
        if codec == "keras" and file.suffix == ".h5":
            shutil.copyfile(file, out / "hdf5_read" / name)
        if codec == "safetensors":
            shutil.copyfile(file, out / "safetensors_peer" / name)
            # It gives a header its length itself, too.
            (out / "safetensors_peer" / f"{name}-header").write_bytes(file.read_bytes()[8:])
# keras_config takes the configurations that the tests of ckpt-keras have.
for file in sorted(pathlib.Path("codecs/keras/tests/it/config/models").glob("*/*.json")):
    config = json.dumps(json.loads(file.read_text())["config"])
    (out / "keras_config" / f"{file.parent.name}-{file.stem}").write_text(config)
# torch_directories takes all files of a directory in one.
for folder in sorted(path for path in (corpus / "torch").glob("*/*") if path.is_dir()):
    if not (folder / "pytorch_model.bin.index.json").exists():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        parts = [f"\n=== {file.relative_to(folder)}\n".encode() + file.read_bytes() for file in files]
        seed = b"\n" + b"".join(parts)
        (out / "torch_directories" / f"{folder.parent.name}-{folder.name}").write_bytes(seed)
# tf2_read takes index and data in one: the length of the index, the index, the data.
for folder in sorted(path for path in (corpus / "tf2").glob("*/*") if path.is_dir()):
    index = folder / "m.index"
    data = b"".join(file.read_bytes() for file in sorted(folder.glob("m.data-*")))
    if index.exists():
        seed = struct.pack("<I", index.stat().st_size) + index.read_bytes() + data
        (out / "tf2_read" / f"{folder.parent.name}-{folder.name}").write_bytes(seed)
        # tf2_table takes the index after a zero.
        (out / "tf2_table" / f"{folder.parent.name}-{folder.name}").write_bytes(b"\0" + index.read_bytes())
# tf2_entries takes the entries without the table around them.
for name, made in make_tf2.bundles().items():
    for key, value in made.sorted():
        assert len(key) < 255 and len(value) < 256, (name, key)
    entries = b"".join(bytes([len(key), len(value)]) + key + value for key, value in made.sorted())
    (out / "tf2_entries" / name).write_bytes(entries + b"\xff\0" + b"".join(made.data))
# tf2_saved_model takes, after a zero, object graph and saved_model.pb with their lengths, then keras_metadata.pb.
prefixed = lambda part: struct.pack("<I", len(part)) + part
keras = json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": [
    {"class_name": "Dense", "config": {"name": "d", "activation": "relu", "batch_input_shape": [None, 6]}}]}})
metadata = make_tf2.message(1, make_tf2.message(3, b"root") + make_tf2.message(5, keras.encode()))
for name, parts in {
    "functions": (make_tf2.object_graph(), make_tf2.saved_model(), b""), "layers": (make_tf2.object_graph(), b"", metadata),
    "endless": (make_tf2.endless_models(), b"", b""),
}.items():
    seed = b"\0" + prefixed(parts[0]) + prefixed(parts[1]) + parts[2]
    (out / "tf2_saved_model" / name).write_bytes(seed)
# What makes its cases of any bytes begins with some.
made = ["plan", "tf2_saved_model", "tf2_table", "transform"]
for target in [*made, *(folder.name for folder in out.glob("*_round_trip"))]:
    for number in range(64):
        some = random.Random(f"{target} {number}").randbytes(1 << number % 10 + 1)
        (out / target / f"some-{number:02}").write_bytes(some)
# arch takes an architecture file as JSON, a zero, and a file that it describes.
scaled = lambda id, scale, **more: {"id": id, "type": "i16", "scale": scale, "round": True, **more}
entries = [
    scaled("l0w", 255), scaled("l0b", 255), scaled("l1w", 64, transpose=True), scaled("l1b", 16320)
]
net = {
    "format": "bullet", "input": {"features": 3}, "output_buckets": {"count": 2}, "eval_scale": 400,
    "layers": [{"size": 2, "activation": "screlu"}, {"size": 1}], "saved": entries,
}
digits = ["bucket", "in/2", "out", "in%2"]
members = [scaled("l0w", 255, clip=1.98, layout=["out", "feature"]), *entries[1:2],
           {"id": "l1w", "type": "i8", "scale": 64, "layout": digits}, {"id": "l1b", "type": "i32", "scale": 16320}]
factorised = {
    **net, "psqt": True, "tensors": [{"id": "w", "rows": 2, "columns": 3}],
    "input": {"features": 3, "buckets": {"count": 2}, "factoriser": True, "perspectives": 1},
    "layers": [{"size": 4, "activation": "crelu", "pairwise": True}, {"size": 2, "activation": "crelu", "dual": True}, {"size": 1}],
    "saved": [scaled("l0w", 255, merge="l0f", round_terms=True), {"id": "l0b"}, {"id": "w"}],
}
columns = {**factorised, "input": {**factorised["input"], "factoriser": "columns"}, "saved": [{"id": "pst"}, {"id": "l0w"}]}
layers = {"layers": [
    {"type": "conv", "weight": "k", "bias": "c", "weight_axes": ["kernel_y", "kernel_x", "in", "out"], "padding": "same"},
    {"type": "flatten"},
    {"type": "dense", "weight": "w", "bias": "b", "weight_axes": ["in", "out"], "activation": "relu"},
]}
engine = {"header": "4e4e", "align": 64, "members": members}
for name, document, data in [
    ("weights", net, make_bullet.records()), ("quantised", net, make_bullet.quantised()),
    ("engine", {**net, "engine": engine}, bytes(256)), ("factorised", factorised, bytes(64)),
    ("columns", columns, bytes(64)), ("layers", layers, b""),
]:
    (out / "arch" / name).write_bytes(json.dumps(document).encode() + b"\0" + data)
# forward takes a graph, and what its tensors are: one of each operator.
tensor = lambda name, axes, *shape, dtype="f32": {"name": name, "dtype": dtype, "shape": shape, "axes": axes}
image, matrix, index = [None, 2, 5, 5], [None, 6], [None, 3]
weight, bias = tensor("w", ["in", "out"], 6, 4), tensor("b", ["out"], 4)
kernel = tensor("w", ["out", "in", "kernel_y", "kernel_x"], 4, 2, 3, 3)
window = {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [0, 1, 1, 0]}
channel = {role: tensor(role, ["out"], 2) for role in ("scale", "bias", "mean", "variance")}
features = tensor("w", ["bucket", "feature", "out"], 2, 3, 4)
for op, shape, attributes, parameters in [
    ("Gemm", matrix, {}, {"weight": weight, "bias": bias}),
    ("Conv", image, {"strides": [1, 2], "pads": [1, 0, 1, 2], "dilations": [1, 2]}, {"weight": kernel, "bias": bias}),
    ("Conv", image, {"group": 2}, {"weight": tensor("w", kernel["axes"], 4, 1, 3, 3)}),
    ("Pad", image, {"pads": [0, 0, 1, 1, 0, 0, 2, 2], "mode": "edge"}, {}),
    ("Clip", matrix, {"min": 0.0, "max": 1.0}, {}), ("LeakyRelu", matrix, {"alpha": 0.5}, {}),
    ("Gelu", matrix, {"approximate": "tanh"}, {}), ("Softmax", matrix, {"axis": -1}, {}),
    ("LogSoftmax", image, {"axis": 1}, {}), ("Flatten", image, {}, {}), ("MaxPool", image, window, {}),
    ("AveragePool", image, {**window, "count_include_pad": 1}, {}), ("GlobalAveragePool", image, {}, {}),
    ("BatchNormalization", image, {"epsilon": 0.001}, channel), ("Split", matrix, {"axis": 1, "split": [2, 4]}, {}),
    ("Slice", matrix, {"starts": [1], "ends": [-1], "steps": [2], "axes": [1]}, {}),
    ("Reshape", matrix, {"shape": [0, 3, -1]}, {}), ("Transpose", image, {"perm": [0, 2, 3, 1]}, {}),
    ("LayerNormalization", matrix, {"axis": -1}, {"scale": tensor("s", ["out"], 6), "bias": tensor("b", ["out"], 6)}),
    ("Gather", index, {}, {"weight": tensor("w", ["feature", "out"], 5, 4)}),
    ("ckpt.FeatureTransformer", index, {}, {"weight": features, "bias": bias}),
    ("ckpt.BucketedGemm", matrix, {}, {"weight": tensor("w", ["bucket", "in", "out"], 2, 6, 4)}),
    ("ckpt.Scale", index, {"multiply": 400, "divide": 255}, {}), ("ckpt.Square", matrix, {}, {}),
    ("ckpt.StaticFeatures", [None, 4, 3, 3], {}, {}), ("Add", matrix, {}, {}), ("Concat", matrix, {"axis": 1}, {}),
]:
    taken, made = ["x"], ["y", "z"] if op == "Split" else ["y"]
    inputs = [{"name": "x", "shape": shape}]
    if op == "ckpt.BucketedGemm":
        taken, inputs = ["x", "k"], [*inputs, {"name": "k", "shape": [None]}]
    if op in ("Add", "Concat"):
        taken = ["x", "x"]
    node = {
        "name": "n", "op": op, "inputs": taken, "outputs": made, "attributes": attributes,
        "parameters": {role: tensor["name"] for role, tensor in parameters.items()},
    }
    rank = {"Flatten": 2, "Gather": 3, "Reshape": 3}.get(op, len(shape))
    outputs = [{"name": name, "shape": [None] * rank} for name in made]
    graph = {"inputs": inputs, "outputs": outputs, "nodes": [node]}
    seed = json.dumps({"graph": graph, "tensors": list(parameters.values())})
    (out / "forward" / f"{op}-{len(attributes)}").write_text(seed)
PYTHON
python3 fuzz/seeds.py
# TensorFlow's cases that the corpus does not have, and sets of files.
PYTHONPATH=corpus python3 -B fuzz/seeds/tf2.py
for file in schemas/mappings/*.toml examples/data/mapping/*.toml; do
    if [ -f "$file" ]; then cp "$file" fuzz/corpus/mapping/; fi
done
cat > fuzz/corpus/mapping/rules.toml <<'TOML'
[[rule]]
from = "model/h{layer:int}/attn/{part}"
to = "h.{layer}.{part}"
TOML
for folder in fuzz/corpus/*/; do
    echo "$(basename "$folder"): $(find "$folder" -type f | wc -l) seeds"
done
