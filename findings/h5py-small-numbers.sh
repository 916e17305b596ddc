#!/usr/bin/env bash
# h5py 3.14.0, ml_dtypes 0.6.0: arrays of bfloat16, float8 and int4 become opaque bytes, without the name of their dtype.
#
# Expected  a datatype of HDF5 that says what the numbers are (the format can describe floats and integers of any width), or
#           an error.
# Happens   the dataset is opaque, of the element's size and without a tag: reading gives raw bytes. float8_e4m3fn, int4 and
#           float4_e2m1fn look the same; a negative int4 is a byte of 0 to 15. float8_e5m2 alone is refused.
# Seen      below: the dtype that was saved, then what reading gives.
# Matters   a converter must not guess what two opaque bytes are: bfloat16 only if something beside them says so, as Keras's
#           attribute `dtype` does. Who writes such arrays should save a view as unsigned integers, and the dtype beside it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check h5py==3.14.0 ml_dtypes==0.6.0 numpy==2.4.6
cd "$folder"
venv/bin/python >seen - <<'PYTHON'
import h5py
import ml_dtypes
import numpy as np

for name in ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "float4_e2m1fn"]:
    try:
        with h5py.File("w.h5", "w") as file:
            file["w"] = np.array([1, -1], getattr(ml_dtypes, name))
        with h5py.File("w.h5") as file:
            print(name, file["w"].dtype.str, file["w"][()].tobytes().hex(" "), dict(file["w"].attrs))
    except TypeError as error:
        print(name, error)
PYTHON
diff seen - <<'SEEN'
bfloat16 |V2 80 3f 80 bf {}
float8_e4m3fn |V1 38 b8 {}
float8_e5m2 Unsupported float type (float8_e5m2)
int4 |V1 01 0f {}
float4_e2m1fn |V1 02 0a {}
SEEN
