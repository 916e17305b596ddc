"""Seeds of the targets that take a graph and the shapes of its tensors: one graph of each operator.

`fuzz/seed.sh` runs it.
"""

import json
import pathlib
import sys

OUT = pathlib.Path(sys.argv[1])

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
    (OUT / "forward" / f"{op}-{len(attributes)}").write_text(seed)
    (OUT / "graph_write" / f"forward-{op}-{len(attributes)}").write_text(seed)
