"""Keras files, built byte by byte, and broken ones."""

import struct
import zlib

import hdf5
from common import Tensor, accept, f32, reject
from hdf5 import UNDEFINED, Dataset, Hard, Soft, fletcher32, integer, lzf, shuffled, stored_zlib

KERNEL, BIAS = f32(0, 1, 2, 3, 4, 5), f32(6, 7, 8)
W = Tensor("layers/dense/vars/0", "f32", [2, 3], KERNEL)
B = Tensor("layers/dense/vars/1", "f32", [3], BIAS)
LENIENT = ["lenient=true"]
HUGE = 1 << 60
CONFIG = (
    '{"module": "keras", "class_name": "Sequential", "config": {"name": "m", "layers": ['
    '{"module": "keras.layers", "class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "i"}}, '
    '{"module": "keras.layers", "class_name": "Dense", "config": {"name": "d", "units": 3, "activation": "relu"}}]}}'
).encode()
CONFIG_BF16 = CONFIG.replace(b'"units": 3', b'"units": 3, "dtype": "bfloat16"')
METADATA = b'{"keras_version": "3.15.1", "date_saved": "2026-01-01@00:00:00"}'


def kernel(**changes) -> Dataset:
    return Dataset(**{"datatype": hdf5.F32, "shape": [2, 3], "data": KERNEL, **changes})


def bias(**changes) -> Dataset:
    return Dataset(**{"datatype": hdf5.F32, "shape": [3], "data": BIAS, **changes})


def weights(first: Dataset, second: Dataset | None = None, **changes) -> bytes:
    members = {"0": first, "1": second if second is not None else bias()}
    return hdf5.file({"layers": {"dense": {"vars": members}}}, **changes)


def filters(*ids: tuple[int, list[int]]) -> bytes:
    own = struct.pack("<BB6x", 1, len(ids))
    for number, values in ids:
        own += struct.pack("<HHHH", number, 0, 0, len(values)) + struct.pack(f"<{len(values)}I", *values)
        own += bytes(4 * (len(values) % 2))
    return own


def chunks(parts, chunk=(2, 2), stored=None, mask=0, key=None):
    """Chunks [2, 2] of [2, 3] in a B-tree; the second one reaches beyond the dataset."""

    def layout(file, _):
        keys = b""
        for number, part in enumerate(parts):
            at = part if isinstance(part, int) else file.add(part)
            length = len(part) if stored is None else stored
            start = 2 * number if key is None else key
            keys += struct.pack("<IIQQQ", length, mask, 0, start, 0) + struct.pack("<Q", at)
        keys += struct.pack("<IIQQQ", 0, 0, 2, 0, 0)
        tree = file.add(b"TREE" + struct.pack("<BBHQQ", 1, 0, len(parts), UNDEFINED, UNDEFINED) + keys + bytes(512))
        return struct.pack("<BBBQIII", 3, 2, 3, tree, *chunk, 4)

    return layout


PARTS = [f32(0, 1, 3, 4), f32(2, 0, 5, 0)]


def chunked(parts, steps=b"", **changes) -> Dataset:
    return kernel(data=b"", layout=chunks(parts, **changes), filters=steps or None)


def archive(members, crc=None) -> bytes:
    local, central = b"", b""
    for name, data in members:
        own = zlib.crc32(data) if crc is None else crc
        fields = struct.pack("<HHHHIIIH", 0, 0, 0, 33, own, len(data), len(data), len(name))
        central += b"PK\x01\x02" + struct.pack("<HH", 0x314, 20) + fields + struct.pack("<HHHHII", 0, 0, 0, 0, 0x1800000, len(local)) + name
        local += b"PK\x03\x04" + struct.pack("<H", 20) + fields + struct.pack("<H", 0) + name + data
    count = len(members)
    return local + central + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(central), len(local), 0)


