"""GGUF files, built byte by byte, and broken ones."""

import struct
from dataclasses import dataclass

from common import Tensor, accept, f32, reject

# llama.cpp's number of a type, its name here, and two values.
DTYPES = [
    (0, "f32", f32(1.5, -2)), (1, "f16", struct.pack("<2e", 1.5, -2)), (24, "i8", b"\x01\xfe"),
    (25, "i16", struct.pack("<2h", 1, -2)), (26, "i32", struct.pack("<2i", 1, -2)), (27, "i64", struct.pack("<2q", 1, -2)),
    (28, "f64", struct.pack("<2d", 1.5, -2)), (30, "bf16", b"\xc0\x3f\x00\xc0"),
]
U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
HUGE = 1 << 60


def string(text: bytes, order="<") -> bytes:
    return struct.pack(order + "Q", len(text)) + text


def key(name: str, kind: int, value: bytes, order="<") -> bytes:
    return string(name.encode(), order) + struct.pack(order + "I", kind) + value


def array(element: int, count: int, elements: bytes) -> bytes:
    return struct.pack("<IQ", element, count) + elements


@dataclass
class Info:
    """A tensor. Everything that a broken file says otherwise is given; None is what it should be."""

    name: bytes
    dims: tuple
    kind: int
    data: bytes
    offset: int | None = None
    rank: int | None = None


def file(tensors, keys=(), version=3, order="<", alignment=32, magic=b"GGUF", counts=(None, None), padded=True) -> bytes:
    count = [len(given) if stated is None else stated for given, stated in zip((tensors, keys), counts)]
    out = magic + struct.pack(order + "IQQ", version, *count) + b"".join(keys)
    next_ = 0
    for info in tensors:
        rank = len(info.dims) if info.rank is None else info.rank
        out += string(info.name, order) + struct.pack(f"{order}I{len(info.dims)}Q", rank, *info.dims)
        out += struct.pack(order + "IQ", info.kind, next_ if info.offset is None else info.offset)
        next_ += len(info.data) + -len(info.data) % alignment
    for info in tensors:
        out += bytes(-len(out) % alignment) + info.data
    return out + bytes(-len(out) % alignment if padded else 0)


W = Tensor("w", "f32", [2, 3], f32(0, 1, 2, 3, 4, 5))
MATRIX = Info(b"w", (3, 2), 0, W.data)
OTHER = Info(b"v", (2,), 0, f32(6, 7))
V = Tensor("v", "f32", [2], OTHER.data)
LENIENT = ["lenient=true"]


def set_of(count: int, numbers: list[int], stated=None) -> dict[str, bytes]:
    """The files of a set under their names; `numbers` are those that the files themselves state."""
    infos = [Info(f"w{number}".encode(), (1,), 0, f32(number)) for number in range(count)]
    files = {}
    for position, number in enumerate(numbers):
        keys = [
            key("split.no", U16, struct.pack("<H", number)), key("split.count", U16, struct.pack("<H", count)),
            key("split.tensors.count", I32, struct.pack("<i", count if stated is None else stated)),
        ]
        files[f"m-{position + 1:05}-of-{count:05}.gguf"] = file([infos[number]], keys)
    return files


def accepted():
    def gguf(name, why, data, tensors, options=()):
        return accept(name, why, {f"{name}.gguf": data}, f"{name}.gguf", tensors, options)

    yield gguf("one", "one tensor", file([MATRIX]), [W])
    yield gguf("every_dtype", "every type that stores numbers one by one",
        file([Info(dtype.encode(), (2,), kind, data) for kind, dtype, data in DTYPES]),
        [Tensor(dtype, dtype, [2], data) for _, dtype, data in DTYPES])
    yield gguf("scalar", "a tensor without axes, and one without elements",
        file([Info(b"s", (), 0, f32(5)), Info(b"e", (0, 3), 0, b"")]), [Tensor("s", "f32", [], f32(5)), Tensor("e", "f32", [3, 0], b"")])
    yield gguf("version_2", "version 2", file([MATRIX], version=2), [W])
    yield gguf("big_endian", "big-endian numbers",
        file([Info(b"w", (3, 2), 0, struct.pack(">6f", 0, 1, 2, 3, 4, 5))], [key("a", U32, struct.pack(">I", 5), ">")], order=">"), [W])
    yield gguf("aligned", "a larger alignment",
        file([MATRIX, OTHER], [key("general.alignment", U32, struct.pack("<I", 128))], alignment=128), [W, V])
    yield gguf("unpadded", "no padding after the last tensor", file([MATRIX], padded=False), [W])
    filled = bytearray(file([MATRIX, OTHER]))
    filled[-1] = filled[-33] = filled[-65] = 7  # behind the second tensor, the first, and the header
    yield gguf("padding", "padding that is not zero", bytes(filled), [W, V])
    yield gguf("empty", "no tensor", file([], [key("a", BOOL, b"\1")]), [])
    yield gguf("every_key", "a value of every type", file([MATRIX], [
        key("u8", U8, b"\xff"), key("i8", I8, b"\xff"), key("u16", U16, b"\1\2"), key("i16", I16, b"\1\xff"),
        key("u32", U32, struct.pack("<I", 7)), key("i32", I32, struct.pack("<i", -7)), key("f32", F32, f32(0.5)),
        key("bool", BOOL, b"\0"), key("string", STRING, string("ä".encode())), key("bytes", STRING, string(b"\xff")),
        key("u64", U64, struct.pack("<Q", 2**64 - 1)), key("i64", I64, struct.pack("<q", -1)), key("f64", F64, struct.pack("<d", 0.5)),
        key("array", ARRAY, array(STRING, 2, string(b"a") + string(b""))), key("none", ARRAY, array(U32, 0, b"")),
        key("nested", ARRAY, array(ARRAY, 2, array(U8, 1, b"\1") + array(I16, 0, b""))),
    ]), [W])
    gap = Info(OTHER.name, OTHER.dims, 0, OTHER.data, offset=64)
    gapped = file([MATRIX, gap])
    yield gguf("gap", "a gap between two tensors, lenient", gapped[:-32] + bytes(32) + gapped[-32:], [W, V], LENIENT)
    yield gguf("trailing", "bytes after the end, lenient", file([MATRIX]) + b"x", [W], LENIENT)
    yield accept("set", "a set of three files", set_of(3, [0, 1, 2]), "m-00001-of-00003.gguf",
        [Tensor(f"w{number}", "f32", [1], f32(number)) for number in range(3)])
    yield accept("folder", "the folder of a set", set_of(2, [0, 1]), "",
        [Tensor(f"w{number}", "f32", [1], f32(number)) for number in range(2)])


