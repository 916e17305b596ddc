"""Checkpoints of Orbax: databases (OCDBT) and folders of zarr arrays; and trees in msgpack."""

import gzip
import json
import struct

from common import Tensor, accept, crc32c, f32, ramp, reject

MANIFEST, NODE = 0x0CDB3A2A, 0x0CDB20DE
DATA = "d/00112233445566778899aabbccddeeff"
NONE = 2**64 - 1
W = Tensor("dense.kernel", "f32", [5, 3], ramp(15))
B = Tensor("dense.bias", "f32", [3], f32(0.5, -1, float("nan")))
STEP = Tensor("step", "i64", [], struct.pack("<q", 7))
L = Tensor("list.0", "i8", [4], bytes([1, 255, 3, 128]))
ALL = [W, B, STEP, L]
SORTED = [B, W, STEP]  # as their keys: read alike without the tree


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def varints(*numbers):
    return b"".join(map(varint, numbers))


def zstd(data):
    """One frame of raw blocks, without a content size and with a window of 1 KiB."""
    blocks = [data[at : at + 1000] for at in range(0, len(data), 1000)] or [b""]
    out = bytes.fromhex("28b52ffd0000")
    for number, block in enumerate(blocks):
        out += struct.pack("<I", len(block) << 3 | (number == len(blocks) - 1))[:3] + block
    return out


def enveloped(magic, body, version=0, compression=0):
    body = zstd(body) if compression == 1 else body
    whole = varints(version, compression) + body
    head = struct.pack(">I", magic) + struct.pack("<Q", 12 + len(whole) + 4) + whole
    return head + struct.pack("<I", crc32c(head))


def table(paths):
    """A table of data files; a path is a pair of base and rest."""
    if not paths:
        return b"\0"
    whole = [(base + rest).encode() for base, rest in paths]
    return (varint(len(whole)) + bytes(len(whole) - 1) + varints(*map(len, whole))
            + varints(*(len(base) for base, _ in paths)) + b"".join(whole))


def columns(keys, common=None):
    """Keys without shared prefixes."""
    middle = varints(*common) if common else b""
    return varint(len(keys)) + bytes(len(keys) - 1) + varints(*map(len, keys)) + middle + b"".join(keys)


def leaf(entries, files=(("", DATA),), height=0, tail=b""):
    """Entries are pairs of a key and a value: bytes, or (file, offset, length)."""
    keys, values = zip(*entries)
    stored = [value for value in values if isinstance(value, tuple)]
    return (bytes([height]) + table(files if stored else ()) + columns(keys)
            + varints(*(value[2] if isinstance(value, tuple) else len(value) for value in values))
            + bytes(isinstance(value, tuple) for value in values)
            + varints(*(file for file, _, _ in stored)) + varints(*(offset for _, offset, _ in stored))
            + b"".join(value for value in values if not isinstance(value, tuple)) + tail)


def interior(children, height=1, files=(("", DATA),)):
    """Children are (key, bytes left out, offset, length)."""
    keys, common, offsets, lens = zip(*children)
    count = len(children)
    return (bytes([height]) + table(files) + columns(keys, common) + bytes(count) + varints(*offsets) + varints(*lens)
            + bytes([1]) * count * 2 + bytes(count))


def manifest(root, height=0, kind=0, files=(("", DATA),), tail=b"", **around):
    config = bytes(range(16)) + bytes([kind]) + varints(1024, 100_000_000) + b"\x04" + b"\x01\0\0\0\0"
    if root is None:
        return enveloped(MANIFEST, config + tail, **around)
    offset, length = root
    body = (config + table(files) + varints(1, 1) + bytes([height]) + varints(0, offset, length, 2, length, 0)
            + struct.pack("<Q", 1) + b"\0" + tail)
    return enveloped(MANIFEST, body, **around)


def zarray(tensor, chunks=None, compressor=None, **changed):
    types = {"f32": "<f4", "i64": "<i8", "i8": "|i1"}
    own = {"chunks": tensor.shape if chunks is None else chunks, "compressor": compressor, "dimension_separator": ".",
           "dtype": types[tensor.dtype], "fill_value": None, "filters": None, "order": "C", "shape": tensor.shape,
           "zarr_format": 2}
    return json.dumps({**own, **changed}, separators=(",", ":")).encode()


