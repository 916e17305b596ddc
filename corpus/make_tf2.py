"""TensorFlow v2 checkpoints, and broken ones."""

import struct

from bundle import (
    DTYPES, HEADER, Bundle, block_contents, entry_proto, fixed32, footer, header_proto, message, number, sealed,
    shape_proto, slice_key, string_bytes, table, tail, varint,
)
from common import Tensor, accept, crc32c, f32, masked, ramp, reject

DATA = "m.data-00000-of-00001"
SIZES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8_e5m2": 1, "f8_e4m3": 1, "f8_e4m3fnuz": 1, "f8_e4m3b11fnuz": 1,
    "f8_e5m2fnuz": 1, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1, "qint32": 4,
    "qint16": 2, "qint8": 1, "quint16": 2, "quint8": 1, "c64": 8, "c128": 16, "i4": 1, "u4": 1, "i2": 1, "u2": 1,
    "f4_e2m1": 1,
}
KERNEL = Tensor("dense/kernel", "f32", [3, 2], ramp(6))
BIAS = Tensor("dense/bias", "f32", [2], f32(0.25, -4))
STEP = Tensor("global_step", "i64", [], struct.pack("<q", 1234))
BASIC = [KERNEL, BIAS, STEP]
CONSTANT = Tensor("dense/constant", "f32", [3, 2], f32(1, -2, 3, -4, 5, -6))
# Of two floats and of none, as TensorFlow 2.21.0 stores lists of tensors.
LISTS = Tensor("list", "variant", [2], [
    bytes.fromhex("0a1674656e736f72666c6f773a3a54656e736f724c697374120c0001ffffffffffffffffff01"
                  "1a0a080112002a040000803f1a0a080112002a0400000040"),
    bytes.fromhex("0a1674656e736f72666c6f773a3a54656e736f724c697374120700010312020802"),
])


def bundle(tensors=BASIC, **options) -> Bundle:
    out = Bundle(**options)
    for tensor in tensors:
        if isinstance(tensor.data, bytes):
            out.add(tensor.name, tensor.dtype, tensor.shape, tensor.data)
        else:
            out.add_elements(tensor.name, tensor.dtype, tensor.shape, tensor.data)
    return out


def state(path: str) -> dict[str, bytes]:
    text = f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'
    return {"checkpoint": text.encode()}


def every_dtype() -> list[Tensor]:
    out = [Tensor(f"of_{dtype}", dtype, [3], bytes(range(1, 1 + 3 * size))) for dtype, size in SIZES.items()]
    for tensor in out:
        if tensor.dtype in ("i4", "u4", "i2", "u2", "f4_e2m1"):
            tensor.data = b"\0\1\1"
    return [*out, Tensor("of_bool", "bool", [3], b"\0\1\0")]


def object_graph() -> bytes:
    """root → model → dense → kernel and bias, with full names."""

    def child(node: int, name: str) -> bytes:
        return message(1, number(1, node) + message(2, name.encode()))

    def variable(full_name: str, key: str) -> bytes:
        attribute = message(1, b"VARIABLE_VALUE") + message(2, full_name.encode()) + message(3, key.encode())
        return message(2, attribute)

    nodes = [
        child(1, "model"),
        child(2, "layer-0"),
        child(3, "kernel") + child(4, "bias"),
        variable("mlp/dense/kernel", "model/layer-0/kernel/.ATTRIBUTES/VARIABLE_VALUE"),
        variable("mlp/dense/bias", "model/layer-0/bias/.ATTRIBUTES/VARIABLE_VALUE"),
    ]
    return b"".join(message(1, node) for node in nodes)


def with_graph(names: tuple[str, str]) -> list[Tensor]:
    graph = Tensor("_CHECKPOINTABLE_OBJECT_GRAPH", "string", [], [object_graph()])
    return [Tensor(names[0], "f32", [3, 2], KERNEL.data), Tensor(names[1], "f32", [2], BIAS.data), graph]


def text(tag: int, value: str) -> bytes:
    return message(tag, value.encode())


def operation(name: str, op: str, *inputs: str, attributes: bytes = b"", tag: int = 3) -> bytes:
    """A node of a function, or with the tag 1 one of a graph."""
    return message(tag, text(1, name) + text(2, op) + b"".join(text(3, name) for name in inputs) + attributes)