def rejected():
    def gguf(name, why, data, kind="corrupt", options=()):
        return reject(name, why, {f"{name}.gguf": data}, f"{name}.gguf", kind, options)

    def keyed(name, why, *keys, kind="corrupt"):
        return gguf(name, why, file([MATRIX], keys), kind)

    def tensor(case, why, error="corrupt", **changes):
        return gguf(case, why, file([Info(**{**MATRIX.__dict__, **changes})]), error)

    def second(case, why, **changes):
        return gguf(case, why, file([MATRIX, Info(**{**OTHER.__dict__, **changes})]))

    yield gguf("cut", "the last tensor lacks a byte", file([MATRIX], padded=False)[:-1])
    yield gguf("cut_header", "the header is cut", file([MATRIX])[:40])
    yield gguf("no_data", "no data", file([MATRIX])[:64])
    yield gguf("trailing_byte", "a byte after the end", file([MATRIX]) + b"\0")
    yield gguf("half_padded", "padding is cut", file([MATRIX])[:-1])
    yield gguf("magic", "another magic number", file([MATRIX], magic=b"GGML"))
    yield gguf("version_1", "version 1", file([MATRIX], version=1), "unsupported")
    yield gguf("version_4", "version 4", file([MATRIX], version=4), "unsupported")
    yield gguf("tensor_count", "2^60 tensors", file([MATRIX], counts=(HUGE, None)))
    yield gguf("tensor_count_one_more", "a tensor more than there are", file([MATRIX], counts=(2, None)))
    yield gguf("key_count", "2^60 keys", file([MATRIX], counts=(None, HUGE)))
    yield keyed("key_length", "a key of 2^60 bytes", struct.pack("<Q", HUGE))
    yield keyed("key_empty", "an empty key", key("", U8, b"\1"))
    yield keyed("key_twice", "a key twice", key("a", U8, b"\1"), key("a", U8, b"\1"))
    yield keyed("key_not_utf8", "a key that is no UTF-8", string(b"\xff") + struct.pack("<IB", U8, 1))
    yield keyed("value_type", "a value of type 13", key("a", 13, b"\1"))
    yield keyed("bool_2", "a truth value of 2", key("a", BOOL, b"\2"))
    yield keyed("string_length", "a string of 2^63 bytes", key("a", STRING, struct.pack("<Q", 1 << 63)))
    yield keyed("array_length", "an array of 2^60 numbers", key("a", ARRAY, array(U32, HUGE, b"")))
    yield keyed("array_depth", "arrays nested 10,000 deep",
        key("a", ARRAY, array(ARRAY, 1, b"") * 9999 + array(U8, 1, b"\1")), kind="limit")
    for value in (0, 33):
        yield keyed(f"alignment_{value}", f"an alignment of {value}", key("general.alignment", U32, struct.pack("<I", value)))
    yield keyed("alignment_text", "an alignment that is a text", key("general.alignment", STRING, string(b"32")))
    yield keyed("alignment_other", "an alignment that the file does not keep", key("general.alignment", U32, struct.pack("<I", 4096)))
    yield tensor("type_removed", "a type that llama.cpp no longer has", "unsupported", kind=4)
    yield tensor("type_unknown", "a type that does not exist", "unsupported", kind=99)
    yield tensor("half_block", "rows that are no multiple of a block", kind=8)
    yield tensor("rank", "2^32 - 1 axes", rank=2**32 - 1)
    yield tensor("five_axes", "five axes", dims=(1, 1, 1, 3, 2))
    yield tensor("elements", "a product that wraps to 8", dims=(1 << 33, (1 << 31) + 1))
    yield tensor("name_not_utf8", "a name that is no UTF-8", name=b"\xff")
    yield tensor("offset_overflow", "an offset at the end of all numbers", offset=2**64 - 32)
    yield tensor("offset_unaligned", "an offset that is no multiple of the alignment", offset=8)
    yield tensor("offset_first", "a gap before the first tensor", offset=32)
    yield second("name_twice", "two tensors of one name", name=b"w")
    yield second("overlap", "two tensors in one place", offset=0)
    yield second("past_end", "a tensor beyond the end", offset=1 << 20)
    yield second("gap", "a gap between two tensors", offset=64)
    whole = set_of(3, [0, 1, 2])
    entry = "m-00001-of-00003.gguf"
    missing = {name: data for name, data in whole.items() if "00002-of" not in name}
    yield reject("set_missing", "a file of the set is missing", missing, entry, "io")
    yield reject("set_swapped", "two files of a set under each other's names", set_of(3, [0, 2, 1]), entry)
    yield reject("set_count", "another number of tensors than the set states", set_of(3, [0, 1, 2], stated=4), entry)
    yield reject("set_alone", "a file of a set under a name of its own", {"m.gguf": whole[entry]}, "m.gguf", "usage")