def zarr3(tensor, chunk, codecs, **changed):
    own = {"zarr_format": 3, "node_type": "array", "shape": tensor.shape, "data_type": "float32",
           "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
           "chunk_key_encoding": {"name": "default"}, "codecs": codecs, "fill_value": 0.0}
    return json.dumps({**own, **changed}).encode()


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def sharding(chunk, codecs, **changed):
    own = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": [LITTLE, {"name": "crc32c"}]}
    return {"name": "sharding_indexed", "configuration": {**own, **changed}}


def shard(parts):
    """A shard of these parts, of which None is not stored, with its index at the end."""
    data, index = b"", b""
    for part in parts:
        index += struct.pack("<QQ", NONE, NONE) if part is None else struct.pack("<QQ", len(data), len(part))
        data += part or b""
    return data + index + struct.pack("<I", crc32c(index))


def tree(tensors, **changed):
    """`_METADATA` of these tensors; a part of a name that is a number is a position."""
    def entry(tensor):
        keys = tensor.name.split(".") if tensor.name else []
        listed = [{"key": key, "key_type": 1 if key.isdigit() else 2} for key in keys]
        return {"key_metadata": listed, "value_metadata": {"value_type": "np.ndarray", "skip_deserialize": False}}

    own = {"tree_metadata": {tensor.name: entry(tensor) for tensor in tensors}, "use_ocdbt": True, "use_zarr3": False,
           "store_array_data_equal_to_fill_value": True, "custom_metadata": None}
    return json.dumps({**own, **changed}).encode()


def database(tensors=ALL, wrap=None, chunks=None, compression=0, inline=False, leafed=None, **rest):
    """A checkpoint with a database of one leaf. `wrap` compresses chunks, `leafed` changes the entries."""
    entries, data = {}, b""
    for tensor in tensors:
        rows = (chunks or {}).get(tensor.name)
        compressor = {"id": "zstd", "level": 1} if wrap else None
        entries[f"{tensor.name}/.zarray"] = zarray(tensor, [rows, *tensor.shape[1:]] if rows else None, compressor)
        for number, chunk in enumerate(pieces(tensor, rows)):
            chunk = wrap(chunk) if wrap else chunk
            place = ".".join([str(number)] + ["0"] * (len(tensor.shape) - 1))
            if inline:
                entries[f"{tensor.name}/{place}"] = chunk
            else:
                entries[f"{tensor.name}/{place}"] = (0, len(data), len(chunk))
                data += chunk
    entries = sorted((key.encode(), value) for key, value in entries.items())
    entries = leafed(entries) if leafed else entries
    node = enveloped(NODE, leaf(entries, **{k: v for k, v in rest.items() if k in ("files", "height", "tail")}),
                     compression=compression)
    return {"_METADATA": tree(tensors), DATA: data + node,
            "manifest.ocdbt": manifest((len(data), len(node)), compression=compression)}


def pieces(tensor, rows):
    """The chunks of a tensor that is cut along its first axis; the last one is padded."""
    if not rows:
        return [tensor.data]
    step = len(tensor.data) // tensor.shape[0] * rows
    cut = [tensor.data[at : at + step] for at in range(0, len(tensor.data), step)]
    return [piece + bytes(step - len(piece)) for piece in cut]


def two_levels():
    """An interior root over two leaves; the second leaves out what its keys begin with."""
    data = W.data
    first = enveloped(NODE, leaf([(b"a", b"not an array")]))
    second = enveloped(NODE, leaf([(b".zarray", zarray(W)), (b"0.0", (0, 0, len(W.data)))]))
    at = len(data)
    root = enveloped(NODE, interior([(b"a", 0, at, len(first)),
                                     (b"dense.kernel/.zarray", 13, at + len(first), len(second))]))
    data += first + second + root
    return {"_METADATA": tree([W]), DATA: data,
            "manifest.ocdbt": manifest((len(data) - len(root), len(root)), height=1)}


