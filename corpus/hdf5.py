"""HDF5 files, built byte by byte."""

import struct
import zlib
from dataclasses import dataclass, field

UNDEFINED = 0xFFFFFFFFFFFFFFFF
SIGNATURE = b"\x89HDF\r\n\x1a\n"
# Datatypes: class and version, flags, size, properties.
F32 = bytes.fromhex("11201f0004000000" "00002000170800177f000000")
F32_BIG = b"\x11\x21" + F32[2:]
F64 = bytes.fromhex("11203f0008000000" "00004000340b0034ff030000")
F16 = bytes.fromhex("11200f0002000000" "000010000a05000a0f000000")


def integer(size: int, signed: bool) -> bytes:
    return struct.pack("<BBHIHH", 0x10, 8 if signed else 0, 0, size, 0, 8 * size)


BOOL = struct.pack("<BBHI", 0x18, 2, 0, 1) + integer(1, True) + b"FALSE\0\0\0TRUE\0\0\0\0\0\1"
OPAQUE = struct.pack("<BBHI", 0x15, 0, 0, 2)
def complex_of(part: bytes) -> bytes:
    size = struct.unpack_from("<I", part, 4)[0]
    member = lambda name, offset: struct.pack("<8sI28x", name, offset) + part
    return struct.pack("<BBHI", 0x16, 2, 0, 2 * size) + member(b"r", 0) + member(b"i", size)


def enumeration(base: bytes, values: dict[str, bytes]) -> bytes:
    names = b"".join(pad(name.encode() + b"\0") for name in values)
    size = struct.unpack_from("<I", base, 4)[0]
    return struct.pack("<BBHI", 0x18, len(values), 0, size) + base + names + b"".join(values.values())


TEXT = struct.pack("<BBHI", 0x19, 1, 1, 16) + struct.pack("<BBHIHH", 0x10, 0, 0, 1, 0, 8)


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def space(shape) -> bytes:
    lens = struct.pack(f"<{len(shape)}Q", *shape)
    return struct.pack("<BBBBI", 1, len(shape), int(len(shape) > 0), 0, 0) + lens * 2


def lookup3(data: bytes) -> int:
    """The checksum of metadata."""
    mask = 0xFFFFFFFF
    rot = lambda x, k: (x << k | x >> 32 - k) & mask
    a = b = c = (0xDEADBEEF + len(data)) & mask
    while len(data) > 12:
        x, y, z = struct.unpack("<3I", data[:12])
        a, b, c, data = (a + x) & mask, (b + y) & mask, (c + z) & mask, data[12:]
        a = (a - c ^ rot(c, 4)) & mask; c = c + b & mask
        b = (b - a ^ rot(a, 6)) & mask; a = a + c & mask
        c = (c - b ^ rot(b, 8)) & mask; b = b + a & mask
        a = (a - c ^ rot(c, 16)) & mask; c = c + b & mask
        b = (b - a ^ rot(a, 19)) & mask; a = a + c & mask
        c = (c - b ^ rot(b, 4)) & mask; b = b + a & mask
    if data:
        x, y, z = struct.unpack("<3I", data.ljust(12, b"\0"))
        a, b, c = (a + x) & mask, (b + y) & mask, (c + z) & mask
        c = (c ^ b) - rot(b, 14) & mask; a = (a ^ c) - rot(c, 11) & mask
        b = (b ^ a) - rot(a, 25) & mask; c = (c ^ b) - rot(b, 16) & mask
        a = (a ^ c) - rot(c, 4) & mask; b = (b ^ a) - rot(a, 14) & mask
        c = (c ^ b) - rot(b, 24) & mask
    return c


assert lookup3(b"Four score and seven years ago") == 0x17770551


def summed(data: bytes) -> bytes:
    return data + struct.pack("<I", lookup3(data))


def stored_zlib(data: bytes) -> bytes:
    """zlib's bytes without compression, which do not depend on its version."""
    return b"\x78\x01\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data + struct.pack(">I", zlib.adler32(data))


def fletcher32(data: bytes) -> bytes:
    one = two = 0
    for (pair,) in struct.iter_unpack(">H", data + bytes(len(data) % 2)):
        one += pair
        two += one
    fold = lambda number: number and (number - 1) % 65535 + 1
    return data + struct.pack("<I", fold(two) << 16 | fold(one))


def shuffled(data: bytes, size: int) -> bytes:
    return b"".join(data[at::size] for at in range(size))


def lzf(data: bytes) -> bytes:
    """LZF's bytes without compression."""
    return b"".join(bytes([len(part) - 1]) + part for part in (data[at : at + 32] for at in range(0, len(data), 32)))


@dataclass
class Dataset:
    """Everything that a broken file says otherwise is given."""

    datatype: bytes
    shape: list[int]
    data: bytes | None
    attributes: dict = field(default_factory=dict)
    # Messages instead of the usual layout, from the file and the data's address.
    layout: object = None
    fill: bytes = bytes([2, 2, 2, 1, 0, 0, 0, 0])
    filters: bytes | None = None
    more: list = field(default_factory=list)
    address: int | None = None


@dataclass
class Soft:
    path: str


@dataclass
class Hard:
    """A link to the object at an address."""

    address: int