def members(data: bytes) -> list:
    return [(b"metadata.json", METADATA), (b"config.json", CONFIG), (b"model.weights.h5", data)]


def index(group: str, name: str) -> bytes:
    return ('{"metadata": {"total_size": 36}, "weight_map": {"/%s": ["%s"]}}' % (group, name)).encode()


GROUP = "layers/dense/vars"
SHARDS = {"m.weights.json": index(GROUP, "m_00000.weights.h5"), "m_00000.weights.h5": weights(kernel())}


def dtypes() -> list:
    return [
        ("f16", hdf5.F16, struct.pack("<2e", 1.5, -2)), ("f32", hdf5.F32, f32(1.5, -2)), ("f64", hdf5.F64, struct.pack("<2d", 1.5, -2)),
        ("i8", integer(1, True), b"\1\xfe"), ("i16", integer(2, True), struct.pack("<2h", 1, -2)),
        ("i32", integer(4, True), struct.pack("<2i", 1, -2)), ("i64", integer(8, True), struct.pack("<2q", 1, -2)),
        ("u8", integer(1, False), b"\1\x80"), ("u16", integer(2, False), struct.pack("<2H", 1, 1 << 15)),
        ("u32", integer(4, False), struct.pack("<2I", 1, 1 << 31)), ("u64", integer(8, False), struct.pack("<2Q", 1, 1 << 63)),
        ("bool", hdf5.BOOL, b"\0\1"),
    ]