def folders(**arrays):
    """A checkpoint with arrays in folders: for each, its description and its chunks."""
    files = {f"{name}/{key}": value for name, array in arrays.items() for key, value in array.items()}
    tensors = [Tensor(name, "f32", [], b"") for name in arrays]
    return {"_METADATA": tree(tensors, use_ocdbt=False), **files}


def fortran():
    """Big-endian numbers, the first axis fastest, gzip, chunks that do not divide the shape."""
    rows = [struct.unpack_from("<3f", W.data, 12 * row) for row in range(5)]
    chunk = lambda part: struct.pack(">9f", *(part[row][column] if row < len(part) else 0 for column in range(3) for row in range(3)))
    packed = [gzip.compress(chunk(part), mtime=0) for part in (rows[:3], rows[3:])]
    described = zarray(W, [3, 3], {"id": "gzip", "level": 5}, dtype=">f4", order="F")
    return {".zarray": described, "0.0": packed[0], "1.0": packed[1]}


def shards():
    """Two shards of two rows of chunks each, the last of which is outside of the array."""
    rows = [zstd(W.data[12 * row : 12 * row + 12]) for row in range(5)]
    codecs = [sharding([1, 3], [LITTLE, {"name": "zstd", "configuration": {"level": 3, "checksum": False}}])]
    parts = {f"c/{at}/0": shard((rows + [None])[2 * at : 2 * at + 2]) for at in range(3)}
    return {"zarr.json": zarr3(W, [2, 3], codecs), **parts}


