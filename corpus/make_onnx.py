"""ONNX models as the protocol buffers describe them, and broken ones: every field is written here."""

import struct

from common import Tensor, accept, reject

FLOAT, INT8, INT64, STRING, FLOAT16, BFLOAT16 = 1, 3, 7, 8, 10, 16
INT4, UINT2, FLOAT6E2M3, FLOAT6E3M2 = 22, 25, 27, 28
MATRIX = struct.pack("<6f", *range(6))
BIAS = struct.pack("<3f", 0.5, -1.0, 2.0)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes | str) -> bytes:
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def head(name: str, dtype: int, dims) -> bytes:
    return b"".join(number(1, dim) for dim in dims) + number(2, dtype) + data(8, name)


def raw(name: str, dims, values: bytes, dtype: int = FLOAT) -> bytes:
    return head(name, dtype, dims) + data(9, values)


def external(name: str, dims, **pairs) -> bytes:
    place = b"".join(data(13, data(1, key) + data(2, str(value))) for key, value in pairs.items())
    return head(name, FLOAT, dims) + place + number(14, 1)


def value(name: str, shape) -> bytes:
    dims = b"".join(data(1, b"" if dim is None else number(1, dim)) for dim in shape)
    return data(1, name) + data(2, data(1, number(1, FLOAT) + data(2, dims)))


def node(op: str, inputs, outputs, attributes=b"", domain: str = "") -> bytes:
    names = b"".join(data(1, name) for name in inputs) + b"".join(data(2, name) for name in outputs)
    return names + data(3, outputs[0]) + data(4, op) + attributes + (data(7, domain) if domain else b"")


def graph(tensors=(), nodes=(), inputs=(), outputs=(), more: bytes = b"") -> bytes:
    lists = ((1, nodes), (5, tensors), (11, inputs), (12, outputs))
    parts = {field: b"".join(data(field, part) for part in parts) for field, parts in lists}
    return parts[1] + data(2, "g") + parts[5] + parts[11] + parts[12] + more


def model(body: bytes | None, opset: bytes = data(8, number(2, 21))) -> bytes:
    return number(1, 10) + data(2, "by hand") + (b"" if body is None else data(7, body)) + opset


DENSE = graph(
    [raw("w", [2, 3], MATRIX), raw("b", [3], BIAS)],
    [node("Gemm", ["x", "w", "b"], ["h"]), node("Relu", ["h"], ["y"])],
    [value("x", [None, 2])],
    [value("y", [None, 3])],
)
W, B = Tensor("w", "f32", [2, 3], MATRIX), Tensor("b", "f32", [3], BIAS)


