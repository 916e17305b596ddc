"""NumPy archives and arrays, built byte by byte, and broken ones."""

import struct
import zlib
from dataclasses import dataclass

from common import Tensor, accept, f32, reject

# NumPy's name, ours, and two values' bytes in little-endian order.
DTYPES = [
    ("f8", "f64", struct.pack("<2d", 1.5, -2.0)), ("f4", "f32", f32(1.5, -2.0)), ("f2", "f16", struct.pack("<2e", 1.5, -2)),
    ("i8", "i64", struct.pack("<2q", 1, -2)), ("i4", "i32", struct.pack("<2i", 1, -2)),
    ("i2", "i16", struct.pack("<2h", 1, -2)), ("i1", "i8", b"\x01\xfe"), ("u8", "u64", struct.pack("<2Q", 1, 2**63)),
    ("u4", "u32", struct.pack("<2I", 1, 2**31)), ("u2", "u16", struct.pack("<2H", 1, 2**15)), ("u1", "u8", b"\x01\x80"),
    ("b1", "bool", b"\x00\x01"), ("c8", "c64", f32(1, 2, 3, 4)), ("c16", "c128", struct.pack("<4d", 1, 2, 3, 4)),
]


def header(dict_text: str, version=1, encoding="latin1") -> bytes:
    text = dict_text.encode(encoding)
    prefix = 10 if version == 1 else 12
    text += b" " * (64 - (prefix + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


def array(descr: str, shape: str, data: bytes, fortran=False, version=1) -> bytes:
    return header(f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}", version) + data


MATRIX = array("'<f4'", "(2, 3)", f32(0, 1, 2, 3, 4, 5))
W = Tensor("w", "f32", [2, 3], f32(0, 1, 2, 3, 4, 5))
# MATRIX, deflated once and for all: what zlib makes of it depends on its version.
DEFLATED = bytes.fromhex(
    "9bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402"
    "f91a463a0ac69a3a0ab50a64032e063068b007120e4004c40d40bcc00100"
)


@dataclass
class Member:
    """Everything that a broken archive says otherwise is given; None is what it should be."""

    name: bytes
    data: bytes
    flags: int = 0
    method: int = 0
    crc: int | None = None
    len: int | None = None
    local_name: bytes | None = None
    local_len: int | None = None
    local_crc: int | None = None
    at: int | None = None
    # What lies in the archive instead of the data, deflated.
    packed: bytes | None = None

    @property
    def stored(self) -> bytes:
        return self.data if self.packed is None else self.packed

    def fields(self, local: bool):
        crc = zlib.crc32(self.data) if self.crc is None else self.crc
        length = len(self.data) if self.len is None else self.len
        if local and self.local_crc is not None:
            crc = self.local_crc
        if local and self.local_len is not None:
            length = self.local_len
        packed = length if self.packed is None else len(self.packed)
        return struct.pack("<4HI", self.flags, self.method, 0, 33, crc), packed, length

    def local(self, zip64: bool) -> bytes:
        fixed, packed, length = self.fields(True)
        name = self.name if self.local_name is None else self.local_name
        sizes = (2**32 - 1, 2**32 - 1, len(name), 20) if zip64 else (packed, length, len(name), 0)
        extra = struct.pack("<2H2Q", 1, 16, length, packed) if zip64 else b""
        return b"PK\3\4\x2d\0" + fixed + struct.pack("<2I2H", *sizes) + name + extra

    def central(self, at: int, zip64: bool) -> bytes:
        fixed, packed, length = self.fields(False)
        at = at if self.at is None else self.at
        most = 2**32 - 1
        sizes = (most, most, len(self.name), 28) if zip64 else (packed, length, len(self.name), 0)
        extra = struct.pack("<2H3Q", 1, 24, length, packed, at) if zip64 else b""
        attributes = struct.pack("<3H2I", 0, 0, 0, 0o600 << 16, most if zip64 else at)
        return b"PK\1\2\x2d\3\x2d\0" + fixed + struct.pack("<2I2H", *sizes) + attributes + self.name + extra


def archive(*members: Member, zip64=True, large=False, count=None, size=None, start=None, comment=b"") -> bytes:
    """As np.savez writes it; `large` has 64-bit numbers everywhere, `zip64=False` none."""
    out, directory = b"", b""
    for member in members:
        directory += member.central(len(out), large)
        out += member.local(zip64) + member.stored
    at = len(out)
    count = len(members) if count is None else count
    size = len(directory) if size is None else size
    start = at if start is None else start
    out += directory
    if large:
        record = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start)
        out += record + struct.pack("<4sIQI", b"PK\6\7", 0, at + len(directory), 1)
        count, size, start = 2**16 - 1, 2**32 - 1, 2**32 - 1
    return out + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, size, start, len(comment)) + comment


def one(**changes) -> bytes:
    return archive(Member(b"w.npy", MATRIX, **changes))


LENIENT = ["lenient=true"]


