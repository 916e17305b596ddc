#!/usr/bin/env bash
# ONNX Runtime 1.32.0: `post_transform` of a regression with one target is left out.
#
# Expected  `LinearRegressor` with `post_transform` LOGISTIC returns numbers between 0 and 1, for one target as for two.
# Happens   with two targets it does; with one, the sums come out as they are.
# Seen      below: 3.0 for one target, and its logistic function, 0.952574, as the first of two equal targets.
# Matters   a model of one output, such as a probability, is off, and says nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >run.py <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


def run(targets):
    node = helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", targets=targets,
                            coefficients=[1.0, 2.0] * targets, intercepts=[0.0] * targets, post_transform="LOGISTIC")
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", targets])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.ones((1, 2), np.float32)})[0]


one, two = run(1), run(2)
print("one target ", one.tolist())
print("two targets", two.tolist())
assert one.tolist() == [[3.0]]
assert np.allclose(two, 0.952574, atol=1e-6)
PYTHON
venv/bin/python run.py