def accepted():
    def case(name, why, body, tensors, files=None, options=()):
        files = {f"{name}.onnx": body, **(files or {})}
        return accept(name, why, files, f"{name}.onnx", tensors, options)

    yield case("dense", "Gemm and Relu", model(DENSE), [W, B])
    ints = struct.pack("<3q", 1, -2, 300)
    packed = b"".join(varint(number) for number in (1, -2, 300))
    typed = [
        head("f", FLOAT, [2]) + data(4, struct.pack("<2f", 1.5, -2.5)),
        head("u", FLOAT, [2]) + b"".join(b"\x25" + struct.pack("<f", number) for number in (1.5, -2.5)),
        head("i", INT64, [3]) + data(7, packed),
        head("h", FLOAT16, [2]) + number(5, 0x3C00) + number(5, 0xC000),
        head("s", INT8, [2]) + data(5, varint(-1) + varint(127)),
    ]
    floats = struct.pack("<2f", 1.5, -2.5)
    yield case("typed_fields", "numbers in the fields of their type, packed and not", model(graph(typed)), [
        Tensor("f", "f32", [2], floats), Tensor("u", "f32", [2], floats), Tensor("i", "i64", [3], ints),
        Tensor("h", "f16", [2], b"\x00\x3c\x00\xc0"), Tensor("s", "i8", [2], b"\xff\x7f"),
    ])
    beside = graph([external("w", [2, 3], location="w.bin", offset=4, length=24)])
    yield case("external", "a tensor in a file beside the model", model(beside), [W], {"w.bin": b"skip" + MATRIX})
    for name, length in (("zero", {"length": 0}), ("absent", {})):
        body = model(graph([external("w", [2, 3], location="w.bin", **length)]))
        yield case(f"external_length_{name}", f"a length of external data that is {name}", body, [W], {"w.bin": MATRIX})
    six = [raw("a", [3], b"\x08\x3f\xc1", FLOAT6E2M3), raw("b", [3], b"\x0c\x20\x1f", FLOAT6E3M2)]
    yield case("float6", "floats of 6 bits, in the low bits of a byte each", model(graph(six)), [
        Tensor("a", "f6_e2m3", [3], b"\x08\x3f\xc1"), Tensor("b", "f6_e3m2", [3], b"\x0c\x20\x1f"),
    ])
    nibbles, pairs = bytes(k % 16 for k in range(19)), bytes([1, 2, 3, 0, 2])
    packed = bytes(a | b << 4 for a, b in zip(nibbles[::2], nibbles[1::2] + b"\0"))
    typed = head("t", INT4, [19]) + data(5, b"".join(varint(byte) for byte in packed))
    odd = [raw("b", [3], BIAS), raw("i", [19], packed, INT4), typed, raw("u", [5, 1], b"\x39\x02", UINT2)]
    yield case("odd_count", "small integers that do not fill their last byte", model(graph(odd)), [
        B, Tensor("i", "i4", [19], nibbles), Tensor("t", "i4", [19], nibbles), Tensor("u", "u2", [5, 1], pairs),
    ])
    floats = b"".join(b"\x3d" + struct.pack("<f", number) for number in (0.5, 2.0))
    scaler = node("Scaler", ["x"], ["y"], data(5, data(1, "scale") + floats + number(20, 6)), "ai.onnx.ml")
    body = model(graph([], [scaler], [value("x", [None, 2])], [value("y", [None, 2])]))
    yield case("floats_in_attributes", "floats of an operator of ai.onnx.ml, which are a tensor", body,
        [Tensor("y.scale", "f32", [2], struct.pack("<2f", 0.5, 2.0))])
    pairs = [("keys_tensor", [0, 1]), ("values_tensor", [0.5, 2.0])]
    pairs = [data(1, name) + data(5, raw("", [2], struct.pack("<2f", *floats))) + number(20, 4) for name, floats in pairs]
    encoder = node("LabelEncoder", ["x"], ["y"], b"".join(data(5, pair) for pair in pairs), "ai.onnx.ml")
    body = model(graph([], [encoder], [value("x", [None, 2])], [value("y", [None, 2])]))
    yield case("numbers_in_attributes", "numbers of the model that are tensors of a node, and none of the checkpoint", body, [])
    constant = data(5, data(1, "value") + data(5, raw("", [2, 3], MATRIX)) + number(20, 4))
    body = graph([], [node("Constant", [], ["w"], constant)], [], [value("w", [2, 3])])
    yield case("constant", "a weight in a node", model(body), [W])
    yield case("unknown_operator", "an operator that nobody knows: the tensors alone",
        model(graph([raw("w", [2, 3], MATRIX)], [node("Mystery", ["w"], ["y"], domain="com.example")])), [W])
    yield case("scalar_and_empty", "no axes, and an axis of length 0", model(graph([raw("a", [], MATRIX[4:8]), raw("e", [0, 3], b"")])),
        [Tensor("a", "f32", [], MATRIX[4:8]), Tensor("e", "f32", [0, 3], b"")])
    strings = head("s", STRING, [1]) + data(6, "word")
    yield case("strings_left_out", "strings, which are left out", model(graph([raw("b", [3], BIAS), strings])), [B], None,
        ["lenient=true"])


