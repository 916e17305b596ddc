#!/usr/bin/env bash
# safetensors 0.8.0: `safetensors.numpy.save` stores a transposed array as if it were not.
#
# Expected  the values of the array in row-major order, as numpy.save stores those of any array, or an error.
# Happens   it copies the bytes in memory, from the first element on, and states the shape of the view. Every view or array
#           whose elements are not in row-major order (a transpose, a slice with a step, numpy.asfortranarray) becomes a
#           tensor of the right shape and dtype with other values, without a warning.
# Seen      below: twice the values of the array, then those of the file; then whether a contiguous copy is stored right.
# Matters   converting kernels from Keras ([in, out]) to PyTorch ([out, in]) is a transpose: `save({"w": kernel.T})` gives a
#           model that loads and computes something else. `numpy.ascontiguousarray` before saving helps. A converter that
#           reads such a file cannot notice; compare what the models compute.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check safetensors==0.8.0 numpy==2.4.6
cd "$folder"
venv/bin/python >seen - <<'PYTHON'
import numpy as np
from safetensors.numpy import load, save

matrix = np.arange(6.0).reshape(2, 3)
for array in [matrix.T, np.arange(6.0)[::2]]:
    read = load(save({"w": array}))["w"]
    assert read.shape == array.shape and read.dtype == array.dtype
    print(array.tolist(), read.tolist())
contiguous = np.ascontiguousarray(matrix.T)
print(load(save({"w": contiguous}))["w"].tolist() == matrix.T.tolist())
PYTHON
diff seen - <<'SEEN'
[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]] [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
[0.0, 2.0, 4.0] [0.0, 1.0, 2.0]
True
SEEN
