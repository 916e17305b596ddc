"""CNN2 files as the specification describes them, and broken ones. No real file is at hand."""

import struct

from common import Tensor, accept, reject

EXAMPLE = [(3, 15, 8), (3, 8, 4), (3, 4, 3)]  # kernel, in, out: the specification's own
ODD = [(1, 8, 1), (3, 9, 1), (5, 1, 8)]


def halves(count: int, start: int = 0x3C00) -> bytes:
    return struct.pack(f"<{count}H", *((start + index) & 0xFFFF for index in range(count)))


def table(layers) -> list[list[int]]:
    entries, offset = [], 0
    for kernel, inputs, outputs in layers:
        count = kernel * kernel * inputs * outputs
        entries.append([kernel, inputs, outputs, offset, count])
        offset += count
    return entries


def file(layers, *, magic=b"CNN2", version=1, mip=None, total=None, count=None, entries=None, data=None,
         pad=True) -> bytes:
    """`mip` is written where it is given; `entries`, `data`, `total` and `count` replace what the layers need."""
    whole = table(layers)
    weights = sum(entry[4] for entry in whole)
    head = [version, len(whole) if count is None else count, weights if total is None else total]
    numbers = head + ([] if mip is None else [mip]) + sum(whole if entries is None else entries, [])
    data = halves(weights) if data is None else data
    padding = b"\0" * (len(data) // 2 % 2 * 2) if pad else b""
    return magic + struct.pack(f"<{len(numbers)}I", *numbers) + data + padding


def tensors(layers, data=None) -> list[Tensor]:
    found = []
    for number, (kernel, inputs, outputs, offset, count) in enumerate(table(layers), 1):
        values = halves(offset + count) if data is None else data
        shape = [outputs, inputs, kernel, kernel]
        found.append(Tensor(f"layer{number}.weight", "f16", shape, values[2 * offset:2 * (offset + count)]))
    return found


def changed(layers, index: int, field: int, value: int) -> list[list[int]]:
    entries = table(layers)
    entries[index][field] = value
    return entries


LENIENT = ["lenient=true"]


def accepted():
    def case(name, why, data, layers, options=(), bits=None):
        return accept(name, why, {f"{name}.bin": data}, f"{name}.bin", tensors(layers, bits), options)

    assert len(file(EXAMPLE)) == 3028
    yield case("example", "15 to 8 to 4 to 3: 1,476 weights in 3,028 bytes", file(EXAMPLE), EXAMPLE)
    for mip in range(4):
        yield case(f"version_2_mip_{mip}", f"version 2, mip level {mip}", file([(3, 8, 2)], version=2, mip=mip),
                   [(3, 8, 2)])
    yield case("odd_padded", "an odd number of weights, padded", file(ODD), ODD)
    yield case("odd_bare", "an odd number of weights, not padded", file(ODD, pad=False), ODD)
    yield case("static_again", "later layers take the static features, too", file([(1, 12, 4), (1, 12, 4), (3, 4, 1)]),
               [(1, 12, 4), (1, 12, 4), (3, 4, 1)])
    bits = struct.pack("<8H", 0x7E00, 0x7C01, 0xFE2A, 0x7C00, 0xFC00, 0x8000, 0x0001, 0x83FF)
    yield case("special_values", "NaN, infinities, subnormals, -0", file([(1, 8, 1)], data=bits), [(1, 8, 1)], bits=bits)
    gap = file([(1, 8, 1)], total=12, entries=changed([(1, 8, 1)], 0, 3, 2), data=b"\xff" * 4 + halves(8) + b"\xff" * 4)
    yield case("gaps", "weights that no layer owns, lenient", gap, [(1, 8, 1)], LENIENT)
    swapped = [[1, 8, 1, 2, 8], [1, 1, 2, 0, 2]]
    moved = file([(1, 8, 1), (1, 1, 2)], entries=swapped, data=halves(10)[16:] + halves(10)[:16])
    yield case("other_order", "the second layer's weights come first, lenient", moved, [(1, 8, 1), (1, 1, 2)], LENIENT)
    yield case("trailing_lenient", "bytes after the weights, lenient", file([(1, 8, 1)]) + b"\0", [(1, 8, 1)], LENIENT)
    yield case("padding_lenient", "padding that is not zero, lenient", file(ODD, pad=False) + b"\1\0", ODD, LENIENT)
    yield case("even_lenient", "an even kernel, lenient", file([(2, 8, 1)]), [(2, 8, 1)], LENIENT)
    yield case("wiring_lenient", "channels that imply no wiring, lenient", file([(1, 3, 2), (1, 5, 1)]),
               [(1, 3, 2), (1, 5, 1)], LENIENT)


def rejected():
    def case(name, why, data, kind="corrupt", options=()):
        return reject(name, why, {f"{name}.bin": data}, f"{name}.bin", kind, options)

    one = [(1, 8, 2)]
    two = [(1, 8, 4), (3, 4, 1)]
    most = 2**32 - 1
    yield case("empty", "no byte at all", b"")
    yield case("short_magic", "three bytes", b"CNN")
    yield case("bad_magic", "another magic number", file(one, magic=b"CNN3"))
    yield case("swapped_magic", "the magic number in big-endian byte order", file(one, magic=b"2NNC"), "unsupported")
    yield case("version_0", "version 0", file(one, version=0), "unsupported")
    yield case("version_3", "version 3", file(one, version=3), "unsupported")
    yield case("version_big_endian", "version 1 in big-endian byte order", file(one, version=1 << 24), "unsupported")
    yield case("header_only", "a header and nothing else", file(one)[:16])
    yield case("mip_4", "a mip level that does not exist", file(one, version=2, mip=4))
    yield case("mip_missing", "version 2 with the header of version 1", file(one, version=2))
    yield case("no_layers", "no layers", file([], count=0))
    yield case("count_too_big", "more layers than the file has room for", file(one, count=9))
    yield case("count_4_billion", "2^32 - 1 layers", file(one, count=most))
    yield case("kernel_0", "a kernel of no pixels", file(one, entries=[[0, 8, 2, 0, 0]], total=0, data=b""),
               options=LENIENT)
    yield case("kernel_even", "a kernel without a center", file([(2, 8, 1)]))
    yield case("in_0", "a layer that takes nothing", file(one, entries=[[1, 0, 2, 0, 0]], total=0, data=b""),
               options=LENIENT)
    yield case("in_7", "a first layer without all static features", file([(1, 7, 2)]))
    yield case("in_16", "a first layer that takes too much", file([(1, 16, 2)]))
    yield case("in_misfit", "a layer that takes what there is not", file([(1, 8, 4), (3, 5, 1)]))
    yield case("out_0", "a layer that makes nothing", file(one, entries=[[1, 8, 0, 0, 0]], total=0, data=b""),
               options=LENIENT)
    yield case("out_9", "a layer that makes 9 channels", file([(1, 8, 9)]), options=LENIENT)
    yield case("count_small", "fewer weights than the layer needs", file(one, entries=changed(one, 0, 4, 15)),
               options=LENIENT)
    yield case("count_overflow", "a product of sizes beyond 64 bits",
               file(one, entries=[[most, 15, 8, 0, 16]]), options=LENIENT)
    yield case("offset_gap", "a gap between layers", file(two, entries=changed(two, 1, 3, 34), total=70,
                                                         data=halves(70)))
    yield case("offset_overlap", "two layers share a weight", file(two, entries=changed(two, 1, 3, 31)),
               options=LENIENT)
    yield case("offset_same", "two layers share all weights",
               file([(1, 8, 8), (1, 8, 8)], entries=changed([(1, 8, 8), (1, 8, 8)], 1, 3, 0)), options=LENIENT)
    yield case("offset_past_end", "weights beyond the last", file(two, entries=changed(two, 1, 3, 33)),
               options=LENIENT)
    yield case("offset_4_billion", "an offset near 2^32", file(two, entries=changed(two, 1, 3, most)), options=LENIENT)
    yield case("total_too_big", "more weights than the layers have", file(one, total=18, data=halves(18)))
    yield case("total_4_billion", "2^32 - 1 weights", file(one, total=most), options=LENIENT)
    yield case("total_too_small", "fewer weights than the layers have", file(one, total=15), options=LENIENT)
    yield case("cut", "the last byte is missing", file(one)[:-1], options=LENIENT)
    yield case("half_padding", "one byte of padding", file(ODD)[:-1])
    yield case("padding_not_zero", "padding that is not zero", file(ODD, pad=False) + b"\0\1")
    yield case("padding_of_even", "an even number of weights, padded", file(one) + b"\0\0")
    yield case("trailing_bytes", "bytes after the weights", file(one) + b"CNN2")
