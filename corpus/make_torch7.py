"""Files of Torch7, binary and ASCII, and broken ones. `Writer` writes what torch.save of Lua writes: facts of File.lua and of
the tensors' own `write`."""

import struct

from common import Tensor as Expected
from common import accept, reject

# Class, dtype, letter of struct; None is a long, as wide as the writer's.
ELEMENTS = {
    "Byte": ("u8", "B"), "Char": ("i8", "b"), "Short": ("i16", "h"), "Int": ("i32", "i"), "Long": ("i64", None),
    "Half": ("f16", "e"), "Float": ("f32", "f"), "Double": ("f64", "d"),
}


class Storage:
    def __init__(self, element: str, values, device=False):
        self.element, self.values, self.device = element, list(values), device

    def name(self, kind: str) -> str:
        if self.device:
            return f"torch.Cuda{'' if self.element == 'Float' else self.element}{kind}"
        return f"torch.{self.element}{kind}"


class Tensor:
    """A view of a storage: strides and the offset, from 0 on, are in elements."""

    def __init__(self, storage, shape, strides=None, offset=0):
        self.storage, self.shape, self.offset = storage, list(shape), offset
        self.strides = list(strides) if strides is not None else row_major(shape)


class Module:
    """An object with a class; `fields` is the table of what it has."""

    def __init__(self, kind: str, **fields):
        self.kind, self.fields = kind, fields


class Function:
    def __init__(self, code: bytes, upvalues=None, kind=8):
        self.code, self.upvalues, self.kind = code, upvalues, kind


def row_major(shape) -> list[int]:
    strides, step = [], 1
    for length in reversed(list(shape)):
        strides.insert(0, step)
        step *= length
    return strides


class Writer:
    """`long` is the number of bytes of a long; `versions` is False for files of before 2012."""

    def __init__(self, ascii=False, long=8, versions=True):
        self.ascii, self.long_bytes, self.versions = ascii, long, versions
        self.out, self.numbers, self.kept = [], {}, []

    def put(self, letter: str, *values):
        if not self.ascii:
            self.out.append(struct.pack(f"<{len(values)}{letter}", *values))
        elif values:
            show = {"f": "%.9g", "e": "%.9g", "d": "%.17g"}.get(letter, "%d")
            self.out.append(" ".join(show % value for value in values).encode() + b"\n")

    def int(self, value: int):
        self.put("i", value)

    def longs(self, *values):
        self.put("q" if self.long_bytes == 8 else "i", *values)

    def text(self, text):
        data = text.encode() if isinstance(text, str) else text
        self.int(len(data))
        self.raw(data)

    def raw(self, data: bytes):
        self.out.append(data + (b"\n" if self.ascii and data else b""))

    def kind(self, name: str):
        if self.versions:
            self.text("V 1")
        self.text(name)

    def begin(self, tag: int, value) -> bool:
        """Writes the number of an object; returns whether it is new."""
        self.int(tag)
        known = id(value) in self.numbers
        if not known:
            self.numbers[id(value)] = len(self.numbers) + 1
            self.kept.append(value)
        self.int(self.numbers[id(value)])
        return not known

    def write(self, value):
        if value is None:
            self.int(0)
        elif isinstance(value, bool):
            self.int(5)
            self.int(int(value))
        elif isinstance(value, (int, float)):
            self.int(1)
            self.put("d", value)
        elif isinstance(value, (str, bytes)):
            self.int(2)
            self.text(value)
        elif isinstance(value, Function):
            if value.kind == 6:
                self.int(6)
            elif not self.begin(value.kind, value):
                return
            self.text(value.code)
            self.write(value.upvalues)
        elif isinstance(value, (dict, list)):
            if self.begin(3, value):
                self.table(value.items() if isinstance(value, dict) else enumerate(value, 1), len(value))
        elif self.begin(4, value):
            if isinstance(value, Storage):
                self.kind(value.name("Storage"))
                self.storage(value)
            elif isinstance(value, Tensor):
                self.tensor(value)
            else:
                self.kind(value.kind)
                # torch.save makes a new table of the fields.
                fields = dict(value.fields)
                self.write(fields)

    def table(self, pairs, size: int):
        self.int(size)
        for key, value in pairs:
            self.write(key)
            self.write(value)

    def storage(self, storage):
        letter = ELEMENTS[storage.element][1]
        self.longs(len(storage.values))
        if letter is None:
            self.longs(*storage.values)
        elif self.ascii and letter in "bB":
            self.raw(struct.pack(f"{len(storage.values)}{letter}", *storage.values))
        else:
            self.put(letter, *storage.values)

    def tensor(self, tensor):
        kind = tensor.storage.name("Tensor") if isinstance(tensor.storage, Storage) else tensor.storage
        self.kind(kind)
        self.int(len(tensor.shape))
        self.longs(*tensor.shape)
        self.longs(*tensor.strides)
        self.longs(tensor.offset + 1)
        self.write(tensor.storage if isinstance(tensor.storage, Storage) else None)


