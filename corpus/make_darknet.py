"""Weights of Darknet with their .cfg, and broken ones. The numbers are made up; the layout is that of Darknet's own loader."""

import struct

from common import Tensor, accept, reject

CONVOLUTIONS = """\
[net]
# the input
channels=2
height=6
width=6

[convolutional]
batch_normalize=1
filters=4
size=3
pad=1
activation=leaky

[maxpool]
size=2
stride=2

[convolutional]
filters=6
size=1
activation=linear
"""
CONNECTED = "[net]\nchannels=1\nheight=2\nwidth=2\n[connected]\nbatch_normalize=1\noutput=3\nactivation=relu\n"
# What formats of one kind of network alone can hold, too.
DENSE = "[net]\ninputs=3\n[connected]\noutput=4\nactivation=relu\n[connected]\noutput=2\nactivation=linear\n"
ONE = "[net]\nchannels=8\nheight=4\nwidth=4\n[convolutional]\nfilters=3\nsize=3\npad=1\nactivation=relu\n"
FIRST = [("000.convolutional.bias", [4]), ("000.convolutional.scale", [4]), ("000.convolutional.mean", [4]),
         ("000.convolutional.variance", [4]), ("000.convolutional.weight", [4, 2, 3, 3])]
LAYERS = FIRST + [("002.convolutional.bias", [6]), ("002.convolutional.weight", [6, 4, 1, 1])]
CONNECTED_LAYERS = [("000.connected.bias", [3]), ("000.connected.weight", [3, 4]), ("000.connected.scale", [3]),
                    ("000.connected.mean", [3]), ("000.connected.variance", [3])]
DENSE_LAYERS = [("000.connected.bias", [4]), ("000.connected.weight", [4, 3]), ("001.connected.bias", [2]),
                ("001.connected.weight", [2, 4])]
ONE_LAYERS = [("000.convolutional.bias", [3]), ("000.convolutional.weight", [3, 8, 3, 3])]


def header(version=(0, 2, 5), seen=640) -> bytes:
    major, minor, _ = version
    long = major * 10 + minor >= 2 and major < 1000 and minor < 1000
    return struct.pack("<3i", *version) + struct.pack("<Q" if long else "<I", seen)


def total(layers) -> int:
    count = 0
    for _, shape in layers:
        size = 1
        for length in shape:
            size *= length
        count += size
    return count


def numbers(count: int) -> bytes:
    """Variances among them: all are above 0."""
    return struct.pack(f"<{count}f", *(0.25 + index % 13 / 8 for index in range(count)))


def tensors(layers, data: bytes) -> list[Tensor]:
    found, at = [], 0
    for name, shape in layers:
        size = 4 * total([(name, shape)])
        found.append(Tensor(name, "f32", shape, data[at:at + size]))
        at += size
    return found


def transposed(data: bytes, rows: int, columns: int) -> bytes:
    return b"".join(data[4 * (row * columns + column):][:4] for column in range(columns) for row in range(rows))


def accepted():
    def case(name, why, cfg, layers, head=header(), options=(), entry="m.weights", told=True):
        data = numbers(total(layers))
        files = {"m.cfg": cfg.encode(), entry: head + data}
        return accept(name, why, files, entry, tensors(layers, data), options, told)

    yield case("convolutions", "bias, scale, mean and variance before the weight", CONVOLUTIONS, LAYERS)
    yield case("connected", "scale, mean and variance after the weight", CONNECTED, CONNECTED_LAYERS)
    yield case("dense", "no image goes in", DENSE, DENSE_LAYERS)
    yield case("one_convolution", "eight channels go in", ONE, ONE_LAYERS)
    yield case("short_counter", "version 0.1 has a counter of 32 bits", CONVOLUTIONS, LAYERS, header((0, 1, 0)))
    yield case("prefix", "weights of the first layer alone, as the option says", CONVOLUTIONS, FIRST,
               options=["layers=1"], told=False)
    yield case("named_prefix", "weights of the first layer alone, as the name says", CONVOLUTIONS, FIRST, entry="m.conv.1")
    data = numbers(3 + 12)
    plain = CONNECTED.replace("batch_normalize=1\n", "")
    yield accept("transposed", "weights of a connected layer as [in, out]",
                 {"m.cfg": plain.encode(), "m.weights": header((0, 2000, 0)) + data}, "m.weights", [
                     Tensor("000.connected.bias", "f32", [3], data[:12]),
                     Tensor("000.connected.weight", "f32", [3, 4], transposed(data[12:], 4, 3))])


def rejected():
    data = header() + numbers(total(LAYERS))

    def case(name, why, cfg=CONVOLUTIONS, weights=data, kind="corrupt", options=()):
        return reject(name, why, {"m.cfg": cfg.encode(), "m.weights": weights}, "m.weights", kind, options)

    yield reject("no_cfg", "no .cfg", {"no_cfg.weights": data}, "no_cfg.weights", "usage")
    yield case("cut", "the last number is missing", weights=data[:-4])
    yield case("cut_within_a_number", "the last byte is missing", weights=data[:-1])
    yield case("cut_header", "the header ends within the counter", weights=data[:14])
    yield case("longer", "a number more", weights=data + bytes(4))
    yield case("no_weights", "no layer has weights", "[net]\nchannels=1\nheight=2\nwidth=2\n[maxpool]\n")
    yield case("too_many_layers", "more layers than the .cfg has", kind="usage", options=["layers=4"])
    for name, why, old, new in [
        ("no_net", "the first section is another", "[net]", "[other]"),
        ("option_first", "an option before the first section", "[net]", "a=1\n[net]"),
        ("no_value", "an option without a value", "filters=4", "filters="),
        ("not_a_number", "a word in the place of a number", "filters=4", "filters=four"),
        ("negative", "a negative number of filters", "filters=4", "filters=-4"),
        ("huge", "more filters than 32 bits count", "filters=4", "filters=4294967300"),
        ("no_stride", "a window that does not move", "stride=2", "stride=0"),
        ("large_window", "a window larger than its image", "size=3", "size=9\npadding=0\npad=0"),
        ("uneven_groups", "groups that do not divide the channels", "filters=6", "filters=6\ngroups=5"),
        ("no_end", "a section whose name does not end", "[maxpool]", "[maxpool"),
        ("control", "a control character", "filters=4", "filters=4\0"),
        ("later_route", "a route to a layer that comes later", "[maxpool]", "[route]\nlayers=2\n[maxpool]"),
        ("several_sizes", "a route of images of several sizes", "[convolutional]\nfilters=6",
         "[route]\nlayers=0,1\n[convolutional]\nfilters=6"),
        ("boxes", "a detection layer that does not fit", "activation=linear\n", "activation=linear\n[yolo]\nclasses=3\n"),
        ("no_input", "no channels, and no inputs", "channels=2", "channels=0"),
    ]:
        assert CONVOLUTIONS.count(old) == 1, old
        yield case(name, why, CONVOLUTIONS.replace(old, new))
    for name, why, old, new in [
        ("unknown_layer", "a layer that may have weights", "[maxpool]", "[lstm]\noutput=2\n[maxpool]"),
        ("shared", "a layer that shares its weights", "filters=6", "filters=6\nshare_index=0\n"),
    ]:
        yield case(name, why, CONVOLUTIONS.replace(old, new), kind="unsupported")
