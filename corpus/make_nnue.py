"""Networks of Stockfish, and broken ones. The numbers are made up; the layout is that of the trainer nnue-pytorch.

Few neurons keep the files small; the features of each set are as many as they are.
"""

import struct

from common import Tensor, accept, reject

VERSION, OLDER, OLDEST = 0x6A448AFA, 0x7AF32F20, 0x7AF32F16
# Hash, features, type of weights, whether there are piece-square values.
SETS = {
    "PP_3Wide": (0x86F2B1DD, 4560, "i8", True),
    "HalfKP": (0x5D69D5B8, 41024, "i16", False),
}
CODES = {"i8": "b", "i16": "h", "i32": "i"}
ALL_ONES = 0xFFFFFFFF


def leb128(values) -> bytes:
    out = bytearray()
    for value in values:
        while True:
            byte, value = value & 0x7F, value >> 7
            if (value == 0 and not byte & 0x40) or (value == -1 and byte & 0x40):
                out.append(byte)
                break
            out.append(byte | 0x80)
    return bytes(out)


def layers_hash(l1: int, outputs) -> int:
    last = 0xEC42E90D ^ 2 * l1
    for count in [*outputs, 1]:
        this = (0xCC03DAE4 + count) & ALL_ONES
        this ^= last >> 1 ^ (last << 31 & ALL_ONES)
        last = this if count == 1 else (this + 0x538D24C7) & ALL_ONES
    return last


def values(count: int, step: int, most: int) -> list[int]:
    """Mostly zeros, so that the files compress well."""
    return [(index * step) % (2 * most + 1) - most if index % 8 == 0 else 0 for index in range(count)]


class Network:
    """The bytes of a network, and the tensors that it holds."""

    def __init__(self, sets, l1=2, outputs=(8, 32), inputs=(2, 16, 80), version=VERSION, description="made up", compress=True,
                 stacks=8):
        self.tensors, self.compress, self.data = [], compress, b""
        feature_hash = 0
        for name in sets:
            feature_hash = (feature_hash << 1 | feature_hash >> 31) & ALL_ONES ^ SETS[name][0]
        transformer = feature_hash ^ 2 * l1
        layers = layers_hash(l1, outputs)
        text = description.encode()
        self.data += struct.pack("<3I", version, transformer ^ layers, len(text)) + text + struct.pack("<I", transformer)
        self.transformer = len(self.data)
        self.add("transformer.bias", "i16", [l1], 3, 300, compress)
        for name in sets:
            _, features, dtype, has_psqt = SETS[name]
            self.add(f"transformer.{name}.weight", dtype, [features, l1], 5, 100 if dtype == "i8" else 20000, compress and dtype != "i8")
            if has_psqt:
                self.add(f"transformer.{name}.psqt", "i32", [features, 8], 7001, 100000, compress)
        self.stacks = len(self.data)
        padded = [-(-count // 32) * 32 for count in inputs]
        for stack in range(stacks):
            self.data += struct.pack("<I", layers)
            for layer, out, count in zip(["layer_1", "layer_2", "output"], [*outputs, 1], padded):
                self.add(f"stacks.{stack}.{layer}.bias", "i32", [out], 11 + stack, 8000, False)
                self.add(f"stacks.{stack}.{layer}.weight", "i8", [out, count], 13 + stack, 127, False)

    def add(self, name, dtype, shape, step, most, compress) -> None:
        count = 1
        for length in shape:
            count *= length
        numbers = values(count, step, most)
        raw = struct.pack(f"<{count}{CODES[dtype]}", *numbers)
        if compress:
            coded = leb128(numbers)
            self.data += b"COMPRESSED_LEB128" + struct.pack("<I", len(coded)) + coded
        else:
            self.data += raw
        self.tensors.append(Tensor(name, dtype, shape, raw))


def pairs(**options) -> Network:
    return Network(["PP_3Wide"], **options)


def accepted():
    network = pairs()
    yield accept("pawn_pairs", "weights of 8 bits, and compressed biases and piece-square values", {"pawn_pairs.nnue": network.data}, "pawn_pairs.nnue",
                 network.tensors)
    network = pairs(version=OLDER, outputs=(16, 32), inputs=(2, 30, 32), description="")
    yield accept("older", "the version of 2021 to 2026, with a layer of 15 + 1 outputs", {"older.nnue": network.data}, "older.nnue",
                 network.tensors)
    network = Network(["HalfKP"], outputs=(32, 32), inputs=(4, 32, 32), version=OLDEST, stacks=1,
                      description="Features=HalfKP(Friend)[41024->2x2]")
    yield accept("half_kp", "the version of 2020: one stack, no piece-square values", {"half_kp.nnue": network.data}, "half_kp.nnue",
                 network.tensors)


def rejected():
    network = pairs()
    data, start, stacks = network.data, network.transformer, network.stacks

    def broken(name, why, content, kind="corrupt", options=()):
        return reject(name, why, {f"{name}.nnue": bytes(content)}, f"{name}.nnue", kind=kind, options=options)

    def with_word(offset, word):
        return data[:offset] + struct.pack("<I", word) + data[offset + 4:]

    yield broken("version", "a version that nothing is known of", with_word(0, 0x7AF32F21)[:64], "unsupported")
    yield broken("description", "a description of more than 64 KiB", with_word(8, 70000)[:64], "limit")
    yield broken("not_utf8", "a description that is not UTF-8", data[:12] + b"\xff" + data[13:start])
    yield broken("cut_description", "the file ends within the description", data[:15])
    yield broken("inputs", "a transformer of unknown inputs", with_word(start - 4, 0x12345678)[:start + 64], "unsupported")
    yield broken("cut_bias", "the file ends within the first array", data[:start + 22])
    yield broken("cut_weight", "the file ends within an array", data[:start + 2000])
    yield broken("few_bytes", "fewer bytes of LEB128 than integers", with_word(start + 17, 1))
    yield broken("network_hash", "the hash of the network is another", with_word(4, 1))
    yield broken("layers_hash", "the hash of the fourth stack is another", with_word(stacks + 3 * (len(data) - stacks) // 8, 1))
    yield broken("cut_layers", "the last byte is missing", data[:-1])
    yield broken("longer", "a byte more", data + b"\0")
    yield broken("sizes", "other sizes than the option states", data, options=["layers=32,32"])
    yield broken("no_sizes", "an option that states no sizes", data[:start], "usage", options=["layers=32"])
