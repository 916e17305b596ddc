"""A writer of TensorFlow v2 checkpoints, small and slow, with every screw within reach."""

import os.path
import struct
from dataclasses import dataclass, field

from common import crc32c, masked

MAGIC = 0xDB4775248B80FB57
HEADER = bytes.fromhex("08011a020801")
DTYPES = {
    "f32": 1, "f64": 2, "i32": 3, "u8": 4, "i16": 5, "i8": 6, "string": 7, "c64": 8, "i64": 9, "bool": 10,
    "qint8": 11, "quint8": 12, "qint32": 13, "bf16": 14, "qint16": 15, "quint16": 16, "u16": 17, "c128": 18,
    "f16": 19, "variant": 21, "u32": 22, "u64": 23, "f8_e5m2": 24, "f8_e4m3": 25, "f8_e4m3fnuz": 26,
    "f8_e4m3b11fnuz": 27, "f8_e5m2fnuz": 28, "i4": 29, "u4": 30, "i2": 31, "u2": 32, "f4_e2m1": 33,
}


# Protocol buffers.


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def number(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value) if value else b""


def message(tag: int, value: bytes) -> bytes:
    return varint(tag << 3 | 2) + varint(len(value)) + value


def fixed32(tag: int, value: int) -> bytes:
    return varint(tag << 3 | 5) + struct.pack("<I", value) if value else b""


def shape_proto(shape: list[int]) -> bytes:
    return b"".join(message(2, number(1, dim)) for dim in shape)


def slice_proto(box: list[tuple[int, int]]) -> bytes:
    """`box`: (start, length) per dimension; length -1 for all of it."""
    extents = (b"" if length == -1 else number(1, start) + b"\x10" + varint(length) for start, length in box)
    return b"".join(message(1, extent) for extent in extents)


def entry_proto(dtype: int, shape: list[int], shard=0, offset=0, size=0, crc=0, slices=()) -> bytes:
    return (
        number(1, dtype)
        + message(2, shape_proto(shape))
        + number(3, shard)
        + number(4, offset)
        + number(5, size)
        + fixed32(6, crc)
        + b"".join(message(7, slice_proto(box)) for box in slices)
    )


def header_proto(shards=1, endian=0, version: bytes | None = b"\x08\x01") -> bytes:
    return number(1, shards) + number(2, endian) + (message(3, version) if version is not None else b"")


# Ordered codes, for the keys of slices.


def ordered_number(value: int) -> bytes:
    payload = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([len(payload)]) + payload


def ordered_signed(value: int) -> bytes:
    """As many leading ones as the code has bytes, a zero, the value; of a negative number everything inverted."""
    magnitude = ~value if value < 0 else value
    length = magnitude.bit_length() // 7 + 1
    assert length < 7
    code = (magnitude | ((1 << length) - 1) << 7 * length).to_bytes(length, "big")
    return bytes(byte ^ 0xFF for byte in code) if value < 0 else code


def slice_key(name: str, box: list[tuple[int, int]], encoding="utf-8") -> bytes:
    escaped = name.encode(encoding).replace(b"\xff", b"\xff\x00").replace(b"\x00", b"\x00\xff")
    out = ordered_number(0) + escaped + b"\x00\x01" + ordered_number(len(box))
    return out + b"".join(ordered_signed(start) + ordered_signed(length) for start, length in box)


# Tables.


