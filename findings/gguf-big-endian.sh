#!/usr/bin/env bash
# gguf 0.19.0: `dequantize` of a big-endian file gives other numbers, and `GGUFWriter` does not swap what blocks contain.
#
# Expected  the numbers that were written; and of a file for big-endian machines, scales of blocks that such a machine reads.
# Happens   `GGUFReader` returns F16 and F32 in the file's byte order, marked as such, but `dequantize` takes the bytes for
#           those of this machine. The writer swaps the elements of arrays; quantized blocks are arrays of bytes to it, so
#           their scales stay little-endian, and only `dequantize` on a little-endian machine undoes that.
# Seen      below: of 0, 1, 2 the numbers of the reader, and those of `dequantize`; then the scale of a block of Q8_0 (1.0 is
#           00 3c little-endian) in files of both byte orders.
# Matters   a program that converts by `dequantize` stores wrong weights without a word. Of a big-endian file with blocks, a
#           converter cannot tell whether it was written by gguf-py or swapped by llama.cpp's gguf_convert_endian.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check gguf==0.19.0 numpy==2.4.6
cd "$folder"
venv/bin/python >seen - <<'PYTHON'
import numpy as np
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFWriter, dequantize, quantize

block = quantize(np.full((1, 32), 127, np.float32), GGMLQuantizationType.Q8_0)
for endian in [GGUFEndian.LITTLE, GGUFEndian.BIG]:
    writer = GGUFWriter("w.gguf", "llama", endianess=endian)
    writer.add_tensor("half", np.arange(3, dtype=np.float16))
    writer.add_tensor("block", block.copy(), raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    half, stored = GGUFReader("w.gguf").tensors
    print(half.data.tolist(), dequantize(half.data, half.tensor_type).tolist(), stored.data.tobytes()[:2].hex(" "))
PYTHON
diff seen - <<'SEEN'
[0.0, 1.0, 2.0] [0.0, 1.0, 2.0] 00 3c
[0.0, 1.0, 2.0] [0.0, 3.5762786865234375e-06, 3.814697265625e-06] 00 3c
SEEN