def save(value, **options) -> bytes:
    writer = Writer(**options)
    writer.write(value)
    return b"".join(writer.out)


def numbers(count: int) -> list[float]:
    return [0.25 + index % 13 / 8 for index in range(count)]


def count(shape) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def floats(*shape, start=0) -> Tensor:
    """A tensor of its own storage."""
    return Tensor(Storage("Float", numbers(count(shape))), shape)


def empty(kind="torch.FloatTensor") -> Tensor:
    return Tensor(kind, [], [])


def expected(name, shape, values, element="Float", long=8) -> Expected:
    dtype, letter = ELEMENTS[element]
    if letter is None:
        dtype, letter = ("i64", "q") if long == 8 else ("i32", "i")
    return Expected(name, dtype, list(shape), struct.pack(f"<{len(values)}{letter}", *values))


def sequential(*modules, **fields) -> Module:
    return Module("nn.Sequential", modules=list(modules), train=False, _type="torch.FloatTensor", **fields)


def linear(inputs: int, outputs: int) -> Module:
    return Module("nn.Linear", weight=floats(outputs, inputs), bias=floats(outputs), output=empty(), gradInput=empty(),
                  _type="torch.FloatTensor", train=False)


def convolution(inputs: int, outputs: int, size=3, pad=1, kind="nn.SpatialConvolution") -> Module:
    shape = [outputs, inputs, size, size]
    weight = floats(*shape) if kind == "nn.SpatialConvolution" else floats(outputs, inputs * size * size)
    return Module(kind, nInputPlane=inputs, nOutputPlane=outputs, kW=size, kH=size, dW=1, dH=1, padW=pad, padH=pad,
                  weight=weight, bias=floats(outputs))


