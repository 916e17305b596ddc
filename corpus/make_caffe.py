"""Models of Caffe of today and of 2014, and broken ones. The numbers are made up; the fields are those of caffe.proto."""

import struct

from common import Tensor, accept, reject


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def count(dims) -> int:
    total = 1
    for length in dims:
        total *= length
    return total


def numbers(dims, kind="f") -> bytes:
    total = count(dims)
    return struct.pack(f"<{total}{kind}", *(0.25 + index % 13 / 8 for index in range(total)))


def shape(dims) -> bytes:
    return field(7, field(1, b"".join(map(varint, dims))))


def old_shape(dims) -> bytes:
    return b"".join(whole(number, length) for number, length in enumerate(dims, 1))


def blob(dims, data=None) -> bytes:
    """As Caffe writes it: fields in the order of their numbers."""
    return field(5, numbers(dims) if data is None else data) + shape(dims)


def layer(name, kind, blobs=(), more=b"") -> bytes:
    return field(100, field(1, name) + field(2, kind) + b"".join(field(7, own) for own in blobs) + more)


def old_layer(name, kind: int, blobs=()) -> bytes:
    return field(2, field(4, name) + whole(5, kind) + b"".join(field(6, own) for own in blobs))


def model(*layers) -> bytes:
    return field(1, b"net") + b"".join(layers)


def tensor(name, dims, dtype="f32", kind="f") -> Tensor:
    return Tensor(name, dtype, list(dims), numbers(dims, kind))


CONV, BIAS, DENSE = [4, 2, 3, 3], [4], [3, 5]
DENSE_NET = """\
name: "dense"
layer { name: "data" type: "Input" top: "data" input_param { shape: { dim: 1 dim: 3 } } }
layer { name: "fc1" type: "InnerProduct" bottom: "data" top: "fc1" inner_product_param { num_output: 4 } }
layer { name: "relu" type: "ReLU" bottom: "fc1" top: "fc1" }
layer { name: "fc2" type: "InnerProduct" bottom: "fc1" top: "fc2" inner_product_param { num_output: 2 } }
"""
ONE_NET = """\
layer { name: "data" type: "Input" top: "data" input_param { shape: { dim: 1 dim: 8 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 3 kernel_size: 3 pad: 1 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
"""


def accepted():
    def case(name, why, data, tensors, told=True):
        return accept(name, why, {f"{name}.caffemodel": data}, f"{name}.caffemodel", tensors, told=told)

    def pair(name, why, data, tensors, text):
        files = {"m.caffemodel": data, "deploy.prototxt": text.encode()}
        return accept(name, why, files, "m.caffemodel", tensors)

    today = model(layer(b"data", b"Input"), layer(b"conv", b"Convolution", [blob(CONV), blob(BIAS)]),
                  layer(b"fc", b"InnerProduct", [blob(DENSE)]))
    yield case("today", "layers of today", today, [tensor("conv/0", CONV), tensor("conv/1", BIAS), tensor("fc/0", DENSE)])
    old = [1, 1, 3, 5]
    data = model(old_layer(b"data", 5), old_layer(b"fc", 14, [old_shape(old) + field(5, numbers(old))]))
    yield case("of_2014", "layers and shapes of 2014", data, [tensor("fc/0", old)])
    yield case("double", "double numbers", model(layer(b"fc", b"InnerProduct", [shape(DENSE) + field(8, numbers(DENSE, "d"))])),
               [tensor("fc/0", DENSE, "f64", "d")])
    half = shape(DENSE) + whole(10, 2) + field(12, numbers(DENSE, "e"))
    yield case("half", "half numbers as raw data", model(layer(b"fc", b"InnerProduct", [half])), [tensor("fc/0", DENSE, "f16", "e")])
    single = b"".join(b"\x2d" + numbers(DENSE)[at:at + 4] for at in range(0, 60, 4))
    yield case("single", "a field for each number", model(layer(b"fc", b"InnerProduct", [single + shape(DENSE)])),
               [tensor("fc/0", DENSE)])
    diff = field(6, numbers(DENSE)) + blob(DENSE)
    yield case("differences", "differences of training beside the numbers", model(layer(b"fc", b"InnerProduct", [diff])),
               [tensor("fc/0", DENSE)])
    yield case("scalar", "a shape without axes", model(layer(b"s", b"Scale", [field(5, numbers([])) + field(7, b"")])),
               [tensor("s/0", [])])
    unpacked = field(7, whole(1, 3) + whole(1, 5)) + field(5, numbers(DENSE))
    yield case("single_lengths", "a field for each length", model(layer(b"fc", b"InnerProduct", [unpacked])),
               [tensor("fc/0", DENSE)])
    yield case("unknown_field", "fields of another version", model(layer(b"fc", b"InnerProduct", [blob(DENSE)], field(999, b"x"))),
               [tensor("fc/0", DENSE)])
    yield case("no_first_kind", "a first layer without a kind", model(layer(b"a", b""), layer(b"fc", b"InnerProduct", [blob(DENSE)])),
               [tensor("fc/0", DENSE)], told=False)
    dense = [tensor("fc1/0", [4, 3]), tensor("fc1/1", [4]), tensor("fc2/0", [2, 4]), tensor("fc2/1", [2])]
    data = model(layer(b"fc1", b"InnerProduct", [blob([4, 3]), blob([4])]), layer(b"fc2", b"InnerProduct", [blob([2, 4]), blob([2])]))
    yield pair("dense", "dense layers, with their text", data, dense, DENSE_NET)
    data = model(layer(b"conv", b"Convolution", [blob([3, 8, 3, 3]), blob([3])]))
    yield pair("one_convolution", "eight channels go in", data, [tensor("conv/0", [3, 8, 3, 3]), tensor("conv/1", [3])], ONE_NET)


