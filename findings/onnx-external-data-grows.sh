#!/usr/bin/env bash
# onnx 1.23.2: saving a model with external data over an older one keeps the old data in the file.
#
# Expected  the model and its data replace those that were there, or an error.
# Happens   the tensors are appended to the file of data, and the model refers to the new ones. The file grows by all weights
#           at each save, and the old weights stay in it, where nothing refers to them. A model in the current directory is
#           refused (FileExistsError): the check looks for the data there, not beside the model.
# Seen      below: of three saves of 4096 bytes of weights, the size of the data and the offset of the tensor.
# Matters   a pipeline that runs twice makes files of twice the size. A converter must read tensors at the stated offsets, and
#           must not take the file for a sequence of all tensors; by copying only what the model refers to, it drops the rest.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onnx==1.23.2 numpy==2.4.6
cd "$folder"
venv/bin/python >seen - <<'PYTHON'
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

os.mkdir("folder")
for number in range(3):
    weights = numpy_helper.from_array(np.full(1024, number, np.float32), "w")
    node = helper.make_node("Identity", ["w"], ["y"])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1024])
    model = helper.make_model(helper.make_graph([node], "graph", [], [output], [weights]))
    onnx.save_model(model, "folder/model.onnx", save_as_external_data=True, location="weights.bin")
    stored = onnx.load("folder/model.onnx", load_external_data=False).graph.initializer[0]
    offset = {entry.key: entry.value for entry in stored.external_data}["offset"]
    print(os.path.getsize("folder/weights.bin"), offset)
PYTHON
diff seen - <<'SEEN'
4096 0
8192 4096
12288 8192
SEEN
