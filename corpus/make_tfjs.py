"""Models of TensorFlow.js: model.json with a manifest, and shards of weights."""

import json
import math
import struct

from common import Tensor, accept, f32, ramp, reject

KERNEL = Tensor("fc/kernel", "f32", [5, 3], ramp(15))
BIAS = Tensor("fc/bias", "f32", [3], f32(0.5, -1, float("nan")))
STEP = Tensor("iter", "i32", [], struct.pack("<i", 7))
NAMES = {"f32": "float32", "i32": "int32", "bool": "bool", "c64": "complex64", "string": "string", "f16": "float16", "u8": "uint8"}
EMPTY = {"node": []}


def weight(tensor, **more):
    return {"name": tensor.name, "shape": tensor.shape, "dtype": NAMES[tensor.dtype], **more}


def stored(tensor):
    if isinstance(tensor.data, bytes):
        return tensor.data
    return b"".join(struct.pack("<I", len(text)) + text for text in tensor.data)


def cut(data, size):
    """Shards of so many bytes, as the converter names them."""
    pieces = [data[at : at + size] for at in range(0, len(data), size)] or [b""]
    return {f"group1-shard{number}of{len(pieces)}.bin": piece for number, piece in enumerate(pieces, 1)}


def model(groups, topology=EMPTY, **members):
    """Groups are pairs of shards by name and weights."""
    manifest = [{"paths": list(shards), "weights": weights} for shards, weights in groups]
    text = json.dumps({"modelTopology": topology, "weightsManifest": manifest, **members})
    return {"model.json": text.encode()} | {name: data for shards, _ in groups for name, data in shards.items()}


def plain(tensors, size=1 << 20, **members):
    return model([(cut(b"".join(map(stored, tensors)), size), [weight(tensor) for tensor in tensors])], **members)


def changed(**members):
    """A model of two weights, of which the first is stated otherwise."""
    weights = [{**weight(KERNEL), **members}, weight(BIAS)]
    weights[0] = {key: value for key, value in weights[0].items() if value is not ...}
    return model([(cut(KERNEL.data + BIAS.data, 1 << 20), weights)])


def layer(class_name, name, **options):
    return {"class_name": class_name, "config": {"name": name, "trainable": True, **options}}


def sequential(*layers):
    return {"class_name": "Sequential", "config": {"name": "model", "layers": list(layers)},
            "keras_version": "tfjs-layers 4.22.0", "backend": "tensor_flow.js"}


def affine(tensor, integers, scale, least, bits=8):
    """A weight of integers, and the numbers that they stand for: product and sum in binary64, rounded once."""
    data = struct.pack(f"<{len(integers)}{'BH'[bits == 16]}", *integers)
    numbers = [integer * scale + least for integer in integers]
    if tensor.dtype == "i32":
        values = struct.pack(f"<{len(numbers)}i", *(math.floor(number + 0.5) for number in numbers))
    else:
        values = f32(*numbers)
    quantization = {"dtype": f"uint{bits}", "scale": scale, "min": least}
    return Tensor(tensor.name, tensor.dtype, tensor.shape, values), weight(tensor, quantization=quantization), data


def quantized():
    floats = affine(Tensor("a", "f32", [4], b""), [0, 1, 200, 255], 0.1, -7.3)
    halves = affine(Tensor("b", "f32", [3], b""), [0, 1000, 65535], 1e-3, 0.25, 16)
    whole = affine(Tensor("c", "i32", [5], b""), [0, 1, 2, 3, 255], 0.5, -1)
    again = affine(Tensor("d", "f32", [2], b""), [3, 4], 2, 1, 16)
    half = Tensor("e", "f32", [2], f32(1.5, -0.25))
    small = (half, weight(half, quantization={"dtype": "float16", "original_dtype": "float32"}), struct.pack("<2e", 1.5, -0.25))
    return [floats, halves, whole, again, small]


def of(parts, size):
    return model([(cut(b"".join(part[2] for part in parts), size), [part[1] for part in parts])])


def accepted():
    numbers = [KERNEL, STEP, Tensor("b", "bool", [3], b"\1\0\1"), Tensor("c", "c64", [1], f32(0.5, -1)),
               Tensor("none", "f32", [0, 4], b""), BIAS]
    yield accept("dtypes", "numbers of every dtype", plain(numbers), "", numbers)
    yield accept("shards", "tensors that begin in one shard and end in another", plain([KERNEL, BIAS], 13), "", [KERNEL, BIAS])
    texts = Tensor("s", "string", [2, 2], [b"ab", b"", "Wört".encode(), b"x" * 30])
    yield accept("texts", "texts between numbers, cut anywhere", plain([BIAS, texts, STEP], 7), "", [BIAS, texts, STEP])
    parts = quantized()
    for name, size in (("quantized", 1 << 20), ("quantized_shards", 5)):
        yield accept(name, "numbers of integers and of 16-bit floats", of(parts, size), "", [part[0] for part in parts])
    slot = Tensor("fc/bias/m", "f32", [3], f32(1, 2, 3))
    optimizer = [weight(STEP, group="optimizer"), weight(slot, group="optimizer")]
    data = KERNEL.data + BIAS.data
    layers = sequential(layer("Dense", "fc", units=3, activation="relu", use_bias=True, batch_input_shape=[None, 5], dtype="float32"))
    groups = [({"weights.bin": data + STEP.data + slot.data}, [weight(KERNEL), weight(BIAS), *optimizer])]
    files = model(groups, layers, format="layers-model", generatedBy="by hand", convertedBy=None)
    yield accept("layers", "layers of TensorFlow.js, and the state of an optimizer", files, "", [KERNEL, BIAS, STEP, slot])
    groups = [({"a.bin": KERNEL.data}, [weight(KERNEL)]), ({"b.bin": BIAS.data}, [weight(BIAS)])]
    yield accept("groups", "two groups with files of their own", model(groups, userDefinedMetadata={"a": 1}), "model.json", [KERNEL, BIAS])
    old = json.dumps([{"paths": ["./group1-shard1of1"], "weights": [weight(KERNEL), weight(BIAS)]}])
    yield accept("old", "a folder of TensorFlow.js 0.x", {"weights_manifest.json": old.encode(), "group1-shard1of1": data}, "",
                 [KERNEL, BIAS])
    yield accept("empty", "a topology without weights", model([({}, [])]), "model.json", [])
    yield accept("trailing", "bytes after the last weight", model([({"w.bin": data + b"\0"}, [weight(KERNEL), weight(BIAS)])]), "",
                 [KERNEL, BIAS], ["lenient=true"])