def accepted():
    def case(name, why, value, tensors, told=True, **options):
        return accept(name, why, {f"{name}.t7": save(value, **options)}, f"{name}.t7", tensors, told=told)

    matrix = [expected("value", [3, 4], numbers(12))]
    yield case("matrix", "one tensor", floats(3, 4), matrix)
    yield case("matrix_ascii", "one tensor in ASCII", floats(3, 4), matrix, ascii=True)
    yield case("matrix_long_4", "one tensor of a writer with longs of 4 bytes", floats(3, 4), matrix, long=4)
    yield case("matrix_no_version", "a class without a version", floats(3, 4), matrix, versions=False)
    small = {"Byte": [0, 255], "Char": [-128, 127], "Short": [-32768, 2], "Int": [-(2**31), 5], "Half": [0.5, -2.0],
             "Float": [1.5, -0.0], "Double": [1e300, -1.0], "Long": [-(2**31), 7]}
    for suffix, options in [("", {}), ("_ascii", {"ascii": True}), ("_long_4", {"long": 4})]:
        every = {f"{element}{device}": Tensor(Storage(element, values, device == "Cuda"), [2])
                 for element, values in small.items() for device in ("", "Cuda")}
        tensors = [expected(name, [2], small[name.removesuffix("Cuda")], name.removesuffix("Cuda"), options.get("long", 8))
                   for name in every]
        yield case(f"elements{suffix}", "every type of elements, of the host and of devices", every, tensors, **options)
    for suffix, options in [("", {}), ("_ascii", {"ascii": True})]:
        own = Storage("Float", numbers(3000))
        views = {"all": Tensor(own, [3000]), "again": Tensor(own, [3000]), "part": Tensor(own, [5, 100], offset=1000),
                 "turned": Tensor(own, [3, 4], [1, 3], 2), "strided": Tensor(own, [2, 3], [1500, 7], 1),
                 "repeated": Tensor(own, [2, 3], [0, 1], 2047)}
        of = own.values
        tensors = [expected("all", [3000], of), expected("again", [3000], of), expected("part", [5, 100], of[1000:1500]),
                   expected("turned", [3, 4], [of[2 + row + 3 * column] for row in range(3) for column in range(4)]),
                   expected("strided", [2, 3], [of[1 + 1500 * row + 7 * column] for row in range(2) for column in range(3)]),
                   expected("repeated", [2, 3], of[2047:2050] * 2)]
        yield case(f"views{suffix}", "views of one storage", views, tensors, **options)
    yield case("empty", "tensors without elements", {"a": empty(), "b": empty("torch.LongTensor"), "c": Tensor(Storage("Double", []), [], [])},
               [expected("a", [0], []), expected("b", [0], [], "Long"), expected("c", [0], [], "Double")])
    both = floats(2)
    table = {"model": {"w": both, 3: [both, 2.5, None]}, "epoch": 7, "name": "net", "done": True, "raw": b"\xff\xfe",
             "size": Storage("Long", [3, -1]), "data": Storage("Float", [1.0, 2.0])}
    yield case("table", "tables, one tensor under two names, and values beside", table,
               [expected("model.w", [2], numbers(2)), expected("model.3.1", [2], numbers(2)), expected("data", [2], [1.0, 2.0])])
    cycle = {"w": floats(2)}
    cycle["self"] = cycle
    cycle["list"] = [cycle]
    yield case("cycle", "a table that has itself", cycle, [expected("w", [2], numbers(2))])
    functions = {"f": Function(b"\x1bLua\x00", [{"name": "x", "value": floats(2)}]), "g": Function(b"\x1bL", {}, 7), "w": floats(2)}
    yield case("functions", "functions, which are not run", functions, [expected("w", [2], numbers(2))])
    yield case("old_function", "a function of 2011", {"w": floats(2), "f": Function(b"\x1bL", {}, 6)}, [expected("w", [2], numbers(2))])
    deep = {"w": floats(2)}
    for _ in range(300):
        deep = {"a": deep}
    yield case("deep", "300 tables in each other", deep, [expected("a." * 300 + "w", [2], numbers(2))])

    def layer(path, *shapes):
        names = ["weight", "bias"]
        return [expected(f"{path}.{name}", shape, numbers(count(shape))) for name, shape in zip(names, shapes)]

    def left(path):
        return [expected(f"{path}.{name}", [0], []) for name in ("output", "gradInput")]

    dense = sequential(linear(3, 4), Module("nn.ReLU", threshold=0, val=0, inplace=False), linear(4, 2))
    tensors = layer("modules.1", [4, 3], [4]) + left("modules.1") + layer("modules.3", [2, 4], [2]) + left("modules.3")
    yield case("dense", "dense layers", dense, tensors)
    yield case("dense_ascii", "dense layers in ASCII", dense, tensors, ascii=True)
    one = sequential(convolution(8, 3), Module("nn.ReLU", threshold=0, val=0))
    yield case("one_convolution", "eight channels go in", one, layer("modules.1", [3, 8, 3, 3], [3]))
    yield case("convolution_mm", "a convolution whose weight is a matrix", sequential(convolution(2, 3, kind="nn.SpatialConvolutionMM")),
               layer("modules.1", [3, 18], [3]))
    yield case("unknown_layer", "a layer of someone else", sequential(Module("my.Layer", weight=floats(3))),
               [expected("modules.1.weight", [3], numbers(3))])
    shared = linear(3, 3)
    yield case("shared", "one layer twice", sequential(shared, shared), layer("modules.1", [3, 3], [3]) + left("modules.1"))


def header(kind="torch.FloatTensor", rank=1, sizes=(2,), strides=(1,), offset=1, tail=b"") -> bytes:
    """A tensor byte by byte, before its storage."""
    writer = Writer()
    writer.int(4)
    writer.int(1)
    writer.kind(kind)
    writer.int(rank)
    writer.longs(*sizes)
    writer.longs(*strides)
    writer.longs(offset)
    return b"".join(writer.out) + tail