def served(nodes: bytes, result: str) -> bytes:
    """Serves the function `f` of x, to which the variables model/layer-0/kernel and bias are bound as k and b."""

    def child(id: int, name: str) -> bytes:
        return message(1, number(1, id) + text(2, name))

    signature = text(1, "f") + b"".join(message(2, text(1, name)) for name in ("x", "k", "b")) + message(3, text(1, "out"))
    function = message(1, signature) + nodes + message(4, text(1, "out") + text(2, result))
    objects = [
        child(1, "model") + child(5, "signatures"), child(2, "layer-0"), child(3, "kernel") + child(4, "bias"),
        message(7, b""), message(7, b""), child(6, "serving_default"), message(8, text(1, "f")),
    ]
    bound = message(2, text(1, "f") + message(2, message(2, varint(3) + varint(4))))
    graph = message(2, message(2, message(1, function)))
    return message(2, graph + message(7, b"".join(message(1, object) for object in objects) + bound))


def saved_model() -> bytes:
    """Serves `x · kernel + bias`."""
    nodes = operation("rk", "ReadVariableOp", "k") + operation("rb", "ReadVariableOp", "b")
    nodes += operation("m", "MatMul", "x", "rk:value:0") + operation("a", "BiasAdd", "m:product:0", "rb:value:0")
    return served(nodes, "a:output:0")


def constant_kernel() -> bytes:
    """Serves `x · constant + bias`; the constant is in the function."""
    nodes = constant() + operation("rb", "ReadVariableOp", "b") + operation("m", "MatMul", "x", f"{CONSTANT.name}:output:0")
    return served(nodes + operation("a", "BiasAdd", "m:product:0", "rb:value:0"), "a:output:0")


def constant(tag: int = 3) -> bytes:
    shape = b"".join(message(2, number(1, length)) for length in CONSTANT.shape)
    tensor = number(1, 1) + message(2, shape) + message(4, CONSTANT.data)
    value = message(5, text(1, "value") + message(2, message(8, tensor)))
    return operation(CONSTANT.name, "Const", attributes=value, tag=tag)


def without_variables() -> bytes:
    """Serves `x · constant`, of a model that has nothing else, as TensorFlow 1 states it."""
    shape = message(2, number(1, 2**64 - 1)) + message(2, number(1, CONSTANT.shape[0]))
    stated = message(5, text(1, "shape") + message(2, message(7, shape)))
    nodes = operation("x", "Placeholder", attributes=stated, tag=1) + constant(1)
    nodes += operation("m", "MatMul", "x", CONSTANT.name, tag=1)
    signature = message(1, text(1, "x") + message(2, text(1, "x:0") + message(3, shape)))
    signature += message(2, text(1, "y") + message(2, text(1, "m:0")))
    return number(1, 1) + message(2, message(2, nodes) + message(5, text(1, "serving_default") + message(2, signature)))


def endless_calls() -> bytes:
    """Serves a function that calls itself."""
    itself = message(5, text(1, "f") + message(2, message(10, text(1, "f"))))
    return served(operation("c", "StatefulPartitionedCall", "x", "k", "b", attributes=itself), "c:output:0")


def endless_models() -> bytes:
    """A model whose list of layers holds the model itself, twice."""
    child = lambda node, name: message(1, number(1, node) + message(2, name))
    nodes = [child(1, b"_functional"), child(2, b"_operations"), child(0, b"0") + child(0, b"1")]
    return b"".join(message(1, node) for node in nodes)


