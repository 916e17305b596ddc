"""Lists of arrays of MXNet in all four layouts, sparse ones too, and broken ones."""

import struct

from common import Tensor, accept, f32, ramp, reject

V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
NUMBERS = {"f32": 0, "f64": 1, "f16": 2, "u8": 3, "i32": 4, "i8": 5, "i64": 6, "bool": 7, "bf16": 12}


def dims(shape: list[int], rank: int | None = None) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape) if rank is None else rank, *shape)


def array(dtype: str | int, shape: list[int], data: bytes, magic: int = V2, storage: int = 0) -> bytes:
    """A dense array in one of the layouts since version 0.9."""
    number = NUMBERS[dtype] if isinstance(dtype, str) else dtype
    form = struct.pack("<Ii", magic, storage) if magic != V1 else struct.pack("<I", magic)
    return form + dims(shape) + struct.pack("<3i", 1, 0, number) + data


def oldest(shape: list[int], data: bytes) -> bytes:
    """The layout that begins with the rank, with lengths of 32 bits."""
    return struct.pack(f"<{1 + len(shape)}I3i", len(shape), *shape, 1, 0, 0) + data


def sparse(storage: int, shape: list[int], stored: list[int], data: bytes, *indices: list[int], number: int = 6) -> bytes:
    """Values of the shape `stored`, and lists of indices."""
    head = struct.pack("<Ii", V2, storage) + dims(stored) + dims(shape) + struct.pack("<3i", 1, 0, 0)
    for own in indices:
        head += struct.pack("<i", number) + dims([len(own)])
    return head + data + b"".join(struct.pack(f"<{len(own)}q", *own) for own in indices)


def names(*all_names: str | bytes) -> bytes:
    encoded = [name if isinstance(name, bytes) else name.encode() for name in all_names]
    return struct.pack("<Q", len(encoded)) + b"".join(struct.pack("<Q", len(name)) + name for name in encoded)


def build(arrays: list[bytes], tail: bytes = struct.pack("<Q", 0), count: int | None = None) -> bytes:
    return struct.pack("<3Q", 0x112, 0, len(arrays) if count is None else count) + b"".join(arrays) + tail


def file(name: str, data: bytes) -> tuple[dict[str, bytes], str]:
    return {f"{name}.params": data}, f"{name}.params"


VALUES = ramp(6)
WEIGHT = array("f32", [2, 3], VALUES)
ROW_SPARSE = sparse(1, [4, 2], [2, 2], f32(1, 2, 3, 4), [1, 3])
CSR = sparse(2, [3, 4], [3], f32(1, 2, 3), [0, 2, 2, 3], [0, 3, 1])


def accepted():
    def case(name, why, data, *tensors):
        return accept(name, why, *file(name, data), [Tensor(*tensor) for tensor in tensors])

    yield case("dict", "two arrays with the names of a Module", build([WEIGHT, array("f32", [2], f32(1, -1))],
               names("arg:fc_weight", "aux:bn_moving_mean")),
               ("arg:fc_weight", "f32", [2, 3], VALUES), ("aux:bn_moving_mean", "f32", [2], f32(1, -1)))
    yield case("list", "arrays without names", build([WEIGHT, array("f32", [1], f32(2))]),
               ("0", "f32", [2, 3], VALUES), ("1", "f32", [1], f32(2)))
    yield case("empty_list", "no arrays", build([]))
    yield case("oldest", "the layout that begins with the rank", build([oldest([2, 3], VALUES)], names("w")), ("w", "f32", [2, 3], VALUES))
    yield case("first", "the layout of version 0.9", build([array("f32", [2, 3], VALUES, V1)], names("w")), ("w", "f32", [2, 3], VALUES))
    yield case("numpy", "the layout of NumPy shapes: a scalar, and no elements",
               build([array("f32", [], f32(5), V3), array("f32", [0, 3], b"", V3)], names("s", "e")),
               ("s", "f32", [], f32(5)), ("e", "f32", [0, 3], b""))
    data = {name: bytes(range(1, 1 + 2 * size)) for name, size in zip(NUMBERS, (4, 8, 2, 1, 4, 1, 8, 1, 2))}
    data["bool"] = b"\x01\x00"
    yield case("dtypes", "every dtype", build([array(name, [2], own) for name, own in data.items()], names(*data)),
               *((name, name, [2], own) for name, own in data.items()))
    yield case("without_shape", "an array without a shape is none",
               build([struct.pack("<Iii", V2, 0, 0), struct.pack("<I", 0), struct.pack("<Iii", V3, 0, -1), WEIGHT]), ("3", "f32", [2, 3], VALUES))
    yield case("row_sparse", "rows 1 and 3 of 4", build([ROW_SPARSE], names("e")), ("e", "f32", [4, 2], f32(0, 0, 1, 2, 0, 0, 3, 4)))
    yield case("csr", "three elements of twelve", build([CSR], names("m")), ("m", "f32", [3, 4], f32(1, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0)))
    yield case("sparse_zeros", "sparse arrays without values",
               build([sparse(1, [2, 2], [0, 2], b"", []), sparse(2, [2, 2], [0], b"", [0, 0, 0], [])], names("r", "c")),
               ("r", "f32", [2, 2], bytes(16)), ("c", "f32", [2, 2], bytes(16)))


