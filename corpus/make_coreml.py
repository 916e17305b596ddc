"""Core ML models, built field by field: packages with programs and blobs, files with networks, and broken ones."""

import json
import struct

from common import Tensor, accept, f32, ramp, reject

F16, F32, F64, I8, I32, I4, U8, U32, U4, U2, U1, U6, U3, BOOL, STRING = 10, 11, 12, 21, 23, 25, 31, 33, 35, 36, 37, 38, 39, 1, 2
BLOB = {F16: 1, F32: 2, U8: 3, I8: 4, I4: 8, U1: 9, U2: 10, U4: 11, U3: 12, U6: 13, I32: 14, U32: 15}
BITS = {F16: 16, F32: 32, F64: 64, U8: 8, I8: 8, I4: 4, U1: 1, U2: 2, U4: 4, U3: 3, U6: 6, I32: 32, U32: 32, BOOL: 8}
PROGRAM, NETWORK, CLASSIFIER, PIPELINE, TREES = 502, 500, 403, 202, 302
FILE = "@model_path/weights/weight.bin"
ROOT, WEIGHTS = "com.apple.CoreML/model.mlmodel", "com.apple.CoreML/weights"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number: int, value) -> bytes:
    """An integer, or bytes or a text with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(number: int, key: str, value: bytes) -> bytes:
    return field(number, field(1, key) + field(2, value))


def value_type(dtype: int, shape=()) -> bytes:
    lengths = b"".join(field(3, field(1, field(1, length))) for length in shape)
    return field(1, field(1, dtype) + (field(2, len(shape)) if shape else b"") + lengths)


def named(name: str, dtype: int, shape=()) -> bytes:
    return field(1, name) + field(2, value_type(dtype, shape))


def immediate(dtype: int, shape, kind: int, numbers: bytes) -> bytes:
    """A value in the program: kind 1 floats, 2 ints, 3 bools, 4 strings, 7 bytes."""
    return field(2, value_type(dtype, shape)) + field(3, field(1, field(kind, field(1, numbers))))


def text(value: str) -> bytes:
    return immediate(STRING, (), 4, value.encode())


class Blobs:
    """A file of blobs."""

    def __init__(self, version=2):
        self.data, self.count, self.version = bytearray(64), 0, version

    def add(self, dtype: int, shape, data: bytes, **damage) -> bytes:
        """The value of a blob; `damage` replaces what its metadata state."""
        count = 1
        for length in shape:
            count *= length
        self.data += bytes(-len(self.data) % 64)
        at = len(self.data)
        bits = BITS[dtype]
        padding = 8 * len(data) - count * bits if bits < 8 else 0
        stated = {"sentinel": 0xDEADBEEF, "type": BLOB[dtype], "size": len(data), "offset": at + 64, "padding": padding, "at": at} | damage
        self.data += struct.pack("<IIQQQ", stated["sentinel"], stated["type"], stated["size"], stated["offset"], stated["padding"]) + bytes(32) + data
        self.count += 1
        return field(2, value_type(dtype, shape)) + field(5, field(1, stated.get("file", FILE)) + field(2, stated["at"]))

    def file(self) -> bytes:
        return struct.pack("<II", self.count, self.version) + bytes(self.data[8:])


def const(name: str, dtype: int, shape, value: bytes) -> bytes:
    return operation("const", [(name, dtype, shape)], attributes={"name": text(name), "val": value})


def operation(kind: str, outputs, inputs=None, attributes=None, blocks=()) -> bytes:
    out = field(1, kind)
    for key, values in (inputs or {}).items():
        bound = b"".join(field(1, field(1, own) if isinstance(own, str) else field(2, own)) for own in values)
        out += entry(2, key, bound)
    out += b"".join(field(3, named(*output)) for output in outputs)
    out += b"".join(field(4, block) for block in blocks)
    return out + b"".join(entry(5, key, own) for key, own in (attributes or {}).items())


def block(operations, outputs=("y",)) -> bytes:
    return b"".join(field(2, name) for name in outputs) + b"".join(field(3, own) for own in operations)


def function(body: bytes, opset="CoreML7") -> bytes:
    return field(1, named("x", F32, (1,))) + field(2, opset) + entry(3, opset, body)


IDENTITY = operation("identity", [("y", F32, (1,))], {"x": ["x"]}, {"name": text("y")})
FEATURES = field(1, field(1, "x") + field(3, field(5, field(1, varint(1)) + field(2, 65568)))) + field(10, field(1, "y") + field(3, field(5, field(1, varint(1)) + field(2, 65568))))


def model(kind: int, body: bytes, version=8, description=FEATURES) -> bytes:
    return field(1, version) + field(2, description) + field(kind, body)


def program(operations, functions=None) -> bytes:
    functions = functions or {"main": function(block([*operations, IDENTITY]))}
    return field(1, 1) + b"".join(entry(2, name, body) for name, body in functions.items())


def manifest(**change) -> bytes:
    items = {"1": {"author": "com.apple.CoreML", "name": "model.mlmodel", "path": ROOT}, "2": {"author": "com.apple.CoreML", "name": "weights", "path": WEIGHTS}}
    return json.dumps({"fileFormatVersion": "1.0.0", "itemInfoEntries": items, "rootModelIdentifier": "1"} | change).encode()


def package(operations, blobs=None, functions=None, spec=None, **more) -> dict:
    files = {"Manifest.json": manifest(), f"Data/{ROOT}": model(PROGRAM, program(operations, functions)) if spec is None else spec}
    if blobs is not None:
        files[f"Data/{WEIGHTS}/weight.bin"] = blobs.file()
    return files | more


def bits(values, width: int, high_first=False) -> bytes:
    """A stream of integers."""
    number, count = 0, 0
    for value in values:
        number = number << width | value if high_first else number | value << count
        count += width
    size = -(-count // 8)
    return (number << 8 * size - count).to_bytes(size, "big") if high_first else number.to_bytes(size, "little")


KERNEL = Tensor("kernel", "f32", [3, 5], ramp(15))
BIAS = Tensor("bias", "f32", [3], f32(0.5, -1, float("nan")))
HALVES = Tensor("halves", "f16", [3], struct.pack("<3e", 0.5, -1, 2))
EPSILON = Tensor("epsilon", "f32", [], f32(1e-5))


def dense(blobs=None, **damage):
    """A kernel in the blob file, a bias in the program."""
    blobs = blobs or Blobs()
    return [const("kernel", F32, (3, 5), blobs.add(F32, (3, 5), KERNEL.data, **damage)), const("bias", F32, (3,), immediate(F32, (3,), 1, BIAS.data))], blobs


def compressed(kind, dtype, shape, inputs=None, attributes=None):
    return operation(kind, [("w", dtype, shape)], {key: [own] for key, own in (inputs or {}).items()}, {"name": text("w")} | (attributes or {}))


def accepted():
    operations, blobs = dense()
    yield accept("package", "a constant in a blob, and one in the program", package(operations, blobs), "", [KERNEL, BIAS])
    small = [const("halves", F16, (3,), immediate(F16, (3,), 7, HALVES.data)), const("epsilon", F32, (), immediate(F32, (), 1, EPSILON.data)),
             const("axis", I32, (), immediate(I32, (), 2, varint(1))), const("flag", BOOL, (), immediate(BOOL, (), 3, b"\1")), const("mode", STRING, (), text("fp16"))]
    yield accept("small", "small constants: floats are tensors, numbers and texts of operations are none", package(small), "", [HALVES, EPSILON])
    yield accept("file", "a program in a file", {"file.mlmodel": model(PROGRAM, program(small))}, "file.mlmodel", [HALVES, EPSILON])
    repeated = const("ones", F32, (2, 2), immediate(F32, (2, 2), 1, f32(1)))
    yield accept("repeated", "one number that stands for four", package([repeated]), "", [Tensor("ones", "f32", [2, 2], f32(1, 1, 1, 1))])
    blobs, integers = Blobs(), [3, 0, 1, 7, 5]
    own = [const("three", U3, (10,), blobs.add(U3, (10,), bits(integers * 2, 3))), const("four", I4, (12,), blobs.add(I4, (12,), bits(range(12), 4)))]
    yield accept("few_bits", "integers of 3 and 4 bits, the first in the low bits", package(own, blobs), "", [
        Tensor("three", "u8", [10], bytes(integers * 2)), Tensor("four", "i4", [12], bytes(range(12)))])
    inner = operation("cond", [("y", F32, (1,))], {"pred": ["p"]}, {"name": text("c")}, [block([const("inner", F32, (3,), immediate(F32, (3,), 1, BIAS.data))], ()), block([], ())])
    yield accept("blocks", "a constant in a block of an operation", package([inner]), "", [Tensor("inner", "f32", [3], BIAS.data)])
    operations, blobs = dense()
    two = {name: function(block([*operations, IDENTITY])) for name in ("main", "other")}
    yield accept("functions", "two functions that share a blob", package(None, blobs, two), "", [
        Tensor(f"{name}/{own.name}", own.dtype, own.shape, own.data) for name in two for own in (KERNEL, BIAS)])
    for name, why, make in COMPRESSED:
        blobs = Blobs()
        operation_of, tensor = make(blobs)
        operations = operation_of if isinstance(operation_of, list) else [operation_of]
        yield accept(name, why, package(operations, blobs), "", [tensor] if isinstance(tensor, Tensor) else tensor)
    for name, why, layers, tensors in NETWORKS:
        yield accept(name, why, {f"{name}.mlmodel": model(NETWORK, b"".join(field(1, own) for own in layers), 4)}, f"{name}.mlmodel", tensors)
    network = model(CLASSIFIER, field(1, inner_product("fc", floats(KERNEL.data), floats(BIAS.data))), 4)
    rows = field(202, field(1, network) + field(1, model(TREES, b"", 1)) + field(2, "net"))
    yield accept("pipeline", "a network and trees in a row", {"pipeline.mlmodel": field(1, 4) + field(2, FEATURES) + rows}, "pipeline.mlmodel", [
        Tensor("net/fc/weights", "f32", [3, 5], KERNEL.data), Tensor("net/fc/bias", "f32", [3], BIAS.data)])


def affine(blobs):
    data, scales = bytes([1, 255, 3, 0, 5, 250]), (0.5, 0.25)
    numbers = [(value - 256 * (value > 127) - zero) * scale for row, zero, scale in ((data[:3], 1, 0.5), (data[3:], -2, 0.25)) for value in row]
    own = {"quantized_data": blobs.add(I8, (2, 3), data), "scale": blobs.add(F32, (2,), f32(*scales)), "zero_point": immediate(I8, (2,), 7, bytes([1, 254])), "axis": immediate(I32, (), 2, varint(0))}
    return compressed("constexpr_affine_dequantize", F32, (2, 3), attributes=own), Tensor("w", "f32", [2, 3], f32(*numbers))


def blockwise(blobs):
    values, scales, offsets = [*range(8)], (0.5, 2, 0.25, 1), (1, 2, 3, 4)
    numbers = [(value - offsets[2 * (at // 4) + at % 4 // 2]) * scales[2 * (at // 4) + at % 4 // 2] for at, value in enumerate(values)]
    own = {"data": blobs.add(U4, (2, 4), bits(values, 4)), "scale": blobs.add(F16, (2, 2), struct.pack("<4e", *scales)), "offset": blobs.add(U4, (2, 2), bits(offsets, 4))}
    return compressed("constexpr_blockwise_shift_scale", F16, (2, 4), own), Tensor("w", "f16", [2, 4], struct.pack("<8e", *numbers))


def palette(blobs):
    indices, table = [0, 3, 1, 2, 2, 1], (0.5, -1, 2, 7)
    own = {"indices": blobs.add(U8, (2,), bits(indices, 2)), "lut": blobs.add(F16, (4,), struct.pack("<4e", *table)), "shape": immediate(U32, (2,), 7, struct.pack("<2I", 2, 3))}
    return compressed("constexpr_lut_to_dense", F16, (2, 3), attributes=own), Tensor("w", "f16", [2, 3], struct.pack("<6e", *(table[index] for index in indices)))


def grouped(blobs):
    indices, tables = [0, 3, 1, 2, 2, 1], ((0.5, -1, 2, 7), (1, 2, 3, 4))
    lut = blobs.add(F32, (2, 1, 4, 1), f32(*tables[0], *tables[1]))
    own = {"indices": blobs.add(U2, (2, 3), bits(indices, 2)), "lut": lut}
    return compressed("constexpr_lut_to_dense", F32, (2, 3), own), Tensor("w", "f32", [2, 3], f32(*(tables[at // 3][index] for at, index in enumerate(indices))))


def vectors(blobs):
    # Each index stands for two neighbors along axis 0 of [4, 3].
    indices, table = [0, 1, 1, 1, 0, 1], ((0.5, -1), (2, 7))
    own = {"indices": blobs.add(U1, (2, 3), bits(indices, 1)), "lut": blobs.add(F32, (1, 1, 2, 2), f32(*table[0], *table[1])), "vector_axis": immediate(I32, (), 2, varint(0))}
    numbers = [table[indices[row // 2 * 3 + column]][row % 2] for row in range(4) for column in range(3)]
    return compressed("constexpr_lut_to_dense", F32, (4, 3), own), Tensor("w", "f32", [4, 3], f32(*numbers))


def table_of_table(blobs):
    inner = operation("constexpr_blockwise_shift_scale", [("lut", F32, (1, 1, 2, 1))], {"data": [blobs.add(I8, (1, 1, 2, 1), bytes([4, 252]))], "scale": [blobs.add(F32, (1, 1, 1, 1), f32(0.5))]}, {"name": text("lut")})
    outer = operation("constexpr_lut_to_dense", [("w", F32, (2, 3))], {"indices": [blobs.add(U1, (2, 3), bits([0, 1, 1, 0, 0, 1], 1))], "lut": ["lut"]}, {"name": text("w")})
    return [inner, outer], [Tensor("lut", "f32", [1, 1, 2, 1], f32(2, -2)), Tensor("w", "f32", [2, 3], f32(2, -2, -2, 2, 2, -2))]


MASK = [1, 0, 0, 1, 0, 1]


def sparse(blobs):
    own = {"mask": blobs.add(U8, (1,), bits(MASK, 1)), "nonzero_data": blobs.add(F32, (3,), f32(1, 2, 3)), "shape": immediate(U32, (2,), 7, struct.pack("<2I", 2, 3))}
    return compressed("constexpr_sparse_to_dense", F32, (2, 3), attributes=own), Tensor("w", "f32", [2, 3], f32(1, 0, 0, 2, 0, 3))


def sparse_inputs(blobs):
    own = {"mask": blobs.add(U1, (2, 3), bits(MASK, 1)), "nonzero_data": blobs.add(F16, (3,), struct.pack("<3e", 1, 2, 3))}
    return compressed("constexpr_sparse_to_dense", F16, (2, 3), own), Tensor("w", "f16", [2, 3], struct.pack("<6e", 1, 0, 0, 2, 0, 3))


def sparse_palette(blobs):
    inner = operation("constexpr_lut_to_sparse", [("m", U1, (2, 3)), ("d", F16, (3,))], {
        "indices_mask": [blobs.add(U1, (2, 3), bits(MASK, 1))], "indices_nonzero_data": [blobs.add(U1, (3,), bits([1, 0, 1], 1))], "lut": [blobs.add(F16, (1, 1, 2, 1), struct.pack("<2e", 5, 7))]}, {"name": text("d")})
    outer = operation("constexpr_sparse_to_dense", [("w", F16, (2, 3))], {"mask": ["m"], "nonzero_data": ["d"]}, {"name": text("w")})
    return [inner, outer], Tensor("w", "f16", [2, 3], struct.pack("<6e", 7, 0, 0, 5, 0, 7))


def cast(blobs):
    own = {"source_val": blobs.add(F16, (3,), HALVES.data), "output_dtype": text("fp32")}
    return compressed("constexpr_cast", F32, (3,), attributes=own), Tensor("w", "f32", [3], f32(0.5, -1, 2))


COMPRESSED = [
    ("affine", "scales and zero points of an axis", affine), ("blockwise", "scales and offsets of blocks, integers of 4 bits", blockwise), ("palette", "indices of 2 bits as a stream", palette),
    ("grouped", "a table for each row", grouped), ("vectors", "entries of two elements", vectors), ("table_of_table", "a table that is compressed itself", table_of_table),
    ("sparse", "a mask as a stream of bits", sparse), ("sparse_inputs", "a mask of UINT1", sparse_inputs), ("sparse_palette", "indices behind a mask", sparse_palette), ("cast", "16-bit floats as those of 32 bits", cast),
]


def floats(data: bytes) -> bytes:
    return field(1, data)


def layer(name: str, kind: int, body: bytes) -> bytes:
    return field(1, name) + field(2, "x") + field(3, "y") + field(kind, body)


def inner_product(name: str, weights: bytes, bias: bytes) -> bytes:
    return layer(name, 140, field(1, 5) + field(2, 3) + field(10, 1) + field(20, weights) + field(21, bias))


def linear(width: int, data: bytes, scales, biases) -> bytes:
    return field(30, data) + field(40, field(1, width) + field(101, field(1, f32(*scales)) + field(2, f32(*biases))))


def single(number: float) -> float:
    return struct.unpack("<f", struct.pack("<f", number))[0]


LINEAR = [*range(15)]
LINEAR_SCALES, LINEAR_BIASES = [single(0.1), single(0.2), single(0.3)], [-0.5, 0.25, 1.0]
LUT = (0.5, -1, 2, 7)
UNPACKED = b"".join(varint(1 << 3 | 5) + KERNEL.data[at : at + 4] for at in range(0, 60, 4))
KERNEL_4 = Tensor("conv/weights", "f32", [2, 3, 1, 2], ramp(12))
NETWORKS = [
    ("network", "a convolution and its bias", [layer("conv", 100, field(1, 2) + field(2, 3) + field(10, 1) + field(20, varint(1) + varint(2)) + field(70, 1) + field(90, floats(KERNEL_4.data)) + field(91, floats(f32(1, 2))))],
     [KERNEL_4, Tensor("conv/bias", "f32", [2], f32(1, 2))]),
    ("deconvolution", "a deconvolution: inputs first", [layer("conv", 100, field(1, 4) + field(2, 3) + field(10, 2) + field(20, varint(1) + varint(2)) + field(60, 1) + field(90, floats(ramp(12))))],
     [Tensor("conv/weights", "f32", [3, 2, 1, 2], ramp(12))]),
    ("halves", "16-bit floats", [inner_product("fc", field(2, bytes(range(30))), field(2, HALVES.data))], [Tensor("fc/weights", "f16", [3, 5], bytes(range(30))), Tensor("fc/bias", "f16", [3], HALVES.data)]),
    ("unpacked", "floats that are not packed", [inner_product("fc", UNPACKED, floats(BIAS.data))], [Tensor("fc/weights", "f32", [3, 5], KERNEL.data), Tensor("fc/bias", "f32", [3], BIAS.data)]),
    ("linear", "integers of 4 bits, the first in the high bits, with a scale for each output", [inner_product("fc", linear(4, bits(LINEAR, 4, True), LINEAR_SCALES, LINEAR_BIASES), b"")],
     [Tensor("fc/weights", "f32", [3, 5], f32(*(single(value * LINEAR_SCALES[at // 5] + LINEAR_BIASES[at // 5]) for at, value in enumerate(LINEAR))))]),
    ("lookup", "indices of 2 bits", [inner_product("fc", field(30, bits([value % 4 for value in LINEAR], 2, True)) + field(40, field(1, 2) + field(102, field(1, f32(*LUT)))), b"")],
     [Tensor("fc/weights", "f32", [3, 5], f32(*(LUT[value % 4] for value in LINEAR)))]),
    ("layers", "other layers with weights", [
        layer("bn", 160, field(1, 2) + field(15, floats(f32(1, 2))) + field(17, floats(f32(3, 4)))), layer("emb", 150, field(1, 3) + field(2, 2) + field(20, floats(f32(*range(6))))),
        layer("prelu", 130, field(25, field(1, floats(f32(0.1, 0.2))))), layer("const", 290, field(1, varint(1) + varint(1) + varint(2)) + field(2, floats(f32(8, 9)))),
        layer("lstm", 430, field(1, 1) + field(2, 1) + field(20, field(1, floats(f32(1))) + field(40, floats(f32(2)))) + field(20, field(1, floats(f32(3)))))],
     [Tensor("bn/gamma", "f32", [2], f32(1, 2)), Tensor("bn/mean", "f32", [2], f32(3, 4)), Tensor("emb/weights", "f32", [2, 3], f32(*range(6))), Tensor("prelu/alpha", "f32", [2], f32(0.1, 0.2)),
      Tensor("const/data", "f32", [1, 1, 2], f32(8, 9)), Tensor("lstm/forward/inputGateWeightMatrix", "f32", [1, 1], f32(1)), Tensor("lstm/forward/inputGateBiasVector", "f32", [1], f32(2)),
      Tensor("lstm/backward/inputGateWeightMatrix", "f32", [1, 1], f32(3))]),
]


def rejected():
    operations, blobs = dense()
    whole = package(operations, blobs)

    def case(name, why, files, kind="corrupt"):
        return reject(name, why, files, "", kind)

    def without(name):
        return {own: data for own, data in whole.items() if own != name}

    weights, spec = f"Data/{WEIGHTS}/weight.bin", f"Data/{ROOT}"
    yield case("no_manifest", "no manifest", without("Manifest.json"))
    yield case("no_model", "no model", without(spec))
    yield case("no_weights", "no file of weights", without(weights))
    yield case("manifest_cut", "a manifest that is cut", whole | {"Manifest.json": manifest()[:40]})
    yield case("manifest_root", "a root that is no item", whole | {"Manifest.json": manifest(rootModelIdentifier="9")})
    yield case("manifest_no_root", "no root", whole | {"Manifest.json": manifest(rootModelIdentifier=None)})
    for name, path in [("manifest_up", "../model.mlmodel"), ("manifest_absolute", "/etc/passwd")]:
        yield case(name, "a path that leaves the package", whole | {"Manifest.json": manifest(itemInfoEntries={"1": {"path": path}})})
    yield case("spec_cut", "a model that is cut", whole | {spec: whole[spec][:-9]})
    yield case("spec_empty", "an empty model", whole | {spec: b""})
    yield case("varint", "a varint without an end", whole | {spec: whole[spec] + b"\x08" + b"\xff" * 11})
    yield case("length", "a length past the end", whole | {spec: whole[spec] + b"\x12\xff\xff\xff\xff\x0f"})
    yield case("wire_type", "a group", whole | {spec: whole[spec] + b"\x0b"})
    yield case("weights_cut", "a blob that ends behind the file", whole | {weights: whole[weights][:-4]})
    yield case("weights_empty", "an empty file of weights", whole | {weights: b""})
    operations, blobs = dense(Blobs(version=1))
    yield case("weights_version", "version 1 of blob files", package(operations, blobs), "unsupported")
    for name, why, damage in [
        ("sentinel", "another sentinel", {"sentinel": 0xDEADBEEE}), ("blob_type", "a blob of another type", {"type": 1}), ("blob_size", "a blob of another size", {"size": 56}),
        ("blob_huge", "a size of 2^63", {"size": 1 << 63}), ("blob_offset", "data that wraps", {"offset": 2**64 - 32}), ("blob_at", "metadata behind the file", {"at": 1 << 40}),
        ("blob_up", "a name that leaves the package", {"file": "@model_path/../weight.bin"}), ("blob_absolute", "an absolute name", {"file": "/weights/weight.bin"}),
    ]:
        operations, blobs = dense(**damage)
        yield case(name, why, package(operations, blobs))
    blobs = Blobs()
    yield case("padding", "another padding than the elements leave", package([const("w", U3, (11,), blobs.add(U3, (11,), bits([1] * 11, 3), padding=1))], blobs))
    yield case("numbers", "fewer numbers than the shape has", package([const("w", F32, (3,), immediate(F32, (3,), 1, f32(1, 2)))]))
    yield case("numbers_kind", "integers as floats", package([const("w", F32, (1,), immediate(F32, (1,), 2, b"\1"))]))
    yield case("types_differ", "a constant of another type than its value", package([const("w", F16, (3,), immediate(F32, (3,), 1, BIAS.data))]))
    yield case("huge_shape", "a product of 2^64", package([const("w", F32, (1 << 32, 1 << 32), immediate(F32, (1 << 32, 1 << 32), 1, f32(1)))]))
    yield case("unknown_type", "a type that is none", package([const("w", 99, (3,), immediate(99, (3,), 1, BIAS.data))]))
    yield case("same_names", "two constants of one name are told apart, and one does not fit", package([const("w", F32, (1,), immediate(F32, (1,), 1, f32(1))), const("w", F32, (2,), immediate(F32, (2,), 1, f32(1, 2, 3)))]))
    deep = block([], ())
    for _ in range(200):
        deep = block([operation("cond", [], blocks=[deep])], ())
    yield case("deep", "blocks that nest 200 deep", package(None, functions={"main": function(deep)}))

    def broken(name, why, make, kind="corrupt"):
        blobs = Blobs()
        own = make(blobs)
        return case(name, why, package(own if isinstance(own, list) else [own], blobs), kind)

    mask = lambda blobs: {"mask": blobs.add(U1, (2, 3), bits(MASK, 1)), "nonzero_data": blobs.add(F16, (2,), struct.pack("<2e", 1, 2))}
    yield broken("sparse_count", "fewer elements than bits", lambda blobs: compressed("constexpr_sparse_to_dense", F16, (2, 3), mask(blobs)))
    yield broken("lut_entries", "a table of three entries", lambda blobs: compressed("constexpr_lut_to_dense", F16, (2, 3), attributes={
        "indices": blobs.add(U8, (2,), bytes(2)), "lut": blobs.add(F16, (3,), bytes(6)), "shape": immediate(U32, (2,), 7, struct.pack("<2I", 2, 3))}))
    yield broken("lut_indices", "fewer indices than elements", lambda blobs: compressed("constexpr_lut_to_dense", F16, (2, 3), attributes={
        "indices": blobs.add(U8, (1,), bytes(1)), "lut": blobs.add(F16, (4,), bytes(8)), "shape": immediate(U32, (2,), 7, struct.pack("<2I", 2, 3))}))
    yield broken("blocks_odd", "blocks that do not divide their axis", lambda blobs: compressed("constexpr_blockwise_shift_scale", F16, (2, 4), {"data": blobs.add(U4, (2, 4), bytes(4)), "scale": blobs.add(F16, (2, 3), bytes(12))}))
    yield broken("result_type", "a result of another shape", lambda blobs: compressed("constexpr_blockwise_shift_scale", F16, (4, 2), {"data": blobs.add(U4, (2, 4), bytes(4)), "scale": blobs.add(F16, (1, 1), bytes(2))}))
    yield broken("no_operand", "weights without a table", lambda blobs: compressed("constexpr_lut_to_dense", F16, (2, 3), {"indices": blobs.add(U1, (2, 3), bytes(1))}))
    yield broken("itself", "a table that is computed from itself", lambda blobs: operation("constexpr_lut_to_dense", [("w", F16, (1, 1, 2, 1))], {"indices": [blobs.add(U1, (1, 1, 2, 1), bytes(1))], "lut": ["w"]}), "unsupported")
    yield broken("unknown_compression", "a compression that is not known", lambda blobs: compressed("constexpr_secret", F16, (2, 3)), "unsupported")

    def network(name, why, body, kind="corrupt"):
        return reject(name, why, {f"{name}.mlmodel": model(NETWORK, field(1, body), 4)}, f"{name}.mlmodel", kind)

    yield network("weights_few", "fewer weights than the layer states", inner_product("fc", floats(ramp(14)), b""))
    yield network("weights_odd", "floats that are not whole", inner_product("fc", floats(ramp(15)[:-1]), b""))
    yield network("scales_few", "two scales for three outputs", inner_product("fc", linear(8, bytes(15), [1, 2], [0]), b""))
    yield network("bits_nine", "integers of 9 bits", inner_product("fc", linear(9, bytes(17), [1], [0]), b""))
    yield network("raw_alone", "integers without a scale", inner_product("fc", field(30, bytes(15)), b""))
    yield network("table_few", "a table of three entries for 2 bits", inner_product("fc", field(30, bytes(4)) + field(40, field(1, 2) + field(102, field(1, f32(1, 2, 3)))), b""))
    yield reject("trees", "a tree ensemble", {"trees.mlmodel": model(TREES, b"", 1)}, "trees.mlmodel", "unsupported")
    yield reject("no_kind", "no kind of model", {"no_kind.mlmodel": field(1, 4) + field(2, FEATURES)}, "no_kind.mlmodel")
    nested = model(PIPELINE, b"", 1)
    for _ in range(12):
        nested = model(PIPELINE, field(1, nested), 1)
    yield reject("pipelines", "pipelines that nest 12 deep", {"pipelines.mlmodel": nested}, "pipelines.mlmodel", "unsupported")
