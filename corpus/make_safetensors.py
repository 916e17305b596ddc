"""safetensors files and sharded sets, and broken ones."""

import json
import struct

from common import Tensor, accept, f32, ramp, reject

CODES = {
    "f64": ("F64", 8), "f32": ("F32", 4), "f16": ("F16", 2), "bf16": ("BF16", 2), "f8_e5m2": ("F8_E5M2", 1),
    "f8_e4m3": ("F8_E4M3", 1), "f8_e8m0": ("F8_E8M0", 1), "i64": ("I64", 8), "i32": ("I32", 4), "i16": ("I16", 2),
    "i8": ("I8", 1), "u64": ("U64", 8), "u32": ("U32", 4), "u16": ("U16", 2), "u8": ("U8", 1), "bool": ("BOOL", 1),
    "c64": ("C64", 8),
}


def file(header, data=b"", pad=True) -> bytes:
    """`header`: a dictionary, or the bytes themselves."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8) if pad else b""
    return struct.pack("<Q", len(text)) + text + data


def describe(tensors, metadata=None) -> tuple[dict, bytes]:
    header, data = ({"__metadata__": metadata} if metadata is not None else {}), b""
    for tensor in tensors:
        end = len(data) + len(tensor.data)
        code = CODES[tensor.dtype][0]
        header[tensor.name] = {"dtype": code, "shape": tensor.shape, "data_offsets": [len(data), end]}
        data += tensor.data
    return header, data


def one(dtype="F32", shape=(2,), offsets=(0, 8), name="x") -> dict:
    return {name: {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


def index(weight_map: dict, **changes) -> bytes:
    return json.dumps({"metadata": {"total_size": 24}, "weight_map": weight_map} | changes, indent=2).encode()


WEIGHT = Tensor("dense.weight", "f32", [2, 3], ramp(6))
BIAS = Tensor("dense.bias", "f32", [2], f32(0.5, -0.5))
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
INDEX = "model.safetensors.index.json"


def accepted():
    def case(name, why, data, tensors):
        return accept(name, why, {f"{name}.safetensors": data}, f"{name}.safetensors", tensors)

    yield case("two_tensors", "a weight and a bias", file(*describe([WEIGHT, BIAS])), [WEIGHT, BIAS])
    yield case("no_tensors", "no tensor at all", file({}), [])
    metadata = {"format": "pt", "licence": "MIT", "ünï": "cødé \u0000"}
    yield case("metadata", "__metadata__ of any text", file(*describe([BIAS], metadata)), [BIAS])
    yield case("metadata_only", "__metadata__ and no tensor", file({"__metadata__": {}}), [])
    every = [Tensor(f"of_{dtype}", dtype, [2], bytes(range(2 * size))) for dtype, (_, size) in CODES.items()]
    every[-2] = Tensor("of_bool", "bool", [2], b"\0\1")
    yield case("every_dtype", "every dtype whose elements are whole bytes", file(*describe(every)), every)
    shapes = [Tensor("scalar", "f32", [], f32(7)), Tensor("empty", "f32", [0, 5], b""),
              Tensor("deep", "u8", [1] * 12 + [3], b"abc")]
    yield case("shapes", "a scalar, an empty tensor, rank 13", file(*describe(shapes)), shapes)
    names = [Tensor(name, "u8", [1], b"x") for name in ("", "a b/c", "名前", 'quote"\\', "a" * 300)]
    yield case("names", "names are any text, also none", file(*describe(names)), names)
    header, data = describe([WEIGHT, BIAS])
    unsorted = {name: header[name] for name in ("dense.bias", "dense.weight")}
    yield case("header_unsorted", "the header's order is not the data's", file(unsorted, data), [WEIGHT, BIAS])
    yield case("header_unpadded", "data that starts at an odd offset", file(*describe([BIAS]), pad=False), [BIAS])
    yield case("f16_bits", "halves and bfloat16 keep their bits, NaN included",
               file(*describe(halves := [Tensor("h", "f16", [2], b"\x01\x7e\x00\xfc"),
                                         Tensor("b", "bf16", [2], b"\xc1\x7f\x01\x00")])), halves)
    many = [Tensor(f"layers.{n}.weight", "u8", [1], bytes([n])) for n in range(200)]
    yield case("many", "200 tensors; their names sort otherwise than their data", file(*describe(many)), many)
    # 0x38 is 1.0 and 0x40 is 2.0; the second block has the last row.
    fp8 = [Tensor("mlp.down.weight", "f8_e4m3", [129, 1], b"\x38" * 128 + b"\x40"),
           Tensor("mlp.down.weight_scale_inv", "f32", [2, 1], f32(0.5, 3.0)), Tensor("norm.weight", "f32", [2], f32(1.0, 2.0))]
    yield case("fp8_blocks", "8-bit floats with a scale for each block of 128 rows and columns", file(*describe(fp8)), fp8)
    mxfp4 = [Tensor("experts.up_blocks", "u8", [1, 2, 1, 16], bytes(range(0x10, 0x30))),
             Tensor("experts.up_scales", "u8", [1, 2, 1], bytes([127, 128]))]
    yield case("mxfp4", "bytes of two 4-bit floats each, with powers of two", file(*describe(mxfp4)), mxfp4)
    halves = {SHARDS[0]: file(*describe([WEIGHT])), SHARDS[1]: file(*describe([BIAS]))}
    where = {"dense.weight": SHARDS[0], "dense.bias": SHARDS[1]}
    yield accept("no_index", "a set of two files without its index: read by its names", halves, "", [WEIGHT, BIAS])
    rows = [Tensor("dense.weight", "f32", [1, 3], WEIGHT.data[:12]), Tensor("dense.weight", "f32", [1, 3], WEIGHT.data[12:])]
    ranks = {}
    for rank, tensors in enumerate([[rows[0]], [rows[1], BIAS]]):
        starts = {tensor.name: {"saved_offsets": [0] if tensor is BIAS else [rank, 0]} for tensor in tensors}
        stated = {"DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(starts), "format": "pt"}
        ranks[f"shard-0000{rank + 1}-model-00001-of-00001.safetensors"] = file(*describe(tensors, stated))
    yield accept("ranks", "parts of tensors that ranks saved, with the place of each", ranks, "", [WEIGHT, BIAS])
    yield accept("sharded", "a set of two files", halves | {INDEX: index(where)}, INDEX, [WEIGHT, BIAS])
    extra = Tensor("rope.inv_freq", "f32", [1], f32(0.25))
    unlisted = {SHARDS[0]: file(*describe([WEIGHT])), SHARDS[1]: file(*describe([extra, BIAS]))}
    yield accept("shard_unlisted", "a tensor that the index does not list", unlisted | {INDEX: index(where)}, INDEX,
                 [WEIGHT, BIAS, extra])
    copied = {SHARDS[0]: file(*describe([WEIGHT, BIAS])), SHARDS[1]: file(*describe([BIAS]))}
    yield accept("shard_copy", "an equal copy of a tensor in another file", copied | {INDEX: index(where)}, INDEX, [WEIGHT, BIAS])


def rejected():
    def case(name, why, data, kind="corrupt"):
        return reject(name, why, {f"{name}.safetensors": data}, f"{name}.safetensors", kind)

    def length(value: int) -> bytes:
        return struct.pack("<Q", value) + file(one(), f32(1, 2))[8:]

    data = f32(1, 2)
    yield case("empty", "no byte at all", b"")
    yield case("seven_bytes", "less than the header's length", b"\x08\0\0\0\0\0\0")
    yield case("length_0", "a header of no bytes", length(0))
    yield case("length_past_end", "the header is longer than the file", length(4096))
    yield case("length_huge", "the header claims 2^63 bytes", length(2**63))
    yield case("length_max", "the header claims 2^64 - 1 bytes", length(2**64 - 1))
    yield case("not_utf8", "the header is no UTF-8", file(b'{"\xff":{}}', pad=False))
    yield case("not_json", "the header is cut", file(json.dumps(one()).encode()[:-2], data))
    yield case("not_an_object", "the header is an array", file(b"[]", data))
    yield case("leading_space", "the header does not begin with {", file(b" " + json.dumps(one()).encode(), data))
    yield case("deep", "100,000 nested arrays", file(b'{"x":' + b"[" * 100_000, data))
    yield case("field_missing", "a tensor without a shape", file({"x": {"dtype": "F32", "data_offsets": [0, 8]}}, data))
    yield case("dtype_unknown", "a dtype that does not exist", file(one("F33"), data))
    yield case("shape_negative", "a negative dimension", file(one(shape=(-2,)), data))
    yield case("shape_float", "a dimension that is no integer", file(one(shape=(2.0,)), data))
    yield case("shape_overflow", "a product of dimensions beyond 64 bits", file(one(shape=(2**33, 2**33)), data))
    yield case("size_too_small", "fewer bytes than the shape needs", file(one(shape=(3,)), data))
    yield case("size_too_large", "more bytes than the shape needs", file(one(shape=(1,)), data))
    yield case("offsets_reversed", "an end before its begin", file(one(offsets=(8, 0)), data))
    yield case("offsets_past_end", "an end after the file's", file(one(shape=(4,), offsets=(0, 16)), data))
    yield case("offsets_huge", "offsets near 2^64", file(one(offsets=(2**64 - 8, 2**64 - 1)), data))
    yield case("hole_first", "bytes before the first tensor", file(one(offsets=(4, 12)), bytes(4) + data))
    hole = one(shape=(1,), offsets=(0, 4)) | one(shape=(1,), offsets=(8, 12), name="y")
    yield case("hole_between", "bytes that no tensor owns", file(hole, bytes(12)))
    overlap = one(shape=(2,), offsets=(0, 8)) | one(shape=(2,), offsets=(4, 12), name="y")
    yield case("overlap", "two tensors share bytes", file(overlap, bytes(12)))
    yield case("trailing_bytes", "bytes after the last tensor", file(one(), data + b"\0"))
    yield case("cut", "the last byte is missing", file(one(), data)[:-1])
    twice = json.dumps(one()).encode()
    yield case("name_twice", "the same name twice", file(twice[:-1] + b"," + twice[1:], data))
    yield case("metadata_number", "metadata that is no text", file({"__metadata__": {"a": 1}} | one(), data))
    yield case("half_bytes", "three elements of 4 bits", file(one("F4", (3,), (0, 2)), b"\0\0"))

    def sharded(name, why, files, kind="corrupt"):
        return reject(name, why, files, INDEX, kind)

    first = {SHARDS[0]: file(*describe([WEIGHT]))}
    where = {"dense.weight": SHARDS[0], "dense.bias": SHARDS[1]}
    yield sharded("shard_missing", "a file of the set is missing", first | {INDEX: index(where)}, "io")
    outside = {"dense.weight": "../" + SHARDS[0]}
    yield sharded("shard_outside", "a file outside of the directory", first | {INDEX: index(outside)})
    absent = {"dense.weight": SHARDS[0], "dense.bias": SHARDS[0]}
    yield sharded("shard_without_tensor", "a tensor is not where the index says", first | {INDEX: index(absent)})
    other = file(*describe([WEIGHT, Tensor("dense.bias", "f32", [2], f32(0.5, 0.5))]))
    both = {SHARDS[0]: other, SHARDS[1]: file(*describe([BIAS])), INDEX: index(where)}
    yield sharded("shard_other_copy", "a copy of a tensor with other values in another file", both)
    yield sharded("index_without_map", "an index without a weight_map", first | {INDEX: b'{"metadata":{}}'})
