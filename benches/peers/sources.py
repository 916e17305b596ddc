"""Makes what is measured: TensorFlow checkpoints of any size, and reads tensors without any of ckpt's code."""

import json
import mmap
import os
import pathlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "corpus"))

from bundle import DTYPES, HEADER, entry_proto, table  # noqa: E402
from common import crc32c, masked  # noqa: E402

# Random numbers are repeated after this many bytes: no multiple of a row of any matrix here, so that no two rows or
# columns are alike.
PERIOD = 1_000_012
# Bytes at the start of each tensor that no other tensor has.
OWN = 64


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        size = 4
        for length in self.shape:
            size *= length
        return size


class Tail:
    """What follows a tensor's own bytes, and its checksum."""

    def __init__(self, length: int, noise: bytes):
        self.repeats, rest = divmod(length, len(noise))
        self.noise, self.rest = noise, noise[:rest]
        whole, self.crc = crc32c(noise), 0
        shift = crc_shift(len(noise))
        for _ in range(self.repeats):
            self.crc = shift(self.crc) ^ whole
        self.crc = crc_shift(rest)(self.crc) ^ crc32c(self.rest)
        self.shift = crc_shift(length)

    def write(self, file) -> None:
        for _ in range(self.repeats):
            file.write(self.noise)
        file.write(self.rest)

    def after(self, own: bytes) -> int:
        return self.shift(crc32c(own)) ^ self.crc


def write_checkpoint(prefix: pathlib.Path, tensors: list[Tensor]) -> pathlib.Path:
    """A checkpoint of one shard, all f32 of magnitudes from 1/128 to 2, such as weights have; returns its data file."""
    noise = bytearray(os.urandom(PERIOD))
    noise[3::4] = bytes(byte & 0x83 | 0x3C for byte in noise[3::4])
    noise = bytes(noise)
    tails: dict[int, Tail] = {}

    def write(file, number: int, tensor: Tensor) -> int:
        own = (number.to_bytes(4, "little") + noise[4:OWN])[: tensor.bytes]
        length = tensor.bytes - len(own)
        if length not in tails:
            tails[length] = Tail(length, noise)
        tail = tails[length]
        file.write(own)
        tail.write(file)
        return tail.after(own)

    return _write(prefix, tensors, write)


def write_sparse_checkpoint(prefix: pathlib.Path, tensors: list[Tensor]) -> pathlib.Path:
    """A checkpoint of zeros that takes no room on the disk: for figures in which reading has no part."""
    crcs: dict[int, int] = {}

    def skip(file, _number: int, tensor: Tensor) -> int:
        file.truncate(file.seek(tensor.bytes, os.SEEK_CUR))
        if tensor.bytes not in crcs:
            crcs[tensor.bytes] = crc_shift(tensor.bytes)(0xFFFFFFFF) ^ 0xFFFFFFFF
        return crcs[tensor.bytes]

    return _write(prefix, tensors, skip)


def _write(prefix: pathlib.Path, tensors: list[Tensor], write) -> pathlib.Path:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data = prefix.with_name(f"{prefix.name}.data-00000-of-00001")
    entries, offset = [(b"", HEADER)], 0
    with open(data, "wb", buffering=1 << 20) as file:
        for number, tensor in enumerate(tensors):
            crc = write(file, number, tensor)
            proto = entry_proto(DTYPES["f32"], list(tensor.shape), 0, offset, tensor.bytes, masked(crc))
            entries.append((tensor.name.encode(), proto))
            offset += tensor.bytes
    prefix.with_name(f"{prefix.name}.index").write_bytes(table(sorted(entries)))
    return data


def crc_shift(length: int):
    """What `length` zero bytes do to a CRC-32C register, as the images of its 32 bits: built by squaring."""

    def apply(operator, crc):
        out, bit = 0, 0
        while crc:
            if crc & 1:
                out ^= operator[bit]
            crc, bit = crc >> 1, bit + 1
        return out

    step = [0x82F63B78] + [1 << bit for bit in range(31)]  # one zero bit
    operator, bits = [1 << bit for bit in range(32)], 8 * length
    while bits:
        if bits & 1:
            operator = [apply(step, value) for value in operator]
        step, bits = [apply(step, value) for value in step], bits >> 1
    return lambda crc: apply(operator, crc)


def arrays_of_data(data: pathlib.Path, tensors: list[Tensor]) -> Iterator[tuple[str, object]]:
    """Name and NumPy array of each tensor of a checkpoint made here, one at a time."""
    import numpy

    offset = 0
    for tensor in tensors:
        array = numpy.fromfile(data, "<f4", tensor.bytes // 4, offset=offset)
        yield tensor.name, array.reshape(tensor.shape)
        offset += tensor.bytes


def arrays_of_safetensors(path: pathlib.Path) -> dict[str, object]:
    """NumPy arrays on a memory map; bf16 as the unsigned integers of its bits."""
    import numpy

    dtypes = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8:start])
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = numpy.frombuffer(mapped, dtypes[entry["dtype"]], offset=start + begin,
                                    count=(end - begin) // numpy.dtype(dtypes[entry["dtype"]]).itemsize)
            arrays[name] = flat.reshape(entry["shape"])
    return arrays
