#!/usr/bin/env bash
# ONNX Runtime 1.32.0: `TreeEnsembleClassifier` with two classes that both have weights returns labels that are no class.
#
# Expected  a label is one of `classlabels_int64s`, 5 or 9, that of the greater score; ONNX's reference returns these.
# Happens   ONNX Runtime returns 1 for each row: it looks only at whether the second score exceeds 0, and numbers the classes itself.
# Seen      below: the scores of both programs are the same, [0.75, 0.25] and [0.25, 0.75]; the labels are [1, 1] and [5, 9].
# Matters   a forest with probabilities of both classes in its leaves predicts the second class for every row.
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
from onnx.reference import ReferenceEvaluator

node = helper.make_node(
    "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", classlabels_int64s=[5, 9],
    nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0.0, 0.0],
    nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
    class_treeids=[0, 0, 0, 0], class_nodeids=[1, 1, 2, 2], class_ids=[0, 1, 0, 1], class_weights=[0.75, 0.25, 0.25, 0.75])
graph = helper.make_graph(
    [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1])],
    [helper.make_tensor_value_info("label", TensorProto.INT64, ["N"]),
     helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 2])])
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
onnx.checker.check_model(model, full_check=True)

x = np.array([[0.0], [1.0]], np.float32)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
labels, scores = session.run(None, {"x": x})
own_labels, own_scores = ReferenceEvaluator(model).run(None, {"x": x})
print("onnxruntime", labels.tolist(), scores.tolist())
print("reference  ", np.asarray(own_labels).tolist(), np.asarray(own_scores).tolist())
assert scores.tolist() == np.asarray(own_scores).tolist() == [[0.75, 0.25], [0.25, 0.75]]
assert labels.tolist() == [1, 1] and np.asarray(own_labels).tolist() == [5, 9]
PYTHON
venv/bin/python run.py
