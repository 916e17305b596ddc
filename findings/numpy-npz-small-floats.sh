#!/usr/bin/env bash
# NumPy 2.4.6, ml_dtypes 0.6.0: numpy.savez stores arrays of bfloat16 and float8 whose dtype, or all of whose data, is lost.
#
# Expected  the array that was saved, or an error while saving.
# Happens   the header of the array has the dtype's text, which is no name: `|V2` for bfloat16 and `|V1` for others, so that
#           numpy.load returns raw bytes, also while ml_dtypes is imported; float8_e4m3fn and float8_e3m4 look the same.
#           float8_e5m2 is stored as `<f1`, which numpy.load then refuses: NumPy cannot read its own file.
# Seen      below: the dtype that was saved, then what loading gives.
# Matters   a converter must not guess what V1 and V2 mean, and `<f1` is a dtype to know, because the bytes are intact. Who
#           writes such arrays should save a view as unsigned integers, and the dtype beside it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
venv/bin/python >seen - <<'PYTHON'
import io

import ml_dtypes
import numpy as np

for dtype in [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e3m4, ml_dtypes.float8_e5m2]:
    file = io.BytesIO()
    np.savez(file, w=np.array([1, 2], dtype))
    file.seek(0)
    try:
        print(np.dtype(dtype).name, np.load(file)["w"].dtype.str)
    except ValueError as error:
        print(np.dtype(dtype).name, error)
PYTHON
diff seen - <<'SEEN'
bfloat16 |V2
float8_e4m3fn |V1
float8_e3m4 |V1
float8_e5m2 descr is not a valid dtype descriptor: '<f1'
SEEN
