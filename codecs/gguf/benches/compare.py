#!/usr/bin/env python3
"""Compares the speed of encoding blocks with llama.cpp's own library, on one thread.

    cargo bench -p ckpt-gguf --bench blocks encode
    python codecs/gguf/benches/compare.py LIBRARY [CRITERION]      (packages: numpy)

LIBRARY is `libggml-base.so`, for example that of the npm package `@node-llama-cpp/linux-x64`. CRITERION is the directory in
which the benchmark left its results, `target/criterion` by default. Both encode the same 65,536 numbers.
"""

import ctypes
import json
import pathlib
import sys
import time

import numpy as np

# The numbers of the types, the elements of a block and its bytes.
TYPES = {
    "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18), "IQ3_S": (21, 256, 110), "IQ4_XS": (23, 256, 136),
    "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66), "MXFP4": (39, 32, 17),
}  # fmt: skip
COUNT = 1 << 16
ROUNDS = 9


def numbers() -> np.ndarray:
    """The numbers of `blocks.rs`."""
    product = np.arange(COUNT, dtype=np.float32) * np.float32(0.618034)
    return (product - np.trunc(product)) * np.float32(2) - np.float32(1)


def llama_cpp(library, kind: str, row: np.ndarray) -> float:
    """Seconds of processor time, the least of several rounds."""
    number, elements, size = TYPES[kind]
    blocks = np.zeros(COUNT // elements * size, np.uint8)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (row, blocks)]
    counts = [ctypes.c_int64(count) for count in (0, 1, COUNT)]
    least = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        library.ggml_quantize_chunk(ctypes.c_int(number), *pointers, *counts, None)
        least = min(least, time.process_time() - start)
    return least


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    library = ctypes.CDLL(sys.argv[1])
    criterion = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else "target/criterion")
    row = numbers()
    print(f"{'type':8}{'llama.cpp':>14}{'ckpt':>14}{'ratio':>8}   millions of numbers a second")
    for kind in TYPES:
        theirs = llama_cpp(library, kind, row)
        estimates = criterion / "encode" / kind / "new" / "estimates.json"
        ours = json.loads(estimates.read_text())["median"]["point_estimate"] / 1e9
        print(f"{kind:8}{COUNT / theirs / 1e6:14.1f}{COUNT / ours / 1e6:14.1f}{theirs / ours:8.2f}")


if __name__ == "__main__":
    main()
