#!/usr/bin/env bash
# transformers 4.57.6: the quantizer for FP8 in blocks writes NaN for a block of zeros.
#
# Expected  a block of 128 × 128 zeros becomes zeros: 8-bit floats have a zero, and any scale keeps it.
# Happens   the scale is 448 divided by the largest magnitude of the block, infinite for zeros. Each element, zero times infinity,
#           is NaN, and `clamp` and the cast keep it. The stored scale is the reciprocal, zero.
# Seen      below: the NaN of a weight of two blocks, the first of zeros.
# Matters   pruned and padded weights have such blocks (unused experts, rows of a padded matrix). The model loads, and every
#           output that passes the block is NaN. Only the weights that were quantized elsewhere are safe.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir torch==2.15.0 transformers==4.57.6
cd "$folder"
venv/bin/python -W ignore >seen 2>errors - <<'PYTHON' || { cat errors; exit 1; }
import sys
import types

import torch
import transformers.modeling_utils
from transformers.quantizers.quantizer_finegrained_fp8 import FineGrainedFP8HfQuantizer
from transformers.utils.quantization_config import FineGrainedFP8Config

# The module of the kernels, which needs Triton, also has the class that the quantizer asks for.
kernels = types.ModuleType("transformers.integrations.finegrained_fp8")
kernels.FP8Linear = type("FP8Linear", (), {})
sys.modules[kernels.__name__] = kernels

made = {}
transformers.modeling_utils._load_parameter_into_model = lambda model, name, value: made.__setitem__(name, value)
weight = torch.cat([torch.zeros(128, 128), torch.ones(128, 128)], 1)
model = torch.nn.Module()
model.layer = torch.nn.Linear(256, 128, bias=False)
quantizer = FineGrainedFP8HfQuantizer(FineGrainedFP8Config())
quantizer.pre_quantized = False
quantizer.create_quantized_param(model, weight, "layer.weight", "cpu")
nan = made["layer.weight"].float().isnan()
print("NaN in the block of zeros", nan[:, :128].sum().item(), "of", nan[:, :128].numel())
print("NaN in the block of ones", nan[:, 128:].sum().item())
print("scales", made["layer.weight_scale_inv"].tolist())
PYTHON
diff seen - <<'SEEN'
NaN in the block of zeros 16384 of 16384
NaN in the block of ones 0
scales [0.0, 0.0022321429569274187]
SEEN