def accepted():
    def npz(name, why, data, tensors, options=()):
        return accept(name, why, {f"{name}.npz": data}, f"{name}.npz", tensors, options)

    def npy(name, why, data, dtype, shape, values):
        return accept(name, why, {f"{name}.npy": data}, f"{name}.npy", [Tensor(name, dtype, shape, values)])

    columns = f32(0, 3, 1, 4, 2, 5)
    big = struct.pack(">6f", 0, 1, 2, 3, 4, 5)
    yield npz("one", "one array", one(), [W])
    slash = archive(Member(b"/w.npy", MATRIX), Member(b"../a/../w.npy", MATRIX))
    names = [Tensor("/w", "f32", [2, 3], W.data), Tensor("../a/../w", "f32", [2, 3], W.data)]
    yield npz("leading_slash", "names that would be paths elsewhere", slash, names)
    yield npy("matrix", "an array alone", MATRIX, "f32", [2, 3], W.data)
    yield npy("column_major", "column-major", array("'<f4'", "(2, 3)", columns, True), "f32", [2, 3], W.data)
    yield npy("big_endian", "big-endian", array("'>f4'", "(2, 3)", big), "f32", [2, 3], W.data)
    yield npy("scalar", "no axes", array("'<f4'", "()", f32(7)), "f32", [], f32(7))
    yield npy("no_elements", "an axis of length 0", array("'<f4'", "(2, 0, 3)", b""), "f32", [2, 0, 3], b"")
    yield npy("version_2", "a header of version 2.0", array("'<f4'", "(2, 3)", W.data, version=2), "f32", [2, 3], W.data)
    yield npy("version_3", "a header of version 3.0", array("'<f4'", "(2, 3)", W.data, version=3), "f32", [2, 3], W.data)
    other = header('{"shape":(2L,3L),"fortran_order":False,"descr":"<f4"}') + W.data
    yield npy("python_2", "the dict as Python 2 wrote it", other, "f32", [2, 3], W.data)
    members, tensors = [], []
    for code, dtype, values in DTYPES:
        bytes_each = len(values) // 2
        component = bytes_each // 2 if code[0] == "c" else bytes_each
        swapped = b"".join(values[k:k + component][::-1] for k in range(0, len(values), component))
        for order, data in ("<" if component > 1 else "|", values), (">", swapped):
            members.append(Member(f"{dtype}/{order}.npy".encode(), array(f"'{order}{code}'", "(2,)", data)))
            tensors.append(Tensor(f"{dtype}/{order}", dtype, [2], values))
    yield npz("every_dtype", "every dtype in both byte orders", archive(*members), tensors)
    yield npz("no_zip64", "an archive with 32-bit numbers alone", archive(Member(b"w.npy", MATRIX), zip64=False), [W])
    yield npz("zip64", "an archive with 64-bit numbers everywhere", archive(Member(b"w.npy", MATRIX), large=True), [W])
    yield npz("sizes_later", "sizes after the data, as a pipe gets them",
              one(flags=8, local_crc=0, local_len=0), [W])
    yield npz("comment", "a comment at the end", archive(Member(b"w.npy", MATRIX), comment=b"PK\5\6" + b"\0" * 30), [W])
    yield npz("deflated", "a deflated member, as np.savez_compressed writes it", one(method=8, packed=DEFLATED), [W])
    yield npz("deflated_zip64", "a deflated member with 64-bit numbers everywhere",
              archive(Member(b"w.npy", MATRIX, method=8, packed=DEFLATED), large=True), [W])
    yield npz("utf8", "a name in UTF-8", archive(Member("ä/ö.npy".encode(), MATRIX, flags=1 << 11)),
              [Tensor("ä/ö", "f32", [2, 3], W.data)])
    text = Member(b"text.npy", array("'<U1'", "(1,)", b"a\0\0\0"))
    yield npz("left_out", "a text beside an array, lenient", archive(text, Member(b"w.npy", MATRIX)), [W], LENIENT)


