"""TensorFlow Lite models, built table by table, and broken ones."""

import struct

from common import Tensor, accept, f32, ramp, reject

F32, F16, I32, U8, I64, STRING, I8, INT4, INT2 = 0, 1, 2, 3, 4, 5, 9, 17, 19
FULLY_CONNECTED, SOFTMAX = 9, 25


class Scalar:
    """A field of a table that is a number."""

    def __init__(self, form: str, value):
        self.form, self.value = form, value


def i8(value: int) -> Scalar:
    return Scalar("b", value)


def u8(value: int) -> Scalar:
    return Scalar("B", value)


def i32(value: int) -> Scalar:
    return Scalar("i", value)


def u32(value: int) -> Scalar:
    return Scalar("I", value)


def u64(value: int) -> Scalar:
    return Scalar("Q", value)


class Vector:
    """Elements of one form."""

    def __init__(self, form: str, values):
        self.values, self.form = list(values), form


class Data:
    """Bytes of a buffer, at a multiple of 16."""

    def __init__(self, data: bytes):
        self.data = data


def ints(*values: int) -> Vector:
    return Vector("i", values)


def build(root: dict, tail: bytes = b"") -> bytes:
    """The file of a root table: a dict from a field's number to what it has. A list is a vector of tables, and what two fields
    lead to is stored once. Tables come first, then buffers, which begin at multiples of 16."""
    out = bytearray(struct.pack("<I4s", 0, b"TFL3"))
    places, references, queue = {}, [(0, root)], [root]

    def align(size: int, after: int = 0) -> None:
        out.extend(bytes(-(len(out) + after) % size))

    while queue:
        late = [node for node in queue if isinstance(node, Data)]
        node = next((node for node in queue if not isinstance(node, Data)), late[0] if late else None)
        queue.remove(node)
        if id(node) in places:
            continue
        match node:
            case dict():
                slots, body = [0] * (max(node, default=-1) + 1), bytearray(4)
                fields = []
                for number, value in sorted(node.items(), key=lambda pair: -size_of(pair[1])):
                    body.extend(bytes(-(len(body) + 4) % size_of(value)))
                    slots[number] = len(body)
                    fields.append((len(body), value))
                    body.extend(struct.pack("<" + value.form, value.value) if isinstance(value, Scalar) else bytes(4))
                align(2)
                list_at = len(out)
                out.extend(struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), len(body), *slots))
                align(8, 4)
                at = places[id(node)] = len(out)
                struct.pack_into("<i", body, 0, at - list_at)
                out.extend(body)
                for offset, value in fields:
                    if not isinstance(value, Scalar):
                        references.append((at + offset, value))
                        queue.append(value)
            case list():
                align(4)
                places[id(node)] = len(out)
                out.extend(struct.pack("<I", len(node)))
                for table in node:
                    references.append((len(out), table))
                    queue.append(table)
                    out.extend(bytes(4))
            case str() | bytes():
                align(4)
                places[id(node)] = len(out)
                text = node.encode() if isinstance(node, str) else node
                out.extend(struct.pack("<I", len(text)) + text + b"\0")
            case Vector():
                align(max(4, struct.calcsize(node.form)), 4)
                places[id(node)] = len(out)
                out.extend(struct.pack(f"<I{len(node.values)}{node.form}", len(node.values), *node.values))
            case Data():
                align(16, 4)
                places[id(node)] = len(out)
                out.extend(struct.pack("<I", len(node.data)) + node.data)
    for at, node in references:
        struct.pack_into("<I", out, at, places[id(node)] - at)
    return bytes(out) + tail


def size_of(value) -> int:
    return struct.calcsize("<" + value.form) if isinstance(value, Scalar) else 4


def tensor(name, dtype, shape, buffer=0, **more) -> dict:
    table = {0: ints(*shape), 1: i8(dtype), 2: u32(buffer), 3: name}
    return table | {{"quantization": 4, "is_variable": 5, "sparsity": 6, "signature": 7, "external": 10}[key]: value for key, value in more.items()}


def scales(scale, zero_point=None, axis=0) -> dict:
    table = {2: Vector("f", scale), 6: i32(axis)}
    return table | ({} if zero_point is None else {3: Vector("q", zero_point)})


