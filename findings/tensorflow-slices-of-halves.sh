#!/usr/bin/env bash
# tensorflow 2.21.0: a variable that is saved in slices cannot be read again if it is float16, uint16, uint32 or of texts.
#
# Expected  what SaveV2 writes, RestoreV2 and tf.train.load_checkpoint read; or an error while saving.
# Happens   saving succeeds. Reading the whole variable fails ("Dtype half not supported"), though each slice is there with
#           its checksum. float32, bfloat16 and most other dtypes are read.
# Seen      below: the dtype, and what reading gives.
# Matters   checkpoints of partitioned variables in float16 exist that TensorFlow wrote and does not read. A converter can
#           join the slices; if it writes float16 in slices, it writes what its framework refuses: merge them instead.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check tensorflow-cpu==2.21.0 numpy==2.4.6
cd "$folder"
TF_CPP_MIN_LOG_LEVEL=3 venv/bin/python >seen 2>log - <<'PYTHON' || { cat log; exit 1; }
import tensorflow as tf

for dtype in [tf.float32, tf.float16, tf.bfloat16, tf.uint8, tf.uint16, tf.uint32, tf.string]:
    whole = tf.constant(["a", "b", "c", "d"]) if dtype == tf.string else tf.cast(tf.range(4), dtype)
    slices = ["4 0,2", "4 2,2"]
    tf.raw_ops.SaveV2(prefix="m", tensor_names=["w", "w"], shape_and_slices=slices, tensors=[whole[:2], whole[2:]])
    try:
        print(dtype.name, tf.train.load_checkpoint("m").get_tensor("w").tolist())
    except ValueError as error:
        print(dtype.name, error)
PYTHON
diff seen - <<'SEEN'
float32 [0.0, 1.0, 2.0, 3.0]
float16 Dtype half not supported.
bfloat16 [0.0, 1.0, 2.0, 3.0]
uint8 [0, 1, 2, 3]
uint16 Dtype uint16 not supported.
uint32 Dtype uint32 not supported.
string Dtype string not supported.
SEEN