def rejected():
    def npz(name, why, data, kind="corrupt", options=LENIENT):
        return reject(name, why, {f"{name}.npz": data}, f"{name}.npz", kind, options)

    def npy(name, why, data, kind="corrupt"):
        return reject(name, why, {f"{name}.npy": data}, f"{name}.npy", kind)

    other = Member(b"v.npy", MATRIX)
    yield npz("empty", "no byte at all", b"")
    yield npz("cut", "the last byte is missing", one()[:-1])
    yield npz("trailing_byte", "a byte after the end", one() + b"\0")
    yield npz("prefix", "bytes before the archive", b"#!" + one())
    yield npz("count_too_big", "more members than the directory has", archive(other, count=2))
    yield npz("count_too_small", "fewer members than the directory has", archive(other, count=0))
    yield npz("size_too_big", "a directory beyond its end", archive(other, size=2**32 - 2))
    yield npz("start_too_big", "a directory that begins after the end", archive(other, start=2**31))
    yield npz("zip64_count", "2^64 - 1 members", archive(other, large=True, count=2**64 - 1))
    yield npz("zip64_size", "a directory of 2^64 - 1 bytes", archive(other, large=True, size=2**64 - 1))
    yield npz("deflated_not", "a member that is said to be deflated, and is not", one(method=8))
    yield npz("deflated_cut", "a deflated member without its last byte", one(method=8, packed=DEFLATED[:-1]))
    yield npz("deflated_more", "a byte after what is deflated", one(method=8, packed=DEFLATED + b"\0"))
    yield npz("deflated_long", "a deflated member that holds less than it says",
              one(method=8, packed=DEFLATED, len=len(MATRIX) + 1, local_len=len(MATRIX) + 1))
    yield npz("deflated_short", "a deflated member that holds more than it says",
              one(method=8, packed=DEFLATED, len=len(MATRIX) - 1, local_len=len(MATRIX) - 1))
    yield npz("deflated_bomb", "a deflated member of 2^40 bytes", archive(
        Member(b"w.npy", array("'<f4'", "(274877906944,)", b""), method=8, packed=DEFLATED, len=2**31, local_len=2**31)))
    yield npz("deflated_checksum", "a deflated member with a wrong checksum", one(method=8, packed=DEFLATED, crc=1))
    yield npz("bzip2", "a member compressed otherwise", one(method=12), "unsupported")
    yield npz("encrypted", "an encrypted member", one(flags=1), "unsupported")
    yield npz("nul", "a name with NUL", archive(Member(b"w\0.npy", MATRIX)))
    yield npz("name_twice", "two members of one name", archive(other, other))
    yield npz("name_not_utf8", "a name that is neither ASCII nor UTF-8", archive(Member(b"\xff.npy", MATRIX)), "unsupported")
    yield npz("checksum", "a wrong checksum in both headers", one(crc=1))
    flipped = bytearray(one())
    flipped[30 + 5 + 20 + 130] ^= 1
    yield npz("flipped", "a bit of the data flipped", bytes(flipped))
    yield npz("local_checksum", "another checksum in the member's own header", one(local_crc=1))
    yield npz("local_length", "another length in the member's own header", one(local_len=len(MATRIX) - 1))
    yield npz("local_name", "another name in the member's own header", one(local_name=b"v.npy"))
    yield npz("local_missing", "a member where none is", one(at=3))
    yield npz("local_past_end", "a member beyond the end", one(at=2**31))
    yield npz("too_long", "a member that reaches into the directory", one(len=len(MATRIX) + 9, local_len=len(MATRIX) + 9))
    shared = archive(Member(b"w.npy", MATRIX), Member(b"w2.npy", MATRIX, at=0))
    yield npz("shared", "two members in one place", shared)
    yield npz("text", "an array of texts", archive(Member(b"w.npy", array("'<U1'", "(1,)", b"a\0\0\0"))), "unsupported", ())
    yield npz("object", "an array of pickled objects", archive(Member(b"w.npy", array("'|O'", "(1,)", b"\x80\x04N."))),
              "unsupported", ())
    yield npz("no_array", "a member that is no array", archive(Member(b"note.txt", b"hello")), "unsupported", ())
    yield npy("data_cut", "the last byte is missing", MATRIX[:-1])
    yield npy("data_long", "a byte after the data", MATRIX + b"\0")
    yield npy("magic_alone", "nothing but the magic number", MATRIX[:6])
    yield npy("header_cut", "half a header", MATRIX[:40])
    yield npy("header_long", "a header of 4 GiB", b"\x93NUMPY\2\0\xff\xff\xff\xff" + MATRIX[10:], "limit")
    yield npy("header_padded", "a header of 70,000 bytes", array("'<f4'", "(1,)" + " " * 70_000, f32(1), version=2),
              "unsupported")
    yield npy("version_4", "a header of version 4.0", array("'<f4'", "(2, 3)", W.data, version=4), "unsupported")
    yield npy("bfloat16", "what ml_dtypes saves", array("'<V2'", "(1,)", b"\x80\x3f"), "unsupported")
    yield npy("long_double", "a long double", array("'<f16'", "(1,)", bytes(16)), "unsupported")
    yield npy("structured", "a structured array", array("[('x', '<f4')]", "(1,)", f32(1)), "unsupported")
    yield npy("native_order", "no byte order", array("'f4'", "(1,)", f32(1)), "unsupported")
    for name, shape in {"negative": "(-1,)", "float": "(1.0,)", "number": "(1)", "list": "[1]", "overflow": "(2305843009213693952, 16)",
                        "hidden_overflow": "(0, 4294967296, 4294967296)", "past_64_bits": "(18446744073709551616,)"}.items():
        yield npy(f"shape_{name}", f"the shape {shape}", array("'<f4'", shape, f32(1)))
    yield npy("key_missing", "no shape", header("{'descr': '<f4', 'fortran_order': False}") + f32(1))
    yield npy("key_twice", "two shapes", header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}") + f32(1))
    yield npy("key_unknown", "an unknown key", header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}") + f32(1))
    yield npy("program", "an expression in place of a literal", header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,) + (1,)}") + f32(1))
    yield npy("deep", "10,000 brackets", header("{" * 10_000) + f32(1))