def transposed():
    """The second axis first, and a checksum of each chunk."""
    columns_first = b"".join(W.data[12 * row + 4 * column :][:4] for column in range(3) for row in range(5))
    codecs = [{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE, {"name": "crc32c"}]
    chunk = columns_first + struct.pack("<I", crc32c(columns_first))
    return {"zarr.json": zarr3(W, [5, 3], codecs), "c/0/0": chunk}


def text(value):
    return bytes([0xA0 | len(value)]) + value.encode()


def array(tensor, kind=1):
    """An array as Flax writes it."""
    names = {"f32": "float32", "i64": "int64", "i8": "int8"}
    shape = bytes([0x90 | len(tensor.shape), *tensor.shape])
    payload = b"\x93" + shape + text(names[tensor.dtype]) + bytes([0xC4, len(tensor.data)]) + tensor.data
    return bytes([0xC7, len(payload), kind]) + payload


def table_of(*pairs):
    return bytes([0x80 | len(pairs) // 2]) + b"".join(text(own) if isinstance(own, str) else own for own in pairs)


def dense(kernel=None):
    return table_of("kernel", kernel or array(W), "bias", array(B))


def chunked():
    halves = [Tensor("", "f32", [10], W.data[:40]), Tensor("", "f32", [5], W.data[40:])]
    return table_of("__msgpack_chunked_array__", b"\xc3", "shape", table_of("0", b"\5", "1", b"\3"),
                    "chunks", table_of("0", array(halves[0]), "1", array(halves[1])))


def flax(kernel=None):
    return table_of("dense", dense(kernel), "step", array(STEP, 3), "rate", b"\xcb" + struct.pack(">d", 0.1))


def called(module, name, *arguments):
    """A call of a function, in opcodes of protocol 4."""
    word = lambda value: b"\x8c" + bytes([len(value)]) + value.encode()
    return word(module) + word(name) + b"\x93(" + b"".join(arguments) + b"tR"


def number(value):
    return b"M" + struct.pack("<H", value)


def pickled_bytes(data):
    return b"B" + struct.pack("<I", len(data)) + data


def pickled_dtype(code, order="<"):
    return called("numpy", "dtype", b"\x8c\x02" + code.encode(), b"\x89\x88") + b"(K\x03\x8c\x01" + order.encode() + b"NNNtb"


def state_of(tensor, code, fortran=False):
    """The state of an array of NumPy."""
    dims = b"(" + b"".join(map(number, tensor.shape)) + b"t"
    return b"(K\x01" + dims + pickled_dtype(code) + (b"\x88" if fortran else b"\x89") + pickled_bytes(tensor.data) + b"t"


RECONSTRUCT = b"\x8c\x16numpy._core.multiarray\x8c\x0c_reconstruct\x93"
NDARRAY = b"(\x8c\x05numpy\x8c\x07ndarray\x93K\x00\x85C\x01bt"


def numpy_array(tensor, code):
    return RECONSTRUCT + NDARRAY + b"R" + state_of(tensor, code) + b"b"


def jax_array(tensor, code, function=RECONSTRUCT):
    return called("jax._src.array", "_reconstruct_array", function, NDARRAY, state_of(tensor, code), b"}\x8c\x09weak_type\x89s")


def buffered(tensor, code):
    dims = b"(" + b"".join(map(number, tensor.shape)) + b"t"
    return called("numpy._core.numeric", "_frombuffer", pickled_bytes(tensor.data), pickled_dtype(code), dims, b"\x8c\x01C")


def pickled(**entries):
    """A pickle of a dict, of values in opcodes."""
    return b"\x80\x04}(" + b"".join(b"\x8c" + bytes([len(key)]) + key.encode() + value for key, value in entries.items()) + b"u."


def pickle_of_all(step=None):
    inner = pickled(kernel=numpy_array(W, "f4"), bias=buffered(B, "f4"))[2:-1]
    return pickled(dense=inner, step=step or jax_array(STEP, "i8"), rate=b"G?\xb9\x99\x99\x99\x99\x99\x9a")


def accepted():
    yield accept("database", "a database of one leaf", database(), "", ALL)
    yield accept("database_zstd", "compressed nodes and chunks", database(wrap=zstd, compression=1), "", ALL)
    yield accept("database_sorted", "tensors in the order of their keys", database(SORTED), "", SORTED)
    inline = database(SORTED, wrap=zstd, compression=1, inline=True)
    yield accept("database_inline", "all values within a compressed node", inline, "", SORTED)
    chunks = database(SORTED, chunks={"dense.kernel": 2})
    yield accept("database_chunks", "chunks that do not divide the shape", chunks, "", SORTED)
    bare = {name: data for name, data in database().items() if name != "_METADATA"}
    yield accept("database_bare", "a database without a tree", bare, "", ALL)
    yield accept("database_levels", "an interior node; a leaf that leaves out a prefix", two_levels(), "", [W])
    only = database()
    numbered = {**only, "manifest.ocdbt": manifest(None, kind=1),
                "manifest.0000000000000001": b"an old one", "manifest.000000000000000a": only["manifest.ocdbt"]}
    yield accept("database_numbered", "numbered manifests", numbered, "", ALL)
    process = {name if name == "_METADATA" else f"ocdbt.process_0/{name}": data for name, data in only.items()}
    yield accept("unmerged", "the database of a process that was never merged", process, "", ALL)
    steps = {f"{step}/default/{name}": data for step in (9, 10) for name, data in only.items()}
    steps["11.orbax-checkpoint-tmp/default/d/x"] = b""
    yield accept("steps", "a folder of steps, of which the newest is read", steps, "", ALL)
    yield accept("step_9", "a step that is asked for", steps, "", ALL, ["step=9"])
    items = {"_CHECKPOINT_METADATA": b"{}", "meta/metadata": b'{"epoch": 3}',
             **{f"a/{name}": data for name, data in database([W]).items()},
             **{f"b/{name}": data for name, data in database([STEP]).items()}}
    renamed = [Tensor("a.dense.kernel", W.dtype, W.shape, W.data), Tensor("b.step", STEP.dtype, [], STEP.data)]
    yield accept("items", "two items with tensors, and one of JSON", items, "", renamed)
    empty = {"_METADATA": tree([]), "manifest.ocdbt": manifest((NONE, NONE), files=(("", ""),))}
    yield accept("database_empty", "a database without keys", empty, "", [])
    own = lambda tensor: [Tensor("w", tensor.dtype, tensor.shape, tensor.data)]
    yield accept("folder_fortran", "gzip, the first axis fastest, big-endian", folders(w=fortran()), "", own(W))
    yield accept("folder_shards", "shards of several chunks, one outside of the array", folders(w=shards()), "", own(W))
    yield accept("folder_transposed", "zarr 3 with a transposition and a checksum", folders(w=transposed()), "", own(W))
    placeholder = {"checkpoint": table_of("dense", table_of("kernel", "PLACEHOLDER://k", "bias", array(B))),
                   "k/.zarray": zarray(W), "k/0.0": W.data}
    yield accept("old_tree", "a tree in msgpack, with arrays in it and beside it", placeholder, "", [W, B])


def rejected():
    def bad(name, why, files, kind="corrupt"):
        return reject(name, why, files, "", kind)

    good = database()
    changed = lambda **files: {**good, **{name.replace("manifest", "manifest.ocdbt"): data for name, data in files.items()}}
    own = good["manifest.ocdbt"]
    node_at, end = sum(len(t.data) for t in ALL), len(good[DATA])
    flipped = lambda data, at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    yield bad("manifest_sum", "a byte of the manifest changed", changed(manifest=flipped(own, 30)))
    yield bad("manifest_cut", "the manifest is cut", changed(manifest=own[:40]))
    yield bad("manifest_magic", "a manifest with the magic number of a node",
              changed(manifest=enveloped(NODE, own[14:-4])))
    yield bad("manifest_version", "version 1", changed(manifest=manifest((0, 9), version=1)), "unsupported")
    yield bad("manifest_kind", "a manifest of kind 2", changed(manifest=manifest((0, 9), kind=2)), "unsupported")
    yield bad("manifest_tail", "a byte after the manifest", changed(manifest=manifest((0, 9), tail=b"\0")))
    yield bad("manifest_numbered", "numbered manifests that are missing", changed(manifest=manifest(None, kind=1)))
    yield bad("manifest_missing", "no manifest", {name: data for name, data in good.items() if name != "manifest.ocdbt"})
    yield bad("tree_high", "a tree of height 255", changed(manifest=manifest((node_at, end - node_at), height=255)), "limit")
    yield bad("tree_height", "another height than the root's", changed(manifest=manifest((node_at, end - node_at), height=1)))
    yield bad("node_sum", "a byte of the node changed", {**good, DATA: flipped(good[DATA], node_at + 40)})
    yield bad("data_missing", "the data file is missing", {name: data for name, data in good.items() if name != DATA}, "io")
    yield bad("keys_fall", "keys that do not rise", database(leafed=lambda entries: entries[::-1]))
    yield bad("key_twice", "a key that is there twice", database(leafed=lambda entries: entries + entries[-1:]))
    yield bad("node_tail", "a byte after the node", database(tail=b"\0"))
    for name, path in (("dotdot", "../x"), ("absolute", "/etc/hostname"), ("nul", "d\0x"), ("empty_part", "d//x")):
        yield bad(f"path_{name}", f"a data file '{path!r}'", database(files=(("", path),)))
    yield bad("path_base", "a base that leaves the folder", database(files=(("../", "x"),)))
    huge = lambda entries: [(key, (0, 2**62, 2**62) if isinstance(value, tuple) else value) for key, value in entries]
    yield bad("offset_overflow", "a value beyond every file", database(leafed=huge))
    past = lambda entries: [(key, (0, value[1], value[2] + 9999) if key == b"step/0" else value)
                            if isinstance(value, tuple) else (key, value) for key, value in entries]
    yield bad("value_length", "a chunk that is longer than its shape", database(leafed=past))
    lacking = lambda entries: [entry for entry in entries if entry[0] != b"dense.kernel/0.0"]
    yield bad("chunk_missing", "a chunk that is missing", database(leafed=lacking))
    undescribed = lambda entries: [entry for entry in entries if entry[0] != b"dense.kernel/.zarray"]
    yield bad("array_missing", "an array without a description", database(leafed=undescribed))
    yield bad("tree_cut", "the tree is cut", {**good, "_METADATA": good["_METADATA"][:100]})
    yield bad("tree_deep", "a tree that nests too deeply", {**good, "_METADATA": b"[" * 5000 + b"]" * 5000})
    twice = tree([W]).replace(b'"tree_metadata": {', b'"tree_metadata": {"x": {}, "x": {}, ')
    yield bad("tree_twice", "a name that is there twice in an object", {**good, "_METADATA": twice})
    one_name = json.loads(tree([W]))
    one_name["tree_metadata"]["other"] = {"key_metadata": [{"key": "dense.kernel", "key_type": 2}],
                                          "value_metadata": {"value_type": "np.ndarray"}}
    yield bad("one_name", "two leaves with one name", {**good, "_METADATA": json.dumps(one_name).encode()})
    kind = tree([W]).replace(b"np.ndarray", b"datetime")
    yield bad("leaf_kind", "a leaf of an unknown kind", {**good, "_METADATA": kind}, "unsupported")
    w = lambda described, **chunks: folders(w={".zarray": described, **(chunks or {"0.0": W.data})})
    yield bad("zarr_filters", "a filter", w(zarray(W, filters=[{"id": "delta"}])), "unsupported")
    yield bad("zarr_compressor", "an unknown compressor", w(zarray(W, compressor={"id": "bz2"})), "unsupported")
    yield bad("zarr_type", "texts", w(zarray(W, dtype="<U4")), "unsupported")
    yield bad("zarr_format", "zarr 4", w(zarray(W, zarr_format=4)), "unsupported")
    yield bad("zarr_negative", "a negative length", w(zarray(W, shape=[-5, 3])))
    yield bad("zarr_zero", "a chunk without elements", w(zarray(W, [0, 3])))
    yield bad("zarr_rank", "40 axes", w(zarray(W, [1] * 40, shape=[1] * 40)), "limit")
    yield bad("zarr_huge", "a chunk for each of 2^50 elements", w(zarray(W, [1, 1], shape=[2**25, 2**25])), "limit")
    yield bad("zarr_overflow", "more elements than 64 bits count", w(zarray(W, shape=[2**40, 2**40])))
    yield bad("zarr_chunk_bytes", "a chunk of 4 TiB", w(zarray(W, [2**40, 1], shape=[2**40, 1])), "limit")
    zipped = {"compressor": {"id": "zstd"}}
    yield bad("chunk_short", "a chunk that decodes to fewer bytes",
              folders(w={".zarray": zarray(W, **zipped), "0.0": zstd(W.data[:-4])}))
    yield bad("chunk_long", "a chunk that decodes to more bytes",
              folders(w={".zarray": zarray(W, **zipped), "0.0": zstd(W.data + b"\0")}))
    yield bad("chunk_tail", "a byte after the frame",
              folders(w={".zarray": zarray(W, **zipped), "0.0": zstd(W.data) + b"\0"}))
    v3 = lambda codecs, **rest: folders(w={"zarr.json": zarr3(W, [5, 3], codecs, **rest), "c/0/0": W.data})
    yield bad("zarr3_codec", "an unknown codec", v3([LITTLE, {"name": "encrypt"}]), "unsupported")
    yield bad("zarr3_group", "a group", v3([LITTLE], node_type="group"), "unsupported")
    yield bad("zarr3_field", "a field that must be understood", v3([LITTLE], secret={"a": 1}), "unsupported")
    yield bad("zarr3_order", "an order with an axis twice",
              v3([{"name": "transpose", "configuration": {"order": [0, 0]}}, LITTLE]))
    yield bad("shard_divides", "chunks that do not divide their shard", v3([sharding([2, 2], [LITTLE])]))
    yield bad("shard_short", "a shard that is shorter than its index", v3([sharding([1, 1], [LITTLE])]))
    deep = LITTLE
    for _ in range(8):
        deep = sharding([5, 3], [deep])
    yield bad("shard_deep", "shards within shards", v3([deep]), "limit")
    nodes = shards()
    nodes["c/0/0"] = flipped(nodes["c/0/0"], len(nodes["c/0/0"]) - 6)
    yield bad("shard_sum", "the checksum of an index", folders(w=nodes))
    crc = transposed()
    crc["c/0/0"] = flipped(crc["c/0/0"], 3)
    yield bad("chunk_sum", "the checksum of a chunk", folders(w=crc))
    escaping = tree([Tensor("w", "f32", [], b"")], use_ocdbt=False).replace(b'"key": "w"', b'"key": "../w"')
    yield bad("folder_escape", "an array outside of the folder", {"_METADATA": escaping})
    differing = {f"ocdbt.process_{number}/{name}": data for number, own in enumerate((W, Tensor(W.name, W.dtype, W.shape, ramp(15, 1))))
                 for name, data in database([own]).items() if name != "_METADATA"}
    yield bad("unmerged_differ", "two processes with two values of a key", {"_METADATA": tree([W]), **differing})
    spec = table_of("driver", "zarr", "kvstore", table_of("driver", "file", "path", "../w"))
    yield bad("spec_escape", "a folder of TensorStore outside of the checkpoint", {"checkpoint": table_of("w", spec, "b", array(B))})


class Flax:
    """The corpus of the format `flax`."""

    @staticmethod
    def accepted():
        one = lambda name, why, data: accept(name, why, {f"{name}.msgpack": data}, f"{name}.msgpack", [W, B, STEP])
        yield one("tree", "arrays, a scalar and a number", flax())
        yield one("chunked", "an array in two pieces", flax(chunked()))
        one = lambda name, why, data, tensors: accept(name, why, {f"{name}.pkl": data}, f"{name}.pkl", tensors)
        yield one("pickle", "a pickle with arrays of NumPy and of JAX", pickle_of_all(), [W, B, STEP])
        large = Tensor("w", "f32", [2000], b"".join(struct.pack("<f", i / 8) for i in range(2000)))
        data = pickled(w=numpy_array(large, "f4"), b=numpy_array(B, "f4"))
        yield one("pickle_large", "an array that is not read to open the pickle", data, [large, Tensor("b", "f32", B.shape, B.data)])

    @staticmethod
    def rejected():
        def bad(name, why, data, kind="corrupt"):
            return reject(name, why, {f"{name}.msgpack": data}, f"{name}.msgpack", kind)

        good = flax()
        yield bad("cut", "the file is cut", good[:-20])
        yield bad("tail", "a byte after the tree", good + b"\0")
        yield bad("key_twice", "a key that is there twice", table_of("a", array(W), "a", array(B)))
        yield bad("extension", "an unknown extension", table_of("a", array(W, 9)))
        yield bad("shape", "bytes that do not fill the shape",
                  table_of("a", array(Tensor("", "f32", [5, 4], W.data))))
        yield bad("type", "texts", table_of("a", array(W).replace(b"float32", b"str_256")), "unsupported")
        yield bad("count", "a map of 2^32 - 1 entries", b"\xdf\xff\xff\xff\xff" + text("a") + array(W))
        yield bad("deep", "maps within maps", table_of("a", array(B), "b", b"\x81\xa1a" * 500 + b"\xc0"), "limit")
        yield bad("piece", "an array that lacks a piece", table_of("a", chunked().replace(text("1") + array(
            Tensor("", "f32", [5], W.data[40:])), text("2") + array(Tensor("", "f32", [5], W.data[40:])))))
        yield bad("marker", "a byte that begins no value", table_of("a", b"\xc1", "b", array(B)))
        pickle = lambda name, why, data, kind="unsupported": reject(name, why, {f"{name}.pkl": data}, f"{name}.pkl", kind)
        yield pickle("pickle_call", "a pickle that calls print", pickle_of_all(called("builtins", "print", b"K\x07")))
        yield pickle("pickle_system", "a pickle that calls os.system", pickle_of_all(called("posix", "system", b"\x8c\x02ls")))
        function = b"\x8c\x08builtins\x8c\x05print\x93"
        yield pickle("pickle_jax_call", "an array of JAX that print makes", pickle_of_all(jax_array(STEP, "i8", function)))
        objects = numpy_array(Tensor("", "i64", [], b""), "O8")
        yield pickle("pickle_objects", "an array of objects", pickle_of_all(objects))
        short = jax_array(Tensor("", "i64", [], STEP.data[:7]), "i8")
        yield pickle("pickle_short", "bytes that do not fill the shape", pickle_of_all(short), "corrupt")
        yield pickle("pickle_cut", "the pickle is cut", pickle_of_all()[:-20], "corrupt")
        itself = pickled(w=numpy_array(W, "f4"), again=b"h\x00").replace(b"\x80\x04}", b"\x80\x04}q\x00")
        yield pickle("pickle_itself", "a dict that holds itself", itself, "limit")
        yield bad("placeholder", "an array that is beside the file", table_of("a", "PLACEHOLDER://a", "b", array(B)), "unsupported")