def model(tensors, data, operators=(), codes=(), inputs=(), outputs=(), version=3, **more) -> dict:
    """A model of one subgraph; buffer 0 is empty, as writers have it."""
    buffers = [{}] + [{0: Data(bytes_)} if isinstance(bytes_, bytes) else bytes_ for bytes_ in data]
    subgraph = {0: list(tensors), 1: ints(*inputs), 2: ints(*outputs), 3: list(operators), 4: "main"}
    root = {0: u32(version), 1: [{0: i8(code), 2: i32(1), 3: i32(code)} for code in codes], 2: [subgraph], 3: "by hand", 4: buffers}
    return root | {{"metadata": 6, "signatures": 7}[key]: value for key, value in more.items()}


def operator(code, inputs, outputs, kind=0, options=None) -> dict:
    table = {0: u32(code), 1: ints(*inputs), 2: ints(*outputs)}
    return table | ({} if options is None else {3: u8(kind), 4: options})


KERNEL, BIAS = ramp(15), f32(0.5, -1.0, 2.0)


def dense(**more) -> dict:
    """x [?, 5] → y [?, 3], by a dense layer and softmax."""
    tensors = [
        tensor("x", F32, [1, 5], signature=ints(-1, 5)), tensor("kernel", F32, [3, 5], 1), tensor("bias", F32, [3], 2),
        tensor("dense", F32, [1, 3], signature=ints(-1, 3)), tensor("y", F32, [1, 3], signature=ints(-1, 3)),
    ]
    steps = [operator(0, [0, 1, 2], [3], 8, {0: i8(1)}), operator(1, [3], [4], 9, {0: Scalar("f", 1.0)})]
    signature = {0: [{0: "image", 1: u32(0)}], 1: [{0: "scores", 1: u32(4)}], 2: "serving_default", 4: u32(0)}
    return model(tensors, [KERNEL, BIAS], steps, [FULLY_CONNECTED, SOFTMAX], [0], [4], signatures=[signature], **more)


