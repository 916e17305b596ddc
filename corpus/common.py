"""What the makers of the corpus share: cases, digests, CRC-32C."""

import hashlib
import struct
from dataclasses import dataclass, field


@dataclass
class Tensor:
    """A tensor as `ckpt` must read it. `data`: little-endian row-major bytes, or a list of byte strings."""

    name: str
    dtype: str
    shape: list[int]
    data: bytes | list[bytes]
    scales: tuple[list[float], list[float], int | None] | None = None  # scales, zero points, axis


@dataclass
class Case:
    """One input. `files` has one name for a single file; `entry` is what a user would name ("" = the folder)."""

    name: str
    why: str
    files: dict[str, bytes]
    entry: str
    tensors: list[Tensor] | None = None  # accepted, with these
    kind: str | None = None  # refused, with this kind of error
    options: list[str] = field(default_factory=list)
    told: bool = True  # the content tells the format


def accept(name, why, files, entry, tensors, options=(), told=True):
    """`told`: whether the content tells the format; the test names it where it does not."""
    return Case(name, why, files, entry, tensors=tensors, options=list(options), told=told)


def reject(name, why, files, entry, kind="corrupt", options=()):
    return Case(name, why, files, entry, kind=kind, options=list(options))


def digest(tensors: list[Tensor]) -> str:
    """SHA-256 over what the tensors are, in the order of their names' bytes; integers are u64 little-endian.

    Per tensor: length of the name, name, length of the dtype's name, dtype's name, rank, dimensions, and the 32 bytes of
    the SHA-256 of the value: its bytes, or of strings and variants each element's length and bytes. Of integers with
    scales also 2^64 - 2, the axis or 2^64 - 1, the number of scales, and scales and zero points as f64. `ckpt hash` is the
    same.
    """
    total = hashlib.sha256()
    for tensor in sorted(tensors, key=lambda tensor: tensor.name.encode()):
        for text in (tensor.name.encode(), tensor.dtype.encode()):
            total.update(struct.pack("<Q", len(text)) + text)
        total.update(struct.pack(f"<{1 + len(tensor.shape)}Q", len(tensor.shape), *tensor.shape))
        data = tensor.data
        if not isinstance(data, bytes):
            data = b"".join(struct.pack("<Q", len(element)) + element for element in data)
        total.update(hashlib.sha256(data).digest())
        if tensor.scales:
            scales, zero_points, axis = tensor.scales
            total.update(struct.pack("<3Q", 2**64 - 2, 2**64 - 1 if axis is None else axis, len(scales)))
            total.update(struct.pack(f"<{2 * len(scales)}d", *scales, *zero_points))
    return total.hexdigest()


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes, crc: int = 0) -> int:
    """CRC-32C of `data`, continuing `crc`."""
    crc ^= 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """As LevelDB and TensorFlow store it."""
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


assert masked(crc32c(b"123456789")) == 0xC78AB0E5


def f32(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def ramp(count: int, start: float = 0.0) -> bytes:
    """`count` different floats."""
    return f32(*(start + (index - count / 2) / 8 for index in range(count)))
