#!/usr/bin/env bash
# PaddlePaddle 3.3.1: `avg_pool2d(exclusive=False)` counts the padding behind a side only where as much is before it.
#
# Expected  with `exclusive=False`, a window is divided by its whole size: by padding first and pooling then, the same.
# Happens   with more padding behind than before, a window that reaches over the end is divided by the places that it has in the image
#           and the padding before.
# Seen      below: four ones, windows of three in steps of two.
# Matters   images of an even size get padding behind alone (`padding="SAME"`), and their last row and column come out too large.
#           A converter that states the padding as ONNX does gives other numbers there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-cache-dir --disable-pip-version-check paddlepaddle==3.3.1 numpy==2.4.6 setuptools==80.9.0
cat >run.py <<'PYTHON'
import paddle
import paddle.nn.functional as F

ones = paddle.ones([1, 1, 1, 4])
window = {"kernel_size": [1, 3], "stride": [1, 2], "exclusive": False}
for before, behind in [(1, 1), (1, 0), (0, 1)]:
    pooled = F.avg_pool2d(ones, padding=[0, 0, before, behind], **window)
    padded = F.avg_pool2d(F.pad(ones, [before, behind, 0, 0]), **window)
    numbers = [" ".join(f"{number:.4f}" for number in result.numpy().flat) for result in (pooled, padded)]
    print(f"{before} before, {behind} behind: {numbers[0]}; padded first: {numbers[1]}")
PYTHON
venv/bin/python -W ignore run.py >seen 2>messages || { cat messages; exit 1; }
diff seen - <<'SEEN'
1 before, 1 behind: 0.6667 1.0000; padded first: 0.6667 1.0000
1 before, 0 behind: 0.6667 1.0000; padded first: 0.6667 1.0000
0 before, 1 behind: 1.0000 1.0000; padded first: 1.0000 0.6667
SEEN