def accepted():
    def one(name, why, data, tensors=(W, B), options=()):
        return accept(name, why, {f"{name}.h5": data}, f"{name}.h5", list(tensors), options)

    yield one("weights", "two datasets in groups", weights(kernel()))
    every = dtypes()
    halves = {"a": every[:6], "b": every[6:]}
    groups = {group: {name: Dataset(own, [2], data) for name, own, data in half} for group, half in halves.items()}
    yield one("every_dtype", "every dtype", hdf5.file(groups),
              [Tensor(f"{group}/{name}", name, [2], data) for group, half in halves.items() for name, _, data in half])
    yield one("big_endian", "big-endian numbers", weights(kernel(datatype=hdf5.F32_BIG, data=struct.pack(">6f", *range(6)))))
    yield one("shapes", "a scalar, and no elements", hdf5.file({"s": Dataset(hdf5.F32, [], f32(1)), "e": Dataset(hdf5.F32, [0, 4], None)}),
              [Tensor("s", "f32", [], f32(1)), Tensor("e", "f32", [0, 4], b"")])
    compact = lambda file, at: struct.pack("<BBH", 3, 0, 24) + KERNEL
    yield one("compact", "elements in the header", weights(kernel(data=b"", layout=compact)))
    yield one("chunked", "chunks that reach beyond the dataset", weights(chunked(PARTS)))
    deflated = [stored_zlib(shuffled(part, 4)) for part in PARTS]
    yield one("deflated", "shuffled and deflated chunks", weights(chunked(deflated, filters((2, [4]), (1, [4])))))
    yield one("fletcher", "chunks with checksums", weights(chunked([fletcher32(part) for part in PARTS], filters((3, [])))))
    yield one("lzf", "chunks of LZF", weights(chunked([lzf(part) for part in PARTS], filters((32000, [4, 261, 16])))))
    yield one("masked", "chunks without their filter", weights(chunked(PARTS, filters((1, [4])), mask=1)))
    yield one("missing_chunk", "a chunk that was never written", weights(chunked(PARTS[:1])),
              [Tensor("layers/dense/vars/0", "f32", [2, 3], f32(0, 1, 0, 3, 4, 0)), B])
    fill = bytes([2, 2, 2, 1, 4, 0, 0, 0]) + f32(7)
    yield one("never_written", "elements with a fill value", weights(kernel(data=None, fill=fill)),
              [Tensor("layers/dense/vars/0", "f32", [2, 3], f32(*[7] * 6)), B])
    yield one("user_block", "bytes before the superblock", weights(kernel(), user=512))
    yield one("bfloat16", "opaque elements with a name, and without one in a model of bfloat16", weights(
        Dataset(hdf5.OPAQUE, [2, 3], 3 * b"\x80\x3f\0\x40", {"dtype": "bfloat16"}),
        Dataset(hdf5.OPAQUE, [3], b"\0\x40\x80\x3f\0\0"), attributes=[("model_config", CONFIG_BF16.decode())]),
        [Tensor("layers/dense/vars/0", "bf16", [2, 3], 3 * b"\x80\x3f\0\x40"),
         Tensor("layers/dense/vars/1", "bf16", [3], b"\0\x40\x80\x3f\0\0")])
    h5 = hdf5.file({"model_weights": {"d": {"d": {"kernel:0": kernel(), "bias:0": bias()}}}},
                   [("keras_version", "2.21.0"), ("model_config", CONFIG.decode())])
    yield one("attributes", "a configuration in an attribute", h5, [
        Tensor("model_weights/d/d/kernel:0", "f32", [2, 3], KERNEL), Tensor("model_weights/d/d/bias:0", "f32", [3], BIAS)])
    yield one("new_style", "superblock 3, headers with checksums, links in messages", hdf5.new_file("w", kernel()),
              [Tensor("w", "f32", [2, 3], KERNEL)])
    single = lambda file, at: struct.pack("<BBBBBIIIBQ", 4, 2, 0, 3, 4, 2, 3, 4, 1, at)
    yield one("single_chunk", "one chunk, without an index", hdf5.new_file("w", kernel(layout=single)), [Tensor("w", "f32", [2, 3], KERNEL)])
    yield one("soft_link", "links that lead nowhere or to what is there", hdf5.file({"w": bias(), "x": Soft("/w"), "y": Soft("/z")}),
              [Tensor("w", "f32", [3], BIAS)])
    yield one("cycle", "a group in itself: each object once", cycle(), [Tensor("a/w", "f32", [3], BIAS)])
    yield one("texts", "a dataset of texts is left out", hdf5.file({"t": Dataset(hdf5.TEXT, [1], bytes(16)), "w": bias()}),
              [Tensor("w", "f32", [3], BIAS)])
    numbers = f32(1, 2, 3, -1)
    yield one("complex", "complex numbers: two floats, r and i", hdf5.file({
        "z": Dataset(hdf5.complex_of(hdf5.F32), [2], numbers),
        "big": Dataset(hdf5.complex_of(hdf5.F32_BIG), [2], struct.pack(">4f", 1, 2, 3, -1)),
        "double": Dataset(hdf5.complex_of(hdf5.F64), [1], struct.pack("<2d", 1, 2))}), [
        Tensor("z", "c64", [2], numbers), Tensor("big", "c64", [2], numbers), Tensor("double", "c128", [1], struct.pack("<2d", 1, 2))])
    names = lambda size: {"A": bytes(size), "B": (1).to_bytes(size, "little")}
    yield one("enumeration", "enumerations are their integers", hdf5.file({
        "e": Dataset(hdf5.enumeration(integer(1, True), names(1)), [2], b"\0\1"),
        "wide": Dataset(hdf5.enumeration(integer(4, False), names(4)), [1], struct.pack("<I", 1))}), [
        Tensor("e", "i8", [2], b"\0\1"), Tensor("wide", "u32", [1], struct.pack("<I", 1))])
    yield one("trailing", "bytes after the end, lenient", weights(kernel()) + b"x", options=LENIENT)
    yield accept("archive", "an archive with a configuration", {"m.keras": archive(members(weights(kernel())))}, "m.keras", [W, B])
    yield accept("bare_archive", "an archive of weights alone", {"m.keras": archive(members(weights(kernel()))[2:])}, "m.keras", [W, B])
    yield accept("directory", "a directory", {"config.json": CONFIG, "model.weights.h5": weights(kernel())}, "", [W, B])
    yield accept("shards", "weights with an index", SHARDS, "m.weights.json", [W, B])


