#!/usr/bin/env bash
# onnx 1.23.2, ml_dtypes 0.6.0: the two disagree about large numbers in float8, though one uses the other's dtypes.
#
# Expected  one result for one number and one dtype: onnx.numpy_helper returns arrays of ml_dtypes.
# Happens   onnx.helper.make_tensor saturates: a number beyond the range, infinity too, becomes the largest one. A cast of
#           ml_dtypes (NumPy, JAX) gives NaN in float8_e4m3fn, which has no infinity, and infinity in float8_e5m2.
# Seen      below: for 464, 480, 1e9 and infinity, what onnx stores, then what ml_dtypes makes of them.
# Matters   weights in float8 with a scale often reach the largest number. Whether those beyond become 448 or NaN depends on
#           the library, so a converter has to say which it does, and a comparison with a peer may differ in these alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check onnx==1.23.2 ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
venv/bin/python >seen - <<'PYTHON'
import ml_dtypes
import numpy as np
from onnx import TensorProto, helper, numpy_helper

numbers = np.array([464, 480, 1e9, np.inf], np.float32)
for onnx_type, dtype in [
    (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
    (TensorProto.FLOAT8E5M2, ml_dtypes.float8_e5m2),
]:
    stored = numpy_helper.to_array(helper.make_tensor("w", onnx_type, [4], numbers))
    assert stored.dtype == dtype
    print(stored.astype(float).tolist(), numbers.astype(dtype).astype(float).tolist())
PYTHON
diff seen - <<'SEEN'
[448.0, 448.0, 448.0, 448.0] [448.0, nan, nan, nan]
[448.0, 512.0, 57344.0, 57344.0] [448.0, 512.0, inf, inf]
SEEN