def stored(size=2, values=(0.5, 1.5), number=2, kind="torch.FloatStorage") -> bytes:
    writer = Writer()
    writer.int(4)
    writer.int(number)
    writer.kind(kind)
    writer.longs(size)
    writer.put("f", *values)
    return b"".join(writer.out)


def rejected():
    def case(name, why, data, kind="corrupt"):
        return reject(name, why, {f"{name}.t7": data}, f"{name}.t7", kind)

    good = header() + stored()
    yield case("cut", "the last byte is missing", good[:-1])
    yield case("cut_header", "the lengths of axes are missing", header()[:50])
    yield case("longer", "a byte more", good + b"\0", "unsupported")
    yield case("tag", "an unknown type", struct.pack("<2i", 9, 1) + good[8:])
    yield case("rank", "a negative number of axes", header(rank=-1, sizes=(), strides=()) + stored())
    yield case("many_axes", "more axes than a tensor has", header(rank=2**20) + stored(), "limit")
    yield case("negative", "a negative length", header(sizes=(-2,)) + stored())
    yield case("no_length", "an axis without a length", header(rank=2, sizes=(2, 0), strides=(1, 1)) + stored())
    yield case("negative_stride", "a negative stride", header(strides=(-1,), offset=2) + stored())
    yield case("offset", "a tensor that begins before its storage", header(offset=0) + stored())
    yield case("beyond", "a tensor that ends behind its storage", header(offset=2) + stored())
    yield case("beyond_strides", "strides that lead behind the storage", header(strides=(2,)) + stored())
    yield case("wrapping", "strides whose product is 0 modulo 2^64", header(rank=2, sizes=(2, 2), strides=(2**62, 2**62)) + stored())
    yield case("large", "more elements than 64 bits count", header(rank=2, sizes=(2**40, 2**40), strides=(0, 0)) + stored())
    yield case("large_storage", "a storage larger than its file", header() + stored(size=2**40))
    yield case("huge_storage", "a storage whose bytes 64 bits do not count", header() + stored(size=2**62))
    yield case("negative_storage", "a storage of a negative size", header() + stored(size=-1))
    yield case("no_storage", "elements without a storage", header() + struct.pack("<i", 0))
    yield case("other_storage", "a storage of other elements", header() + stored(kind="torch.DoubleStorage"))
    yield case("number_storage", "a number for a storage", header() + struct.pack("<id", 1, 2.0))
    yield case("itself", "a tensor whose storage is a table", save({"t": 1})[:12] + struct.pack("<i", 2) + b"\1\0\0\0a" + good[:4] +
               struct.pack("<i", 2) + header()[8:] + struct.pack("<2i", 4, 1))
    yield case("table_size", "a table of a negative size", struct.pack("<3i", 3, 1, -1))
    yield case("table_cut", "a table larger than its file", struct.pack("<3i", 3, 1, 2**31 - 1))
    yield case("text", "a text longer than its file", save({"w": floats(2)})[:16] + struct.pack("<i", 2**31 - 1) + b"w")
    yield case("text_negative", "a text of a negative length", save({"w": floats(2)})[:16] + struct.pack("<i", -1) + b"w")
    yield case("class", "a tensor of complex numbers", header(kind="torch.ComplexTensor") + stored(), "unsupported")
    yield case("tds", "a class that stores itself", save({"w": Module("tds.Hash")}), "unsupported")
    same = save({"a": {"b": floats(2)}, "a.b": floats(2)})
    yield case("same_name", "two tensors of one name", same, "unsupported")
    text = save(floats(2), ascii=True)
    yield case("ascii_cut", "ASCII that ends within its numbers", text[:-6])
    yield case("ascii_number", "a size in ASCII that is none", text.replace(b"\n1\n2\n1\n1\n", b"\n1\nx\n1\n1\n"))
    yield case("ascii_value", "an element in ASCII that is none", text.replace(b"0.25", b"o.25"))
    yield case("ascii_length", "a text in ASCII that goes on", text.replace(b"\n17\n", b"\n16\n"))
    yield case("ascii_long", "a number in ASCII without an end", text.replace(b"0.25", b"0." + b"2" * 100))
