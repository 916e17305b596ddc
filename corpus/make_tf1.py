"""Frozen graphs and V1 checkpoints, built field by field, and broken ones."""

import struct

import make_cnn2
from bundle import DTYPES, MAGIC, block_contents, message, number, sealed, shape_proto, slice_proto, snappy, varint
from common import Tensor, accept, f32, reject

W = Tensor("w", "f32", [2, 3], f32(0, 1, 2, 3, 4, 5))
BIAS = Tensor("b", "f32", [3], f32(6, 7, 8))
RAW = message(4, W.data)
# The list of values of each dtype, and whether its numbers are varints.
LISTS = {"f32": (5, False), "f64": (6, False), "i32": (7, True), "i16": (7, True), "i8": (7, True), "u8": (7, True), "i64": (10, True),
         "bool": (11, True), "f16": (13, True), "bf16": (13, True), "u32": (16, True), "u64": (17, True), "c64": (9, False)}


def node(name: str, op: str, inputs=(), attributes=b"") -> bytes:
    taken = b"".join(message(3, each.encode()) for each in inputs)
    return message(1, message(1, name.encode()) + message(2, op.encode()) + taken + attributes)


def tensor_proto(dtype: int, shape: bytes, values: bytes) -> bytes:
    return number(1, dtype) + message(2, shape) + values


def constant(name: str, dtype: int, shape: bytes, values: bytes) -> bytes:
    value = message(1, b"value") + message(2, message(8, tensor_proto(dtype, shape, values)))
    return node(name, "Const", (), message(5, value))


def listed(dtype: str, numbers: list[int] | bytes) -> bytes:
    field, is_varint = LISTS[dtype]
    return message(field, b"".join(map(varint, numbers)) if is_varint else numbers)


def graph(values: bytes, dims=(2, 3), dtype=1, name="w") -> bytes:
    return constant(name, dtype, shape_proto(list(dims)), values)


def saved(name: str, box: list[tuple[int, int]], values: bytes) -> tuple[bytes, bytes]:
    """An entry with the values of a tensor, or of a slice of it."""
    data = message(1, name.encode()) + message(2, slice_proto(box)) + message(3, values)
    return name.encode() + repr(box).encode(), message(2, data)


def described(tensors: list[tuple[str, str, list[int], list[list[tuple[int, int]]]]]) -> tuple[bytes, bytes]:
    """The first entry."""
    each = (message(1, name.encode()) + message(2, shape_proto(shape)) + number(3, DTYPES[dtype])
            + b"".join(message(4, slice_proto(box)) for box in boxes) for name, dtype, shape, boxes in tensors)
    return b"", message(1, b"".join(message(1, one) for one in each) + message(2, number(1, 1)))


def table(entries: list[tuple[bytes, bytes]], seal=sealed, handle=None) -> bytes:
    """One block of entries, sorted by key, and its index."""
    body = seal(block_contents(sorted(entries)))
    block = handle or varint(0) + varint(len(body) - 5)
    out = body
    meta = varint(len(out)) + varint(8)
    out += sealed(block_contents([]))
    index = sealed(block_contents([(b"~", block)]))
    footer = meta + varint(len(out)) + varint(len(index) - 5)
    return out + index + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


WHOLE = [(0, -1), (0, -1)]
FIRST = described([("w", "f32", [2, 3], [WHOLE])])
FLOATS = saved("w", WHOLE, message(5, W.data))


def frozen(name: str, why: str, data: bytes, tensors, options=()):
    return accept(name, why, {f"{name}.pb": data}, f"{name}.pb", tensors, options)


def v1(name: str, why: str, data: bytes, tensors):
    return accept(name, why, {f"{name}.ckpt": data}, f"{name}.ckpt", tensors)


