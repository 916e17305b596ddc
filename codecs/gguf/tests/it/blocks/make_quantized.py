"""Writes the blocks that llama.cpp's library makes, `quantized.txt`: the expected values of the tests of encoders.

The library is `libggml-base.so` of the npm package `@node-llama-cpp/linux-x64` 3.22.1, which is compiled without fused
multiplication and addition.

    pip install numpy
    python codecs/gguf/tests/it/blocks/make_quantized.py LIBRARY            # writes the file
    python codecs/gguf/tests/it/blocks/make_quantized.py LIBRARY --check    # fails if it differs
"""

import argparse
import ctypes
import pathlib
import sys
import zlib

import numpy as np

FILE = pathlib.Path(__file__).parent / "quantized.txt"

# The numbers of the types, the elements of a block and its bytes.
TYPES = {
    "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18), "IQ3_S": (21, 256, 110), "IQ4_XS": (23, 256, 136),
    "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66), "MXFP4": (39, 32, 17),
}  # fmt: skip

SHAPES = ["normal", "cubes", "positive", "negative", "sparse", "tiny", "integers", "mixed", "equal"]
COUNT = 1024


def numbers(shape, seed):
    """A row, as `numbers.rs` computes it."""
    state, drawn = seed, []
    for _ in range(2 * COUNT):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        drawn.append(((state >> 40) - 2**23) / 2**23)
    own, other = np.array(drawn, np.float32).reshape(COUNT, 2).T
    place = np.arange(COUNT)
    power = lambda exponent: np.float32(2.0) ** np.asarray(exponent, np.float32)
    row = {
        "normal": own + other,
        "cubes": own * own * own,
        "positive": np.abs(own) + np.float32(0.25),
        "negative": -np.abs(own) - np.float32(3),
        "sparse": np.where(other > 0.9375, own, np.float32(0)),
        "tiny": own * power(-24),
        "integers": np.trunc(own * np.float32(8)),
        "mixed": own * power(8 - place // 32),
        "equal": np.where(place < COUNT // 2, np.float32(0.75), np.float32(-0.5)),
    }[shape]
    return np.ascontiguousarray(row, np.float32)


def quantize(library, kind, row):
    number, elements, size = TYPES[kind]
    blocks = np.zeros(row.size // elements * size, np.uint8)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (row, blocks)]
    rows = [ctypes.c_int64(count) for count in (0, 1, row.size)]
    library.ggml_quantize_chunk(ctypes.c_int(number), *pointers, *rows, None)
    return blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="libggml-base.so")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if the file differs")
    arguments = parser.parse_args()
    library = ctypes.CDLL(arguments.library)
    lines = []
    for k, kind in enumerate(TYPES):
        for shape in SHAPES:
            seed = 100 * k + SHAPES.index(shape)
            blocks = quantize(library, kind, numbers(shape, seed))
            lines.append(f"{kind} {shape} {seed} {zlib.crc32(blocks.tobytes()):08x}")
    text = "\n".join(lines) + "\n"
    if arguments.check:
        if FILE.read_text() != text:
            sys.exit(f"{FILE} differs from what llama.cpp gives")
        return
    FILE.write_text(text)


if __name__ == "__main__":
    main()
