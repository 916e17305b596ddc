#!/usr/bin/env python3
"""Converts the network of Stockfish 19, taken out of the npm package `stockfish`, and compares bytes and integers.

    python tests/interop/stockfish_net.py --ckpt target/release/ckpt [--package stockfish-19.0.0.tgz]

Needs npm unless the package is given (161 MB), and NumPy and safetensors. Not part of the check, for its size.
"""

import argparse
import hashlib
import pathlib
import struct
import subprocess
import tarfile
import tempfile

import numpy as np

import harness
from harness import convert, load

PACKAGE, MEMBER = "stockfish@19.0.0", "package/bin/stockfish-19-single.wasm"
NAME, BYTES = "1a298aa575a0", 98_511_183
VERSION = struct.pack("<I", 0x6A448AFA)


def number(data: bytes, at: int, signed=False) -> tuple[int, int]:
    """An integer of LEB128, and where it ends."""
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return (value - (1 << shift) if signed and byte & 64 else value), at


def memory(module: bytes) -> bytes:
    """What the data section of a WebAssembly module puts into memory: runs of zeros are left out of its parts."""
    at, filled = 8, bytearray()
    while at < len(module):
        section = module[at]
        length, at = number(module, at + 1)
        end = at + length
        if section == 11:
            count, at = number(module, at)
            for _ in range(count):
                assert module[at:at + 2] == b"\0\x41", "a part without a constant address"
                start, at = number(module, at + 2, signed=True)
                length, at = number(module, at + 1)
                filled.extend(bytes(max(0, start + length - len(filled))))
                filled[start:start + length] = module[at:at + length]
                at += length
        at = end
    return bytes(filled)


def network(package: pathlib.Path) -> bytes:
    with tarfile.open(package) as archive:
        found = memory(archive.extractfile(MEMBER).read())
    start = found.index(VERSION)
    data = found[start:start + BYTES]
    assert hashlib.sha256(data).hexdigest().startswith(NAME), "another network than the one named so"
    return data


def decoded(data: bytes, name: bytes) -> np.ndarray:
    """The integers of the last compressed array, decoded by NumPy."""
    at = data.rindex(name)
    length = struct.unpack_from("<I", data, at + len(name))[0]
    stored = np.frombuffer(data, np.uint8, length, at + len(name) + 4).astype(np.int64)
    ends = np.flatnonzero(stored < 128)
    starts = np.concatenate([[0], ends[:-1] + 1])
    shifts = 7 * (np.arange(length) - np.repeat(starts, ends - starts + 1))
    values = np.add.reduceat((stored & 127) << shifts, starts)
    return np.where(stored[ends] & 64, values - (1 << 7 * (ends - starts + 1)), values)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckpt", required=True)
    parser.add_argument("--package", type=pathlib.Path)
    options = parser.parse_args()
    harness.CKPT = options.ckpt
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        if options.package is None:
            subprocess.run(["npm", "pack", PACKAGE], cwd=folder, check=True, capture_output=True)
        package = options.package or next(folder.glob("*.tgz"))
        source = folder / f"nn-{NAME}.nnue"
        source.write_bytes(network(package))
        convert(source, folder / "again.nnue", "--to", "nnue")
        assert (folder / "again.nnue").read_bytes() == source.read_bytes(), "directly"
        convert(source, folder / "net.safetensors")
        tensors = load(folder / "net.safetensors")
        assert tensors["transformer.HalfKAv2_hm.weight"].shape == (22_528, 1024)
        psqt = decoded(source.read_bytes(), b"COMPRESSED_LEB128")
        assert (tensors["transformer.HalfKAv2_hm.psqt"].ravel() == psqt).all(), "other integers than NumPy decodes"
        convert(folder / "net.safetensors", folder / "back.nnue", "--to", "nnue")
        assert (folder / "back.nnue").read_bytes() == source.read_bytes(), "by way of safetensors"
        plain = folder / "plain.nnue"
        convert(folder / "net.safetensors", plain, "--to", "nnue", "--set", "compression=none")
        convert(plain, folder / "compressed.nnue", "--to", "nnue", "--set", "compression=leb128")
        assert (folder / "compressed.nnue").read_bytes() == source.read_bytes(), "compressed again"
        convert(source, folder / "numbers.safetensors", "--from-set", "weights=numbers")
        numbers = load(folder / "numbers.safetensors")
        for name, value in tensors.items():
            scale = {"psqt": 9600}.get(name.rsplit(".")[-1], 256)
            if name.startswith("transformer."):
                assert (numbers[name] == value.astype(np.float32) / np.float32(scale)).all(), name
    print("the network of Stockfish 19 comes back byte for byte")


if __name__ == "__main__":
    main()