def rejected():
    def bad(name, why, files, kind="corrupt"):
        return reject(name, why, files, "", kind)

    good = plain([KERNEL, BIAS])
    text = good["model.json"]
    with_text = lambda text: {**good, "model.json": text}
    yield bad("json_cut", "JSON that ends early", with_text(text[:-5]))
    yield bad("json_deep", "lists within lists", with_text(text.replace(b'"node": []', b'"node": ' + b"[" * 500 + b"]" * 500)))
    yield bad("json_nan", "a number that is none", with_text(text.replace(b'"node": []', b'"node": NaN')))
    yield bad("json_utf8", "a name that is no text", with_text(text.replace(b"fc/bias", b"fc/bi\xff")))
    yield bad("manifest_missing", "no manifest", {"model.json": b'{"modelTopology": {}, "format": "layers-model"}'})
    yield bad("manifest_object", "a manifest that is an object", {"model.json": b'{"weightsManifest": {}}'})
    for name, path in (("dotdot", "../w.bin"), ("absolute", "/w.bin"), ("url", "http://127.0.0.1:9/w.bin"), ("nul", "w\\u0000.bin"),
                       ("empty", ""), ("back", "a/../../w.bin")):
        yield bad(f"path_{name}", "a path that leaves the folder or names nothing",
                  with_text(text.replace(b"group1-shard1of1.bin", path.encode())))
    yield bad("path_number", "a path that is a number", with_text(text.replace(b'"group1-shard1of1.bin"', b"7")))
    yield bad("shard_missing", "a shard that is not there", {"model.json": text}, "io")
    yield bad("shard_short", "a shard that is cut", {**good, "group1-shard1of1.bin": good["group1-shard1of1.bin"][:-1]})
    yield bad("shard_long", "bytes after the last weight", {**good, "group1-shard1of1.bin": good["group1-shard1of1.bin"] + b"\0"},
              "unsupported")
    yield bad("name_missing", "a weight without a name", changed(name=...))
    yield bad("name_twice", "two weights of one name", changed(name="fc/bias"))
    yield bad("dtype_missing", "a weight without a dtype", changed(dtype=...))
    yield bad("dtype_unknown", "an unknown dtype", changed(dtype="float12"))
    for name, shape in (("missing", ...), ("scalar", 15), ("negative", [-5, 3]), ("fraction", [2.5, 6]), ("huge", [1 << 40]),
                        ("overflow", [1 << 32, 1 << 32, 3]), ("wrap", [(1 << 62) + 1, 4]), ("text", ["5", 3])):
        yield bad(f"shape_{name}", "a shape that no tensor of these bytes has", changed(shape=shape))
    for name, quantization in (("dtype", {"dtype": "int4", "scale": 1, "min": 0}), ("scale", {"dtype": "uint8", "min": 0}),
                               ("text", {"dtype": "uint8", "scale": "1", "min": 0}), ("list", [])):
        yield bad(f"quantization_{name}", "a quantization without a sense", changed(quantization=quantization))
    yield bad("quantization_half", "whole numbers as 16-bit floats", changed(dtype="int32", quantization={"dtype": "float16"}))
    yield bad("quantization_bool", "truth values of integers", changed(dtype="bool", quantization={"dtype": "uint8", "scale": 1, "min": 0}))
    infinite = with_text(text.replace(b'"dtype": "float32"}', b'"dtype": "float32", "quantization": {"dtype": "uint8", "scale": 1e999, "min": 0}}', 1))
    yield bad("quantization_infinite", "a scale beyond binary64", infinite)
    word = Tensor("s", "string", [1], [b"abc"])
    long = plain([word])
    long["group1-shard1of1.bin"] = b"\xff\xff\xff\xff" + b"abc"
    yield bad("text_long", "a text that is longer than the file", long)
    many = plain([word])
    many["model.json"] = many["model.json"].replace(b"[1]", b"[2147483648]")
    yield bad("texts_many", "more texts than may be", many, "limit")
    few = plain([word])
    few["model.json"] = few["model.json"].replace(b"[1]", b"[5]")
    yield bad("texts_few", "fewer texts than are stated", few)