def bundles() -> dict[str, Bundle]:
    """Checkpoints of one index block and short values: what the fuzzer of entries begins with."""
    texts = [Tensor("texts", "string", [2, 2], [b"", b"a", b"\xff\x00" * 9, "ü".encode()]), Tensor("none", "string", [0], [])]
    rows = [([(0, 1), (0, -1)], KERNEL.data[:8]), ([(1, 2), (0, -1)], KERNEL.data[8:])]
    keys = tuple(f"model/layer-0/{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in ("kernel", "bias"))
    return {
        "basic": bundle(),
        "every_dtype": bundle(every_dtype()),
        "texts": bundle(texts),
        "variant": bundle([LISTS]),
        "slices": Bundle().add_slices("dense/kernel", "f32", [3, 2], rows),
        "object_graph": bundle(with_graph(keys)),
    }


def accepted():
    def case(name, why, files, tensors, entry="m", options=()):
        return accept(name, why, files, entry, tensors, options)

    plain = bundle().files()
    yield case("basic", "three tensors, one shard, named by the prefix", plain, BASIC)
    yield case("named_by_index", "named by the index file", plain, BASIC, "m.index")
    yield case("named_by_data", "named by a data file", plain, BASIC, DATA)
    yield case("named_by_state", "named by the state file", plain | state("m"), BASIC, "checkpoint")
    yield case("directory", "named by the directory; the state file has another machine's path",
               plain | state("/home/someone/m"), BASIC, "")
    yield case("empty_prefix", "a prefix without a letter, as in tf.train.Checkpoint().write('directory/')",
               {name.removeprefix("m"): data for name, data in plain.items()}, BASIC, "")
    yield case("state_stale", "the state file names a checkpoint that is gone", plain | state("model.ckpt-500"), BASIC, "")
    yield case("no_tensors", "a header, no tensor, no data file", {"m.index": table([(b"", HEADER)])}, [])
    every = every_dtype()
    yield case("every_dtype", "every dtype of fixed size", bundle(every).files(), every)
    texts = [Tensor("texts", "string", [2, 2], [b"", b"a", b"\xff\x00" * 100, "ü".encode()]),
             Tensor("none", "string", [0], []), Tensor("one", "string", [], [b"x" * 300])]
    yield case("strings", "strings, empty ones, and none at all", bundle(texts).files(), texts)
    yield case("variant", "variants are opaque bytes", bundle([LISTS]).files(), [LISTS])
    none = [Tensor("none", "variant", [2, 0], [])]
    yield case("variant_none", "no variants, in a data file without bytes", bundle(none).files(), none)
    shapes = [Tensor("empty", "f32", [0, 1618], b""), Tensor("deep", "u8", [1] * 7 + [2], b"ab"),
              Tensor("scalar", "f16", [], b"\0\x3c")]
    yield case("shapes", "an empty tensor, eight dimensions, a scalar", bundle(shapes).files(), shapes)
    many = [Tensor(f"layer_{n:03}/kernel", "u8", [1], bytes([n])) for n in range(120)]
    yield case("many_blocks", "an index of many blocks", bundle(many).files(block_size=256), many)
    yield case("snappy", "compressed blocks", bundle(many).files(block_size=1024, compress=True), many)
    yield case("restart_interval_1", "no shared prefixes", bundle(many).files(interval=1), many)
    two = Bundle(2, header=header_proto(2))
    two.add("dense/kernel", "f32", [3, 2], KERNEL.data, 1).add("dense/bias", "f32", [2], BIAS.data, 0)
    yield case("two_shards", "tensors in two data files", two.files(), [KERNEL, BIAS])
    unused = Bundle(2, header=header_proto(2)).add("dense/bias", "f32", [2], BIAS.data, 1).files()
    del unused["m.data-00000-of-00002"]
    yield case("unused_shard_missing", "a data file that no tensor uses is missing", unused, [BIAS])
    rows = [([(0, 1), (0, -1)], KERNEL.data[:8]), ([(1, 2), (0, -1)], KERNEL.data[8:])]
    sliced = Bundle().add_slices("dense/kernel", "f32", [3, 2], rows)
    yield case("slices", "a variable in two slices of rows", sliced.files(), [KERNEL])
    grid = Tensor("part", "u8", [70, 4], bytes(range(140)) * 2)
    left = b"".join(grid.data[4 * row : 4 * row + 3] for row in range(70))
    right = bytes(grid.data[4 * row + 3] for row in range(70))
    columns = [([(0, 70), (0, 3)], left), ([(0, 70), (3, 1)], right)]
    yield case("slices_spelled_out", "slices of columns whose full dimension is written as an extent",
               Bundle().add_slices("part", "u8", [70, 4], columns).files(), [grid])
    half = Tensor("half\0name", "f16", [2], b"\1\2\3\4")
    halves = [([(0, 1)], b"\1\2"), ([(1, 1)], b"\3\4")]
    yield case("slices_of_halves", "slices of a dtype that TensorFlow cannot reassemble, an escaped name",
               Bundle().add_slices(half.name, "f16", [2], halves).files(), [half])
    big = Bundle(header=header_proto(endian=1))
    big.add("numbers", "f32", [2], struct.pack(">2f", 1.5, -2)).add("complex", "c64", [1], struct.pack(">2f", 3, 4))
    big.add_elements("texts", "string", [1], [b"big"], ">")
    yield case("big_endian", "the other byte order", big.files(), [
        Tensor("numbers", "f32", [2], f32(1.5, -2)), Tensor("complex", "c64", [1], f32(3, 4)),
        Tensor("texts", "string", [1], [b"big"])])
    yield case("aligned", "data aligned to 42 bytes", bundle(align=42).files(), BASIC)
    trailing = dict(plain)
    trailing[DATA] += b"unused"
    yield case("trailing_data", "bytes that no tensor uses", trailing, BASIC)
    shared = Bundle().add("a", "u8", [2], b"xy")
    shared.entries[b"b"] = shared.entries[b"a"]
    yield case("shared_data", "two tensors of the same bytes", shared.files(),
               [Tensor("a", "u8", [2], b"xy"), Tensor("b", "u8", [2], b"xy")])
    yield case("no_version", "a header without a version", bundle(header=header_proto(version=None)).files(), BASIC)
    unknown = bundle()
    unknown.entries = {key: value + message(99, b"?") + number(98, 7) for key, value in unknown.entries.items()}
    yield case("unknown_fields", "fields that are unknown", unknown.files(), BASIC)
    yield case("no_metaindex", "no metaindex block", bundle().files(meta=False), BASIC)
    raw = Bundle().add("x", "u8", [1], b"x")
    raw.entries = {b"a\\\xc3(": raw.entries[b"x"]}
    yield case("name_not_utf8", "a name that is no UTF-8 is escaped, and so is its backslash", raw.files(),
               [Tensor(r"a\\\xc3(", "u8", [1], b"x")])
    keys = tuple(f"model/layer-0/{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in ("kernel", "bias"))
    graph = bundle(with_graph(keys)).files()
    yield case("object_graph", "names from the object graph", graph,
               with_graph(("mlp/dense/kernel", "mlp/dense/bias")))
    endless = Tensor("_CHECKPOINTABLE_OBJECT_GRAPH", "string", [], [endless_models()])
    yield case("object_graph_endless", "models that hold each other", bundle([endless]).files(), [endless])
    named = with_graph(("mlp/dense/kernel", "mlp/dense/bias"))
    inside = bundle(with_graph(keys)).files("variables/variables")
    for name, why, model in [
        ("saved_model", "a SavedModel", saved_model()),
        ("saved_model_cut", "half of what a SavedModel says", saved_model()[:200]),
        ("saved_model_endless", "a SavedModel whose function calls itself", endless_calls()),
    ]:
        yield case(name, why, inside | {"saved_model.pb": model}, named, "saved_model.pb")
    yield case("saved_model_constant", "a SavedModel whose kernel is a constant of the graph",
               inside | {"saved_model.pb": constant_kernel()}, named + [CONSTANT], "saved_model.pb")
    yield case("saved_model_alone", "a SavedModel of constants, without variables", {"saved_model.pb": without_variables()},
               [CONSTANT], "")
    yield case("object_graph_keys", "an object graph, and keys = true", graph, with_graph(keys), options=["keys=true"])


def rejected():
    yield from broken_tables()
    yield from broken_entries()
    yield from broken_values()


def case(name, why, files, kind="corrupt", entry="m.index"):
    return reject(name, why, files, entry, kind)


def broken_tables():
    good = bundle().files()
    index, data = good["m.index"], {DATA: good[DATA]}

    def of(name, why, index, kind="corrupt"):
        return case(name, why, data | {"m.index": index}, kind)

    yield of("empty", "no byte at all", b"")
    yield of("index_47_bytes", "less than a footer", index[-47:])
    yield of("bad_magic", "another magic number", index[:-1] + b"\0")
    yield of("footer_garbage", "handles that are no numbers", index[:-48] + footer(b"\xff" * 40))
    yield of("index_past_end", "an index block after the file's end",
             index[:-48] + footer(varint(0) + varint(8) + varint(2**40) + varint(100)))
    contents = block_contents([(b"", varint(0) + varint(1000))], 1)
    yield of("block_past_end", "a block that ends after the file", sealed(contents) + footer(varint(0) + varint(0) + varint(0)
             + varint(len(contents))))
    contents = block_contents(bundle().sorted())
    block = sealed(contents)
    handle = [(b"z", varint(0) + varint(len(contents)))]

    def one_block(contents: bytes, kind=0) -> bytes:
        block = sealed(contents, kind)
        return block + tail(len(block), [(b"z", varint(0) + varint(len(contents)))])

    flipped = bytes([block[0], block[1] ^ 1]) + block[2:]
    yield of("block_checksum", "a bit of a block is flipped", flipped + tail(len(block), handle))
    yield of("index_block_checksum", "a bit of the index block is flipped",
             index[:-54] + bytes([index[-54] ^ 1]) + index[-53:])
    yield of("block_type_7", "a compression that is unknown", one_block(contents, 7), "unsupported")
    yield of("block_of_3_bytes", "a block without room for its restarts", one_block(b"\0\0\0"))
    yield of("restarts_past_start", "more restarts than the block has bytes",
             one_block(contents[:-4] + struct.pack("<I", 2**30)))
    yield of("snappy_bomb", "a compressed block that claims 4 GiB", one_block(varint(2**32 - 1) + b"\0a", 1))
    yield of("snappy_copy_before_start", "a copy from before the output", one_block(varint(8) + b"\0a\x0d\x09", 1))
    yield of("snappy_cut", "compressed data that ends early", one_block(varint(100) + b"\x00a", 1))
    restarts = struct.pack("<II", 0, 1)
    header = varint(0) + varint(0) + varint(len(HEADER)) + HEADER
    yield of("shared_beyond_previous", "a shared prefix longer than the key before",
             one_block(header + varint(5) + varint(1) + varint(0) + b"a" + restarts))
    yield of("value_past_block", "a value that ends after its block",
             one_block(header + varint(0) + varint(1) + varint(1000) + b"a" + restarts))
    entry = entry_proto(DTYPES["u8"], [1], 0, 0, 1, masked(crc32c(data[DATA][:1])))
    yield of("key_twice", "the same key twice", table([(b"", HEADER), (b"a", entry), (b"a", entry)]))
    yield of("keys_unsorted", "keys out of order", table([(b"", HEADER), (b"b", entry), (b"a", entry)]))
    yield of("no_entries", "a table without entries", table([]))
    yield of("no_header", "no header", table([(b"a", entry)]))
    yield of("header_garbage", "a header that is no protocol buffer", table([(b"", b"\xff\xff"), (b"a", entry)]))
    yield of("min_consumer_2", "a version that needs a newer reader",
             table([(b"", number(1, 1) + message(3, number(1, 2) + number(2, 2))), (b"a", entry)]), "unsupported")
    yield of("bad_consumer", "a version that forbids this reader",
             table([(b"", number(1, 1) + message(3, number(1, 1) + message(3, b"\1"))), (b"a", entry)]), "unsupported")
    yield of("shards_negative", "a negative number of shards", table([(b"", number(1, -1)), (b"a", entry)]))


def broken_entries():
    """What TensorFlow does not survive is not here: codecs/tf2 tests those entries in memory."""

    def entry(name, why, value: bytes, kind="corrupt", data=b"12345678"):
        index = table([(b"", HEADER), (b"x", value)])
        return case(name, why, {"m.index": index, DATA: data}, kind)

    f32_, crc = DTYPES["f32"], masked(crc32c(b"12345678"))
    yield entry("dtype_0", "no dtype", entry_proto(0, [2], 0, 0, 8, crc))
    yield entry("dtype_99", "a dtype that does not exist", entry_proto(99, [2], 0, 0, 8, crc), "unsupported")
    yield entry("dtype_resource", "a dtype without values", entry_proto(20, [2], 0, 0, 8, crc), "unsupported")
    yield entry("shape_overflow_empty", "an overflow hidden behind an empty dimension",
                entry_proto(f32_, [0, 2**62, 2**62], 0, 0, 0, masked(crc32c(b""))))
    rank = number(1, f32_) + message(2, shape_proto([2]) + number(3, 1)) + number(5, 8) + fixed32(6, crc)
    yield entry("rank_unknown", "a shape that says it is unknown", rank)
    yield entry("shard_1_of_1", "a shard that does not exist", entry_proto(f32_, [2], 1, 0, 8, crc))
    yield entry("shard_negative", "a negative shard", entry_proto(f32_, [2], -1, 0, 8, crc))
    yield entry("offset_negative", "a negative offset", entry_proto(f32_, [2], 0, -8, 8, crc))
    yield entry("offset_past_end", "an offset after the file's end", entry_proto(f32_, [2], 0, 4, 8, crc))
    yield entry("offset_huge", "an offset near 2^63", entry_proto(f32_, [2], 0, 2**63 - 8, 8, crc))
    yield entry("size_negative", "a negative size", entry_proto(f32_, [2], 0, 0, -8, crc))
    yield entry("size_small", "a size below the shape's", entry_proto(f32_, [2], 0, 0, 4, crc))
    yield entry("size_large", "a size above the shape's", entry_proto(f32_, [1], 0, 0, 8, crc))
    yield entry("checksum", "another checksum", entry_proto(f32_, [2], 0, 0, 8, crc ^ 1))
    yield entry("checksum_unmasked", "the checksum without its mask", entry_proto(f32_, [2], 0, 0, 8, crc32c(b"12345678")))

    def sliced(name, why, full, stored):
        entries = [(b"", HEADER), (b"v", full), *sorted(stored)]
        return case(name, why, {"m.index": table(sorted(entries)), DATA: b"12345678"})

    u8 = DTYPES["u8"]
    boxes = [[(0, 4)], [(4, 4)]]
    full = entry_proto(u8, [8], slices=boxes)
    halves = [(slice_key("v", box), entry_proto(u8, [4], 0, box[0][0], 4, masked(crc32c(part))))
              for box, part in zip(boxes, (b"1234", b"5678"))]
    yield sliced("slice_missing", "a slice that is not there", full, halves[:1])
    yield sliced("slices_leave_a_hole", "slices that do not cover", entry_proto(u8, [8], slices=boxes[:1]), halves[:1])
    overlap = [[(0, 4)], [(2, 4)], [(6, 2)]]
    stored = [(slice_key("v", box), entry_proto(u8, [box[0][1]], 0, 0, box[0][1], masked(crc32c(b"12345678"[: box[0][1]]))))
              for box in overlap]
    yield sliced("slices_overlap", "slices that overlap", entry_proto(u8, [8], slices=overlap), stored)
    yield sliced("slice_outside", "a slice beyond the shape", entry_proto(u8, [6], slices=boxes), halves)
    yield sliced("slice_of_another_rank", "a slice of two dimensions of a vector",
                 entry_proto(u8, [8], slices=[[(0, 4), (0, 1)], [(4, 4), (0, 1)]]), halves)
    other = [halves[0], (halves[1][0], entry_proto(u8, [2], 0, 4, 2, masked(crc32c(b"56"))))]
    yield sliced("slice_of_another_shape", "a slice whose stored shape is not its extent", full, other)


def broken_values():
    good = bundle().files()
    index, data = good["m.index"], good[DATA]
    yield case("data_cut", "the data ends early", {"m.index": index, DATA: data[:-1]})
    yield case("data_flipped", "a bit of the data is flipped", {"m.index": index, DATA: bytes([data[0] ^ 4]) + data[1:]})
    yield case("data_missing", "no data file", {"m.index": index}, "io")
    yield case("index_missing", "no index file", {DATA: data}, "io", DATA)
    two = Bundle(2, header=header_proto(2)).add("x", "u8", [1], b"x", 1).files()
    del two["m.data-00001-of-00002"]
    yield case("shard_missing", "the data file that a tensor needs is missing", two, "io")
    away = {DATA: data} | state("../../etc/passwd")
    yield case("state_leaves", "a state file that points out of its directory, at nothing here", away, entry="checkpoint")

    def texts(name, why, stored: bytes, crc: int, shape=(2,)):
        value = entry_proto(DTYPES["string"], list(shape), 0, 0, len(stored), crc)
        return case(name, why, {"m.index": table([(b"", HEADER), (b"s", value)]), DATA: stored})

    stored, crc = string_bytes([b"ab", b"cde"])
    yield texts("string_flipped", "a letter is flipped", stored[:-1] + b"f", crc)
    yield texts("string_length_checksum", "the lengths' checksum is another", stored[:3] + b"\0" + stored[4:], crc)
    yield texts("string_length_flipped", "a length is flipped", b"\3\2" + stored[2:], crc)
    yield texts("string_length_huge", "a length of 2^62", varint(2**62) + stored[1:], crc)
    yield texts("string_past_end", "lengths beyond the size", b"\2\x7f" + stored[2:], crc)
    yield texts("string_size_short", "a size below the lengths", stored[:-1], crc)
    yield texts("string_elements", "twelve elements in 11 bytes", stored, crc, (12,))
    variant = entry_proto(DTYPES["variant"], [1], 0, 0, 7, 5)
    yield case("variant_garbage", "a variant that is cut",
               {"m.index": table([(b"", HEADER), (b"v", variant)]), DATA: b"\x7fabcdef"})