def block_contents(entries: list[tuple[bytes, bytes]], interval=16) -> bytes:
    out, restarts, previous = bytearray(), [], b""
    for index, (key, value) in enumerate(entries):
        shared = 0
        if index % interval == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(previous)) and key[shared] == previous[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        previous = key
    restarts = restarts or [0]
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def sealed(contents: bytes, kind=0) -> bytes:
    """A block with its type and checksum."""
    body = contents + bytes([kind])
    return body + struct.pack("<I", masked(crc32c(body)))


def snappy(data: bytes) -> bytes:
    """Raw snappy: literals, and copies of four or more bytes found at most 2047 bytes back."""
    out, literal, index, seen = bytearray(varint(len(data))), bytearray(), 0, {}

    def flush():
        while literal:
            part = literal[:60]
            del literal[:60]
            out.extend(bytes([len(part) - 1 << 2]) + part)

    while index < len(data):
        found = seen.get(data[index : index + 4])
        seen[data[index : index + 4]] = index
        if found is None or index - found > 2047 or index + 4 > len(data):
            literal.append(data[index])
            index += 1
            continue
        length = 4
        while length < 11 and index + length < len(data) and data[found + length] == data[index + length]:
            length += 1
        flush()
        back = index - found
        out.extend(bytes([1 | length - 4 << 2 | back >> 8 << 5, back & 0xFF]))
        index += length
    flush()
    return bytes(out)


def separator(key: bytes, limit: bytes | None) -> bytes:
    """The shortest key that is not below `key` and below `limit`, as LevelDB finds it."""
    if limit is None:
        cut = next((i for i, byte in enumerate(key) if byte != 0xFF), None)
        return key if cut is None else key[:cut] + bytes([key[cut] + 1])
    cut = next((i for i, (a, b) in enumerate(zip(key, limit)) if a != b), None)
    if cut is not None and key[cut] < 0xFF and key[cut] + 1 < limit[cut]:
        return key[:cut] + bytes([key[cut] + 1])
    return key


def table(entries: list[tuple[bytes, bytes]], block_size=262144, interval=16, compress=False, meta=True) -> bytes:
    """A whole index file. A block ends once it has `block_size` bytes, as TensorFlow's do."""
    blocks, current, size, previous = [], [], 0, b""
    for key, value in entries:
        shared = 0 if len(current) % interval == 0 else len(os.path.commonprefix([key, previous]))
        lens = (shared, len(key) - shared, len(value))
        size += sum(len(varint(number)) for number in lens) + lens[1] + lens[2]
        current.append((key, value))
        previous = key
        if size + 4 * (-(-len(current) // interval) + 1) >= block_size:
            blocks.append(current)
            current, size = [], 0
    blocks += [current] if current or not blocks else []
    out, index = bytearray(), []
    for position, block in enumerate(blocks):
        contents = block_contents(block, interval)
        packed = snappy(contents) if compress else contents
        last = block[-1][0] if block else b""
        following = blocks[position + 1][0][0] if position + 1 < len(blocks) else None
        index.append((separator(last, following), varint(len(out)) + varint(len(packed))))
        out += sealed(packed, int(compress))
    return bytes(out) + tail(len(out), index if entries else [], meta)


def tail(at: int, index: list[tuple[bytes, bytes]], meta=True) -> bytes:
    """Metaindex block, index block and footer, for data blocks that end at `at`."""
    out = sealed(block_contents([])) if meta else b""
    handles = varint(at) + varint(len(out) - 5 if meta else 0)
    contents = block_contents(index, 1)
    handles += varint(at + len(out)) + varint(len(contents))
    return out + sealed(contents) + footer(handles)


def footer(handles: bytes) -> bytes:
    return handles.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


# Bundles.


def string_bytes(elements: list[bytes], endian="<") -> tuple[bytes, int]:
    """The stored bytes of a string tensor, and their checksum."""
    crc = crc32c(b"".join(struct.pack(endian + "I", len(element)) for element in elements))
    stored = struct.pack(endian + "I", masked(crc))
    body = b"".join(elements)
    lengths = b"".join(varint(len(element)) for element in elements)
    return lengths + stored + body, masked(crc32c(stored + body, crc))


def variant_bytes(elements: list[bytes]) -> tuple[bytes, int]:
    """The stored bytes of a variant tensor, and their checksum."""
    out, crc = bytearray(), 0
    for element in elements:
        crc = crc32c(element, crc32c(struct.pack("<Q", len(element)), crc))
        stored = struct.pack("<I", masked(crc))
        out += varint(len(element)) + element + stored
        crc = crc32c(stored, crc)
    return bytes(out), masked(crc)


@dataclass
class Bundle:
    """Tensors in the order in which they are added; `files` gives the checkpoint."""

    shards: int = 1
    align: int = 1
    header: bytes | None = HEADER
    data: list[bytearray] = field(default_factory=list)
    entries: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self):
        self.data = [bytearray() for _ in range(self.shards)]

    def store(self, data: bytes, shard=0) -> int:
        """Appends bytes to a shard and returns their offset."""
        offset = len(self.data[shard])
        self.data[shard] += data
        self.data[shard] += bytes(-len(self.data[shard]) % self.align)
        return offset

    def add(self, name: str, dtype: str, shape: list[int], data: bytes, shard=0, crc: int | None = None):
        offset = self.store(data, shard)
        crc = masked(crc32c(data)) if crc is None else crc
        self.entries[name.encode()] = entry_proto(DTYPES[dtype], shape, shard, offset, len(data), crc)
        return self

    def add_elements(self, name: str, dtype: str, shape: list[int], elements: list[bytes], endian="<"):
        data, crc = string_bytes(elements, endian) if dtype == "string" else variant_bytes(elements)
        return self.add(name, dtype, shape, data, crc=crc)

    def add_slices(self, name: str, dtype: str, shape: list[int], slices: list[tuple[list, bytes]]):
        """`slices`: a box and its bytes each."""
        boxes = [box for box, _ in slices]
        self.entries[name.encode()] = entry_proto(DTYPES[dtype], shape, slices=boxes)
        for box, data in slices:
            lengths = [length if length != -1 else shape[axis] for axis, (_, length) in enumerate(box)]
            offset = self.store(data)
            stored = entry_proto(DTYPES[dtype], lengths, 0, offset, len(data), masked(crc32c(data)))
            self.entries[slice_key(name, box)] = stored
        return self

    def sorted(self) -> list[tuple[bytes, bytes]]:
        header = [] if self.header is None else [(b"", self.header)]
        return header + sorted(self.entries.items())

    def files(self, prefix="m", **options) -> dict[str, bytes]:
        return self.with_index(table(self.sorted(), **options), prefix)

    def with_index(self, index: bytes, prefix="m") -> dict[str, bytes]:
        names = (f"{prefix}.data-{shard:05}-of-{self.shards:05}" for shard in range(self.shards))
        return {f"{prefix}.index": index} | dict(zip(names, map(bytes, self.data)))