class File:
    """Structures one after the other; the superblock comes last."""

    def __init__(self, user: int = 0):
        self.user = user
        self.bytes = bytearray(96)

    def add(self, data: bytes) -> int:
        self.bytes += bytes(-len(self.bytes) % 8)
        self.bytes += data
        return len(self.bytes) - len(data)

    def header(self, messages) -> int:
        body = b"".join(struct.pack("<HHI", kind, len(pad(data)), 0) + pad(data) for kind, data in messages)
        return self.add(struct.pack("<BBHIII", 1, 0, len(messages), 1, len(body), 0) + body)

    def attribute(self, name: str, value) -> bytes:
        texts = [value] if isinstance(value, str) else value
        heap = b""
        for number, text in enumerate(texts):
            heap += struct.pack("<HHIQ", number + 1, 0, 0, len(text.encode())) + pad(text.encode())
        size = max(4096, 32 + len(heap))
        rest = size - 16 - len(heap)
        at = self.add(b"GCOL" + struct.pack("<IQ", 1, size) + heap + struct.pack("<QQ", 0, rest) + bytes(rest - 16))
        own = space([] if isinstance(value, str) else [len(texts)])
        head = struct.pack("<BBHHH", 1, 0, len(name) + 1, len(TEXT), len(own))
        data = b"".join(struct.pack("<IQI", len(text.encode()), at, number + 1) for number, text in enumerate(texts))
        return head + pad(name.encode() + b"\0") + pad(TEXT) + pad(own) + data

    def dataset(self, own: Dataset) -> int:
        at = UNDEFINED if own.data is None else self.add(own.data)
        at = at if own.address is None else own.address
        size = struct.unpack_from("<I", own.datatype, 4)[0]
        total = size
        for length in own.shape:
            total *= length
        layout = own.layout(self, at) if own.layout else struct.pack("<BBQQ", 3, 1, at, total)
        messages = [(1, space(own.shape)), (3, own.datatype), (5, own.fill)]
        messages += [(0x0B, own.filters)] if own.filters else []
        messages += [(8, layout)] + own.more
        messages += [(0x0C, self.attribute(*pair)) for pair in own.attributes.items()]
        return self.header(messages)

    def group(self, members: dict, attributes=()) -> int:
        return self.symbols(members, attributes)[0]

    def symbols(self, members: dict, attributes=()) -> tuple[int, int, int]:
        """Adds a group; returns the addresses of its header, its tree and its heap."""
        entries, names = b"", bytes(8)
        for name in sorted(members):
            value, at = members[name], len(names)
            names += pad(name.encode() + b"\0")
            if isinstance(value, Soft):
                scratch = struct.pack("<II", 2, 0) + struct.pack("<I", len(names)) + bytes(12)
                names += pad(value.path.encode() + b"\0")
                entries += struct.pack("<QQ", at, UNDEFINED) + scratch
                continue
            if isinstance(value, Hard):
                object_at = value.address
            else:
                object_at = self.dataset(value) if isinstance(value, Dataset) else self.group(value)
            entries += struct.pack("<QQ", at, object_at) + bytes(24)
        data = self.add(names)
        heap = self.add(b"HEAP" + struct.pack("<IQQQ", 0, len(names), 1, data))
        node = self.add(b"SNOD" + struct.pack("<BBH", 1, 0, len(entries) // 40) + entries + bytes(320 - len(entries)))
        count = int(len(members) > 0)
        last = names.rfind(sorted(members)[-1].encode()) if members else 0
        keys = struct.pack("<QQQ", 0, node, last) if count else bytes(24)
        tree = self.add(b"TREE" + struct.pack("<BBHQQ", 0, 0, count, UNDEFINED, UNDEFINED) + keys + bytes(496))
        messages = [(0x11, struct.pack("<QQ", tree, heap))]
        messages += [(0x0C, self.attribute(name, value)) for name, value in attributes]
        return self.header(messages), tree, heap

    def done(self, root: tuple[int, int, int], end: int | None = None) -> bytes:
        header, tree, heap = root
        end = self.user + len(self.bytes) if end is None else end
        head = SIGNATURE + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + struct.pack("<HHI", 4, 16, 0)
        head += struct.pack("<QQQQ", self.user, UNDEFINED, end, UNDEFINED)
        head += struct.pack("<QQIIQQ", 0, header, 1, 0, tree, heap)
        self.bytes[:96] = head
        return b"\xee" * self.user + bytes(self.bytes)


def file(members: dict, attributes=(), user: int = 0, end: int | None = None) -> bytes:
    own = File(user)
    return own.done(own.symbols(members, attributes), end)


def new_file(name: str, own: Dataset, link_kind: bytes = b"") -> bytes:
    """Superblock 3, and one dataset in a root group of the new style, in headers with checksums."""

    def header(messages) -> bytes:
        body = b"".join(struct.pack("<BHB", kind, len(data), 0) + data for kind, data in messages)
        return summed(b"OHDR" + struct.pack("<BBI", 2, 2, len(body)) + body)

    shape = struct.pack("<BBBB", 2, len(own.shape), 0, int(len(own.shape) > 0)) + struct.pack(f"<{len(own.shape)}Q", *own.shape)
    at = 48
    layout = own.layout(None, at) if own.layout else struct.pack("<BBQQ", 3, 1, at, len(own.data))
    filters = [(0x0B, own.filters)] if own.filters else []
    dataset = header([(1, shape), (3, own.datatype), (5, b"\3\x0a")] + filters + [(8, layout)])
    dataset_at = at + len(pad(own.data))
    link = link_kind or struct.pack("<BBB", 1, 0, len(name)) + name.encode() + struct.pack("<Q", dataset_at)
    info = struct.pack("<BBQQ", 0, 0, UNDEFINED, UNDEFINED)
    root = header([(2, info), (0x0A, b"\0\0"), (6, link)])
    root_at = dataset_at + len(pad(dataset))
    body = pad(own.data) + pad(dataset) + root
    head = SIGNATURE + bytes([3, 8, 8, 0]) + struct.pack("<QQQQ", 0, UNDEFINED, 48 + len(body), root_at)
    return summed(head) + body
