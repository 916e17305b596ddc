"""Writes what `gguf-py` knows of block types: the codebooks of `src/blocks/grids.rs`, and the expected values of the
tests, `decoded.txt` and `encoded.txt`.

    pip install gguf==0.19.0
    python codecs/gguf/tests/it/blocks/make.py            # writes the three files
    python codecs/gguf/tests/it/blocks/make.py --check    # fails if one of them differs
"""

import argparse
import pathlib
import sys
import zlib

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type

HERE = pathlib.Path(__file__).parent
GRIDS = HERE.parents[2] / "src" / "blocks" / "grids.rs"

# The codebooks, and the type of gguf-py that has each.
CODEBOOKS = {
    "IQ2_XXS": quants.IQ2_XXS,
    "IQ2_XS": quants.IQ2_XS,
    "IQ2_S": quants.IQ2_S,
    "IQ3_XXS": quants.IQ3_XXS,
    "IQ3_S": quants.IQ3_S,
    "IQ1": quants.IQ1_S,
}

# The offsets of the 16-bit floats that scale a block. Those of other types are packed (IQ1_M) or of 8 bits.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "TQ1_0": [52], "TQ2_0": [64], "IQ4_NL": [0], "IQ4_XS": [0],
    "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0],
    "IQ1_M": [], "MXFP4": [], "NVFP4": [],
}  # fmt: skip

# Numbers for the scales: infinities, NaNs with other bits, subnormal and largest numbers, zeros.
SPECIAL = [0x7C00, 0xFC00, 0x7E01, 0xFD55, 0x0001, 0x83FF, 0x7BFF, 0x8000, 0x3C00]

ENCODED = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]


def grids():
    """The codebooks as Rust: a row is a number of 16 bits, its first value lowest."""
    lines = [
        "//! The codebooks of `IQ1`, `IQ2` and `IQ3` blocks, written by `tests/it/blocks/make.py`.",
        "//!",
        "//! A row of `IQ1` and `IQ2` has eight values of two bits, a row of `IQ3` four values of four bits, the first value",
        "//! lowest.",
    ]
    for name, kind in CODEBOOKS.items():
        rows = np.frombuffer(bytes.fromhex(kind.grid_hex.decode()), "<u2")
        assert len(rows) == kind.grid_shape[0]
        check_packing(kind, rows)
        lines += ["", "#[rustfmt::skip]", f"pub static {name}: [u16; {len(rows)}] = ["]
        for start in range(0, len(rows), 14):
            lines.append("    " + " ".join(f"{row:#06x}," for row in rows[start : start + 14]))
        lines.append("];")
    return "\n".join(lines) + "\n"


def check_packing(kind, rows):
    kind.init_grid()
    values = kind.grid_shape[1]
    bits = 16 // values
    places = (rows[:, None] >> (bits * np.arange(values))) & ((1 << bits) - 1)
    assert (np.array(kind.grid_map, np.float32)[places] == kind.grid.reshape(kind.grid_shape)).all()


def random_bytes(seed, count):
    """The high bytes of a linear congruential generator's states, as the tests compute them again."""
    state, out = seed, bytearray()
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(state >> 56)
    return out


def scales(name, k):
    """The special scales of block `k`, by offset. None for the first four."""
    if k < 4:
        return {}
    # The second scale runs through the list in other steps: finite beside infinite, and the reverse.
    number = lambda n: SPECIAL[(k - 4 + n * (k // 2)) % len(SPECIAL)]
    return {offset: number(n) for n, offset in enumerate(SCALES[name])}


def decoded():
    """A line for each block: its type, the seed of its bytes, special scales with their offsets, and the CRC-32 of its
    numbers as little-endian 32-bit floats. NaNs have the bits that x86-64 with AVX gives."""
    lines = []
    for type_number, name in enumerate(SCALES):
        for k in range(4 + len(SPECIAL) if SCALES[name] else 8):
            seed = 100 * type_number + k
            block = random_bytes(seed, GGML_QUANT_SIZES[Type[name]][1])
            for offset, number in scales(name, k).items():
                block[offset : offset + 2] = number.to_bytes(2, "little")
            # The NaN of two NaN operands is the first, but for arrays of one block.
            numbers = quants.dequantize(np.frombuffer(2 * bytes(block), np.uint8), Type[name]).astype("<f4")
            numbers = numbers[: len(numbers) // 2]
            special = [f"{offset}:{number:04x}" for offset, number in scales(name, k).items()]
            lines.append(" ".join([name, str(seed), *special, f"{zlib.crc32(numbers.tobytes()):08x}"]))
    return "\n".join(lines) + "\n"


def rows():
    """Rows of 32 numbers, by name."""
    rng = np.random.default_rng(7)
    zeros = np.zeros(32)
    steps = np.arange(32) - 16.0
    return {
        "normal": rng.normal(size=32),
        "small": rng.normal(size=32) * 0.02,
        "positive": rng.random(32) + 0.5,
        "negative": -rng.random(32) - 0.5,
        "halves": np.concatenate([[127.0], np.arange(31) - 15.5]),
        "halves of 4 bits": np.concatenate([[-8.0, 7.0], np.arange(30) * 0.5 - 7.5]),
        "halves of 5 bits": np.concatenate([[-16.0, 15.0], np.arange(30) - 14.5]),
        "opposites": np.where(steps % 2 == 0, 3.0, -3.0),
        "opposites, minus first": np.where(steps % 2 == 0, -3.0, 3.0),
        "one": np.where(steps == 0, 1.0, 0.0),
        "equal": zeros + 0.7,
        "zeros": zeros,
        "zeros with a sign": -zeros,
        "too large": steps * 1e9,
        "too small": steps * 1e-39,
        "whose inverse is infinite": steps * 1e-41,
        "smallest": np.where(steps == 3, 1e-45, 0.0),
        "largest": np.where(steps % 2 == 0, 3.4e38, -3.4e38),
        "scales that 16 bits round": steps * 1.2345e-6,
    }


def encoded():
    """A line for each row: its name, its numbers, and its block of each type; the bytes as hexadecimal digits."""
    lines = []
    for name, row in rows().items():
        row = row.astype("<f4")
        with np.errstate(all="ignore"):
            blocks = [quants.quantize(row, Type[kind]).tobytes().hex() for kind in ENCODED]
        lines.append("|".join([name, row.tobytes().hex(), *blocks]))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a file differs")
    check = parser.parse_args().check
    with np.errstate(all="ignore"):
        files = {GRIDS: grids(), HERE / "decoded.txt": decoded(), HERE / "encoded.txt": encoded()}
    for path, text in files.items():
        if check and path.read_text() != text:
            sys.exit(f"{path} differs from what gguf-py gives")
        if not check:
            path.write_text(text)


if __name__ == "__main__":
    main()