def behind(data: bytes, offset=None, size=None) -> bytes:
    """A model whose buffer lies behind the FlatBuffer."""
    def file(at: int) -> bytes:
        buffer = {1: u64(at if offset is None else offset), 2: u64(len(data) if size is None else size)}
        return build(model([tensor("w", F32, [3], 1)], [buffer]))

    at = -(-len(file(16)) // 16) * 16
    return file(at).ljust(at, b"\0") + data


def sparse(segments=(0, 2, 2, 3), indices=(1, 3, 0), data=f32(1, 2, 3), sizes=(3, 0), order=(0, 1), kinds=(1, 3)) -> bytes:
    """[3, 4], of which rows have elements in some columns."""
    forms = {1: "i", 2: "H", 3: "B"}
    levels = [{0: i8(0), 1: i32(sizes[0])}, {0: i8(1), 1: i32(sizes[1]), 2: u8(kinds[0]), 3: {0: Vector(forms[kinds[0]], segments)},
        4: u8(kinds[1]), 5: {0: Vector(forms[kinds[1]], indices)}}]
    return build(model([tensor("w", F32, [3, 4], 1, sparsity={0: ints(*order), 2: levels})], [data]))


# Blocks of 2 by 2 of [4, 4]: those at (0, 0) and (1, 1).
BLOCKS = [0.0] * 16
for value, at in enumerate([0, 1, 4, 5, 10, 11, 14, 15]):
    BLOCKS[at] = value + 1.0
BLOCK_LEVELS = [
    {0: i8(0), 1: i32(2)}, {0: i8(1), 2: u8(2), 3: {0: Vector("H", [0, 1, 2])}, 4: u8(3), 5: {0: Vector("B", [0, 1])}},
    {0: i8(0), 1: i32(2)}, {0: i8(0), 1: i32(2)},
]


def accepted():
    def case(name, why, body, tensors):
        return accept(name, why, {f"{name}.tflite": body}, f"{name}.tflite", tensors)

    dense_tensors = [Tensor("kernel", "f32", [3, 5], KERNEL), Tensor("bias", "f32", [3], BIAS)]
    yield case("dense", "a dense layer and softmax", build(dense()), dense_tensors)
    yield case("bytes_behind", "bytes behind the FlatBuffer, as of metadata", build(dense(), b"PK\5\6" + bytes(18)), dense_tensors)
    runtime = [{0: "min_runtime_version", 1: u32(3)}]
    root = dense(metadata=runtime)
    root[4].append({0: Data(b"1.5.0".ljust(16, b"\0"))})
    yield case("metadata", "a further buffer with a name", build(root), dense_tensors)
    yield case("buffer_behind", "a buffer behind the FlatBuffer, as in models of more than 2 GB", behind(BIAS), [Tensor("w", "f32", [3], BIAS)])

    integers = bytes([0, 1, 127, 128, 255, 7])
    quantized = [tensor("channel", I8, [3, 2], 1, quantization=scales([0.5, 0.25, 2.0], [0, 0, 0])),
        tensor("whole", U8, [6], 1, quantization=scales([0.125], [117])), tensor("plain", U8, [2, 3], 2),
        tensor("zeros", I8, [2, 3], 3, quantization=scales([0.5, 0.25, 2.0], [-3, 0, 5], 1))]
    root = model(quantized, [integers, integers, integers])
    root[2][0][0][1] = tensor("whole", U8, [6], 4, quantization=scales([0.125], [117]))
    root[4].append({0: Data(integers)})
    yield case("quantized", "scales for a tensor and for each index of an axis", build(root), [
        Tensor("channel", "i8", [3, 2], integers, ([0.5, 0.25, 2.0], [0, 0, 0], 0)), Tensor("whole", "u8", [6], integers, ([0.125], [117], None)),
        Tensor("plain", "u8", [2, 3], integers), Tensor("zeros", "i8", [2, 3], integers, ([0.5, 0.25, 2.0], [-3, 0, 5], 1))])
    bare = [tensor("none", I8, [3, 2], 1, quantization=scales([0.5, 0.25, 2.0])), tensor("one", I8, [6], 2, quantization=scales([0.5]))]
    yield case("zero_points_absent", "scales without zero points, which old interpreters take", build(model(bare, [integers, integers])),
        [Tensor("none", "i8", [3, 2], integers, ([0.5, 0.25, 2.0], [0, 0, 0], 0)), Tensor("one", "i8", [6], integers, ([0.5], [0], None))])
    small = [tensor("four", INT4, [5], 1, quantization=scales([0.5], [0])), tensor("two", INT2, [2, 3], 2)]
    yield case("small_integers", "integers of 4 and 2 bits, the first in the low bits", build(model(small, [b"\x21\xf8\x05", b"\x1b\x0e"])), [
        Tensor("four", "i4", [5], b"\x01\x02\x08\x0f\x05", ([0.5], [0], None)), Tensor("two", "i2", [2, 3], b"\x03\x02\x01\x00\x02\x03")])
    dense_rows = f32(0, 1, 0, 2, 0, 0, 0, 0, 3, 0, 0, 0)
    yield case("sparse", "elements of some columns of each row", sparse(), [Tensor("w", "f32", [3, 4], dense_rows)])
    table = {0: ints(0, 1, 2, 3), 1: ints(0, 1), 2: BLOCK_LEVELS}
    yield case("sparse_blocks", "blocks of 2 by 2, some of which are stored",
        build(model([tensor("w", F32, [4, 4], 1, sparsity=table)], [f32(*range(1, 9))])), [Tensor("w", "f32", [4, 4], f32(*BLOCKS))])

    inner = {0: [tensor("w", F32, [3], 2), tensor("w", F32, [3], 3)], 4: "body"}
    root = model([tensor("w", F32, [3], 1)], [BIAS, BIAS, BIAS])
    root[2].append(inner)
    yield case("subgraphs", "tensors of the same name in two subgraphs", build(root),
        [Tensor(name, "f32", [3], BIAS) for name in ("w", "body/w", "body/w#1")])
    text = struct.pack("<3i", 1, 12, 15) + b"cat"
    others = [tensor("labels", STRING, [1], 1), tensor("state", F32, [3], 0, is_variable=u8(1)), tensor("w", F32, [], 2), tensor("none", F32, [0, 2])]
    yield case("no_weights", "strings, a variable, a value without elements: no weights", build(model(others, [text, BIAS[:4]])), [Tensor("w", "f32", [], BIAS[:4])])
    yield case("long_buffer", "a buffer with more bytes than its tensor, which the interpreter takes",
        build(model([tensor("w", F32, [2], 1)], [BIAS])), [Tensor("w", "f32", [2], BIAS[:8])])


def rejected():
    def case(name, why, body, kind="corrupt"):
        return reject(name, why, {f"{name}.tflite": body}, f"{name}.tflite", kind)

    def alone(name, why, table, data=(BIAS,), kind="corrupt"):
        return case(name, why, build(model([table], list(data))), kind)

    whole = build(dense())
    yield case("cut", "the model is cut short", whole[:-20])
    yield case("cut_in_tables", "the model is cut in its tables", whole[: len(whole) // 2])
    yield case("head_alone", "a root and the identifier", whole[:8])
    yield case("identifier", "another identifier", whole[:4] + b"TFL2" + whole[8:])
    yield case("version", "version 2 of the schema", build(model([tensor("w", F32, [3], 1)], [BIAS], version=2)), "unsupported")
    yield case("root_in_header", "a root within the header", struct.pack("<I", 4) + whole[4:])
    yield case("root_behind", "a root behind the file", struct.pack("<I", len(whole)) + whole[4:])
    root = struct.unpack("<I", whole[:4])[0]
    yield case("fields_behind", "fields behind the file", whole[:root] + struct.pack("<i", -(1 << 20)) + whole[root + 4 :])
    fields = root - struct.unpack("<i", whole[root : root + 4])[0]
    yield case("fields_odd", "a list of fields of an odd length", whole[:fields] + b"\x09\0" + whole[fields + 2 :])
    empty = model([tensor("w", F32, [3], 1)], [BIAS])
    empty[2] = []
    yield case("no_subgraph", "no subgraph", build(empty))
    shared = model([tensor("w", F32, [3], 1)], [BIAS])
    shared[2] = shared[2] * 500
    yield case("subgraphs_one_table", "500 subgraphs that are one table", build(shared), "unsupported")
    yield alone("type_99", "type 99", tensor("w", 99, [3], 1))
    yield alone("no_buffer", "a buffer that does not exist", tensor("w", F32, [3], 7))
    yield alone("short_buffer", "fewer bytes than the shape has", tensor("w", F32, [4], 1))
    yield alone("negative_length", "a length of -1", tensor("w", F32, [-1, 3], 1))
    yield alone("huge_shape", "a product of 2^62", tensor("w", F32, [2**31 - 1, 2**31 - 1], 1))
    yield alone("other_file", "bytes in another file", tensor("w", F32, [3], 0, external=u32(1)), kind="unsupported")
    yield alone("name_not_utf8", "a name that is not UTF-8", tensor(b"\xff\xfe", F32, [3], 1))
    three = bytes(12)
    for name, why, own in [
        ("scale_axis", "scales on axis 5", scales([0.5, 0.25], [0, 0], 5)), ("scale_count", "two scales for an axis of 3", scales([0.5, 0.25], [0, 0])),
        ("zero_count", "two zero points for three scales", scales([0.5, 0.25, 1.0], [0, 0])),
    ]:
        yield alone(name, why, tensor("w", I8, [3, 4], 1, quantization=own), [three])
    huge = tensor("w", I8, [3, 4], 1, quantization=scales([0.5], [1 << 40]))
    yield alone("zero_huge", "a zero point of 2^40", huge, [three], "unsupported")
    custom = scales([0.5]) | {4: u8(1), 5: {0: Vector("B", b"abc")}}
    yield alone("scale_custom", "scales of a custom form", tensor("w", I8, [3, 4], 1, quantization=custom), [three], "unsupported")
    yield case("sparse_index", "an index behind the row", sparse(indices=(1, 4, 0)))
    yield case("sparse_segments", "segments that go back", sparse(segments=(0, 2, 1, 3)))
    yield case("sparse_bounds", "too few segments", sparse(segments=(0, 2, 3)))
    yield case("sparse_count", "fewer elements than indices", sparse(data=f32(1, 2)))
    yield case("sparse_size", "a dense level of another length", sparse(sizes=(2, 0)))
    yield case("sparse_order", "one axis twice", sparse(order=(0, 0)))
    yield case("buffer_wraps", "offset and size whose sum wraps", behind(BIAS, offset=2**64 - 8, size=16))
    yield case("buffer_ends", "a buffer that ends behind the file", behind(BIAS, size=1 << 40))
    steps = dense()
    steps[2][0][3] = [operator(2, [0, 1, 2], [3])]
    yield case("operator_code", "an operator whose code is not listed", build(steps))
    steps = dense()
    steps[2][0][3] = [operator(0, [0, 1, 5], [3])]
    yield case("operator_input", "an input that does not exist", build(steps))
    steps = dense()
    steps[2][0][2] = ints(9)
    yield case("output", "an output that does not exist", build(steps))