def rejected():
    def case(name, why, data, kind="corrupt"):
        return reject(name, why, {f"{name}.caffemodel": data}, f"{name}.caffemodel", kind)

    def of(name, why, own, kind="corrupt"):
        return case(name, why, model(layer(b"fc", b"InnerProduct", [own])), kind)

    good = model(layer(b"fc", b"InnerProduct", [blob(DENSE)]))
    yield case("cut", "the last byte is missing", good[:-1])
    yield case("no_layers", "a name alone", field(1, b"net"))
    yield case("text", "the text form", DENSE_NET.encode())
    yield case("wire_type", "an unknown wire type", field(1, b"net") + b"\xa7\x06" + good)
    yield case("group", "a group", field(1, b"net") + b"\xa3\x06" + good)
    yield case("endless", "a number without an end", field(1, b"net") + b"\xff" * 12)
    yield case("past_end", "a layer longer than the file", field(1, b"net") + b"\xa2\x06\xff\x7f" + b"\0" * 20)
    yield of("short", "a number too few", blob(DENSE, numbers(DENSE)[:-4]))
    yield of("long", "a number too many", blob(DENSE, numbers(DENSE) + b"\0\0\0\0"))
    yield of("uneven", "bytes that are no numbers", blob(DENSE, numbers(DENSE)[:-1]))
    yield of("zero", "an axis of no length", blob([0, 5]))
    yield of("negative", "an axis of a negative length", blob([-3, 5], numbers(DENSE)))
    yield of("many_axes", "more axes than Caffe allows", blob([1] * 33))
    yield of("large", "more elements than 64 bits count", blob([2**40, 2**40], numbers(DENSE)))
    yield of("wrapping", "a product that is 15 modulo 2^64", blob([2**63 + 15, 1], numbers(DENSE)))
    yield of("no_shape", "no shape", field(5, numbers(DENSE)))
    yield of("half_a_shape", "two of four lengths", whole(1, 3) + whole(2, 5) + field(5, numbers(DENSE)))
    yield of("no_numbers", "a shape without numbers", shape(DENSE))
    yield of("two_types", "float and double numbers", blob(DENSE) + field(8, numbers(DENSE, "d")))
    yield of("raw_type", "raw integers", shape(DENSE) + whole(10, 3) + field(12, numbers(DENSE)), "unsupported")
    yield of("pieces", "numbers in two pieces", shape(DENSE) + field(5, numbers(DENSE)[:20]) + field(5, numbers(DENSE)[20:]), "unsupported")
    yield case("same_name", "two layers of one name", model(*[layer(b"fc", b"InnerProduct", [blob(DENSE)])] * 2))
    yield case("not_utf8", "a name that is no text", model(layer(b"\xff\xfe", b"InnerProduct", [blob(DENSE)])))
    yield case("of_2013", "layers of 2013", field(1, b"net") + field(2, field(1, field(1, b"conv"))), "unsupported")
    for name, why, text in [
        ("text_cut", "a text that ends within a message", DENSE_NET[:-3]),
        ("text_no_value", "a field without a value", DENSE_NET.replace("top: \"data\"", "top:")),
        ("text_quote", "a text without an end", DENSE_NET.replace("\"relu\"", "\"relu")),
        ("text_sign", "a character that no text has", DENSE_NET.replace("dim: 3", "dim: @")),
    ]:
        files = {"m.caffemodel": good, "m.prototxt": text.encode()}
        yield reject(name, why, files, "m.caffemodel")
