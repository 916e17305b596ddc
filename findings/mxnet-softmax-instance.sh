#!/usr/bin/env bash
# MXNet 1.9.1: `SoftmaxActivation(mode="instance")` is a softmax over the last axis, not over the instance.
#
# Expected  one softmax for each instance of the batch, over all that belongs to it, as the mode's name and its description say.
# Happens   each row of the last axis has a softmax of its own.
# Seen      below: an instance of two rows sums to 2, and equals `softmax(axis=-1)`.
# Matters   the two agree for the usual input of two axes. Of an image, a converter that goes by the name gives other numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# Its wheel needs a NumPy below 1.24, and so a Python below 3.12.
python3 -m venv venv
venv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check mxnet==1.9.1 numpy==1.23.5
cat >run.py <<'PYTHON'
import mxnet as mx

image = mx.nd.array([[[0, 0], [0, 2]]])
for name, result in [
    ("mode instance", mx.nd.SoftmaxActivation(image, mode="instance")),
    ("the last axis", mx.nd.softmax(image, axis=-1)),
    ("the instance ", mx.nd.softmax(image.reshape((1, 4))).reshape(image.shape)),
]:
    print(name, " ".join(f"{number:.4f}" for number in result.asnumpy().flat))
PYTHON
venv/bin/python run.py >seen 2>messages || { cat messages; exit 1; }
diff seen - <<'SEEN'
mode instance 0.5000 0.5000 0.1192 0.8808
the last axis 0.5000 0.5000 0.1192 0.8808
the instance  0.0963 0.0963 0.0963 0.7112
SEEN
