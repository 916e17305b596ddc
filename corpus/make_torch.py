"""PyTorch checkpoints, built opcode by opcode and byte by byte, and broken ones."""

import io
import struct
import tarfile
import zlib

from common import Tensor, accept, f32, reject

STORAGES = {"f32": b"Float", "i64": b"Long", "c64": b"ComplexFloat", "bool": b"Bool", "bf16": b"BFloat16",
            "f64": b"Double", "qi8": b"QInt8", "qu8": b"QUInt8"}
BYTES = {"f32": 4, "i64": 8, "c64": 8, "bool": 1, "bf16": 2, "f64": 8, "qi8": 1, "qu8": 1}


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def integer(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    return b"J" + struct.pack("<i", value) if -(2**31) <= value < 2**31 else b"\x8a\x08" + struct.pack("<q", value)


def tuple_(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def integers(values) -> bytes:
    return tuple_(*map(integer, values))


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return f"c{module}\n{name}\n".encode() + tuple_(*arguments) + b"R"


ORDERED = call("collections", "OrderedDict")


def array(dtype: str, order: str, shape, data: bytes, fortran=False) -> bytes:
    """An array as NumPy pickles it by protocol 2, which has no bytes."""
    encoded = call("_codecs", "encode", text(data.decode("latin1")), text("latin1"))
    state = tuple_(integer(3), text(order), b"N", b"N", b"N", integer(-1), integer(-1), integer(0))
    dtype = call("numpy", "dtype", text(dtype), b"\x89", b"\x88") + state + b"b"
    made = call("numpy._core.multiarray", "_reconstruct", b"cnumpy\nndarray\n", integers([0]), text("b"))
    return made + tuple_(integer(1), integers(shape), dtype, b"\x88" if fortran else b"\x89", encoded) + b"b"


def dict_(**items: bytes) -> bytes:
    return b"}(" + b"".join(text(key) + value for key, value in items.items()) + b"u"


def storage(key: str, dtype: str, elements: int, legacy=False) -> bytes:
    view = [b"N"] if legacy else []
    parts = [text("storage"), b"ctorch\n" + STORAGES[dtype] + b"Storage\n", text(key), text("cpu"), integer(elements)]
    return tuple_(*parts, *view) + b"Q"


def tensor(key, dtype, elements, shape, strides, offset=0, legacy=False, **flags: bytes) -> bytes:
    arguments = [storage(key, dtype, elements, legacy), integer(offset), integers(shape), integers(strides), b"\x89", ORDERED]
    arguments += [dict_(**flags)] if flags else []
    return call("torch._utils", "_rebuild_tensor_v2", *arguments)


def quantized(key, dtype, elements, shape, strides, *quantizer: bytes) -> bytes:
    arguments = [storage(key, dtype, elements), integer(0), integers(shape), integers(strides), tuple_(*quantizer), b"\x89", ORDERED]
    return call("torch._utils", "_rebuild_qtensor", *arguments)


def pickle(value: bytes) -> bytes:
    return b"\x80\x02" + value + b"."


def archive(value: bytes, storages: dict[str, bytes], folder="archive", crc=True, changed=None, **extra: bytes) -> bytes:
    """As torch.save writes it, but for alignment and 64-bit records. `changed`: the member whose last byte changes."""
    members = {"data.pkl": pickle(value), "byteorder": b"little"}
    members |= {f"data/{key}": data for key, data in storages.items()} | {"version": b"3\n"} | extra
    out, directory = b"", b""
    for name, data in members.items():
        path, sum_ = f"{folder}/{name}".encode(), zlib.crc32(data) if crc else 0
        fields = struct.pack("<5H3I2H", 0, 0, 0, 0, 0, sum_, len(data), len(data), len(path), 0)
        directory += b"PK\1\2\0\0" + fields + struct.pack("<3H2I", 0, 0, 0, 0, len(out)) + path
        data = data[:-1] + bytes([data[-1] ^ 1]) if name == changed else data
        out += b"PK\3\4" + fields + path + data
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(out), 0)
    return out + directory + end


def legacy(value: bytes, storages: dict[str, tuple[str, bytes]], little=True, keys=None) -> bytes:
    """As torch.save wrote it before 1.6. `little`: what the file says of the machine; the elements are always little-endian."""
    flag = b"\x88" if little else b"\x89"
    system = dict_(protocol_version=integer(1001), little_endian=flag)
    listed = b"](" + b"".join(map(text, keys or storages)) + b"e"
    out = pickle(b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19") + pickle(integer(1001)) + pickle(system)
    out += pickle(value) + pickle(listed)
    for dtype, data in storages.values():
        out += struct.pack("<q", len(data) // BYTES[dtype]) + data
    return out


def tar(value: bytes, storages: dict[int, tuple[str, bytes]], parts=(), tensors=(), little=True) -> bytes:
    """As torch.save wrote it before 0.4. `parts`: key, storage, offset, elements; `tensors`: key, storage, shape, strides, offset."""
    data = pickle(integer(len(storages)))
    for key, (dtype, numbers) in storages.items():
        class_ = b"ctorch\n" + STORAGES[dtype] + b"Storage\n"
        data += pickle(tuple_(integer(key), text("cpu"), class_)) + struct.pack("<q", len(numbers) // BYTES[dtype]) + numbers
    data += pickle(b"](" + b"".join(integers(part) for part in parts) + b"e")
    views = pickle(integer(len(tensors)))
    for key, storage, shape, strides, offset in tensors:
        views += pickle(tuple_(integer(key), integer(storage), b"ctorch\nFloatTensor\n"))
        views += struct.pack(f"<2i{2 * len(shape) + 1}q", len(shape), 0, *shape, *strides, offset)
    system = pickle(dict_(protocol_version=integer(1000), little_endian=b"\x88" if little else b"\x89"))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, member in {"sys_info": system, "pickle": pickle(value), "tensors": views, "storages": data}.items():
            header = tarfile.TarInfo(name)
            header.size = len(member)
            archive.addfile(header, io.BytesIO(member))
    return out.getvalue()


def tar_key(key: int) -> bytes:
    return integer(key) + b"Q"


MATRIX = f32(0, 1, 2, 3, 4, 5)
W = Tensor("w", "f32", [2, 3], MATRIX)
ONE = tensor("0", "f32", 6, [2, 3], [3, 1])


def one(**changes) -> bytes:
    return archive(dict_(w=ONE), {"0": MATRIX}, **changes)


def accepted():
    def pt(name, why, data, tensors, options=()):
        return accept(name, why, {f"{name}.pt": data}, f"{name}.pt", tensors, options)

    yield pt("one", "a state dict with one tensor", one(), [W])
    numbers = struct.pack("<2q", 1, -2)
    several = dict_(
        w=ONE, n=tensor("1", "i64", 2, [2], [1]), z=tensor("2", "c64", 1, [], []), b=tensor("3", "bool", 2, [2], [1]),
        e=tensor("4", "f32", 0, [0, 3], [3, 1]), h=tensor("5", "bf16", 1, [1], [1]),
    )
    data = {"0": MATRIX, "1": numbers, "2": f32(1, 2), "3": b"\0\1", "4": b"", "5": b"\x80\x3f"}
    listed = [W, Tensor("n", "i64", [2], numbers), Tensor("z", "c64", [], f32(1, 2)), Tensor("b", "bool", [2], b"\0\1")]
    listed += [Tensor("e", "f32", [0, 3], b""), Tensor("h", "bf16", [1], b"\x80\x3f")]
    yield pt("dtypes", "several dtypes, a scalar, and no elements", archive(several, data), listed)
    views = dict_(
        base=ONE, turned=tensor("0", "f32", 6, [3, 2], [1, 3]), row=tensor("0", "f32", 6, [3], [1], 3),
        column=tensor("0", "f32", 6, [2], [3], 1), square=tensor("0", "f32", 6, [2, 2], [3, 1], 1),
        repeated=tensor("0", "f32", 6, [2, 3], [0, 1], 0), windows=tensor("0", "f32", 6, [3, 2], [2, 1], 0),
    )
    shown = [
        Tensor("base", "f32", [2, 3], MATRIX), Tensor("turned", "f32", [3, 2], f32(0, 3, 1, 4, 2, 5)),
        Tensor("row", "f32", [3], f32(3, 4, 5)), Tensor("column", "f32", [2], f32(1, 4)),
        Tensor("square", "f32", [2, 2], f32(1, 2, 4, 5)), Tensor("repeated", "f32", [2, 3], f32(0, 1, 2, 0, 1, 2)),
        Tensor("windows", "f32", [3, 2], MATRIX),
    ]
    yield pt("views", "views of one storage: turned, cut, stepped over, repeated", archive(views, {"0": MATRIX}), shown)
    signs = dict_(
        c=tensor("0", "c64", 3, [3], [1], conj=b"\x88"), turned=tensor("0", "c64", 3, [2], [2], conj=b"\x88", neg=b"\x88"),
        n=tensor("1", "f32", 2, [2], [1], neg=b"\x88"),
    )
    shown = [
        Tensor("c", "c64", [3], f32(0, -1, 2, -3, 4, -5)), Tensor("turned", "c64", [2], f32(-0.0, 1, -4, 5)),
        Tensor("n", "f32", [2], f32(-1, 2)),
    ]
    turned = archive(signs, {"0": MATRIX, "1": f32(1, -2)})
    yield pt("signs", "conjugated and negated views, whose signs are stored the other way round", turned, shown)
    nested = dict_(model=dict_(w=ONE), list=b"](" + tensor("1", "f32", 1, [1], [1]) + b"e", epoch=integer(7))
    branches = archive(nested, {"0": MATRIX, "1": f32(9)})
    both = [Tensor("model.w", "f32", [2, 3], MATRIX), Tensor("list.0", "f32", [1], f32(9))]
    yield pt("nested", "dicts and lists within a dict", branches, both)
    yield pt("branch", "one branch of these", branches, [W], ["root=model"])
    yield pt("no_checksums", "checksums of 0 are none", one(crc=False), [W])
    big = struct.pack(">6f", 0, 1, 2, 3, 4, 5)
    yield pt("big_endian", "written by a big-endian machine", archive(dict_(w=ONE), {"0": big}, byteorder=b"big"), [W])
    old = tensor("7", "f32", 6, [2, 3], [3, 1], legacy=True)
    yield pt("legacy", "the format before the zip archive", legacy(dict_(w=old), {"7": ("f32", MATRIX)}), [W])
    foreign = legacy(dict_(w=old), {"7": ("f32", MATRIX)}, little=False)
    yield pt("legacy_big_endian", "the same of a big-endian machine, which writes little-endian elements, too", foreign, [W])
    views = [(10, 1, [2, 3], [3, 1], 0), (11, 2, [2], [1], 1), (12, 1, [3, 2], [1, 3], 0)]
    oldest = dict_(w=tar_key(10), tail=tar_key(11), turned=tar_key(12), again=tar_key(10))
    listed = [W, Tensor("tail", "f32", [2], f32(4, 5)), Tensor("turned", "f32", [3, 2], f32(0, 3, 1, 4, 2, 5))]
    listed.append(Tensor("again", "f32", [2, 3], MATRIX))
    made = tar(oldest, {1: ("f32", MATRIX)}, [(2, 1, 3, 3)], views)
    yield pt("tar", "the tar archive before the old format: views, a part of a storage, a tie", made, listed)
    made = tar(dict_(w=tar_key(10)), {1: ("f32", MATRIX)}, [], views[:1], little=False)
    yield pt("tar_big_endian", "the same of a big-endian machine", made, [W])
    parameter = call("torch._utils", "_rebuild_parameter", ONE, b"\x88", ORDERED)
    linear = b"ctorch.nn.modules.linear\nLinear\n)\x81" + dict_(
        training=b"\x88", _parameters=dict_(w=parameter, bias=b"N"), _buffers=ORDERED, _modules=ORDERED,
    ) + b"b"
    yield pt("module", "a pickled module has the names of its state dict", archive(linear, {"0": MATRIX}), [W])
    cyclic = b"}q\0(" + text("w") + ONE + text("x") + b"]q\1h\1au"
    yield pt("cycle", "a list that holds itself, beside a tensor", archive(cyclic, {"0": MATRIX}), [W])
    turned = f32(0, 3, 1, 4, 2, 5)
    big = struct.pack(">6f", 0, 1, 2, 3, 4, 5)
    arrays = dict_(w=array("f4", "<", [2, 3], MATRIX), turned=array("f4", "<", [2, 3], turned, fortran=True),
                   big=array("f4", ">", [2, 3], big), bytes=array("u1", "|", [256], bytes(range(256))))
    listed = [W, Tensor("turned", "f32", [2, 3], MATRIX), Tensor("big", "f32", [2, 3], MATRIX)]
    listed.append(Tensor("bytes", "u8", [256], bytes(range(256))))
    yield pt("numpy", "arrays of NumPy within the pickle: plain, column-major, big-endian, every byte", archive(arrays, {}), listed)
    one_scale = [b"ctorch\nper_tensor_affine\n", b"G" + struct.pack(">d", 0.5), integer(3)]
    of_rows = [b"ctorch\nper_channel_affine\n", tensor("2", "f64", 2, [2], [1]), tensor("3", "i64", 2, [2], [1]), integer(0)]
    quants = dict_(q=quantized("0", "qi8", 3, [3], [1], *one_scale), rows=quantized("1", "qu8", 4, [2, 2], [2, 1], *of_rows))
    data = {"0": b"\x0a\xec\x1e", "1": b"\1\2\3\4", "2": struct.pack("<2d", 0.1, 0.25), "3": struct.pack("<2q", 0, 7)}
    listed = [Tensor("q", "i8", [3], data["0"], scales=([0.5], [3], None))]
    listed.append(Tensor("rows", "u8", [2, 2], data["1"], scales=([0.1, 0.25], [0, 7], 0)))
    yield pt("quantized", "integers with a scale and zero point, and with one for each row", archive(quants, data), listed)
    yield pt("followed", "bytes after the end of the archive", one() + b"more", [W])
    unknown = dict_(w=ONE, x=b"cmy.config\nConfig\n)\x81" + dict_(lr=integer(1)) + b"b")
    yield pt("unknown_class", "an object of an unknown class is left out", archive(unknown, {"0": MATRIX}), [W])
    bound = call("builtins", "getattr", b"cmy.model\nConv\n)\x81", text("forward_fuse"))
    yield pt("bound_method", "a bound method that nobody calls is left out", archive(dict_(w=ONE, x=bound), {"0": MATRIX}), [W])
    index = b'{"metadata": {"total_size": 28}, "weight_map": {"w": "a.bin", "v": "b.bin"}}'
    other = archive(dict_(v=tensor("0", "f32", 1, [1], [1])), {"0": f32(9)})
    files = {"pytorch_model.bin.index.json": index, "a.bin": one(), "b.bin": other}
    yield accept("set", "two files by their index", files, "pytorch_model.bin.index.json", [W, Tensor("v", "f32", [1], f32(9))])
    v = Tensor("v", "f32", [1], f32(9))
    more = archive(dict_(v=tensor("0", "f32", 1, [1], [1]), u=tensor("1", "f32", 1, [1], [1])), {"0": f32(9), "1": f32(7)})
    unlisted = files | {"b.bin": more}
    yield accept("set_unlisted", "a tensor that the index does not list", unlisted, "pytorch_model.bin.index.json",
                 [W, v, Tensor("u", "f32", [1], f32(7))])
    copied = files | {"a.bin": archive(dict_(w=ONE, v=tensor("1", "f32", 1, [1], [1])), {"0": MATRIX, "1": f32(9)})}
    yield accept("set_copy", "an equal copy of a tensor in another file", copied, "pytorch_model.bin.index.json", [W, v])


def rejected():
    def pt(name, why, data, kind="corrupt"):
        return reject(name, why, {f"{name}.pt": data}, f"{name}.pt", kind)

    def value(name, why, value, kind="corrupt"):
        return pt(name, why, archive(dict_(w=ONE, x=value), {"0": MATRIX}), kind)

    yield value("os_system", "a call of os.system", call("posix", "system", text("echo")), "unsupported")
    yield value("partial", "a call that is given os.system", call("functools", "partial", b"cposix\nsystem\n"), "unsupported")
    bound = call("builtins", "getattr", b"cmy.model\nConv\n)\x81", text("forward_fuse"))
    yield value("bound_method", "a bound method that is called", bound + b")R", "unsupported")
    yield value("extension", "an extension code", b"\x82\x01", "unsupported")
    yield value("persistent_id", "a persistent id that is no storage", text("a") + b"Q")
    yield value("unhashable_key", "a list as the key of a dict", b"}]Ns")
    yield value("no_memo", "a value that was not memoized", b"h\x09")
    yield value("sparse", "a sparse tensor", call("torch._utils", "_rebuild_sparse_tensor"), "unsupported")
    yield value("numpy_short", "an array with too few bytes", array("f4", "<", [2, 3], MATRIX[:-1]))
    yield value("numpy_text", "an array whose text has a character that is no byte",
                array("u1", "|", [3], b"abc").replace(text("abc"), text("ab\u20ac")))
    yield value("reaches_beyond", "a tensor beyond its storage", tensor("0", "f32", 6, [4], [2]))
    yield value("missing_storage", "a storage that is missing", tensor("1", "f32", 6, [6], [1]))
    yield value("other_size", "a storage of another size", tensor("0", "f32", 5, [5], [1]))
    yield value("other_rank", "more axes than strides", tensor("0", "f32", 6, [2, 3], [1]))
    yield value("negative", "a negative stride", tensor("0", "f32", 6, [2], [-1]))
    yield value("too_large", "more elements than can be counted", tensor("0", "f32", 6, [2**40, 2**40], [0, 0]))
    yield value("repeated", "one number repeated 2^40 times", tensor("0", "f32", 6, [2**40], [0]), "unsupported")
    yield value("deep", "a tensor below 1000 dicts", b"}" + (text("a") + b"}") * 999 + text("a") + ONE + b"s" * 1000, "limit")
    yield pt("cycle", "a dict that holds itself", archive(b"}q\0(" + text("w") + ONE + text("x") + b"h\0u", {"0": MATRIX}))
    bomb = b"}" + text("t") + ONE + b"s" + b"".join(b"q%c0}(Kah%cKbh%cu" % (n, n, n) for n in range(40))
    yield pt("names_without_end", "a dict in a dict twice, 40 times", archive(bomb, {"0": MATRIX}), "limit")
    yield pt("same_name", "two tensors of one name", archive(b"}(" + text("a.b") + ONE + text("a") + dict_(b=ONE) + b"u", {"0": MATRIX}),
             "unsupported")
    yield pt("changed_storage", "a byte of a storage changed", one(changed="data/0"))
    yield pt("changed_pickle", "a byte of the pickle changed", one(changed="data.pkl"))
    yield pt("byte_order", "an unknown byte order", one(byteorder=b"middle"))
    yield pt("version", "an unknown version", one(version=b"11\n"), "unsupported")
    yield pt("no_stop", "a pickle that does not end", archive(dict_(w=ONE), {"0": MATRIX}).replace(b"u.", b"u0"))
    yield pt("plain_pickle", "a pickle that torch.save did not write", pickle(dict_(w=integer(1))), "unsupported")
    old = tensor("7", "f32", 6, [2, 3], [3, 1], legacy=True)
    good = legacy(dict_(w=old), {"7": ("f32", MATRIX)})
    yield pt("legacy_cut", "the old format, cut", good[:-1])
    yield pt("legacy_longer", "the old format, with bytes after its end", good + b"\0")
    yield pt("legacy_unknown_key", "a storage that nothing refers to", legacy(dict_(w=old), {"7": ("f32", MATRIX)}, keys=["8"]))
    views = [(10, 1, [2, 3], [3, 1], 0)]
    oldest = tar(dict_(w=tar_key(10)), {1: ("f32", MATRIX)}, [], views)
    yield pt("tar_cut", "a tar archive, cut within a storage", oldest[: oldest.rindex(MATRIX) + 4])
    yield pt("tar_header", "a tar archive, with a changed header", oldest.replace(b"tensors\0", b"tensorz\0"))
    yield pt("tar_unknown_key", "a tensor that the tar archive lacks", tar(dict_(w=tar_key(11)), {1: ("f32", MATRIX)}, [], views))
    yield pt("tar_missing_storage", "a storage that the tar archive lacks", tar(dict_(w=tar_key(10)), {}, [], views))
    beyond = [(10, 1, [2, 3], [3, 2], 0)]
    yield pt("tar_reaches_beyond", "a tensor beyond its storage", tar(dict_(w=tar_key(10)), {1: ("f32", MATRIX)}, [], beyond))
    index = b'{"weight_map": {"w": "a.bin", "v": "a.bin"}}'
    files = {"pytorch_model.bin.index.json": index, "a.bin": one()}
    yield reject("set_lacks", "a tensor that its file lacks", files, "pytorch_model.bin.index.json")
    index = b'{"weight_map": {"w": "a.bin", "v": "b.bin"}}'
    copies = [archive(dict_(w=ONE, v=tensor("1", "f32", 1, [1], [1])), {"0": MATRIX, "1": f32(8)}),
              archive(dict_(v=tensor("0", "f32", 1, [1], [1])), {"0": f32(9)})]
    files = {"pytorch_model.bin.index.json": index, "a.bin": copies[0], "b.bin": copies[1]}
    yield reject("set_other_copy", "a copy of a tensor with other values in another file", files, "pytorch_model.bin.index.json")
    escape = {"pytorch_model.bin.index.json": b'{"weight_map": {"w": "../a.bin"}}', "a.bin": one()}
    yield reject("set_escapes", "a file outside of the directory", escape, "pytorch_model.bin.index.json")
