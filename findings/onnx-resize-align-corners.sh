#!/usr/bin/env bash
# ONNX 1.23.2 and ONNX Runtime 1.32.0: `Resize` with `align_corners` and scales gives other numbers if a length times its scale
# is not whole.
#
# Expected  one result: `align_corners` maps the last element of the result to the last one of the input.
# Happens   ONNX's reference divides by the length that is not rounded (4 × 0.6 − 1 = 1.4), ONNX Runtime by the rounded one (1).
# Seen      below: the last of two elements is 3.142857 or 4. With a whole product, both agree.
# Matters   a model is valid, and two programs differ by a fifth. With `sizes` in place of `scales` the two agree.
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


def resized(inputs, constant):
    node = helper.make_node("Resize", inputs, ["y"], mode="linear", coordinate_transformation_mode="align_corners")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 1, 2])
    graph = helper.make_graph([node], "g", [x], [y], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    given = {"x": np.array([[[[1, 2, 3, 4]]]], np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for name, result in ("ONNX", ReferenceEvaluator(model).run(None, given)), ("ONNX Runtime", session.run(None, given)):
        print(f"{name:<12}", " ".join(f"{number:.4f}" for number in result[0].flat))


for scale in (0.6, 0.5):
    print("scale", scale)
    resized(["x", "", "scales"], helper.make_tensor("scales", TensorProto.FLOAT, [4], [1, 1, 1, scale]))
print("size 2")
resized(["x", "", "", "sizes"], helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 1, 1, 2]))
PYTHON
venv/bin/python run.py >seen 2>messages || { cat messages; exit 1; }
diff seen - <<'SEEN'
scale 0.6
ONNX         1.0000 3.1429
ONNX Runtime 1.0000 4.0000
scale 0.5
ONNX         1.0000 4.0000
ONNX Runtime 1.0000 4.0000
size 2
ONNX         1.0000 4.0000
ONNX Runtime 1.0000 4.0000
SEEN