def rejected():
    def case(name, why, data, kind="corrupt"):
        return reject(name, why, *file(name, data), kind=kind)

    yield case("magic", "another first number", struct.pack("<Q", 0x113) + build([WEIGHT])[8:])
    yield case("reserved", "another second number", struct.pack("<2Q", 0x112, 1) + build([WEIGHT])[16:], "unsupported")
    yield case("count", "2^60 arrays", build([WEIGHT], count=1 << 60))
    yield case("cut_in_values", "cut within the values", build([WEIGHT])[:60])
    yield case("cut_in_names", "cut within a name", build([WEIGHT], names("weight"))[:-1])
    yield case("trailing", "bytes behind the names", build([WEIGHT]) + b"\0")
    yield case("rank", "33 axes", build([struct.pack("<Ii", V2, 0) + dims([1] * 33) + struct.pack("<3i", 1, 0, 0) + f32(1)]))
    yield case("rank_negative", "a rank of -1 in the layout of version 1", build([struct.pack("<Iii", V2, 0, -1)]))
    yield case("rank_oldest", "a rank of 2^31 - 1", build([struct.pack("<I", (1 << 31) - 1) + VALUES]))
    yield case("negative_length", "an axis of -2", build([array("f32", [2, -3], VALUES)]))
    yield case("huge_shape", "more elements than 64 bits count", build([array("f32", [1 << 40, 1 << 40], VALUES)]))
    yield case("long_values", "more bytes than the file has", build([array("f32", [1 << 20], VALUES)]))
    yield case("dtype", "dtype 77", build([array(77, [2, 3], VALUES)]))
    yield case("storage", "storage type 9", build([array("f32", [2, 3], VALUES, storage=9)]))
    yield case("names_count", "two names for one array", build([WEIGHT], names("a", "b")))
    yield case("name_length", "a name of 2^40 bytes", build([WEIGHT], struct.pack("<2Q", 1, 1 << 40) + b"w"))
    yield case("name_not_utf8", "a name that is not UTF-8", build([WEIGHT], names(b"\xff\xfe")))
    yield case("name_twice", "two arrays of one name", build([WEIGHT, WEIGHT], names("w", "w")))
    yield case("row_outside", "row 4 of 4", build([sparse(1, [4, 2], [2, 2], f32(1, 2, 3, 4), [1, 4])]))
    yield case("row_order", "rows that go back", build([sparse(1, [4, 2], [2, 2], f32(1, 2, 3, 4), [3, 1])]))
    yield case("row_count", "three rows for two", build([sparse(1, [4, 2], [2, 2], f32(1, 2, 3, 4), [0, 1, 2])]))
    yield case("row_shape", "rows of another length", build([sparse(1, [4, 2], [2, 1], f32(1, 2), [1, 3])]))
    yield case("csr_column", "column 4 of 4", build([sparse(2, [3, 4], [3], f32(1, 2, 3), [0, 2, 2, 3], [0, 4, 1])]))
    yield case("csr_pointers", "row pointers that go back", build([sparse(2, [3, 4], [3], f32(1, 2, 3), [0, 2, 1, 3], [0, 3, 1])]))
    yield case("csr_end", "row pointers that end before the values", build([sparse(2, [3, 4], [3], f32(1, 2, 3), [0, 2, 2, 2], [0, 3, 1])]))
    yield case("csr_rank", "three axes", build([sparse(2, [3, 4, 1], [3], f32(1, 2, 3), [0, 2, 2, 3], [0, 3, 1])]))
    yield case("index_dtype", "indices that are floats", build([sparse(1, [4, 2], [2, 2], f32(1, 2, 3, 4), [1, 3], number=1)]), "unsupported")
