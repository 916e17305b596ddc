"""Pickles of PaddlePaddle, written opcode by opcode, records of its inference models, and broken ones."""

import json
import struct

from common import Tensor, accept, f32, ramp, reject

CODES = {"f32": "f4", "f64": "f8", "f16": "f2", "i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "i64": "i8", "bool": "b1", "c64": "c8"}
NUMBERS = {"bool": 0, "i16": 1, "i32": 2, "i64": 3, "f16": 4, "f32": 5, "f64": 6, "u8": 20, "i8": 21, "bf16": 22, "c64": 23, "c128": 24}


def text(value: str | bytes) -> bytes:
    encoded = value if isinstance(value, bytes) else value.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def integer(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def list_of(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def entries_of(*entries: tuple[str | bytes, bytes]) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in entries) + b"u"


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return f"c{module}\n{name}\n".encode() + tuple_of(*arguments) + b"R"


def array(dtype: str, shape: list[int], data: bytes, module: str = "numpy.core.multiarray", order: str | None = None) -> bytes:
    """An array of NumPy with its elements as bytes."""
    code = CODES.get(dtype, dtype)
    kind = call("numpy", "dtype", text(code), b"\x89", b"\x88")
    order = order or ("|" if code[1:] == "1" else "<")
    kind += tuple_of(integer(3), text(order), b"N", b"N", b"N", integer(-1), integer(-1), integer(0)) + b"b"
    made = call(module, "_reconstruct", b"cnumpy\nndarray\n", tuple_of(integer(0)), b"C\x01b")
    return made + tuple_of(integer(1), tuple_of(*map(integer, shape)), kind, b"\x89", b"B" + struct.pack("<I", len(data)) + data) + b"b"


def named(name: str, value: bytes) -> bytes:
    """A tensor that is stored with its name."""
    return call("builtins", "tuple", tuple_of(text(name), value))


def pickle(value: bytes, protocol: int = 4) -> bytes:
    return bytes([0x80, protocol]) + value + b"."


def record(dtype: str | int, shape: list[int], data: bytes, versions=(0, 0), levels=(), packed: bool = False, length: int | None = None) -> bytes:
    number = NUMBERS[dtype] if isinstance(dtype, str) else dtype
    lens = [varint(len_ & (1 << 64) - 1) for len_ in shape]
    dims = b"\x12" + varint(sum(map(len, lens))) + b"".join(lens) if packed else b"".join(b"\x10" + len_ for len_ in lens)
    description = b"\x08" + varint(number) + dims
    head = struct.pack("<IQ", versions[0], len(levels)) + b"".join(struct.pack("<Q", len(own)) + own for own in levels)
    return head + struct.pack("<Ii", versions[1], len(description) if length is None else length) + description + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def program(*parameters: tuple[str, list[int]]) -> bytes:
    """The parameters of a program, and no operations."""
    kind = {"#": "0.t_f32"}
    ops = [{"#": "p", "A": [0, 1, 1, name], "O": {"%": number, "TT": {"#": "0.t_dtensor", "D": [kind, shape, "NCHW", [], 0]}}}
           for number, (name, shape) in enumerate(parameters, 1)]
    block = {"#": "block_0", "args": [], "ops": ops}
    whole = {"base_code": {"magic": "pir", "version": 4}, "program": {"regions": [{"#": "region_0", "blocks": [block]}]}}
    return json.dumps(whole, separators=(",", ":")).encode()


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def old_program(*parameters: tuple[str, list[int]]) -> bytes:
    """A ProgramDesc with persistable variables, and one that is none."""
    variables = b""
    for name, shape in parameters:
        tensor = b"\x08\x05" + b"".join(b"\x10" + varint(len_) for len_ in shape)
        variables += field(3, field(1, name.encode()) + field(2, b"\x08\x07" + field(3, field(1, tensor))) + b"\x18\x01")
    variables += field(3, field(1, b"feed") + field(2, b"\x08\x09") + b"\x18\x01")
    variables += field(3, field(1, b"x") + field(2, b"\x08\x07"))
    return field(1, b"\x08\x00\x10\x00" + variables)


VALUES = ramp(6)
WEIGHT = array("f32", [2, 3], VALUES)
I64S = struct.pack("<2q", 1, 2)
RECORDS = record("f32", [2, 3], VALUES) + record("i64", [2], I64S)
SLICED = (("w@@.0", array("f32", [4], VALUES[:16])), ("w@@.1", array("f32", [2], VALUES[16:])))


def slices(shape: bytes, *parts: str) -> tuple[str, bytes]:
    described = entries_of(("OriginShape", shape), ("slices", list_of(*map(text, parts))))
    return "UnpackBigParamInfor@@", entries_of(("w", described))


def file(name: str, data: bytes, ending: str) -> tuple[dict[str, bytes], str]:
    return {f"{name}.{ending}": data}, f"{name}.{ending}"


def accepted():
    def case(name, why, data, *tensors, ending="pdparams", options=()):
        return accept(name, why, *file(name, data, ending), [Tensor(*tensor) for tensor in tensors], options)

    def model(name, why, data, programs, *tensors):
        files = {"inference.pdiparams": data, **programs}
        return accept(name, why, files, "inference.pdiparams", [Tensor(*tensor) for tensor in tensors])

    weight = ("f32", [2, 3], VALUES)
    yield case("dict", "two arrays, and the names of the parameters beside them",
               pickle(entries_of(("0.weight", WEIGHT), ("0.bias", array("f32", [3], f32(1, 2, 3))),
                                 ("StructuredToParameterName@@", entries_of(("0.weight", text("linear_0.w_0")))))),
               ("0.weight", *weight), ("0.bias", "f32", [3], f32(1, 2, 3)))
    yield case("numpy_2", "the module of NumPy 2", pickle(entries_of(("w", array("f32", [2, 3], VALUES, "numpy._core.multiarray")))), ("w", *weight))
    yield case("nested", "dicts, lists, and tensors with their names",
               pickle(entries_of(("model", entries_of(("w", named("linear_0.w_0", WEIGHT)))), ("epoch", integer(3)),
                                 ("history", list_of(array("f32", [1], f32(1)), tuple_of(text("t_0"), array("f32", [1], f32(2))))))),
               ("model.w", *weight), ("history.0", "f32", [1], f32(1)), ("history.1", "f32", [1], f32(2)))
    data = {name: bytes(range(1, 1 + 2 * size)) for name, size in zip(CODES, (4, 8, 2, 1, 1, 2, 2, 4, 8, 1, 8))}
    data["bool"] = b"\x01\x00"
    yield case("dtypes", "every dtype", pickle(entries_of(*((name, array(name, [2], own)) for name, own in data.items()))),
               *((name, name, [2], own) for name, own in data.items()))
    yield case("bf16", "integers that stand for bf16", pickle(entries_of(("w", array("u16", [2], b"\x80\x3f\x00\x40")))),
               ("w", "bf16", [2], b"\x80\x3f\x00\x40"), options=["bf16=true"])
    yield case("optimizer", "an optimizer's state", pickle(entries_of(("linear_0.w_0_moment1_0", WEIGHT), ("LR_Scheduler", entries_of(("last_epoch", integer(0)))))),
               ("linear_0.w_0_moment1_0", *weight), ending="pdopt")
    yield case("slices", "a large array in slices", pickle(entries_of(*SLICED, slices(tuple_of(integer(2), integer(3)), "w@@.0", "w@@.1")), 2), ("w", *weight))
    yield case("big_endian", "the other byte order", pickle(entries_of(("w", array("f32", [2], struct.pack(">2f", 1, 2), order=">")))), ("w", "f32", [2], f32(1, 2)))
    yield case("records", "two records without a program", RECORDS, ("0", *weight), ("1", "i64", [2], I64S), ending="pdiparams")
    yield case("packed", "packed lengths, and bf16", record("f32", [2, 3], VALUES, packed=True) + record("bf16", [1], b"\x80\x3f"),
               ("0", *weight), ("1", "bf16", [1], b"\x80\x3f"), ending="pdiparams")
    yield case("later_levels", "levels behind the first record", record("i64", [2], I64S) + record("f32", [2, 3], VALUES, levels=[struct.pack("<2Q", 0, 2)]),
               ("0", "i64", [2], I64S), ("1", *weight), ending="pdiparams")
    yield model("program", "records that a program names", RECORDS, {"inference.json": program(("b", [2]), ("a", [2, 3]))}, ("a", *weight), ("b", "i64", [2], I64S))
    yield model("old_program", "records that a program of version 2 names", RECORDS, {"inference.pdmodel": old_program(("b", [2]), ("a", [2, 3]))},
                ("a", *weight), ("b", "i64", [2], I64S))
    yield model("other_program", "a program of other parameters names nothing", RECORDS, {"inference.json": program(("b", [2]), ("a", [3, 3]))},
                ("0", *weight), ("1", "i64", [2], I64S))


def rejected():
    def case(name, why, data, kind="corrupt", ending="pdparams"):
        return reject(name, why, *file(name, data, ending), kind=kind)

    def records(name, why, data, kind="corrupt"):
        return case(name, why, data, kind, "pdiparams")

    def sliced(name, why, shape, *parts, arrays=SLICED):
        return case(name, why, pickle(entries_of(*arrays, slices(shape, *parts)), 2))

    yield case("call", "a call", pickle(call("builtins", "print", text("x"))), "unsupported")
    yield case("call_in_dict", "a call inside the dict", pickle(entries_of(("w", WEIGHT), ("x", call("os", "system", text("true"))))), "unsupported")
    yield case("class", "an object", pickle(entries_of(("w", WEIGHT), ("x", call("paddle.nn", "Linear")))), "unsupported")
    yield case("cut", "cut within the elements", pickle(entries_of(("w", WEIGHT)))[:-20])
    yield case("no_pickle", "something else", b"hello, world, this is no pickle")
    yield case("objects", "an array of objects", pickle(entries_of(("w", array("O8", [1], bytes(8), order="|")))), "unsupported")
    yield case("short", "fewer bytes than the shape has", pickle(entries_of(("w", array("f32", [2, 3], VALUES[:-4])))))
    yield case("negative", "a negative length", pickle(entries_of(("w", array("f32", [2, -3], VALUES)))))
    yield case("key_not_utf8", "a key that is not UTF-8", pickle(entries_of((b"\xff\xfe", WEIGHT))))
    yield case("key_tuple", "a key that is a tuple", pickle(b"}(" + tuple_of(integer(1)) + WEIGHT + b"u"), "unsupported")
    yield case("same_name", "two keys that are one when joined", pickle(entries_of(("a.b", WEIGHT), ("a", entries_of(("b", WEIGHT))))), "unsupported")
    yield case("deep", "lists in lists", pickle(b"]" * 400 + b"a" * 399), "limit")
    shape = tuple_of(integer(2), integer(3))
    yield sliced("slice_missing", "a slice that is not there", shape, "w@@.0", "w@@.2")
    yield sliced("slice_twice", "one slice for two", shape, "w@@.0", "w@@.0")
    yield sliced("slice_shape", "slices that do not fill the shape", tuple_of(integer(7)), "w@@.0", "w@@.1")
    yield sliced("slice_dtype", "slices of two dtypes", shape, "w@@.0", "w@@.1", arrays=(SLICED[0], ("w@@.1", array("i32", [2], VALUES[16:]))))
    yield records("version", "another version of the record", record("f32", [2, 3], VALUES, versions=(1, 0)))
    yield records("tensor_version", "another version of the tensor", record("f32", [2, 3], VALUES) + record("f32", [2, 3], VALUES, versions=(0, 9)))
    yield records("levels", "2^60 levels", record("f32", [2, 3], VALUES) + struct.pack("<IQ", 0, 1 << 60) + bytes(40))
    yield records("description", "a description of negative length", record("f32", [2, 3], VALUES) + record("f32", [2, 3], VALUES, length=-1))
    yield records("type", "a type that nobody knows", record("f32", [2, 3], VALUES) + record(99, [2, 3], VALUES))
    yield records("dim_negative", "an axis of -1", record("f32", [2, -1], VALUES))
    yield records("dims_overflow", "more elements than 64 bits count", record("f32", [1 << 40, 1 << 40], VALUES))
    yield records("record_cut", "cut within the elements", RECORDS[:-1])
    yield records("trailing", "seven bytes behind the last record", RECORDS + bytes(7))
    yield records("axes", "33 axes", record("f32", [1] * 33, f32(1)))