def accepted() -> list:
    integers = {"i64": (8, [1, -2]), "u64": (8, [1, 2**63]), "u32": (4, [1, 2**31]), "i16": (2, [1, -2]), "i8": (1, [1, -2]),
                "u8": (1, [1, 200]), "bool": (1, [1, 0]), "f16": (2, [0x3C00, 0xC000]), "bf16": (2, [0x3F80, 0xC000])}
    cases = [
        frozen("raw", "raw bytes", graph(RAW), [W]),
        frozen("list", "a list of floats", graph(listed("f32", W.data)), [W]),
        frozen("repeated", "one value for all elements", graph(listed("f32", f32(7))), [Tensor("w", "f32", [2, 3], f32(*[7] * 6))]),
        frozen("last_repeated", "the last value for the rest", graph(listed("f32", f32(1, 2))), [Tensor("w", "f32", [2, 3], f32(1, 2, 2, 2, 2, 2))]),
        frozen("zeros", "no value", graph(b""), [Tensor("w", "f32", [2, 3], bytes(24))]),
        frozen("integers_repeated", "the last of some integers for the rest", graph(listed("i64", [5, -6]), (3,), DTYPES["i64"]),
               [Tensor("w", "i64", [3], struct.pack("<3q", 5, -6, -6))]),
        frozen("empty", "a constant without elements", graph(b"", (0, 3)), [Tensor("w", "f32", [0, 3], b"")]),
        frozen("numbers", "scalars and 32-bit integers, which the option lists",
               graph(RAW) + graph(listed("f32", f32(0.5)), (), name="scale") + graph(listed("i32", [2, -1]), (2,), 3, "shape"),
               [W, Tensor("scale", "f32", [], f32(0.5)), Tensor("shape", "i32", [2], struct.pack("<2i", 2, -1))], ["constants=true"]),
        frozen("texts", "a text beside weights", graph(RAW) + graph(message(8, b"text"), (1,), DTYPES["string"], "t"), [W]),
        frozen("layers", "a placeholder, a dense layer and its activation", graph(RAW) + graph(message(4, BIAS.data), (3,), name="b") +
               placeholder() + node("y", "MatMul", ["x", "w"]) + node("h", "BiasAdd", ["y", "b"]) + node("z", "Relu", ["h:0", "^w"]),
               [W, BIAS]),
        v1("v1", "a table with its values", table([FIRST, FLOATS]), [W]),
        v1("v1_slices", "a tensor in two slices", table([
            described([("w", "f32", [2, 3], [[(0, 1), (0, -1)], [(1, 1), (0, -1)]])]),
            saved("w", [(0, 1), (0, -1)], message(5, W.data[:12])), saved("w", [(1, 1), (0, -1)], message(5, W.data[12:])),
        ]), [W]),
    ]
    layers = make_cnn2.tensors(make_cnn2.EXAMPLE)
    nodes = (graph(message(4, each.data), each.shape, DTYPES[each.dtype], each.name) for each in layers)
    cases.append(frozen("cnn2_names", "constants with CNN2's names", b"".join(nodes), layers))
    for dtype, (size, numbers) in integers.items():
        data = b"".join((number % 2 ** (8 * size)).to_bytes(size, "little") for number in numbers)
        cases.append(frozen(f"list_{dtype}", f"a list of {dtype}", graph(listed(dtype, numbers), (2,), DTYPES[dtype]), [Tensor("w", dtype, [2], data)]))
    for dtype in ("i64", "i8", "bool"):
        size, numbers = integers[dtype]
        data = b"".join((number % 2 ** (8 * size)).to_bytes(size, "little") for number in numbers)
        entries = [described([("w", dtype, [2], [[(0, -1)]])]), saved("w", [(0, -1)], listed(dtype, numbers))]
        cases.append(v1(f"v1_{dtype}", f"a table with {dtype}", table(entries), [Tensor("w", dtype, [2], data)]))
    return cases


def placeholder() -> bytes:
    shape = message(5, message(1, b"shape") + message(2, message(7, shape_proto([1, 2]))))
    return node("x", "Placeholder", (), message(5, message(1, b"dtype") + message(2, number(6, 1))) + shape)


def rejected() -> list:
    def broken(name: str, why: str, data: bytes, kind="corrupt"):
        return reject(name, why, {f"{name}.pb": data}, f"{name}.pb", kind)

    damaged = bytearray(table([FIRST, FLOATS]))
    damaged[damaged.index(W.data) + 4] ^= 1
    other = saved("v", WHOLE, message(5, W.data))
    return [
        broken("cut", "cut within the values", graph(RAW)[:-5]),
        broken("content_short", "fewer bytes than the shape says", graph(message(4, W.data[:-4]))),
        broken("content_long", "more bytes than the shape says", graph(message(4, W.data + f32(6)))),
        broken("value_cut", "bytes that are no whole number of elements", graph(message(5, W.data[:-1]))),
        broken("values_many", "more values than elements", graph(listed("f32", W.data + f32(6)))),
        broken("integers_many", "more integers than elements", graph(listed("i64", [1] * 3), (2,), DTYPES["i64"])),
        broken("varint_long", "a varint of eleven bytes", graph(message(10, b"\xff" * 10 + b"\1"), (1,), DTYPES["i64"])),
        broken("repeated_without_end", "one value repeated 2^50 times", graph(listed("f32", f32(1)), (2**50,)), "unsupported"),
        broken("dimension_negative", "a negative length", graph(RAW, (-1, 3))),
        broken("unknown_rank", "a constant of unknown rank", constant("w", 1, number(3, 1), RAW)),
        broken("dtype_0", "no dtype", graph(RAW, dtype=0)),
        broken("dtype_99", "an unknown dtype", graph(RAW, dtype=99), "unsupported"),
        broken("no_value", "a constant without a value", node("w", "Const")),
        broken("name_twice", "two nodes of one name", graph(RAW) + node("w", "NoOp")),
        broken("input_missing", "a node that takes what no node gives", graph(RAW) + node("y", "Relu", ["x"])),
        broken("no_nodes", "a graph without nodes", message(4, number(1, 27))),
        broken("v1_flip", "a changed value", bytes(damaged)),
        broken("v1_cut", "a table without its footer", table([FIRST, FLOATS])[:-20]),
        broken("v1_no_values", "a tensor without values", table([FIRST])),
        broken("v1_not_described", "values of a tensor that is not described", table([FIRST, FLOATS, other])),
        broken("v1_short", "fewer values than elements", table([FIRST, saved("w", WHOLE, message(5, W.data[:-4]))])),
        broken("v1_overlap", "the values of a tensor twice", table([FIRST, FLOATS, saved("w", [(0, 2), (0, 3)], message(5, W.data))])),
        broken("v1_outside", "a slice beyond its tensor", table([FIRST, saved("w", [(1, 2), (0, -1)], message(5, W.data))])),
        broken("v1_block", "a block beyond the table", table([FIRST, FLOATS], handle=varint(0) + varint(1 << 30))),
    ]