def rejected():
    def case(name, why, body, kind="corrupt", files=None):
        return reject(name, why, {f"{name}.onnx": body, **(files or {})}, f"{name}.onnx", kind)

    def alone(name, why, tensor, kind="corrupt", files=None):
        return case(name, why, model(graph([tensor])), kind, files)

    whole = model(DENSE)
    yield case("cut", "the model is cut short", whole[:-20])
    yield case("no_opset", "no operator set", model(DENSE, b""))
    yield case("two_graphs", "two graphs", model(DENSE, data(7, DENSE) + data(8, number(2, 21))))
    yield alone("raw_short", "fewer bytes than the shape has", raw("w", [2, 3], MATRIX[:-4]))
    yield alone("raw_long", "more bytes than the shape has", raw("w", [2, 3], MATRIX + b"1234"))
    yield alone("no_data", "a tensor without data", head("w", FLOAT, [2, 3]))
    yield alone("raw_and_typed", "a tensor that is stored twice", raw("w", [1], MATRIX[:4]) + data(4, MATRIX[:4]))
    yield alone("wrong_field", "numbers in the field of another type", head("w", FLOAT, [1]) + data(7, b"\1"))
    yield alone("dtype_0", "data type 0", raw("w", [1], MATRIX[:4], 0))
    yield alone("negative_dim", "a length of -1", raw("w", [-1], MATRIX))
    yield alone("huge_dims", "a product beyond 2^64", raw("w", [1 << 40, 1 << 40], MATRIX))
    yield alone("int8_300", "300 as an int8", head("w", INT8, [1]) + number(5, 300))
    yield alone("float16_70000", "bits of a half float beyond 16", head("w", FLOAT16, [1]) + number(5, 70000))
    yield alone("strings", "a tensor of strings", head("w", STRING, [1]) + data(6, "word"), "unsupported")
    yield alone("segment", "a segment of a tensor", raw("w", [1], MATRIX[:4]) + data(3, number(1, 0)), "unsupported")
    sparse = data(15, data(1, raw("w", [1], MATRIX[:4])) + number(3, 6))
    yield case("sparse", "a sparse tensor", model(graph(more=sparse)), "unsupported")
    yield case("two_tensors", "two tensors of one name", model(graph([raw("w", [3], BIAS)] * 2)))
    yield case("two_makers", "two nodes make one value",
        model(graph([raw("w", [3], BIAS)], [node("Relu", ["w"], ["y"]), node("Abs", ["w"], ["y"])])))
    yield case("cycle", "a node takes what a later one makes",
        model(graph([], [node("Relu", ["z"], ["y"]), node("Relu", ["y"], ["z"])])))
    yield case("no_maker", "an output that no node makes", model(graph([], [], [], [value("y", [1])])))
    deep = node("Relu", ["x"], ["y"])
    for _ in range(100):
        deep = node("If", ["x"], ["y"], data(5, data(1, "then_branch") + data(6, data(1, deep)) + number(20, 5)))
    yield case("deep", "100 levels of graphs", model(graph([raw("x", [3], BIAS)], [deep])))
    for name, location in (("absolute", "/etc/hostname"), ("leaves", "../w.bin"), ("inner_leaves", "a/../../w.bin")):
        yield alone(f"external_{name}", f"external data at {location}", external("w", [1], location=location))
    yield alone("external_length", "a length that does not fit the shape", external("w", [3], location="w.bin", length=4),
        files={"w.bin": BIAS})
    yield alone("external_no_location", "no location", external("w", [3], offset=0))
    yield alone("external_offset", "an offset that is no number", external("w", [3], location="w.bin", offset="x"),
        files={"w.bin": BIAS})
    yield alone("wire_length", "a field longer than its message", head("w", FLOAT, [1]) + b"\x4a\xff\xff\xff\xff\x7f1234")
    yield alone("wire_type", "an unknown wire type", raw("w", [1], MATRIX[:4]) + b"\x73")
