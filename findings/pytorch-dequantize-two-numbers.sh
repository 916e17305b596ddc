#!/usr/bin/env bash
# torch 2.15.0: `dequantize` makes two numbers of one integer and one scale, per tensor and per channel.
#
# Expected  a tensor that is quantized per channel with the same scale for every channel stands for the numbers of one that is
#           quantized per tensor with this scale: both document (q - zero_point) * scale, and both keep the scale as a double.
# Happens   per tensor, the scale is rounded to a float before the product; per channel, the product is one of doubles that is
#           rounded to a float.
# Seen      below: the integer 9 with the scale 0.1, and how many of the 256 integers of 8 bits differ.
# Matters   a converter that has one rule for both differs from PyTorch in the last bit of some weights. The rule has to
#           depend on how the tensor was quantized, which the scales alone do not show.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir torch==2.15.0
cd "$folder"
venv/bin/python -W ignore >seen 2>errors - <<'PYTHON' || { cat errors; exit 1; }
import torch

integers = torch.arange(-128, 128).to(torch.int8)
scales, zeros = torch.full((256,), 0.1, dtype=torch.float64), torch.zeros(256, dtype=torch.int64)
tensor = torch._make_per_tensor_quantized_tensor(integers, 0.1, 0)
channels = torch._make_per_channel_quantized_tensor(integers, scales, zeros, 0)
assert tensor.q_scale() == channels.q_per_channel_scales()[0].item() and tensor.int_repr().equal(channels.int_repr())
print(f"per tensor  {tensor.dequantize()[137].item():.9g}")
print(f"per channel {channels.dequantize()[137].item():.9g}")
print((tensor.dequantize() != channels.dequantize()).sum().item(), "of 256 differ")
PYTHON
diff seen - <<'SEEN'
per tensor  0.900000036
per channel 0.899999976
48 of 256 differ
SEEN
