#!/usr/bin/env bash
# OpenCV 4.11.0 (cv2.dnn): an LRN layer of Caffe is computed with `k` 1, whatever its description says.
#
# Expected  x / (k + alpha / size * sum of squares) ^ beta, as Caffe defines it; `k` is a field of `lrn_param`.
# Happens   `k: 2` is read without a word, and the result is that of `k: 1`.
# Seen      below: one number 3 in one channel, with size 1, alpha 1, beta 1: with k 2 the definition gives 3 / (2 + 9).
# Matters   nets with another `k` than 1, as AlexNet's paper has it, give other numbers; OpenCV is the last program that installs easily and
#           reads these files, so a conversion that is checked against it looks wrong where it is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check opencv-python-headless==4.11.0.86 numpy==2.2.6
cat >run.py <<'PYTHON'
import cv2
import numpy as np

NET = """
input: "data" input_shape { dim: 1 dim: 1 dim: 1 dim: 1 }
layer { name: "n" type: "LRN" bottom: "data" top: "n" lrn_param { local_size: 1 alpha: 1 beta: 1 k: %d } }
"""
for k in (1, 2):
    net = cv2.dnn.readNetFromCaffe((NET % k).encode())
    net.setInput(np.full((1, 1, 1, 1), 3, np.float32))
    print(f"k {k}: OpenCV {net.forward().item():.4f}, by the definition {3 / (k + 9):.4f}")
PYTHON
venv/bin/python run.py >seen 2>messages || { cat messages; exit 1; }
diff seen - <<'SEEN'
k 1: OpenCV 0.3000, by the definition 0.3000
k 2: OpenCV 0.3000, by the definition 0.2727
SEEN