def cycle() -> bytes:
    file = hdf5.File()
    mark = 0x123456789A
    group = file.group({"w": bias(), "x": Hard(mark)})
    root = file.symbols({"a": Hard(group)})
    at = file.bytes.index(struct.pack("<Q", mark))
    file.bytes[at : at + 8] = struct.pack("<Q", group)
    return file.done(root)


def rejected():
    def one(name, why, data, kind="corrupt", options=()):
        return reject(name, why, {f"{name}.h5": data}, f"{name}.h5", kind, options)

    whole = weights(kernel())
    changed = lambda at, new: whole[:at] + new + whole[at + len(new):]
    yield one("cut", "the file is cut", whole[:-1])
    yield one("cut_superblock", "the superblock is cut", whole[:40])
    yield one("trailing_byte", "a byte after the end", whole + b"x")
    yield one("end_before", "the end lies before the data", weights(kernel(), end=96))
    yield one("superblock_version", "an unknown superblock", changed(8, b"\x09"), "unsupported")
    yield one("address_size", "addresses of 16 bytes", changed(13, b"\x10"), "unsupported")
    yield one("driver", "a file of the family driver", changed(48, struct.pack("<Q", 96)), "unsupported")
    yield one("tree_signature", "a B-tree without a signature", changed(whole.rindex(b"TREE"), b"TREF"))
    yield one("symbol_signature", "a symbol table node without a signature", changed(whole.rindex(b"SNOD"), b"SNOX"))
    yield one("heap_outside", "names outside the file", changed(whole.rindex(b"HEAP") + 8, struct.pack("<Q", HUGE)))
    yield one("symbol_count", "65,535 members", changed(whole.rindex(b"SNOD") + 6, b"\xff\xff"))
    yield one("larger", "more elements than bytes", weights(kernel(layout=lambda file, at: struct.pack("<BBQQ", 3, 1, at, 20))))
    yield one("huge", "2^60 elements", weights(kernel(shape=[HUGE])))
    yield one("outside", "elements outside the file", weights(kernel(address=HUGE)))
    yield one("overflow", "an address at the end of all addresses", weights(kernel(address=UNDEFINED - 8)))
    yield one("overlap", "two datasets share bytes", weights(kernel(), bias(address=104)))
    yield one("rank", "chunks of another rank", weights(kernel(data=b"", layout=lambda file, at: struct.pack("<BBBQII", 3, 2, 2, UNDEFINED, 2, 4))))
    yield one("chunk_4_gib", "a chunk that claims 4 GiB", weights(chunked(PARTS, chunk=(0x7fff, 0x7fff), stored=0xFFFFFFFF)))
    yield one("chunk_outside", "a chunk outside the file", weights(chunked([HUGE], stored=16)))
    yield one("chunk_length", "a chunk of another length", weights(chunked(PARTS, stored=12)))
    yield one("chunk_off_grid", "a chunk off the grid", weights(chunked(PARTS[:1], key=1)))
    yield one("chunk_twice", "a chunk twice", weights(chunked(PARTS, key=0)))
    yield one("chunk_zero", "chunks without elements", weights(chunked(PARTS, chunk=(0, 2))))
    shuffled_4_gib = chunked(PARTS, filters((2, [4]), (1, [4])), chunk=(0x7fff, 0x7fff))
    yield one("shuffled_4_gib", "a shuffled chunk of 4 GiB", weights(shuffled_4_gib))
    yield one("adler", "a damaged chunk", weights(chunked([stored_zlib(part)[:-1] + b"\0" for part in PARTS], filters((1, [4])))))
    yield one("fletcher_wrong", "a chunk with another checksum", weights(chunked([part + b"abcd" for part in PARTS], filters((3, [])))))
    yield one("lzf_before", "LZF copies from before its beginning", weights(chunked([b"\x20\x07" * 6] * 2, filters((32000, [])))))
    yield one("szip", "szip", weights(chunked(PARTS, filters((4, [4, 8])))), "unsupported")
    yield one("unknown_filter", "an unknown filter", weights(chunked(PARTS, filters((31999, [])))), "unsupported")
    yield one("filter_order", "filters in an odd order", weights(chunked(PARTS, filters((1, [4]), (2, [4])))), "unsupported")
    yield one("virtual", "a virtual dataset", weights(kernel(layout=lambda file, at: struct.pack("<BBQI", 4, 3, at, 0))), "unsupported")
    yield one("external", "elements in another file", weights(kernel(more=[(7, struct.pack("<BBBBHHQ", 1, 0, 0, 0, 1, 1, 96))])), "unsupported")
    linked = struct.pack("<BBBB", 1, 8, 64, 1) + b"w" + struct.pack("<H", 6) + b"\0f\0/w\0"
    yield one("external_link", "a link to another file", hdf5.new_file("w", kernel(), linked), "unsupported")
    yield one("no_fill", "elements without any value", weights(kernel(data=None, fill=bytes([2, 2, 2, 0]))), "unsupported")
    yield one("too_much_fill", "128 MiB of zeros from nothing", weights(kernel(shape=[1 << 25], data=None)), "limit")
    pair = struct.pack("<BBHI", 0x16, 2, 0, 8) + struct.pack("<8sI28x", b"x", 0) + hdf5.F32 + struct.pack("<8sI28x", b"y", 4) + hdf5.F32
    yield one("compound", "compound elements that are no complex numbers", hdf5.file({"t": Dataset(pair, [1], bytes(8)), "w": bias()}), "unsupported")
    yield one("opaque_unnamed", "opaque elements of two bytes that nothing names", weights(Dataset(hdf5.OPAQUE, [1], b"\0\x40")), "unsupported")
    yield one("texts_alone", "texts and no tensor", hdf5.file({"t": Dataset(hdf5.TEXT, [1], bytes(16))}), "unsupported")
    yield one("opaque", "opaque elements of three bytes", weights(Dataset(struct.pack("<BBHI", 0x15, 0, 0, 3), [1], b"abc")), "unsupported")
    deep = bias()
    for _ in range(70):
        deep = {"g": deep}
    yield one("deep", "groups 70 levels deep", hdf5.file(deep), "limit")
    fresh = hdf5.new_file("w", kernel())
    yield one("checksum", "a header with another checksum", fresh[:-1] + bytes([fresh[-1] ^ 1]))
    yield one("superblock_checksum", "a superblock with another checksum", fresh[:12] + bytes([fresh[12] ^ 4]) + fresh[13:])
    own = weights(kernel())
    yield reject("archive_crc", "weights with another CRC-32", {"m.keras": archive(members(own), 7)}, "m.keras")
    yield reject("archive_empty", "an archive without weights", {"m.keras": archive(members(own)[:2])}, "m.keras")
    yield reject("archive_twice", "weights twice", {"m.keras": archive(members(own) + members(own)[2:])}, "m.keras")
    yield reject("archive_cut", "an archive that is cut", {"m.keras": archive(members(own))[:-1]}, "m.keras")
    yield reject("shard_missing", "a missing file", {"m.weights.json": SHARDS["m.weights.json"]}, "m.weights.json", "io")
    yield reject("shard_escape", "a file outside the directory", {"m.weights.json": index(GROUP, "../m.h5")}, "m.weights.json")
    yield reject("shard_other", "tensors that the index does not name", {**SHARDS, "m.weights.json": index("layers/x/vars", "m_00000.weights.h5")}, "m.weights.json")
    yield reject("shard_text", "an index that is no JSON", {"m.weights.json": b"{"}, "m.weights.json")
